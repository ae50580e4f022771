"""As which operators a primitive comes to a program's `__torch_dispatch__`: PyTorch's, with the arguments it was given.

Classes and modes of this library see primitives as they are. Those of programs are written against PyTorch's operators,
so a primitive that PyTorch composes comes to them in its parts, and one that has another form there in that form.
"""

import math
import sys
from functools import cache

from .. import _C
from ..ops import OPS
from ..ops.dims import wrap_dim, wrap_dims
from ..ops.namespaces import READINGS, operator_of
from ..ops.views import broadcast_shape
from .dtypes import finfo
from .wrapped import Rules

#: {primitive: function of its arguments -> (name in ops.aten, args, kwargs, which of the results)}; None: as it is
_FORMS = Rules("dispatched")
#: {primitive: function that computes it from other operators}; NotImplemented: as it is
_PARTS = Rules("composed")


def of_primitives(method):
    """Decorator: a `__torch_dispatch__` outside this library that reads primitives in their own form."""
    method._of_primitives = True
    return method


def reads_primitives(method):
    """Whether a `__torch_dispatch__` reads primitives in their own form, as those of this library do."""
    return getattr(method, "__module__", "").startswith("flambeau.") or hasattr(method, "_of_primitives")


def in_parts(func, args, kwargs):
    """The result, computed from parts that are dispatched one by one; NotImplemented where func is shown itself."""
    compose = _PARTS.get(func.name) if isinstance(func, _C.Op) else None
    return NotImplemented if compose is None or kwargs else compose(*args)


def in_form(func, args, kwargs):
    """(operator, args, kwargs, function of the answer) as PyTorch would dispatch the call."""
    if not isinstance(func, _C.Op):  # the one function that is asked for a number
        return READINGS["item"] if getattr(func, "name", "") == "_local_scalar_dense" else func, args, kwargs, None
    form = _FORMS.get(func.name)
    found = form(*args, **kwargs) if form is not None else _as_packet(func, args, kwargs)
    packet = operator_of("aten", found[0]) if found is not None else None
    if packet is None:
        return func, _listed(_without_defaults(func, args)), kwargs, None
    _, args, kwargs, *answer = found
    func = packet._op
    return func, _listed(_without_defaults(func, args)), kwargs, answer[0] if answer else None


def _as_packet(func, args, kwargs):
    """`max.dim` is one of the forms of `ops.aten.max`."""
    name, _, form = func.name.partition(".")
    if form and form != "flat" and operator_of("aten", name) is not None:
        return name, _without_defaults(func, args), kwargs
    return None


@cache
def _defaults(func):
    return [(has, value) for _, _, has, value in func.arguments or ()]


def _without_defaults(func, args):
    """The arguments, up to the last that is not what it is by default."""
    known = _defaults(func)
    end = len(args)
    while 0 < end <= len(known) and known[end - 1][0] and _is(args[end - 1], known[end - 1][1]):
        end -= 1
    return args[:end]


def _is(value, default):
    if isinstance(value, _C.Tensor) or isinstance(value, bool) is not isinstance(default, bool):
        return False
    return value == default


def _listed(args):
    return tuple(list(a) if isinstance(a, tuple) else a for a in args)


def _first(answer):
    return answer[0]


def _as_tensor(answer):
    return answer if isinstance(answer, _C.Tensor) else _C.array(answer, _C.bool, True)


# --- other forms ------------------------------------------------------------------------------------------------------

_FORMS |= {
    "narrow": lambda x, dim, start, length: ("slice", (x, dim, start, start + length), {}),
    "slice": lambda x, dim, start, end, step: (
        "slice", (x, dim, start or 0, sys.maxsize if end is None else end, step), {}),
    "contiguous": lambda x, **format: ("clone", (x,), {"memory_format": _C.contiguous_format, **format}),
    "view_as": lambda x, other: ("view", (x, other.shape), {}),
    "expand_as": lambda x, other: ("expand", (x, other.shape), {}),
    "numpy_T": lambda x: ("permute", (x, list(range(x.dim() - 1, -1, -1))), {}),
    "chunk": lambda x, n, dim: ("split", (x, max(1, -(-x.shape[dim] // n)), *([dim] if dim else [])), {}),
    "fill_scalar_": lambda x, value: ("fill_", (x, value), {}),
    "scatter_value": lambda x, dim, index, value, **reduce: ("scatter", (x, dim, index, value), reduce),
    "scatter_src": lambda x, dim, index, src, **reduce: ("scatter", (x, dim, index, src), reduce),
    "index_fill_number": lambda x, dim, index, value: ("index_fill", (x, dim, index, value), {}),
    "index_fill_tensor": lambda x, dim, index, value: ("index_fill", (x, dim, index, value), {}),
    "nonzero_rows": lambda x: ("nonzero", (x,), {}),
    "embedding_rows": lambda weight, indices, *more: ("embedding", (weight, indices, *more), {}),
    "where": lambda *args: ("where", args, {}),
    "squeeze": lambda x, dim: ("squeeze", (x, dim[0] if dim is not None and len(dim) == 1 else dim), {}),
    "_squared_difference": lambda x, target: ("mse_loss", (x, target, 0), {}),
    "_bce_with_logits": lambda x, target: ("binary_cross_entropy_with_logits", (x, target, None, None, 0), {}),
    "relu6": lambda x, inplace: ("hardtanh", (x, 0, 6), {}),
    "_searchsorted": lambda rows, x, out_int32, right: (
        "searchsorted", (rows, x), {k: v for k, v in (("out_int32", out_int32), ("right", right)) if v}),
    "_same": lambda x, other: ("equal", (x, other), {}, _as_tensor),
    "dropout_forward": lambda x, p, generator: ("native_dropout", (x, p, True), {}) if generator is None else None,
    "softmax": lambda x, dim, dtype: _softmax("_softmax", x, dim, dtype),
    "log_softmax": lambda x, dim, dtype: _softmax("_log_softmax", x, dim, dtype),
    "layer_norm": lambda x, shape, weight, bias, eps, cudnn: (
        "native_layer_norm", (x, shape, weight, bias, eps), {}, _first),
    "group_norm": lambda x, groups, weight, bias, eps, cudnn: (
        "native_group_norm", (x, weight, bias, *x.shape[:2], math.prod(x.shape[2:]), groups, eps), {}, _first),
}


def _softmax(name, x, dim, dtype):
    return None if dim is None or dtype is not None else (name, (x, dim, False), {})


@_FORMS.rule("movedim")
def _movedim(x, source, destination):
    order = [d for d in range(x.dim()) if d not in wrap_dims(source, x.dim(), "movedim")]
    for to, of in sorted(zip(wrap_dims(destination, x.dim(), "movedim"), wrap_dims(source, x.dim(), "movedim"))):
        order.insert(to, of)
    return "permute", (x, order), {}


@_FORMS.rule("flatten")
def _flatten(x, start, end):
    return _reshape(x, _flat_shape(x, start, end))


def _flat_shape(x, start, end):
    if not x.dim():
        return [1]
    start, end = (wrap_dim(d, x.dim(), "flatten") for d in (start, end))
    return [*x.shape[:start], math.prod(x.shape[start:end + 1]), *x.shape[end + 1:]]


@_FORMS.rule("reshape")
def _reshape(x, shape):
    return ("view", (x, shape), {}) if _can_view(x, shape) else None


def _can_view(x, shape):
    """Whether a tensor of this form, without values, has the view; no mode hears of it."""
    if x.is_contiguous():
        return True
    before = _C.disable_dispatch(True)
    try:
        OPS["empty_strided"](x.shape, x.stride(), dtype=x.dtype, device="meta").view(shape)
    except RuntimeError:
        return False
    finally:
        _C.disable_dispatch(before)
    return True


@_FORMS.rule("_vector_norm")
def _vector_norm(x, order, dim, keepdim, dtype):
    given = (x, order, dim, keepdim)
    return "linalg_vector_norm", given, {} if dtype is None else {"dtype": dtype}


def _spread(name):
    def form(x, dim, correction, keepdim):
        named = {k: v for k, v in (("correction", correction), ("keepdim", keepdim)) if v not in (None, False)}
        return name, (x,) if dim is None else (x, dim), named

    return form


_FORMS.update({f"{name}.correction": _spread(name) for name in ("var", "std", "var_mean", "std_mean")})


@_FORMS.rule("bernoulli_tensor")
def _bernoulli(x, p, **generator):
    return ("bernoulli", (x,), generator) if p is x else None


@_FORMS.rule("_nll_loss")
def _nll_loss(x, target, weight, ignored, reduction):
    name = {4: "nll_loss2d_forward"}.get(x.dim(), "nll_loss_forward") if x.dim() in (1, 2, 4) else None
    return name and (name, (x, target, weight, ("none", "mean", "sum").index(reduction), ignored), {}, _first)


@_FORMS.rule("max_pool_values")
def _max_pool(x, kernel, stride, padding, dilation, ceil_mode, dims):
    if dims == 1:
        return None
    given = [x, kernel]
    rest = [stride, padding, dilation, ceil_mode]
    plain = [kernel, (0,) * dims, (1,) * dims, False]
    while rest and (tuple(rest[-1]) if isinstance(rest[-1], (tuple, list)) else rest[-1]) == plain[len(rest) - 1]:
        rest.pop()
    return f"max_pool{dims}d_with_indices", (*given, *rest), {}, _first


@_FORMS.rule("sub")
def _sub(x, other, **alpha):
    """A number less a tensor is the other subtraction."""
    return None if isinstance(x, _C.Tensor) else ("rsub", (other, x), alpha)


def _turned(name):
    def form(x, other, **alpha):
        return None if isinstance(x, _C.Tensor) or alpha else (name, (other, x), {})

    return form


_FORMS.update({name: _turned(name) for name in ("add", "mul")})


@_FORMS.rule("convolution")
def _convolution(x, weight, bias, stride, padding, dilation, transposed, output_padding, groups):
    dims = weight.dim() - 2
    padding, output_padding = (list(p) * dims if len(p) == 1 else p for p in (padding, output_padding))
    return "convolution", (x, weight, bias, stride, padding, dilation, transposed, output_padding, groups), {}


_RESIZED = {"nearest": "upsample_nearest", "nearest-exact": "_upsample_nearest_exact", "linear": "upsample_linear",
            "bilinear": "upsample_bilinear", "bicubic": "upsample_bicubic", "trilinear": "upsample_trilinear"}


@_FORMS.rule("interpolate")
def _interpolate(x, size, scale, mode, aligned, recompute, antialias):
    dims = x.dim() - 2
    if mode not in _RESIZED or antialias:
        return None
    if size is None:
        scale = list(scale)[:dims] * (dims if len(scale) == 1 else 1)
        size = [math.floor(n * s) for n, s in zip(x.shape[2:], scale, strict=True)]
    size = list(size)[:dims] * (dims if len(size) == 1 else 1)
    return (f"{_RESIZED[mode]}{dims}d", (x, size, *([] if mode.startswith("nearest") else [bool(aligned)]),
                                         *(scale if scale is not None and not recompute else ())), {})


# --- parts ------------------------------------------------------------------------------------------------------------

@_PARTS.rule("linear")
def _linear(x, weight, bias):
    if bias is None or weight.dim() != 2 or not _is_rows(x):
        product = _matmul(x, weight.t())
        return product if bias is None else product + bias
    if x.dim() == 2:
        return bias.addmm(x, weight.t())
    return bias.addmm(x.view(-1, x.shape[-1]), weight.t()).view(*x.shape[:-1], weight.shape[0])


def _is_rows(x):
    return x.dim() == 2 or (x.dim() == 3 and x.is_contiguous())


@_PARTS.rule("matmul")
def _matmul(a, b):
    """A batch times one matrix is one product of all rows; two batches are `bmm`."""
    if a.dim() <= 2 and b.dim() <= 2:
        return _of_matrices(a, b)
    if b.dim() <= 2:
        rows = _of_matrices(a.reshape(-1, a.shape[-1]), b)
        return rows.view(*a.shape[:-1], *b.shape[1:])
    return _of_batches(a, b)


def _of_matrices(a, b):
    if a.dim() == 2:
        return a.mm(b) if b.dim() == 2 else a.mv(b)
    return a.dot(b) if b.dim() == 1 else a.unsqueeze(0).mm(b).squeeze(0)


def _of_batches(a, b):
    left = a.unsqueeze(0) if a.dim() == 1 else a
    right = b.unsqueeze(-1) if b.dim() == 1 else b
    batch = broadcast_shape([left.shape[:-2], right.shape[:-2]])
    flat = [t.expand(*batch, *t.shape[-2:]).reshape(-1, *t.shape[-2:]) for t in (left, right)]
    product = flat[0].bmm(flat[1]).view(*batch, left.shape[-2], right.shape[-1])
    product = product.squeeze(-2) if a.dim() == 1 else product
    return product.squeeze(-1) if b.dim() == 1 else product


@_PARTS.rule("rms_norm")
def _rms_norm(x, shape, weight, eps):
    dims = list(range(-len(shape), 0))
    eps = finfo(x.dtype).eps if eps is None else eps
    result = x * ((x**2).mean(dims, True) + eps).rsqrt()
    return result if weight is None else result * weight


@_PARTS.rule("_cross_entropy")
def _cross_entropy(x, target, weight, ignored, reduction, smoothing, wide):
    if smoothing or target.dtype.is_floating_point or wide or x.dim() not in (1, 2, 4):
        return NotImplemented
    logs = x.log_softmax(1 if x.dim() > 1 else 0)
    return operator_of("aten", "nll_loss")(logs, target, weight, ("none", "mean", "sum").index(reduction), ignored)


@_PARTS.rule("adaptive_avg_pool")
def _adaptive_avg_pool(x, size, dims):
    return x.mean(list(range(-1, -dims - 1, -1)), True) if set(size) == {1} and dims == 2 else NotImplemented


@_PARTS.rule("isfinite")
def _isfinite(x):
    return (x.abs() != math.inf) * (x == x)


@_PARTS.rule("reshape")
def _reshaped(x, shape):
    return NotImplemented if _can_view(x, shape) else x.clone(memory_format=_C.contiguous_format).view(shape)


@_PARTS.rule("flatten")
def _flattened(x, start, end):
    return _reshaped(x, _flat_shape(x, start, end))


@_PARTS.rule("fused_attention")
def _attention(query, key, value, mask, is_causal, scale, *_):
    """With it comes the logarithm of the sum of each row, which the derivative wants."""
    if mask is not None:
        return NotImplemented
    scores = _matmul(query * scale, key.transpose(-2, -1))
    if is_causal:
        seen = scores.new_ones(scores.shape[-2:], dtype=_C.bool).tril()
        scores = scores.masked_fill(~seen, -math.inf)
    return _matmul(scores.softmax(-1), value), scores.logsumexp(-1)
