"""Signatures of what Nodes call, and arguments put in the form that a signature names."""

import inspect
import numbers
import types
import typing
from typing import NamedTuple

from .. import _C
from .._shown import shown
from ..ops.namespaces import Overload, Packet


class ArgsKwargsPair(NamedTuple):
    """Arguments of a call."""

    args: tuple
    kwargs: dict


_TYPES = {"Tensor": _C.Tensor, "int": int, "bool": bool, "float": float, "str": str, "Scalar": numbers.Number,
          "dtype": _C.dtype, "device": _C.device, "layout": _C.memory_format, "memory_format": _C.memory_format,
          "Generator": _C.Generator}


def _python_type(text):
    """The type of a schema's argument: "Tensor?" is Optional[Tensor]."""
    if text.endswith("?"):
        return typing.Union[_python_type(text[:-1]), None]  # noqa: UP007 (text of unknown types cannot be joined by |)
    if text.endswith("[]"):
        return list[_python_type(text[:-2])]
    return _TYPES.get(text, typing.Any)


def _signature_of(op):
    """An operator's signature with the types of its schema."""
    plain = inspect.signature(op)
    kinds = {}
    inner = op.schema[op.schema.index("(") + 1:op.schema.rindex(")")]
    for piece in inner.split(", "):
        words = piece.partition("=")[0].split()
        if len(words) == 2:
            kinds[words[1]] = _python_type(words[0])
    kinds.setdefault("input", kinds.get("self"))  # what the public function calls its first argument
    parameters = [p.replace(annotation=kinds.get(p.name, inspect.Parameter.empty)) for p in plain.parameters.values()]
    return plain.replace(parameters=parameters)


def get_signature_for_torch_op(op, return_schemas=False):
    """[signature of each form] of an operator; None for what is no operator. With return_schemas also the schemas.

    >>> import flambeau
    >>> from flambeau.fx.operator_schemas import get_signature_for_torch_op
    >>> [list(s.parameters) for s in get_signature_for_torch_op(flambeau.relu)]
    [['input', 'inplace']]
    """
    if isinstance(op, (Packet, Overload)):
        op = op._operator.op
    if not isinstance(op, _C.Op):
        return (None, None) if return_schemas else None
    forms = list(op.alternatives) if op.kind == "overloads" else [op]
    found = [_signature_of(form) for form in forms]
    return (found, [form.schema for form in forms]) if return_schemas else found


def create_type_hint(x):
    """The type that a list or tuple of types stands for: [int, int] is List[int].

    >>> from flambeau.fx.operator_schemas import create_type_hint
    >>> create_type_hint((int, int))
    tuple[int, ...]
    """
    if not isinstance(x, (list, tuple)):
        return x
    kinds = [create_type_hint(item) for item in x]
    base = kinds[0] if kinds else typing.Any
    for kind in kinds:
        if type_matches(kind, base):
            base = kind
        elif not type_matches(base, kind):
            base = typing.Any
            break
    return list[base] if isinstance(x, list) else tuple[base, ...]


def type_matches(signature_type, argument_type):
    """Whether a value of one type may be given where the other is expected."""
    origin = typing.get_origin(signature_type)
    if signature_type is argument_type or signature_type in (typing.Any, inspect.Parameter.empty):
        return True
    if origin in (typing.Union, types.UnionType):
        wanted = typing.get_args(signature_type)
        given = typing.get_args(argument_type) if typing.get_origin(argument_type) in (typing.Union, types.UnionType) \
            else (argument_type,)
        return all(any(type_matches(w, g) for w in wanted) for g in given)
    if origin is list:
        item = typing.get_args(signature_type)[0]
        if typing.get_origin(argument_type) is list:
            return type_matches(item, typing.get_args(argument_type)[0])
        if typing.get_origin(argument_type) is tuple:
            return all(type_matches(item, kind) for kind in typing.get_args(argument_type) if kind is not ...)
        return item is argument_type is int
    if signature_type is numbers.Number and argument_type in (int, float, bool, complex):
        return True
    if isinstance(signature_type, type) and isinstance(argument_type, type):
        return issubclass(argument_type, signature_type) and not (signature_type is int and argument_type is bool)
    return False


def check_for_mutable_operation(target, args, kwargs):
    """RuntimeError where a function changes one of its arguments in place."""
    writes = isinstance(target, _C.Op) and (target.is_inplace or target.name.endswith("_")
                                            or kwargs.get("out") is not None or kwargs.get("inplace") is True)
    if writes:
        raise RuntimeError(f"tracing: {target.name} changes an argument in place ({len(args) + len(kwargs)} "
                           "arguments), and this Tracer refuses such operators (check_mutable_operations)")


def normalize_function(target, args, kwargs=None, arg_types=None, kwarg_types=None,
                       normalize_to_only_use_kwargs=False):
    """The arguments as the signature of `target` names them, with defaults filled in; None where it has no signature.

    Where several forms of an operator fit, arg_types and kwarg_types choose; RuntimeError where they do not.
    """
    kwargs = {} if kwargs is None else kwargs
    signatures = get_signature_for_torch_op(target)
    if signatures is None:
        if not isinstance(target, types.FunctionType):
            return None
        try:
            signatures = [inspect.signature(inspect.unwrap(target))]
        except ValueError:
            return None
    fitting = [s for s in signatures if _binds(s, args, kwargs)]
    if len(fitting) > 1 and (arg_types is not None or kwarg_types is not None):
        fitting = [s for s in fitting if _types_fit(s, arg_types or (), kwarg_types or {})] or fitting
    if len(fitting) > 1:
        fitting = fitting[:1] if arg_types is not None else fitting
    if not fitting:
        return None
    if len(fitting) > 1:
        raise RuntimeError(f"normalize_function: {len(fitting)} forms of {getattr(target, '__name__', target)} take "
                           "these arguments; give arg_types= (and kwarg_types=) to tell them apart: "
                           + "; ".join(map(str, fitting)))
    return _named(fitting[0], args, kwargs, normalize_to_only_use_kwargs)


def _binds(signature, args, kwargs):
    try:
        signature.bind(*args, **kwargs)
    except TypeError:
        return False
    return True


def _types_fit(signature, arg_types, kwarg_types):
    bound = signature.bind_partial(*arg_types, **kwarg_types)
    return all(type_matches(signature.parameters[name].annotation, kind) for name, kind in bound.arguments.items()
               if signature.parameters[name].kind not in (inspect.Parameter.VAR_POSITIONAL,
                                                          inspect.Parameter.VAR_KEYWORD))


def _named(signature, args, kwargs, only_kwargs):
    parameters = signature.parameters.values()
    if any(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in parameters):
        return None
    bound = signature.bind(*args, **kwargs)
    bound.apply_defaults()
    positional, named = [], {}
    for name, value in bound.arguments.items():
        if only_kwargs or signature.parameters[name].kind is inspect.Parameter.KEYWORD_ONLY or (
                name in kwargs) or len(positional) >= len(args) or named:
            named[name] = value
        else:
            positional.append(value)
    return ArgsKwargsPair(tuple(positional), named)


def normalize_module(root, target, args, kwargs=None, normalize_to_only_use_kwargs=False):
    """The arguments of a submodule's call as its forward names them; RuntimeError where there is no such submodule."""
    try:
        module = root.get_submodule(target)
    except AttributeError:
        raise RuntimeError(f"normalize_module: there is no submodule {shown(target)}") from None
    signature = inspect.signature(module.forward)
    kwargs = {} if kwargs is None else kwargs
    return _named(signature, args, kwargs, normalize_to_only_use_kwargs) if _binds(signature, args, kwargs) else None
