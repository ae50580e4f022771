"""How nested tensors are made: from lists, from dense tensors, from values and offsets, from masks and lengths."""

from .. import _C
from .._C import Tensor
from .._shown import shown
from .._tensor.creation import as_tensor
from ..ops.kinds import OPS
from .padding import from_mask, left_aligned, to_padded
from .sequences import Jagged, Windows, sequences_of
from .tensor import is_nested, joined, make, offsets_for, wrap

_LAYOUTS = (_C.strided, _C.jagged)


def _layout(name, layout):
    if layout is None:
        return _C.strided
    if layout not in _LAYOUTS:
        raise RuntimeError(f"{name}: expected layout flambeau.strided or flambeau.jagged, got {layout}")
    return layout


def _pinned(name, pin_memory):
    if pin_memory and not _C._cuda.available():
        raise RuntimeError(f"{name}: pin_memory=True needs a CUDA device; leave it out")


def nested_tensor(tensor_list, *, dtype=None, layout=None, device=None, requires_grad=False, pin_memory=False):
    """A nested tensor that holds copies of the tensors (or lists of numbers) in a list, as a leaf without history.

    layout: flambeau.strided (the default; any sizes) or flambeau.jagged (the tensors differ in one dimension).

    >>> import flambeau
    >>> x = flambeau.nested.nested_tensor([[1., 2.], [3.]], layout=flambeau.jagged)
    >>> x.shape[0], x.values()
    (2, tensor([1., 2., 3.]))
    """
    layout = _layout("nested_tensor", layout)
    _pinned("nested_tensor", pin_memory)
    if isinstance(tensor_list, Tensor) and not is_nested(tensor_list) and layout is _C.jagged:
        tensor_list = list(tensor_list.unbind(0))
    if not isinstance(tensor_list, (list, tuple)):
        raise TypeError(f"nested_tensor: expected a list of tensors, or of lists of numbers, got {shown(tensor_list)}")
    parts = [x.detach() if isinstance(x, Tensor) else as_tensor(x, dtype=dtype) for x in tensor_list]
    before = _C.set_grad_enabled(False)
    try:
        x = _joined("nested_tensor", parts, dtype, device, layout, copy=True)
    finally:
        _C.set_grad_enabled(before)
    if requires_grad and not (x.is_floating_point() or x.is_complex()):
        raise RuntimeError(f"nested_tensor: requires_grad=True needs a floating-point or complex dtype, got {x.dtype}")
    return x.requires_grad_() if requires_grad else x


def _joined(name, parts, dtype, device, layout, copy=False):
    """The nested tensor of these parts in one dtype and device, those of the first unless others are asked for."""
    device = None if device is None else _C.device(device)
    if not parts:
        if layout is _C.jagged:
            raise RuntimeError(f"{name}: the jagged layout needs at least one tensor, the list is empty")
        return wrap(Windows([]), OPS["zeros"](0, dtype=dtype, device=device))
    first = parts[0]
    dims = [p.dim() for p in parts]
    if len(set(dims)) > 1:
        raise RuntimeError(f"{name}: all tensors must have equally many dimensions, got {dims[:8]}")
    if layout is _C.jagged and dtype is None and len({p.dtype for p in parts}) > 1:
        raise RuntimeError(f"{name}: tensors of several dtypes, {sorted({str(p.dtype) for p in parts})}; say which one "
                           "is wanted by dtype=")
    if layout is _C.jagged and device is None and len({p.device for p in parts}) > 1:
        raise RuntimeError(f"{name}: tensors on several devices; say which one is wanted by device=")
    dtype, device = dtype or first.dtype, device or first.device
    parts = [p if p.dtype is dtype and p.device == device else p.to(device, dtype) for p in parts]
    if copy and len(parts) == 1:
        parts = [parts[0].clone()]
    return joined(parts, layout, name=name)


def as_nested_tensor(ts, dtype=None, device=None, layout=None):
    """A nested tensor of tensors, whose gradients reach them; of a dense tensor, its rows are the parts.

    >>> import flambeau
    >>> a = flambeau.ones(2, requires_grad=True)
    >>> x = flambeau.nested.as_nested_tensor([a, flambeau.ones(3)], layout=flambeau.jagged)
    >>> (x * 2).values().sum().backward()
    >>> a.grad
    tensor([2., 2.])
    """
    name = "as_nested_tensor"
    if isinstance(ts, Tensor):
        return _from_dense(name, ts, dtype, device, layout)
    if not isinstance(ts, (list, tuple)) or not all(isinstance(t, Tensor) for t in ts):
        raise TypeError(f"{name}: expected a tensor or a list or tuple of tensors, got {shown(ts)}; nested_tensor "
                        "takes numbers too")
    return _joined(name, list(ts), dtype, device, _layout(name, layout))


def _from_dense(name, t, dtype, device, layout):
    if t.dim() < 2:
        raise RuntimeError(f"{name}: expected a tensor of at least 2 dimensions, the first of which is the batch, got "
                           f"{t.dim()}")
    if is_nested(t):
        if _layout(name, layout) is not t.layout:
            raise RuntimeError(f"{name}: the tensor has layout {t.layout}; x.to(layout=...) changes it")
        return t.to(device=device, dtype=dtype)
    layout = _layout(name, layout)
    t = t.to(device=t.device if device is None else device, dtype=dtype or t.dtype)
    if layout is _C.strided:
        return make(Windows([t.shape[1:]] * t.shape[0], dims=t.dim() - 1), t.reshape(-1))
    sequences = offsets_for([t.shape[1]] * t.shape[0], t.device)
    return make(Jagged(sequences, 1), t.contiguous().flatten(0, 1))


def nested_tensor_from_jagged(values, offsets=None, lengths=None, jagged_dim=None, min_seqlen=None, max_seqlen=None):
    """A jagged nested tensor around `values`, whose gradient reaches them: part i lies between offsets[i] and
    offsets[i + 1] of dimension jagged_dim - 1, or takes lengths[i] rows from offsets[i] on.

    >>> import flambeau
    >>> x = flambeau.nested.nested_tensor_from_jagged(flambeau.arange(5), flambeau.tensor([0, 2, 5]))
    >>> [t.tolist() for t in x.unbind()]
    [[0, 1], [2, 3, 4]]
    """
    name = "nested_tensor_from_jagged"
    if not isinstance(values, Tensor):
        raise TypeError(f"{name}: values must be a tensor, got {shown(values)}")
    if is_nested(values):
        raise ValueError(f"{name}: values must be a dense tensor, got a nested one")
    if offsets is None:
        if lengths is None:
            raise RuntimeError(f"{name}: says not where the parts are; pass offsets, or lengths, or both")
        zero = OPS["zeros"](1, dtype=_C.int64, device=lengths.device)
        offsets, lengths = OPS["cat"]([zero, lengths.cumsum(0)]), None
    ragged = 1 if jagged_dim is None else jagged_dim
    if not 0 < ragged <= values.dim():
        raise IndexError(f"{name}: jagged_dim must be from 1 to {values.dim()}, the batch counted, got {jagged_dim}")
    _check_rows(name, "offsets", offsets)
    if lengths is not None:
        _check_rows(name, "lengths", lengths)
        if len(lengths) != len(offsets) - 1:
            raise RuntimeError(f"{name}: {len(offsets)} offsets are of {len(offsets) - 1} parts, but there are "
                               f"{len(lengths)} lengths")
    return make(Jagged(sequences_of(offsets, lengths, min_seqlen, max_seqlen), ragged), values)


def _check_rows(name, what, t):
    if t.dim() != 1:
        raise AssertionError(f"{name}: {what} must have one dimension, got {t.dim()}")
    if t.is_floating_point() or t.is_complex() or t.dtype is _C.bool:
        raise RuntimeError(f"{name}: {what} must be integers, got {t.dtype}")
    if what == "offsets" and not len(t):
        raise RuntimeError(f"{name}: offsets must have one more element than there are parts, got none")


def narrow(tensor, dim, start, length, layout=None):
    """Of each row of a dense tensor the elements start[i] to start[i] + length[i] along dim 1, as a jagged view.

    start and length are tensors or numbers; with layout=flambeau.strided (the default) they must be numbers.

    >>> import flambeau
    >>> t = flambeau.arange(6).reshape(2, 3)
    >>> x = flambeau.nested.narrow(t, 1, flambeau.tensor([0, 1]), flambeau.tensor([3, 1]), layout=flambeau.jagged)
    >>> [t.tolist() for t in x.unbind()]
    [[0, 1, 2], [4]]
    """
    layout = _layout("nested.narrow", layout)
    given = [x if isinstance(x, int) else None for x in (start, length)]
    if any(x is None and not isinstance(y, Tensor) for x, y in zip(given, (start, length), strict=True)):
        raise RuntimeError(f"nested.narrow: start and length must be numbers or tensors, got {shown((start, length))}")
    if layout is _C.strided:
        if None in given:
            raise RuntimeError("nested.narrow: start and length must be numbers for layout=flambeau.strided; pass "
                               "layout=flambeau.jagged for a start and length of each row")
        return joined([row.narrow(dim - 1, start, length) for row in tensor.unbind(0)], layout)
    if dim != 1 or tensor.dim() < 2:
        raise RuntimeError(f"nested.narrow: the jagged layout narrows dimension 1 of a batch, got dim={dim} of a "
                           f"tensor of {tensor.dim()} dimensions")
    batch, width = tensor.shape[:2]
    begin, lengths = (OPS["full"]((batch,), x, dtype=_C.int64, device=tensor.device) if isinstance(x, int) else
                      x.to(tensor.device) for x in (start, length))
    if begin.shape != (batch,) or lengths.shape != (batch,):
        raise RuntimeError(f"nested.narrow: start and length must have one element for each of {batch} rows")
    offsets = OPS["arange"](batch, device=tensor.device) * width + begin
    last = offsets[-1:] + lengths[-1:]
    form = Jagged(sequences_of(OPS["cat"]([offsets, last]), lengths))
    values = tensor.contiguous().flatten(0, 1)
    if bool(((lengths < 0) | (begin < 0) | (begin + lengths > width)).any()):
        raise RuntimeError(f"nested.narrow: start and start + length must lie within the {width} elements of a row")
    return make(form, values)


def masked_select(tensor, mask):
    """The elements of a dense tensor where the mask (which broadcasts) is true, as a jagged tensor of its rows.

    >>> import flambeau
    >>> mask = flambeau.tensor([[True, False, True], [False, True, False]])
    >>> [t.tolist() for t in flambeau.nested.masked_select(flambeau.arange(6).reshape(2, 3), mask).unbind()]
    [[0, 2], [4]]
    """
    if tensor.layout is not _C.strided or is_nested(tensor):
        raise RuntimeError(f"nested.masked_select: expected a dense tensor, got layout {tensor.layout}")
    mask = OPS["broadcast_tensors"](mask, tensor)[0]
    counts = mask.sum(-1).reshape(-1)
    zero = OPS["zeros"](1, dtype=counts.dtype, device=counts.device)
    return make(Jagged(sequences_of(OPS["cat"]([zero, counts.cumsum(0)]))), tensor.masked_select(mask))


def to_padded_tensor(input, padding, output_size=None):
    """A dense tensor of the parts, each filled up with `padding` to the size of the largest, or to `output_size`.

    >>> import flambeau
    >>> flambeau.nested.to_padded_tensor(flambeau.nested.nested_tensor([[1, 2], [3]]), 0)
    tensor([[1, 2],
            [3, 0]])
    """
    return to_padded(input, padding, output_size)


# --- PyTorch's functions with an underscore, that its own layers and some programs call ----------------------------

def _nested_tensor_from_mask(t, mask, mask_check=True):
    """The strided nested tensor of the rows t[i, :n] that a mask [batch, length] shows."""
    return from_mask(t, mask, mask_check)


def _nested_tensor_from_mask_left_aligned(t, mask):
    """Whether each row of a mask is true first and false from then on."""
    if t.shape[:2] != mask.shape:
        raise RuntimeError(f"_nested_tensor_from_mask_left_aligned: expected a mask of shape {list(t.shape[:2])}, got "
                           f"{list(mask.shape)}")
    return left_aligned(mask)


def _nested_tensor_from_tensor_list(list, dtype=None, layout=None, device=None, pin_memory=None):
    """The strided nested tensor of tensors, whose gradients reach them."""
    _pinned("_nested_tensor_from_tensor_list", pin_memory)
    return _joined("_nested_tensor_from_tensor_list", list, dtype, device, _layout("nested", layout))


def _nested_view_from_jagged(input, offsets, dummy, lengths=None, ragged_idx=1, min_seqlen=None, max_seqlen=None):
    """The jagged tensor of these values; the lengths are told by tensors of that size. `dummy` is any tensor."""
    least, most = (None if t is None else t.shape[0] for t in (min_seqlen, max_seqlen))
    return nested_tensor_from_jagged(input, offsets, lengths, ragged_idx, least, most)


def _nested_compute_contiguous_strides_offsets(nested_size):
    """(strides, offsets) of parts of these sizes, one after the other."""
    tables = Windows(nested_size.tolist(), dims=nested_size.shape[1]).tables()
    return tables[1], tables[2]


def _nested_view_from_buffer(self, nested_size, nested_strides, offsets):
    """The strided nested tensor of windows into a flat buffer."""
    sizes, strides, begins = nested_size.tolist(), nested_strides.tolist(), offsets.tolist()
    plain = Windows(sizes)
    same = plain.strides == tuple(map(tuple, strides)) and plain.offsets == tuple(begins)
    last = max((b + sum((n - 1) * s for n, s in zip(size, step, strict=True))
                for b, size, step in zip(begins, sizes, strides, strict=True)), default=-1)
    if last >= self.numel() or min(begins, default=0) < 0:
        raise RuntimeError(f"_nested_view_from_buffer: the windows reach to element {last} of {self.numel()}")
    return make(plain if same else Windows(sizes, strides, begins), self.reshape(-1))


def _nested_from_padded_and_nested_example(padded, nt_example):
    """The strided nested tensor with the sizes of another one whose padded form this is."""
    return _nested_from_padded(padded, nt_example._nested_tensor_size())


def _nested_from_padded(padded, cpu_nested_shape_example, fuse_transform_0213=False):
    """The strided nested tensor of the windows [:sizes[i]] of each row of a padded tensor."""
    rows = padded.permute(0, 2, 1, 3) if fuse_transform_0213 else padded
    parts = []
    for row, sizes in zip(rows.unbind(0), cpu_nested_shape_example.tolist(), strict=True):
        whole = [sizes[0], row.shape[1], sizes[1] // row.shape[1]] if fuse_transform_0213 else sizes
        part = row[tuple(slice(n) for n in whole)]
        parts.append(part.reshape(sizes) if fuse_transform_0213 else part)
    return joined(parts, _C.strided)
