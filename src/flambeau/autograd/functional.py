"""Derivatives of a function as values: vjp, jvp, jacobian, hessian and their products, from reverse mode.

The forward products (jvp, hvp) differentiate a reverse pass once more: the gradient of <v, J u> by v is J u.
"""

import importlib

from .. import _C
from .._shown import shown
from ..ops.kinds import OPS
from ._call import grad as _grad
from .grad_mode import enable_grad


def _tuple(x, name, what):
    single = isinstance(x, _C.Tensor)
    tensors = (x,) if single else tuple(x)
    for k, t in enumerate(tensors):
        if not isinstance(t, _C.Tensor):
            raise TypeError(f"{name}: {what} must be a Tensor or a tuple of them; element {k} is {type(t).__name__}")
    return single, tensors


def _leaves(inputs, create_graph):
    """Inputs that can be differentiated by: with `create_graph` tied to the caller's own, else cut off."""
    return tuple(x.view_as(x) if create_graph and x.requires_grad else x.detach().requires_grad_() for x in inputs)


def _call(name, func, leaves):
    with enable_grad():
        single, outputs = _tuple(func(*leaves), name, "the function's result")
    return single, outputs


def _given(name, v, tensors, what):
    """The vector(s) v, checked against what they multiply; ones for a single number."""
    if v is None:
        if len(tensors) != 1 or tensors[0].numel() != 1:
            raise RuntimeError(f"{name}: v can be left out only when the function has one {what} of a single element")
        return (OPS["ones_like"](tensors[0].detach()),)
    _, v = _tuple(v, name, "v")
    if len(v) != len(tensors):
        raise RuntimeError(f"{name}: v has {len(v)} tensors, expected {len(tensors)}, one per {what}")
    for k, (a, b) in enumerate(zip(v, tensors, strict=True)):
        if a.shape != b.shape:
            raise RuntimeError(f"{name}: v[{k}] has shape {list(a.shape)}, {what} {k} has {list(b.shape)}")
    return v


def _gradients(name, outputs, inputs, grads, create_graph, strict):
    """Gradients by the inputs, zeros where there is no path (an error under `strict`)."""
    used = [k for k, y in enumerate(outputs) if y.requires_grad]
    found = (None,) * len(inputs)
    if used:
        found = _grad([outputs[k] for k in used], inputs, [grads[k] for k in used], retain_graph=True,
                      create_graph=create_graph, allow_unused=True)
    if strict and any(g is None for g in found):
        missing = [k for k, g in enumerate(found) if g is None]
        raise RuntimeError(f"{name}: the outputs are independent of inputs {missing}; not allowed with strict=True")
    if strict and create_graph and not all(g.requires_grad for g in found):
        constant = [k for k, g in enumerate(found) if not g.requires_grad]
        raise RuntimeError(f"{name}: the derivatives by inputs {constant} are constant and have no graph; not "
                           "allowed with strict=True")
    return tuple(OPS["zeros_like"](x.detach()) if g is None else g for g, x in zip(found, inputs, strict=True))


def _detached(tensors, create_graph):
    return tensors if create_graph else tuple(t.detach() for t in tensors)


def _shaped(single, tensors):
    return tensors[0] if single else tuple(tensors)


@enable_grad()
def vjp(func, inputs, v=None, create_graph=False, strict=False):
    """(func(inputs), v^T J): the product of a vector with the Jacobian.

    >>> import flambeau
    >>> flambeau.autograd.functional.vjp(lambda x: x * x, flambeau.tensor([1., 2.]), flambeau.ones(2))
    (tensor([1., 4.]), tensor([2., 4.]))
    """
    single_in, inputs = _tuple(inputs, "vjp", "inputs")
    leaves = _leaves(inputs, create_graph)
    single_out, outputs = _call("vjp", func, leaves)
    v = _given("vjp", v, outputs, "output")
    found = _gradients("vjp", outputs, leaves, v, create_graph, strict)
    return (_shaped(single_out, _detached(outputs, create_graph)),
            _shaped(single_in, _detached(found, create_graph)))


@enable_grad()
def jvp(func, inputs, v=None, create_graph=False, strict=False):
    """(func(inputs), J v): the product of the Jacobian with a vector.

    >>> import flambeau
    >>> flambeau.autograd.functional.jvp(lambda x: x * x, flambeau.tensor([1., 2.]), flambeau.ones(2))
    (tensor([1., 4.]), tensor([2., 4.]))
    """
    _, inputs = _tuple(inputs, "jvp", "inputs")
    leaves = _leaves(inputs, create_graph)
    v = _given("jvp", v, inputs, "input")
    single_out, outputs = _call("jvp", func, leaves)
    u = tuple(OPS["zeros_like"](y.detach()).requires_grad_() for y in outputs)
    back = _gradients("jvp", outputs, leaves, u, True, strict)
    found = _gradients("jvp", back, u, v, create_graph, strict)
    return (_shaped(single_out, _detached(outputs, create_graph)),
            _shaped(single_out, _detached(found, create_graph)))


def _rows(name, y, leaves, create_graph, strict, vectorize):
    """For each leaf the Jacobian of y: shape [*y.shape, *leaf.shape]; `vectorize`: all rows in one backward pass."""
    if vectorize and y.numel() and y.requires_grad:
        basis = OPS["eye"](y.numel(), dtype=y.dtype, device=y.device).reshape((-1, *y.shape))
        found = _grad((y,), leaves, (basis,), retain_graph=True, create_graph=create_graph, allow_unused=True,
                      is_grads_batched=True)
        return tuple(OPS["zeros"]((*y.shape, *x.shape), dtype=x.dtype, device=x.device) if g is None
                     else g.reshape((*y.shape, *x.shape)) for g, x in zip(found, leaves, strict=True))
    rows = [[] for _ in leaves]
    flat = y.reshape(-1)
    for k in range(y.numel()):
        one = OPS["zeros_like"](flat.detach())
        one[k] = 1
        for row, g in zip(rows, _gradients(name, (flat,), leaves, (one,), create_graph, strict), strict=True):
            row.append(g)
    return tuple(OPS["stack"](row).reshape((*y.shape, *x.shape)) if row else y.new_zeros((*y.shape, *x.shape))
                 for row, x in zip(rows, leaves, strict=True))


def _transforms():
    return importlib.import_module("flambeau._transforms")


def _is_forward(name, strategy, vectorize, create_graph):
    if strategy not in ("reverse-mode", "forward-mode"):
        raise AssertionError(f'{name}: strategy must be "reverse-mode" or "forward-mode", got {shown(strategy)}')
    if strategy == "reverse-mode":
        return False
    if create_graph:
        raise NotImplementedError(f"{name}: create_graph=True with strategy='forward-mode' is not available: use "
                                  "strategy='reverse-mode', or flambeau.func.jacfwd")
    if not vectorize:
        raise NotImplementedError(f"{name}: strategy='forward-mode' needs vectorize=True")
    return True


@enable_grad()
def jacobian(func, inputs, create_graph=False, strict=False, vectorize=False, strategy="reverse-mode"):
    """The Jacobian: for each output and input a tensor of shape [*output.shape, *input.shape].

    >>> import flambeau
    >>> flambeau.autograd.functional.jacobian(lambda x: x * x, flambeau.tensor([1., 2.]))
    tensor([[2., 0.],
            [0., 4.]])
    """
    if _is_forward("jacobian", strategy, vectorize, create_graph):
        single_in, inputs = _tuple(inputs, "jacobian", "inputs")
        found = _transforms().jacfwd(func, tuple(range(len(inputs))))(*(x.detach() for x in inputs))
        return found if not single_in else found[0] if isinstance(found[0], _C.Tensor) else tuple(f[0] for f in found)
    if strict and vectorize:
        raise RuntimeError("jacobian: strict=True and vectorize=True are not supported together")
    single_in, inputs = _tuple(inputs, "jacobian", "inputs")
    leaves = _leaves(inputs, create_graph)
    single_out, outputs = _call("jacobian", func, leaves)
    found = [_shaped(single_in, _detached(_rows("jacobian", y, leaves, create_graph, strict, vectorize),
                                           create_graph))
             for y in outputs]
    return _shaped(single_out, found)


def _one_number(name, func):
    def checked(*inputs):
        y = func(*inputs)
        single, outputs = _tuple(y, name, "the function's result")
        if not single or y.numel() != 1:
            got = list(y.shape) if single else f"{len(outputs)} of them"
            raise RuntimeError(f"{name}: expected a function whose result is one Tensor with one element, got {got}")
        return y.reshape(())
    return checked


@enable_grad()
def hessian(func, inputs, create_graph=False, strict=False, vectorize=False, outer_jacobian_strategy="reverse-mode"):
    """The Hessian of a function of one result: for each pair of inputs a tensor of both their shapes.

    >>> import flambeau
    >>> flambeau.autograd.functional.hessian(lambda x: (x ** 3).sum(), flambeau.tensor([1., 2.]))
    tensor([[ 6.,  0.],
            [ 0., 12.]])
    """
    single, _ = _tuple(inputs, "hessian", "inputs")
    func = _one_number("hessian", func)
    if _is_forward("hessian", outer_jacobian_strategy, vectorize, create_graph):
        _, tensors = _tuple(inputs, "hessian", "inputs")
        every = tuple(range(len(tensors)))
        found = _transforms().jacfwd(_transforms().grad(func, every), every)(*(x.detach() for x in tensors))
        return found[0][0] if single else found

    def gradient(*leaves):
        y = func(*leaves)
        return _gradients("hessian", (y,), leaves, (OPS["ones_like"](y.detach()),), True, strict)

    found = jacobian(gradient, inputs, create_graph=create_graph, strict=strict, vectorize=vectorize)
    return found[0] if single else found


@enable_grad()
def vhp(func, inputs, v=None, create_graph=False, strict=False):
    """(func(inputs), v^T H): the product of a vector with the Hessian, from two reverse passes.

    >>> import flambeau
    >>> flambeau.autograd.functional.vhp(lambda x: (x ** 3).sum(), flambeau.tensor([1., 2.]), flambeau.ones(2))
    (tensor(9.), tensor([ 6., 12.]))
    """
    single, inputs = _tuple(inputs, "vhp", "inputs")
    leaves = _leaves(inputs, create_graph)
    v = _given("vhp", v, inputs, "input")
    _, (y,) = _call("vhp", _one_number("vhp", func), leaves)
    first = _gradients("vhp", (y,), leaves, (OPS["ones_like"](y.detach()),), True, strict)
    found = _gradients("vhp", first, leaves, v, create_graph, strict)
    return _detached((y,), create_graph)[0], _shaped(single, _detached(found, create_graph))


def hvp(func, inputs, v=None, create_graph=False, strict=False):
    """(func(inputs), H v); the Hessian is symmetric, so that this is `vhp`.

    >>> import flambeau
    >>> flambeau.autograd.functional.hvp(lambda x: (x ** 3).sum(), flambeau.tensor([1., 2.]), flambeau.ones(2))[1]
    tensor([ 6., 12.])
    """
    return vhp(func, inputs, v, create_graph, strict)
