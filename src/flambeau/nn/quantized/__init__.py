"""The old place of `flambeau.ao.nn.quantized`."""

from ...ao.nn.quantized import modules as modules
from . import dynamic as dynamic
