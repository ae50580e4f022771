"""Every operator: one record each, one file per family."""

from .._shown import shown
from . import activation as activation
from . import arithmetic as arithmetic
from . import attention as attention
from . import comparison as comparison
from . import compressed as compressed
from . import conv as conv
from . import copies as copies
from . import creation as creation
from . import ctc as ctc
from . import cumulative as cumulative
from . import diagonals as diagonals
from . import differences as differences
from . import distances as distances
from . import eigenvalues as eigenvalues
from . import einsum as einsum
from . import embedding as embedding
from . import factorization as factorization
from . import folding as folding
from . import fourier as fourier
from . import fractional_pooling as fractional_pooling
from . import frequencies as frequencies
from . import grid_sample as grid_sample
from . import histograms as histograms
from . import indexing as indexing
from . import joining as joining
from . import linear as linear
from . import losses as losses
from . import low_rank as low_rank
from . import many as many
from . import margin_losses as margin_losses
from . import masks as masks
from . import matrix_functions as matrix_functions
from . import normalization as normalization
from . import norms as norms
from . import optimization as optimization
from . import padding as padding
from . import pooling as pooling
from . import products as products
from . import quantization as quantization
from . import random as random
from . import rearranging as rearranging
from . import recurrent as recurrent
from . import reductions as reductions
from . import regions as regions
from . import resize as resize
from . import segments as segments
from . import softmax as softmax
from . import solving as solving
from . import sorting as sorting
from . import special as special
from . import splitting as splitting
from . import statistics as statistics
from . import stft as stft
from . import top_level as top_level
from . import transcendental as transcendental
from . import view_copies as view_copies
from . import views as views
from . import windows as windows
from .kinds import OPS as OPS
from .kinds import public as public
from .namespaces import described_by as described_by
from .namespaces import late as late
from .namespaces import namespace as _namespace


def load_library(path):
    """OSError: a library of operators that is compiled against PyTorch cannot be loaded."""
    raise OSError(f"ops.load_library: {shown(path)} is compiled against PyTorch's C++ interface, which is not here; "
                  "define its operators by flambeau.library.custom_op, or its kernels by utils.cpp_extension")


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(f"module {__name__!r} has no attribute {shown(name)}")
    return _namespace(name)  # a library may be asked for before it has operators: what is missing then is the operator
