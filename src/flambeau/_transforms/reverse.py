"""`grad`, `vjp` and `jacrev`: reverse mode as functions of functions.

No level of their own: the inputs are made fresh leaves (aliases of the same memory) at the innermost level, the
function runs, and the tape from its outputs to those leaves is run backward. Nested calls differ in their leaves, so
that each finds its own gradients. The backward pass is itself recorded only if something older than the inputs wants
it.
"""

from functools import wraps

from .. import _C
from .._shown import shown
from ..ops.kinds import OPS
from ..utils._pytree import tree_flatten, tree_unflatten
from .batched import BatchFrame, front
from .levels import Wrapper, innermost
from .vmap import check_chunk_size, vmap


def needs_gradient(tensor):
    """Whether an outer transform or a user's tape wants a gradient of it, at any level."""
    while isinstance(tensor, Wrapper):
        if tensor.requires_grad or any(needs_gradient(t) for t in tensor.frame.others(tensor)):
            return True
        tensor = tensor.value
    return isinstance(tensor, _C.Tensor) and tensor.requires_grad


def _needs_below(tensor):
    return isinstance(tensor, Wrapper) and (
        needs_gradient(tensor.value) or any(needs_gradient(t) for t in tensor.frame.others(tensor)))


def retire(tensors):
    """Says of leaves made here that nobody will ask for their gradient any more: graphs that still lead to them (a
    transform inside another one) do not count as wanted by someone."""
    for t in tensors:
        if t.grad_fn is None:
            t.requires_grad_(False)


def without_history(tensor):
    """The tensor without its history at its own level."""
    if not tensor.requires_grad:
        return tensor
    return tensor.frame.alias(tensor) if isinstance(tensor, Wrapper) else tensor.detach()


def fresh(tensor, what):
    """An alias at the innermost level that is the input of a new tape."""
    if not isinstance(tensor, _C.Tensor):
        raise ValueError(f"{what}: expected the inputs to differentiate to be Tensors, got {type(tensor).__name__}")
    if not (tensor.is_floating_point() or tensor.is_complex()):
        raise RuntimeError(f"{what}: {tensor.dtype} cannot be differentiated; choose argnums of floating-point or "
                           "complex inputs")
    if tensor.is_inference():  # memory that no tape may save
        inference = _C.set_inference_mode(False)
        tensor = tensor.clone()
        _C.set_inference_mode(inference)
    frame = innermost()
    if frame is not None and not (isinstance(tensor, Wrapper) and tensor.frame is frame):
        return frame.lift(tensor).requires_grad_()
    if tensor.requires_grad and _C.is_grad_enabled():
        return OPS["alias"](tensor)
    if isinstance(tensor, Wrapper):
        return tensor.frame.alias(tensor).requires_grad_()
    return tensor.detach().requires_grad_()


class Tape:
    """One run of a function on fresh inputs, ready to be differentiated."""

    def __init__(self, what, inputs):
        self.what = what
        self.ambient = _C.is_grad_enabled()
        self.inputs = [fresh(x, what) for x in inputs]
        self.older = False

    def run(self, call):
        """call(), recorded whatever the caller's grad mode."""
        _C.set_grad_enabled(True)
        inference = _C.set_inference_mode(False)
        try:
            return call()
        finally:
            _C.set_inference_mode(inference)
            _C.set_grad_enabled(self.ambient)

    def finish(self, outputs):
        """Looks whether anything older than the inputs wants gradients of these outputs."""
        self.older = self.ambient and (
            any(x.grad_fn is not None for x in self.inputs)
            or any(_needs_below(x) for x in self.inputs) or any(_needs_below(y) for y in outputs)
            or _C.leads_elsewhere(tuple(outputs), tuple(self.inputs)))

    def release(self, tensor):
        """An output as the caller gets it: with the history that older tensors want, or none."""
        return tensor if self.older else without_history(tensor)

    def gradients(self, outputs, cotangents, retain=False, create=None):
        """One gradient per input; zeros where the outputs do not depend on it."""
        pairs = [(y, g) for y, g in zip(outputs, cotangents, strict=True) if y.requires_grad]
        create = self.older if create is None else create
        found = (None,) * len(self.inputs)
        if pairs:
            roots, grads = zip(*pairs, strict=True)
            inference = _C.set_inference_mode(False)
            try:
                found = _C.backward(roots, grads, retain or create, create, tuple(self.inputs), False)
            finally:
                _C.set_inference_mode(inference)
        if not self.ambient:
            found = tuple(g if g is None else _plain(g) for g in found)
        return [OPS["zeros_like"](without_history(x)) if g is None else g
                for x, g in zip(self.inputs, found, strict=True)]


def _plain(tensor):
    return tensor.detach() if needs_gradient(tensor) else tensor


def pick(args, argnums, what):
    """The arguments that `argnums` (an int or a tuple of them) names."""
    numbers = argnums if isinstance(argnums, tuple) else (argnums,)
    if not numbers or not all(isinstance(k, int) for k in numbers):
        raise RuntimeError(f"{what}: argnums must be an int or a non-empty tuple of ints, got {shown(argnums)}")
    for k in numbers:
        if not -len(args) <= k < len(args):
            raise RuntimeError(f"{what}: argnums contains {k}, but the call has {len(args)} positional arguments")
    numbers = tuple(k % len(args) for k in numbers)
    if len(set(numbers)) != len(numbers):
        raise RuntimeError(f"{what}: argnums names an argument twice: {argnums}")
    return numbers, (tuple(args[k] for k in numbers) if isinstance(argnums, tuple) else args[numbers[0]])


def place(args, numbers, argnums, value):
    """The arguments with those that `argnums` names replaced."""
    new = list(args)
    for k, v in zip(numbers, value if isinstance(argnums, tuple) else (value,), strict=True):
        new[k] = v
    return tuple(new)


def split_aux(result, has_aux, what):
    """(output, aux or None) of what the function returned."""
    if not has_aux:
        return result, None
    if not isinstance(result, tuple) or len(result) != 2:
        raise RuntimeError(f"{what}: with has_aux=True the function must return a tuple (output, aux), got "
                           f"{type(result).__name__}")
    return result


def _scalar(output, what):
    if not isinstance(output, _C.Tensor):
        raise RuntimeError(f"{what}: the function must return a Tensor, got {type(output).__name__}")
    if output.ndim != 0:
        raise RuntimeError(f"{what}: the function must return a tensor of 0 dimensions, got shape "
                           f"{list(output.shape)}; reduce it, or use jacrev or vjp")
    if output.is_complex():
        raise RuntimeError(f"{what}: the function must return a real number, got {output.dtype}; take .real or .abs(), "
                           "or use vjp")


def _released(tape, tree):
    leaves, spec = tree_flatten(tree)
    return tree_unflatten([tape.release(x) if isinstance(x, _C.Tensor) else x for x in leaves], spec)


def grad_and_value(func, argnums=0, has_aux=False):
    """Like `grad`, but the result is (gradient, value), or (gradient, (value, aux)) with `has_aux`.

    >>> import flambeau
    >>> flambeau.func.grad_and_value(flambeau.sin)(flambeau.tensor(0.))
    (tensor(1.), tensor(0.))
    """
    return _grad_and_value("grad_and_value", func, argnums, has_aux)


def _grad_and_value(what, func, argnums, has_aux):
    @wraps(func, updated=())
    def derivative(*args, **kwargs):
        numbers, chosen = pick(args, argnums, what)
        leaves, spec = tree_flatten(chosen)
        tape = Tape(what, leaves)
        inside = place(args, numbers, argnums, tree_unflatten(tape.inputs, spec))
        output, aux = split_aux(tape.run(lambda: func(*inside, **kwargs)), has_aux, what)
        _scalar(output, what)
        tape.finish([output])
        gradient = tree_unflatten(tape.gradients([output], [None]), spec)
        value = tape.release(output)
        retire(tape.inputs)
        return gradient, ((value, _released(tape, aux)) if has_aux else value)

    return derivative


def grad(func, argnums=0, has_aux=False):
    """The function that computes the gradient of `func` (which must return a 0-d tensor) by the arguments `argnums`.

    With `has_aux`, `func` returns (output, aux) and the result is (gradient, aux). Nests for higher derivatives.

    >>> import flambeau
    >>> flambeau.func.grad(flambeau.func.grad(flambeau.sin))(flambeau.tensor(1.5707964))
    tensor(-1.)
    """
    both = _grad_and_value("grad", func, argnums, has_aux)

    @wraps(func, updated=())
    def gradient(*args, **kwargs):
        found, value = both(*args, **kwargs)
        return (found, value[1]) if has_aux else found

    return gradient


def vjp(func, *primals, has_aux=False):
    """(func(*primals), a function from a cotangent of the output to those of the primals).

    >>> import flambeau
    >>> output, pull = flambeau.func.vjp(flambeau.sin, flambeau.zeros(2))
    >>> pull(flambeau.ones(2))
    (tensor([1., 1.]),)
    """
    leaves, spec = tree_flatten(primals)
    tape = Tape("vjp", leaves)
    output, aux = split_aux(tape.run(lambda: func(*tree_unflatten(tape.inputs, spec))), has_aux, "vjp")
    outputs, out_spec = tree_flatten(output)
    for y in outputs:
        if not isinstance(y, _C.Tensor):
            raise RuntimeError(f"vjp: the function must return Tensors only, got {type(y).__name__}")
    if not outputs:
        raise RuntimeError("vjp: the function returned an empty structure, so there is nothing to differentiate")
    tape.finish(outputs)

    def pull(cotangents, retain_graph=True, create_graph=None):
        given, given_spec = tree_flatten(cotangents)
        if given_spec != out_spec:
            raise RuntimeError(f"vjp: the cotangents must be structured as the function's result, {out_spec}, got "
                               f"{given_spec}")
        create = create_graph
        if create is None:
            create = _C.is_grad_enabled() and (tape.older or any(needs_gradient(g) for g in given))
        return tree_unflatten(tape.gradients(outputs, given, retain_graph, create), spec)

    result = tree_unflatten([tape.release(y) for y in outputs], out_spec)
    return (result, pull, _released(tape, aux)) if has_aux else (result, pull)


def batched_gradients(outputs, inputs, grads, retain, create):
    """One backward pass for a batch of gradients of the outputs: `autograd.grad(is_grads_batched=True)`."""
    grads = (grads,) if isinstance(grads, _C.Tensor) else tuple(grads or ())
    if len(grads) != len(outputs):
        raise RuntimeError(f"grad: is_grads_batched=True: got {len(outputs)} outputs and {len(grads)} gradients")
    sizes = {g.shape[0] for g in grads if g is not None and g.ndim}
    if len(sizes) != 1:
        raise RuntimeError("grad: with is_grads_batched=True all grad_outputs share the size of dimension 0, got "
                           f"sizes {sorted(sizes)}")
    with BatchFrame(sizes.pop(), "different") as frame:
        inside = tuple(g if g is None else frame.wrap(g) for g in grads)
        found = _C.backward(outputs, inside, retain, create, inputs, False)
        return tuple(g if g is None else _whole(frame, g) for g in found)


def _whole(frame, tensor):
    mine = isinstance(tensor, Wrapper) and tensor.frame is frame
    return front(tensor.value, tensor.batched, frame.size) if mine else front(tensor, False, frame.size)


def _standard_basis(outputs):
    """For every element of every output, in order, the cotangent that is 1 there: one tensor per output."""
    total, start, basis = sum(y.numel() for y in outputs), 0, []
    for y in outputs:
        n = y.numel()
        rows = OPS["zeros"]((total, n), dtype=y.dtype, device=y.device)
        if n:
            OPS["fill_scalar_"](OPS["diagonal"](rows, -start), 1)
        basis.append(OPS["reshape"](rows, (total, *y.shape)))
        start += n
    return basis


def jacrev(func, argnums=0, *, has_aux=False, chunk_size=None, _preallocate_and_copy=False):
    """The function that computes the Jacobian of `func` by reverse mode: one pull-back per output element, vmapped.

    The Jacobian of an output of shape `out` by an input of shape `in` has shape `out + in`. `chunk_size` bounds how
    many rows are computed at once.

    >>> import flambeau
    >>> flambeau.func.jacrev(flambeau.square)(flambeau.tensor([1., 2.]))
    tensor([[2., 0.],
            [0., 4.]])
    """
    check_chunk_size("jacrev", chunk_size)

    @wraps(func, updated=())
    def jacobian(*args, **kwargs):
        numbers, chosen = pick(args, argnums, "jacrev")
        several = isinstance(argnums, tuple)

        def call(*inputs):
            return func(*place(args, numbers, argnums, inputs if several else inputs[0]), **kwargs)

        found = vjp(call, *(chosen if several else (chosen,)), has_aux=has_aux)
        output, pull = found[0], found[1]
        outputs, out_spec = tree_flatten(output)
        input_leaves, in_spec = tree_flatten(chosen)
        basis = _standard_basis(outputs)

        def pull_all(*cotangents):
            grads = pull(tree_unflatten(cotangents, out_spec))
            return tuple(tree_flatten(grads if several else grads[0])[0])

        rows = vmap(pull_all, chunk_size=chunk_size)(*basis)
        result = _jacobian_tree(rows, outputs, out_spec, input_leaves, in_spec)
        return (result, found[2]) if has_aux else result

    return jacobian


def _jacobian_tree(rows, outputs, out_spec, inputs, in_spec):
    """Rows of all outputs, per input, cut into one block per (output, input): a tree of trees."""
    sizes = [y.numel() for y in outputs]
    cut = [OPS["split_with_sizes"](r, sizes) for r in rows]
    blocks = []
    for k, y in enumerate(outputs):
        parts = [OPS["reshape"](c[k], (*y.shape, *x.shape)) for c, x in zip(cut, inputs, strict=True)]
        blocks.append(tree_unflatten(parts, in_spec))
    return tree_unflatten(blocks, out_spec)
