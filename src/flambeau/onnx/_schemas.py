"""Which dtypes ONNX's operators take, as the `onnx` package says: an operator on others is computed in a wider one."""

from functools import cache

from .. import _C
from ._dtypes import DTYPES, TensorProtoDataType


class Unavailable(NotImplementedError):
    """Why a call of an operator has no translation."""


#: what is tried in the place of a dtype that an operator does not take, in this order
_WIDER = {
    _C.bool: (_C.int32, _C.int64, _C.float32), _C.uint8: (_C.int32, _C.int64, _C.float32),
    _C.int8: (_C.int32, _C.int64, _C.float32), _C.uint16: (_C.int32, _C.int64, _C.float32),
    _C.int16: (_C.int32, _C.int64, _C.float32), _C.uint32: (_C.int64, _C.float64), _C.int32: (_C.int64, _C.float64),
    _C.uint64: (_C.int64, _C.float64), _C.int64: (_C.float64, _C.float32),
    _C.float16: (_C.float32, _C.float64), _C.bfloat16: (_C.float32, _C.float64),
    _C.float32: (_C.float64,), _C.float64: (_C.float32,),
}
_DTYPES = {f"tensor({TensorProtoDataType(number).name.lower()})": dtype for number, dtype in DTYPES.items()}


@cache
def _schema(kind, opset):
    from onnx import defs
    try:
        return defs, defs.get_schema(kind, opset)
    except defs.SchemaError:
        raise Unavailable(f"opset {opset} has no {kind}; give a newer opset_version") from None


def check_attributes(kind, opset, names):
    """Unavailable for attributes that an operator does not have in this version."""
    unknown = sorted(names - _schema(kind, opset)[1].attributes.keys())
    if unknown:
        raise Unavailable(f"{kind} has no {', '.join(unknown)} in opset {opset}; give a newer opset_version")


@cache
def _types(kind, opset):
    """(the type variable of each input, whether the last one stands for all that follow, those of the outputs,
    {variable: dtypes}) of an operator."""
    defs, schema = _schema(kind, opset)
    variadic = bool(schema.inputs) and schema.inputs[-1].option == defs.OpSchema.FormalParameterOption.Variadic
    taken = {c.type_param_str: frozenset(_DTYPES[t] for t in c.allowed_type_strs if t in _DTYPES)
             for c in schema.type_constraints}
    return [i.type_str for i in schema.inputs], variadic, [o.type_str for o in schema.outputs], taken


def widened(kind, opset, dtypes, count):
    """({place of an input: dtype to convert it to}, {place of an output: dtype to convert it back to}); both empty
    where an operator with `count` results takes inputs of these dtypes."""
    variables, variadic, outputs, taken = _types(kind, opset)
    wider, back, chosen = {}, {}, {}
    for place, dtype in enumerate(dtypes):
        variable = variables[place] if place < len(variables) else variables[-1] if variadic else None
        allowed = taken.get(variable)
        if dtype is None or allowed is None or dtype in allowed or dtype not in _WIDER:
            continue
        if variable not in chosen:
            chosen[variable] = next((d for d in _WIDER[dtype] if d in allowed), None), dtype
        if chosen[variable][0] is not None:
            wider[place] = chosen[variable][0]
    for place in range(count):
        variable = outputs[min(place, len(outputs) - 1)]  # the last one may stand for many
        if variable in chosen and chosen[variable][0] is not None:
            back[place] = chosen[variable][1]
    return wider, back
