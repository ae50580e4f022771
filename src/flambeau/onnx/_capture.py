"""From a model and example arguments to an ExportedProgram: which sizes stay open, and which operators stay whole."""

import contextlib
from types import FunctionType

import flambeau

from .. import _C
from .._graph.inside import Inside
from .._tensor.overriding import passing_once
from ..export import Dim, ExportedProgram, _trace
from ..export._decompositions import is_primitive
from ..export.dynamic_shapes import DimHint
from ..fx.experimental.proxy_tensor import disable_proxy_modes_tracing, get_proxy_mode
from ..nn import Module
from ..ops import OPS
from ..ops.dims import wrap_dim
from ..overrides import TorchFunctionMode
from ..utils._pytree import tree_flatten, tree_unflatten
from ._emitter import sizes

#: inside, `is_in_onnx_export()` is true
exporting = Inside("onnx")


def is_in_onnx_export():
    """Whether this thread is exporting a model.

    >>> import flambeau
    >>> flambeau.onnx.is_in_onnx_export()
    False
    """
    return bool(exporting)


# ---- operators that stay whole ---------------------------------------------------------------------------------------

def _recurrent(input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first):
    """The results' shapes, whatever the number of steps; the sizes have been checked by the module."""
    many = isinstance(hx, (tuple, list))
    h = hx[0] if many else hx
    out = input.new_empty((*input.shape[:2], h.shape[2] * (2 if bidirectional else 1)))
    return (out, *(s.new_empty(s.shape) for s in hx)) if many else (out, h.new_empty(h.shape))


def _bags(input, weight, offsets=None, max_norm=None, norm_type=2.0, scale_grad_by_freq=False, mode="mean",
          sparse=False, per_sample_weights=None, include_last_offset=False, padding_idx=None):
    """The result's shape: a row for each bag."""
    count = input.shape[0] if input.dim() == 2 else offsets.shape[0] - int(include_last_offset)
    return weight.new_empty((count, weight.shape[1]))


def _kept(dets, scores, iou_threshold):
    """The boxes that stay: a number of indices that values decide, as in nonzero."""
    return scores.nonzero().squeeze(1)


def _unpooled(dims):
    def shape(input, indices, kernel_size, stride=None, padding=0, output_size=None):
        def each(v):
            return list(v) if isinstance(v, (tuple, list)) else [v] * dims

        if output_size is not None:
            sides = list(output_size)[-dims:]
        else:
            steps = each(kernel_size if stride is None or stride == () or stride == [] else stride)
            sides = [(n - 1) * s - 2 * p + k for n, s, p, k in zip(
                input.shape[-dims:], steps, each(padding), each(kernel_size), strict=True)]
        return input.new_empty((*input.shape[:-dims], *sides))
    return shape


def _always(args, kwargs):
    return True


def _by_own_statistics(args, kwargs):
    """Of instance_norm: without running statistics to keep."""
    return (args[1] if len(args) > 1 else kwargs.get("running_mean")) is None


def _is_padded(args, kwargs):
    return not kwargs and len(args) == 9 and not isinstance(args[3], _C.Tensor) and isinstance(args[3], bool) \
        and not (args[5] and args[6] and args[4] > 1)


def _plain_attention(args, kwargs):
    return not (kwargs.get("dropout_p") or (len(args) > 4 and args[4]))


def _text_first(args, kwargs):
    return bool(args) and isinstance(args[0], str) and "." not in args[0]


#: name -> (whether a call stays whole, what gives its shapes; None: the operator itself)
_WHOLE = {
    **dict.fromkeys(("lstm", "gru", "rnn_tanh", "rnn_relu"), (_is_padded, _recurrent)),
    "scaled_dot_product_attention": (_plain_attention, None),
    "nms": (_always, _kept),
    "instance_norm": (_by_own_statistics, None),
    "embedding_bag": (_always, _bags),
    "einsum": (_text_first, None),
    **{f"max_unpool{dims}d": (_always, _unpooled(dims)) for dims in (1, 2, 3)},
}


class _Whole(TorchFunctionMode):
    """Records some composites as one step: those for which ONNX has an operator, or the caller a translation."""

    def __init__(self, own):
        super().__init__()
        self.table = {**_WHOLE, **{name: (_always, None) for name in own if name in OPS}}

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs, mode = kwargs or {}, get_proxy_mode()
        entry = self.table.get(getattr(func, "name", "").partition(".")[0]) if isinstance(func, _C.Op) else None
        if entry is None or mode is None or not mode.enable_tracing or not entry[0](args, kwargs):
            if not isinstance(func, FunctionType):
                return func(*args, **kwargs)
            with self, passing_once():  # functions made of operators: those are asked for again
                return func(*args, **kwargs)
        shapes = entry[1] or func

        def run(*given, **named):
            with disable_proxy_modes_tracing():
                return shapes(*given, **named)

        return mode.record(OPS[func.name.partition(".")[0]], run, args, kwargs)


# ---- sizes that stay open --------------------------------------------------------------------------------------------

class _Function(Module):
    """A function as a Module."""

    def __init__(self, function):
        super().__init__()
        self.forward = function


def _dim_name(name):
    made = "".join(c if c.isalnum() or c == "_" else "_" for c in name)
    return made if made.isidentifier() else f"dim_{made}"


def of_axes(axes, names, args, kwargs):
    """(`dynamic_shapes` of export, {name of a Dim: the name as it was given}) for the older `dynamic_axes`."""
    leaves, spec = tree_flatten((args, kwargs))
    dims, texts, said = {}, {}, []
    for name, leaf in zip(names, leaves, strict=True):
        chosen = axes.get(name)
        if chosen is None or not isinstance(leaf, _C.Tensor):
            said.append(None)
            continue
        if not isinstance(chosen, dict):
            chosen = {d: f"{name}_dynamic_axes_{k + 1}" for k, d in enumerate(chosen)}
        one = {}
        for d, text in chosen.items():
            label = _dim_name(text)
            texts[label] = text
            one[wrap_dim(d, leaf.dim(), "onnx.export")] = dims.setdefault(label, Dim(label))
        said.append(one)
    its_args, its_kwargs = tree_unflatten(said, spec)
    return (*its_args, *its_kwargs.values()), texts


def _by_texts(said):
    """Strings, which PyTorch's exporter takes for names of sizes, as Dims."""
    dims = {}

    def of(x):
        if isinstance(x, str):
            return dims.setdefault(x, Dim(_dim_name(x)))
        if isinstance(x, (tuple, list)):
            return type(x)(of(v) for v in x)
        return {k: of(v) for k, v in x.items()} if isinstance(x, dict) else x

    return of(said)


def _larger(args, kwargs, said):
    """Example arguments with 2 where an open size is 0 or 1, which a trace would take for part of the program. Only
    shapes are looked at, so the elements do not matter."""
    leaves, spec = tree_flatten((args, kwargs))
    made = []
    for leaf, one in zip(leaves, said, strict=True):
        if isinstance(leaf, _C.Tensor) and isinstance(one, dict):
            shape = [2 if d in one and type(one[d]) in (Dim, DimHint) and getattr(one[d], "_name", "") != "AUTO"
                     and n < 2 else n for d, n in enumerate(leaf.shape)]
            leaf = leaf.new_zeros(shape) if shape != list(leaf.shape) else leaf
        made.append(leaf)
    return tree_unflatten(made, spec)


def _symbols(program, said):
    """{text of a symbol: name of its Dim}."""
    from_user = [n for n, s in zip(program.graph.nodes, program.graph_signature.input_specs, strict=False)
                 if s.kind.name == "USER_INPUT"]
    names = {}
    for node, one in zip(from_user, said, strict=True):
        for d, dim in (one or {}).items() if isinstance(one, dict) else ():
            size = sizes(node.meta["val"])[d]
            if isinstance(dim, Dim) and not isinstance(size, int):
                symbols = list(size.free_symbols)
                if len(symbols) == 1:
                    names[repr(symbols[0])] = dim.root.__name__
    return names


@contextlib.contextmanager
def mode_of(model, training):
    """Inside, the model and its parts are in eval mode, in training mode, or (None) as they are."""
    modules = list(model.modules()) if training is not None else []
    before = [m.training for m in modules]
    try:
        if training is not None:
            model.train(training)
        yield
    finally:
        for module, was in zip(modules, before, strict=True):
            module.training = was


def captured(model, args, kwargs, dynamic_shapes, training, own):
    """(ExportedProgram, {symbol: name of a size}) of a model; `own` are the names of operators that the caller
    translates."""
    if isinstance(model, ExportedProgram):
        with exporting(), _Whole(own):
            return (model if is_primitive(model) else model.run_decompositions()), {}
    model = model if isinstance(model, Module) else _Function(model)
    said = _by_texts(dynamic_shapes)
    flat = _trace._said(model, args, kwargs, said)
    args, kwargs = _larger(args, kwargs, flat)
    with mode_of(model, training), flambeau.no_grad(), exporting(), _Whole(own):
        program = _trace.exported(model, args, dict(kwargs or {}), flat, {"kept": (), "whole": False})
    return program, _symbols(program, flat)
