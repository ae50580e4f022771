"""New arrays: shapes are called `shape`, dtypes of buffers are theirs, and what is empty is no mistake."""

import flambeau
from flambeau import Tensor
from flambeau._C import from_buffer
from flambeau._tensor.creation import is_memory


def _shape(shape):
    return (shape,) if isinstance(shape, int) else tuple(shape)


def asarray(obj, /, *, dtype=None, device=None, copy=None):
    """Reads the elements of a buffer in the buffer's own dtype, where PyTorch reads its bytes as float32.

    >>> from flambeau import array_api as xp
    >>> xp.asarray(memoryview(b"ab"))
    tensor([97, 98], dtype=torch.uint8)
    """
    if is_memory(obj):
        obj = from_buffer(obj)
    if copy is False and isinstance(obj, Tensor) and dtype not in (None, obj.dtype):
        raise ValueError(f"asarray: {obj.dtype} becomes {dtype} only by a copy; use copy=None")
    return flambeau.asarray(obj, dtype=dtype, device=device, copy=copy)


def arange(start, /, stop=None, step=1, *, dtype=None, device=None):
    """An interval without numbers gives an empty array, where PyTorch refuses a step away from `stop`.

    >>> from flambeau import array_api as xp
    >>> xp.arange(5, 0).shape
    torch.Size([0])
    """
    start, stop = (0, start) if stop is None else (start, stop)
    if step != 0 and (stop - start) * step <= 0:
        whole = all(isinstance(x, int) for x in (start, stop, step))
        return flambeau.empty(0, dtype=dtype or (flambeau.int64 if whole else None), device=device)
    return flambeau.arange(start, stop, step, dtype=dtype, device=device)


def linspace(start, stop, /, num, *, dtype=None, device=None, endpoint=True):
    """Has `endpoint=False`, and calls the number of steps `num`.

    >>> from flambeau import array_api as xp
    >>> xp.linspace(0, 1, 4, endpoint=False)
    tensor([0.0000, 0.2500, 0.5000, 0.7500])
    """
    x = flambeau.linspace(start, stop, num if endpoint else num + 1, dtype=dtype, device=device)
    return x if endpoint else x[:num]


def eye(n_rows, n_cols=None, /, *, k=0, dtype=None, device=None):
    """Has the diagonal's number `k`.

    >>> from flambeau import array_api as xp
    >>> xp.eye(2, 3, k=1)
    tensor([[0., 1., 0.],
            [0., 0., 1.]])
    """
    n_cols = n_rows if n_cols is None else n_cols
    x = flambeau.zeros((n_rows, n_cols), dtype=dtype, device=device)
    if -n_rows < k < n_cols:
        x.diagonal(k).fill_(1)
    return x


def empty(shape, *, dtype=None, device=None):
    """Calls the size `shape`, and takes it as one argument."""
    return flambeau.empty(_shape(shape), dtype=dtype, device=device)


def zeros(shape, *, dtype=None, device=None):
    """Calls the size `shape`, and takes it as one argument."""
    return flambeau.zeros(_shape(shape), dtype=dtype, device=device)


def ones(shape, *, dtype=None, device=None):
    """Calls the size `shape`, and takes it as one argument."""
    return flambeau.ones(_shape(shape), dtype=dtype, device=device)


def full(shape, fill_value, *, dtype=None, device=None):
    """Rounds a number as asarray does, to infinity where it is too large; PyTorch refuses that one here only."""
    return flambeau.tensor(fill_value, dtype=dtype, device=device).expand(_shape(shape)).clone()


def meshgrid(*arrays, indexing="xy"):
    """Begins with columns ("xy"), where PyTorch begins with rows ("ij")."""
    return tuple(flambeau.meshgrid(*arrays, indexing=indexing))


def tril(x, /, *, k=0):
    """Calls the diagonal's number `k`."""
    return flambeau.tril(x, k)


def triu(x, /, *, k=0):
    """Calls the diagonal's number `k`."""
    return flambeau.triu(x, k)
