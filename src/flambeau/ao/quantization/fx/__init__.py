"""Quantization of graphs: fusing, observing, the form of reference, and the operators on codes."""

from . import custom_config as custom_config
from . import graph_module as graph_module
