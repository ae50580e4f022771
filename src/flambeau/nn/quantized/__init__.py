"""The old place of `flambeau.ao.nn.quantized`."""

from ...ao.nn.quantized import FloatFunctional as FloatFunctional
from ...ao.nn.quantized import FXFloatFunctional as FXFloatFunctional
from ...ao.nn.quantized import QFunctional as QFunctional
from ...ao.nn.quantized import modules as modules
from . import dynamic as dynamic
