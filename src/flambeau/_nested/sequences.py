"""Where the parts of a nested tensor lie in its values: the two forms, and how each gives its parts.

A nested tensor is dense values and a form. `Jagged` is PyTorch's jagged layout: the parts lie one after the other along
one dimension of the values, between `offsets` (with `lengths`, only the beginnings of those spans belong to them).
`Windows` is PyTorch's strided layout: the values are a flat buffer, and each part is a window with its own sizes and
strides. Pointwise operators need neither: they run on the values. For everything else a tensor of windows whose parts
differ in one dimension is looked at as a jagged one (`Windows.as_jagged`, a view), so that each operator has one rule.
What many tensors share (offsets, and what is computed from them once) is in `Sequences`.
"""

import weakref
from itertools import accumulate
from math import prod

from .. import _C
from .._symbolic import shape_env as shape_env  # tells native code of the type of ragged sizes
from .._symbolic.ragged import size_of
from ..ops.kinds import OPS

_known = weakref.WeakValueDictionary()  # (id of offsets, id of lengths) -> Sequences


def sequences_of(offsets, lengths=None, least=None, most=None):
    """The Sequences of these tensors: the same for the same tensors."""
    key = id(offsets), id(lengths)
    found = _known.get(key)
    if found is None:
        found = _known[key] = Sequences(offsets, lengths)
    if least is not None:
        found.told_least = least
    if most is not None:
        found.told_most = most
    return found


def _of_lengths(lens):
    """The Sequences for strided tensors whose parts have these lengths, on the CPU: the same for the same lengths."""
    found = _known.get(lens)
    if found is None:
        found = _known[lens] = Sequences(_C.array(list(accumulate(lens, initial=0)), _C.int64, True))
    return found


class Sequences:
    """The lengths of the parts and where each begins, for all tensors of one ragged size; what follows from them is
    computed when it is first asked for."""

    def __init__(self, offsets, lengths=None, size=None):
        self.offsets, self.lengths = offsets, lengths
        self.size = size or size_of(offsets if lengths is None else lengths)
        self.batch = offsets.shape[0] - 1
        self.told_least = self.told_most = None
        self._spans = self._packed = self._counts = self._rows = None
        self._padded = {}
        self.blanks = {}

    @property
    def spans(self):
        """[(where it begins, its length) of each part], as Python numbers."""
        if self._spans is None:
            starts = self.offsets.tolist()
            lengths = self.counts.tolist()
            if starts[0] < 0 or any(n < 0 for n in lengths):
                raise RuntimeError(f"nested tensor: offsets must ascend and lengths not be negative; got offsets "
                                   f"{starts[:8]}, lengths {lengths[:8]}")
            self._spans = list(zip(starts, lengths, strict=False))
        return self._spans

    @property
    def counts(self):
        """The lengths, as a tensor."""
        if self._counts is None:
            offsets = self.offsets
            self._counts = offsets[1:] - offsets[:-1] if self.lengths is None else self.lengths
        return self._counts

    @property
    def lens(self):
        """The lengths, as Python numbers."""
        return [n for _, n in self.spans]

    @property
    def least(self):
        """The length of the shortest part."""
        return min(self.lens, default=0) if self.told_least is None else self.told_least

    @property
    def most(self):
        """The length of the longest part."""
        return max(self.lens, default=0) if self.told_most is None else self.told_most

    def checked(self, total):
        """The spans, which must lie in `total` rows."""
        if any(a + n > total for a, n in self.spans):
            raise RuntimeError(f"nested tensor: the offsets and lengths reach to row {max(map(sum, self.spans))}, but "
                               f"the values have {total}")
        return self._spans

    @property
    def reach(self):
        """How many rows there are where the parts follow each other without gaps from the first row on, else -1."""
        if self._packed is None:
            ends = list(accumulate(self.lens, initial=0))
            self._packed = ends[-1] if [a for a, _ in self.spans] == ends[:-1] else -1
        return self._packed

    def is_packed(self, total):
        """Whether the parts are all of `total` rows, one after the other."""
        if self.reach != total:
            self.checked(total)
        return self._packed == total

    @property
    def total(self):
        """How many rows the parts have together."""
        return sum(self.lens)

    @property
    def packed(self):
        """The same lengths without holes: the ragged size is the same."""
        if self.reach >= 0:
            return self
        if self._rows is None:
            zero = OPS["zeros"]((1,), dtype=self.offsets.dtype, device=self.offsets.device)
            offsets = OPS["cat"]([zero, self.counts.cumsum(0).to(self.offsets.dtype)])
            found = Sequences(offsets, None, self.size)
            found.told_least, found.told_most = self.told_least, self.told_most
            self._rows = found, self._row_numbers(found)
            _known[id(offsets), id(None)] = found
        return self._rows[0]

    def _row_numbers(self, packed):
        starts = self.offsets[:-1].long()
        shift = starts - packed.offsets[:-1].long()
        return OPS["arange"](self.total, device=starts.device) + shift[packed.owners]

    @property
    def rows(self):
        """The numbers of the rows that belong to parts (where there are holes)."""
        return self._rows[1] if self.packed is not self else None

    @property
    def owners(self):
        """Which part each row of the packed values belongs to."""
        if "owners" not in self._padded:
            counts = self.counts.long()
            self._padded["owners"] = OPS["repeat_interleave"](OPS["arange"](self.batch, device=counts.device), counts)
        return self._padded["owners"]

    @property
    def positions(self):
        """The place of each packed row in its part."""
        if "positions" not in self._padded:
            owners = self.owners
            starts = self.packed.offsets[:-1].long()
            self._padded["positions"] = OPS["arange"](len(owners), device=owners.device) - starts[owners]
        return self._padded["positions"]

    def places(self, width):
        """Where each packed row lies among `width` rows for each part."""
        found = self._padded.get(width)
        if found is None:
            found = self._padded[width] = self.owners * width + self.positions
        return found

    def mask(self, width):
        """[batch, width]: which places of padded rows are taken."""
        found = self._padded.get(("mask", width))
        if found is None:
            row = OPS["arange"](width, device=self.counts.device)
            found = self._padded["mask", width] = row < self.counts[:, None]
        return found


class Jagged:
    """Parts along dimension `ragged - 1` of the values; `ragged` counts the batch, which comes first."""

    __slots__ = ("ragged", "sequences")
    layout = _C.jagged

    def __init__(self, sequences, ragged=1):
        self.sequences, self.ragged = sequences, ragged

    @property
    def batch(self):
        """How many parts there are."""
        return self.sequences.batch

    @property
    def blanks(self):
        """Wrappers to copy, by what they are of."""
        return self.sequences.blanks

    def ndim(self, values):
        """How many dimensions the nested tensor has."""
        return values.dim() + 1

    def same(self, other):
        """Whether values of both belong together row by row."""
        return self is other or (isinstance(other, Jagged) and self.sequences is other.sequences
                                 and self.ragged == other.ragged)

    def size(self, values):
        """The sizes, of which one is ragged."""
        sizes = list(values.shape)
        sizes[self.ragged - 1] = self.sequences.size
        return _C.Size((self.batch, *sizes))

    def numel(self, values):
        """How many elements the parts have."""
        rows = values.shape[self.ragged - 1]
        each = prod(values.shape[:self.ragged - 1]) * prod(values.shape[self.ragged:])
        return each * (rows if self.sequences.lengths is None else self.sequences.total)

    def contiguous(self, values):
        """Whether the values are in order and have no holes."""
        return self.sequences.lengths is None and values.is_contiguous()

    def parts(self, values):
        """The parts, as views of the values."""
        dim = self.ragged - 1
        total = values.shape[dim]
        if self.sequences.is_packed(total):
            return list(OPS["split_with_sizes"](values, self.sequences.lens, dim))
        return [values.narrow(dim, a, n) for a, n in self.sequences.checked(total)]

    def on(self, ragged):
        """The same parts with the ragged size in another dimension."""
        return self if ragged == self.ragged else Jagged(self.sequences, ragged)


class Windows:
    """Parts in a flat buffer, with their sizes, strides and offsets. `order`: where the parts lie one after the other
    without gaps, each in row-major order once its dimensions are taken in this order; else None."""

    __slots__ = ("_jagged", "_tables", "blanks", "dims", "offsets", "order", "sizes", "strides")
    layout = _C.strided

    def __init__(self, sizes, strides=None, offsets=None, order=None, dims=None):
        self.sizes = tuple(tuple(s) for s in sizes)
        self.dims = len(self.sizes[0]) if self.sizes else dims or 0
        self.order = tuple(range(self.dims)) if strides is None and order is None else order
        if strides is None:
            strides = [_strides(s, self.order) for s in self.sizes]
            offsets = list(accumulate((prod(s) for s in self.sizes), initial=0))[:-1]
        self.strides, self.offsets = tuple(tuple(s) for s in strides), tuple(offsets)
        self._jagged, self._tables, self.blanks = None, None, {}

    @property
    def batch(self):
        """How many parts there are."""
        return len(self.sizes)

    def ndim(self, values):
        """How many dimensions the nested tensor has."""
        return self.dims + 1

    def same(self, other):
        """Whether values of both belong together element by element."""
        return self is other or (isinstance(other, Windows) and self.sizes == other.sizes
                                 and self.strides == other.strides and self.offsets == other.offsets)

    def numel(self, values):
        """How many elements the parts have."""
        return sum(map(prod, self.sizes))

    def contiguous(self, values):
        """Whether the parts are in order, without gaps."""
        return self.order == tuple(range(self.dims))

    def parts(self, values):
        """The parts, as views of the buffer."""
        if self.order is None:
            return [values.as_strided(s, t, values.storage_offset() + o)
                    for s, t, o in zip(self.sizes, self.strides, self.offsets, strict=True)]
        order, plain = self.order, self.contiguous(values)
        pieces = OPS["split_with_sizes"](values, [prod(s) for s in self.sizes], 0) if self.sizes else []
        if plain:
            return [piece.view(s) for piece, s in zip(pieces, self.sizes, strict=True)]
        back = [order.index(d) for d in range(self.dims)]
        return [piece.view([s[d] for d in order]).permute(back) for piece, s in zip(pieces, self.sizes, strict=True)]

    def ragged_dims(self):
        """The dimensions (of a part) in which the parts differ."""
        return [d for d in range(self.dims) if len({s[d] for s in self.sizes}) > 1]

    def as_jagged(self, values):
        """(jagged form, values) as a view, where the parts differ in at most the dimension that is outermost in memory;
        else None."""
        if self._jagged is None:
            self._jagged = self._view() or ()
        if not self._jagged:
            return None
        form, shape, back = self._jagged
        return form, values.view(shape).permute(back) if back is not None else values.view(shape)

    def _view(self):
        if not self.sizes or not self.dims or self.order is None:
            return None
        ragged = self.ragged_dims() or [self.order[0]]
        if ragged != [self.order[0]]:
            return None
        lens = [s[ragged[0]] for s in self.sizes]
        rest = [self.sizes[0][d] for d in self.order[1:]]
        back = None if self.order == tuple(range(self.dims)) else [self.order.index(d) for d in range(self.dims)]
        return Jagged(_of_lengths(tuple(lens)), ragged[0] + 1), (sum(lens), *rest), back

    def permuted(self, dims):
        """The same windows with their dimensions in this order."""
        order = None if self.order is None else tuple(dims.index(d) for d in self.order)
        return Windows([[s[d] for d in dims] for s in self.sizes], [[s[d] for d in dims] for s in self.strides],
                       self.offsets, order)

    def tables(self):
        """(sizes, strides, offsets) as tensors."""
        if self._tables is None:
            flat = [n for rows in (self.sizes, self.strides) for row in rows for n in row]
            made = _C.array([*flat, *self.offsets], _C.int64, True)
            half = self.batch * self.dims
            self._tables = (made[:half].view(self.batch, self.dims), made[half:2 * half].view(self.batch, self.dims),
                            made[2 * half:])
        return self._tables


def _strides(sizes, order):
    found, step = [0] * len(sizes), 1
    for d in reversed(order):
        found[d], step = step, step * sizes[d]
    return found
