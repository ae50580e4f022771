"""softmax and log_softmax with their fused backward kernels."""

from .kinds import composite, primitive

_DERIVATIVE = "a derivative; reached through the function it belongs to"


def _softmax_second(G, g, y, dim):
    """Through y in r = y (g - sum g y)."""
    return G * (g - (g * y).sum(dim, True)) - g * (G * y).sum(dim, True)


_softmax_backward_data = primitive(
    "_softmax_backward_data(Tensor grad_output, Tensor output, int dim, dtype? input_dtype) -> Tensor", namespace=None,
    d={"grad_output": lambda g, output, dim: _softmax_backward_data(g.to(output.dtype), output, dim, None),
       "output": lambda g, grad_output, output, dim: _softmax_second(g, grad_output, output, dim)},
    skip=_DERIVATIVE, doc="output * (grad - sum(grad * output)): the gradient of softmax.")

_log_softmax_backward_data = primitive(
    "_log_softmax_backward_data(Tensor grad_output, Tensor output, int dim, dtype? input_dtype) -> Tensor",
    namespace=None,
    d={"grad_output": lambda g, output, dim: g - (g * output.exp()).sum(dim, True),
       "output": lambda g, grad_output, output, dim: -g * output.exp() * grad_output.sum(dim, True)},
    skip=_DERIVATIVE, doc="grad - exp(output) * sum(grad): the gradient of log_softmax.")


def _dim(dim, shape):
    """Without `dim`: dimension 0 of 0-, 1- and 3-dimensional input, else 1."""
    if dim is not None:
        return dim
    return 0 if len(shape) in (0, 1, 3) else 1


def _to_input(backward, g, result, dim, dtype):
    """The gradient in the input's dtype; a complex input, which dtype= made real, is not the kernels' matter."""
    if dtype.is_complex and not result.is_complex():
        return backward(g, result, dim, None).to(dtype)
    return backward(g, result, dim, dtype)


primitive("softmax(Tensor self, int? dim=None, dtype? dtype=None) -> Tensor", out=True,
          d={"self": lambda g, result, self_shape, self_dtype, dim:
             _to_input(_softmax_backward_data, g, result, _dim(dim, self_shape), self_dtype)},
          aliases=("nn.functional.softmax", "special.softmax"), ref="scipy.special.softmax", dtypes="float",
          doc="""exp(x) / sum(exp(x)) along `dim`; `dtype` converts the input first.

    >>> flambeau.tensor([0., 0.]).softmax(0)
    tensor([0.5000, 0.5000])
    """)
primitive("log_softmax(Tensor self, int? dim=None, dtype? dtype=None) -> Tensor", out=True,
          d={"self": lambda g, result, self_shape, self_dtype, dim:
             _to_input(_log_softmax_backward_data, g, result, _dim(dim, self_shape), self_dtype)},
          aliases=("nn.functional.log_softmax", "special.log_softmax"), samples="along_distinct",
          ref="scipy.special.log_softmax", dtypes="float",
          doc="""x - log(sum(exp(x))) along `dim`: the logarithm of softmax, without overflow.

    >>> flambeau.tensor([0., 0.]).log_softmax(0)
    tensor([-0.6931, -0.6931])
    """)


@composite("softmin(Tensor input, int? dim=None, dtype? dtype=None) -> Tensor",
           namespace="nn.functional", dtypes="float")
def softmin(input, dim=None, dtype=None):
    """softmax(-input): large where the input is small."""
    return (-input).softmax(dim, dtype)
