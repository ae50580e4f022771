"""What starting processes together needs."""

from . import distributed as distributed
