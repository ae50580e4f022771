"""Fractional max pooling: an output size that need not divide the input's, by windows whose steps are random."""

from .._shown import shown
from .kinds import OPS, composite, primitive
from .pooling import max_pool_backward

fractional_max_pool = primitive(
    "fractional_max_pool(Tensor self, int[] kernel_size, int[] output_size, Tensor samples, int dims)"
    " -> (Tensor values, Tensor indices)", namespace=None, samples="fractional_max_pool",
    d={"self": lambda g0, indices, self_shape, dims: max_pool_backward(g0, indices, self_shape[-dims:])},
    doc="Maxima of windows placed by `samples` [batch, channels, dims] in [0, 1), and their places in each plane.")


def _repeated(value, nd):
    return [value] * nd if isinstance(value, (int, float)) else list(value) * (nd if len(value) == 1 else 1)


def _size(name, input, nd, output_size, output_ratio):
    if output_size is not None:
        return _repeated(output_size, nd)
    if output_ratio is None:
        raise ValueError(f"{name}: the size of the result is missing; pass output_size or output_ratio")
    ratio = _repeated(output_ratio, nd)
    if len(ratio) != nd:
        raise ValueError(f"{name}: output_ratio must be a number or {nd} of them, got {shown(output_ratio)}")
    return [int(n * r) for n, r in zip(input.shape[-nd:], ratio)]


def _fractional(nd):
    args = (f"(Tensor input, int[{nd}] kernel_size, any output_size=None, any output_ratio=None, "
            "bool return_indices=False, Tensor? _random_samples=None)")

    @composite(f"fractional_max_pool{nd}d_with_indices{args} -> (Tensor, Tensor)", namespace="nn.functional",
               autocast="float32", skip="draws its windows; tested by name",
               doc=f"The maxima of fractional_max_pool{nd}d and their places in each plane.")
    def with_indices(input, kernel_size, output_size, output_ratio, return_indices, _random_samples):
        size = _size(f"fractional_max_pool{nd}d", input, nd, output_size, output_ratio)
        if _random_samples is None:
            lead = (1 if input.ndim == nd + 1 else input.size(0), input.size(-nd - 1))
            _random_samples = OPS["rand"](*lead, nd, dtype=input.dtype, device=input.device)
        return tuple(fractional_max_pool(input, kernel_size, size, _random_samples, nd))

    @composite(f"fractional_max_pool{nd}d{args} -> Tensor", namespace="nn.functional",
               autocast="float32", skip="draws its windows; tested by name",
               doc=f"""The maxima of windows of kernel_size whose steps are random, in {nd} dimensions (Graham 2014).

    The size of the result is `output_size`, or the input's times `output_ratio` (between 0 and 1).

    >>> import flambeau
    >>> flambeau.nn.functional.fractional_max_pool{nd}d(flambeau.ones(1{', 5' * nd}), 2, output_ratio=0.6).shape
    torch.Size([1{', 3' * nd}])
    """)
    def pool(input, kernel_size, output_size, output_ratio, return_indices, _random_samples):
        both = with_indices(input, kernel_size, output_size, output_ratio, return_indices, _random_samples)
        return tuple(both) if return_indices else both[0]

    return with_indices, pool


fractional_max_pool2d_with_indices, fractional_max_pool2d = _fractional(2)
fractional_max_pool3d_with_indices, fractional_max_pool3d = _fractional(3)
