"""Parts of the loader; some programs import them by name."""

from . import collate as collate
from . import fetch as fetch
from . import pin_memory as pin_memory
from . import worker as worker
