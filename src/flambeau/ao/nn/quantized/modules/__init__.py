"""How weights of linear layers are packed."""

from . import linear as linear
from .linear import LinearPackedParams as LinearPackedParams
