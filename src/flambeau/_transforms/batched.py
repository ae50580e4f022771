"""The level of `vmap`: tensors with a hidden batch dimension, and how operators run on them.

A `Batched` holds a tensor whose dimension 0 is the batch (or, with `batched` false, a tensor that is the same for every
element). An operator's rule computes on such tensors; where there is no rule, it runs once per element.
"""

from textwrap import indent

from .. import _C
from ..ops.kinds import OPS
from ..random import get_rng_state, set_rng_state
from .levels import Frame, Wrapper, below

#: operator name -> rule(op, size, values, marks, kwargs): values are plain (batch in front where marks are true);
#: the result has the batch in front; NotImplemented: run once per element
RULES = {}

#: random operator -> the same kind of rule, for randomness="different"
DRAWS = {}

_stack, _select, _expand, _reshape = OPS["stack"], OPS["select"], OPS["expand"], OPS["reshape"]
_make = _C.make_level


#: op -> (random, kind, in place), asked once
_PLANS = {}


def _plan(op):
    plan = _PLANS[op] = (op.random, op.kind, op.is_inplace)
    return plan


def rule(*names):
    """Decorator: the function is the rule of these operators (those that have a record)."""
    def decorate(function):
        for name in names:
            RULES[name] = function
        return function
    return decorate


class Batched(Wrapper):
    """A tensor inside `vmap`."""

    __slots__ = ("batched",)

    def _text(self):
        """What it holds, and where the batch is; what is one for every element is written as it is."""
        held = repr(self.value)
        if not self.batched:
            return held
        return f"BatchedTensor(lvl={self.frame.level}, bdim=0, value=\n{indent(held, ' ' * 4)}\n)"


class BatchFrame(Frame):
    """One running vmap over `size` elements."""

    name = "vmap"

    def __init__(self, size, randomness):
        self.size, self.randomness = size, randomness

    def wrap(self, value, batched=True):
        """A tensor of this level; `value` has the batch in front where `batched`."""
        t = _make(Batched, value, self.level, 1 if batched else 0)
        t.value, t.frame, t.batched = value, self, batched
        return t

    def lift(self, tensor):
        return self.wrap(tensor, False)

    def alias(self, wrapper):
        return self.wrap(wrapper.value, wrapper.batched)

    def copy(self, to, wrapper):
        to.value, to.batched = wrapper.value, wrapper.batched

    def detach(self, wrapper):
        return self.wrap(wrapper.value.detach(), wrapper.batched)

    def read(self, wrapper):
        if not wrapper.batched:
            return wrapper.value
        raise RuntimeError(
            "vmap: the value of a tensor was asked for (.item(), bool(), float(), int(), .tolist(), or an `if` on it), "
            "but inside vmap it has one value per element. Use flambeau.where instead of `if`, operators instead of "
            "numbers, or write a loop in place of vmap.")

    # --- running operators ---------------------------------------------------------------------------------------

    def run(self, op, args, kwargs):
        values, marks, any_batched = self.open(args)
        options, option_marks, more = (kwargs, None, False) if not kwargs else self._open_options(kwargs)
        random, kind, inplace = _PLANS.get(op) or _plan(op)
        if random:
            return self._random(op, args, values, marks, options, any_batched or more)
        if "out" in kwargs:
            raise RuntimeError(f"{op.name}: out= is not possible inside vmap; use the result")
        if inplace and (any_batched or more):
            return self._inplace(op, kind, args, values, marks, options, option_marks if more else None)
        if not (any_batched or more):
            result = op(*values, **options)
            return args[0] if inplace else self.close(result, False)
        return self.close(self._compute(op, kind, values, marks, options, option_marks if more else None), True)

    def _compute(self, op, kind, values, marks, options, option_marks):
        if kind == "elementwise":
            if option_marks is None:
                return elementwise(op, self.size, values, marks, options)
        elif option_marks is None:
            found = RULES.get(op.name)
            if found is not None:
                result = found(op, self.size, values, marks, options)
                if result is not NotImplemented:
                    return result
        return loop(op, self.size, values, marks, options, option_marks)

    def open(self, args):
        values, marks, some = [], [], False
        for a in args:
            kind = type(a)
            if kind is Batched and a.frame is self:
                values.append(a.value)
                marks.append(a.batched)
                some = some or a.batched
            elif kind is tuple or kind is list:
                inner, inner_marks, found = self.open(a)
                values.append(inner)
                marks.append(inner_marks if found else False)
                some = some or found
            else:
                if kind is Batched and a.frame.level >= self.level:
                    raise RuntimeError("a tensor left the vmap that made it: return it from the function instead")
                values.append(a)
                marks.append(False)
        return values, marks, some

    def _open_options(self, kwargs):
        values, marks, some = self.open(kwargs.values())
        return dict(zip(kwargs, values, strict=True)), dict(zip(kwargs, marks, strict=True)), some

    def close(self, result, batched):
        if isinstance(result, _C.Tensor):
            return self.wrap(result, batched)
        if isinstance(result, (tuple, list)):
            return [self.close(r, batched) for r in result]
        return result

    def _inplace(self, op, kind, args, values, marks, options, option_marks):
        name, target = op.name, args[0]
        if kind == "view":
            result = self._compute(OPS[name[:-1]], kind, values, marks, options, option_marks)
            target.value = result
            _C.set_like(target, result, 1)
            return self.wrap(result)
        if not marks[0]:
            raise RuntimeError(
                f"vmap: {name}: the tensor written to is the same for every element of the batch, but what is written "
                "is not. Write out of place (x = x + y), or make the tensor from a batched one (x.new_zeros, "
                "flambeau.zeros_like(x)) inside the function.")
        if kind == "elementwise":
            logical = values[0].ndim - 1
            if any(isinstance(v, _C.Tensor) and v.ndim - m > logical for v, m in zip(values, marks, strict=True)):
                raise RuntimeError(f"{name}: the result has more dimensions than the tensor written to")
            elementwise(op, self.size, values, marks, options)
        elif name in RULES:
            RULES[name](op, self.size, values, marks, options)
        elif name[:-1] in OPS:
            values[0].copy_(self._compute(OPS[name[:-1]], kind, values, marks, options, option_marks))
        else:
            loop(op, self.size, values, marks, options, option_marks)
        return target

    # --- random operators ----------------------------------------------------------------------------------------

    def _random(self, op, args, values, marks, options, batched):
        if self.randomness == "error":
            raise RuntimeError(
                f"vmap: {op.name} draws random numbers. Say what vmap shall do: randomness='same' (one draw for all "
                "elements), randomness='different' (each its own), or draw outside of vmap")
        inplace = op.is_inplace
        if self.randomness == "same":
            if not batched:
                with below(self):
                    result = op(*values, **options)
                return args[0] if inplace else self.close(result, False)
            return self._same(op, args, values, marks, options)
        if inplace and not marks[0]:
            raise RuntimeError(f"vmap: {op.name}: the tensor written to is the same for every element, but "
                               "randomness='different' draws for each: write into a batched tensor")
        with below(self):
            draw = DRAWS.get(op.name)
            result = NotImplemented if draw is None else draw(op, self.size, values, marks, options)
            if result is NotImplemented:
                result = loop(op, self.size, values, marks, options)
        return args[0] if inplace else self.close(result, True)

    def _same(self, op, args, values, marks, options):
        """The same numbers for every element: the generator starts each from one state."""
        generator = next((v for v in (*values, *options.values()) if isinstance(v, _C.Generator)), None)
        state = get_rng_state() if generator is None else generator.get_state()
        rewind = set_rng_state if generator is None else generator.set_state
        with below(self):
            result = loop(op, self.size, values, marks, options, before=lambda: rewind(state))
        return args[0] if op.is_inplace else self.close(result, True)


# --- what every rule can fall back on ---------------------------------------------------------------------------------

def _element(value, mark, k):
    if mark is False:
        return value
    if mark is True:
        return _select(value, 0, k)
    return [_element(v, m, k) for v, m in zip(value, mark, strict=True)]


def loop(op, size, values, marks, options, option_marks=None, before=None):
    """The operator once per element of the batch, results stacked."""
    if size == 0:
        return _loop_of_none(op, values, marks, options)
    results = []
    for k in range(size):
        if before is not None:
            before()
        named = options if option_marks is None else {
            key: _element(v, option_marks[key], k) for key, v in options.items()}
        results.append(op(*[_element(v, m, k) for v, m in zip(values, marks, strict=True)], **named))
    if op.is_inplace:
        return values[0]
    return _stacked(op, results)


def _stacked(op, results):
    first = results[0]
    if first is None:
        return None
    if isinstance(first, _C.Tensor):
        if any(r.shape != first.shape for r in results):
            raise RuntimeError(f"vmap: {op.name} gives results of different shapes for the elements of the batch "
                               f"({list(first.shape)}, …): the shape depends on values, which vmap cannot express")
        return _stack(results)
    return [_stacked(op, list(each)) for each in zip(*results, strict=True)]


def _loop_of_none(op, values, marks, options):
    """A batch of no elements: the shapes of a run on zeros, times nothing."""
    def blank(v, m):
        if m is True:
            return OPS["new_zeros"](v, v.shape[1:])
        return v if m is False else [blank(x, y) for x, y in zip(v, m, strict=True)]

    if op.is_inplace:
        return values[0]
    result = op(*[blank(v, m) for v, m in zip(values, marks, strict=True)], **options)

    def empty(t):
        return OPS["new_empty"](t, (0, *t.shape)) if isinstance(t, _C.Tensor) else [empty(x) for x in t]

    return empty(result)


def front(value, mark, size):
    """The value with a batch dimension: its own, or an expanded one."""
    return value if mark else _expand(value, (size, *value.shape))


def elementwise(op, size, values, marks, options):
    """Pointwise operators: ones are put behind the batch dimension until broadcasting is right."""
    most, mixed, first = 0, False, None
    for v, m in zip(values, marks, strict=True):
        if isinstance(v, _C.Tensor):
            ndim = v.ndim - m
            if ndim > most:
                most = ndim
            if first is None:
                first = v.dtype
            elif v.dtype is not first:
                mixed = True
    if mixed:
        values = _promoted(values, marks) if most else _all_numbers(op, values)
    aligned = [_reshape(v, (v.shape[0], *(1,) * (most - v.ndim + 1), *v.shape[1:]))
               if m and v.ndim <= most else v for v, m in zip(values, marks, strict=True)]
    return op(*aligned, **options)


def _promoted(values, marks):
    """Elements that are single numbers are weak in type promotion, but a batch of them is not: cast them first."""
    strong = None
    for v, m in zip(values, marks, strict=True):
        if isinstance(v, _C.Tensor) and v.ndim > m:
            strong = v.dtype if strong is None else _C.promote_types(strong, v.dtype)
    if strong is None:
        return values
    return [v.to(strong)
            if m and v.ndim == 1 and v.dtype is not _C.bool and _category(v.dtype) <= _category(strong) else v
            for v, m in zip(values, marks, strict=True)]


def _all_numbers(op, values):
    """Elements that are all single numbers: none is weaker than the others."""
    if op.name.startswith("masked_fill"):  # keeps the first one's dtype
        return values
    common = None
    for v in values:
        if isinstance(v, _C.Tensor) and v.dtype is not _C.bool:
            common = v.dtype if common is None else _C.promote_types(common, v.dtype)
    return [v.to(common) if isinstance(v, _C.Tensor) and v.dtype is not _C.bool and k >= op.is_inplace else v
            for k, v in enumerate(values)]


def _category(dtype):
    return 3 if dtype.is_complex else 2 if dtype.is_floating_point else 1 if dtype is not _C.bool else 0
