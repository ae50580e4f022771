"""Sequences of different lengths: padded to one tensor, or packed without the padding."""

import itertools
from collections import namedtuple
from collections.abc import Iterable

from ... import Tensor, argsort, as_tensor, cat, full, int64
from ..._shown import shown
from ...ops.recurrent import pack_rows, pad_rows


class PackedSequence(namedtuple("PackedSequence", ["data", "batch_sizes", "sorted_indices", "unsorted_indices"])):
    """Sequences in order of falling length: `data` holds step 0 of all, then step 1 of those that have one, …

    `batch_sizes[t]` says how many sequences have a step t. Made by pack_sequence and pack_padded_sequence.
    """

    __slots__ = ()

    def __new__(cls, data, batch_sizes=None, sorted_indices=None, unsorted_indices=None):
        if batch_sizes is None:
            raise ValueError("PackedSequence: batch_sizes is missing; make one with pack_padded_sequence")
        if unsorted_indices is None and sorted_indices is not None:
            unsorted_indices = invert_permutation(sorted_indices)
        return super().__new__(cls, data, batch_sizes, sorted_indices, unsorted_indices)

    def to(self, *args, **kwargs):
        """The same sequences with `data` in another dtype or on another device; their order goes with it."""
        data = self.data.to(*args, **kwargs)
        if data is self.data:
            return self
        order = (None if t is None else t.to(data.device) for t in (self.sorted_indices, self.unsorted_indices))
        return type(self)(data, self.batch_sizes, *order)

    def cuda(self, device=None, **options):
        return self.to("cuda" if device is None else device, **options)

    def cpu(self, **options):
        return self.to("cpu", **options)

    def is_pinned(self):
        """Whether CUDA devices can copy from it directly."""
        return self.data.is_pinned()

    def pin_memory(self):
        """The same sequences in memory that CUDA devices copy from directly; RuntimeError where there are none."""
        return type(self)(self.data.pin_memory(), *self[1:])

    @property
    def is_cuda(self):
        return self.data.device.type == "cuda"


for _name in ("double", "float", "half", "long", "int", "short", "char", "byte"):
    def _converted(self, _name=_name):
        return self.to(getattr(self.data, _name)().dtype)
    setattr(PackedSequence, _name, _converted)


def invert_permutation(permutation):
    """The permutation that undoes `permutation`; None for None."""
    if permutation is None:
        return None
    return argsort(permutation)


def pad_sequence(sequences, batch_first=False, padding_value=0.0, padding_side="right"):
    """One tensor [longest, count, *] (or [count, longest, *]) of the tensors [length, *], filled up with a value.

    >>> import flambeau
    >>> flambeau.nn.utils.rnn.pad_sequence([flambeau.ones(2), flambeau.ones(1)], batch_first=True)
    tensor([[1., 1.],
            [1., 0.]])
    """
    sequences = list(sequences) if isinstance(sequences, Iterable) else ()
    if not sequences or not all(isinstance(s, Tensor) for s in sequences):
        raise RuntimeError("pad_sequence: expected an iterable of one or more tensors")
    if padding_side not in ("left", "right"):
        raise RuntimeError(f"pad_sequence: padding_side must be 'left' or 'right', got {shown(padding_side)}")
    longest, rest = max(len(s) for s in sequences), sequences[0].shape[1:]
    rows = []
    for s in sequences:
        fill = full((longest - len(s), *rest), padding_value, dtype=s.dtype, device=s.device)
        rows.append(cat([s, fill] if padding_side == "right" else [fill, s]))
    joined = cat([row.unsqueeze(0) for row in rows])
    return joined if batch_first else joined.transpose(0, 1)


def unpad_sequence(padded_sequences, lengths, batch_first=False):
    """The list of sequences that were padded."""
    rows = padded_sequences if batch_first else padded_sequences.transpose(0, 1)
    return [row[:n] for row, n in zip(rows, as_tensor(lengths).tolist(), strict=True)]


def pack_padded_sequence(input, lengths, batch_first=False, enforce_sorted=True):
    """Take the padding out of [T, N, *] (or [N, T, *] if batch_first), given each sequence's length.

    With `enforce_sorted` the lengths must not rise; without, the sequences are sorted and put back in order later.
    """
    lengths = as_tensor(lengths, device="cpu").to(int64)
    batch = input.shape[not batch_first] if input.ndim > 1 else 0
    if lengths.ndim != 1 or len(lengths) != batch:
        raise RuntimeError(
            f"pack_padded_sequence: lengths must hold one length for each of the {batch} batch entries, got "
            f"{lengths.numel()}"
        )
    order = None
    if not enforce_sorted:
        order = argsort(lengths, descending=True, stable=True)
        lengths, order = lengths[order], order.to(input.device)
        input = input.index_select(0 if batch_first else 1, order)
    sizes = lengths.tolist()
    if not sizes or min(sizes) <= 0:
        raise RuntimeError(
            f"pack_padded_sequence: every length must be positive, got {sizes}"
        )
    if any(a < b for a, b in itertools.pairwise(sizes)):
        raise RuntimeError(
            f"pack_padded_sequence: lengths must fall ({sizes}); sort the batch, or pass enforce_sorted=False"
        )
    steps = input.shape[1 if batch_first else 0]
    if sizes[0] > steps:
        raise RuntimeError(f"pack_padded_sequence: a length of {sizes[0]}, but the input has {steps} steps")
    counts = _turned(sizes)
    return PackedSequence(pack_rows(input, counts, batch_first), as_tensor(counts, device="cpu"), order)


def _turned(sizes):
    """How many of the falling `sizes` are above 0, above 1, …: lengths become batch sizes, and the reverse."""
    counts, n = [], len(sizes)
    for t in range(sizes[0] if sizes else 0):
        while sizes[n - 1] <= t:
            n -= 1
        counts.append(n)
    return counts


def pack_sequence(sequences, enforce_sorted=True):
    """Pack a list of tensors [length, *].

    >>> import flambeau
    >>> packed = flambeau.nn.utils.rnn.pack_sequence([flambeau.tensor([1, 2, 3]), flambeau.tensor([4])])
    >>> packed.data, packed.batch_sizes
    (tensor([1, 4, 2, 3]), tensor([2, 1, 1]))
    """
    lengths = as_tensor([len(s) for s in sequences], device="cpu")
    return pack_padded_sequence(pad_sequence(sequences, True), lengths, True, enforce_sorted)


def pad_packed_sequence(sequence, batch_first=False, padding_value=0.0, total_length=None):
    """(padded tensor, lengths): the opposite of pack_padded_sequence, in the original order."""
    counts = sequence.batch_sizes.tolist()
    if total_length is not None and total_length < len(counts):
        raise ValueError(
            f"pad_packed_sequence: total_length={shown(total_length)} is below the longest sequence, {len(counts)}"
        )
    order, lengths = sequence.unsorted_indices, as_tensor(_turned(counts), device="cpu")
    padded = pad_rows(sequence.data, counts, counts[0], batch_first, padding_value, total_length or len(counts))
    if order is not None:
        padded, lengths = padded.index_select(0 if batch_first else 1, order), lengths[order.cpu()]
    return padded, lengths


def unpack_sequence(packed_sequences):
    """The list of sequences that were packed."""
    padded, lengths = pad_packed_sequence(packed_sequences, batch_first=True)
    return unpad_sequence(padded, lengths, batch_first=True)
