"""Products, norms over trailing dimensions, and tables: what layers are made of.

A product with a matrix that all parts share is one product of the values; one with a matrix for each part runs on each
part. A product over the ragged dimension gives dense tensors.
"""

from .. import _C
from .._symbolic.ragged import RaggedSize
from ..ops.kinds import OPS
from .along import named
from .rules import is_strided, jagged, refuse, rule, through_jagged
from .tensor import is_nested, joined, make, packed, parts_of, values_of


@rule("linear")
def _linear(input, weight, bias=None):
    if is_strided(input):
        if not input._form.dims or len({s[-1] for s in input._form.sizes}) > 1:
            raise RuntimeError("linear: the parts have different last dimensions, or none, so no weight fits them all")
        return through_jagged(OPS["linear"], _linear, (input, weight, bias), {})
    if is_nested(weight) or is_nested(bias):
        return refuse("linear", " as weight or bias", RuntimeError)
    form = input._form
    if form.ragged == input.dim() - 1:
        raise ValueError(f"linear: the last dimension of {list(input.shape)} is the ragged one, which has no one "
                           "size; transpose first")
    return make(form, OPS["linear"](values_of(input), weight, bias))


# --- products of matrices ---------------------------------------------------------------------------------------------

@rule("matmul")
def _matmul(self, other):
    """[B, j, D] @ [D, E], @ [B, D, E]; [B, D, j] @ [B, j, E] is dense; strided nested tensors part by part."""
    a, b = self, other
    if is_strided(a) or is_strided(b):
        return _of_windows(a, b)
    if is_nested(a) and not is_nested(b) and b.dim() <= 2 and a._form.ragged < a.dim() - 1:
        return make(a._form, OPS["matmul"](values_of(a), b))
    if is_nested(b) and not is_nested(a) and a.dim() == 2 and b.dim() == 3 and b._form.ragged == 2:
        return make(b._form, OPS["matmul"](a, values_of(b)))
    return _of_parts(a, b, _left(a), _left(b))


def _left(x):
    """Of a jagged tensor, how far from the end its ragged dimension is; 0: it is dense."""
    return x.dim() - x._form.ragged if is_nested(x) else 0


def _of_parts(a, b, ragged_a, ragged_b):
    """ragged: 1 the columns, 2 the rows, more: dimensions before those."""
    inner = ragged_a == 1 or ragged_b == 2
    found = [OPS["matmul"](p, q) for p, q in _pairs(a, b)]
    if inner:
        return OPS["stack"](found)
    stays = [x for x, ragged in ((a, ragged_a), (b, ragged_b)) if ragged]
    if ragged_a and ragged_b and (ragged_a, ragged_b) != (max(ragged_a, 3), max(ragged_b, 3)):
        raise RuntimeError("matmul: the result would be ragged in two dimensions, which the jagged layout has not; use "
                           "layout=flambeau.strided, or scaled_dot_product_attention")
    form = stays[0]._form
    dims = found[0].dim()
    return joined(found, _C.jagged, form.on(dims + 1 - (ragged_a or ragged_b)))


def _pairs(a, b):
    """The factors of each part; a dense factor is one matrix for each part, or one for all."""
    batch = next(x for x in (a, b) if is_nested(x))._form.batch
    rows = []
    for x in (a, b):
        if is_nested(x):
            rows.append(parts_of(x))
        elif x.dim() > 2:
            rows.append(list(x.unbind(0)) if x.shape[0] == batch or x.shape[0] != 1 else [x[0]] * batch)
        else:
            rows.append([x] * batch)
    if len(rows[0]) != len(rows[1]):
        raise RuntimeError(f"matmul: batches of {len(rows[0])} and {len(rows[1])}; expected equally many parts")
    return zip(*rows, strict=True)


def _of_windows(a, b):
    form = (a if is_nested(a) else b)._form
    if min(a.dim(), b.dim()) < 2 or not form.batch:
        raise RuntimeError(f"matmul: expected parts with at least one dimension, and a matrix beside them, got "
                           f"{a.dim()} and {b.dim()} dimensions with the batch, {form.batch} parts")
    if is_nested(a) and not is_nested(b) and b.dim() == 2 and form.as_jagged(a._held) is not None \
            and len({s[-1] for s in form.sizes}) == 1 and form.contiguous(a._held):
        width = form.sizes[0][-1]
        flat = OPS["matmul"](values_of(a).view(-1, width), b)
        from_shape = [(*s[:-1], b.shape[1]) for s in form.sizes]
        return make(type(form)(from_shape), flat.reshape(-1))
    return joined([OPS["matmul"](p, q) for p, q in _pairs(a, b)], _C.strided)


@rule("bmm")
def _bmm(self, mat2):
    if self.dim() != 3 or mat2.dim() != 3:
        raise RuntimeError(f"bmm: expected two tensors of 3 dimensions, got {self.dim()} and {mat2.dim()}")
    return _matmul(self, mat2)


@rule("mm", "mv", "addmm", "addmv", "addr", "ger", "outer", "dot", "vdot", "inner", "einsum", "tensordot", "kron")
def _no_matrix(*_, **__):
    raise RuntimeError("this product is of dense vectors and matrices, and a nested tensor is a batch; use matmul (@), "
                       "linear, or [a @ b for a, b in zip(x.unbind(), y.unbind())]")


@rule("baddbmm")
def _baddbmm(self, batch1, batch2, *, beta=1, alpha=1):
    return OPS["add"](OPS["mul"](self, beta), _bmm(batch1, batch2), alpha=alpha)


# --- norms ------------------------------------------------------------------------------------------------------------

def _norm(name):
    op = OPS[name]

    def compute(input, normalized_shape, *args, **kwargs):
        shape = [normalized_shape] if isinstance(normalized_shape, int) else list(normalized_shape)
        form, count = input._form, len(shape)
        if not 0 < count < input.dim():
            raise RuntimeError(f"{name}: normalized_shape {shape} must name trailing dimensions of a part of "
                               f"{input.dim() - 1} dimensions")
        if form.ragged < input.dim() - count:
            return make(form, op(values_of(input), shape, *args, **kwargs))
        at = form.ragged - (input.dim() - count)
        if shape[at] != form.sequences.size and isinstance(shape[at], RaggedSize):
            raise RuntimeError(f"{name}: normalized_shape {shape} names another ragged size than {list(input.shape)}")
        return joined([op(p, list(p.shape[-count:]), *args, **kwargs) for p in parts_of(input)], _C.jagged, form)

    compute.__doc__ = f"{name} of the trailing dimensions of each part."
    return compute


for _name in ("layer_norm", "rms_norm"):
    jagged(_name)(_norm(_name))


@rule("prelu")
def _prelu(self, weight):
    if weight.numel() == 1:
        weight = weight.reshape(())
    elif not is_strided(self) and self._form.ragged != 1:
        weight = weight.reshape(-1, *[1] * (self.dim() - 2))
    else:
        return refuse("prelu", " whose dimension 1, the channels, is ragged", RuntimeError)
    form, values = self._form, values_of(self)
    return make(form, OPS["where"](values > 0, values, weight * values))


# --- tables -----------------------------------------------------------------------------------------------------------

@rule("embedding")
def _embedding(input, weight, padding_idx=None, *args, **kwargs):
    if is_nested(weight):
        return refuse("embedding", " as the table", ValueError)
    if is_strided(input):
        sizes = [(*s, weight.shape[1]) for s in input._form.sizes]
        dense = input if input._form.contiguous(None) else input.contiguous()
        found = OPS["embedding"](values_of(dense), weight, padding_idx, *args, **kwargs)
        return make(type(input._form)(sizes), found.reshape(-1))
    return make(input._form, OPS["embedding"](values_of(input), weight, padding_idx, *args, **kwargs))


@jagged("embedding_bag")
def _embedding_bag(*args, **kwargs):
    """A bag for each part."""
    given = named(OPS["embedding_bag"], args, kwargs)
    if not is_nested(given["input"]) and is_nested(given["weight"]):
        given["input"], given["weight"] = given["weight"], given["input"]  # the order of older programs
    if given.get("offsets") is not None:
        raise RuntimeError("embedding_bag: the parts of a nested tensor are the bags; leave offsets out")
    form, values = packed(given["input"])
    weights = given.get("per_sample_weights")
    if weights is not None:
        given["per_sample_weights"] = packed(weights)[1] if is_nested(weights) else weights
    return OPS["embedding_bag"](**{**given, "input": values, "offsets": form.sequences.offsets[:-1].to(values.dtype)})


@jagged("one_hot")
def _one_hot(self, num_classes=-1):
    return make(self._form, OPS["one_hot"](values_of(self), num_classes))
