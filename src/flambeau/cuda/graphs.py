"""Recorded work, under PyTorch's name of the module."""

from ._graphed import make_graphed_callables as make_graphed_callables
from ._graphs import CUDAGraph as CUDAGraph
from ._graphs import graph as graph
from ._graphs import graph_pool_handle as graph_pool_handle
from ._graphs import is_current_stream_capturing as is_current_stream_capturing
