"""The libraries and devices that compute, with the queries and switches that programs expect of them."""

import sys

from . import _switches
from . import cpu as cpu
from . import cuda as cuda
from . import cudnn as cudnn
from . import mkl as mkl
from . import mkldnn as mkldnn
from . import mps as mps
from . import openmp as openmp
from . import opt_einsum as opt_einsum
from . import quantized as quantized
from ._switches import freeze as disable_global_flags
from ._switches import frozen as flags_frozen
from ._switches import thawed as __allow_nonbracketed_mutation


class _Precision(_switches.Module):
    fp32_precision = property(lambda self: _switches.precision("all"),
                              lambda self, value: _switches.set_precision("all", value),
                              doc="The precision of float32 products where none of its own is set.")


sys.modules[__name__].__class__ = _Precision
