"""flex_attention: attention with a user-defined function that changes the scores, and masks given as functions.

A score_mod is (score, batch, head, q_idx, kv_idx) -> score, a mask_mod (batch, head, q_idx, kv_idx) -> bool; both are
written for one score and mapped over all (`flambeau.vmap`). A BlockMask keeps which blocks of the mask are empty,
full or partly filled. Here the scores of all queries and keys are computed, and then masked.
"""

import inspect
import itertools
import math
from collections import namedtuple

from ... import Tensor, arange, argsort, cat, int32, int64, jagged, nested, tensor, where, zeros
from ... import bool as bool_dtype
from ...func import vmap
from .. import functional as F

AuxRequest = namedtuple("AuxRequest", ["lse", "max_scores"], defaults=[False, False])
AuxRequest.__doc__ = "What flex_attention returns besides its result: the log of the sum of exponentials, the maxima."
AuxOutput = namedtuple("AuxOutput", ["lse", "max_scores"], defaults=[None, None])
AuxOutput.__doc__ = "What was asked for by an AuxRequest; None for the rest."

_BLOCK = _DEFAULT_SPARSE_BLOCK_SIZE = 128


def _arguments(function):
    parameters = inspect.signature(function).parameters.values()
    return sum(p.default is inspect.Parameter.empty for p in parameters)


def _mapped(function, first=()):
    """`function` over the indices [B], [H], [L], [S] (and arguments of the full shape before them): [B, H, L, S]."""
    for place in (3, 2, 1, 0):
        function = vmap(function, in_dims=first + tuple(0 if k == place else None for k in range(4)))
    return function


def _indices(sizes, device):
    return [arange(n, device=device) for n in sizes]


# ---- masks ----------------------------------------------------------------------------------------------------------


def noop_mask(batch, head, token_q, token_kv):
    """A mask_mod that masks nothing."""
    return batch.new_ones((), dtype=bool_dtype)


def _combined(mask_mods, start, join):
    if not all(callable(mod) for mod in mask_mods):
        raise RuntimeError(f"and_masks and or_masks combine functions; not all of these can be called: {mask_mods}")

    def mask(b, h, q_idx, kv_idx):
        result = b.new_full((), start, dtype=bool_dtype)
        for mod in mask_mods:
            result = join(result, mod(b, h, q_idx, kv_idx))
        return result

    return mask


def or_masks(*mask_mods):
    """A mask_mod that lets through what any of them does.

    >>> from flambeau.nn.attention import flex_attention as flex
    >>> mod = flex.or_masks(lambda b, h, q, k: q == k, lambda b, h, q, k: k == 0)
    >>> flex.create_mask(mod, 1, 1, 2, 3)[0, 0]
    tensor([[ True, False, False],
            [ True,  True, False]])
    """
    return _combined(mask_mods, False, lambda a, b: a | b)


def and_masks(*mask_mods):
    """A mask_mod that lets through what all of them do."""
    return _combined(mask_mods, True, lambda a, b: a & b)


def create_mask(mod_fn, B, H, Q_LEN, KV_LEN, device=None):
    """The bool tensor [B, H, Q_LEN, KV_LEN] of a mask_mod, or of a score_mod: False where it gives -inf."""
    sizes = (B or 1, H or 1, Q_LEN, KV_LEN)
    indices = _indices(sizes, device)
    count = _arguments(mod_fn)
    if count == 5:
        return _mapped(mod_fn, (0,))(zeros(sizes, device=device), *indices) != -math.inf
    if count != 4:
        raise AssertionError(f"Expected a mask_mod of 4 or a score_mod of 5 arguments, got {count}")
    return _mapped(mod_fn)(*indices).expand(sizes)


def _ordered(dense):
    """(number of blocks in each row, their columns first) of a 0-1 tensor [..., rows, columns]."""
    return dense.sum(-1).to(int32), argsort(dense.to(int32), dim=-1, descending=True, stable=True).to(int32)


def _dense(count, columns):
    """The 0-1 tensor of what `_ordered` gave."""
    wanted = arange(columns.shape[-1], device=columns.device) < count.unsqueeze(-1)
    return zeros(columns.shape, dtype=int32, device=columns.device).scatter_add(-1, columns.to(int64), wanted.to(int32))


_FIELDS = ("kv_num_blocks", "kv_indices", "full_kv_num_blocks", "full_kv_indices", "q_num_blocks", "q_indices",
           "full_q_num_blocks", "full_q_indices")  # fmt: skip


def _sliced(*_):
    raise RuntimeError("BlockMask: the mask_mod of the whole mask does not describe a part cut out of it; set "
                       "mask_mod of the part")


class BlockMask:
    """A mask [B, H, queries, keys] by blocks: for each row of blocks those that are full, and those that are partly
    filled and need the mask_mod. Made by create_block_mask, or by from_kv_blocks from the blocks themselves.

    >>> from flambeau.nn.attention.flex_attention import create_block_mask
    >>> mask = create_block_mask(lambda b, h, q, k: q >= k, 1, 1, 8, 8, BLOCK_SIZE=4)
    >>> mask.to_dense()[0, 0]
    tensor([[1, 0],
            [1, 1]], dtype=torch.int32)
    >>> mask.sparsity()
    25.0
    """

    def __init__(self, seq_lengths, kv_num_blocks, kv_indices, full_kv_num_blocks, full_kv_indices, q_num_blocks,
                 q_indices, full_q_num_blocks, full_q_indices, BLOCK_SIZE=(_BLOCK, _BLOCK), mask_mod=noop_mask):
        if kv_indices.dim() < 2:
            raise RuntimeError(f"BlockMask: kv_indices must have at least 2 dimensions, got {kv_indices.dim()}")
        if (full_kv_num_blocks is None) != (full_kv_indices is None):
            raise AssertionError("BlockMask: full_kv_num_blocks and full_kv_indices describe the full blocks "
                                 "together; pass both or neither")
        self.seq_lengths, self.BLOCK_SIZE, self.mask_mod = tuple(seq_lengths), tuple(BLOCK_SIZE), mask_mod
        given = (kv_num_blocks, kv_indices, full_kv_num_blocks, full_kv_indices, q_num_blocks, q_indices,
                 full_q_num_blocks, full_q_indices)  # fmt: skip
        for name, value in zip(_FIELDS, given, strict=True):
            setattr(self, name, value)

    @classmethod
    def from_kv_blocks(cls, kv_num_blocks, kv_indices, full_kv_num_blocks=None, full_kv_indices=None, BLOCK_SIZE=_BLOCK,
                       mask_mod=None, seq_lengths=None, compute_q_blocks=True):
        """A mask whose row r of blocks has the columns kv_indices[..., r, :kv_num_blocks[..., r]], and the full ones
        of full_kv_indices; `seq_lengths` are the numbers of queries and keys."""
        if kv_indices.dim() < 2:
            raise RuntimeError(f"BlockMask: kv_indices must have at least 2 dimensions, got {kv_indices.dim()}")
        if (full_kv_num_blocks is None) != (full_kv_indices is None):
            raise AssertionError("BlockMask: full_kv_num_blocks and full_kv_indices describe the full blocks "
                                 "together; pass both or neither")
        block = (BLOCK_SIZE,) * 2 if isinstance(BLOCK_SIZE, int) else tuple(BLOCK_SIZE)
        if seq_lengths is None:
            seq_lengths = tuple(n * size for n, size in zip(kv_indices.shape[-2:], block, strict=True))
        columns = [None] * 4
        if compute_q_blocks:
            columns[:2] = _ordered(_dense(kv_num_blocks, kv_indices).mT)
            if full_kv_num_blocks is not None:
                columns[2:] = _ordered(_dense(full_kv_num_blocks, full_kv_indices).mT)
        return cls(seq_lengths, kv_num_blocks, kv_indices, full_kv_num_blocks, full_kv_indices, *columns, block,
                   mask_mod or noop_mask)

    def as_tuple(self, flatten=True):
        """(lengths, the tensors, block sizes, mask_mod), with lengths and sizes as tuples if not `flatten`."""
        lengths, block = (self.seq_lengths, self.BLOCK_SIZE) if flatten else ((self.seq_lengths,), (self.BLOCK_SIZE,))
        return (*lengths, *(getattr(self, name) for name in _FIELDS), *block, self.mask_mod)

    @property
    def shape(self):
        """(B, H, queries, keys)."""
        return (*self.kv_indices.shape[:-2], *self.seq_lengths)

    def numel(self):
        """The number of scores, masked or not."""
        return math.prod(self.shape)

    def sparsity(self):
        """The percentage of scores in empty blocks."""
        blocks = self.kv_num_blocks.sum().item()
        if self.full_kv_num_blocks is not None:
            blocks += self.full_kv_num_blocks.sum().item()
        return 100 * (1 - blocks * math.prod(self.BLOCK_SIZE) / self.numel())

    def to_dense(self):
        """1 for every block that is not empty: [B, H, rows, columns]."""
        dense = _dense(self.kv_num_blocks, self.kv_indices)
        if self.full_kv_num_blocks is not None:
            dense = dense | _dense(self.full_kv_num_blocks, self.full_kv_indices)
        return dense

    def __getitem__(self, index):
        """The mask of some batch entries, heads or rows; its mask_mod no longer knows their numbers and is not kept."""
        index = index if isinstance(index, tuple) else (index,)
        sizes = self.kv_num_blocks.shape
        index = tuple(
            slice(i % sizes[k], i % sizes[k] + 1) if isinstance(i, int) else i for k, i in enumerate(index)
        )
        parts = [None if t is None else t[index] for t in (getattr(self, name) for name in _FIELDS[:4])]
        return self.from_kv_blocks(*parts, self.BLOCK_SIZE, _sliced, self.seq_lengths, self.q_indices is not None)

    def _adjust(self, new_q_len, new_kv_len):
        """The upper left corner, for other lengths."""
        rows, columns = (-(-n // size) for n, size in zip((new_q_len, new_kv_len), self.BLOCK_SIZE, strict=True))
        parts = []
        for name in ("", "full_"):
            count, indices = getattr(self, f"{name}kv_num_blocks"), getattr(self, f"{name}kv_indices")
            parts += (None, None) if count is None else _ordered(_dense(count, indices)[..., :rows, :columns])
        return self.from_kv_blocks(
            *parts, self.BLOCK_SIZE, self.mask_mod, (new_q_len, new_kv_len), self.q_indices is not None
        )

    def to(self, device):
        """The mask on `device`."""
        moved = (t if t is None else t.to(device) for t in (getattr(self, name) for name in _FIELDS))
        return BlockMask(self.seq_lengths, *moved, self.BLOCK_SIZE, self.mask_mod)

    def to_string(self, grid_size=(20, 20), limit=4):
        """A picture of the blocks that are not empty (░: some of those a character stands for); -1 shows all."""
        dense = self.to_dense().float()
        *batch, rows, columns = dense.shape
        limits = (rows, columns) if grid_size == -1 else (grid_size,) * 2 if isinstance(grid_size, int) else grid_size
        row_step, column_step = (max(1, -(-n // most)) for n, most in zip((rows, columns), limits, strict=True))
        pictures = []
        for place in itertools.islice(itertools.product(*map(range, batch)), limit):
            text = f"{place}\n"
            for r in range(0, rows, row_step):
                means = (dense[place][r : r + row_step, c : c + column_step].mean().item()
                         for c in range(0, columns, column_step))  # fmt: skip
                text += "".join(2 * ("█" if m == 1 else " " if m == 0 else "░") for m in means) + "\n"
            pictures.append(text)
        if math.prod(batch) > limit:
            pictures.append(f"... {limit} of {math.prod(batch)}: to_string(limit=n) shows n, mask[batch, head] is one")
        return "\n".join(pictures)

    def __str__(self):
        return f"BlockMask(shape={self.shape}, sparsity={self.sparsity():.2f}%, \n{self.to_string().strip()}\n)"

    def __repr__(self):
        shapes = (f"    {n}={None if getattr(self, n) is None else getattr(self, n).shape},\n" for n in _FIELDS)
        name = getattr(self.mask_mod, "__name__", self.mask_mod)
        return (
            f"BlockMask(\n{''.join(shapes)}    BLOCK_SIZE={self.BLOCK_SIZE},\n    shape={self.shape},\n"
            f"    sparsity={self.sparsity():.2f}%,\n    mask_mod={name}\n)"
        )

    def _allowed(self, sizes, device):
        """The bool mask for scores of `sizes`."""
        rows, columns = (arange(n, device=device) // size for n, size in zip(sizes[2:], self.BLOCK_SIZE, strict=True))

        def spread(count, indices):
            return _dense(count, indices)[..., rows, :][..., columns] > 0

        allowed = spread(self.kv_num_blocks, self.kv_indices)
        if self.mask_mod is not noop_mask:
            allowed = allowed & _mapped(self.mask_mod)(*_indices(sizes, device))
        if self.full_kv_num_blocks is not None:
            allowed = allowed | spread(self.full_kv_num_blocks, self.full_kv_indices)
        return allowed


def create_block_mask(mask_mod, B, H, Q_LEN, KV_LEN, device=None, BLOCK_SIZE=_BLOCK, _compile=False,
                      separate_full_blocks=True):
    """The BlockMask of a mask_mod for B batch entries and H heads (None: the same mask for all).

    >>> from flambeau.nn.attention.flex_attention import create_block_mask
    >>> create_block_mask(lambda b, h, q, k: q >= k, None, None, 512, 512).shape
    (1, 1, 512, 512)
    """
    if _arguments(mask_mod) != 4:
        raise AssertionError(f"create_block_mask requires a mask_mod function! Got {mask_mod}")
    block = (BLOCK_SIZE,) * 2 if isinstance(BLOCK_SIZE, int) else tuple(BLOCK_SIZE)
    mask = create_mask(mask_mod, B, H, Q_LEN, KV_LEN, device)
    batch, heads = mask.shape[:2]
    rows, columns = (-(-n // size) for n, size in zip((Q_LEN, KV_LEN), block, strict=True))
    mask = F.pad(mask.to(int32), (0, columns * block[1] - KV_LEN, 0, rows * block[0] - Q_LEN))
    filled = mask.reshape(batch, heads, rows, block[0], columns, block[1]).sum((3, 5))
    full = filled == block[0] * block[1]
    partial = (filled > 0) & ~full if separate_full_blocks else filled > 0
    full_blocks = _ordered(full) if separate_full_blocks else (None, None)
    return BlockMask.from_kv_blocks(*_ordered(partial), *full_blocks, block, mask_mod, (Q_LEN, KV_LEN))


def create_nested_block_mask(mask_mod, B, H, q_nt, kv_nt=None, BLOCK_SIZE=_BLOCK, _compile=False):
    """The BlockMask of a mask_mod for the sequences of a jagged tensor [B, H, j, E], rows of all parts in one: each
    query sees keys of its own part only, and mask_mod gets the part and the places within it.

    >>> from flambeau.nn.attention.flex_attention import create_nested_block_mask
    >>> q = flambeau.nested.nested_tensor([flambeau.ones(3, 1, 4), flambeau.ones(2, 1, 4)], layout=flambeau.jagged)
    >>> create_nested_block_mask(lambda b, h, i, j: i >= j, None, None, q.transpose(1, 2)).shape
    (1, 1, 5, 5)
    """
    kv_nt = q_nt if kv_nt is None else kv_nt
    if not all(x.is_nested and x.layout is jagged for x in (q_nt, kv_nt)):
        raise AssertionError("create_nested_block_mask: q_nt and kv_nt must be jagged nested tensors")
    if B not in (None, 1, q_nt.size(0)):
        raise AssertionError(f"create_nested_block_mask: B must be None or {q_nt.size(0)}, the number of parts, got "
                             f"{B}")
    (parts, rows), (kv_parts, columns) = (_places(x) for x in (q_nt, kv_nt))

    def flat(batch, head, q, k):
        return (parts[q] == kv_parts[k]) & mask_mod(parts[q], head, rows[q], columns[k])

    made = create_block_mask(flat, 1, H, len(rows), len(columns), q_nt.device, BLOCK_SIZE, _compile)
    made._of_parts = mask_mod, H, BLOCK_SIZE
    return made


def _places(x):
    """(which part each row of a jagged tensor is of, its place there)."""
    lengths = [p.shape[-2] for p in x.detach().unbind()]
    parts = arange(len(lengths), device=x.device).repeat_interleave(tensor(lengths, device=x.device))
    return parts, cat([arange(n, device=x.device) for n in lengths])


# ---- attention ------------------------------------------------------------------------------------------------------


def flex_attention(query, key, value, score_mod=None, block_mask=None, scale=None, enable_gqa=False, return_lse=False,
                   kernel_options=None, *, return_aux=None):
    """softmax(score_mod(scale query key')) value, without what block_mask masks: query [B, Hq, L, E], key [B, H, S, E].

    `enable_gqa` repeats the heads of key and value. `return_aux` (an AuxRequest; `return_lse` is the older way) also
    returns the log-sum-exp or the maxima of the scores. `kernel_options` choose among kernels of GPUs and change
    nothing here.

    >>> import flambeau
    >>> from flambeau.nn.attention.flex_attention import flex_attention
    >>> q = flambeau.randn(1, 2, 3, 4)
    >>> out = flex_attention(q, q, q, score_mod=lambda score, b, h, q_idx, kv_idx: score - (q_idx - kv_idx).abs())
    >>> out.shape
    torch.Size([1, 2, 3, 4])
    """
    if isinstance(query, Tensor) and query.is_nested:
        return _of_parts(query, key, value, score_mod, block_mask, scale, enable_gqa, return_lse, return_aux)
    key, value, scale = _checked(query, key, value, block_mask, scale, enable_gqa)
    if return_lse and return_aux is not None:
        raise ValueError("flex_attention: pass return_aux=AuxRequest(lse=True) alone; return_lse is its old form")
    scores = ((query @ key.mT) * scale).to(query.dtype if query.dtype.itemsize >= 4 else zeros(0).dtype)
    if score_mod is not None:
        scores = _mapped(score_mod, (0,))(scores, *_indices(scores.shape, scores.device))
    if block_mask is not None:
        scores = where(block_mask._allowed(scores.shape, scores.device), scores, -math.inf)
    blind = (scores == -math.inf).all(-1, keepdim=True)  # a query that may see nothing gets zeros
    weights = where(blind, 0.0, scores.softmax(-1))
    out = weights.to(query.dtype) @ value
    if not return_lse and return_aux is None:
        return out
    lse = where(blind.squeeze(-1), -math.inf, scores.logsumexp(-1))
    if return_aux is None:
        return out, lse
    return out, AuxOutput(lse if return_aux.lse else None, scores.amax(-1) if return_aux.max_scores else None)


def _of_parts(query, key, value, score_mod, block_mask, scale, enable_gqa, return_lse, return_aux):
    """flex_attention of nested tensors [B, H, j, E]: each part attends to itself; functions get its number as batch."""
    if return_lse or return_aux is not None:
        raise NotImplementedError("flex_attention: return_lse and return_aux are not available for nested tensors; "
                                  "call it for each part, from x.unbind()")
    of_parts = getattr(block_mask, "_of_parts", None)
    if block_mask is not None and of_parts is None:
        raise ValueError("flex_attention: nested tensors take a block_mask made by create_nested_block_mask")
    found = []
    for k, (q, x, v) in enumerate(zip(query.unbind(), key.unbind(), value.unbind(), strict=True)):
        mask = None if of_parts is None else create_block_mask(
            _numbered(of_parts[0], 0, k), 1, of_parts[1], q.shape[-2], x.shape[-2], q.device, of_parts[2])
        change = None if score_mod is None else _numbered(score_mod, 1, k)
        found.append(flex_attention(q[None], x[None], v[None], change, mask, scale, enable_gqa)[0].transpose(0, 1))
    if query.lengths() is not None:
        return nested.as_nested_tensor(found, layout=jagged).transpose(1, 2)
    return nested.nested_tensor_from_jagged(cat(found), query.offsets()).transpose(1, 2)


def _numbered(function, place, number):
    """The function with `number` as its batch index, which is its argument at `place`."""
    if place:
        return lambda score, batch, head, q, k: function(score, batch + number, head, q, k)
    return lambda batch, head, q, k: function(batch + number, head, q, k)


def _checked(query, key, value, block_mask, scale, enable_gqa):
    for name, t in (("query", query), ("key", key), ("value", value)):
        if not isinstance(t, Tensor) or t.dim() != 4:
            raise NotImplementedError(f"flex_attention: {name} must be a tensor of 4 dimensions (batch, heads, length, "
                                      f"features), got {t}")
    if query.shape[-1] != key.shape[-1] or key.shape[-2] != value.shape[-2]:
        raise ValueError(
            f"flex_attention: query {list(query.shape)}, key {list(key.shape)} and value {list(value.shape)} do not fit"
        )
    heads, given = query.shape[1], key.shape[1]
    if not enable_gqa and heads != given:
        raise ValueError(
            f"flex_attention: query has {heads} heads, key and value have {given}; pass enable_gqa=True if several "
            "query heads shall share one of theirs"
        )
    if heads % given:
        raise ValueError(
            f"flex_attention: {heads} query heads cannot be divided evenly among the {given} heads of key and value"
        )
    if query.shape[0] != key.shape[0] and (block_mask is None or block_mask.kv_num_blocks.shape[0] != query.shape[0]):
        raise ValueError(
            f"flex_attention: query holds {query.shape[0]} batch entries, key and value hold {key.shape[0]}"
        )
    if block_mask is not None and block_mask.seq_lengths != (query.shape[-2], key.shape[-2]):
        raise ValueError(
            f"flex_attention: block_mask has shape {block_mask.shape}, the call has {query.shape[-2]} queries and "
            f"{key.shape[-2]} keys; create a mask for these lengths"
        )
    key, value = (t.repeat_interleave(heads // given, 1) if heads != given else t for t in (key, value))
    return key, value, 1 / math.sqrt(query.shape[-1]) if scale is None else scale
