"""Starting processes from a program: `elastic_launch(config, function)(arguments)`."""

from .api import LaunchConfig as LaunchConfig
from .api import elastic_launch as elastic_launch
from .api import launch_agent as launch_agent
