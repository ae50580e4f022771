"""Translations that programs register for operators of their own."""

from .. import _C
from .._shown import shown

#: {name of an operator: {opset: function}}
_REGISTERED = {}


def name_of_operator(operator):
    """The name by which an operator is looked up: of an operator in any of its forms, or of a text "domain::name"."""
    if isinstance(operator, str):
        domain, _, name = operator.rpartition("::")
        return name if domain in ("", "aten") else operator
    operator = getattr(operator, "_op", operator)
    if isinstance(operator, _C.Op):
        return operator.name.partition(".")[0]
    qualified = getattr(operator, "qualified", None)
    if qualified is None:
        raise TypeError("onnx.export: custom_translation_table takes operators, or texts as 'domain::name', got "
                        f"{shown(operator)}")
    return qualified


def _split(symbolic_name):
    if not isinstance(symbolic_name, str) or symbolic_name.count("::") != 1:
        raise ValueError(f"onnx: an operator is named by a text as 'domain::name', got {shown(symbolic_name)}")
    return name_of_operator(symbolic_name)


def register_custom_op_symbolic(symbolic_name, symbolic_fn, opset_version, custom_opsets=None):
    """Says how an operator is written from this opset on: symbolic_fn(g, *arguments) gives the result.

    symbolic_name   "domain::name": of `library.custom_op`, or "aten::name" for one of the library's own operators
    symbolic_fn     tensors arrive as values, `g.op("Name", *values, alpha_f=1.0)` applies an operator of ONNX, and
                    "domain::Name" one of another domain
    custom_opsets   not needed: a domain's version is given to `g.op` as `version`

    >>> import flambeau
    >>> from flambeau.library import custom_op
    >>> @custom_op("shop::double", mutates_args=())
    ... def double(x: flambeau.Tensor) -> flambeau.Tensor:
    ...     return x * 2
    >>> _ = double.register_fake(lambda x: flambeau.empty_like(x))
    >>> flambeau.onnx.register_custom_op_symbolic("shop::double", lambda g, x: g.op("Add", x, x), 20)
    >>> flambeau.onnx.export(double, (flambeau.ones(2),))
    ONNXProgram(opset 20, 1 nodes: 1 Add)
    >>> flambeau.onnx.unregister_custom_op_symbolic("shop::double", 20)
    """
    if custom_opsets:
        raise NotImplementedError("register_custom_op_symbolic: custom_opsets is not available; g.op takes version=")
    if not callable(symbolic_fn):
        raise TypeError(f"register_custom_op_symbolic: symbolic_fn must be a function, got {shown(symbolic_fn)}")
    _REGISTERED.setdefault(_split(symbolic_name), {})[int(opset_version)] = symbolic_fn


def unregister_custom_op_symbolic(symbolic_name, opset_version):
    """Forgets what was registered for an operator from this opset on."""
    found = _REGISTERED.get(_split(symbolic_name), {})
    found.pop(int(opset_version), None)
    if not found:
        _REGISTERED.pop(_split(symbolic_name), None)


def registered(opset):
    """{name: function} of what was registered for this opset or an older one, the newest first."""
    found = {}
    for name, versions in _REGISTERED.items():
        fitting = [v for v in versions if v <= opset]
        if fitting:
            found[name] = versions[max(fitting)]
    return found
