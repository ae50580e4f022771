"""Einstein's summation: the notation is read into labels, then operands are contracted from left to right by bmm."""

from functools import lru_cache
from math import prod

from .._C import Tensor
from .._shown import shown
from .kinds import OPS, composite
from .products import bmm, mm

_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


def _from_sublists(args):
    """einsum(a, [0, 1], b, [1, 2], [0, 2]) as an equation and its operands."""
    def spell(sublist):
        if not isinstance(sublist, (list, tuple)):
            raise TypeError("einsum: expected an equation first, as in einsum('ij,jk->ik', a, b), or a list of "
                            f"subscripts after each operand, got {shown(sublist)}")
        parts = []
        for s in sublist:
            if s is Ellipsis:
                parts.append("...")
            elif isinstance(s, int) and 0 <= s < len(_LETTERS):
                parts.append(_LETTERS[s])
            else:
                raise ValueError(f"einsum(): expected subscripts to be in [0, {len(_LETTERS)}) or Ellipsis, got "
                                 f"{shown(s)}")
        return "".join(parts)

    equation = ",".join(spell(s) for s in args[1::2][:len(args) // 2])
    if len(args) % 2:
        equation += "->" + spell(args[-1])
    return equation, list(args[0:2 * (len(args) // 2):2])


def _labels(term, ndim, where):
    """One label per dimension: letters, and -k for the k-th last dimension under an ellipsis."""
    if term.count("...") > 1 or "." in term.replace("...", "", 1):
        raise RuntimeError(f"einsum(): found '.' that is not part of a single ellipsis in {where}")
    for letter in term.replace("...", ""):
        if letter not in _LETTERS:
            raise RuntimeError(f"einsum: {letter!r} is no subscript ({where}); subscripts are the letters a-z and A-Z")
    if "..." not in term:
        if ndim is not None and len(term) != ndim:
            raise RuntimeError(f"einsum: {where} has {ndim} dimensions and {len(term)} subscripts; add the missing "
                               "ones, or an ellipsis")
        return list(term)
    before, after = term.split("...")
    covered = ndim - len(before) - len(after)
    if covered < 0:
        raise RuntimeError(f"einsum: {where} has {ndim} dimensions, fewer than the {len(before) + len(after)} "
                           "subscripts given for it")
    return [*before, *range(-covered, 0), *after]


def _read(equation, ndims):
    """The labels of every operand's dimensions, and of the result's."""
    equation = equation.replace(" ", "")
    left, arrow, right = equation.partition("->")
    terms = left.split(",")
    if len(terms) != len(ndims):
        raise RuntimeError(f"einsum: equation {shown(equation)} names {len(terms)} operands, the call gives "
                           f"{len(ndims)}")
    inputs = [_labels(t, n, f"operand {k}") for k, (t, n) in enumerate(zip(terms, ndims))]
    used = [label for labels in inputs for label in labels]
    hidden = sorted({label for label in used if isinstance(label, int)})
    if arrow:
        output = _labels(right, None if "..." not in right else len(right) - 3 + len(hidden), "the output")
    else:
        output = hidden + [c for c in _LETTERS if used.count(c) == 1]
    for label in output:
        if output.count(label) > 1:
            raise RuntimeError(f"einsum: subscript {label} stands twice in the output")
        if label not in used:
            raise RuntimeError(f"einsum: subscript {label} stands in the output and in no operand")
    return inputs, output


def _without_repeats(labels):
    """The pairs of dimensions whose diagonal is taken, one after the other, and the labels that are left."""
    pairs = []
    for label in dict.fromkeys(labels):
        while labels.count(label) > 1:
            i = labels.index(label)
            j = labels.index(label, i + 1)
            pairs.append((i, j, label))
            labels = [c for k, c in enumerate(labels) if k not in (i, j)] + [label]
    return pairs, labels


@lru_cache(1024)
def _plan(equation, ndims):
    """What an equation asks of operands of so many dimensions: diagonals of each, the labels that are left, how each
    further operand is contracted with those before, which dimensions are summed last, and the result's order."""
    inputs, output = _read(equation, ndims)
    diagonals, inputs = zip(*(_without_repeats(labels) for labels in inputs))
    labels, pairs = inputs[0], []
    for k in range(1, len(inputs)):
        pairs.append(_pair(labels, inputs[k], set(output).union(*inputs[k + 1:])))
        labels = pairs[-1][-1]
    gone = [d for d, label in enumerate(labels) if label not in output]
    order = _order([label for label in labels if label in output], output)
    return diagonals if any(diagonals) else None, inputs, pairs, gone, order


def _diagonals(x, pairs):
    """Repeated labels of one operand name its diagonal."""
    for i, j, label in pairs:
        if x.shape[i] != x.shape[j]:
            raise RuntimeError(f"einsum: subscript {label} names dimensions of sizes {x.shape[i]} and {x.shape[j]} "
                               "of one operand; they must be equal")
        x = x.diagonal(0, i, j)
    return x


def _order(labels, wanted):
    """The permutation that brings labels into the wanted order; None where they are in it."""
    order = [labels.index(label) for label in wanted]
    return None if order == list(range(len(order))) else order


def _pair(a, b, keep):
    """How to contract dimensions labelled a with those labelled b, keeping some: which of each operand's dimensions are
    summed first, its order then, how many dimensions are (batch, rows, inside, columns), and the result's labels."""
    gone = [[d for d, label in enumerate(x) if label not in keep and label not in y] for x, y in ((a, b), (b, a))]
    a, b = ([label for d, label in enumerate(x) if d not in out] for x, out in zip((a, b), gone))
    both = [label for label in a if label in b]
    batch = [label for label in both if label in keep]
    inside = [label for label in both if label not in keep]
    rows = [label for label in a if label not in both]
    columns = [label for label in b if label not in both]
    return (*gone, _order(a, batch + rows + inside), _order(b, batch + inside + columns),
            (len(batch), len(rows), len(inside), len(columns)), batch + rows + columns)


def _widened(shape, sizes):
    """Sizes of shared dimensions: the larger where one is 1."""
    return [n if n != 1 else m for n, m in zip(shape, sizes)]


def _contract(a, b, pair):
    sum_a, sum_b, order_a, order_b, (batch, rows, inside, columns), _ = pair
    a = a.sum(sum_a) if sum_a else a
    b = b.sum(sum_b) if sum_b else b
    a = a if order_a is None else a.permute(order_a)
    b = b if order_b is None else b.permute(order_b)
    if batch == 0 and rows == inside == columns == 1 and a.size(1) == b.size(0):
        return mm(a, b)
    left, right = list(a.shape), list(b.shape)
    if not inside:  # nothing is summed: a product of broadcast elements
        if columns:
            a = a.reshape(left + [1] * columns)
        return a * (b.reshape(right[:batch] + [1] * rows + right[batch:]) if rows else b)
    shared = _widened(left[:batch], right[:batch])
    summed = _widened(left[batch + rows:], right[batch:batch + inside])
    shape = shared + left[batch:batch + rows] + right[batch + inside:]
    first, second = shared + left[batch:batch + rows] + summed, shared + summed + right[batch + inside:]
    a, b = (a if left == first else a.expand(first)), (b if right == second else b.expand(second))
    n, m, k, count = prod(left[batch:batch + rows]), prod(right[batch + inside:]), prod(summed), prod(shared)
    if not batch:
        return mm(a.reshape(n, k), b.reshape(k, m)).reshape(shape)
    return bmm(a.reshape(count, n, k), b.reshape(count, k, m)).reshape(shape)


def _check_sizes(operands, inputs):
    sizes = {}
    for k, (x, labels) in enumerate(zip(operands, inputs)):
        for n, label in zip(x.shape, labels):
            if sizes.setdefault(label, n) == 1:
                sizes[label] = n
            elif n not in (1, sizes[label]):
                name = "..." if isinstance(label, int) else label
                raise RuntimeError(f"einsum: subscript {name} has size {n} in operand {k}, and {sizes[label]} before; "
                                   "sizes must be equal or 1")


# 20 operands, or 10 with their subscripts: each form of call is positional
_OPERANDS = ", ".join(f"any operand{k}=None" for k in range(1, 22))


@composite(f"einsum(any equation, {_OPERANDS}) -> Tensor", method=False, samples="einsum")
def einsum(*args):
    """Sum of products of operands over the subscripts that the output does not name.

    Forms: einsum("ij,jk->ik", a, b), with the operands as a list, or with subscripts as lists of numbers:
    einsum(a, [0, 1], b, [1, 2], [0, 2]). "..." stands for dimensions that broadcast.

    >>> import flambeau
    >>> flambeau.einsum("bij,bjk->bik", flambeau.ones(2, 1, 3), flambeau.ones(2, 3, 1)).flatten()
    tensor([3., 3.])
    """
    given = [a for a in args if a is not None]
    if isinstance(given[0], str):
        equation, *operands = given
        if len(operands) == 1 and isinstance(operands[0], (list, tuple)):
            operands = list(operands[0])
            if any(type(x) is not Tensor for x in operands):  # whose types may take over calls that name them
                return OPS["einsum"](equation, *operands)
    else:
        equation, operands = _from_sublists(given)
    if not operands:
        raise ValueError("einsum: no operand is given; at least one is needed")
    try:
        ndims = tuple([x.ndim for x in operands])
    except AttributeError:
        raise TypeError(f"einsum: operands must be Tensors, got {shown(operands)}") from None
    diagonals, inputs, pairs, gone, order = _plan(equation, ndims)
    if diagonals:
        operands = [_diagonals(x, pairs) for x, pairs in zip(operands, diagonals)]
    _check_sizes(operands, inputs)
    x = operands[0]
    for other, pair in zip(operands[1:], pairs):
        x = _contract(x, other, pair)
    if gone:
        x = x.sum(gone)
    return x.permute(order or tuple(range(x.ndim))) if order or x is operands[0] else x
