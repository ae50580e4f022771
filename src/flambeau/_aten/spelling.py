"""How programs of PyTorch's call an operator of this library: its name there, and the arguments in its form."""

import inspect

from .. import _C
from .._symbolic import numbers
from ..fx import Node
from ..ops import OPS
from ..ops.namespaces import Overload, Packet
from .numbers import NUMBERS

#: types of arguments that are given by name
_NUMBERED = (_C.device, *{type(value) for value in NUMBERS})
REDUCTIONS = {"none": 0, "mean": 1, "sum": 2}


class Raw:
    """An argument that is a text already."""

    def __init__(self, text):
        self.text = text


class Size:
    """An argument that is a size of another."""

    def __init__(self, of, dim):
        self.of, self.dim = of, dim


def named(op, args, kwargs):
    """{parameter: argument}, defaults filled in."""
    bound = inspect.signature(op).bind(*args, **kwargs)
    bound.apply_defaults()
    return bound.arguments


def _dropout(a):
    return ("dropout_" if a["inplace"] else "dropout"), [a["input"], a["p"], a["training"]], {}


def _cross_entropy(a):
    return "cross_entropy_loss", [a["input"], a["target"], a["weight"], REDUCTIONS[a["reduction"]], a["ignore_index"],
                                  float(a["label_smoothing"])], {}


def _spread(name):
    """var, std and theirs with means: a number of degrees of freedom, by name."""
    def spelled(a):
        free, unbiased, dim = a.get("correction"), a.get("unbiased"), a["dim"]
        if isinstance(dim, bool):  # the form (input, unbiased)
            unbiased, dim = dim, None
        if free is None:
            free = 1 if unbiased is None else int(unbiased)
        return name, [a["input"], [dim] if isinstance(dim, int) else dim], {"correction": free, "keepdim": a["keepdim"]}

    return spelled


def _view(a):
    x, size, dtype, *more = a.values()
    dtype = size if isinstance(size, _C.dtype) else dtype if isinstance(dtype, _C.dtype) else None
    if dtype is not None:
        return "view", [x], {"dtype": dtype}
    sizes = [size, *([a["dtype"]] if a["dtype"] is not None else []), *(more[0] if more else ())]
    return "view", [x, size if isinstance(size, (tuple, list)) else sizes], {}


def _vector_norm(a):
    x, order, dim, keepdim, *more = a.values()
    return "linalg_vector_norm", [x, order, dim, keepdim], {"dtype": more[0]} if more and more[0] is not None else {}


def _cdist(a):
    modes = {None: None, "use_mm_for_euclid_dist": 1, "donot_use_mm_for_euclid_dist": 2,
             "use_mm_for_euclid_dist_if_necessary": 0}
    return "cdist", [a["x1"], a["x2"], float(a["p"]), modes[a["compute_mode"]]], {}


def _max_pool(name):
    """With the places of the largest, TorchScript has an operator of its own."""
    def spelled(a):
        parts = [a[key] for key in ("input", "kernel_size", "stride", "padding", "dilation", "ceil_mode")]
        return (f"{name}_with_indices" if a["return_indices"] else name), parts[:2 if parts[2] is None else 6], {}

    return spelled


def _adaptive_pool(name):
    """A size that is None is the input's; with maxima come their places."""
    dims = int(name[-2])

    def spelled(a):
        size = a["output_size"]
        size = [size] * dims if isinstance(size, (int, Raw)) or size is None else [
            Size(a["input"], k - dims) if n is None else n for k, n in enumerate(size)]
        return name, [a["input"], size], {}, "" if a.get("return_indices", True) else "[0]"

    return spelled


def _pad(a):
    value = a["value"]
    return "pad", [a["input"], a["pad"], a["mode"], float(value) if isinstance(value, int) else value], {}


def _flat(name):
    """As the record `name.flat` has it: the arguments in its order, a reduction as a number."""
    renamed = {"weight": "weight", "indices": "input"} if name == "embedding" else {}
    parameters = inspect.signature(OPS[f"{name}.flat"]).parameters

    def spelled(a):
        values, by_name = [], {}
        for parameter, p in parameters.items():
            value = a.get(renamed.get(parameter, parameter), True if parameter == "cudnn_enabled" else None)
            value = REDUCTIONS[value] if parameter == "reduction" else value
            value = False if parameter == "training" and value is None else value
            value = -1 if parameter == "padding_idx" and value is None and name == "embedding" else value
            if p.kind is p.KEYWORD_ONLY:
                by_name[parameter] = value
            else:
                values.append(value)
        return {"nll_loss": "nll_loss_nd"}.get(name, name), values, by_name

    return spelled


_DIMS = {"linear": 1, "bilinear": 2, "bicubic": 2, "trilinear": 3}


def _interpolate(a):
    """By the number of dimensions of the images; scales where they were given."""
    x, size, scale, mode = a["input"], a["size"], a["scale_factor"], a["mode"]
    dims = len(x.meta["val"].shape) - 2 if isinstance(x, Node) else _DIMS.get(mode)
    again = a.get("recompute_scale_factor") or None  # the sizes' own ratio: only the general form says so
    if dims is None or isinstance(size, Raw) or isinstance(scale, Raw) or again is not None:
        scale = list(scale[:dims]) if isinstance(scale, (list, tuple)) else scale
        scale = float(scale) if isinstance(scale, int) else scale
        return "__interpolate", [x, size, scale, mode, a.get("align_corners"), again, bool(a.get("antialias"))], {}
    size, scale = ([n] * dims if isinstance(n, (int, float)) else n for n in (size, scale))
    size = None if size is None else list(size[:dims])
    scales = None if scale is None else [float(s) for s in scale[:dims]]
    if size is None and scales is None:
        return None
    exact = {"nearest": "upsample_nearest{}d", "nearest-exact": "_upsample_nearest_exact{}d", "linear":
             "upsample_linear{}d", "bilinear": "upsample_bilinear{}d", "trilinear": "upsample_trilinear{}d", "bicubic":
             "upsample_bicubic{}d"}.get(mode)
    if exact is None:
        return None
    aligned = [] if mode.startswith("nearest") else [bool(a.get("align_corners"))]
    if a.get("antialias"):
        return (f"_upsample_{mode}2d_aa", [x, size, *aligned, scales], {}) if mode in ("bilinear", "bicubic") else None
    return exact.format(dims), [x, size, *aligned, scales], {}


def _dropout_forward(a):
    values = list(a.values())
    return "native_dropout", [values[0], values[1], True], {}


def _softmax(name):
    return lambda a: (name, [a["input"], a["dim"], *([a["dtype"]] if a["dtype"] is not None else [])], {})


#: {operator: its name and arguments in TorchScript, of {parameter: argument}}
_SPELLED = {"dropout": _dropout, "cross_entropy": _cross_entropy, "interpolate": _interpolate, "cdist": _cdist,
            "dropout_forward": _dropout_forward, "softmax": _softmax("softmax"), "view": _view, "pad": _pad,
            "_vector_norm": _vector_norm, "log_softmax": _softmax("log_softmax"),
            **{name: lambda a, name=name: (name, list(a.values()), {}) for name in ("im2col", "col2im")},
            **{name: _spread(name) for name in ("var", "std", "var_mean", "std_mean")},
            **{f"max_pool{n}d": _max_pool(f"max_pool{n}d") for n in (1, 2, 3)},
            **{f"adaptive_{kind}_pool{n}d": _adaptive_pool(f"adaptive_{kind}_pool{n}d")
               for kind in ("max", "avg") for n in (1, 2, 3)}}
#: names that differ
_NAMES = {"fill_scalar_": "fill_", "fill_scalar": "fill", "logsigmoid": "log_sigmoid", "scatter_src": "scatter",
          "scatter_value": "scatter", "index_fill_number": "index_fill", "index_fill_tensor": "index_fill",
          "nll_loss": "nll_loss_nd", "bernoulli_float_": "bernoulli_", "bernoulli_tensor": "bernoulli",
          "nonzero_rows": "nonzero"}
#: composites of nn.functional that TorchScript has under the same name, with the same arguments
_OF_NETWORKS = {"glu", "scaled_dot_product_attention", "pad", "adaptive_avg_pool2d", "adaptive_avg_pool3d",
                "dropout", "alpha_dropout", "feature_alpha_dropout", "cross_entropy",
                *(f"max_pool{n}d_with_indices" for n in (1, 2, 3)), *(f"adaptive_max_pool{n}d" for n in (1, 2, 3))}
#: composites that have other arguments there
OTHERWISE = frozenset("""
    lu unique unravel_index svd_lowrank pca_lowrank lobpcg meshgrid cartesian_prod block_diag broadcast_tensors
    atleast_1d atleast_2d atleast_3d einsum tensordot unique_consecutive histogramdd chain_matmul range
    linalg_matrix_sqrth linalg_polar equal allclose gradient multi_dot embedding_bag max_unpool2d max_unpool3d
    fractional_max_pool2d fractional_max_pool3d instance_norm
""".split())


#: operators whose names aten has for something else
OTHER_MEANINGS = frozenset("""
    _fft_r2c _fft_c2r _fft_c2c elu_backward _unique _ctc_loss _ctc_loss_backward linear_backward _linalg_check_errors
""".split())


def stays_whole(op):
    """Whether a call is one step of a trace although it is made of others: TorchScript has an operator for it."""
    name = op.name
    if name.endswith(".flat") and op.kind == "composite":
        return True
    if op.kind not in ("composite", "overloads") or "." in name or name in OTHERWISE or OPS.get(name) is not op:
        return False
    if op.namespace == "nn.functional":
        return name in _OF_NETWORKS or f"{name}.flat" in OPS
    return op.namespace in ("", "linalg", None) and not name.startswith("signal_")


def is_made_of_others(target):
    """Whether a function of nn.functional is made of others, and TorchScript has no operator for it."""
    return isinstance(target, _C.Op) and target.kind == "composite" and target.namespace == "nn.functional" and not (
        stays_whole(target) or target.name in OTHERWISE)


def spelled(target, args, kwargs):
    """(name, args, kwargs, item) of a call of an operator, as TorchScript has it; "[0]" is the item of its results."""
    spell = _spelling(target) if isinstance(target, _C.Op) else None
    found = spell(named(target, args, kwargs)) if spell is not None else None
    if found is not None:
        name, args, kwargs, *item = found
        return f"torch.{name}", args, kwargs, item[0] if item else ""
    return _operator_name(target), *_by_keyword(target, *_as_one_list(target, args, kwargs)), ""


def has_spelling(op):
    """Whether a call of an operator is written with other arguments than its own."""
    return _spelling(op) is not None


def _spelling(op):
    """The function that writes a call, or None for one that is written as it is."""
    if op.name not in _SPELLED and op.kind == "composite" and f"{op.name}.flat" in OPS:
        _SPELLED[op.name] = _flat(op.name)
    return _SPELLED.get(op.name)


def _operator_name(target):
    """`torch.name` or `ops.library.name`."""
    if isinstance(target, (Overload, Packet)):
        return "ops." + target.qualified.replace("::", ".")
    name = target.name.partition(".")[0]
    name = _NAMES.get(name, name)
    if target.namespace == "linalg" or target.namespace == "fft" or target.namespace == "special":
        return f"torch.{target.namespace}_{name}" if not name.startswith(target.namespace) else f"torch.{name}"
    return f"torch.{name}" if target.namespace != "ops.torchvision" else f"ops.torchvision.{name}"


#: {operator: the place from which on its arguments are one list in TorchScript}
_OF_LISTS = {"einsum": 1, **dict.fromkeys(("meshgrid", "block_diag", "broadcast_tensors", "cartesian_prod",
                                          "chain_matmul"), 0)}


def _as_one_list(target, args, kwargs):
    """Sizes that were given one by one as a list; without switches that are off and that TorchScript has not got."""
    kwargs = {name: value for name, value in kwargs.items()
              if value not in (False, None) or name not in ("return_indices", "out", "generator")}
    first = _OF_LISTS.get(target.name) if isinstance(target, _C.Op) else None
    if first is not None and len(args) > first + 1:  # tensors one by one
        return (*args[:first], list(args[first:])), kwargs
    if isinstance(target, _C.Op) and len(args) > 1 and _whole(args[-1]):
        parameters = list(inspect.signature(target).parameters.values())
        place = next((k for k, p in enumerate(parameters) if p.kind is p.VAR_POSITIONAL), 0) - 1
        if 0 <= place < len(args) - 1 and parameters[place].default is inspect.Parameter.empty and all(
                map(_whole, args[place:])):
            return (*args[:place], list(args[place:])), kwargs
    return args, kwargs


def _whole(x):
    return (isinstance(x, int) and not isinstance(x, bool)) or (isinstance(x, Node) and leaf_type(x) == "int")


def _by_keyword(target, args, kwargs):
    """dtypes, devices and formats by their names: their places differ between forms."""
    if not any(isinstance(a, _NUMBERED) for a in args):
        return args, kwargs
    names = list(named(target, args, {}))
    first = next(k for k, a in enumerate(args) if isinstance(a, _NUMBERED))
    return args[:first], {**dict(zip(names[first:], args[first:])), **kwargs}


def leaf_type(x):
    """The name of the type that an argument or result of a graph has there."""
    if isinstance(x, Node):
        value = x.meta.get("val")
        return "Tensor" if isinstance(value, _C.Tensor) else "float" if isinstance(value, numbers.SymFloat) else "int"
    return "NoneType" if x is None else type(x).__name__
