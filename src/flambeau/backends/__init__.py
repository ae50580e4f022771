"""What computes: libraries and devices programs ask about or set switches of."""

from . import cpu as cpu
from . import cuda as cuda
from . import cudnn as cudnn
from . import mkl as mkl
from . import mkldnn as mkldnn
from . import mps as mps
from . import openmp as openmp
