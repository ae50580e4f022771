"""New tensors from sizes, numbers and other tensors' metadata."""

from .._C import default_dtype, float64
from .._shown import shown
from .joining import cat, stack
from .kinds import composite, overloads, primitive

_OPTIONS = ("dtype? dtype=None, layout? layout=None, device? device=None, bool requires_grad=False, "
            "bool pin_memory=False")
_LIKE = _OPTIONS + ", memory_format? memory_format=None"

empty = primitive(
    f"empty(int[] size, *, {_OPTIONS}, memory_format? memory_format=None) -> Tensor", out=True,
    doc="A tensor of that size whose elements are whatever the memory held.\n\n"
        ">>> flambeau.empty(2, 3).shape\ntorch.Size([2, 3])")

zeros = primitive(
    f"zeros(int[] size, *, {_OPTIONS}) -> Tensor", out=True, ref="numpy.zeros",
    doc="A tensor of zeros.\n\n>>> flambeau.zeros(2)\ntensor([0., 0.])")

ones = primitive(
    f"ones(int[] size, *, {_OPTIONS}) -> Tensor", out=True, ref="numpy.ones",
    doc="A tensor of ones.\n\n>>> flambeau.ones(2)\ntensor([1., 1.])")

full = primitive(
    f"full(int[] size, Scalar fill_value, *, {_OPTIONS}) -> Tensor", out=True, ref="numpy.full",
    doc="A tensor filled with one number, which also decides the dtype unless `dtype` does.\n\n"
        ">>> flambeau.full((2,), 7)\ntensor([7, 7])")

empty_strided = primitive(
    f"empty_strided(int[] size, int[] stride, *, {_OPTIONS}) -> Tensor",
    doc="An uninitialised tensor with these sizes and strides (in elements).\n\n"
        ">>> flambeau.empty_strided((2, 3), (1, 2)).stride()\n(1, 2)")

empty_like = primitive(f"empty_like(Tensor self, *, {_LIKE}) -> Tensor", method=False, fresh=True,
                       doc="An uninitialised tensor with self's shape, dtype, device and memory order.\n\n"
                           ">>> flambeau.empty_like(flambeau.zeros(2, 3)).shape\ntorch.Size([2, 3])")

zeros_like = primitive(f"zeros_like(Tensor self, *, {_LIKE}) -> Tensor", method=False, fresh=True,
                       ref="numpy.zeros_like",
                       doc="Zeros with self's shape, dtype, device and memory order.\n\n"
                           ">>> flambeau.zeros_like(flambeau.tensor([1, 2]))\ntensor([0, 0])")

ones_like = primitive(f"ones_like(Tensor self, *, {_LIKE}) -> Tensor", method=False, fresh=True, ref="numpy.ones_like",
                      doc="Ones with self's shape, dtype, device and memory order.\n\n"
                          ">>> flambeau.ones_like(flambeau.tensor([1, 2]))\ntensor([1, 1])")

full_like = primitive(f"full_like(Tensor self, Scalar fill_value, *, {_LIKE}) -> Tensor", method=False, fresh=True,
                      ref="numpy.full_like",
                      doc="One number everywhere, with self's shape, dtype, device and memory order.\n\n"
                          ">>> flambeau.full_like(flambeau.tensor([1, 2]), 5)\ntensor([5, 5])")

new_empty = primitive(f"new_empty(Tensor self, int[] size, *, {_OPTIONS}) -> Tensor", namespace=None,
                      method=True, fresh=True,
                      doc="An uninitialised tensor of self's dtype and device.")
new_zeros = primitive(f"new_zeros(Tensor self, int[] size, *, {_OPTIONS}) -> Tensor", namespace=None,
                      method=True, fresh=True,
                      doc="Zeros of self's dtype and device.\n\n>>> flambeau.tensor([1]).new_zeros(2)\ntensor([0, 0])")


@composite(f"new_empty_strided(Tensor self, int[] size, int[] stride, *, {_OPTIONS}) -> Tensor", namespace=None,
           method=True)
def new_empty_strided(self, size, stride, *, dtype=None, layout=None, device=None, requires_grad=False,
                      pin_memory=False):
    """An uninitialised tensor with these sizes and strides, of self's dtype and device.

    >>> flambeau.ones(1).new_empty_strided((2, 3), (1, 2)).stride()
    (1, 2)
    """
    return empty_strided(size, stride, dtype=dtype or self.dtype, layout=layout, device=device or self.device,
                         requires_grad=requires_grad, pin_memory=pin_memory)


@composite(f"scalar_tensor(Scalar s, *, {_OPTIONS}) -> Tensor", method=False)
def scalar_tensor(s, *, dtype=None, layout=None, device=None, requires_grad=False, pin_memory=False):
    """A number as a 0-d tensor, of the default dtype unless `dtype` is given.

    >>> flambeau.scalar_tensor(3)
    tensor(3.)
    """
    return full((), s, dtype=dtype or default_dtype(), layout=layout, device=device, requires_grad=requires_grad,
                pin_memory=pin_memory)


new_ones = primitive(f"new_ones(Tensor self, int[] size, *, {_OPTIONS}) -> Tensor", namespace=None,
                     method=True, fresh=True,
                     doc="Ones of self's dtype and device.\n\n>>> flambeau.tensor([5]).new_ones(2)\ntensor([1, 1])")
new_full = primitive(f"new_full(Tensor self, int[] size, Scalar fill_value, *, {_OPTIONS}) -> Tensor",
                     namespace=None, method=True, fresh=True,
                     doc="One number everywhere, of self's dtype and device.\n\n"
                         ">>> flambeau.tensor([1.5]).new_full((2,), 3)\ntensor([3., 3.])")

arange = primitive(
    f"arange(Scalar? start=None, Scalar? end=None, Scalar step=1, *, {_OPTIONS}) -> Tensor", out=True,
    ref="numpy.arange",
    doc="start, start + step, … before end; a lone number is the end. int64 when all three are integers, otherwise the "
        "default floating dtype.\n\n>>> flambeau.arange(1, 6, 2)\ntensor([1, 3, 5])")

linspace = primitive(
    f"linspace(Scalar start, Scalar end, int steps, *, {_OPTIONS}) -> Tensor", out=True, ref="numpy.linspace",
    doc="`steps` evenly spaced numbers from start to end, both included.\n\n"
        ">>> flambeau.linspace(2, 3, 5)\ntensor([2.0000, 2.2500, 2.5000, 2.7500, 3.0000])")

logspace = primitive(
    f"logspace(Scalar start, Scalar end, int steps, float base=10.0, *, {_OPTIONS}) -> Tensor", out=True,
    ref="numpy.logspace",
    doc="base raised to `steps` evenly spaced exponents from start to end.\n\n"
        ">>> flambeau.logspace(0, 2, 3)\ntensor([  1.,  10., 100.])")

eye = primitive(
    f"eye(int n, int? m=None, *, {_OPTIONS}) -> Tensor", out=True, ref="numpy.eye",
    doc="Ones on the diagonal of an n by m matrix (m = n unless given), zeros elsewhere.\n\n"
        ">>> flambeau.eye(2)\ntensor([[1., 0.],\n        [0., 1.]])")

_fill_scalar = primitive("fill_scalar_(Tensor self, Scalar value) -> Tensor", node="FillBackward0", namespace=None,
                         d={"self": lambda g: zeros_like(g)})
_fill_tensor = primitive("fill_tensor_(Tensor self, Tensor value) -> Tensor", node="FillBackward1", namespace=None,
                         d={"self": lambda g: zeros_like(g), "value": lambda g: g.sum()})
fill_ = overloads("fill_", _fill_scalar, _fill_tensor,
                  doc="Sets every element to a number (or to that of a 0-d tensor) in place.\n\n"
                      ">>> flambeau.empty(2).fill_(3)\ntensor([3., 3.])")

zero_ = primitive("zero_(Tensor self) -> Tensor", d={"self": lambda g: zeros_like(g)},
                  doc="Sets every element to zero in place.\n\n>>> flambeau.ones(2).zero_()\ntensor([0., 0.])")


@composite("fill(Tensor self, any value) -> Tensor", method=False)
def fill(self, value):
    """A tensor like self with every element set to `value`.

    >>> flambeau.fill(flambeau.zeros(2), 3)
    tensor([3., 3.])
    """
    return self.clone().fill_(value)


@composite("meshgrid(Tensor[1] tensors=[], *, str? indexing=None) -> Tensor[]", ref="numpy.meshgrid")
def meshgrid(tensors=(), *, indexing=None):
    """Grids of the coordinates in 1-d tensors of one dtype: result k has tensor k's numbers along dimension k (indexing
    "ij", the default), or with the first two dimensions exchanged ("xy").

    >>> x, y = flambeau.meshgrid(flambeau.tensor([1, 2]), flambeau.tensor([3, 4, 5]), indexing="ij")
    >>> y
    tensor([[3, 4, 5],
            [3, 4, 5]])
    """
    if indexing not in (None, "ij", "xy"):
        raise RuntimeError(f'meshgrid: indexing must be "xy" or "ij", got {shown(indexing)}')
    if not tensors:
        raise RuntimeError("meshgrid: at least one tensor is needed")
    if len({(t.dtype, t.device) for t in tensors}) > 1:
        raise RuntimeError("meshgrid: expected tensors of one dtype and device, got "
                           + ", ".join(f"{t.dtype} on {t.device}" for t in tensors))
    count, grids = len(tensors), []
    shape = [t.numel() for t in tensors]
    order = list(range(count))
    if indexing == "xy" and count > 1:
        order[:2], shape[:2] = (1, 0), shape[1::-1]
    for at, t in zip(order, tensors):
        if t.dim() > 1:
            raise RuntimeError(f"meshgrid: expected 0-d or 1-d tensors, got {[list(t.shape) for t in tensors]}")
        sizes = [1] * count
        sizes[at] = shape[at]
        grids.append(t.reshape(sizes).expand(shape))
    return tuple(grids)


@composite("cartesian_prod(Tensor[1] tensors) -> Tensor")
def cartesian_prod(tensors):
    """All combinations of one element of each 1-d tensor, as rows.

    >>> flambeau.cartesian_prod(flambeau.tensor([1, 2]), flambeau.tensor([4, 5]))
    tensor([[1, 4],
            [1, 5],
            [2, 4],
            [2, 5]])
    """
    if any(t.dim() != 1 for t in tensors):
        raise RuntimeError("cartesian_prod: expected 1-d tensors")
    if len(tensors) == 1:
        return tensors[0]
    return stack([g.reshape(-1) for g in meshgrid(list(tensors), indexing="ij")], 1)


@composite("combinations(Tensor self, int r=2, bool with_replacement=False) -> Tensor", method=False)
def combinations(self, r=2, with_replacement=False):
    """All ways to pick r elements of a 1-d tensor, in order of position, as rows.

    >>> flambeau.combinations(flambeau.tensor([1, 2, 3]))
    tensor([[1, 2],
            [1, 3],
            [2, 3]])
    """
    if self.dim() != 1:
        raise RuntimeError(f"combinations: expects a 1-d vector, but got shape {list(self.shape)}")
    if r < 0:
        raise RuntimeError(f"combinations: r must not be negative, got {r}")
    if r == 0:
        return self.narrow(0, 0, 0).clone()
    n = self.numel()
    places = arange(n, device="cpu").unsqueeze(1)
    for _ in range(r - 1):  # each row goes on with every place behind its last one
        first = places.select(1, -1) + (not with_replacement)
        many = (n - first).clamp(min=0)
        rows = arange(places.shape[0], device="cpu").repeat_interleave(many)
        nth = arange(rows.shape[0], device="cpu") - (many.cumsum(0) - many).index_select(0, rows)
        following = first.index_select(0, rows) + nth
        places = cat([places.index_select(0, rows), following.unsqueeze(1)], 1)
    return self.index_select(0, places.reshape(-1).to(self.device)).reshape(places.shape[0], r)


@composite("vander(Tensor x, int? N=None, bool increasing=False) -> Tensor", method=False, ref="numpy.vander")
def vander(x, N=None, increasing=False):
    """Powers of a 1-d tensor's elements as columns, from N-1 down to 0 (or up, when increasing).

    >>> flambeau.vander(flambeau.tensor([2, 3]), 3)
    tensor([[4, 2, 1],
            [9, 3, 1]])
    """
    if x.dim() != 1:
        raise RuntimeError(f"vander: x must have 1 dimension, got shape {list(x.shape)}")
    n = x.numel() if N is None else N
    if not 0 <= n < 2**16:
        raise RuntimeError(f"vander: N must be non-negative (and below 65536), got {n}")
    column = x.new_ones(x.numel(), dtype=None if x.dtype.is_floating_point or x.dtype.is_complex else int)
    columns = []
    for _ in range(n):
        columns.append(column)
        column = column * x
    return stack(columns if increasing else columns[::-1], 1) if n else x.new_empty((x.numel(), 0))


@composite("range(Scalar start, Scalar? end=None, Scalar step=1, *, dtype? dtype=None, layout? layout=None,"
           " device? device=None, bool requires_grad=False, bool pin_memory=False) -> Tensor", out=True)
def range_(start, end=None, step=1, *, dtype=None, layout=None, device=None, requires_grad=False, pin_memory=False):
    """start, start + step, … up to and including end, of a floating dtype unless another is asked for.

    >>> flambeau.range(1, 3)
    tensor([1., 2., 3.])
    """
    start, end = (0, start) if end is None else (start, end)
    if step == 0 or (end - start) / step < 0:
        raise RuntimeError(f"range: no way from {shown(start)} to {shown(end)} by steps of {shown(step)}")
    count = int((end - start) / step) + 1
    made = empty(count, dtype=dtype, device=device, pin_memory=pin_memory)
    made.copy_(arange(count, dtype=float64, device=made.device).mul(step).add(start))
    return made.requires_grad_() if requires_grad else made


@composite("empty_permuted(int[] size, int[] physical_layout, *, dtype? dtype=None, layout? layout=None,"
           " device? device=None, bool requires_grad=False, bool pin_memory=False) -> Tensor")
def empty_permuted(size, physical_layout, *, dtype=None, layout=None, device=None, requires_grad=False,
                   pin_memory=False):
    """An uninitialised tensor whose dimensions lie in memory in the order of physical_layout.

    >>> flambeau.empty_permuted((2, 3), (1, 0)).stride()
    (1, 2)
    """
    if sorted(physical_layout) != list(range(len(size))):
        raise RuntimeError(f"empty_permuted: physical_layout must be a permutation of the {len(size)} dimensions, got "
                           f"{list(physical_layout)}")
    stride, step = [0] * len(size), 1
    for d in reversed(physical_layout):
        stride[d] = step
        step *= max(size[d], 1)
    return empty_strided(size, stride, dtype=dtype, device=device, requires_grad=requires_grad, pin_memory=pin_memory)
