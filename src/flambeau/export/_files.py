"""Files of exported programs: PyTorch's archives of `.pt2`, written and read as data (_schema.py lists the entries).

What a program calls is looked up in tables, expressions are parsed, tensors are bytes: nothing in a file is run.
"""

import contextlib
import json
import os
from sys import byteorder

from .. import _C
from .._files.archive import Zip, as_bytes
from .._files.loader import UnpicklingError
from .._files.replacing import replacing
from .._files.zip_writer import ZipWriter
from .._shown import class_name, shown
from .._symbolic.expressions import constant
from .._symbolic.shape_env import ShapeEnv
from .._symbolic.statements import INFINITE
from . import _guards, _payload
from ._checks import InputChecks, ValueRanges
from ._native import native_program
from ._reading import GraphReader, Sizes, read_ranges
from ._schema import OPSET, RELEASE, VERSION
from ._signature import SignatureReader, write_calls, write_signature
from ._writing import GraphWriter, Lifted
from .exported_program import ExportedProgram
from .graph_signature import (
    ConstantArgument,
    ExportGraphSignature,
    InputKind,
    InputSpec,
    OutputKind,
    TensorArgument,
)

_MODEL = "model"
_DAMAGED = (KeyError, TypeError, IndexError, AttributeError, ValueError, RecursionError, OverflowError, MemoryError)


# ---- writing ---------------------------------------------------------------------------------------------------------

class _Archive:
    """The archive that is written: all entries lie in one folder."""

    def __init__(self, file, top):
        self.zip, self.top = ZipWriter(file), top

    def put(self, entry, content):
        """Adds an entry; where its bytes begin in the archive."""
        self.zip.put(f"{self.top}/{entry}", content)
        return self.zip.at - len(content)


def save(ep, f, *, extra_files=None, opset_version=None, pickle_protocol=2):
    """Writes an exported program to a file that `load` reads, here and in PyTorch: the graph as data, the weights, and
    the example arguments where they are plain data.

    PyTorch reads a file whose operators it has: those that only this library has are written by their names here.

    f                a path, which is replaced as a whole, or a file opened for writing bytes
    extra_files      {name: text or bytes} to keep with it
    opset_version    {namespace: number} to write beside that of `aten`
    pickle_protocol  of the example arguments: 2

    >>> import flambeau, io
    >>> program = flambeau.export.export(flambeau.nn.Linear(2, 3), (flambeau.ones(4, 2),))
    >>> file = io.BytesIO()
    >>> flambeau.export.save(program, file)
    >>> again = flambeau.export.load(io.BytesIO(file.getvalue()))
    >>> flambeau.equal(again.module()(flambeau.ones(4, 2)), program.module()(flambeau.ones(4, 2)))
    True
    """
    if not isinstance(ep, ExportedProgram):
        raise TypeError(f"export.save: expected an ExportedProgram, got {class_name(type(ep))}")
    if pickle_protocol != 2:
        raise NotImplementedError(f"export.save: pickle_protocol must be 2, got {shown(pickle_protocol)}; leave it out")
    versions = {"aten": OPSET} | dict(opset_version or {})
    if not all(isinstance(k, str) and type(v) is int for k, v in versions.items()):
        raise TypeError(f"export.save: opset_version must be {{namespace: number}}, got {shown(opset_version)}")
    program = _program_data(ep, versions)
    if hasattr(f, "write"):
        _write(ep, program, f, "archive", extra_files)
        return
    path = os.fsdecode(f)
    top = os.path.splitext(os.path.basename(path))[0].encode(errors="replace").decode() or "archive"
    with replacing(path) as file:
        _write(ep, program, file, top, extra_files)


def _write(ep, program, file, top, extra):
    data, constants = program
    archive = _Archive(file, top)
    places = _payload.write(archive, "weights", _MODEL, ep.state_dict)
    constant_places = _payload.write(archive, "constants", _MODEL, constants)
    entries = {_C.storage_id(t): f"{top}/{found[name].entry}" for held, found in (
        (constants, constant_places), (ep.state_dict, places)) for name, t in held.items() if t.layout is _C.strided}

    def place(t):
        number = _C.storage_id(t)
        if number not in entries:  # a constant that only the parts of a step have
            entries[number] = f"{top}/native/data/{len(entries)}"
            archive.zip.put(entries[number], as_bytes(_C.storage_bytes(t)))
        return entries[number], 0

    words, plans = native_program(ep, place)
    archive.put("native/program", words)
    archive.put("native/plans", plans)
    content = json.dumps(data, allow_nan=False).encode()
    archive.put(f"models/{_MODEL}.json", content)
    archive.put(f"data/sample_inputs/{_MODEL}.pt", _example_bytes(ep.example_inputs))
    for name, text in (extra or {}).items():
        archive.put(f"extra/{name}", text.encode() if isinstance(text, str) else text)
    archive.put("archive_format", b"pt2")
    archive.put("archive_version", b"0")
    archive.put("byteorder", byteorder.encode())
    archive.put(".data/version", b"6\n")
    archive.put(".data/serialization_id", f"{_C.crc32(content):040d}".encode())
    archive.zip.finish()


def _program_data(ep, versions):
    """(the text of a program, {name: tensor} of its constants)."""
    module = ep.graph_module
    env = getattr(module, "shape_env", None) or ShapeEnv()
    lifted = Lifted()
    writer = GraphWriter(module, env, lifted)
    specs = ep.graph_signature.input_specs
    graph = writer.write({s.arg.name: s.arg.value for s in specs if isinstance(s.arg, ConstantArgument)})
    first = next((k for k, s in enumerate(specs) if s.kind is InputKind.USER_INPUT), len(specs))
    names = list(lifted.found)
    held = [InputSpec(InputKind.CONSTANT_TENSOR, TensorArgument(name), lifted.found[name][0]) for name in names]
    graph["inputs"][first:first] = [writer.result(name, lifted.found[name][1]) for name in names]
    signature = ExportGraphSignature([*specs[:first], *held, *specs[first:]], ep.graph_signature.output_specs)
    taken = {n.name: writer.name_of(n) for n in module.graph.nodes if n.op == "call_function"}
    data = {"graph_module": {"graph": graph, "signature": write_signature(signature, taken),
                             "module_call_graph": write_calls(ep.module_call_graph, taken), "metadata": {},
                             "treespec_namedtuple_fields": {}},
            "opset_version": versions, "range_constraints": _ranges(ep, writer.names),
            "schema_version": dict(zip(("major", "minor"), VERSION)), "verifiers": [ep.dialect],
            "torch_version": RELEASE, "guards_code": _conditions(ep)}
    return data, ep.constants | {lifted.found[name][0]: lifted.found[name][1].detach() for name in names}


def _example_bytes(examples):
    """The example arguments; nothing where there are none, or objects that are no plain data."""
    with contextlib.suppress(TypeError):
        return _payload.bytes_of(examples) if examples is not None else b""
    return b""


def _ranges(ep, names):
    return {names.name(s): {"min_val": None if r.lower == -INFINITE else r.lower,
                            "max_val": None if r.upper == INFINITE else r.upper}
            for s, r in ep.range_constraints.items()}


def _conditions(ep):
    """The texts of the conditions on its arguments."""
    signature = ep.module_call_graph[0].signature
    arguments = _guards.Arguments(signature.forward_arg_names, signature.in_spec)
    found = []
    for guard in ep._checks.guards:
        text = _guards.write(guard, arguments, [what for _, what in ep._checks.inputs])
        if text is None:
            raise NotImplementedError(f"export.save: the program's condition {shown(guard)} is about more than sizes "
                                      "of its arguments")
        found.append(text)
    return found


# ---- reading ---------------------------------------------------------------------------------------------------------

class _Pt2(Zip):
    """The entries of a file of an exported program."""

    complete = True

    def __init__(self, file, name):
        super().__init__(file, name)
        tops = {path.removesuffix("archive_format") for path in self.entries if path.endswith("/archive_format")}
        if len(tops) != 1:
            raise ValueError(f"export.load: {name} is no file of an exported program")
        self.top = tops.pop()
        words = {"archive_format": b"pt2", "archive_version": b"0", "byteorder": byteorder.encode()}
        for entry, known in words.items():
            found = bytes(self.read(entry)) if self.has(entry) else known
            if found != known:
                raise ValueError(f"export.load: {entry} of {name} is {shown(found)}; this library reads {shown(known)}")

    def has(self, entry):
        """Whether there is such an entry."""
        return self.top + entry in self.entries

    def json(self, entry):
        """The data of a text."""
        return json.loads(bytes(self.read(entry)).decode())

    def model(self):
        """The name of the program."""
        start, end = f"{self.top}models/", ".json"
        names = [path[len(start):-len(end)] for path in self.entries if path.startswith(start) and path.endswith(end)]
        if _MODEL not in names and len(names) != 1:
            raise ValueError(f"export.load: {self.name} holds the programs {shown(sorted(names))}; expected one")
        return _MODEL if _MODEL in names else names[0]


def load(f, *, extra_files=None, expected_opset_version=None):
    """Reads a program that `save` wrote, here or in PyTorch 2.13. Nothing in a file is run: functions are found by name
    in the tables of this library.

    f                       a path or a file opened for reading bytes
    extra_files             {name: anything}: its values become the texts that were kept under these names
    expected_opset_version  {namespace: number}: ValueError where the file has another

    ValueError for a file that is damaged, or of another kind or version; NotImplementedError that names the operators
    of the program that this library does not have.
    """
    if hasattr(f, "read"):
        return _loaded(f, getattr(f, "name", "the file"), extra_files, expected_opset_version)
    path = os.fsdecode(f)
    with open(path, "rb") as file:
        return _loaded(file, path, extra_files, expected_opset_version)


def _loaded(file, name, extra_files, versions):
    try:
        archive = _Pt2(file, name)
        model = archive.model()
        data = archive.json(f"models/{model}.json")
        found = data["schema_version"]["major"]
        if found != VERSION[0]:
            raise ValueError(f"export.load: the file has version {shown(found)} of the format; {VERSION[0]} is known")
        for space, number in (versions or {}).items():
            if data["opset_version"].get(space) != number:
                raise ValueError(f"export.load: the operators of {shown(space)} have version "
                                 f"{shown(data['opset_version'].get(space))} in the file, not {shown(number)}")
        program = _program(archive, model, data)
        for key in extra_files or ():
            extra_files[key] = bytes(archive.read(f"extra/{key}")).decode()
        return program
    except NotImplementedError:
        raise
    except (RuntimeError, *_DAMAGED) as error:
        if isinstance(error, ValueError) and str(error).startswith("export.load"):
            raise
        raise ValueError(f"export.load: {name} is damaged, or no file of an exported program: {error}") from error


def _program(archive, model, data):
    held, missing = data["graph_module"], {}
    ranges = read_ranges(data["range_constraints"])
    sizes = Sizes(ranges, held["graph"])
    reader = GraphReader(held["graph"], sizes, missing)
    module = reader.read([spec.get("constant_input", {}).get("name") for spec in held["signature"]["input_specs"]])
    _refuse(missing)
    module.shape_env = sizes.env
    signatures = SignatureReader({name: node.name for name, node in reader.nodes.items()})
    signature = signatures.signature(held["signature"])
    calls = signatures.calls(held["module_call_graph"])
    spans = {sizes.symbol(name)[0]: ValueRanges(*span) for name, span in ranges.items()}
    checks = _checks(module, signature, calls, spans, data.get("guards_code", ()))
    program = ExportedProgram(module, module.graph, signature, _payload.read(archive, "weights", model), spans, calls,
                              _examples(archive, model), _payload.read(archive, "constants", model), checks=checks)
    program._dialect = _dialect(data.get("verifiers"))
    _whole(program)
    return program


def _refuse(missing):
    """Says which functions are not there."""
    foreign = [name for name in missing if not name.startswith("torch.ops.")]
    if foreign:
        raise ValueError(f"export.load: the program calls {shown(foreign)}, which this version does not have")
    custom = [name for name in missing if name.split(".")[2] not in ("aten", "higher_order", "flambeau")]
    if missing:
        do = "import the module that defines them first" if custom else \
            "save the program after run_decompositions(), or export the model here"
        raise NotImplementedError(f"export.load: the program calls {shown(list(missing))}, which are not "
                                  f"{'registered' if custom else 'available'}; {do}")


def _checks(module, signature, calls, ranges, texts):
    values = {node.name: node.meta.get("val") for node in module.graph.nodes if node.op == "placeholder"}
    inputs = []
    for spec in signature.input_specs:
        if spec.kind is InputKind.USER_INPUT:
            arg = spec.arg
            inputs.append((arg.name, ("value", arg.value) if isinstance(arg, ConstantArgument) else
                           _sizes(values[arg.name])))
    top = calls[0].signature
    arguments = _guards.Arguments(top.forward_arg_names, top.in_spec)
    guards = [_guards.read(text, arguments, [what for _, what in inputs]) for text in texts]
    return InputChecks(inputs, ranges, guards)


def _sizes(value):
    """What the checks know of an argument: its sizes, or the expression of an open int; None for what has neither."""
    if isinstance(value, _C.Tensor):
        found = getattr(value, "symbolic_sizes", None)
        return tuple(found) if found is not None else tuple(map(constant, value.shape))
    return getattr(getattr(value, "node", None), "expr", None)


def _dialect(verifiers):
    return verifiers[0] if isinstance(verifiers, list) and verifiers and isinstance(verifiers[0], str) else "ATEN"


def _examples(archive, model):
    """The example arguments; None where the file has none, or objects of classes that are not plain data."""
    entry = f"data/sample_inputs/{model}.pt"
    if not archive.has(entry) or not archive.size(entry):
        return None
    with contextlib.suppress(UnpicklingError):
        return _payload.stored(archive, entry)
    return None


def _whole(program):
    """ValueError where the parts of a program do not fit each other."""
    signature, top = program.graph_signature, program.module_call_graph[0].signature
    users = [s for s in signature.input_specs if s.kind is InputKind.USER_INPUT]
    results = [s for s in signature.output_specs if s.kind is OutputKind.USER_OUTPUT]
    placeholders = [n.name for n in program.graph.nodes if n.op == "placeholder"]
    outputs = program.graph.output_node().args[0]
    kept = {InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR}
    absent = [s.target for s in signature.input_specs if s.kind in kept
              and s.target not in program.state_dict and s.target not in program.constants]
    fits = (placeholders == [s.arg.name for s in signature.input_specs] and len(users) == top.in_spec.num_leaves
            and isinstance(outputs, (tuple, list)) and len(outputs) == len(signature.output_specs)
            and len(results) == top.out_spec.num_leaves and not absent)
    if not fits:
        raise ValueError("export.load: the graph of the file does not fit its signature"
                         + (f"; it has no tensors {shown(absent)}" if absent else ""))
