"""`autograd.Function` inside transforms: by the methods its author wrote (`vmap`, `jvp`), or by one made from others.

The Function is recorded at the level of the transform as everywhere. Below `vmap` runs the author's rule, on batched
tensors, or a second Function made here, whose forward and backward are the author's under `vmap`: it is what an outer
transform differentiates.
"""

from typing import NamedTuple

from .. import _C
from .._transforms.batched import Batched, BatchFrame, front
from .._transforms.dual import DualFrame
from ..ops.kinds import OPS
from ..utils._pytree import broadcast_prefix, tree_flatten, tree_unflatten
from .function import Function, _context_type


class VmapInfo(NamedTuple):
    """What a Function's `vmap` is told about the call."""

    batch_size: int
    randomness: str


def _refuse_ctx(cls):
    raise RuntimeError(f"{cls.__name__}: its forward takes ctx, which function transforms (vmap, grad, jvp, …) cannot "
                       "pass; move what it does with ctx into a staticmethod setup_context(ctx, inputs, output)")


# --- batches ---------------------------------------------------------------------------------------------------------

def apply_batched(frame, cls, ctx, args):
    """The results of cls on tensors of the frame's level, without a record at that level."""
    if cls.setup_context is Function.setup_context:
        _refuse_ctx(cls)
    values, marks, some = frame.open(args)
    values = _of_their_types(values, args)
    if not some:
        return _closed(frame, cls.apply(*values), None)
    written = cls.vmap is not Function.vmap
    if cls.generate_vmap_rule:
        if written:
            raise RuntimeError(f"vmap: {cls.__name__} sets generate_vmap_rule = True and has a vmap of its own; keep "
                               "one of the two")
        made = _generated(cls, frame.size, frame.randomness, tuple(marks))
        result = made.apply(*values)
        return _closed(frame, result, made.result_dims if isinstance(result, tuple) else made.result_dims[0])
    if not written:
        raise RuntimeError(f"vmap: {cls.__name__} says nothing about batches; set generate_vmap_rule = True, or add a "
                           "staticmethod vmap(info, in_dims, *args)")
    returned = cls.vmap(VmapInfo(frame.size, frame.randomness), tuple(map(_dims, marks)), *values)
    if not isinstance(returned, tuple) or len(returned) != 2:
        raise RuntimeError(f"Expected the {cls.__name__}.vmap staticmethod to return (outputs, out_dims)")
    return _closed(frame, *returned)


def _of_their_types(values, args):
    """Tuples stay tuples: as an index, say, a list is another."""
    return [tuple(v) if type(a) is tuple else v for v, a in zip(values, args, strict=True)]


def _dims(mark):
    """Where an argument, or each tensor of a list, has the batch."""
    return list(map(_dims, mark)) if isinstance(mark, list) else 0 if mark else None


def _closed(frame, result, dims):
    """Results as tensors of the frame's level; `dims` says where their batch is (None: nowhere)."""
    leaves, spec = tree_flatten(result)
    flat = broadcast_prefix(tuple(dims) if isinstance(dims, list) else dims, spec)
    if flat is None:
        raise RuntimeError("a Function's vmap staticmethod returned out_dims that do not fit its outputs")
    closed = [x if not isinstance(x, _C.Tensor) else frame.wrap(x, False) if d is None
              else frame.wrap(x if d == 0 else OPS["movedim"](x, d, 0)) for x, d in zip(leaves, flat, strict=True)]
    return tree_unflatten(closed, spec)


class _Kept:
    """A saved tensor as a context hands it out."""

    def __init__(self, tensor):
        self.tensor = tensor

    def unpack(self):
        return self.tensor


def _opened(frame, tensors):
    """(tensors one level lower, whether each has the batch)."""
    mine = [isinstance(t, Batched) and t.frame is frame for t in tensors]
    return ([t.value if m else t for t, m in zip(tensors, mine, strict=True)],
            [m and t.batched for t, m in zip(tensors, mine, strict=True)])


def _wrapped(frame, values, marks):
    return [frame.wrap(v) if m and isinstance(v, _C.Tensor) else v for v, m in zip(values, marks, strict=True)]


def _generated(cls, size, randomness, marks):
    """A Function that does for a whole batch what cls does for one element."""

    class Vmapped(Function):
        generate_vmap_rule = True
        result_dims = ()

        @staticmethod
        def forward(*values):
            with BatchFrame(size, randomness) as frame:
                result = cls.forward(*_wrapped(frame, values, marks))
                single = not isinstance(result, tuple)
                opened, batched = _opened(frame, (result,) if single else result)
            Vmapped.result_dims = tuple(0 if m else None for m in batched)
            return opened[0] if single else tuple(opened)

        @staticmethod
        def setup_context(ctx, inputs, output):
            inner = ctx.inner = _context_type(cls)()
            inner.needs_input_grad = ctx.needs_input_grad
            single = not isinstance(output, tuple)
            outputs = (output,) if single else output
            with BatchFrame(size, randomness) as frame:
                wrapped = _wrapped(frame, outputs, [d == 0 for d in Vmapped.result_dims])
                cls.setup_context(inner, tuple(_wrapped(frame, inputs, marks)),
                                  wrapped[0] if single else tuple(wrapped))
                saved, ctx.saved_marks = _opened(frame, inner._to_save)
            if inner._dirty:
                raise NotImplementedError(f"{cls.__name__}: mark_dirty inside vmap is not available: return new "
                                          "tensors")
            ctx.mark_non_differentiable(*[
                y for y, w in zip(outputs, wrapped, strict=True) if any(w is t for t in inner._non_differentiable)])
            ctx.set_materialize_grads(inner._materialize)
            ctx.save_for_backward(*saved)

        @staticmethod
        def backward(ctx, *grads):
            inner = ctx.inner
            backward = cls.backward if cls.backward is not Function.backward else cls.vjp
            with BatchFrame(size, randomness) as frame:
                inner._saved = [_Kept(t) for t in _wrapped(frame, ctx.saved_tensors, ctx.saved_marks)]
                inner._to_save = ()
                found = backward(inner, *_wrapped(frame, grads, [d == 0 for d in Vmapped.result_dims]))
                opened, batched = _opened(frame, found if isinstance(found, tuple) else (found,))
            return tuple(g if g is None else front(g, b, size) if m else OPS["sum"](g, (0,)) if b else g
                         for g, b, m in zip(opened, batched, marks, strict=False))

    Vmapped.__name__ = Vmapped.__qualname__ = f"Vmapped{cls.__name__}"
    return Vmapped


def _has_tangents(value):
    return isinstance(value, _C.Tensor) and (value.is_floating_point() or value.is_complex())


# --- forward mode ----------------------------------------------------------------------------------------------------

def apply_dual(frame, cls, ctx, args):
    """The results of cls on dual numbers of the frame's level: forward on the primals, jvp on the tangents."""
    if cls.jvp is Function.jvp:
        raise NotImplementedError(f"{cls.__name__}: forward-mode differentiation needs its jvp; add a staticmethod "
                                  "jvp(ctx, *tangents)")
    primals, tangents = frame.open(args)
    primals = _of_their_types(primals, args)
    if cls.setup_context is Function.setup_context:
        if not frame.by_hand:
            _refuse_ctx(cls)
        result, kept = cls.forward(ctx, *primals), ctx
    else:
        result, kept = cls.apply(*primals), _context_type(cls)()
        cls.setup_context(kept, tuple(primals), result)
    filled = [OPS["zeros_like"](v) if t is None and kept._materialize and _has_tangents(v) else t
              for v, t in zip(primals, tangents, strict=True)]
    with kept.reading_forward():
        pushed = cls.jvp(kept, *filled)
    return tuple(frame.close(list(result), pushed)) if isinstance(result, tuple) else frame.wrap(result, pushed)


#: kind of frame -> how a Function runs there
APPLY = {BatchFrame: apply_batched, DualFrame: apply_dual}
