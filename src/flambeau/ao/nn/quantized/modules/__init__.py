"""How weights of linear layers are packed; operators as modules."""

from . import functional_modules as functional_modules
from . import linear as linear
from .functional_modules import FloatFunctional as FloatFunctional
from .functional_modules import FXFloatFunctional as FXFloatFunctional
from .functional_modules import QFunctional as QFunctional
from .linear import LinearPackedParams as LinearPackedParams
