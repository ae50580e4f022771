"""Forms of operators that differ between TorchScript's texts and this library: {name: function of its arguments}."""

import flambeau

from .. import _C
from ..nn import functional as F
from ..ops import OPS
from ..ops.dims import wrap_dim
from ..ops.namespaces import READINGS
from .numbers import FORMATS, NUMBERS, dtype_of, meant
from .transformers import attention, encoder_layer


def _to(x, *args, **kwargs):
    """Its forms: (dtype, …), (device, dtype, …), (tensor, …), each with non_blocking, copy, memory_format."""
    args = list(args)
    names = ["non_blocking", "copy", "memory_format"]
    target = {}
    if args and isinstance(args[0], _C.Tensor):
        target = {"dtype": args[0].dtype, "device": args[0].device}
        args = args[1:]
    else:
        if args and (isinstance(args[0], (_C.device, str)) or (args[0] is None and len(args) > 1
                                                              and not isinstance(args[1], bool))):
            target["device"] = args.pop(0)
        if args and not isinstance(args[0], bool):
            target["dtype"] = dtype_of(args.pop(0))
    target.update(zip(names, args))
    target.update(kwargs)
    target["dtype"] = dtype_of(target.get("dtype"))
    target["memory_format"] = meant(target.get("memory_format"), FORMATS)
    return x.to(**{name: value for name, value in target.items() if value is not None})


def size(x, dim=None):
    """The sizes as a list, or one of them."""
    return list(x.shape) if dim is None else x.shape[dim]


def _index(x, indices):
    return x[tuple(slice(None) if index is None else index for index in indices)]


def _index_put(x, indices, values, accumulate=False):
    if any(index is None for index in indices):
        return _index_put_(x.clone(), indices, values, accumulate)
    return x.index_put(tuple(indices), values, accumulate)


def _index_put_(x, indices, values, accumulate=False):
    if accumulate and any(index is None for index in indices):
        kept = tuple(slice(None) if index is None else index for index in indices)
        places = flambeau.arange(x.numel(), device=x.device).view(x.shape)[kept]
        x.view(-1).index_put_((places.reshape(-1),), values.expand_as(places).reshape(-1), True)
    elif accumulate:
        x.index_put_(tuple(indices), values, True)
    else:
        x[tuple(slice(None) if index is None else index for index in indices)] = values
    return x


def _slice(x, dim=0, start=None, end=None, step=1):
    if not isinstance(x, _C.Tensor):  # a list or text has no dim
        return x[dim:start:1 if end is None else end] if isinstance(dim, int) or dim is None else x
    return x[(slice(None),) * wrap_dim(dim, x.dim(), "slice") + (slice(start, end, step),)]


def _tensor(data, dtype=None, device=None, requires_grad=False):
    return flambeau.tensor(data, dtype=dtype, device=device, requires_grad=requires_grad)


def _view(x, size=None, *, dtype=None):
    size = dtype if size is None else size
    return x.view(dtype_of(size)) if isinstance(size, (int, _C.dtype)) else x.view(size)


def _convolution(x, weight, bias, stride, padding, dilation, transposed, output_padding, groups, *switches):
    """The switches of cuDNN at the end are those of the machine that wrote the program."""
    return flambeau.convolution(x, weight, bias, stride, padding, dilation, transposed, output_padding, groups)


def _convolution_mode(x, weight, bias, stride, padding, dilation, groups):
    by_dims = {3: flambeau.conv1d, 4: flambeau.conv2d, 5: flambeau.conv3d}
    return by_dims[weight.dim()](x, weight, bias, stride, padding, dilation, groups)


def _thnn_conv2d(x, weight, kernel_size, bias=None, stride=1, padding=0):
    return flambeau.conv2d(x, weight, bias, stride, padding)


def _resized(mode, antialias=False):
    """upsample_*: (x, size, [align_corners], scales…)."""
    aligned = mode not in ("nearest", "nearest-exact")

    def call(x, size, *args):
        align = args[0] if aligned and args else None
        scales = args[1:] if aligned else args
        if len(scales) == 1 and isinstance(scales[0], (list, tuple)):
            scales = scales[0]
        known_scales = [s for s in scales if s is not None]
        scale = known_scales if len(known_scales) == x.dim() - 2 else None
        return F.interpolate(x, size if scale is None or size is not None else None, scale if size is None else None,
                             mode=mode, align_corners=align, antialias=antialias)

    return call


def _interpolate(x, size=None, scale_factor=None, mode="nearest", align_corners=None, recompute_scale_factor=None,
                 antialias=False):
    return F.interpolate(x, size, scale_factor, mode, align_corners, recompute_scale_factor, antialias)


def _pack_padded(x, lengths, batch_first):
    packed = flambeau.nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first)
    return packed.data, packed.batch_sizes


def _pad_packed(data, batch_sizes, batch_first, padding_value, total_length):
    packed = flambeau.nn.utils.rnn.PackedSequence(data, batch_sizes)
    total = total_length if total_length and total_length > 0 else None
    return flambeau.nn.utils.rnn.pad_packed_sequence(packed, batch_first, padding_value, total)


def _where(condition, *args):
    return flambeau.where(condition, *args) if args else list(flambeau.where(condition))


def _cast(dtype):
    return lambda x, *args, **kwargs: x.to(dtype, **kwargs)


def _unique(x, sorted=True, return_inverse=False, return_counts=False):
    return flambeau.unique(x, sorted, True, True)


def _unique_dim(x, dim, sorted=True, return_inverse=False, return_counts=False):
    return flambeau.unique(x, sorted, True, True, dim)


def _unique_consecutive(x, return_inverse=False, return_counts=False, dim=None):
    return flambeau.unique_consecutive(x, True, True, dim)


def _stft(x, n_fft, hop_length=None, win_length=None, window=None, *more, **named):
    """Two forms: with `center, pad_mode` after the window, and without them (not centred)."""
    if (len(more) > 1 and isinstance(more[1], str)) or "pad_mode" in named or "center" in named:
        return flambeau.stft(x, n_fft, hop_length, win_length, window, *more, **named)
    return flambeau.stft(x, n_fft, hop_length, win_length, window, False, "reflect", *more, **named)


_MODES = (None, "use_mm_for_euclid_dist", "donot_use_mm_for_euclid_dist")


def _cdist(x1, x2, p=2.0, compute_mode=None):
    return flambeau.cdist(x1, x2, p, _MODES[compute_mode] if compute_mode else None)


def _ctc_loss(log_probs, targets, input_lengths, target_lengths, blank=0, reduction=1, zero_infinity=False):
    form = flambeau.ops.aten.ctc_loss
    return form(log_probs, targets, input_lengths, target_lengths, blank, reduction, zero_infinity)


def _tensordot(a, b, dims_a=None, dims_b=None, *, dims=2):
    """By two lists of dimensions; or, as TorchScript's own function, by `dims`: a number, or both lists."""
    if dims_b is not None:
        return flambeau.tensordot(a, b, (dims_a, dims_b))
    return flambeau.tensordot(a, b, dims if dims_a is None else dims_a)


def _histogramdd(x, bins, range=None, weight=None, density=False):
    hist, edges = flambeau.histogramdd(x, bins, range=range, weight=weight, density=density)
    return hist, list(edges)


def _lu_with_info(x, pivot=True, check_errors=True):
    return flambeau.linalg.lu_factor_ex(x, pivot=pivot, check_errors=check_errors)


def _rrelu(x, noise, lower=0.125, upper=1 / 3, training=False, generator=None):
    return F.rrelu(x, lower, upper, training)


def _tensors(call):
    """`call`, which takes tensors one by one, for a list of them; a list of results."""
    return lambda tensors, *args, **kwargs: list(call(*tensors, *args, **kwargs))


def listed(call):
    """`call` with a list in place of its tuple of results."""
    def as_list(*args, **kwargs):
        found = call(*args, **kwargs)
        return list(found) if type(found) is tuple else found

    return as_list


def same(x, *args, **kwargs):
    """x."""
    return x


def _div(x, other, rounding_mode=None):
    return flambeau.div(x, other, rounding_mode=rounding_mode)


def _linspace(start, end, steps=100, **kwargs):
    return flambeau.linspace(start, end, 100 if steps is None else steps, **kwargs)


def _softmax(function):
    return lambda x, dim, dtype=None: function(x, dim, dtype=dtype)


def _softmax_of_masked(x, dim, dtype=None):
    """Rows without any number above minus infinity are 0."""
    found = flambeau.softmax(x, dim, dtype=dtype)
    return flambeau.where((x == -float("inf")).all(dim, True), flambeau.zeros_like(found), found)


def _attention(query, key, value, dropout_p=0.0, is_causal=False, *, attn_mask=None, scale=None):
    found = F.scaled_dot_product_attention(query, key, value, attn_mask, dropout_p, is_causal, scale=scale)
    return found, None


def _weight_norm(v, g, dim=0):
    return v * (g / flambeau.norm_except_dim(v, 2, dim))


def _gelu_(x, approximate="none"):
    return x.copy_(F.gelu(x, approximate=approximate))


def _pad_enum(x, pad, mode, value=None):
    return F.pad(x, pad, ("constant", "reflect", "replicate", "circular")[mode], value)


def _stride(x, *dim):
    return x.stride(*dim) if dim else list(x.stride())


def _broadcast_size(a, b):
    return list(flambeau.broadcast_shapes(a, b))


_NORMS = {0: {True: "backward", False: "forward"}, 1: {True: "ortho", False: "ortho"},
          2: {True: "forward", False: "backward"}}


def _fft_r2c(x, dim, normalization, onesided):
    norm = _NORMS[normalization][True]
    return flambeau.fft.rfftn(x, dim=dim, norm=norm) if onesided else flambeau.fft.fftn(x, dim=dim, norm=norm)


def _fft_c2r(x, dim, normalization, last_dim_size):
    sizes = [*(x.shape[d] for d in dim[:-1]), last_dim_size]
    return flambeau.fft.irfftn(x, sizes, dim, norm=_NORMS[normalization][False])


def _fft_c2c(x, dim, normalization, forward):
    return (flambeau.fft.fftn if forward else flambeau.fft.ifftn)(x, dim=dim, norm=_NORMS[normalization][forward])


def _elu_backward(grad, alpha, scale, input_scale, is_result, x):
    """By the argument of elu, or by its result."""
    below = x + alpha * scale if is_result else alpha * scale * flambeau.exp(x * input_scale)
    return grad * flambeau.where(x > 0, scale, input_scale * below)


def _svd(A, full_matrices=False, compute_uv=True, *, driver=None):
    """The driver is a choice of algorithm on the machine that wrote the program."""
    return OPS["_linalg_svd"](A, full_matrices, compute_uv)


def _fill(x, value):
    """A number in a tensor stays there: a trace would take it for a constant."""
    return x.copy_(value) if isinstance(value, _C.Tensor) else x.fill_(value)


def _unique_pair(x, sorted=True, return_inverse=False):
    return flambeau.unique(x, sorted, True)


def _batch_norm_functional(x, weight, bias, running_mean, running_var, training, momentum, eps):
    """native_batch_norm whose running statistics come as further results."""
    mean, var = running_mean.clone(), running_var.clone()
    return (*flambeau.native_batch_norm(x, weight, bias, mean, var, training, momentum, eps), mean, var)


def _batch_norm_with_update(x, weight, bias, running_mean, running_var, momentum, eps):
    """native_batch_norm in training; the fourth result is what cuDNN keeps for itself."""
    found = flambeau.native_batch_norm(x, weight, bias, running_mean, running_var, True, momentum, eps)
    return (*found, flambeau.empty(0, dtype=flambeau.uint8, device=x.device))


def _inside(mask, indices):
    """Indices that are right everywhere: 0 where the mask is false."""
    return [index if index is None else flambeau.where(mask, index, 0) for index in indices]


def _masked_index(x, mask, indices, fill):
    found = _index(x, _inside(mask, indices))
    return found.masked_fill(~mask.expand(found.shape), fill)


def _masked_index_put(x, mask, indices, values):
    return _index_put(x, _inside(mask, indices), values.masked_fill(~mask.expand(values.shape), 0), True)


def _chunk_cat(tensors, dim, num_chunks):
    """The k-th chunks of all tensors, flat from the dimension on, side by side; short ones end in zeros."""
    rows = []
    for t in tensors:
        size = -(-t.shape[dim] // num_chunks)
        t = F.pad(t, [0, 0] * (t.dim() - 1 - dim) + [0, size * num_chunks - t.shape[dim]])
        rows.append(t.reshape(*t.shape[:dim], num_chunks, -1))
    return flambeau.cat(rows, -1)


def _batch_norm_no_stats(x, weight, bias, *args):
    """Two overloads: with running statistics, and without."""
    statistics = args[:2] if len(args) == 5 else (None, None)
    return flambeau.native_batch_norm(x, weight, bias, *statistics, *args[-3:])


def _assert_metadata(x, size=None, stride=None, dtype=None, *, device=None, layout=None):
    found = {"size": list(x.shape), "stride": list(x.stride()) if stride else None, "dtype": x.dtype,
             "device": x.device.type, "layout": x.layout}
    wanted = {"size": size and list(size), "stride": stride and list(stride), "dtype": dtype_of(dtype),
              "device": device and _C.device(device).type, "layout": layout}
    for name, value in wanted.items():
        if value is not None and found[name] != value:
            raise RuntimeError(f"_assert_tensor_metadata: the program needs a tensor of {name} {value} here, got "
                               f"{found[name]}")


def _assert_values(x, text="what the program asserts of a value"):
    READINGS["assert"](x.item(), text)  # a trace may not decide by it


def _assert_range(x, *, min=None, max=None):
    if (min is not None and x < min) or (max is not None and x > max):
        raise RuntimeError(f"sym_constrain_range: the program needs a number from {min} to {max}, got {x}")


TENSORS = {
    # indexing and form
    "alias": lambda x: x.view_as(x), "dim": lambda x: x.dim(), "index": _index, "index_put": _index_put,
    "index_put_": _index_put_, "_index_put_impl_": _index_put_, "mH": lambda x: x.mH, "matrix_H": lambda x: x.H,
    "mT": lambda x: x.mT, "numel": flambeau.numel, "numpy_T": lambda x: x.T, "size": size, "slice": _slice,
    "_reshape_alias": lambda x, shape, stride: x.as_strided(shape, stride, x.storage_offset()), "stride": _stride,
    "to": _to, "view": _view, "contiguous": flambeau.Tensor.contiguous, "where": _where, "_infer_size": _broadcast_size,
    # lists of tensors
    "atleast_1d": listed(flambeau.atleast_1d), "atleast_2d": listed(flambeau.atleast_2d),
    "atleast_3d": listed(flambeau.atleast_3d), "block_diag": lambda tensors: flambeau.block_diag(*tensors),
    "broadcast_tensors": _tensors(flambeau.broadcast_tensors), "meshgrid": _tensors(flambeau.meshgrid),
    "cartesian_prod": lambda tensors: flambeau.cartesian_prod(*tensors),
    "chain_matmul": lambda tensors: flambeau.linalg.multi_dot(tensors),
    "einsum": lambda equation, tensors, path=None: flambeau.einsum(equation, *tensors),
    "linalg_multi_dot": lambda tensors: flambeau.linalg.multi_dot(tensors),
    "pad_sequence": lambda tensors, *args: flambeau.nn.utils.rnn.pad_sequence(tensors, *args),
    # mathematics
    "cdist": _cdist, "chalf": _cast(flambeau.complex32), "div": _div, "histogramdd": _histogramdd,
    "linspace": _linspace, "_lu_with_info": _lu_with_info, "stft": _stft, "tensordot": _tensordot, "_unique2": _unique,
    "unique_consecutive": _unique_consecutive, "unique_dim": _unique_dim,
    # networks
    "_convolution": _convolution, "_convolution_mode": _convolution_mode, "ctc_loss": _ctc_loss, "gelu_": _gelu_,
    "__interpolate": _interpolate, "log_sigmoid": F.logsigmoid, "_pack_padded_sequence": _pack_padded,
    "_pad_enum": _pad_enum, "_pad_packed_sequence": _pad_packed, "rrelu_with_noise": _rrelu,
    "_scaled_dot_product_attention_math": _attention, "_scaled_dot_product_flash_attention_for_cpu": _attention,
    "_native_multi_head_attention": attention, "_transformer_encoder_layer_fwd": encoder_layer,
    "_safe_softmax": _softmax_of_masked, "thnn_conv2d": _thnn_conv2d, "_weight_norm": _weight_norm,
    **{f"{space}{name}": _softmax(getattr(flambeau, name)) for space in ("", "special_")
       for name in ("softmax", "log_softmax")},
    # numbers, modes, making tensors
    "as_tensor": flambeau.as_tensor, "ComplexImplicit": lambda x: complex(x), "device": flambeau.device,
    "FloatImplicit": lambda x: float(x), "IntImplicit": lambda x: int(x), "is_grad_enabled": flambeau.is_grad_enabled,
    "is_scripting": lambda: True, "lift_fresh": same, "manual_seed": flambeau.manual_seed,
    "promote_types": lambda a, b: NUMBERS[flambeau.promote_types(dtype_of(a), dtype_of(b))],
    "result_type": lambda a, b: NUMBERS[flambeau.result_type(a, b)], "ScalarImplicit": lambda x: x.item(),
    "set_grad_enabled": flambeau.set_grad_enabled, "tensor": _tensor, "tolist": lambda x: x.tolist(),
    "wait": lambda future: future.wait(),
    # statements
    "_assert_tensor_metadata": _assert_metadata, "_assert_async": _assert_values, "sym_constrain_range": _assert_range,
    "sym_constrain_range_for_size": _assert_range, "_native_batch_norm_legit_functional": _batch_norm_functional,
    "_native_batch_norm_legit": _batch_norm_no_stats, "_batch_norm_with_update": _batch_norm_with_update,
    "_unsafe_masked_index": _masked_index, "_unsafe_masked_index_put_accumulate": _masked_index_put,
    "_chunk_cat": _chunk_cat,
    # names that this library has for something else
    "_fft_r2c": _fft_r2c, "_fft_c2r": _fft_c2r, "_fft_c2c": _fft_c2c, "elu_backward": _elu_backward,
    "fill_": _fill, "fill": lambda x, value: _fill(flambeau.empty_like(x), value),
    "_unique": _unique_pair, "_linalg_svd": _svd,
}
TENSORS.update({f"upsample_{mode}": _resized(name) for mode, name in (
    ("nearest1d", "nearest"), ("nearest2d", "nearest"), ("nearest3d", "nearest"), ("linear1d", "linear"),
    ("bilinear2d", "bilinear"), ("bicubic2d", "bicubic"), ("trilinear3d", "trilinear"))})
TENSORS.update({f"_upsample_nearest_exact{n}d": _resized("nearest-exact") for n in (1, 2, 3)})
TENSORS.update({f"_upsample_{mode}2d_aa": _resized(mode, antialias=True) for mode in ("bilinear", "bicubic")})
TENSORS.update({f"_cast_{name}": _cast(dtype) for name, dtype in (
    ("Byte", flambeau.uint8), ("Char", flambeau.int8), ("Double", flambeau.float64), ("Float", flambeau.float32),
    ("Half", flambeau.float16), ("Int", flambeau.int32), ("Long", flambeau.int64), ("Short", flambeau.int16))})
