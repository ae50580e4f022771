"""Operators on every element: one rule runs them all on the values, in either layout.

Other nested tensors must have the same sizes. Dense tensors broadcast: against the values where they are the same for
all parts, spread over each part's rows where they have one row for each part, and unpadded where they are padded.
"""

from .. import _C
from .._C import Tensor
from ..ops.kinds import OPS
from .rules import RULES, call, is_strided, refuse_leaf, rule, strided
from .sequences import Windows
from .tensor import as_jagged, is_nested, make, packed, values_like, values_of

#: operators that are no pointwise records, and compute each element from that element alone
_ALSO = """fill clamp_min clamp_max softsign tanhshrink logit positive conj_physical resolve_conj resolve_neg
    float_power ldexp polygamma mvlgamma isreal isclose bernoulli dropout native_dropout alpha_dropout real
    imag conj _neg_view alias frexp dropout_scale masked_fill where.indices max.other min.other isin
    bucketize poisson mse_loss l1_loss smooth_l1_loss huber_loss binary_cross_entropy
    binary_cross_entropy_with_logits soft_margin_loss poisson_nll_loss kl_div rrelu""".split()
_LOSSES = {"mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "binary_cross_entropy", "soft_margin_loss",
           "binary_cross_entropy_with_logits", "poisson_nll_loss", "kl_div"}


def plain(name, args, kwargs):
    """(form, the arguments with values in place of nested tensors)."""
    form, given = None, []
    for a in args:
        if is_nested(a):
            if form is None:
                form = a._form
            elif a._form is not form:
                return _aligned(name, args, kwargs)
            given.append(values_of(a))
        elif isinstance(a, Tensor) and a.dim():
            return _aligned(name, args, kwargs)
        else:
            given.append(a)
    if any(isinstance(a, Tensor) for a in kwargs.values()) or form is None:
        return _aligned(name, args, kwargs)
    return form, given, kwargs


def _aligned(name, args, kwargs):
    """The same where nested tensors differ in form, or dense ones broadcast."""
    tensors = [x for x in (*args, *kwargs.values()) if isinstance(x, Tensor)]
    nested = [x for x in tensors if is_nested(x)]
    if any(x.dim() and not is_nested(x) for x in tensors) and any(map(is_strided, nested)):
        views = {id(x): as_jagged(x) if is_strided(x) else x for x in nested}
        if None in views.values():
            raise RuntimeError(f"{name}: a dense tensor beside a strided nested one whose parts differ in several "
                               "dimensions; make it a nested tensor, or pass a number")
        args = [views.get(id(a), a) for a in args]
        kwargs = {k: views.get(id(a), a) for k, a in kwargs.items()}
        nested = list(views.values())
    form, to_values = _common(name, nested)

    def value(x):
        if not isinstance(x, Tensor):
            return x
        return to_values(x) if is_nested(x) else spread(x, nested[0], form, name) if x.dim() else x

    return form, [value(a) for a in args], {k: value(a) for k, a in kwargs.items()}


def _common(name, nested):
    """(a form of all these tensors, a function that gives a tensor's values in it)."""
    first = nested[0]
    form = first._form
    if all(x._form.same(form) for x in nested):
        return form, values_of
    if isinstance(form, Windows):
        if any(not is_strided(x) or x._form.sizes != form.sizes for x in nested):
            raise RuntimeError(f"{name}: nested tensors of different sizes: {', '.join(map(_sizes, nested))}")
        form = next((x._form for x in nested if x._form.order is not None), None) or Windows(form.sizes)
        return form, lambda x: values_like(x, form, name)
    if any(is_strided(x) or x._form.ragged != form.ragged or x._form.sequences.size != form.sequences.size
           or x.dim() != first.dim() for x in nested):
        raise RuntimeError(f"{name}: nested tensors of different sizes: {', '.join(map(_sizes, nested))}; tensors "
                           "share a ragged size where they are made with the same offsets")
    return packed(first)[0], lambda x: packed(x)[1]


def _sizes(x):
    return str(list(x._form.sizes[:4])) if is_strided(x) else str(list(x.shape))


def spread(dense, nested, form, name):
    """A dense tensor as what broadcasts against the values of a jagged one."""
    ndim, ragged = nested.dim(), form.ragged
    if dense.dim() > ndim:
        raise RuntimeError(f"{name}: a dense tensor of {dense.dim()} dimensions beside a nested one of {ndim}; the "
                           "result cannot have more dimensions than the nested tensor")
    if dense.dim() <= ndim - ragged - 1:
        return dense
    dense = dense.reshape((1,) * (ndim - dense.dim()) + tuple(dense.shape))
    if dense.shape[0] not in (1, form.batch):
        raise RuntimeError(f"{name}: a dense tensor of {dense.shape[0]} rows beside a nested one of {form.batch} parts")
    if dense.shape[ragged] == 1:
        if dense.shape[0] == 1:
            return dense[0]
        return dense.squeeze(ragged).movedim(0, ragged - 1).index_select(ragged - 1, _owners(form, nested))
    return _unpadded(dense, nested, form, name)


def _owners(form, nested):
    """Which part each row of the values belongs to; rows in holes count for any."""
    sequences = form.sequences
    rows = nested._held.shape[nested._form.ragged - 1]
    if sequences.is_packed(rows):
        return sequences.owners
    owners = OPS["zeros"]((rows,), dtype=_C.int64, device=sequences.offsets.device)
    where = sequences.rows
    return owners.index_copy(0, OPS["arange"](sequences.total) if where is None else where, sequences.owners)


def _unpadded(dense, nested, form, name):
    """Of a padded tensor the rows that the parts have."""
    most = form.sequences.most
    if dense.shape[form.ragged] != most:
        raise RuntimeError(f"{name}: a dense tensor of shape {list(dense.shape)} beside a nested one of "
                           f"{_sizes(nested)}: expected size 1 in the ragged dimension, or that of the longest part, "
                           f"{most}")
    dense = dense.expand(form.batch, *dense.shape[1:]).movedim(form.ragged, 1)
    rows = dense.reshape(form.batch * most, *dense.shape[2:])
    found = rows.index_select(0, form.sequences.places(most)).movedim(0, form.ragged - 1)
    total = nested._held.shape[nested._form.ragged - 1]
    if form.sequences.is_packed(total):
        return found
    shape = list(found.shape)
    shape[form.ragged - 1] = total
    where = form.sequences.rows
    where = OPS["arange"](form.sequences.total) if where is None else where
    return OPS["zeros"](shape, dtype=found.dtype).index_copy(form.ragged - 1, where, found)


def results(form, found, args):
    """The nested tensors of what an operator has made of values."""
    if isinstance(found, tuple):
        return type(found)([make(form, v) for v in found])
    if isinstance(form, Windows) or not any(map(is_strided, args)):
        return make(form, found)
    return strided(make(form, found))


def _pointwise(op):
    def compute(*args, **kwargs):
        form, given, named = plain(op.name, args, kwargs)
        return results(form, op(*given, **named), args)

    compute.__doc__ = f"{op.name} of the values."
    return compute


def _in_place(op, out_of_place):
    """Where nothing is recorded, in the memory that is there."""
    def compute(self, *args, **kwargs):
        tensors = [x for x in (self, *args, *kwargs.values()) if isinstance(x, Tensor)]
        refuse_leaf(self, op.name)
        if is_nested(self) and not (_C.is_grad_enabled() and any(x.requires_grad for x in tensors)):
            form, given, named = plain(op.name, (self, *args), kwargs)
            if form is self._form and given[0] is self._held:
                op(*given, **named)
                self._bump_version()
                return self
        return out_of_place(self, call(OPS[op.name.removesuffix("_")], (self, *args), kwargs), op.name)

    compute.__doc__ = f"{op.name} on the values."
    return compute


def register(write):
    """Gives every pointwise operator its rule."""
    names = [name for name, op in OPS.items() if op.kind == "elementwise" and not name.endswith("_")]
    for name in (*names, *(n for n in _ALSO if n in OPS and OPS[n].kind != "elementwise")):
        if name in RULES:
            continue
        op = OPS[name]
        rule(name)(_loss(op) if name in _LOSSES else _pointwise(op))
        if op.inplace_form is not None:
            rule(name + "_")(_in_place(op.inplace_form, write))


def _loss(op):
    """Losses of each element; of the elements of all parts, where they are reduced to a number."""
    names = [name for name, *_ in op.arguments]

    def compute(*args, **kwargs):
        given = dict(zip(names, args, strict=False)) | kwargs
        averaged, reduced = given.pop("size_average", None), given.pop("reduce", None)
        reduction = given.pop("reduction", "mean")
        if averaged is not None or reduced is not None:  # how it was said before `reduction`
            reduction = "none" if reduced is False else "sum" if averaged is False else "mean"
        form, _, given = _aligned(op.name, (), given)
        found = results(form, op(**given, reduction="none"), [*args, *kwargs.values()])
        return found if reduction == "none" else found.sum() if reduction == "sum" else found.mean()

    compute.__doc__ = f"{op.name} of the elements of all parts."
    return compute


@rule("where")
def _where(condition, self=None, other=None):
    if self is None and other is None:
        raise RuntimeError("where: the places of a nested tensor's true elements differ from part to part; pass self "
                           "and other, or use [t.nonzero() for t in x.unbind()]")
    form, given, _ = plain("where", (condition, self, other), {})
    return results(form, OPS["where"](*given), (condition, self, other))
