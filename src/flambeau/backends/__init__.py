"""The libraries and devices that compute, with the queries and switches that programs expect of them."""

from . import cpu as cpu
from . import cuda as cuda
from . import cudnn as cudnn
from . import mkl as mkl
from . import mkldnn as mkldnn
from . import mps as mps
from . import openmp as openmp
from . import opt_einsum as opt_einsum
from . import quantized as quantized
