"""How a tangent passes an operator: by the derivative rules that reverse mode has anyway.

* a linear operator (a view, a sum, a product by one factor) is applied to the tangent itself;
* a pointwise operator of real numbers multiplies by a slope, so its pull-back of a tangent is the push-forward;
* for every other one the pull-back is a linear function of its cotangent, and the transpose of that function (a second
  pull-back) is the push-forward.
"""

from .. import _C
from ..ops.kinds import OPS
from .levels import Wrapper, stack
from .reverse import retire, without_history

_zeros_like, _alias = OPS["zeros_like"], OPS["alias"]

#: linear in all their tensor arguments together (a missing tangent is zero)
TOGETHER = {"cat", "stack"}
#: linear in their first argument; other tensors among the arguments are indices or masks
FIRST = {"sum", "mean", "clone", "_to_copy", "contiguous", "neg", "flip", "roll", "tril", "triu", "index_select",
         "gather", "take", "cumsum", "im2col", "col2im", "pixel_shuffle", "pixel_unshuffle", "channel_shuffle",
         "diag_embed", "masked_select", "repeat_interleave", "sum_to_size", "deg2rad", "rad2deg", "_border"}
#: linear in each of these arguments, with the others fixed; affine in those after the bar (which count once)
PRODUCTS = {"mm": (0, 1), "bmm": (0, 1), "mv": (0, 1), "dot": (0, 1), "mul": (0, 1), "matmul": (0, 1), "outer": (0, 1)}


def _dirichlet(op, result, values, tangents):
    total = values[0].sum(-1, keepdim=True).expand_as(values[0])
    moved = OPS["_dirichlet_grad"](result, values[0], total) * tangents[0]
    return moved - result * moved.sum(-1, keepdim=True)


#: random operators whose results move with their arguments, what was drawn being held: the result's tangent
DRAWN = {"dropout_forward": lambda op, result, values, tangents:
             [OPS["dropout_scale"](tangents[0], result[1], values[1]), None],
         "_sample_dirichlet": _dirichlet,
         "_standard_gamma": lambda op, result, values, tangents: op.rules["self",](tangents[0], values[0], result)}


def any_tangent(tangents):
    """Whether one of them is not zero."""
    return any(t is not None for t in tangents)


def push(op, values, tangents, options):
    """(result, tangent of the result) of an operator on values whose tangents are given (None: zero)."""
    name = op.name
    rule = PUSH.get(name)
    if rule is not None:
        return op(*values, **options), rule(op, values, tangents, options)
    first_only = tangents[0] is not None and not any_tangent(tangents[1:])
    if name in FIRST and first_only:
        return op(*values, **options), op(tangents[0], *values[1:], **options)
    if name in TOGETHER:
        filled = [_zeros_like(v) if t is None else t
                  for v, t in zip(values[0], tangents[0], strict=True)]
        return op(*values, **options), op(filled, *values[1:], **options)
    if name in PRODUCTS:
        return op(*values, **options), _product(op, PRODUCTS[name], values, tangents, options)
    return _by_pull_back(op, values, tangents, options)


def _product(op, places, values, tangents, options):
    total = None
    for k in places:
        if tangents[k] is not None:
            term = op(*[tangents[k] if j == k else v for j, v in enumerate(values)], **options)
            total = term if total is None else total + term
    return total


def _leaf(tensor, level):
    """A tensor at that level whose gradient can be asked for, tied to the tensor's own history."""
    if _C.level_of(tensor) < level:
        return _lifted(tensor, level).requires_grad_()
    if tensor.requires_grad:
        return _alias(tensor)
    return (tensor.frame.alias(tensor) if isinstance(tensor, Wrapper) else tensor.detach()).requires_grad_()


def _lifted(tensor, level):
    return stack.frames[level - 1].lift(tensor)


def _tensor_places(tangents):
    """Where tangents are: (argument, None) or (argument, position in its list)."""
    for k, t in enumerate(tangents):
        if isinstance(t, list):
            yield from ((k, j) for j, x in enumerate(t) if x is not None)
        elif t is not None:
            yield k, None


def _levels_of(values):
    for v in values:
        if isinstance(v, (list, tuple)):
            yield from _levels_of(v)
        elif isinstance(v, _C.Tensor):
            yield _C.level_of(v)


def _by_pull_back(op, values, tangents, options):
    places = list(_tensor_places(tangents))
    before = _C.set_grad_enabled(True)
    try:
        level = max(*_levels_of(values), *_levels_of(tangents))
        elementwise = op.kind == "elementwise" and not any(
            isinstance(v, _C.Tensor) and v.is_complex() for v in values)
        if elementwise:
            shape = OPS["broadcast_tensors"](*(v for v in values if isinstance(v, _C.Tensor)))[0].shape
        inputs, leaves = [list(v) if isinstance(v, (list, tuple)) else v for v in values], []
        for k, j in places:
            source = values[k] if j is None else values[k][j]
            leaf = _leaf(source.expand(shape) if elementwise else source, level)
            leaves.append(leaf)
            if j is None:
                inputs[k] = leaf
            else:
                inputs[k][j] = leaf
        result = op(*inputs, **options)
        found = [tangents[k] if j is None else tangents[k][j] for k, j in places]
        if elementwise and isinstance(result, _C.Tensor) and not result.is_complex():
            pushed = _by_slope(result, leaves, found, shape) if result.requires_grad else None
        else:
            if elementwise:
                found = [t.expand(shape) for t in found]
            pushed = _by_transpose(op, result, leaves, found)
    finally:
        _C.set_grad_enabled(before)
    retire(leaves)
    needed = before and (any(x.grad_fn is not None for x in leaves) or _recorded(values) or _recorded(tangents))
    return _settled(op, values, options, result, needed), pushed if needed else _plain(pushed)


def _settled(op, values, options, result, needed):
    """The result without the history of the leaves made here, with that of its arguments."""
    if needed:
        return op(*values, **options)
    if isinstance(result, _C.Tensor):
        return without_history(result)
    return [without_history(r) if isinstance(r, _C.Tensor) else r for r in result]


def _recorded(values):
    """Whether the caller's own graph leads to one of these tensors."""
    return any(_recorded(v) if isinstance(v, (list, tuple)) else isinstance(v, _C.Tensor) and v.requires_grad
               for v in values)


def _plain(pushed):
    """Tangents without the history that only the leaves made here have."""
    if isinstance(pushed, list):
        return [_plain(p) for p in pushed]
    return None if pushed is None else without_history(pushed)


def _by_slope(result, leaves, tangents, shape):
    """Pointwise, real: the pull-back of the tangent itself, one argument at a time."""
    total = None
    for leaf, t in zip(leaves, tangents, strict=True):
        t = t.to(result.dtype).expand(shape)
        (share,) = _C.backward((result,), (t,), True, True, (leaf,), False)
        if share is not None:
            share = share.to(result.dtype)
            total = share if total is None else total + share
    return total


def _by_transpose(op, result, leaves, tangents):
    """The pull-back is linear in its cotangents: pulling the tangents back through it pushes them forward."""
    results = [result] if isinstance(result, _C.Tensor) else list(result)
    roots = [r for r in results if isinstance(r, _C.Tensor) and r.requires_grad and r.numel()]
    pushed = {}
    if roots:
        cotangents = tuple(OPS["ones_like"](r.detach()).requires_grad_() for r in roots)
        shares = _C.backward(tuple(roots), cotangents, True, True, tuple(leaves), False)
        for s in shares:  # a share that is not zero but forgot its cotangent would pass for a zero tangent
            if s is not None and not s.requires_grad and not _C.level_of(s) and (s != 0).any():
                raise NotImplementedError(f"{op.name}: no derivative in forward mode: the gradient of this operator "
                                          "cannot itself be differentiated")
        pairs = [(s, t.to(s.dtype)) for s, t in zip(shares, tangents, strict=True)
                 if s is not None and s.requires_grad]
        if pairs:
            found = _C.backward(tuple(s for s, _ in pairs), tuple(t for _, t in pairs), True, True, cotangents, False)
            pushed = {id(r): f for r, f in zip(roots, found, strict=True)}
        retire(cotangents)
    tangents_out = [pushed.get(id(r)) for r in results]
    return tangents_out[0] if isinstance(result, _C.Tensor) else tangents_out


# --- rules of their own: the operators that forward mode meets most -------------------------------------------------

PUSH = {}


def _rule(*names):
    def decorate(function):
        for name in names:
            PUSH[name] = function
        return function
    return decorate


def _sum(parts, like):
    total = None
    for p in parts:
        if p is not None:
            total = p if total is None else total + p
    return total


@_rule("detach")
def _detached(op, values, tangents, options):
    return None


@_rule("linear")
def _linear(op, values, tangents, options):
    x, w = values[:2]
    dx, dw, db = (*tangents, None)[:3]
    along = _sum([None if dx is None else op(dx, w), None if dw is None else op(x, dw)], x)
    if db is None:
        return along
    return db.expand(*x.shape[:-1], w.shape[0]) if along is None else along + db


@_rule("addmm", "baddbmm")
def _added_product(op, values, tangents, options):
    product = OPS["mm" if op.name == "addmm" else "bmm"]
    _, a, b, *rest = values
    names = ("beta", "alpha")
    beta, alpha = (*rest, *(options.get(n, 1) for n in names[len(rest):]))
    dc, da, db = tangents[:3]
    along = _sum([None if da is None else product(da, b), None if db is None else product(a, db)], a)
    if along is not None and alpha != 1:
        along = along * alpha
    if dc is not None:
        dc = dc * beta if beta != 1 else dc
        along = dc.expand(*a.shape[:-1], b.shape[-1]) if along is None else along + dc
    return along


@_rule("convolution")
def _convolution(op, values, tangents, options):
    x, w, _, *rest = values
    dx, dw, db = tangents[:3]
    along = _sum([None if dx is None else op(dx, w, None, *rest, **options),
                  None if dw is None else op(x, dw, None, *rest, **options)], x)
    if db is None:
        return along
    shaped = db.reshape(-1, *(1,) * (w.ndim - 2))
    return along + shaped if along is not None else shaped + _zeros_like(op(*values, **options))


@_rule("constant_pad_nd")
def _padded(op, values, tangents, options):
    return op(tangents[0], values[1], 0)


@_rule("add", "sub")
def _added(op, values, tangents, options):
    da, db = tangents[:2]
    alpha = values[2] if len(values) > 2 else options.get("alpha", 1)
    whole = op(*values, **options) if da is None or db is None else None
    if da is None:
        signed = -db if op.name == "sub" else db
        return (signed * alpha if alpha != 1 else signed).to(whole.dtype).expand(whole.shape)
    if db is None:
        return da.to(whole.dtype).expand(whole.shape)
    return op(da, db, alpha=alpha)
