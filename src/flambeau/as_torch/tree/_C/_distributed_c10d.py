"""torch._C._distributed_c10d: the types and values of process groups."""

from ....distributed import DebugLevel as DebugLevel
from ....distributed import FileStore as FileStore
from ....distributed import HashStore as HashStore
from ....distributed import PrefixStore as PrefixStore
from ....distributed import ProcessGroup as ProcessGroup
from ....distributed import ReduceOp as ReduceOp
from ....distributed import Store as Store
from ....distributed import TCPStore as TCPStore
from ....distributed import Work as Work
from ....distributed import get_debug_level as get_debug_level
from ....distributed._elsewhere import FakeProcessGroup as FakeProcessGroup
from ....distributed._elsewhere import Logger as Logger
from ....distributed._elsewhere import Reducer as Reducer
from ....distributed._groups import _resolve_process_group as _resolve_process_group

#: bytes of the first bucket of gradients that DistributedDataParallel would send
_DEFAULT_FIRST_BUCKET_BYTES = 1 << 20
