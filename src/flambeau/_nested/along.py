"""Operators along dimensions of a part, and reductions: on the values, unless the ragged dimension takes part; then on
each part."""

from .. import _C
from ..ops.kinds import OPS
from .rules import JAGGED, call, collected, is_strided, jagged, part_dims, per_part, refuse, rule, through_jagged
from .tensor import is_nested, make, packed, values_of

#: operators along one dimension or several, whose results have the sizes of their argument there
_KEEP = """softmax log_softmax softmin cumsum cumprod logcumsumexp cummax cummin flip sort argsort normalize
    gumbel_softmax renorm glu topk roll diff fft_fft fft_ifft fft_hfft fft_rfft fft_irfft fft_ihfft trapezoid
    cumulative_trapezoid unfold index_add index_copy gather take_along_dim cosine_similarity
    pairwise_distance tril triu tensor_split""".split()
#: operators that reduce `dim`, all of the tensor where it is not given
_REDUCE = """sum mean nansum nanmean prod any all amax amin aminmax argmax argmin logsumexp max.dim min.dim var std
    var_mean std_mean var.correction std.correction var_mean.correction std_mean.correction median.dim nanmedian.dim
    count_nonzero vector_norm norm kthvalue mode quantile nanquantile max.all min.all median.all nanmedian.all
    hash_tensor""".split()


def named(op, args, kwargs):
    """All arguments by name."""
    return dict(zip([name for name, *_ in op.arguments], args, strict=False)) | kwargs


def default(op, name):
    """The default of an argument."""
    return next((value for known, _, _, value in op.arguments if known == name), None)


# --- along ------------------------------------------------------------------------------------------------------------

def _along(op, key):
    def compute(*args, **kwargs):
        given = named(op, args, kwargs)
        nested = [x for x in given.values() if is_nested(x)]
        first, form = nested[0], nested[0]._form
        dims = given.get(key, default(op, key))
        given[key] = dims if dims is None else part_dims(dims, first.dim(), op.name)
        touched = [given[key]] if isinstance(given[key], int) else given[key]
        if touched is None or form.ragged - 1 in touched or any(not x._form.same(form) for x in nested):
            return collected(per_part(op, (), given), _C.jagged, form)
        found = op(**{k: values_of(v) if is_nested(v) else v for k, v in given.items()})
        return shrunk(form, found, first.dim() - 1, touched)

    compute.__doc__ = f"{op.name} along dimensions of each part."
    return compute


def shrunk(form, found, before, dims):
    """The nested tensors of values that may have lost these dimensions."""
    if isinstance(found, (tuple, list)):
        return type(found)([shrunk(form, v, before, dims) for v in found])
    if found.dim() == before:
        return make(form, found)
    return make(form.on(form.ragged - sum(d < form.ragged - 1 for d in dims)), found)


def _register():
    for name in _KEEP:
        if name in OPS and name not in JAGGED:
            op = OPS[name]
            key = next((k for k, *_ in op.arguments if k in ("dim", "dims", "dimension")), None)
            jagged(name)(_along(op, key) if key else _each(op))
    for name in _REDUCE:
        if name in OPS:
            rule(name)(_of_any_layout(OPS[name], jagged(name)(_reduction(OPS[name]))))


def _each(op):
    def compute(*args, **kwargs):
        form = next(x for x in (*args, *kwargs.values()) if is_nested(x))._form
        return collected(per_part(op, args, kwargs), _C.jagged, form)

    compute.__doc__ = f"{op.name} of each part."
    return compute


# --- reductions -------------------------------------------------------------------------------------------------------

def _reduction(op):
    fast = _OVER_ROWS.get(op.name)

    def compute(*args, **kwargs):
        given = named(op, args, kwargs)
        first, *_ = given
        x, dim = given[first], given.get("dim", default(op, "dim"))
        if dim is None or (isinstance(dim, (tuple, list)) and not len(dim)):
            return _of_all(op, x, given, first)
        dims = [_C.wrap_dim(d, x.dim(), op.name) for d in ([dim] if isinstance(dim, int) else dim)]
        if len(set(dims)) < len(dims):
            raise RuntimeError(f"{op.name}: dims {list(dims)} name a dimension twice")
        ragged = x._form.ragged
        if 0 in dims:
            return _with_batch(op, x, given, first, dims)
        given["dim"] = dims[0] - 1 if isinstance(dim, int) else [d - 1 for d in dims]
        if ragged not in dims:
            found = op(**{**given, first: values_of(x)})
            return shrunk(x._form, found, x.dim() - 1, [d - 1 for d in dims])
        if fast is not None and len(dims) == 1 and not (given.keys() - {first, "dim", "keepdim", "dtype"}):
            return fast(x, given.get("keepdim", False), given.get("dtype"))
        return _stacked(per_part(op, (), given))

    compute.__doc__ = f"{op.name} of each part; dense where the ragged dimension is reduced."
    return compute


def _of_any_layout(op, of_jagged):
    def compute(*args, **kwargs):
        given = named(op, args, kwargs)
        first, *_ = given
        dim = given.get("dim", default(op, "dim"))
        if is_strided(given[first]) and (dim is None or (isinstance(dim, (tuple, list)) and not len(dim))):
            return _of_all(op, given[first], given, first)
        return through_jagged(op, of_jagged, args, kwargs)

    compute.__doc__ = of_jagged.__doc__
    return compute


def _of_all(op, x, given, first):
    """Of the elements of all parts together."""
    keepdim = given.pop("keepdim", False)
    values = packed(x)[1] if not is_strided(x) else values_of(x if x._form.order is not None else x.contiguous())
    found = op(**{**given, first: values})
    return found.reshape([1] * x.dim()) if keepdim else found


def _with_batch(op, x, given, first, dims):
    """Over the batch and the ragged dimension together."""
    if x._form.ragged not in dims:
        raise RuntimeError(f"{op.name}: the batch can be reduced only together with the ragged dimension, "
                           f"{x._form.ragged}; got dim={given['dim']}")
    given["dim"] = [d - 1 for d in dims if d]
    if default(op, "dim") is not None or op.name.endswith(".dim"):
        if len(given["dim"]) > 1:
            return refuse(op.name, f" over several dimensions, {dims}")
        given["dim"] = given["dim"][0]
    found = op(**{**given, first: packed(x)[1]})
    if not given.get("keepdim", False):
        return found
    return type(found)([v.unsqueeze(0) for v in found]) if isinstance(found, tuple) else found.unsqueeze(0)


def _stacked(found):
    if isinstance(found[0], tuple):
        return type(found[0])([OPS["stack"](list(row)) for row in zip(*found, strict=True)])
    return OPS["stack"](found)


def _rows(x):
    """(sequences, packed rows [total, ...]): the ragged dimension first."""
    form, values = packed(x)
    return form.sequences, values.movedim(form.ragged - 1, 0) if form.ragged > 1 else values


def _shaped(x, found, keepdim):
    return found.unsqueeze(x._form.ragged) if keepdim else found


def _sum_rows(x, keepdim, dtype):
    sequences, rows = _rows(x)
    if dtype is None and not (rows.is_floating_point() or rows.is_complex()):
        dtype = _C.int64
    rows = rows if dtype is None else rows.to(dtype)
    start = OPS["zeros"]((sequences.batch, *rows.shape[1:]), dtype=rows.dtype, device=rows.device)
    return _shaped(x, start.index_add(0, sequences.owners, rows), keepdim)


def _mean_rows(x, keepdim, dtype):
    found = _sum_rows(x, keepdim, dtype or x.dtype)
    counts = x._form.sequences.counts.to(found.dtype)
    return found / counts.reshape(-1, *[1] * (found.dim() - 1))


#: reductions of the ragged dimension that one operator on the values computes
_OVER_ROWS = {"sum": _sum_rows, "mean": _mean_rows}


def _overloaded(name):
    def compute(self, *args, **kwargs):
        given = list(args) + [kwargs.pop(k) for k in ("other",) if k in kwargs]
        if given and not isinstance(given[0], (int, tuple, list)):
            return call(OPS[f"{name}.other"], (self, *given), kwargs)
        form = ".dim" if args or "dim" in kwargs else ".all"
        return call(OPS[name + form], (self, *args), kwargs)

    compute.__doc__ = f"{name}: of all elements, along a dimension, or of two tensors."
    return compute


for _name in ("max", "min", "median", "nanmedian"):
    rule(_name)(_overloaded(_name))
_register()
