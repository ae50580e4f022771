"""torch._ops: what programs ask of an operator's type. Every overload of one is the operator itself here."""

from ... import _C
from ... import ops as ops
from ..._absent import refused_class
from ...ops.namespaces import Namespace, Overload, Packet, _AtenPacket

_OpNamespace = Namespace


class _Overloads(type):
    def __instancecheck__(cls, x):
        return isinstance(x, (_C.Op, Overload))


class _Packets(type):
    def __instancecheck__(cls, x):
        return isinstance(x, (Packet, _AtenPacket))


class OpOverload(metaclass=_Overloads):
    """The type of `torch.ops.aten.add.Tensor`, and of `torch.add`, which is the same object.

    >>> import flambeau
    >>> from flambeau.as_torch.tree._ops import OpOverload
    >>> isinstance(flambeau.ops.aten.add.Tensor, OpOverload), isinstance(len, OpOverload)
    (True, False)
    """


class OpOverloadPacket(metaclass=_Packets):
    """The type of `torch.ops.aten.add`."""


HigherOrderOperator = refused_class("_ops.HigherOrderOperator", "operators on functions are functions here: cond, map, "
                                    "scan and while_loop")
