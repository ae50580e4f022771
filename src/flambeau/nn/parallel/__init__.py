"""One module on several devices. There is one device here, the CPU: a module wrapped by DataParallel runs as it is."""

from .apply import parallel_apply as parallel_apply
from .data_parallel import DataParallel as DataParallel
from .data_parallel import data_parallel as data_parallel
from .distributed import DistributedDataParallel as DistributedDataParallel
from .replicate import replicate as replicate
from .scatter_gather import gather as gather
from .scatter_gather import scatter as scatter
from .scatter_gather import scatter_kwargs as scatter_kwargs
