"""The linear layer and the bilinear one."""

from .kinds import composite, primitive
from .products import matmul

linear_backward = primitive(
    "linear_backward(Tensor grad, Tensor input, Tensor weight, int mask) -> "
    "(Tensor grad_input, Tensor grad_weight, Tensor grad_bias)",
    d={("grad", "input", "weight"): lambda g0, g1, g2, grad, input, weight, mask, needs:
       _linear_double(wanted((g0, g1, g2), mask), grad, input, weight, needs)},
    namespace=None,
    doc="The gradients of linear; bits 1, 2 and 4 of mask say which are wanted, the others come back empty.")


def wanted(grads, mask):
    """The gradients of those results that were asked for; the others came back empty, and None stands for them."""
    return tuple(g if mask >> k & 1 else None for k, g in enumerate(grads))


def _linear_double(grads, grad, input, weight, needs):
    g0, g1, g2 = grads
    to_grad = None
    if needs[0]:
        if g0 is not None:
            to_grad = linear(g0, weight)
        if g1 is not None:
            share = linear(input, g1)
            to_grad = share if to_grad is None else to_grad + share
        if g2 is not None:
            to_grad = g2.expand(grad.shape) if to_grad is None else to_grad + g2
    mask = (needs[1] and g1 is not None) + 2 * (needs[2] and g0 is not None)
    if not mask:
        return to_grad, None, None
    to_input, to_weight, _ = linear_backward(grad, input if g0 is None else g0, weight if g1 is None else g1, mask)
    return to_grad, to_input if mask & 1 else None, to_weight if mask & 2 else None


linear = primitive(
    "linear(Tensor input, Tensor weight, Tensor? bias=None) -> Tensor",
    autocast="half", node="AddmmBackward0", out=True,
    d={("input", "weight", "bias"): lambda g, input, weight, needs:
       linear_backward(g, input, weight, needs[0] + 2 * needs[1] + 4 * needs[2])},
    namespace="nn.functional", samples="linear",
    doc="""input @ weight.T + bias, for an input of any number of dimensions whose last is in_features.

    >>> import flambeau
    >>> flambeau.nn.functional.linear(flambeau.ones(2, 3), flambeau.ones(1, 3), flambeau.ones(1))
    tensor([[4.],
            [4.]])
    """)

linear_tail = primitive(
    "_linear_tail(Tensor input, Tensor weight, Tensor? bias, Tensor? other, str activation, bool columns) -> Tensor",
    namespace=None,
    doc="""A product of float32 rows (on CUDA halves too) and what follows it, as one; graphs are rewritten to it.

    activation(linear(input, weight, bias) + other). columns: the weight is [in, out], as in `input @ weight`. `other`
    has the result's shape or is one row. `activation` is none, relu, gelu, gelu_tanh, silu, tanh or sigmoid.
    """)

linears = primitive(
    "_linears(Tensor input, Tensor[] weights, Tensor?[] biases) -> Tensor[]", namespace=None,
    doc="Several linear layers of one input of float32, whose products threads share as if they were one.")


@composite("bilinear(Tensor input1, Tensor input2, Tensor weight, Tensor? bias=None) -> Tensor", autocast="given",
           samples="bilinear")
def bilinear(input1, input2, weight, bias=None):
    """y[o] = input1 @ weight[o] @ input2 + bias[o], over all leading dimensions.

    >>> import flambeau
    >>> flambeau.nn.functional.bilinear(flambeau.ones(4, 2), flambeau.ones(4, 3), flambeau.ones(5, 2, 3)).shape
    torch.Size([4, 5])
    """
    if weight.ndim != 3 or input1.shape[:-1] != input2.shape[:-1]:
        raise RuntimeError("bilinear: expected inputs of equal leading dimensions and a weight of 3 dimensions, got "
                           f"{list(input1.shape)}, {list(input2.shape)} and {list(weight.shape)}")
    n, a, b = weight.shape
    if input1.shape[-1] != a or input2.shape[-1] != b:
        raise RuntimeError(f"bilinear: the inputs have {input1.shape[-1]} and {input2.shape[-1]} features but weight "
                           f"expects {a} and {b} (weight {list(weight.shape)})")
    half = matmul(input1.reshape(-1, a), weight.permute(1, 0, 2).reshape(a, n * b)).reshape(-1, n, b)
    result = matmul(half, input2.reshape(-1, b, 1)).reshape(*input1.shape[:-1], n)
    return result if bias is None else result + bias
