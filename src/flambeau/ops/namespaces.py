"""`flambeau.ops.<namespace>.<name>`: operators by PyTorch's qualified names, those of libraries and `aten`'s own."""

from importlib import import_module

from .. import _C
from .kinds import ALIASES, OPS

_NAMESPACES, _LATE = {}, {}
#: "module": what tells of operators (`described_by`)
_DESCRIBING = {}


class _One:
    """What stands for an operator: there is one of each, which copies of graphs and tables keep."""

    def __deepcopy__(self, memo):
        return self


class Packet(_One):
    """All overloads of one operator, as `flambeau.ops.mylib.name`; a call goes to the first that takes the arguments.
    """

    def __init__(self, space, name):
        self._space, self.__name__ = space, name
        self._overloads = {}

    def _add(self, operator, overload):
        """Makes an operator its overload of that name."""
        self._overloads[overload] = made = Overload(operator, self, overload)
        setattr(self, overload, made)
        self._chosen()

    def _remove(self, overload):
        """Forgets one; whether others are left."""
        del self._overloads[overload]
        delattr(self, overload)
        if self._overloads:
            self._chosen()
        return bool(self._overloads)

    def _chosen(self):
        """_operator: that of the overload `default`, or of the first; _only: the one that every call is of."""
        self._operator = (self._overloads.get("default") or next(iter(self._overloads.values())))._operator
        self._only = self._operator if len(self._overloads) == 1 else None

    def __call__(self, *args, **kwargs):
        if self._only is not None:
            return self._only.op(*args, **kwargs)
        for each in self._overloads.values():
            if each._operator.schema.takes(args, kwargs):
                return each._operator.op(*args, **kwargs)
        kinds = ", ".join(type(a).__name__ for a in args) + "".join(f", {name}=" for name in kwargs)
        raise RuntimeError(f"{self._space}::{self.__name__}: no overload takes ({kinds}); there are "
                           f"{'; '.join(str(each._operator.schema) for each in self._overloads.values())}")

    def overloads(self):
        """The names of the overloads."""
        return list(self._overloads)

    @property
    def qualified(self):
        """The name with its namespace: "mylib::name"."""
        return f"{self._space}::{self.__name__}"

    def __str__(self):
        return f"{self._space}.{self.__name__}"

    def __repr__(self):
        return f"<OpOverloadPacket(op='{self}')>"


class Overload(_One):
    """One overload: what `__torch_dispatch__` gets as its `func`."""

    def __init__(self, operator, packet, overload):
        self._operator = operator
        self.overloadpacket = self._overloadpacket = packet
        self._opname, self._overloadname = packet.__name__, overload
        self.__name__ = f"{packet.__name__}.{overload}"
        self.namespace = operator.namespace
        self.tags = operator.tags

    def __call__(self, *args, **kwargs):
        return self._operator.op(*args, **kwargs)

    def name(self):
        """The qualified name."""
        return self._operator.qualified

    @property
    def _schema(self):
        return self._operator.signature

    @property
    def dispatch_rules(self):
        """{class of modes or tensors: what it does with this operator}."""
        return self._operator.dispatch_rules

    @property
    def qualified(self):
        """The name with its namespace: "mylib::name"."""
        return self._operator.qualified

    def __str__(self):
        return f"{self.namespace}.{self.__name__}"

    def __repr__(self):
        return f"<OpOverload(op='{self.namespace}.{self._opname}', overload='{self._overloadname}')>"


class Namespace:
    """The operators of one library."""

    def __init__(self, name):
        self._name = name

    def _register(self, name, packet):
        """Makes an operator an attribute."""
        setattr(self, name, packet)

    def _packet(self, name):
        """The packet of that name, made when it is new."""
        if not isinstance(vars(self).get(name), Packet):
            self._register(name, Packet(self._name, name))
        return vars(self)[name]

    def __getattr__(self, name):
        raise AttributeError(f"'_OpNamespace' '{self._name}' object has no attribute '{name}'")

    def __repr__(self):
        return f"<operators of the library '{self._name}'>"


class _AtenPacket(_One):
    """An operator under PyTorch's name: every overload of it is the one Op, which its dispatch hooks receive."""

    def __init__(self, op):
        self._op = op
        self.__name__ = op.name.removesuffix(".flat")

    def __call__(self, *args, **kwargs):
        return self._op(*args, **kwargs)

    def __getattr__(self, overload):
        if overload.startswith("_"):
            raise AttributeError(overload)
        return self._op

    def __str__(self):
        return f"aten.{self.__name__}"

    def __repr__(self):
        return f"<OpOverloadPacket(op='{self}')>"


class Reading(Overload):
    """What a graph with open sizes calls to read a number of a tensor's form: `flambeau.ops.aten.sym_size.int`."""

    def __init__(self, name, overload, read):
        self.__name__ = name if name.startswith("_") else f"{name}_{overload}"
        self._overloadname, self._read = overload, read
        self.namespace, self.qualified_name = "aten", f"aten::{name}"
        self._text = f"{name}(Tensor self{', int dim' * (name in ('sym_size', 'sym_stride'))}) -> Scalar"

    @property
    def _schema(self):
        return self._text

    def __call__(self, *args):
        return self._read(*args)

    def name(self):
        """The qualified name, with the overload."""
        return f"{self.qualified_name}.{self._overloadname}"

    @property
    def qualified(self):
        """The name with its namespace: "aten::sym_size"."""
        return self.qualified_name

    def __str__(self):
        return self.name().replace("::", ".")

    def __repr__(self):
        return f"<reading '{self.name()}'>"


def _assert_scalar(truth, text):
    """Inside a trace with open sizes the statement is taken for true, and asserted where the program runs."""
    node = getattr(truth, "node", None)
    if node is not None:
        node.shape_env.assume(node.expr, node)
    elif not truth:
        raise RuntimeError(f"_assert_scalar: {text} does not hold")


#: {what is read of a tensor, or asserted of what was read: the function that a graph calls}
READINGS = {
    "item": Reading("_local_scalar_dense", "default", lambda x: x.item()),
    "assert": Reading("_assert_scalar", "default", _assert_scalar),
    "size": Reading("sym_size", "int", lambda x, dim: x.size(dim)),
    "stride": Reading("sym_stride", "int", lambda x, dim: x.stride(dim)),
    "numel": Reading("sym_numel", "default", lambda x: x.numel()),
    "storage_offset": Reading("sym_storage_offset", "default", lambda x: x.storage_offset()),
}


class _ReadingPacket(_One):
    """A reading under its name without the overload."""

    def __init__(self, reading):
        self.__name__ = reading.qualified.partition("::")[2]
        setattr(self, reading._overloadname, reading)
        self._reading = reading

    def __call__(self, *args):
        return self._reading(*args)

    def __repr__(self):
        return f"aten.{self.__name__}"


_READING_PACKETS = {packet.__name__: packet for packet in map(_ReadingPacket, READINGS.values())}
#: what reads sizes that are plain numbers reads open ones as well
_READING_PACKETS |= {name: _READING_PACKETS[other] for name, other in (
    ("size", "sym_size"), ("stride", "sym_stride"), ("item", "_local_scalar_dense"))}


#: operators that no call here becomes, since they are ways in which PyTorch's kernels compute something -> what that is
_WAYS = {
    **{f"_scaled_dot_product_{way}{form}": "scaled_dot_product_attention" for form in ("", "_backward") for way in (
        "flash_attention", "efficient_attention", "cudnn_attention", "flash_attention_for_cpu",
        "fused_attention_overrideable")},
    **{f"_{way}_attention_{form}": "scaled_dot_product_attention" for form in ("forward", "backward")
       for way in ("flash", "efficient", "cudnn")},
    **dict.fromkeys(("cudnn_convolution", "miopen_convolution", "mkldnn_convolution", "_slow_conv2d_forward",
                     "_conv_depthwise2d"), "convolution"),
    **dict.fromkeys(("cudnn_batch_norm", "miopen_batch_norm"), "native_batch_norm"), "_cudnn_rnn": "nn.LSTM",
    "_fused_rms_norm": "rms_norm",
}


class _Way(_One):
    """Such an operator, in all its overloads: a name for tables of operators, as those of counters and of what
    checkpoints keep; a call refuses."""

    def __init__(self, name):
        self.__name__, self._instead = name, _WAYS[name]

    def __getattr__(self, overload):
        if overload.startswith("_"):
            raise AttributeError(overload)
        return self

    def __call__(self, *args, **kwargs):
        raise NotImplementedError(f"ops.aten.{self.__name__}: no operator here, only a name that tables may have; call "
                                  f"{self._instead}")

    def __repr__(self):
        return f"aten.{self.__name__}"


class Called(_One):
    """A function that is no operator here under the name of one, with all its overloads: for calls, and for tables of
    operators."""

    def __init__(self, space, name, function):
        self.namespace, self.__name__, self._function = space, name, function

    def __getattr__(self, overload):
        if overload.startswith("_"):
            raise AttributeError(overload)
        return self

    def __call__(self, *args, **kwargs):
        return self._function(*args, **kwargs)

    def __repr__(self):
        return f"{self.namespace}.{self.__name__}"


def _by_another_name(name):
    """The in-place form, or the operator of a record that gives further names: "absolute", "special_erf"."""
    op = ALIASES.get(name) or ALIASES.get(name.replace("_", ".", 1))
    if op is None and name.endswith("_"):
        plain = name.removesuffix("_")
        op = OPS.get(plain) or ALIASES.get(plain)
        op = op and op.inplace_form
    return op


class _Aten(Namespace):
    def __getattr__(self, name):
        if name in _READING_PACKETS:
            return _READING_PACKETS[name]
        import_module("flambeau.ops.aten_forms")  # not sooner: programs seldom ask
        op = OPS.get(name)
        if op is None or op.kind == "composite":  # its form with PyTorch's arguments, where it has another one
            op = OPS.get(f"{name}.flat", op)
        if op is None:
            op = _by_another_name(name)
        if op is not None:
            found = _AtenPacket(op)
        elif name in _WAYS:
            found = _Way(name)
        elif not name.startswith("__") and callable(getattr(_C.Tensor, name, None)):
            found = Called("aten", name, getattr(_C.Tensor, name))  # to, dim, is_pinned
        else:
            raise AttributeError(f"'_OpNamespace' 'aten' object has no attribute '{name}'")
        self._register(name, found)
        return getattr(self, name)


class _Records(Namespace):
    """The operators whose records say that they are public in this namespace."""

    def __getattr__(self, name):
        op = OPS.get(name)
        if op is None or op.namespace != f"ops.{self._name}":
            return super().__getattr__(name)
        self._register(name, _AtenPacket(op))
        return getattr(self, name)


_NAMESPACES["aten"] = _Aten("aten")
_NAMESPACES["torchvision"] = _Records("torchvision")


def _packet_of(op):
    """What stands for all overloads of an operator: `flambeau.ops.aten.add` of `add`."""
    return getattr(_NAMESPACES["aten"], op.name.partition(".")[0])


_C.Op.overloadpacket = _C.Op._overloadpacket = property(_packet_of)
_C.Op._overloadname = property(lambda op: import_module(_DESCRIBING["module"]).overload_name(op))
_C.Op._schema = property(lambda op: import_module(_DESCRIBING["module"]).schema(op))
_C.Op.tags = property(lambda op: import_module(_DESCRIBING["module"]).tags(op))
_C.Op.__str__ = lambda op: f"aten.{op.name.partition('.')[0]}.{op._overloadname}"


def operator_of(space, name):
    """What `ops.space.name` calls, or None: an operator's packet and nothing else that a namespace has."""
    found = getattr(known(space), name, None) if known(space) is not None else None
    return found if isinstance(found, (Packet, _AtenPacket, _ReadingPacket)) else None


def late(name, module):
    """Makes a namespace known that stands on more than operators do: `module.space(name)` makes it when it is asked
    for."""
    _LATE[name] = module


def described_by(module):
    """Names what tells of operators when one is asked: `schema(op)`, `tags(op)`, `overload_name(op)` of it."""
    _DESCRIBING["module"] = module


def namespace(name):
    """The namespace of that name, made when it is new."""
    return known(name) or _NAMESPACES.setdefault(name, Namespace(name))


def known(name):
    """The namespace of that name, or None."""
    if name in _LATE and name not in _NAMESPACES:
        _NAMESPACES[name] = import_module(_LATE[name]).space(name)
    return _NAMESPACES.get(name)
