"""Every operator: one record each, one file per family."""

from . import conversion as conversion
from .kinds import OPS as OPS
from .kinds import public as public
