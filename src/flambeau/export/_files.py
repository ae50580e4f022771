"""Files of exported programs: an archive of one JSON text, which says what the graph is, and of tensors. Reading one
looks names up in tables and runs no code."""

import io
import json
import math
import operator
import os
import zipfile

import flambeau

from .. import _C, control_flow
from .._shown import class_name, shown
from .._subclasses.fake_tensor import FakeTensorMode
from .._subclasses.symbolic_tensor import SymbolicTensor
from .._symbolic import numbers
from .._symbolic.expressions import FUNCTIONS, Call, Poly, Symbol, constant
from .._symbolic.numbers import SymInt
from .._symbolic.shape_env import ShapeEnv
from .._symbolic.statements import INFINITE, RELATIONS, Logic, Relation
from ..fx import Graph, GraphModule, Node
from ..fx._targets import INFIX, INPLACE
from ..ops import OPS
from ..ops.namespaces import READINGS, Overload, Packet, Reading, known
from ..serialization import load as load_tensors
from ..serialization import save as save_tensors
from ..utils._pytree import tree_structure
from ._checks import InputChecks, ValueRanges
from .exported_program import ExportedProgram, ModuleCallEntry, ModuleCallSignature
from .graph_signature import (
    ConstantArgument,
    ExportGraphSignature,
    InputKind,
    InputSpec,
    OutputKind,
    OutputSpec,
    SymIntArgument,
    TensorArgument,
)

_VERSION = 1
_ENTRIES = {"program": "program.json", "state": "state_dict.pt", "constants": "constants.pt",
            "examples": "example_inputs.pt"}
#: {kind: {name: function}} of the functions, apart from operators, that a graph may call
_FUNCTIONS = {
    "operator": {name: getattr(operator, name) for name in (*INFIX, *INPLACE, "abs")},
    "math": {name: getattr(math, name) for name in ("trunc", "floor", "ceil", "sqrt")},
    "builtin": {"round": round},
    "number": {name: getattr(numbers, name) for name in ("sym_int", "sym_float", "sym_not", "sym_max", "sym_min",
                                                         "sym_ite", "sym_sum", "sym_sqrt")},
    "control": {name: getattr(control_flow, name) for name in ("cond", "while_loop", "scan", "map")},
    "reading": READINGS,
}
_DTYPES = {str(value).removeprefix("torch."): value for value in vars(_C).values() if isinstance(value, _C.dtype)}
_FORMATS = {repr(value): value for value in vars(_C).values() if isinstance(value, _C.memory_format)}


# ---- expressions and statements --------------------------------------------------------------------------------------

def _expr(x):
    if isinstance(x, Poly):
        return ["sum", [[c, [[_expr(a), power] for a, power in m]] for m, c in x.terms.items()]]
    if isinstance(x, Symbol):
        return ["symbol", x.name]
    if isinstance(x, (Call, Logic)):
        return ["call" if isinstance(x, Call) else "logic", x.name, *map(_expr, x.args)]
    if isinstance(x, Relation):
        return ["relation", x.name, _expr(x.left), _expr(x.right)]
    return ["number", x if isinstance(x, (bool, int)) else x.hex()]


def _read_expr(data):
    kind, *rest = data
    if kind == "sum":
        return Poly({tuple((_read_expr(a), int(power)) for a, power in m): int(c) for c, m in rest[0]})
    if kind == "symbol":
        return Symbol(str(rest[0]))
    if kind == "number":
        return float.fromhex(rest[0]) if isinstance(rest[0], str) else rest[0]
    name, *args = rest
    table = {"call": FUNCTIONS, "relation": RELATIONS, "logic": ("And", "Or", "Not")}[kind]
    if name not in table:
        raise ValueError(f"export.load: the file names {shown(name)}, which is no function of sizes")
    return {"call": Call, "relation": Relation, "logic": Logic}[kind](name, *map(_read_expr, args))


# ---- targets ---------------------------------------------------------------------------------------------------------

def _target(target):
    if isinstance(target, _C.Op):
        if OPS.get(target.name) is target:
            return ["op", target.name]
        base = target.name.removesuffix("_")
        if base in OPS and OPS[base].inplace_form is target:
            return ["inplace", base]
    elif isinstance(target, (Overload, Packet)) and not isinstance(target, Reading):
        return ["library", target.qualified]
    for kind, table in _FUNCTIONS.items():
        for name, function in table.items():
            if function is target:
                return [kind, name]
    raise NotImplementedError(f"export.save: the graph calls {shown(getattr(target, '__name__', target))}, which is no "
                              "operator; make it one by flambeau.library.custom_op")


def _read_target(data):
    kind, name = data
    if kind in ("op", "inplace") and name in OPS:
        return OPS[name] if kind == "op" else OPS[name].inplace_form
    if kind == "library":
        space, _, rest = str(name).partition("::")
        packet = vars(known(space)).get(rest) if known(space) is not None and space != "aten" else None
        if packet is None:
            raise ValueError(f"export.load: the program calls {shown(name)}, which is not registered; import the "
                             "module that defines it first")
        return packet.default
    found = _FUNCTIONS.get(kind, {}).get(name)
    if found is None:
        raise ValueError(f"export.load: the file names the function {shown(name)}, which this version does not have")
    return found


# ---- arguments -------------------------------------------------------------------------------------------------------

def _value(x):
    """Of an argument of a Node."""
    if isinstance(x, Node):
        return {"node": x.name}
    if x is None or isinstance(x, (bool, int, str)):
        return x
    if isinstance(x, float):
        return {"float": x.hex()}
    if isinstance(x, complex):
        return {"complex": [x.real.hex(), x.imag.hex()]}
    if isinstance(x, (tuple, list)):
        return {"tuple" if isinstance(x, tuple) else "list": [_value(y) for y in x]}
    if isinstance(x, dict):
        return {"dict": [[_value(k), _value(v)] for k, v in x.items()]}
    if isinstance(x, slice):
        return {"slice": [_value(y) for y in (x.start, x.stop, x.step)]}
    if isinstance(x, _C.dtype):
        return {"dtype": str(x).removeprefix("torch.")}
    if isinstance(x, _C.device):
        return {"device": str(x)}
    if isinstance(x, _C.memory_format):
        return {"format": repr(x)}
    if x is ...:
        return {"ellipsis": True}
    raise NotImplementedError(f"export.save: an argument in the graph is a {class_name(type(x))}, which no file holds")


def _read_value(data, nodes):
    if not isinstance(data, dict):
        return data
    (kind, inner), = data.items()

    def of(x):
        return _read_value(x, nodes)

    return {"node": lambda: nodes[inner], "float": lambda: float.fromhex(inner),
            "complex": lambda: complex(*map(float.fromhex, inner)), "tuple": lambda: tuple(map(of, inner)),
            "list": lambda: [of(x) for x in inner], "dict": lambda: {of(k): of(v) for k, v in inner},
            "slice": lambda: slice(*map(of, inner)), "dtype": lambda: _DTYPES[inner],
            "device": lambda: _C.device(inner), "format": lambda: _FORMATS[inner], "ellipsis": lambda: ...}[kind]()


def _tree(spec):
    """A spec as a tree of lists: containers, and "*" for leaves."""
    def of(x):
        if type(x) in (tuple, list):
            return [type(x).__name__, *map(of, x)]
        if type(x) is dict:
            return ["dict", *([key if isinstance(key, (int, str)) else _no_key(key), of(v)] for key, v in x.items())]
        if x is spec:
            return "*"
        raise NotImplementedError(f"export.save: arguments and results in a {class_name(type(x))} cannot be written; "
                                  "use tuples, lists and dicts")

    return of(spec.unflatten([spec] * spec.num_leaves))


def _no_key(key):
    raise NotImplementedError(f"export.save: a key of a dict is a {class_name(type(key))}; use str or int")


def _read_tree(data):
    def of(x):
        if x == "*":
            return 0
        kind, *items = x
        return {"tuple": lambda: tuple(map(of, items)), "list": lambda: [of(i) for i in items],
                "dict": lambda: {key: of(v) for key, v in items}}[kind]()

    return tree_structure(of(data))


# ---- graphs ----------------------------------------------------------------------------------------------------------

def _val(x, env):
    """What is known of a Node's value."""
    if isinstance(x, SymInt):
        return {"int": _expr(x.node.expr)}
    if not isinstance(x, _C.Tensor) or x.layout is not _C.strided:
        return None
    sizes = getattr(x, "symbolic_sizes", None)
    rows = (sizes, x.symbolic_strides) if sizes is not None else (map(constant, x.shape), map(constant, x.stride()))
    return {"tensor": [[_expr(env.replace(e)) for e in row] for row in rows], "dtype": _value(x.dtype),
            "device": str(x.device), "requires_grad": x.requires_grad}


def _graph(module, env, path, tensors):
    """A GraphModule: its Nodes, and the graphs that they have as arguments."""
    nodes, inner = [], {}
    for node in module.graph.nodes:
        target = node.target if node.op != "call_function" else _target(node.target)
        if node.op == "get_attr":
            held = getattr(module, node.target)
            if isinstance(held, _C.Tensor):
                tensors[f"{path}{node.target}"] = held
            else:
                body = held if isinstance(held, GraphModule) else held.body
                inner[node.target] = {"flat": body is not held,
                                      "graph": _graph(body, env, f"{path}{node.target}.", tensors)}
        elif node.op not in ("placeholder", "call_function", "output"):
            raise NotImplementedError(f"export.save: the graph has a {node.op} of {shown(node.target)}; exported "
                                      "graphs call operators alone")
        nodes.append({"op": node.op, "name": node.name, "target": target, "args": _value(tuple(node.args)),
                      "kwargs": _value(dict(node.kwargs)), "val": _val(node.meta.get("val"), env)})
    return {"nodes": nodes, "graphs": inner}


def _read_val(data, fake):
    if data is None:
        return None
    env = fake.shape_env
    if "int" in data:
        return env.create_symintnode(_read_expr(data["int"]))
    sizes, strides = ([_read_expr(e) for e in row] for row in data["tensor"])
    example = [[env.at(e, env.trials()[-1]) for e in row] for row in (sizes, strides)]
    tensor = OPS["empty_strided"](*example, dtype=_read_value(data["dtype"], {}), device="meta")
    if all(e.is_number for e in (*sizes, *strides)):
        return fake.from_tensor(tensor, static_shapes=True)
    return SymbolicTensor(tensor, _C.device(data["device"]), fake, tuple(sizes), tuple(strides), constant(0))


def _read_graph(data, fake, path, tensors):
    root, graph, nodes = flambeau.nn.Module(), Graph(), {}
    for name, held in data["graphs"].items():
        body = _read_graph(held["graph"], fake, f"{path}{name}.", tensors)
        setattr(root, name, flambeau.fx.experimental._control_flow._Flat(body) if held["flat"] else body)
    for each in data["nodes"]:
        op, target = each["op"], each["target"]
        if op == "get_attr" and f"{path}{target}" in tensors:
            root.register_buffer(target, tensors[f"{path}{target}"])
        elif op not in ("placeholder", "call_function", "output", "get_attr"):
            raise ValueError(f"export.load: the file has a node of the kind {shown(op)}")
        node = graph.create_node(op, _read_target(target) if op == "call_function" else str(target),
                                 _read_value(each["args"], nodes), _read_value(each["kwargs"], nodes), each["name"])
        node.meta["val"] = _read_val(each["val"], fake)
        nodes[each["name"]] = node
    return GraphModule(root, graph, "GraphModule")


# ---- signatures ------------------------------------------------------------------------------------------------------

_ARGUMENTS = {"tensor": TensorArgument, "int": SymIntArgument, "constant": ConstantArgument}


def _argument(arg):
    kind = next(k for k, cls in _ARGUMENTS.items() if isinstance(arg, cls))
    return [kind, arg.name, *([_value(arg.value)] if kind == "constant" else [])]


def _read_argument(data):
    kind, name, *value = data
    return _ARGUMENTS[kind](name, *(_read_value(v, {}) for v in value))


def _signature(program):
    signature = program.graph_signature
    entry = program.module_call_graph[0].signature
    return {"inputs": [[s.kind.name, _argument(s.arg), s.target, s.persistent] for s in signature.input_specs],
            "outputs": [[s.kind.name, _argument(s.arg), s.target] for s in signature.output_specs],
            "in_spec": _tree(entry.in_spec), "out_spec": _tree(entry.out_spec), "names": entry.forward_arg_names}


def _read_signature(data):
    inputs = [InputSpec(InputKind[kind], _read_argument(arg), target, persistent)
              for kind, arg, target, persistent in data["inputs"]]
    outputs = [OutputSpec(OutputKind[kind], _read_argument(arg), target) for kind, arg, target in data["outputs"]]
    user = [s.arg for s in inputs if s.kind is InputKind.USER_INPUT]
    call = ModuleCallSignature(user, [s.arg for s in outputs], _read_tree(data["in_spec"]),
                               _read_tree(data["out_spec"]), list(data["names"]))
    return ExportGraphSignature(inputs, outputs), [ModuleCallEntry("", call)]


def _checks(checks):
    inputs = [[name, ["value", _value(what[1])] if not isinstance(what, Poly) and what and what[0] == "value" else
               ["int", _expr(what)] if isinstance(what, Poly) else ["sizes", [_expr(e) for e in what]]]
              for name, what in checks.inputs]
    ranges = [[s.name, r.lower, None if r.upper == INFINITE else r.upper] for s, r in checks.ranges.items()]
    return {"inputs": inputs, "ranges": ranges, "guards": [_expr(g) for g in checks.guards]}


def _read_checks(data):
    inputs = []
    for name, (kind, what) in data["inputs"]:
        inputs.append((name, ("value", _read_value(what, {})) if kind == "value" else _read_expr(what)
                       if kind == "int" else tuple(map(_read_expr, what))))
    ranges = {Symbol(name): ValueRanges(low, INFINITE if high is None else high) for name, low, high in data["ranges"]}
    return InputChecks(inputs, ranges, [_read_expr(g) for g in data["guards"]])


# ---- save and load ---------------------------------------------------------------------------------------------------

def _bound(number):
    """A bound of a range in a file: none where it is infinite."""
    return None if math.isinf(number) else number


def _tensors(value):
    held = io.BytesIO()
    save_tensors(value, held)
    return held.getvalue()


def save(ep, f, *, extra_files=None, opset_version=None, pickle_protocol=2):
    """Writes an exported program to a file: the graph as data, the weights, the example arguments.

    f            a path or a file opened for writing bytes
    extra_files  {name: text or bytes} to keep with it
    opset_version, pickle_protocol: not available, leave them out

    >>> import flambeau, io
    >>> program = flambeau.export.export(flambeau.nn.Linear(2, 3), (flambeau.ones(4, 2),))
    >>> file = io.BytesIO()
    >>> flambeau.export.save(program, file)
    >>> again = flambeau.export.load(io.BytesIO(file.getvalue()))
    >>> again.graph_module.code == program.graph_module.code
    True
    """
    if not isinstance(ep, ExportedProgram):
        raise TypeError(f"export.save: expected an ExportedProgram, got {class_name(type(ep))}")
    if opset_version is not None or pickle_protocol != 2:
        raise NotImplementedError("export.save: opset_version and pickle_protocol are not available; leave them out")
    env, tensors = getattr(ep.graph_module, "shape_env", None) or ShapeEnv(), {}
    data = {"version": _VERSION, "graph": _graph(ep.graph_module, env, "", tensors), "signature": _signature(ep),
            "checks": _checks(ep._checks),
            "sizes": [[s.name, env.var_to_val.get(s), *map(_bound, span)] for s, span in env.var_to_range.items()]}
    entries = {_ENTRIES["program"]: json.dumps(data), _ENTRIES["state"]: _tensors(dict(ep.state_dict)),
               _ENTRIES["constants"]: _tensors({"constants": dict(ep.constants), "graphs": tensors}),
               _ENTRIES["examples"]: _tensors(ep.example_inputs)}
    entries |= {f"extra/{name}": content for name, content in (extra_files or {}).items()}
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w", zipfile.ZIP_STORED) as archive:
        for name, content in entries.items():
            archive.writestr(name, content)
    if isinstance(f, (str, os.PathLike)):
        with open(f, "wb") as file:
            file.write(held.getvalue())
    else:
        f.write(held.getvalue())


def load(f, *, extra_files=None, expected_opset_version=None):
    """Reads a program that `save` wrote. Nothing in a file is run: functions are found by name in the tables of this
    library.

    f            a path or a file opened for reading bytes
    extra_files  {name: anything}: its values become the texts that were kept under these names

    ValueError for a file that is damaged, or of another kind or version.
    """
    if expected_opset_version is not None:
        raise NotImplementedError("export.load: expected_opset_version is not available; leave it out")
    if isinstance(f, (str, os.PathLike)):
        with open(f, "rb") as file:
            return _loaded(file, extra_files)
    return _loaded(f, extra_files)


def _loaded(file, extra_files):
    try:
        with zipfile.ZipFile(file) as archive:
            if any(info.compress_type != zipfile.ZIP_STORED for info in archive.infolist()):
                raise ValueError("export.load: the file has compressed parts, which export.save does not write")
            parts = {key: archive.read(name) for key, name in _ENTRIES.items()}
            for name in extra_files or ():
                extra_files[name] = archive.read(f"extra/{name}").decode()
        data = json.loads(parts["program"])
        if data["version"] != _VERSION:
            raise ValueError(f"export.load: the file has version {shown(data['version'])}, and {_VERSION} is known")
        return _program(data, {key: load_tensors(io.BytesIO(part)) for key, part in parts.items() if key != "program"})
    except (zipfile.BadZipFile, KeyError, TypeError, IndexError, AttributeError, RecursionError,
            UnicodeDecodeError, json.JSONDecodeError) as error:
        raise ValueError("export.load: the file is damaged, or was not written by export.save") from error


def _program(data, tensors):
    env = ShapeEnv(duck_shape=False)
    checks = _read_checks(data["checks"])
    for name, example, low, high in data["sizes"]:
        span = -INFINITE if low is None else low, INFINITE if high is None else high
        env.adopt(Symbol(str(name)), span, example)
    constants = tensors["constants"]
    module = _read_graph(data["graph"], FakeTensorMode(shape_env=env), "", constants["graphs"])
    module.shape_env = env
    signature, calls = _read_signature(data["signature"])
    return ExportedProgram(module, module.graph, signature, tensors["state"], checks.ranges, calls,
                           tensors["examples"], constants["constants"], checks=checks)

