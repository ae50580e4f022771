"""`rearrange`: dimensions split, moved and joined as a pattern says."""

import re
from math import prod

from .. import _C
from .._shown import shown
from ..ops.kinds import OPS

_NAME = re.compile(r"[A-Za-z_]\w*$")
#: an ellipsis that is no group of its own: one dimension for each that it stands for
_REST = ["..."]


def _groups(text, pattern):
    """[[names of one dimension]]; "..." stands for itself, "1" is an empty group."""
    groups, inside = [], None
    for token in re.findall(r"\.\.\.|[()]|\w+|\S", text):
        if token == "(" and inside is None:
            inside = []
        elif token == ")" and inside is not None:
            groups.append(inside)
            inside = None
        elif token == "..." or token == "1" or _NAME.match(token):
            names = [] if token == "1" else [token]
            groups.append(_REST if names == _REST else names) if inside is None else inside.extend(names)
        else:
            raise ValueError(f"rearrange: {shown(token)} is not understood in pattern {shown(pattern)}")
    if inside is not None:
        raise ValueError(f"rearrange: a parenthesis is not closed in pattern {shown(pattern)}")
    return groups


def _parsed(pattern):
    sides = pattern.split("->")
    if len(sides) != 2:
        raise ValueError(f"rearrange: expected one '->' in pattern {shown(pattern)}")
    left, right = (_groups(s, pattern) for s in sides)
    names = [[n for g in side for n in g] for side in (left, right)]
    for flat in names:
        if len(set(flat)) != len(flat):
            raise ValueError(f"rearrange: a name stands twice on one side of pattern {shown(pattern)}")
    if set(names[0]) != set(names[1]):
        raise ValueError(f"rearrange: names stand on one side only of pattern {shown(pattern)}: "
                         f"{sorted(set(names[0]) ^ set(names[1]))}")
    if "..." in names[0] and not any(g is _REST for g in left):
        raise ValueError(f"rearrange: an ellipsis inside parentheses on the left of pattern {shown(pattern)}")
    return left, right


def _sizes(shape, left, given, pattern):
    """The size of every name."""
    sizes = dict(given)
    for n, group in zip(shape, left, strict=True):
        unknown = [g for g in group if g not in sizes]
        known = prod(sizes[g] for g in group if g in sizes)
        if len(unknown) > 1:
            raise ValueError(f"rearrange: the sizes of {unknown} are not known in pattern {shown(pattern)}")
        if (unknown and (known == 0 or n % known)) or (not unknown and known != n):
            raise ValueError(f"rearrange: a dimension of size {n} does not fit {group} in pattern {shown(pattern)}")
        if unknown:
            sizes[unknown[0]] = n // known
    return sizes


def rearrange(tensor, pattern, **axes_lengths):
    """The tensor with its dimensions split, moved and joined: names in parentheses are one dimension.

    Sizes that cannot be found are given by name. `...` stands for any further dimensions, `1` for one of size one. A
    sequence of tensors is stacked first.

    >>> import flambeau
    >>> flambeau.func.rearrange(flambeau.ones(2, 3, 4), "b c (h w) -> (b h) w c", h=2).shape
    torch.Size([4, 2, 3])
    """
    if not isinstance(tensor, _C.Tensor):
        tensor = OPS["stack"](list(tensor))
    left, right = _parsed(pattern)
    extra = tensor.ndim - sum(g is not _REST for g in left)
    if extra < 0 or (extra and not any(g is _REST for g in left)):
        raise ValueError(f"rearrange: pattern {shown(pattern)} does not fit a tensor of {tensor.ndim} dimensions")
    rest = [f"... {k}" for k in range(extra)]

    def spread(groups):
        for g in groups:
            if g is _REST:
                yield from ([r] for r in rest)
            else:
                yield [n for name in g for n in (rest if name == "..." else [name])]

    left, right = list(spread(left)), list(spread(right))
    unused = set(axes_lengths) - {n for g in left for n in g}
    if unused:
        raise ValueError(f"rearrange: {sorted(unused)} are not names of pattern {shown(pattern)}")
    sizes = _sizes(tensor.shape, left, axes_lengths, pattern)
    before, after = ([n for g in side for n in g] for side in (left, right))
    parts = OPS["reshape"](tensor, [sizes[n] for n in before])
    moved = OPS["permute"](parts, [before.index(n) for n in after])
    return OPS["reshape"](moved, [prod(sizes[n] for n in g) for g in right])
