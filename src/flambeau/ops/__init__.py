"""Every operator: one record each, one file per family."""

from . import conv as conv
from . import conversion as conversion
from . import einsum as einsum
from . import linalg as linalg
from . import pooling as pooling
from . import spatial as spatial
from .kinds import OPS as OPS
from .kinds import public as public
