"""The collectives as PyTorch's operators: `ops.c10d.allreduce_` where a program calls, `ops.c10d_functional.all_reduce`
where a DTensor does, or a function of `_functional_collectives`.
"""

import sys

from ....ops.namespaces import namespace

#: name of our function -> (PyTorch's operator in c10d, in c10d_functional or None)
_OPERATORS = {
    "all_reduce": ("allreduce_", "all_reduce"), "all_reduce_coalesced": ("allreduce_coalesced_", None),
    "broadcast": ("broadcast_", "broadcast"), "reduce": ("reduce_", None), "gather": ("gather_", None),
    "gather_into_tensor": ("gather_", None), "scatter": ("scatter_", None),
    "all_gather": ("allgather_", "all_gather_into_tensor"), "all_gather_coalesced": ("allgather_coalesced_", None),
    "all_gather_into_tensor": ("_allgather_base_", "all_gather_into_tensor"),
    "reduce_scatter": ("reduce_scatter_", "reduce_scatter_tensor"),
    "reduce_scatter_tensor": ("_reduce_scatter_base_", "reduce_scatter_tensor"),
    "all_to_all": ("alltoall_", "all_to_all_single"), "all_to_all_single": ("alltoall_base_", "all_to_all_single")}
_DTENSOR = ("flambeau.distributed.tensor.", "flambeau.distributed._functional_collectives")
_BETWEEN = ("flambeau.distributed._collectives", "flambeau.distributed._where", "flambeau.distributed._autograd",
            __name__.rpartition(".")[0])


class Collective:
    """The name of a collective, as a key of counts."""

    def __init__(self, space, name, function):
        self.__name__, self._qualified, self._function = name, f"{space}.{name}", function

    def __call__(self, *args, **kwargs):
        raise NotImplementedError(f"ops.{self._qualified}: it is a name to count by; call flambeau.distributed."
                                  f"{self._function}")

    def __repr__(self):
        return self._qualified


def _register(space, column):
    """{our function: the Collective}, which are attributes of `ops.<space>`."""
    found = {}
    for function, names in _OPERATORS.items():
        name = names[column]
        if name is not None:
            place = namespace(space)
            if name not in vars(place):
                place._register(name, Collective(space, name, function))
            found[function] = getattr(place, name)
    return found


_PLAIN, _FUNCTIONAL = _register("c10d", 0), _register("c10d_functional", 1)


def of_call(name):
    """The Collective of a call that is being made; None for messages and barriers, which are not counted."""
    frame = sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__", "").startswith(_BETWEEN):
        frame = frame.f_back
    caller = "" if frame is None else frame.f_globals.get("__name__", "")
    return (_FUNCTIONAL.get(name) if caller.startswith(_DTENSOR) else None) or _PLAIN.get(name)
