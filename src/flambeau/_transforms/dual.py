"""The level of forward mode: tensors with a tangent.

A `Dual` holds a primal and its tangent, both one level lower; no tangent means zero. How a tangent passes an operator
is decided in `push.py`.
"""

from .. import _C
from ..ops.kinds import OPS
from .levels import Frame, Wrapper, below
from .push import DRAWN, any_tangent, push

_make = _C.make_level
_alias, _copy = OPS["alias"], OPS["copy_"]



class Dual(Wrapper):
    """A tensor inside `jvp`, or one that `forward_ad.make_dual` made. A view has a `source`: (dual, operator, further
    arguments, number of the result, options); its tangent is that view of the source's."""

    __slots__ = ("_tangent", "source")

    def _text(self):
        """The primal as it is written, and the tangent where it is not zero; on a line of its own where one is long."""
        held, tangent = repr(self.value), self.tangent
        if tangent is None:
            return held
        said = f"tangent={tangent!r}"
        room = "\n" not in held + said and len(held) + len(said) + 2 <= 80
        return f"{held[:-1]},{' ' if room else chr(10) + ' ' * 7}{said})"

    @property
    def tangent(self):
        """The tangent, or None where it is zero."""
        if self.source is None:
            return self._tangent
        dual, op, rest, number, options = self.source
        whole = dual.tangent
        return None if whole is None else _part(op(whole, *rest, **options), number)

    def write(self, pushed):
        """The tangent after a write. That of a view lies in the tangent of what it views, which is made anew: the old
        one may be someone's, or lack the batch that the new part has."""
        if self.source is None:
            self._tangent = pushed
            return
        chain, root = [], self
        while root.source is not None:
            chain.append(root.source)
            root = root.source[0]
        old = root._tangent
        if pushed is None and old is None:
            return
        memory = OPS["new_zeros"](old if pushed is None else pushed, root.value.shape, dtype=root.value.dtype)
        if old is not None:
            memory = memory + old
        part = memory
        for _, op, rest, number, options in reversed(chain):
            part = _part(op(part, *rest, **options), number)
        part.zero_() if pushed is None else _copy(part, pushed)
        root._tangent = memory


def _part(result, number):
    return result if number is None else result[number]


class DualFrame(Frame):
    """One running jvp, or one dual level."""

    name = "jvp"
    factories = True

    def __init__(self, by_hand=False):
        self.by_hand = by_hand

    def __exit__(self, *exit_args):
        super().__exit__(*exit_args)
        self.ended = self.by_hand

    def wrap(self, value, tangent=None, source=None):
        """A dual number of this level."""
        t = _make(Dual, value, self.level, 0)
        t.value, t.frame, t._tangent, t.source = value, self, tangent, source
        return t

    def lift(self, tensor):
        return self.wrap(tensor)

    def others(self, wrapper):
        tangent = wrapper.tangent
        return () if tangent is None else (tangent,)

    def alias(self, wrapper):
        return self.wrap(wrapper.value, wrapper.tangent, wrapper.source)

    def copy(self, to, wrapper):
        to.value, to._tangent, to.source = wrapper.value, wrapper._tangent, wrapper.source

    def rewrite(self, wrapper, result):
        with below(self):
            wrapper.write(result.tangent)

    def detach(self, wrapper):
        return self.wrap(wrapper.value.detach())

    def read(self, wrapper):
        return wrapper.value

    # --- running operators ---------------------------------------------------------------------------------------

    def run(self, op, args, kwargs):
        if "out" in kwargs:
            raise RuntimeError(f"{op.name}: out= is not possible in forward mode; use the result")
        values, tangents = self.open(args)
        if any(isinstance(v, _C.Tensor) for v in kwargs.values()):
            values, tangents, kwargs = self._by_position(op, args, kwargs)
        if op.is_inplace:
            return self._inplace(op, args, values, tangents, kwargs)
        if op.kind == "view":
            return self._view(op, args[0], values, kwargs)
        if kwargs.get("requires_grad"):  # a new leaf, as those from outside: nothing is written into it
            return op(*values, **kwargs)
        if not any_tangent(tangents) or (op.random and op.name not in DRAWN):
            return self._constant(op(*values, **kwargs))
        if op.random:
            result = op(*values, **kwargs)
            return self.close(result, DRAWN[op.name](op, result, values, tangents))
        result, pushed = push(op, values, tangents, kwargs)
        return self.close(result, pushed)

    def _constant(self, result):
        if result is None:  # an operator that only checks
            return None
        if isinstance(result, _C.Tensor):
            return self.wrap(result)
        return [self._constant(r) if isinstance(r, _C.Tensor) else r for r in result]

    def close(self, result, pushed):
        if isinstance(result, _C.Tensor):
            return self.wrap(result, pushed)
        if pushed is None:
            return self._constant(result)
        return [self.wrap(r, t) if isinstance(r, _C.Tensor) else r for r, t in zip(result, pushed, strict=True)]

    def open(self, args):
        values, tangents = [], []
        for a in args:
            if type(a) is Dual and a.frame is self:
                values.append(a.value)
                tangents.append(a.tangent)
            elif type(a) in (tuple, list):
                inner, found = self.open(a)
                values.append(inner)
                tangents.append(found if any_tangent(found) else None)
            else:
                values.append(a)
                tangents.append(None)
        return values, tangents

    def _by_position(self, op, args, kwargs):
        """Tensors among the options become arguments by position, where tangents are counted."""
        named = dict(kwargs)
        args = list(args)
        for name, _, _, default in op.arguments[len(args):]:
            if not any(isinstance(v, _C.Tensor) for v in named.values()):
                break
            args.append(named.pop(name, default))
        values, tangents = self.open(args)
        return values, tangents, {k: v.value if type(v) is Dual else v for k, v in named.items()}

    def _view(self, op, dual, values, kwargs):
        result = op(*values, **kwargs)
        rest = values[1:]
        if isinstance(result, _C.Tensor):
            return self.wrap(result, None, (dual, op, rest, None, kwargs))
        return [self.wrap(r, None, (dual, op, rest, k, kwargs)) for k, r in enumerate(result)]

    def _inplace(self, op, args, values, tangents, kwargs):
        target, name = args[0], op.name
        own = type(target) is Dual and target.frame is self
        if op.kind == "view":
            tangent = target.tangent
            op(*values, **kwargs)
            _C.set_like(target, values[0], 0)
            target._tangent = None if tangent is None else OPS[name[:-1]](tangent, *values[1:], **kwargs)
            target.source = None
            return target
        pushed = None
        if not op.random and any_tangent(tangents):
            pushed = self._written(op, values, tangents, kwargs)
        if pushed is not None and not own:
            raise RuntimeError(f"{name}: forward mode cannot write a tensor that has a tangent into one that was made "
                               "outside the transform: make it inside (flambeau.zeros_like(x), x.new_zeros), or write "
                               "out of place")
        op(*values, **kwargs)
        if own:
            target.write(pushed)
        return target

    def _written(self, op, values, tangents, kwargs):
        """The tangent of what an in-place operator leaves in its first argument; None: zero."""
        name = op.name
        if name == "copy_":
            return None if tangents[1] is None else tangents[1].to(values[0].dtype).expand(values[0].shape)
        if name in ("zero_", "fill_scalar_"):
            return None
        if name == "fill_tensor_":
            return tangents[1].expand(values[0].shape)
        base = OPS.get(name[:-1])
        if base is None:
            raise NotImplementedError(f"{name}: no derivative in forward mode; write out of place")
        return push(base, [_alias(values[0].clone()), *values[1:]], tangents, kwargs)[1]
