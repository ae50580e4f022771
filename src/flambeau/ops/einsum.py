"""Einstein's summation: the notation is read into labels, then operands are contracted from left to right by bmm."""

from .kinds import composite
from .linalg import bmm

_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


def _from_sublists(args):
    """einsum(a, [0, 1], b, [1, 2], [0, 2]) as an equation and its operands."""
    def spell(sublist):
        parts = []
        for s in sublist:
            if s is Ellipsis:
                parts.append("...")
            elif isinstance(s, int) and 0 <= s < len(_LETTERS):
                parts.append(_LETTERS[s])
            else:
                raise ValueError(f"einsum(): expected subscripts to be in [0, {len(_LETTERS)}) or Ellipsis, got {s!r}")
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
            raise RuntimeError(f"einsum(): invalid subscript given: {letter!r}, subscripts must be in [a-zA-Z] "
                               f"({where})")
    if "..." not in term:
        if ndim is not None and len(term) != ndim:
            raise RuntimeError(f"einsum(): the number of subscripts in the equation ({len(term)}) does not match the "
                               f"number of dimensions ({ndim}) for {where} and no ellipsis was given")
        return list(term)
    before, after = term.split("...")
    covered = ndim - len(before) - len(after)
    if covered < 0:
        raise RuntimeError(f"einsum(): the number of subscripts in the equation ({len(before) + len(after)}) is more "
                           f"than the number of dimensions ({ndim}) for {where}")
    return [*before, *range(-covered, 0), *after]


def _read(equation, operands):
    equation = equation.replace(" ", "")
    left, arrow, right = equation.partition("->")
    terms = left.split(",")
    if len(terms) != len(operands):
        raise RuntimeError(f"einsum(): {'more' if len(terms) < len(operands) else 'fewer'} operands were provided than "
                           f"specified in the equation ({len(operands)} operands, equation {equation!r})")
    inputs = [_labels(t, x.ndim, f"operand {k}") for k, (t, x) in enumerate(zip(terms, operands))]
    used = [label for labels in inputs for label in labels]
    hidden = sorted({label for label in used if isinstance(label, int)})
    if arrow:
        output = _labels(right, None if "..." not in right else len(right) - 3 + len(hidden), "the output")
    else:
        output = hidden + [c for c in _LETTERS if used.count(c) == 1]
    for label in output:
        if output.count(label) > 1:
            raise RuntimeError(f"einsum(): output subscript {label} appears more than once in the output")
        if label not in used:
            raise RuntimeError(f"einsum(): output subscript {label} does not appear in the equation for any input "
                               "operand")
    return inputs, output


def _diagonals(x, labels):
    """Repeated labels of one operand name its diagonal."""
    labels = list(labels)
    for label in dict.fromkeys(labels):
        while labels.count(label) > 1:
            i = labels.index(label)
            j = labels.index(label, i + 1)
            if x.shape[i] != x.shape[j]:
                raise RuntimeError(f"einsum(): subscript {label} is repeated for one operand but the sizes don't "
                                   f"match, {x.shape[i]} != {x.shape[j]}")
            x = x.diagonal(0, i, j)
            labels = [c for k, c in enumerate(labels) if k not in (i, j)] + [label]
    return x, labels


def _sum_out(x, labels, keep):
    gone = [d for d, label in enumerate(labels) if label not in keep]
    return (x.sum(gone), [label for label in labels if label in keep]) if gone else (x, labels)


def _arranged(x, labels, groups, sizes):
    """x with its dimensions in the order of groups, each group folded into one dimension."""
    order = [label for group in groups for label in group]
    x = x.permute([labels.index(label) for label in order])
    x = x.expand([sizes[label] for label in order])
    folded = []
    for group in groups:
        folded.append(1)
        for label in group:
            folded[-1] *= sizes[label]
    return x.reshape(folded)


def _contract(a, a_labels, b, b_labels, keep):
    a, a_labels = _sum_out(a, a_labels, keep | set(b_labels))
    b, b_labels = _sum_out(b, b_labels, keep | set(a_labels))
    sizes = dict(zip(a_labels, a.shape))
    for label, n in zip(b_labels, b.shape):
        sizes[label] = n if sizes.get(label, 1) == 1 else sizes[label]
    both = [label for label in a_labels if label in b_labels]
    batch = [label for label in both if label in keep]
    inside = [label for label in both if label not in keep]
    rows = [label for label in a_labels if label not in both]
    columns = [label for label in b_labels if label not in both]
    if not inside:  # nothing is summed: a product of broadcast elements
        labels = batch + rows + columns
        left = a.permute([a_labels.index(c) for c in batch + rows]).reshape(
            [a.shape[a_labels.index(c)] for c in batch + rows] + [1] * len(columns))
        right = b.permute([b_labels.index(c) for c in batch + columns]).reshape(
            [b.shape[b_labels.index(c)] for c in batch] + [1] * len(rows) + [sizes[c] for c in columns])
        return left * right, labels
    left = _arranged(a, a_labels, (batch, rows, inside), sizes)
    right = _arranged(b, b_labels, (batch, inside, columns), sizes)
    labels = batch + rows + columns
    return bmm(left, right).reshape([sizes[label] for label in labels]), labels


def _check_sizes(operands, inputs):
    sizes = {}
    for k, (x, labels) in enumerate(zip(operands, inputs)):
        for n, label in zip(x.shape, labels):
            if sizes.setdefault(label, n) == 1:
                sizes[label] = n
            elif n not in (1, sizes[label]):
                name = "..." if isinstance(label, int) else label
                raise RuntimeError(f"einsum(): subscript {name} has size {n} for operand {k} which does not broadcast "
                                   f"with previously seen size {sizes[label]}")


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
    args = [a for a in args if a is not None]
    if isinstance(args[0], str):
        equation, operands = args[0], list(args[1:])
        if len(operands) == 1 and isinstance(operands[0], (list, tuple)):
            operands = list(operands[0])
    else:
        equation, operands = _from_sublists(args)
    if not operands:
        raise RuntimeError("einsum(): must provide at least one operand")
    inputs, output = _read(equation, operands)
    pairs = [_diagonals(x, labels) for x, labels in zip(operands, inputs)]
    operands, inputs = [x for x, _ in pairs], [labels for _, labels in pairs]
    _check_sizes(operands, inputs)
    x, labels = operands[0], inputs[0]
    for k in range(1, len(operands)):
        later = set(output).union(*inputs[k + 1:])
        x, labels = _contract(x, labels, operands[k], inputs[k], later)
    x, labels = _sum_out(x, labels, set(output))
    return x.permute([labels.index(label) for label in output])
