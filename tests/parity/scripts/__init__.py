"""Small programs as people write them for `jit.script`: each runs under both libraries."""

from . import classes as classes
from . import composed as composed
from . import containers as containers
from . import longer as longer
from . import modules as modules
from . import refused as refused
from . import repositories as repositories
from . import statements as statements
from . import tensors as tensors
from . import values as values
