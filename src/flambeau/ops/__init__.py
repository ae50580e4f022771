"""Every operator: one record each, one file per family."""

from .._shown import shown
from . import activation as activation
from . import arithmetic as arithmetic
from . import attention as attention
from . import comparison as comparison
from . import composed as composed
from . import conv as conv
from . import conversion as conversion
from . import copies as copies
from . import creation as creation
from . import ctc as ctc
from . import distance as distance
from . import einsum as einsum
from . import embedding_bag as embedding_bag
from . import factorization as factorization
from . import flat as flat
from . import fourier as fourier
from . import fractional_pooling as fractional_pooling
from . import grid_sample as grid_sample
from . import indexing as indexing
from . import joining as joining
from . import linalg as linalg
from . import loss as loss
from . import low_rank as low_rank
from . import margin_loss as margin_loss
from . import matrix_functions as matrix_functions
from . import movement as movement
from . import node_names as node_names
from . import normalization as normalization
from . import numeric as numeric
from . import pooling as pooling
from . import random as random
from . import recurrent as recurrent
from . import reduction as reduction
from . import resize as resize
from . import scan as scan
from . import selection as selection
from . import softmax as softmax
from . import solving as solving
from . import sorting as sorting
from . import spatial as spatial
from . import special as special
from . import spectral as spectral
from . import spectrogram as spectrogram
from . import statistics as statistics
from . import transcendental as transcendental
from . import windows as windows
from .kinds import OPS as OPS
from .kinds import public as public
from .namespaces import known as _known

node_names.apply()


def __getattr__(name):
    found = _known(name)
    if found is None:
        raise AttributeError(f"module {__name__!r} has no attribute or operator library {shown(name)}")
    return found
