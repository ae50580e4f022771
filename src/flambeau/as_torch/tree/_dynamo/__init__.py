"""torch._dynamo: what programs ask of PyTorch's compiler, as far as it means something here."""

from ....compiler import allow_in_graph as allow_in_graph
from ....compiler import assume_constant_result as assume_constant_result
from ....compiler import compile
from ....compiler import disable as disable
from ....compiler import explain as explain
from ....compiler import is_compiling as is_compiling
from ....compiler import list_backends as list_backends
from ....compiler import lookup_backend as lookup_backend
from ....compiler import nonstrict_trace as nonstrict_trace
from ....compiler import register_backend as register_backend
from ....compiler import reset as reset
from ....compiler import set_stance as set_stance
from ....compiler import substitute_in_graph as substitute_in_graph
from . import config as config
from . import eval_frame as eval_frame
from . import exc as exc
from . import utils as utils
from .eval_frame import OptimizedModule as OptimizedModule
from .eval_frame import is_dynamo_supported as is_dynamo_supported


def optimize(backend="inductor", *, nopython=False, disable=False, dynamic=None):
    """A decorator: `torch.compile` under its first name."""
    return lambda fn: compile(fn, fullgraph=nopython, backend=backend, disable=disable, dynamic=dynamic)


def graph_break(msg=""):
    """Ends a graph: there is none."""


def mark_dynamic(t, index, *, hint_override=None, min=None, max=None, specialize_on=None):
    """Says that a size may change: any size may, since nothing is compiled for one."""


def mark_static(t, index=None):
    """Says that sizes stay, all of them where `index` is None: nothing is compiled for other sizes."""


def mark_static_address(t, guard=False):
    """Says that a tensor keeps its memory: a plan asks for that of its inputs in each call."""


maybe_mark_dynamic = mark_unbacked = mark_dynamic
