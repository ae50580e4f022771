"""Every operator: one record each, one file per family."""

from . import attention as attention
from . import conv as conv
from . import conversion as conversion
from . import creation as creation
from . import einsum as einsum
from . import indexing as indexing
from . import joining as joining
from . import linalg as linalg
from . import loss as loss
from . import margin_loss as margin_loss
from . import movement as movement
from . import normalization as normalization
from . import pooling as pooling
from . import random as random
from . import reduction as reduction
from . import scan as scan
from . import softmax as softmax
from . import sorting as sorting
from . import spatial as spatial
from . import statistics as statistics
from .kinds import OPS as OPS
from .kinds import public as public
