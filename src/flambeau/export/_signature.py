"""The signature of a program, and those of its modules, as data."""

from collections import OrderedDict, defaultdict

from .._shown import shown
from ..utils import _pytree
from ._schema import as_name, kind
from ._writing import number
from .exported_program import ModuleCallEntry, ModuleCallSignature
from .graph_signature import (
    ConstantArgument,
    ExportGraphSignature,
    InputKind,
    InputSpec,
    OutputKind,
    OutputSpec,
    SymBoolArgument,
    SymFloatArgument,
    SymIntArgument,
    TensorArgument,
    TokenArgument,
)

_OPEN = {"as_sym_int": SymIntArgument, "as_sym_float": SymFloatArgument, "as_sym_bool": SymBoolArgument}
_PLAIN = ((bool, "as_bool"), (int, "as_int"), (float, "as_float"), (str, "as_string"))
#: {kind: (word, what the name in the module is called)}
_INPUTS = {InputKind.PARAMETER: ("parameter", "parameter_name"), InputKind.BUFFER: ("buffer", "buffer_name"),
           InputKind.CONSTANT_TENSOR: ("tensor_constant", "tensor_constant_name")}
_OUTPUTS = {OutputKind.BUFFER_MUTATION: ("buffer_mutation", "buffer_name"),
            OutputKind.PARAMETER_MUTATION: ("parameter_mutation", "parameter_name"),
            OutputKind.USER_INPUT_MUTATION: ("user_input_mutation", "user_input_name"),
            OutputKind.GRADIENT_TO_PARAMETER: ("gradient_to_parameter", "parameter_name"),
            OutputKind.GRADIENT_TO_USER_INPUT: ("gradient_to_user_input", "user_input_name"),
            OutputKind.LOSS_OUTPUT: ("loss_output", None), OutputKind.TOKEN: ("token", None)}
_FACTORIES = (None, list, dict, set, tuple, int, float, str, bool, OrderedDict)


# ---- writing ---------------------------------------------------------------------------------------------------------

def _value(x):
    if x is None:
        return {"as_none": True}
    for type_, word in _PLAIN:
        if isinstance(x, type_):
            return {word: number(x) if type_ is float else x}
    raise NotImplementedError(f"export.save: {shown(x)} is no number, text or None, which arguments and results are "
                              "besides tensors")


def _argument(arg, names):
    """An argument or result; names: {Node: name in the file} where they differ."""
    if isinstance(arg, ConstantArgument):
        return _value(arg.value)
    name = names.get(arg.name, arg.name)
    for word, kind_ in _OPEN.items():
        if isinstance(arg, kind_):
            return {word: {"as_name": name}}
    return {"as_tensor": {"name": name}}


def _input(spec):
    if spec.kind is InputKind.USER_INPUT and isinstance(spec.arg, ConstantArgument):
        return {"constant_input": {"name": spec.arg.name, "value": _value(spec.arg.value)}}
    if spec.kind is InputKind.USER_INPUT:
        return {"user_input": {"arg": _argument(spec.arg, {})}}
    if spec.kind is InputKind.TOKEN:
        return {"token": {"arg": {"name": spec.arg.name}}}
    word, target = _INPUTS[spec.kind]
    more = {"persistent": bool(spec.persistent)} if spec.kind is InputKind.BUFFER else {}
    return {word: {"arg": {"name": spec.arg.name}, target: spec.target} | more}


def _output(spec, names):
    if spec.kind is OutputKind.USER_OUTPUT:
        return {"user_output": {"arg": _argument(spec.arg, names)}}
    word, target = _OUTPUTS[spec.kind]
    more = {target: spec.target} if target else {}
    return {word: {"arg": {"name": names.get(spec.arg.name, spec.arg.name)}} | more}


def write_signature(signature, names):
    """The data of an ExportGraphSignature."""
    return {"input_specs": list(map(_input, signature.input_specs)),
            "output_specs": [_output(s, names) for s in signature.output_specs]}


def _spec(spec):
    try:
        return _pytree.treespec_dumps(spec)
    except (NotImplementedError, TypeError) as error:
        raise NotImplementedError("export.save: arguments or results are in a container that cannot be written: "
                                  f"{error}") from None


def write_calls(entries, names):
    """The data of a module call graph."""
    found = []
    for entry in entries:
        s = entry.signature
        found.append({"fqn": entry.fqn, "signature": None if s is None else {
            "inputs": [_argument(a, names) for a in s.inputs] if entry.fqn else [],
            "outputs": [_argument(a, names) for a in s.outputs] if entry.fqn else [],
            "in_spec": _spec(s.in_spec), "out_spec": _spec(s.out_spec), "forward_arg_names": s.forward_arg_names}})
    return found


# ---- reading ---------------------------------------------------------------------------------------------------------

class SignatureReader:
    """Reads signatures of a graph whose Nodes go by these names: {name in the file: name of the Node}."""

    def __init__(self, names):
        self.names = names

    def name(self, name):
        """The name of a Node."""
        return self.names.get(name, str(name))

    def argument(self, data):
        """An argument or result."""
        word, content = kind(data)
        if word == "as_tensor":
            return TensorArgument(self.name(content["name"]))
        if word in _OPEN:
            inner, value = kind(content)
            return _OPEN[word](self.name(value)) if inner == "as_name" else ConstantArgument("", value)
        return ConstantArgument("", _read_plain(data))

    def input(self, data):
        """An InputSpec."""
        word, content = kind(data)
        if word == "user_input":
            return InputSpec(InputKind.USER_INPUT, self.argument(content["arg"]), None)
        if word == "constant_input":
            arg = ConstantArgument(self.name(str(content["name"])), _read_plain(content["value"]))
            return InputSpec(InputKind.USER_INPUT, arg, None)
        if word == "token":
            return InputSpec(InputKind.TOKEN, TokenArgument(self.name(content["arg"]["name"])), None)
        for kind_, (its, target) in _INPUTS.items():
            if its == word:
                persistent = bool(content["persistent"]) if word == "buffer" else None
                arg = TensorArgument(self.name(content["arg"]["name"]))
                return InputSpec(kind_, arg, str(content[target]), persistent)
        raise NotImplementedError(f"export.load: an input of the program is of the kind {shown(word)}, which this "
                                  "library does not have")

    def output(self, data):
        """An OutputSpec."""
        word, content = kind(data)
        if word == "user_output":
            return OutputSpec(OutputKind.USER_OUTPUT, self.argument(content["arg"]), None)
        for kind_, (its, target) in _OUTPUTS.items():
            if its == word:
                of = TokenArgument if word == "token" else TensorArgument
                where = str(content[target]) if target else None
                where = self.name(where) if target == "user_input_name" else where
                return OutputSpec(kind_, of(self.name(content["arg"]["name"])), where)
        raise ValueError(f"export.load: an output of the program is {shown(word)}, which is no kind of output")

    def signature(self, data):
        """The ExportGraphSignature."""
        return ExportGraphSignature(list(map(self.input, data["input_specs"])),
                                    list(map(self.output, data["output_specs"])))

    def calls(self, data):
        """The module call graph."""
        found = []
        for entry in data:
            s, signature = entry["signature"], None
            if s is not None:
                names = s.get("forward_arg_names")
                names = None if names is None else list(map(as_name, names))
                inputs, outputs = (list(map(self.argument, s[row])) for row in ("inputs", "outputs"))
                signature = ModuleCallSignature(inputs, outputs, read_spec(s["in_spec"]), read_spec(s["out_spec"]),
                                                names)
            found.append(ModuleCallEntry(str(entry["fqn"]), signature))
        return found


def _read_plain(data):
    word, content = kind(data)
    if word == "as_none":
        return None
    if word == "as_float" and (type(content) in (int, float) or content in ("Infinity", "-Infinity", "NaN")):
        return float(content)
    if any(word == its and type(content) is type_ for type_, its in _PLAIN):
        return content
    raise ValueError(f"export.load: {shown(content)} is no plain value of the kind {shown(word)}")


def read_spec(text):
    """The spec of a text: containers that are registered here, with what they need to be put together."""
    spec = _pytree.treespec_loads(text)
    _check(spec)
    return spec


def _check(spec):
    if spec.type is defaultdict and spec.context[0] not in _FACTORIES:
        raise ValueError(f"export.load: {shown(spec.context[0])} makes no values of a defaultdict in a file")
    keys = spec.context[1] if spec.type is defaultdict else spec.context
    if spec.type in (dict, OrderedDict, defaultdict) and len(dict.fromkeys(keys)) != len(spec.children_specs):
        raise ValueError("export.load: the keys of a dict are not as many as its values")
    for child in spec.children_specs:
        _check(child)
