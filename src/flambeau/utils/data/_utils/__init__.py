"""Parts of the loader that programs import by name."""

from . import collate as collate
