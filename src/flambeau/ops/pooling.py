"""Pooling: max, mean, power mean, and their adaptive forms, in one to three dimensions."""

from math import prod

from .._C import channels_last, is_grad_enabled
from .._shown import shown
from .kinds import composite, plain, primitive


def _gathered(g, indices, size):
    """Of planes g, the elements at the places of `indices`: the adjoint of max_pool_backward."""
    n = len(size)
    return g.flatten(-n).gather(-1, indices.flatten(-n)).reshape(indices.shape)


# --- primitives, for any number of dimensions -------------------------------------------------------------------------

max_pool_backward = primitive(
    "max_pool_backward(Tensor grad, Tensor indices, int[] size, int[]? kernel_size=None, int[]? stride=None, "
    "int[]? padding=None, int[]? dilation=None) -> Tensor",
    d={"grad": lambda g, indices, size: _gathered(g, indices, size)}, namespace=None, samples="max_pool_backward",
    doc="""Planes of `size`, zero but for grad at indices. Where a kernel_size is given each index lies in its window,
    which a device may use; an empty one stands for the windows of adaptive_max_pool.""")

max_pool = primitive(
    "max_pool(Tensor self, int[] kernel_size, int[] stride, int[] padding, int[] dilation, bool ceil_mode, int dims)"
    " -> (Tensor values, Tensor indices)", node="MaxPool2DWithIndicesBackward0", keeps_format=True,
    d={"self": lambda g0, indices, self_shape, kernel_size, stride, padding, dilation, dims:
       max_pool_backward(g0, indices, self_shape[-dims:], kernel_size, stride, padding, dilation)},
    namespace=None, samples="max_pool", doc="Maxima of windows and their places in each plane.")

max_pool_values = primitive(
    "max_pool_values(Tensor self, int[] kernel_size, int[] stride, int[] padding, int[] dilation, bool ceil_mode, "
    "int dims) -> Tensor", node="MaxPool2DWithIndicesBackward0", keeps_format=True,
    d={"self": lambda g, self, kernel_size, stride, padding, dilation, ceil_mode, dims:
       max_pool_backward(g, max_pool(self, kernel_size, stride, padding, dilation, ceil_mode, dims)[1],
                         self.shape[-dims:], kernel_size, stride, padding, dilation)},
    namespace=None, samples="max_pool", doc="max_pool without the places, which take longer to write than the maxima.")

adaptive_max_pool = primitive(
    "adaptive_max_pool(Tensor self, int[] output_size, int dims) -> (Tensor values, Tensor indices)",
    node="AdaptiveMaxPool2DBackward0", keeps_format=True,
    d={"self": lambda g0, indices, self_shape, dims: max_pool_backward(g0, indices, self_shape[-dims:], ())},
    namespace=None, samples="adaptive_max_pool", doc="Maxima of as many windows as output_size says.")

avg_pool_backward = primitive(
    "avg_pool_backward(Tensor grad, int[] size, int[] kernel_size, int[] stride, int[] padding, bool ceil_mode, "
    "bool count_include_pad, int? divisor_override) -> Tensor",
    d={"grad": lambda g, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override:
       _mean_of(g, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)},
    namespace=None, samples="avg_pool_backward", doc="The gradient of the means of windows for an input of `size`.")

def _adaptive_share(g, size, dims):
    """That of the mean of a whole plane is a view."""
    if max(g.shape[-dims:]) > 1:
        return adaptive_avg_pool_backward(g, size, dims)
    return (g / max(prod(size[-dims:]), 1)).expand(size)


adaptive_avg_pool = primitive(
    "adaptive_avg_pool(Tensor self, int[] output_size, int dims) -> Tensor",
    node="AdaptiveAvgPool2DBackward0", keeps_format=True,
    d={"self": lambda g, self_shape, dims: _adaptive_share(g, self_shape, dims)},
    namespace=None, samples="adaptive_avg_pool", doc="Means of as many windows as output_size says.")

adaptive_avg_pool_backward = primitive(
    "adaptive_avg_pool_backward(Tensor grad, int[] size, int dims) -> Tensor",
    d={"grad": lambda g, grad_shape, dims: adaptive_avg_pool(g, grad_shape[-dims:], dims)},
    namespace=None, samples="adaptive_avg_pool_backward",
    doc="The gradient of adaptive_avg_pool for an input of `size`.")


# --- the public forms -------------------------------------------------------------------------------------------------

def _in_three(nd):
    """What autocast does: pooling in three dimensions is computed in float32."""
    return "float32" if nd == 3 else None


def _max_pool(nd):
    @composite(f"max_pool{nd}d_with_indices(Tensor input, int[{nd}] kernel_size, int[{nd}]? stride=None, "
               f"int[{nd}] padding=0, int[{nd}] dilation=1, bool ceil_mode=False) -> (Tensor, Tensor)",
               namespace="" if nd == 1 else "nn.functional", samples=f"max_pool{nd}d_with_indices",
               autocast=_in_three(nd),
               doc=f"The maxima of max_pool{nd}d and their places in each plane, counted row by row.")
    def with_indices(input, kernel_size, stride, padding, dilation, ceil_mode):
        return tuple(max_pool(input, kernel_size, stride or kernel_size, padding, dilation, ceil_mode, nd))

    @composite(f"max_pool{nd}d(Tensor input, int[{nd}] kernel_size, int[{nd}]? stride=None, int[{nd}] padding=0, "
               f"int[{nd}] dilation=1, bool ceil_mode=False, bool return_indices=False) -> Tensor",
               samples=f"max_pool{nd}d", autocast=_in_three(nd),
               doc=f"""The maximum of every window, in {nd} dimension(s); `stride` is kernel_size unless given.

    `ceil_mode` keeps windows that reach beyond the far edge; `return_indices` also returns the places of the maxima.

    >>> import flambeau
    >>> x = flambeau.arange(4.0).reshape(1, 1, {', '.join(['1'] * (nd - 1) + ['4'])})
    >>> flambeau.nn.functional.max_pool{nd}d(x, ({'1, ' * (nd - 1)}2{',' if nd == 1 else ''})).flatten()
    tensor([1., 3.])
    """)
    def pool(input, kernel_size, stride, padding, dilation, ceil_mode, return_indices):
        if not (return_indices or input.is_cuda or (input.requires_grad and is_grad_enabled())):
            return max_pool_values(input, kernel_size, stride or kernel_size, padding, dilation, ceil_mode, nd)
        values, indices = max_pool(input, kernel_size, stride or kernel_size, padding, dilation, ceil_mode, nd)
        return (values, indices) if return_indices else values

    return with_indices, pool


def _mean_pull(g, input_shape, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override):
    return avg_pool_backward(g, input_shape, kernel_size, stride or kernel_size, padding, ceil_mode, count_include_pad,
                             divisor_override)


def _mean_pull_1d(g, input_shape, kernel_size, stride, padding, ceil_mode, count_include_pad):
    return _mean_pull(g, input_shape, kernel_size, stride, padding, ceil_mode, count_include_pad, None)


def _avg_pool(nd):
    extra = "" if nd == 1 else ", int? divisor_override=None"
    return primitive(
        f"avg_pool{nd}d(Tensor input, int[{nd}] kernel_size, int[{nd}]? stride=None, int[{nd}] padding=0, "
        f"bool ceil_mode=False, bool count_include_pad=True{extra}) -> Tensor",
        d={"input": _mean_pull_1d if nd == 1 else _mean_pull},
        node=f"AvgPool{max(nd, 2)}DBackward0", keeps_format=True, namespace="" if nd == 1 else "nn.functional",
        out=nd > 1, samples=f"avg_pool{nd}d", autocast=_in_three(nd),
        doc=f"""The mean of every window, in {nd} dimension(s); `stride` is kernel_size unless given.

    `count_include_pad` counts the zeros of the border; `divisor_override` divides by another number.

    >>> import flambeau
    >>> x = flambeau.arange(4.0).reshape(1, 1, {', '.join(['1'] * (nd - 1) + ['4'])})
    >>> flambeau.nn.functional.avg_pool{nd}d(x, ({'1, ' * (nd - 1)}2{',' if nd == 1 else ''})).flatten()
    tensor([0.5000, 2.5000])
    """)


def _mean_of(x, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override):
    """The means of windows in as many dimensions as kernel_size has."""
    pool = (avg_pool1d, avg_pool2d, avg_pool3d)[len(kernel_size) - 1]
    more = () if divisor_override is None else (divisor_override,)
    return pool(x, kernel_size, stride, padding, ceil_mode, count_include_pad, *more)


def _full_size(input, output_size, nd, op):
    """output_size with the input's size where it says None."""
    if output_size.__class__ is int and input.ndim > nd:
        return (output_size,) * nd
    sizes = tuple(output_size) if hasattr(output_size, "__iter__") else (output_size,) * nd
    if len(sizes) == 1:
        sizes *= nd
    if len(sizes) >= input.ndim and not isinstance(output_size, int):
        raise ValueError(f"pooling: input must have at least {len(sizes) + 1} dimensions for "
                         f"output_size={shown(output_size)}, got {input.ndim}")
    if len(sizes) != nd or input.ndim <= nd:
        raise RuntimeError(f"{op}: expected {nd} output sizes for an input of {nd + 1} or {nd + 2} dimensions, got "
                           f"output_size={shown(output_size)} and input {list(input.shape)}")
    if None not in sizes:
        return sizes
    return tuple(n if size is None else size for n, size in zip(input.shape[-nd:], sizes))


def _adaptive(nd):
    @composite(f"adaptive_avg_pool{nd}d(Tensor input, any output_size) -> Tensor",
               namespace="" if nd == 1 else "nn.functional", samples=f"adaptive_avg_pool{nd}d",
               autocast=_in_three(nd),
               doc=f"""The means of as many windows as output_size says, in {nd} dimension(s); None keeps a size.

    >>> import flambeau
    >>> flambeau.nn.functional.adaptive_avg_pool{nd}d(flambeau.ones(1, 2{', 5' * nd}), 1).flatten()
    tensor([1., 1.])
    """)
    def mean(input, output_size):
        return adaptive_avg_pool(input, _full_size(input, output_size, nd, f"adaptive_avg_pool{nd}d"), nd)

    @composite(f"adaptive_max_pool{nd}d_with_indices(Tensor input, any output_size) -> (Tensor, Tensor)",
               namespace="nn.functional", samples=f"adaptive_max_pool{nd}d_with_indices",
               autocast=_in_three(nd),
               doc=f"The maxima of adaptive_max_pool{nd}d and their places in each plane.")
    def with_indices(input, output_size):
        sizes = _full_size(input, output_size, nd, f"adaptive_max_pool{nd}d")
        return tuple(adaptive_max_pool(input, sizes, nd))

    @composite(f"adaptive_max_pool{nd}d(Tensor input, any output_size, bool return_indices=False) -> Tensor",
               namespace="nn.functional", samples=f"adaptive_max_pool{nd}d",
               autocast=_in_three(nd),
               doc=f"""The maxima of as many windows as output_size says, in {nd} dimension(s); None keeps a size.

    >>> import flambeau
    >>> flambeau.nn.functional.adaptive_max_pool{nd}d(flambeau.ones(1, 2{', 5' * nd}), 1).flatten()
    tensor([1., 1.])
    """)
    def largest(input, output_size, return_indices):
        sizes = _full_size(input, output_size, nd, f"adaptive_max_pool{nd}d")
        values, indices = adaptive_max_pool(input, sizes, nd)
        return (values, indices) if return_indices else values

    return mean, with_indices, largest


def _lp_pool(nd):
    @composite(f"lp_pool{nd}d(Tensor input, float norm_type, int[{nd}] kernel_size, int[{nd}]? stride=None, "
               "bool ceil_mode=False) -> Tensor", namespace="nn.functional", samples=f"lp_pool{nd}d",
               doc=f"""The p-norm of every window, in {nd} dimension(s).

    >>> import flambeau
    >>> x = flambeau.tensor([3.0, 4.0]).reshape(1, 1, {', '.join(['1'] * (nd - 1) + ['2'])})
    >>> flambeau.nn.functional.lp_pool{nd}d(x, 2, ({'1, ' * (nd - 1)}2{',' if nd == 1 else ''})).item()
    5.0
    """)
    def pool(input, norm_type, kernel_size, stride, ceil_mode):
        count = 1
        for k in kernel_size:
            count *= k
        mean = _mean_of(input.pow(norm_type), kernel_size, stride or kernel_size, (0,), ceil_mode, True, None)
        return (mean.sign() * mean.abs().relu() * count).pow(1.0 / norm_type)

    return pool


def unpooled(input, indices, size):
    """Zeros of planes of `size` with input at its indices; of two elements for one place the later one stays."""
    n = len(size)
    if indices.shape != input.shape:
        raise RuntimeError(f"max_unpool: indices {list(indices.shape)} must be shaped as input {list(input.shape)}")
    lead = input.shape[:-n]
    planes = input.new_zeros((*lead, prod(size)))
    places = plain(indices)
    if places.numel() and not 0 <= int(places.min()) <= int(places.max()) < prod(size):
        raise RuntimeError(f"max_unpool: place {int(places.max())} lies outside of the result's "
                           f"{' x '.join(map(str, size))}")
    made = planes.scatter(-1, indices.flatten(-n), input.flatten(-n)).reshape(*lead, *size)
    last = n == 2 and input.ndim == 4 and input.is_contiguous(memory_format=channels_last) and not input.is_contiguous()
    return made.contiguous(memory_format=channels_last) if last else made


def _size_given(given, usual, stride):
    """The output_size that was given: of the last dimensions or of all, and within a stride of the usual one."""
    size, n = given[2:] if len(given) == len(usual) + 2 else given, len(usual)
    if len(size) != n:
        raise ValueError(f"max_unpool: output_size must have {n} or {n + 2} elements, got {shown(given)}")
    if not all(d - s < g < d + s for g, d, s in zip(size, usual, stride, strict=True)):
        raise ValueError(f"max_unpool: the size {shown(size)} is no size that pooling takes to this input; each must "
                         f"be less than a stride, {stride}, from {usual}")
    return size


def _max_unpool(nd):
    @composite(f"max_unpool{nd}d(Tensor input, Tensor indices, int[{nd}] kernel_size, int[{nd}]? stride=None, "
               f"int[{nd}] padding=0, any output_size=None) -> Tensor",
               namespace="nn.functional", samples=f"max_unpool{nd}d",
               autocast="float32" if nd > 1 else None,
               doc=f"""Zeros with `input` at the places max_pool{nd}d reported: a partial inverse.

    >>> import flambeau
    >>> x = flambeau.ones(1, 1{', 1' * nd})
    >>> i = flambeau.zeros(1, 1{', 1' * nd}, dtype=flambeau.int64)
    >>> flambeau.nn.functional.max_unpool{nd}d(x, i, 2).sum()
    tensor(1.)
    """)
    def unpool(input, indices, kernel_size, stride, padding, output_size):
        stride = stride or kernel_size
        size = [(n - 1) * s - 2 * p + k
                for n, s, p, k in zip(input.shape[-nd:], stride, padding, kernel_size)]
        if output_size is not None:
            size = _size_given(list(output_size), size, stride)
        return unpooled(input, indices, size)

    return unpool


max_pool1d_with_indices, max_pool1d = _max_pool(1)
max_pool2d_with_indices, max_pool2d = _max_pool(2)
max_pool3d_with_indices, max_pool3d = _max_pool(3)
avg_pool1d, avg_pool2d, avg_pool3d = _avg_pool(1), _avg_pool(2), _avg_pool(3)
adaptive_avg_pool1d, adaptive_max_pool1d_with_indices, adaptive_max_pool1d = _adaptive(1)
adaptive_avg_pool2d, adaptive_max_pool2d_with_indices, adaptive_max_pool2d = _adaptive(2)
adaptive_avg_pool3d, adaptive_max_pool3d_with_indices, adaptive_max_pool3d = _adaptive(3)
lp_pool1d, lp_pool2d, lp_pool3d = _lp_pool(1), _lp_pool(2), _lp_pool(3)
max_unpool1d, max_unpool2d, max_unpool3d = _max_unpool(1), _max_unpool(2), _max_unpool(3)
