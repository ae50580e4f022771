"""Hooks that decide how DistributedDataParallel exchanges its gradients."""

from . import default_hooks as default_hooks
from . import post_localSGD_hook as post_localSGD_hook
from . import powerSGD_hook as powerSGD_hook
