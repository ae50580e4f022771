"""The two ways into the engine: `backward` adds to `.grad`, `grad` returns the gradients."""

import importlib
from warnings import warn

from .. import _C
from ..ops.kinds import OPS
from .graph import GradientEdge


def _tensors(x, what):
    tensors = (x,) if isinstance(x, (_C.Tensor, GradientEdge)) else tuple(x)
    for k, t in enumerate(tensors):
        if not isinstance(t, (_C.Tensor, GradientEdge)):
            raise TypeError(f"{what}[{k}]: expected a Tensor or a GradientEdge, got {type(t).__name__}")
    return tensors


def _gradients(op, outputs, given):
    """One gradient per output: the given one, or 1 for an output of a single number."""
    if given is None:
        given = (None,) * len(outputs)
    elif isinstance(given, _C.Tensor):
        given = (given,)
    else:
        given = tuple(given)
    if len(given) != len(outputs):
        raise RuntimeError(f"{op}: got {len(outputs)} tensors and {len(given)} gradients")
    return tuple(_gradient(op, k, y, g) for k, (y, g) in enumerate(zip(outputs, given, strict=True)))


def _gradient(op, k, y, g):
    if isinstance(y, GradientEdge):
        return _edge_gradient(op, k, y, g)
    if g is None:
        if y.requires_grad and y.numel() != 1:
            shape = f"{y.numel()} elements" if y.is_nested else f"shape {list(y.shape)}"
            raise RuntimeError(f"{op}: output {k} has {shape}; only an output of one element needs no "
                               "gradient: pass one of that shape, or call it on a sum or mean")
        if y.requires_grad and not y.is_floating_point():
            raise RuntimeError(f"{op}: output {k} is {y.dtype}; without a gradient given it must be real and floating "
                               "point")
        return OPS["ones_like"](y.detach())
    if not isinstance(g, _C.Tensor):
        raise TypeError(f"{op}: gradient {k} must be a Tensor or None, got {type(g).__name__}")
    if g.is_nested != y.is_nested:
        raise RuntimeError(f"{op}: gradient {k} must be {'nested' if y.is_nested else 'dense'}, as its tensor is")
    if not y.is_nested and g.shape != y.shape:  # a nested one's sizes are compared where its values are used
        raise RuntimeError(f"{op}: gradient {k} must have the shape of its tensor, {list(y.shape)}, got "
                           f"{list(g.shape)}")
    if g.is_complex() != y.is_complex():
        raise RuntimeError(f"{op}: for a {'complex' if y.is_complex() else 'real'} tensor {k} ({y.dtype}) "
                           f"expected a gradient of the same kind, got {g.dtype}")
    return g if g.dtype is y.dtype else g.to(y.dtype)  # the rules compute in the dtype of their results


def _edge_gradient(op, k, edge, g):
    """As _gradient, for an output of which only the place in the graph is known."""
    shape, dtype, device = edge.node._outputs[edge.output_nr]
    if g is None:
        if shape.numel() != 1:
            raise RuntimeError(f"{op}: edge {k} has shape {list(shape)}; only an output of one element needs no "
                               "gradient: pass one of that shape")
        return OPS["ones"](shape, dtype=dtype, device=device)
    if g.shape != shape:
        raise RuntimeError(f"{op}: gradient {k} must have the shape of its tensor, {list(shape)}, got "
                           f"{list(g.shape)}")
    return g if g.dtype is dtype else g.to(dtype)


def _given_inputs(inputs):
    inputs = _tensors(inputs, "backward: inputs")
    if not inputs:
        raise RuntimeError("backward: inputs must not be empty")
    return inputs


def backward(tensors, grad_tensors=None, retain_graph=None, create_graph=False, grad_variables=None, inputs=None):
    """Adds the gradients of `tensors` to `.grad` of the leaves (of `inputs` alone, when given).

    >>> import flambeau
    >>> x = flambeau.ones(2, requires_grad=True)
    >>> flambeau.autograd.backward((x * x).sum())
    >>> x.grad
    tensor([2., 2.])
    """
    if grad_variables is not None:
        if grad_tensors is not None:
            raise RuntimeError("backward: grad_tensors and grad_variables (its old name) were both given")
        grad_tensors = grad_variables
    tensors = _tensors(tensors, "backward: tensors")
    inputs = () if inputs is None else _given_inputs(inputs)
    grads = _gradients("backward", tensors, grad_tensors)
    retain = create_graph if retain_graph is None else retain_graph
    _C.backward(tensors, grads, bool(retain), bool(create_graph), inputs, True)


def grad(outputs, inputs, grad_outputs=None, retain_graph=None, create_graph=False, only_inputs=True,
         allow_unused=None, is_grads_batched=False, materialize_grads=False):
    """The gradients of the outputs by each of `inputs`, as a tuple; no `.grad` changes.

    >>> import flambeau
    >>> x = flambeau.tensor(3., requires_grad=True)
    >>> flambeau.autograd.grad(x ** 2, x)
    (tensor(6.),)

    is_grads_batched=True: grad_outputs have a batch dimension in front, and so have the gradients, out of one pass.
    """
    if not only_inputs:
        warn("grad: only_inputs is not read any more: no .grad changes, whatever it is; backward fills them",
             FutureWarning, stacklevel=2)
    if materialize_grads and allow_unused is False:
        raise ValueError("grad: materialize_grads=True needs unused inputs allowed, but allow_unused=False was given")
    outputs = _tensors(outputs, "grad: outputs")
    inputs = _tensors(inputs, "grad: inputs")
    if not inputs:
        raise RuntimeError("grad: inputs is empty; name the tensors by which to differentiate")
    retain = create_graph if retain_graph is None else retain_graph
    if is_grads_batched:
        found = importlib.import_module("flambeau._transforms.reverse").batched_gradients(
            outputs, inputs, grad_outputs, bool(retain), bool(create_graph))
    else:
        grads = _gradients("grad", outputs, grad_outputs)
        found = _C.backward(outputs, grads, bool(retain), bool(create_graph), inputs, False)
    if materialize_grads:
        return tuple(_zeros(x, bool(create_graph)) if g is None else g for x, g in zip(inputs, found, strict=True))
    if not allow_unused and any(g is None for g in found):
        unused = [k for k, g in enumerate(found) if g is None]
        raise RuntimeError(f"grad: the outputs do not depend on inputs {unused}; pass allow_unused=True to get None "
                           "for them")
    return found


def _zeros(x, create_graph):
    """The gradient by what the outputs do not depend on; with create_graph it has gradients itself."""
    if isinstance(x, GradientEdge):
        shape, dtype, device = x.node._outputs[x.output_nr]
        return OPS["zeros"](shape, dtype=dtype, device=device, requires_grad=create_graph)
    return OPS["zeros_like"](x.detach(), requires_grad=create_graph)
