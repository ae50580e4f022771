"""Parts of the loader that programs reach by name."""

from . import collate as collate
