"""The steps of a program in a file: which function of this library a target there is, and how a call of ours is
written. Functions are found in tables; a file reaches nothing else.
"""

import inspect
import math
import operator

from .. import _C
from .._aten.lookup import AtenOverload, aten
from .._aten.overloads import Argument, fitting
from .._aten.spelling import OTHER_MEANINGS, spelled
from .._shown import shown
from .._symbolic import numbers
from ..fx._targets import INFIX
from ..ops import OPS
from ..ops.namespaces import READINGS, Overload, Packet, Reading, known
from ._higher_order import HIGHER_ORDER
from ._schema import OWN

#: {module there: {name: function}} of the functions of numbers that a program may call
_FUNCTIONS = {
    "_operator": {name: getattr(operator, name) for name in (*INFIX, "abs") if name not in ("getitem", "matmul")},
    "math": {name: getattr(math, name) for name in ("trunc", "floor", "ceil", "sqrt")},
    "builtins": {"round": round},
    "torch": {name: getattr(numbers, name) for name in ("sym_int", "sym_float", "sym_not", "sym_max", "sym_min",
                                                        "sym_ite", "sym_sum", "sym_sqrt")},
}
_READ = {READINGS["item"]: ("item", "default", ("self",)),
         READINGS["assert"]: ("_assert_scalar", "default", ("self", "assert_msg")),
         READINGS["size"]: ("sym_size", "int", ("self", "dim")),
         READINGS["stride"]: ("sym_stride", "int", ("self", "dim")),
         READINGS["numel"]: ("sym_numel", "default", ("self",)),
         READINGS["storage_offset"]: ("sym_storage_offset", "default", ("self",))}


class Unknown(Exception):
    """A target that this library does not have."""


# ---- reading ---------------------------------------------------------------------------------------------------------

def read_target(text, args=None):
    """The function that a target in a file names, for a call with these arguments by place; Unknown where there is
    none."""
    parts = str(text).split(".")
    if parts[:2] == ["torch", "ops"] and len(parts) >= 4:
        return _read_operator(parts[2], ".".join(parts[3:]), args)
    found = _FUNCTIONS.get(parts[0], {}).get(parts[1]) if len(parts) == 2 else None
    if found is None:
        raise Unknown(text)
    return found


def _read_operator(space, rest, args):
    name, _, overload = rest.partition(".")
    overload = overload or "default"
    found = None
    if space == "aten":
        found = aten(name, overload, args)
    elif space == "higher_order":
        found = HIGHER_ORDER.get(name)
    elif space == OWN:  # parts of operators' names are apart by dots, in-place forms end in _
        found = _own(rest.removesuffix(".default"))
    elif known(space) is not None:
        packet = vars(known(space)).get(name) or (space == "torchvision" and getattr(known(space), name, None))
        found = packet.default if isinstance(packet, Packet) else getattr(packet, "_op", None)
    if found is None:
        raise Unknown(f"torch.ops.{space}.{rest}")
    return found


def _own(name):
    if name in OPS:
        return OPS[name]
    base = OPS.get(name.removesuffix("_"))
    return base.inplace_form if base is not None and name.endswith("_") else None


# ---- writing ---------------------------------------------------------------------------------------------------------

class Written:
    """A call as a file has it: target, [(Argument, value)], and what its result is made of.

    lists       the result is a list of tensors and not a tuple
    item        the result is the first of several
    """

    def __init__(self, target, arguments, lists=False, item=False):
        self.target, self.arguments, self.lists, self.item = target, arguments, lists, item


def _positional(names, args):
    """Arguments by place, under their names where they have some."""
    names = [*names, *(f"arg{k}" for k in range(len(names), len(args)))]
    return [(Argument("*", name, False, False), value) for name, value in zip(names, args)]


def _by_name(kwargs):
    return [(Argument("*", name, True, True), value) for name, value in kwargs.items()]


def write_call(node):
    """The call of a Node that is no control flow."""
    target = node.target
    if isinstance(target, Reading):
        name, overload, names = _READ[target]
        return Written(f"torch.ops.aten.{name}.{overload}", _positional(names, node.args))
    for module, table in _FUNCTIONS.items():
        for name, function in table.items():
            if function is target:
                return Written(f"{module}.{name}", _positional("abcd", node.args))
    if isinstance(target, AtenOverload):
        return _with_overload(target.op_name, node.args, node.kwargs, target._overloadname)
    if isinstance(target, (Overload, Packet)):
        return _of_library(target, node)
    if isinstance(target, _C.Op):
        return _of_operator(target, node)
    raise NotImplementedError(f"export.save: the graph calls {shown(getattr(target, '__name__', target))}, which is no "
                              "operator; make it one by flambeau.library.custom_op")


def _with_overload(name, args, kwargs, overload=None):
    found = fitting(name, args, kwargs, overload)
    if found is None:
        if overload is not None:
            raise NotImplementedError(f"export.save: no overload of aten.{name} takes the arguments that "
                                      f"{name}.{overload} has in the graph")
        return None
    form, bound = found
    return Written(f"torch.ops.aten.{name}.{overload or form.name}", [(a._replace(by_name=by_name), value)
                                                         for a, value, by_name in bound], form.lists)


def _of_operator(op, node):
    """By aten's name where a call there means the same; by this library's own name elsewhere."""
    name, args, kwargs, item = spelled(op, node.args, dict(node.kwargs))
    if name.startswith("ops."):
        return _named(f"torch.{name}.default", op, node)
    found = None if op.name in OTHER_MEANINGS else _with_overload(name.removeprefix("torch."), tuple(args), kwargs)
    if found is None:
        return _named(f"torch.ops.{OWN}.{op.name}.default", op, node)
    found.item = bool(item)
    return found


def _named(target, op, node):
    names = inspect.signature(op).parameters if op.arguments is None else [name for name, *_ in op.arguments]
    return Written(target, [*_positional(names, node.args), *_by_name(node.kwargs)])


def _of_library(target, node):
    schema = target._schema if isinstance(target, Overload) else target.default._schema
    call = [*_positional([a.name for a in schema.arguments], node.args), *_by_name(node.kwargs)]
    return Written(f"torch.ops.{target.qualified.replace('::', '.')}.default", call)
