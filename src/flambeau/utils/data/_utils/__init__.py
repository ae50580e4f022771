"""Parts of the loader; some programs import them by name."""

import atexit

from . import collate as collate
from . import fetch as fetch
from . import pin_memory as pin_memory
from . import signal_handling as signal_handling
from . import worker as worker

# --- what packages with loaders of their own ask ----------------------------------------------------------------------

#: seconds after which one that waits for another process looks whether it still runs
MP_STATUS_CHECK_INTERVAL = 5.0
HAS_NUMPY = True  # the package depends on it
#: whether Python is ending: processes need not be told any more
python_exit_status = False


@atexit.register
def _ending():
    global python_exit_status
    python_exit_status = True
