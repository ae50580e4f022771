"""Control flow as functions: `cond`, `while_loop`, `scan`, `associative_scan` and `map`, whose bodies are functions.

They decide when they run, on values that are known then, and derivatives go through what ran. Inside a trace each
becomes one step whose arguments are graphs: `make_fx` asks `higher_order` of the mode that records, `symbolic_trace`
the Proxies.
"""

import builtins

from . import _C
from ._shown import shown
from ._subclasses.fake import FakeTensor
from ._tensor.overriding import _modes, asked, overriding
from ._transforms import vmap
from ._transforms.batched import Batched
from ._transforms.levels import Wrapper
from .ops import joining, masks, views
from .ops.dims import wrap_dim
from .ops.namespaces import namespace
from .utils import _pytree


def _taken(op, functions, operands, args, kwargs):
    """(whether a trace takes the call, its result)."""
    found = overriding(tuple(_pytree.tree_leaves(operands)), {}, "__torch_function__")
    if any(not isinstance(x, _C.Tensor) for x in found):
        return True, asked(op, found, args, kwargs, lambda types: _refused(op, types))
    capture = getattr(_modes.dispatch[-1], "higher_order", None) if _modes.dispatch else None
    result = capture(op, functions, operands) if capture is not None else None
    return result is not None, result


def _refused(op, types):
    names = ", ".join(t.__name__ for t in types)
    raise TypeError(f"{op.__name__}: __torch_function__ of {names} returned NotImplemented")


def _check_functions(name, **functions):
    for argument, function in functions.items():
        if not callable(function):
            raise RuntimeError(f"{name}: {argument} must be a function, got {shown(function)}")


def _truth(name, pred):
    if hasattr(pred, "numel"):
        if pred.numel() != 1:
            raise RuntimeError(f"{name}: pred must hold one element, got shape {list(pred.shape)}")
        return _C.graph_look(bool, (pred,), None)  # in a function compiled with fullgraph=True too
    if not isinstance(pred, (bool, int, float)):
        raise RuntimeError(f"{name}: pred must be a bool or a Tensor, got {type(pred).__name__}")
    return bool(pred)


def cond(pred, true_fn, false_fn, operands=()):
    """true_fn(*operands) if pred else false_fn(*operands), decided when it runs.

    >>> import flambeau
    >>> flambeau.cond(True, lambda x: x + 1, lambda x: x - 1, (flambeau.zeros(1),))
    tensor([1.])
    """
    _check_functions("cond", true_fn=true_fn, false_fn=false_fn)
    if not isinstance(operands, (tuple, list)):
        raise RuntimeError(f"cond: operands must be a tuple or a list, got {type(operands).__name__}")
    if not isinstance(pred, (bool, int, float)):
        taken, result = _taken(cond, (true_fn, false_fn), (pred, tuple(operands)),
                               (pred, true_fn, false_fn, operands), {})
        if taken:
            return result
    if _differs(pred):
        return _chosen(pred, true_fn(*operands), false_fn(*operands))
    return (true_fn if _truth("cond", pred) else false_fn)(*operands)


def _differs(pred):
    """Whether a `vmap` that runs has a truth for each element."""
    while isinstance(pred, Wrapper):
        if isinstance(pred, Batched) and pred.batched:
            return True
        pred = pred.value
    return False


def _chosen(pred, yes, no):
    """Both results where elements of a batch go different ways: each takes its own."""
    (a, spec), (b, other) = _pytree.tree_flatten(yes), _pytree.tree_flatten(no)
    if spec != other:
        raise RuntimeError(f"cond: true_fn and false_fn must return the same structure, got {spec} and {other}")
    return _pytree.tree_unflatten([masks.where(pred.reshape(()), x, y) for x, y in zip(a, b, strict=True)], spec)


def while_loop(cond_fn, body_fn, carried_inputs, additional_inputs=()):
    """Runs `carried = body_fn(*carried, *additional)` while `cond_fn(*carried, *additional)` holds.

    >>> import flambeau
    >>> flambeau.while_loop(lambda i: i < 3, lambda i: (i + 1,), (flambeau.tensor(0),))
    (tensor(3),)
    """
    _check_functions("while_loop", cond_fn=cond_fn, body_fn=body_fn)
    carried, additional = tuple(carried_inputs), tuple(additional_inputs)
    taken, result = _taken(while_loop, (cond_fn, body_fn), (carried, additional),
                           (cond_fn, body_fn, carried, additional), {})
    if taken:
        return result
    more = cond_fn(*carried, *additional)
    unknown = isinstance(more, FakeTensor) and more.constant is None  # then one step tells what the results look like
    while unknown or _truth("while_loop", more):
        result = body_fn(*carried, *additional)
        result = tuple(result) if isinstance(result, (tuple, list)) else (result,)
        if len(result) != len(carried):
            raise RuntimeError(f"while_loop: body_fn must return as many values as are carried, {len(carried)}, got "
                               f"{len(result)}")
        carried = result
        if unknown:
            break
        more = cond_fn(*carried, *additional)
    return carried


def _length(name, leaves, dim, error=RuntimeError):
    tensors = [x for x in leaves if isinstance(x, _C.Tensor) and x.dim() > 0]
    if not tensors or len(tensors) != len(leaves):
        raise error(f"{name}: xs must be tensors with a dimension to walk along, or a tree of them, got "
                    f"{shown(leaves)}")
    lengths = {x.shape[wrap_dim(dim, x.dim(), name)] for x in tensors}
    if len(lengths) != 1:
        raise error(f"{name}: the tensors of xs must have one length along dimension {dim}, got "
                    f"{sorted(lengths)}")
    length = lengths.pop()
    if length == 0:
        raise error(f"{name}: xs must have at least one element along dimension {dim}")
    return length


def _stacked(results, dim=0):
    """One tree of stacked tensors, of the trees that the steps gave."""
    columns = [_pytree.tree_flatten(r) for r in results]
    specs = [spec for _, spec in columns]
    if any(spec != specs[0] for spec in specs):
        raise RuntimeError(f"every step must give the same structure, got {specs[0]} and others")
    return _pytree.tree_unflatten([joining.stack(list(column), dim) for column in zip(*(c for c, _ in columns),
                                                                                     strict=True)], specs[0])


def scan(combine_fn, init, xs, *, dim=0, reverse=False, additional_inputs=()):
    """(the last carry, the stacked y) of `carry, y = combine_fn(carry, x, *additional)` for each slice x of xs along
    dim, beginning with carry = init; reverse=True walks from the end, and y keep the places of their x.

    init, xs and y may be trees of tensors.

    >>> import flambeau
    >>> from flambeau.control_flow import scan
    >>> scan(lambda total, x: (total + x, total + x), flambeau.tensor(0), flambeau.arange(4))
    (tensor(6), tensor([0, 1, 3, 6]))
    """
    _check_functions("scan", combine_fn=combine_fn)
    leaves, spec = _pytree.tree_flatten(xs)
    additional = tuple(additional_inputs)
    taken, result = _taken(scan, (combine_fn,), (init, xs, dim, reverse, additional), (combine_fn, init, xs),
                           {"dim": dim, "reverse": reverse, "additional_inputs": additional})
    if taken:
        return result
    length = _length("scan", leaves, dim)
    carry, structure, found = init, _pytree.tree_structure(init), [None] * length
    for k in reversed(range(length)) if reverse else range(length):
        pair = combine_fn(carry, _pytree.tree_unflatten([x.select(dim, k) for x in leaves], spec), *additional)
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise RuntimeError(f"scan: combine_fn must return (carry, y), got {shown(pair)}")
        carry, found[k] = pair
        if _pytree.tree_structure(carry) != structure:
            raise RuntimeError("scan: combine_fn must return a carry with the structure of init")
    return carry, _stacked(found)


def map(f, xs, *args):
    """The stacked results of f(x, *args) for each slice x of xs along its first dimension; xs and results may be trees.

    >>> import flambeau
    >>> from flambeau.control_flow import map
    >>> map(lambda x, y: x.sum() * y, flambeau.ones(3, 2), flambeau.tensor(2.0))
    tensor([4., 4., 4.])
    """
    _check_functions("map", f=f)
    leaves, spec = _pytree.tree_flatten(xs)
    taken, result = _taken(map, (f,), (xs, args), (f, xs, *args), {})
    if taken:
        return result
    length = _length("map", leaves, 0)
    return _stacked([f(_pytree.tree_unflatten([x[k] for x in leaves], spec), *args) for k in builtins.range(length)])


def associative_scan(combine_fn, xs, dim, reverse=False, combine_mode="pointwise"):
    """The running results of combine_fn along dim: x0, f(x0, x1), f(f(x0, x1), x2), …, in about 2 log2(n) calls of it,
    each for many pairs at once by `vmap`; so f must be associative. reverse=True runs from the end.

    xs may be a tree of tensors, of which f(left, right) gets and returns one slice each. Both modes, "pointwise" and
    "generic", do the same here.

    >>> import flambeau
    >>> from flambeau.control_flow import associative_scan
    >>> associative_scan(lambda a, b: a * b, flambeau.arange(1, 6), 0)
    tensor([  1,   2,   6,  24, 120])
    """
    if not callable(combine_fn):
        raise ValueError(f"associative_scan: combine_fn must be a function, got {shown(combine_fn)}")
    if not isinstance(dim, int):
        raise ValueError(f"associative_scan: dim must be an int, got {type(dim).__name__}")
    if combine_mode not in ("pointwise", "generic"):
        raise ValueError(f"associative_scan: combine_mode must be 'pointwise' or 'generic', got {shown(combine_mode)}")
    leaves, spec = _pytree.tree_flatten(xs)
    _length("associative_scan", leaves, dim, ValueError)
    columns = [views.movedim(x, dim, 0) for x in leaves]

    def combined(left, right):
        trees = (_pytree.tree_unflatten(side, spec) for side in (left, right))
        found, structure = _pytree.tree_flatten(vmap(combine_fn)(*trees))
        if structure != spec:
            raise RuntimeError(f"associative_scan: combine_fn must return what it gets, {spec}, got {structure}")
        return found

    columns = _scanned(combined, [x.flip(0) for x in columns] if reverse else columns)
    columns = [x.flip(0) for x in columns] if reverse else columns
    return _pytree.tree_unflatten([views.movedim(x, 0, dim) for x in columns], spec)


def _scanned(combined, columns):
    """The places 1, 3, 5 … of the scan are the scan of the pairs (0, 1), (2, 3) …; those between need one call more."""
    n = columns[0].shape[0]
    if n < 2:
        return columns
    odd = _scanned(combined, combined([x[:n - 1:2] for x in columns], [x[1::2] for x in columns]))
    even = [x[:1] for x in columns]
    if n > 2:
        later = combined([x[:(n - 1) // 2] for x in odd], [x[2::2] for x in columns])
        even = [joining.cat(pair) for pair in zip(even, later, strict=True)]
    return [_interleaved(x, y) for x, y in zip(even, odd, strict=True)]


def _interleaved(even, odd):
    pairs = joining.stack([even[:len(odd)], odd], 1).flatten(0, 1)
    return pairs if len(even) == len(odd) else joining.cat([pairs, even[-1:]])


for _op in (cond, while_loop, scan, map):
    namespace("higher_order")._register(_op.__name__, _op)
