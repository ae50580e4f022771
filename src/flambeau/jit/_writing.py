"""A graph of operators as TorchScript's text, and the classes of modules that hold its tensors."""

import inspect
import keyword
import math
import operator
import textwrap

from .. import _C
from .._shown import class_name, shown
from .._symbolic import numbers
from ..fx import Node
from ..ops import OPS
from ..ops.namespaces import READINGS, Overload, Packet, Reading
from ..utils import _pytree
from ._numbers import NUMBERS

#: functions of sizes, and the operators that TorchScript has for them
OF_NUMBERS = {
    operator.add: "torch.add", operator.sub: "torch.sub", operator.mul: "torch.mul", operator.neg: "torch.neg",
    operator.floordiv: "torch.floordiv", operator.mod: "torch.remainder", operator.truediv: "torch.div",
    operator.pow: "torch.pow", operator.eq: "torch.eq", operator.ne: "torch.ne", operator.lt: "torch.lt",
    operator.le: "torch.le", operator.gt: "torch.gt", operator.ge: "torch.ge", operator.and_: "torch.__and__",
    operator.or_: "torch.__or__", operator.abs: "ops.prim.abs", math.ceil: "torch.ceil", math.floor: "torch.floor",
    math.sqrt: "torch.sqrt", math.trunc: "int", round: "torch.round", numbers.sym_int: "int",
    numbers.sym_float: "float", numbers.sym_max: "ops.prim.max", numbers.sym_min: "ops.prim.min",
    numbers.sym_not: "torch.__not__", numbers.sym_sqrt: "torch.sqrt",
}
_RESERVED = {"torch", "ops", "CONSTANTS", "self", "inf", "nan", "annotate", "getattr", "isinstance", "fork",
             "unchecked_cast", "uninitialized", "int", "float", "bool", "str", "len", "range", "print", "list",
             "complex", "min", "max", "abs", "device"}
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


# ---- operators -------------------------------------------------------------------------------------------------------

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
    if dims is None or isinstance(size, Raw) or isinstance(scale, Raw):
        scale = float(scale) if isinstance(scale, int) else scale
        return "__interpolate", [x, size, scale, mode, a.get("align_corners"), None, bool(a.get("antialias"))], {}
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
          "bernoulli_float_": "bernoulli_", "bernoulli_tensor": "bernoulli", "nonzero_rows": "nonzero"}
#: composites of nn.functional that TorchScript has under the same name, with the same arguments
_OF_NETWORKS = {"glu", "scaled_dot_product_attention", "pad", "adaptive_avg_pool2d", "adaptive_avg_pool3d", "dropout",
                "alpha_dropout", "feature_alpha_dropout", "cross_entropy",
                *(f"adaptive_max_pool{n}d" for n in (1, 2, 3))}
#: composites that have other arguments there
OTHERWISE = frozenset("""
    lu unique unravel_index svd_lowrank pca_lowrank lobpcg meshgrid cartesian_prod block_diag broadcast_tensors
    atleast_1d atleast_2d atleast_3d einsum tensordot unique_consecutive histogramdd chain_matmul range
    linalg_matrix_sqrth linalg_polar equal allclose gradient multi_dot embedding_bag max_unpool2d max_unpool3d
    fractional_max_pool2d fractional_max_pool3d instance_norm
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


# ---- values ----------------------------------------------------------------------------------------------------------

def quoted(text):
    """A text as archives write it: bytes of UTF-8 that are no ASCII as octal numbers."""
    escapes = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
    return '"' + "".join(escapes.get(c) or (c if c.isascii() and c.isprintable() else "".join(
        f"\\{byte:03o}" for byte in c.encode("utf-8", "surrogatepass"))) for c in text) + '"'


def number(x):
    """A number as TorchScript writes it."""
    if isinstance(x, complex):
        return f"{number(x.real)}+{number(x.imag)}j" if x.imag >= 0 else f"{number(x.real)}-{number(-x.imag)}j"
    if isinstance(x, float) and not math.isfinite(x):
        return "nan" if x != x else "inf" if x > 0 else "-inf"
    return repr(x)


class Writer:
    """The text of one function: a statement for each node."""

    def __init__(self, graph, places, constants):
        self.graph, self.constants = graph, constants
        self.names = dict(places)  # Node: expression
        self.used = set(_RESERVED)
        self.lines = []

    def local(self, node, wanted=None):
        """A new name for a node."""
        name = "".join(c if c.isalnum() or c == "_" else "_" for c in wanted or node.name)
        while name in self.used or not _is_name(name):
            name = f"{name}_" if _is_name(name) else f"_{name}"
        self.used.add(name)
        self.names[node] = name
        return name

    def write(self):
        """The lines of all nodes but the last, which is the output."""
        for node in self.graph.nodes:
            if node.op == "placeholder":
                continue
            if node.op == "output":
                return
            made = self.call(node)
            if made is not None:
                self.lines.append(f"{self.local(node)} = {made}")

    def call(self, node):
        """An expression for a call, or None for one that leaves nothing."""
        target = node.target
        if node.op == "get_attr":
            return attribute_path(node.target)
        if node.op == "call_method":
            return self.method(node)
        if node.op != "call_function":
            raise NotImplementedError(f"jit: the step {node.name} ({node.op}) has no form in TorchScript")
        if isinstance(target, Reading):
            return self.reading(node)
        if target is operator.getitem:
            return f"{self.value(node.args[0])}[{self.value(node.args[1])}]"
        if target in OF_NUMBERS:
            return f"{OF_NUMBERS[target]}({', '.join(map(self.value, node.args))})"
        if not isinstance(target, (_C.Op, Overload, Packet)):
            raise NotImplementedError(f"jit.trace: the program calls {shown(getattr(target, '__name__', target))}, "
                                      "which has no form in TorchScript")
        return self.operator(node, target)

    def reading(self, node):
        target, args = node.target, list(map(self.value, node.args))
        if target is READINGS["assert"]:
            return None
        name = {"size": "torch.size", "stride": "torch.stride", "numel": "torch.numel", "item": "torch.item",
                "storage_offset": "torch.storage_offset"}[next(k for k, v in READINGS.items() if v is target)]
        return f"{name}({', '.join(args)})"

    def method(self, node):
        """`x.name(…)`: the operator of that name."""
        op = OPS.get(node.target) or getattr(OPS.get(node.target.removesuffix("_")), "inplace_form", None)
        if op is None:
            raise NotImplementedError(f"jit: the method {node.target} has no form in TorchScript")
        return self.operator(node, op)

    def operator(self, node, target):
        name, args, kwargs, item = spelled(target, node.args, dict(node.kwargs))
        parts = [self.value(a) for a in args]
        parts += [f"{key}={self.value(value)}" for key, value in kwargs.items()]
        return f"{name}({', '.join(parts)}){item}"

    def value(self, x):
        """An argument."""
        if isinstance(x, Node):
            return self.names[x]
        if isinstance(x, Raw):
            return x.text
        if isinstance(x, Size):
            return f"torch.size({self.value(x.of)}, {x.dim})"
        if isinstance(x, str):
            return quoted(x)
        if x is None or isinstance(x, (bool, int, float, complex)):
            return number(x)
        if isinstance(x, (tuple, list)):
            items = f"[{', '.join(map(self.value, x))}]"
            if any(item is None for item in x):
                return f"annotate(List[Optional[Tensor]], {items})"
            return items if x else "annotate(List[int], [])"
        if isinstance(x, _C.device):
            return f"torch.device({quoted(str(x))})"
        if x in NUMBERS:
            return str(NUMBERS[x])
        if isinstance(x, _C.Tensor):
            return self.constants.of(x)
        raise NotImplementedError(f"jit.trace: an argument is a {class_name(type(x))}, which TorchScript has not got")

    def returned(self, nodes, spec):
        """(the expression of the result, its type)."""
        leaves = [(self.value(x), leaf_type(x)) for x in nodes]
        return assembled(spec, leaves)


def leaf_type(x):
    if isinstance(x, Node):
        value = x.meta.get("val")
        return "Tensor" if isinstance(value, _C.Tensor) else "float" if isinstance(value, numbers.SymFloat) else "int"
    return "NoneType" if x is None else type(x).__name__


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


def assembled(spec, leaves):
    """(expression, type) of a tree of expressions: tuples, lists and dicts of those of the leaves."""
    made = _pytree.tree_unflatten(list(map(_Leaf, leaves)), spec)
    return _tree(made)


class _Leaf:
    def __init__(self, pair):
        self.pair = pair


def _tree(x):
    if isinstance(x, _Leaf):
        return x.pair
    if isinstance(x, dict):
        parts = {key: _tree(value) for key, value in x.items()}
        kinds = sorted({kind for _, kind in parts.values()}) or ["Tensor"]
        keys = sorted({type(key).__name__ for key in parts}) or ["str"]
        if len(kinds) > 1 or len(keys) > 1 or keys[0] not in ("str", "int"):
            raise NotImplementedError("jit.trace: a dict of TorchScript has keys of one type (str or int) and values "
                                      "of one; return a tuple")
        items = [f"{quoted(key) if isinstance(key, str) else key}: {text}" for key, (text, _) in parts.items()]
        return "{" + ", ".join(items) + "}", f"Dict[{keys[0]}, {kinds[0]}]"
    if isinstance(x, (tuple, list)):
        parts = [_tree(value) for value in x]
        texts, kinds = [t for t, _ in parts], [k for _, k in parts]
        if isinstance(x, list) and len(set(kinds)) <= 1:
            kind = kinds[0] if kinds else "Tensor"
            return f"annotate(List[{kind}], [{', '.join(texts)}])", f"List[{kind}]"
        return f"({', '.join(texts)}{',' * (len(texts) == 1)})", f"Tuple[{', '.join(kinds) or '()'}]"
    raise NotImplementedError(f"jit.trace: a {class_name(type(x))} among the arguments or results; use tensors, "
                              "tuples, lists and dicts")


# ---- modules ---------------------------------------------------------------------------------------------------------

class Constants:
    """The tensors of a program that belong to no module: CONSTANTS.c0 and so on."""

    def __init__(self):
        self.values, self._found = [], {}

    def of(self, value):
        """The expression of one."""
        if id(value) not in self._found:
            self._found[id(value)] = len(self.values)
            self.values.append(value)
        return f"CONSTANTS.c{self._found[id(value)]}"


def attribute_path(path, root="self"):
    """`self.a.b` for "a.b"; parts that are no names by getattr."""
    text = root
    for part in path.split("."):
        text = f"{text}.{part}" if _is_name(part) else f'getattr({text}, "{part}")'
    return text


class Classes:
    """The texts of the classes that modules have in a program: one for all that hold and do the same.

    methods     module -> the text of its methods, in which SELF stands for the class
    attributes  module -> {name: type} of what it has besides tensors and modules
    texts       {name of a module: [text]}, which is added to
    known       module -> the qualified name of a class that is written already, or None
    """

    def __init__(self, methods, attributes=lambda module: {}, texts=None, known=lambda module: None):
        self.methods, self.attributes, self.texts = methods, attributes, {} if texts is None else texts
        self.known = known
        self._known = {}   # (class, text) -> qualified name
        self._of = {}      # id of a module -> qualified name
        self._numbers = 0

    def of(self, module):
        """The qualified name of a module's class."""
        if id(module) not in self._of:
            self._of[id(module)] = self.known(module) or self._named(module)
        return self._of[id(module)]

    def _named(self, module):
        kind = getattr(type(module), "_scripted_class", type(module))
        name = kind.__name__ if kind.__name__.isidentifier() else "Module"
        home = home_of(kind)
        text = "\n".join([f"class {name}(Module):", *(f"  {line}" for line in self._declarations(module))]) + "\n"
        text += textwrap.indent(self.methods(module), "  ")
        key = home, name, text
        if key in self._known:
            return self._known[key]
        while f"{home}.{name}" in self._known.values():
            home = f"{home.partition('.___torch_mangle_')[0]}.___torch_mangle_{self._numbers}"
            self._numbers += 1
        qualified = self._known[key] = f"{home}.{name}"
        self.texts.setdefault(home, []).append(text.replace(": SELF", f": {qualified}"))
        return qualified

    def _declarations(self, module):
        parameters = [f'"{name}", ' for name in module._parameters]
        buffers = [f'"{name}", ' for name in module._buffers]
        lines = [f"__parameters__ = [{''.join(parameters)}]", f"__buffers__ = [{''.join(buffers)}]"]
        for table in (module._parameters, module._buffers):
            lines += [declared_as(name, "Tensor" if value is not None else "Optional[Tensor]")
                      for name, value in table.items()]
        lines.append("training : bool")
        lines += [declared_as(name, kind) for name, kind in self.attributes(module).items()]
        return lines + [declared_as(name, self.of(child)) for name, child in module._modules.items()
                        if child is not None]


def home_of(thing):
    """The name of the text that a class or function stands in; ours as PyTorch's."""
    if thing.__module__ in ("__main__", "builtins"):
        return "__torch__"
    parts = ["torch" if part == "flambeau" else part for part in thing.__module__.split(".")]
    return ".".join(["__torch__", *(part if _is_name(part) else f"_{part}" for part in parts)])


def declared_as(name, kind):
    return f"{name} : {kind}" if _is_name(name) else f'__annotations__["{name}"] = {kind}'


def _is_name(text):
    return text.isidentifier() and not keyword.iskeyword(text)
