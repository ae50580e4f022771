"""Operations whose derivative the user writes: `Function` with its forward, backward and context.

`apply` runs `forward` without recording, then gives the results one graph node whose rule is `backward`. The node
calls a `_Rule` below, which checks what the user's backward returned.
"""

import importlib
import warnings
from contextlib import contextmanager
from functools import wraps
from types import SimpleNamespace
from weakref import ref

from .. import _C
from ..ops.kinds import OPS
from .grad_mode import no_grad


class FunctionCtx:
    """What forward leaves for backward; also the place for the user's own attributes."""

    #: True: backward may read `saved_tensors` once; what it holds is freed then, not after backward has returned
    clear_saved_tensors_on_access = False
    needs_input_grad = ()
    _to_save = ()
    _forward_saved = ()
    _saved = ()
    _dirty = ()
    _non_differentiable = ()
    _materialize = True

    def save_for_backward(self, *tensors):
        """Keeps tensors for `saved_tensors`; inputs and outputs must be kept this way, not as attributes."""
        for k, t in enumerate(tensors):
            if t is not None and not isinstance(t, _C.Tensor):
                raise TypeError(f"save_for_backward: expected a Tensor or None as argument {k}, "
                                f"got {type(t).__name__}: keep other values as attributes of ctx")
        self._to_save = tensors

    def save_for_forward(self, *tensors):
        """Keeps tensors for `jvp`, which finds them in `saved_tensors`."""
        self._forward_saved = tensors

    @contextmanager
    def reading_forward(self):
        """Inside, `saved_tensors` are those that save_for_forward kept."""
        before, self._saved = self._saved, tuple(None if t is None else _Saved(t, None) for t in self._forward_saved)
        try:
            yield
        finally:
            self._saved = before

    def mark_dirty(self, *tensors):
        """Says which inputs forward changed in place (and returns)."""
        self._dirty = tensors

    def mark_non_differentiable(self, *tensors):
        """Says which outputs have no gradient."""
        self._non_differentiable = tensors

    def set_materialize_grads(self, value):
        """With False, backward gets None instead of zeros for outputs that had no gradient."""
        self._materialize = bool(value)

    @property
    def saved_tensors(self):
        """The tensors given to save_for_backward; an error if one was changed in place since."""
        if self._saved is None:
            raise RuntimeError(f"{type(self).__name__}: its saved tensors are gone, because an earlier backward or "
                               "grad freed the graph; pass retain_graph=True to the earlier one if the graph is "
                               "needed again")
        tensors = tuple(None if s is None else s.unpack() for s in self._saved)
        if self.clear_saved_tensors_on_access:
            self._saved = None
        return tensors

    @property
    def saved_variables(self):
        """saved_tensors, by the name it had when tensors were wrapped in Variables."""
        warnings.warn("ctx.saved_variables is an old name; read ctx.saved_tensors", DeprecationWarning, stacklevel=2)
        return self.saved_tensors


class _Context(FunctionCtx):
    """The context one call of `apply` makes."""


class Function(FunctionCtx):
    """An operation with its own derivative: subclass it, write static `forward` and `backward`, call `apply`.

    Either `forward(ctx, *args)`, or `forward(*args)` with `setup_context(ctx, inputs, output)`.

    >>> import flambeau
    >>> class Cube(flambeau.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         ctx.save_for_backward(x)
    ...         return x ** 3
    ...     @staticmethod
    ...     def backward(ctx, grad):
    ...         (x,) = ctx.saved_tensors
    ...         return 3 * x ** 2 * grad
    >>> x = flambeau.tensor(2., requires_grad=True)
    >>> Cube.apply(x).backward()
    >>> x.grad
    tensor(12.)
    """

    generate_vmap_rule = False
    #: True: backward gets one list of gradients, which it may empty to free them as it goes
    boxed_grads_call = False

    def __init__(self, *_, **__):
        name = type(self).__name__
        warnings.warn(f"{name}: a Function needs no object; call {name}.apply", DeprecationWarning, stacklevel=2)

    def __call__(self, *_, **__):
        name = type(self).__name__
        raise RuntimeError(f"{name}: a Function's object is not called; call {name}.apply")

    @staticmethod
    def forward(*args, **kwargs):
        raise NotImplementedError("Function: forward must be written as a static method")

    @staticmethod
    def setup_context(ctx, inputs, output):
        raise NotImplementedError("Function: setup_context must be written as a static method")

    @staticmethod
    def backward(ctx, *grads):
        raise NotImplementedError("Function: backward (or vjp) must be written as a static method")

    vjp = backward

    @staticmethod
    def vmap(info, in_dims, *args):
        """(outputs, their batch dimensions) of a batch; `in_dims` says where each argument has its batch, or None."""
        raise NotImplementedError("Function: vmap must be written as a static method to use vmap")

    @staticmethod
    def jvp(ctx, *tangents):
        raise NotImplementedError("Function: jvp must be written as a static method to use forward mode")

    @classmethod
    def apply(cls, *args, **kwargs):
        """The operation on these arguments, recorded when an argument needs a gradient.

        Arguments may be named. Where there is a setup_context, it gets the defaults of those that are left out, too.
        """
        if cls.setup_context is not Function.setup_context:
            args = _complete(cls, args, kwargs)
        elif kwargs:
            args = _by_position(cls, (None, *args), kwargs)[1:]
        ctx = _context_type(cls)()
        level = max(map(_C.level_of, args), default=0)
        if level:
            return _apply_at_level(cls, ctx, args, level)
        ctx.needs_input_grad = tuple([isinstance(a, _C.Tensor) and a.requires_grad for a in args])
        grad_mode = _C.set_grad_enabled(False)
        record = grad_mode and True in ctx.needs_input_grad
        try:
            if cls.setup_context is Function.setup_context:
                result = cls.forward(ctx, *args)
            else:
                result = cls.forward(*args)
                cls.setup_context(ctx, args, result)
        finally:
            _C.set_grad_enabled(grad_mode)
        single = not isinstance(result, tuple)
        outputs = _finish(cls, ctx, args, (result,) if single else result, record)
        return outputs[0] if single else outputs


def _complete(cls, args, kwargs):
    """All arguments of forward by position: setup_context gets the defaults, too, and backward answers for them."""
    count = cls.__dict__.get("_positional")
    if count is None:
        parameters = _signature(cls).parameters.values()
        count = cls._positional = sum(p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) for p in parameters)
    return args if not kwargs and len(args) >= count else _by_position(cls, args, kwargs)


def _signature(cls):
    return importlib.import_module("inspect").signature(cls.forward)  # not sooner: few programs ask


def _by_position(cls, args, kwargs):
    bound = _signature(cls).bind(*args, **kwargs)
    bound.apply_defaults()
    if any(name in kwargs for name in bound.kwargs):
        raise TypeError(f"{cls.__name__}.apply: {', '.join(bound.kwargs)} of forward can be given by name only, and "
                        "backward has no place for such arguments; take the * out of its signature")
    return bound.args


def _apply_at_level(cls, ctx, args, level):
    """`apply` on tensors inside a transform: it is recorded at their level, and run as the level says."""
    here = [_C.level_of(a) == level for a in args]
    ctx.needs_input_grad = tuple(h and a.requires_grad for h, a in zip(here, args, strict=True))
    record = _C.is_grad_enabled() and any(ctx.needs_input_grad)
    frame = next(a.frame for h, a in zip(here, args, strict=True) if h)
    apply = importlib.import_module("flambeau.autograd._in_transforms").APPLY[type(frame)]
    result = apply(frame, cls, ctx, args)
    single = not isinstance(result, tuple)
    made = (result,) if single else result
    mine = [a for h, a in zip(here, args, strict=True) if h]
    results = [next((a for a in mine if isinstance(y, _C.Tensor) and y.value is a.value), y) for y in made]
    if cls.setup_context is not Function.setup_context:
        with no_grad():
            cls.setup_context(ctx, args, results[0] if single else tuple(results))
    ctx._dirty = tuple([a for a in mine if _among(a, ctx._dirty) or _among(a.value, ctx._dirty)])
    for k, y in enumerate(made):
        if results[k] is y:
            continue
        if _among(results[k], ctx._dirty):
            frame.rewrite(results[k], y)
        else:
            results[k] = y
    below = tuple(a if h or not isinstance(a, _C.Tensor) else a.detach() for h, a in zip(here, args, strict=True))
    outputs = _finish(cls, ctx, below, results, record)
    return outputs[0] if single else outputs


def _cut(tensor):
    """The tensor without its history; inside a transform without that of its own level."""
    return tensor.frame.alias(tensor) if _C.level_of(tensor) else tensor.detach()


def _context_type(cls):
    """One context class per Function, so that its name tells whose it is."""
    made = cls.__dict__.get("_ctx_type")
    if made is None:
        made = cls._ctx_type = type(f"{cls.__name__}Backward", (_Context,), {
            "clear_saved_tensors_on_access": cls.clear_saved_tensors_on_access})
    return made


def _among(tensor, tensors):
    for t in tensors:  # noqa: SIM110  runs several times per call, and a generator costs more than this
        if tensor is t:
            return True
    return False


def _finish(cls, ctx, args, results, record):
    """Results as the caller gets them: with history, in place, non-differentiable or plain."""
    inputs = [a for a in args if isinstance(a, _C.Tensor)]
    if ctx._dirty:
        _check_dirty(cls, ctx, inputs, results, record)
    outputs, tracked = list(results), []
    for k, y in enumerate(results):
        if not isinstance(y, _C.Tensor):
            continue
        if _among(y, inputs) and not _among(y, ctx._dirty):
            outputs[k] = _cut(y)  # an own tensor, so that the input keeps its own history
        if record and (y.is_floating_point() or y.is_complex()) and not _among(y, ctx._non_differentiable):
            tracked.append(k)
    if record:
        _record(cls, ctx, args, results, outputs, tracked)
    else:
        ctx._saved = ctx._to_save = ()
    return tuple(outputs)


def _check_dirty(cls, ctx, inputs, results, record):
    name = cls.__name__
    if not all(_among(t, inputs) for t in ctx._dirty):
        warnings.warn(f"{name}: mark_dirty was told of a tensor that is not an input of the function, which changes "
                      "nothing; mark only inputs that forward writes to", stacklevel=4)
        ctx._dirty = tuple([t for t in ctx._dirty if _among(t, inputs)])
    for t in ctx._dirty:
        if not _among(t, results):
            raise RuntimeError(f"{name}: forward called ctx.mark_dirty on a tensor that it does not return; return "
                               "every tensor that it changes in place")
        if record and t.requires_grad and t.is_leaf:
            raise RuntimeError(f"{name}: forward changes a leaf that requires grad in place; change a copy, or a "
                               "result computed from it")
        if record and t._is_view() and (len(results) > 1 or t is not inputs[0]):
            raise RuntimeError(f"{name}: a view may be modified inplace only as the first input and only output")


def _record(cls, ctx, args, results, outputs, tracked):
    node = _C.function_node(
        _Rule(cls, ctx, args, outputs), tuple([a if isinstance(a, _C.Tensor) else None for a in args]),
        tuple([y if k in tracked else None for k, y in enumerate(outputs)]), f"{cls.__name__}Backward")
    if ctx._dirty:
        for k in tracked:
            if _among(outputs[k], ctx._dirty) and outputs[k]._is_view():
                _C.rebase(outputs[k], node)
    own = {id(y): k for k, y in enumerate(results) if k in tracked and y is outputs[k]}
    ctx._saved = [None if t is None else _Saved(t, (ref(node), own[id(t)]) if id(t) in own else None)
                  for t in ctx._to_save]
    ctx._to_save = ()


class _Saved:
    """A tensor kept for backward, with the version it had; an own output is kept without its history, which would
    be a cycle through the node."""

    def __init__(self, tensor, source):
        self.version = tensor._version
        self.source = source
        self.hooks = _C.top_saved_hooks()
        if self.hooks is None:
            self.tensor = tensor if source is None else _cut(tensor)
            return
        self.tensor = None
        self.history = None if source is not None or not tensor.requires_grad else tensor
        if self.history is not None and not tensor.is_leaf:
            self.history = tensor.grad_fn, tensor.output_nr
        self.packed = self.hooks[0](tensor.detach())

    def unpack(self):
        if self.hooks is not None:
            return self._unpack_hooked()
        if self.tensor._version != self.version:
            raise RuntimeError(
                f"{self.tensor.dtype} {list(self.tensor.shape)} was saved for backward at version {self.version} and "
                f"has been changed in place since (version {self.tensor._version}); its gradient would be wrong. "
                "Change a clone instead")
        if self.source is None:
            return self.tensor
        node, position = self.source[0](), self.source[1]
        output = _cut(self.tensor)
        if node is not None:
            _C.set_history(output, node, position)
        return output

    def _unpack_hooked(self):
        found = self.hooks[1](self.packed)
        if not isinstance(found, _C.Tensor):
            raise TypeError(f"saved_tensors_hooks: the unpack hook must return a Tensor, got {type(found).__name__}")
        if not _C.is_grad_enabled():
            return found
        found = found.detach()
        if self.source is not None:
            node = self.source[0]()
            if node is not None:
                _C.set_history(found, node, self.source[1])
        elif isinstance(self.history, tuple):
            _C.set_history(found, *self.history)
        elif self.history is not None:
            _C.function_node(lambda g: (g,), (self.history,), (found,), "AliasBackward0")
        return found


def _backward_of(cls):
    """The user's derivative: `backward`, or `vjp`, its other name."""
    if cls.backward is Function.backward:
        return cls.vjp
    if cls.vjp is not Function.vjp:
        raise RuntimeError(f"{cls.__name__}: it defines both backward and vjp, which are two names of one method; "
                           "remove one")
    return cls.backward


class _Rule:
    """What the node calls: the user's backward, with its arguments filled in and its results checked."""

    def __init__(self, cls, ctx, args, outputs):
        self.cls, self.ctx = cls, ctx
        self.shapes = [a.shape if isinstance(a, _C.Tensor) else None for a in args]
        self.blank = [(y.shape, y.dtype, y.device) if isinstance(y, _C.Tensor) else None for y in outputs]

    def release(self):
        """The engine's word that no further pass comes."""
        self.ctx._saved = None

    def __call__(self, *grads):
        if self.ctx._materialize and _among(None, grads):
            grads = tuple(OPS["zeros"](b[0], dtype=b[1], device=b[2]) if g is None and b is not None else g
                          for g, b in zip(grads, self.blank, strict=True))
        backward = _backward_of(self.cls)
        if self.cls.boxed_grads_call:
            box, grads = list(grads), None
            found = backward(self.ctx, box)
        else:
            found = backward(self.ctx, *grads)
        return self._checked(found if isinstance(found, tuple) else (found,))

    def _checked(self, found):
        name, expected = self.cls.__name__, len(self.shapes)
        if len(found) > expected and all(g is None for g in found[expected:]):
            found = found[:expected]
        if len(found) != expected:
            raise RuntimeError(f"{name}.backward: one gradient per argument of forward is expected, {expected} in all, "
                               f"got {len(found)}; return None for arguments without one")
        for k, (g, shape) in enumerate(zip(found, self.shapes, strict=True)):
            if g is None or (type(g) is _C.Tensor and g.shape == shape):
                continue
            if shape is None:
                raise RuntimeError(f"{name}.backward: gradient {k + 1} belongs to an argument that is no Tensor; "
                                   "return None for it")
            if not isinstance(g, _C.Tensor):
                raise RuntimeError(f"function {name}Backward: expected a Tensor or None at position {k + 1}, "
                                   f"got {type(g).__name__}")
            if not _sums_to(g.shape, shape):
                raise RuntimeError(f"{name}.backward: gradient {k + 1} has shape {list(g.shape)}, which cannot be "
                                   f"summed to the argument's shape {list(shape)}")
        return found


def _sums_to(shape, target):
    """Whether a gradient of `shape` can be summed down to `target` (the reverse of broadcasting)."""
    if len(shape) < len(target):
        return False
    return all(t in (s, 1) for s, t in zip(reversed(shape), reversed(target), strict=False))


def once_differentiable(func):
    """Decorator of `backward`: its result is a constant to a second derivative, which then raises.

    >>> import flambeau
    >>> class Double(flambeau.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         return 2 * x
    ...     @staticmethod
    ...     @flambeau.autograd.function.once_differentiable
    ...     def backward(ctx, grad):
    ...         return 2 * grad
    """
    @wraps(func)
    def backward(ctx, *grads):
        with no_grad():
            found = func(ctx, *grads)
        if not _C.is_grad_enabled() or not any(isinstance(g, _C.Tensor) and g.requires_grad for g in grads):
            return found
        several = isinstance(found, tuple)
        guarded = tuple(_Once.apply(func.__qualname__, g, *grads) if isinstance(g, _C.Tensor) else g
                        for g in (found if several else (found,)))
        return guarded if several else guarded[0]

    return backward


class _Once(Function):
    """The identity, tied to the gradients it came from so that differentiating it is noticed."""

    @staticmethod
    def forward(ctx, name, result, *sources):
        ctx.name = name
        return result

    @staticmethod
    def backward(ctx, *grads):
        raise RuntimeError(f"{ctx.name}: its backward is marked @once_differentiable, so its gradient cannot be "
                           "differentiated again")


class InplaceFunction(Function):
    """The old base of functions with an `inplace` option."""

    inplace = False


class _Leaf:
    """The place of a tensor in a nest."""


def _flatten(nest, tensors):
    """The nest with its tensors taken out, in order, into the list `tensors`."""
    if isinstance(nest, _C.Tensor):
        tensors.append(nest)
        return _Leaf
    if isinstance(nest, (tuple, list)):
        return type(nest)(_flatten(x, tensors) for x in nest)
    return nest


def _fill(nest, tensors):
    """The reverse of _flatten; `tensors` is an iterator."""
    if nest is _Leaf:
        return next(tensors)
    if isinstance(nest, (tuple, list)):
        return type(nest)(_fill(x, tensors) for x in nest)
    return nest


class NestedIOFunction(Function):
    """The old base of functions over nested lists of tensors, which `forward_extended` and `backward_extended` see.

    backward_extended returns gradients in the nesting of forward_extended's arguments.
    """

    @staticmethod
    def forward(ctx, cls, nest, shape, *tensors):
        ctx.cls, ctx.nest = cls, nest
        flat = []
        ctx.shape = _flatten(cls.forward_extended(ctx, *_fill(nest, iter(tensors))), flat)
        shape.append(ctx.shape)
        return tuple(flat)

    @staticmethod
    def backward(ctx, *grads):
        nested = _fill(ctx.shape, iter(grads))
        found = ctx.cls.backward_extended(ctx, *(nested if isinstance(nested, tuple) else (nested,)))
        flat = []
        _flatten(found, flat)
        return None, None, None, *flat

    @staticmethod
    def forward_extended(ctx, *args):
        raise NotImplementedError("NestedIOFunction: forward_extended must be written as a static method")

    @staticmethod
    def backward_extended(ctx, *grads):
        raise NotImplementedError("NestedIOFunction: backward_extended must be written as a static method")

    @classmethod
    def apply(cls, *args):
        flat, shape = [], []
        nest = _flatten(args, flat)
        results = super().apply(cls, nest, shape, *flat)
        return _fill(shape[0], iter(results))


def _is_checkpoint_valid():
    """Whether what a node computes again may accumulate gradients: not in grad(), nor in backward(inputs=…)."""
    return not _C.pass_is_limited()


class _VariableType(type):
    def __instancecheck__(cls, value):
        return isinstance(value, _C.Tensor)


class Variable(_C.Tensor, metaclass=_VariableType):
    """The old name of a tensor that takes part in autograd: every tensor is one, and making one gives a tensor.
    `volatile` asked for a tensor that nothing records, and has no effect any more: `no_grad` is for that."""

    #: where PyTorch's programs look for `queue_callback`
    _execution_engine = SimpleNamespace(queue_callback=_C.queue_callback)

    def __new__(cls, data, requires_grad=False, volatile=False):
        if not isinstance(data, _C.Tensor):
            raise TypeError(f"Variable: expected a Tensor, got {type(data).__name__}; make one with flambeau.tensor")
        if volatile:
            warnings.warn("Variable(volatile=True) records like any tensor; compute under no_grad()", stacklevel=2)
        return data.detach().requires_grad_(requires_grad)
