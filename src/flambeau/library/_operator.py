"""A library's own operator: from the call through autograd and dispatch down to the registered implementation.

The native argument parser fills defaults and honours `__torch_function__`; below it stand, in this order, what is
registered for autocast, the autograd formula, dispatch modes and subclasses, the fake implementation (tensors without
values), and the kernel of the device.
"""

import functools

from .. import _C
from .._shown import shown
from .._subclasses.fake import UnsupportedOperatorException
from .._tensor.overriding import dispatches, handle_torch_dispatch
from ..amp.autocast_mode import is_autocast_enabled
from ..autograd.function import Function
from ..ops.kinds import LIBRARY, OPS, differentiated
from ..ops.namespaces import namespace
from ._fake_sizes import answering
from ._function_schema import FunctionSchema
from ._schema import parse

_KINDS = {"CPU": "cpu", "CUDA": "cuda", "Meta": "meta", "XPU": "xpu", "MPS": "mps", "HPU": "hpu", "MTIA": "mtia",
          "PrivateUse1": "privateuseone"}
#: dispatch keys and device names -> the slot an implementation goes to
SLOTS = {"CompositeExplicitAutograd": None, "CompositeImplicitAutograd": "composite", "Autograd": "autograd",
         **_KINDS, **{kind: kind for kind in _KINDS.values()},
         **{f"Autograd{key}": f"autograd {kind}" for key, kind in _KINDS.items()},
         **{f"Autocast{key}": f"autocast {kind}" for key, kind in _KINDS.items()},
         "default": None, "": None}


_ABOVE = {slot for slot in SLOTS.values() if slot and slot.startswith("auto")}


class Operator:
    """One registered operator. `kernels` maps a device type (None: any) to its implementation."""

    def __init__(self, name, schema, tags=()):
        self.namespace, self.name = name.split("::")
        base, _, overload = self.name.partition(".")
        self.qualified = name
        self.schema = schema
        self.tags, self.alias_analysis = list(tags), ""
        self.fresh = False  # whether its results must share no memory with anything, as custom_op asks
        self.kernels = {}
        self.fake = self.backward = self.setup_context = self.vmap = None
        self.dispatch_rules = {}
        self.op = LIBRARY[name] = _C.define("composite", schema.native(name), "default", None, self.run, None, False,
                                            False, False, f"{schema.text}", "none")
        self.overload = overload or "default"
        self.recorded = type(f"GeneratedBackwardFor_{self.namespace}_{base}_{self.overload}", (_Recorded,), {})
        self.packet = namespace(self.namespace)._packet(base)
        self.packet._add(self, self.overload)

    def __repr__(self):
        return f"{self.namespace}.{self.name}"

    @functools.cached_property
    def signature(self):
        """The FunctionSchema that programs ask."""
        return FunctionSchema(self.schema.text)

    # --- the call, from the top ------------------------------------------------------------------------------------

    def run(self, *args, **kwargs):
        """One call, its arguments parsed and complete."""
        if self.schema.dtypes:
            args, kwargs = self._with_dtypes(args, kwargs)
        tensors = _tensors((*args, *kwargs.values()))
        above = None if _ABOVE.isdisjoint(self.kernels) else self._above(tensors)
        if above is not None:
            return above(*args, **kwargs)
        return self._recorded(args, kwargs) if differentiated(*tensors) else self._below(args, kwargs, tensors)

    def _with_dtypes(self, args, kwargs):
        args = [self.schema.dtypes.get(k) if a is None else a for k, a in enumerate(args)]
        named = {self.schema.arguments[k].name: dtype for k, dtype in self.schema.dtypes.items() if k >= len(args)}
        return args, {**kwargs, **{name: dtype for name, dtype in named.items() if kwargs.get(name) is None}}

    def _above(self, tensors):
        """What is registered for autocast, where it is on; what is registered in the place of autograd; or None."""
        casting = (self.kernels[f"autocast {kind}"] for kind in _KINDS.values()
                   if f"autocast {kind}" in self.kernels and is_autocast_enabled(kind))
        kinds = {t.device.type for t in tensors}
        return next(casting, None) or next((self.kernels[slot] for slot in
                                            ("autograd", *(f"autograd {kind}" for kind in kinds))
                                            if slot in self.kernels), None)

    def _recorded(self, args, kwargs):
        if "composite" in self.kernels and self.backward is None:
            return self.below_autograd(args, kwargs)
        written = self.schema.mutated
        if written:
            for argument, value in zip(self.schema.arguments, args, strict=False):
                for t in _tensors([value]) if argument.name in written else ():
                    if t.requires_grad and t.is_leaf:
                        raise RuntimeError(f"{self.qualified}: it writes into a leaf that requires grad; pass a copy, "
                                           "or call it under no_grad")
            if self.schema.returns in (("()",), ()):
                before = _C.set_grad_enabled(False)
                try:
                    return self.below_autograd(args, kwargs)
                finally:
                    _C.set_grad_enabled(before)
        flat, spec = _flattened(args)
        return _unlisted(self.recorded.apply(self, kwargs, spec, *flat))

    def below_autograd(self, args, kwargs):
        """Modes and subclasses, then the implementation."""
        return self._below(args, kwargs, _tensors((*args, *kwargs.values())))

    def _below(self, args, kwargs, tensors):
        if dispatches(tensors):
            return handle_torch_dispatch(getattr(self.packet, self.overload), args, kwargs)
        devices = {t.device.type for t in tensors}
        if "meta" in devices:
            return self.fake_result(args, kwargs)
        kernel = next((self.kernels[d] for d in (*devices, None, "composite") if d in self.kernels), None)
        if kernel is None:
            where = ", ".join(sorted(devices)) or "a call without tensors"
            raise NotImplementedError(f"{self.qualified}: no implementation for {where}; register one with "
                                      "flambeau.library.impl or register_kernel")
        versions = [t._version for t in tensors]
        result = kernel(*args, **kwargs)
        self._bump(args, kwargs, tensors, versions)
        if self.fresh:
            self._check_fresh(result, tensors)
        return result

    def fake_result(self, args, kwargs, mode=None):
        """The result without values, of tensors on `meta` or of those of a FakeTensorMode."""
        implementation = self.fake or self.kernels.get("meta") or self.kernels.get("composite")
        if implementation is None:
            if self.schema.returns in (("()",), ()):
                return None
            raise UnsupportedOperatorException(
                f"{self.qualified}: nothing says which shape and dtype its result has without data; add a function "
                f"that does with `{self.name}.register_fake`")
        with answering(getattr(self.packet, self.overload), mode):
            return implementation(*args, **kwargs)

    def _bump(self, args, kwargs, tensors, versions):
        """A write that the implementation made behind the tensors' back (through NumPy, say) counts as one."""
        written = self.schema.mutated
        if not written:
            return
        given = dict(zip((a.name for a in self.schema.arguments), args, strict=False)) | kwargs
        before = {id(t): v for t, v in zip(tensors, versions, strict=True)}
        for name in written:
            for t in _tensors([given.get(name)]):
                if t._version == before[id(t)]:
                    _C.bump_version(t)

    def _check_fresh(self, result, tensors):
        places = {_C.storage_id(t) for t in tensors if t.numel()}
        for t in _tensors(result if isinstance(result, (tuple, list)) else [result]):
            place = _C.storage_id(t) if t.numel() else 0
            if place and place in places:
                raise RuntimeError(
                    f"{self.qualified}: it returns an input, or one tensor twice, and results of a custom operator "
                    "share no memory with anything; return a clone (x.clone()) instead")
            places.add(place)  # 0: it has no memory


class _Recorded(Function):
    """The operator's node: backward is the formula that was registered; inside vmap, the batched form that was."""

    @staticmethod
    def forward(operator, kwargs, spec, *flat):
        result = operator.below_autograd(_restored(flat, spec), kwargs)
        return _List(result) if isinstance(result, list) else result

    @staticmethod
    def setup_context(ctx, inputs, output):
        operator, kwargs, spec, *flat = inputs
        ctx.operator, ctx.spec, ctx.listed = operator, spec, isinstance(output, _List)
        ctx.set_materialize_grads(operator.backward is not None)
        if operator.setup_context is not None:
            given = {"inputs": _restored(flat, spec), "output": _unlisted(output)}
            operator.setup_context(ctx, **given, **({"keyword_only_inputs": kwargs} if kwargs else {}))

    @staticmethod
    def vmap(info, in_dims, operator, kwargs, spec, *flat):
        args, dims = _restored(flat, spec), _restored(in_dims[3:], spec)
        if operator.vmap is not None:
            result, out_dims = operator.vmap(info, dims, *args, **kwargs)
            return (_List(result) if isinstance(result, list) else result), out_dims
        each = [operator.op(*(_element(a, d, k) for a, d in zip(args, dims, strict=True)), **kwargs)
                for k in range(info.batch_size)]
        if isinstance(each[0], (tuple, list)):
            stacked = tuple(OPS["stack"](list(parts)) for parts in zip(*each, strict=True))
            return (_List(stacked) if isinstance(each[0], list) else stacked), (0,) * len(stacked)
        return OPS["stack"](each), 0

    @staticmethod
    def backward(ctx, *grads):
        operator = ctx.operator
        if operator.backward is None:
            raise RuntimeError(f"{operator.qualified}: this operator has no derivative; add one with register_autograd")
        if ctx.listed:
            grads = (list(grads),)
        found = operator.backward(ctx, *grads)
        found = found if isinstance(found, tuple) else (found,)
        expected = len(ctx.spec)
        if len(found) != expected:
            raise RuntimeError(f"{operator.qualified}: the backward formula returned {len(found)} gradients for "
                               f"{expected} arguments; return one (or None) per argument")
        return (None, None, None, *_spread(found, ctx.spec))


class _List(tuple):
    """A list of results on its way through Function, which knows tuples."""


def _unlisted(result):
    return list(result) if isinstance(result, _List) else result


def _element(value, dim, k):
    """Element k of a batched argument (of each tensor in a list)."""
    if isinstance(value, list):
        return [_element(v, d, k) for v, d in zip(value, dim, strict=True)]
    return value if dim is None else OPS["select"](value, dim, k)


def _tensors(values):
    found = []
    for v in values:
        if isinstance(v, _C.Tensor):
            found.append(v)
        elif isinstance(v, (list, tuple)):
            found += [t for t in v if isinstance(t, _C.Tensor)]
    return found


def _flattened(args):
    """Lists of tensors laid out one by one, and how many each argument became (None: not a list)."""
    flat, spec = [], []
    for a in args:
        listed = isinstance(a, (list, tuple)) and any(isinstance(x, _C.Tensor) for x in a)
        spec.append(len(a) if listed else None)
        flat.extend(a if listed else [a])
    return flat, tuple(spec)


def _restored(flat, spec):
    args, at = [], 0
    for count in spec:
        args.append(flat[at] if count is None else list(flat[at:at + count]))
        at += 1 if count is None else count
    return tuple(args)


def _spread(grads, spec):
    for g, count in zip(grads, spec, strict=True):
        if count is None:
            yield g
        else:
            yield from (g if g is not None else [None] * count)


OPERATORS = {}
#: operator that does not exist yet -> functions that put into it what was registered before; packages do so for
#: operators of compiled libraries, and where the order of their files has it so
AWAITED = {}


def define(name, text, tags=()):
    """Registers `ns::name` with a schema; an operator of that name is replaced."""
    if name.count("::") != 1 or not all(name.split("::")):
        raise ValueError(f"custom operator {shown(name)}: expected a name of the form \"namespace::name\"")
    schema = parse(name + text if text.lstrip().startswith("(") else text)
    operator = OPERATORS[name] = Operator(name, schema, tags)
    for put in AWAITED.pop(name, ()):
        put(operator)
    return operator


def forget(operator):
    """The operator is there no more."""
    if OPERATORS.get(operator.qualified) is operator:
        del OPERATORS[operator.qualified], LIBRARY[operator.qualified]
        if not operator.packet._remove(operator.overload):
            delattr(namespace(operator.namespace), operator.packet.__name__)


def once_defined(name, put):
    """Calls put(operator) with the operator of that name: now, or when it is defined."""
    if isinstance(name, str) and name.removesuffix(".default") not in OPERATORS:
        AWAITED.setdefault(name.removesuffix(".default"), []).append(put)
    else:
        put(find(name))


def find(name):
    """The operator of that name (or the object itself)."""
    name = getattr(name, "qualified", name)
    if not isinstance(name, str):
        raise ValueError(f"an operator is expected, or its name (\"namespace::name\"), got {shown(name)}")
    if name.removesuffix(".default") not in OPERATORS:
        raise RuntimeError(f"operator {name} does not exist; register it with flambeau.library.custom_op or define")
    return OPERATORS[name.removesuffix(".default")]
