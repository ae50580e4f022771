"""`jvp`, `jacfwd`, `hessian` and `linearize`: forward mode as functions of functions."""

from functools import wraps

from .. import _C
from ..ops.kinds import OPS
from ..utils._pytree import tree_flatten, tree_map_only, tree_unflatten
from .dual import Dual, DualFrame
from .levels import innermost
from .reverse import _standard_basis, jacrev, needs_gradient, pick, place, split_aux, vjp
from .vmap import check_chunk_size, vmap


def _checked_pairs(primals, tangents):
    """Leaves of both trees and the primals' structure."""
    if not isinstance(primals, tuple):
        raise RuntimeError(f"jvp: primals must be a tuple, one entry per argument, got {type(primals).__name__}; write "
                           "(x,) for a single one")
    leaves, spec = tree_flatten(primals)
    moves, other = tree_flatten(tangents)
    if spec != other:
        raise RuntimeError(f"jvp: one tangent per primal, in the same structure: primals have {spec}, tangents {other}")
    if not leaves:
        raise RuntimeError("jvp(f, primals, tangents): Expected primals to be non-empty")
    for x, t in zip(leaves, moves, strict=True):
        check_tangent("jvp(f, primals, tangents)", x, t)
    return leaves, moves, spec


def check_tangent(what, x, t):
    """Both are tensors, floating, of one shape."""
    for v in (x, t):
        if not isinstance(v, _C.Tensor):
            raise RuntimeError(f"{what}: primals and tangents must be Tensors, got {type(v).__name__}")
    if not (x.is_floating_point() or x.is_complex()):
        raise ValueError(f"{what}: {x.dtype} cannot be differentiated; primals must be floating point or complex")
    if not (t.is_floating_point() or t.is_complex()):
        raise ValueError(f"{what}: tangents must be floating point or complex, got {t.dtype}")
    if x.shape != t.shape:
        raise RuntimeError(f"{what}: Expected tangent to have the same size as its primal, got {list(t.shape)} for "
                           f"{list(x.shape)}")
    if x.dtype is not t.dtype:
        raise RuntimeError(f"{what}: Expected tangent to have the dtype of its primal, got {t.dtype} for {x.dtype}")


def _outputs(output, what):
    leaves, spec = tree_flatten(output)
    if not leaves:
        raise RuntimeError(f"{what}: the function returned an empty structure, so there is nothing to differentiate")
    for y in leaves:
        if not isinstance(y, _C.Tensor):
            raise RuntimeError(f"{what}: the function must return Tensors only, got {type(y).__name__}")
    return leaves, spec


def unwrap(tensor, frame):
    """(primal, tangent or None) of a result of this frame."""
    if type(tensor) is Dual and tensor.frame is frame:
        return tensor.value, tensor.tangent
    return tensor, None


def _primals_of(tree, frame):
    leaves, spec = tree_flatten(tree)
    return tree_unflatten([unwrap(x, frame)[0] for x in leaves], spec)


def jvp(func, primals, tangents, *, strict=False, has_aux=False):
    """(func(*primals), its derivative along tangents): one forward pass carries both.

    With `has_aux`, func returns (output, aux) and the result is (output, tangent, aux). `strict` refuses an output that
    does not depend on the primals, instead of giving it a zero tangent.

    >>> import flambeau
    >>> flambeau.func.jvp(flambeau.square, (flambeau.tensor([1., 2.]),), (flambeau.tensor([1., 10.]),))
    (tensor([1., 4.]), tensor([ 2., 40.]))
    """
    leaves, moves, spec = _checked_pairs(primals, tangents)
    with DualFrame() as frame:
        duals = [frame.wrap(x, t) for x, t in zip(leaves, moves, strict=True)]
        output, aux = split_aux(func(*tree_unflatten(duals, spec)), has_aux, "jvp")
        results, out_spec = _outputs(output, "jvp(f, primals, tangents)")
        pairs = [unwrap(y, frame) for y in results]
        if has_aux:
            aux = _primals_of(aux, frame)
    if strict and any(t is None for _, t in pairs):
        raise RuntimeError("jvp: with strict=True every result must depend on the primals, and one does not")
    result = tree_unflatten([y for y, _ in pairs], out_spec)
    pushed = tree_unflatten([OPS["zeros_like"](y) if t is None else t for y, t in pairs], out_spec)
    return (result, pushed, aux) if has_aux else (result, pushed)


def jacfwd(func, argnums=0, has_aux=False, *, chunk_size=None, randomness="error"):
    """The function that computes the Jacobian of `func` by forward mode: one push per input element, vmapped.

    Shapes are those of `jacrev`; forward mode is the cheaper one where there are more outputs than inputs.

    >>> import flambeau
    >>> flambeau.func.jacfwd(flambeau.square)(flambeau.tensor([1., 2.]))
    tensor([[2., 0.],
            [0., 4.]])
    """
    check_chunk_size("jacfwd", chunk_size)

    @wraps(func, updated=())
    def jacobian(*args, **kwargs):
        numbers, chosen = pick(args, argnums, "jacfwd")
        inputs, in_spec = tree_flatten(chosen)
        shapes = {}

        def call(*leaves):
            value = tree_unflatten(leaves, in_spec)
            return func(*place(tree_map_only(_C.Tensor, innermost().lift, args), numbers, argnums, value), **kwargs)

        def push(*tangents):
            found = jvp(call, tuple(inputs), tangents, has_aux=has_aux)
            outputs, shapes["spec"] = tree_flatten(found[1])
            return tuple(outputs), (found[2] if has_aux else ())

        rows, aux = vmap(push, out_dims=(0, None) if has_aux else (0, 0), randomness=randomness,
                         chunk_size=chunk_size)(*_standard_basis(inputs))
        result = _columns_tree(rows, shapes["spec"], inputs, in_spec)
        return (result, aux) if has_aux else result

    return jacobian


def _columns_tree(rows, out_spec, inputs, in_spec):
    """Pushed basis vectors, per output, cut into one block per (output, input): a tree of trees."""
    sizes = [x.numel() for x in inputs]
    trees = []
    for pushed in rows:
        shape = tuple(pushed.shape[1:])
        blocks = []
        for part, x in zip(OPS["split_with_sizes"](pushed, sizes), inputs, strict=True):
            moved = OPS["reshape"](part, (part.shape[0], -1) if part.numel() else (part.shape[0], 0)).t()
            blocks.append(OPS["reshape"](moved, (*shape, *x.shape)))
        trees.append(tree_unflatten(blocks, in_spec))
    return tree_unflatten(trees, out_spec)


def hessian(func, argnums=0):
    """The function that computes the Hessian of `func`: forward mode over reverse mode.

    >>> import flambeau
    >>> flambeau.func.hessian(lambda x: (x ** 3).sum())(flambeau.tensor([1., 2.]))
    tensor([[ 6.,  0.],
            [ 0., 12.]])
    """
    return jacfwd(jacrev(func, argnums), argnums)


def linearize(func, *primals):
    """(func(*primals), the linear function of tangents that is its derivative there).

    `func` runs once; the linear function is the transpose of its pull-back and can be called any number of times.

    >>> import flambeau
    >>> output, push = flambeau.func.linearize(flambeau.sin, flambeau.zeros(2))
    >>> push(flambeau.tensor([1., 2.]))
    tensor([1., 2.])
    """
    output, pull = vjp(func, *primals)
    outputs, out_spec = _outputs(output, "linearize")
    inputs, in_spec = tree_flatten(primals)

    def push(*tangents):
        moves, spec = tree_flatten(tangents)
        if spec != in_spec:
            raise RuntimeError(f"linearize: expected tangents of the primals' structure {in_spec}, got {spec}")
        for x, t in zip(inputs, moves, strict=True):
            check_tangent("linearize", x, t)
        zeros = tuple(OPS["zeros_like"](y) for y in outputs)
        _, transpose = vjp(lambda *u: pull(tree_unflatten(u, out_spec), create_graph=True), *zeros)
        pushed = transpose(tree_unflatten(moves, in_spec))
        if not (_C.is_grad_enabled() and any(needs_gradient(v) for v in (*inputs, *moves))):
            pushed = [p.detach() for p in pushed]  # at every level
        return tree_unflatten(list(pushed), out_spec)

    return output, push


