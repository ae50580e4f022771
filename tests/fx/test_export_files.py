"""Files of exported programs: what they keep, what they refuse, and that nothing in them is run."""

import contextlib
import dataclasses
import io
import json
import random
import zipfile
from collections import namedtuple
from pathlib import Path

import pytest

import flambeau
from flambeau import nn
from flambeau.export import Dim, _files, _payload, export, load, save
from flambeau.utils import _pytree

from ..parity.exported_programs import programs
from .test_export import Net, written
from .test_unflatten import copied, same

PROGRAMS = programs(flambeau)
PYTORCH = Path(__file__).with_name("pytorch_programs")


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_are_read_as_they_were(name):
    """They give the same, ask the same of their arguments, and are written again as the same bytes."""
    make, args, shapes = PROGRAMS[name]
    program = export(make(), args, dynamic_shapes=shapes)
    content = written(program)
    again = load(io.BytesIO(content))
    assert again.range_constraints == program.range_constraints and again.dialect == "TRAINING"
    assert str(again.graph_signature) == str(program.graph_signature) and again.call_spec == program.call_spec
    assert [e.fqn for e in again.module_call_graph] == [e.fqn for e in program.module_call_graph]
    assert same(again.module()(*copied(args)), program.module()(*copied(args)))
    second = written(load(io.BytesIO(content)))
    assert written(load(io.BytesIO(second))) == second


@pytest.mark.parametrize("path", sorted(PYTORCH.glob("*.pt2")), ids=lambda path: path.stem)
def test_programs_that_pytorch_wrote(path):
    """Files of PyTorch 2.13, without the lines that made their steps: they give what the same functions give here."""
    make, args, _ = PROGRAMS[path.stem.removesuffix("_decomposed")]
    program = load(path)
    assert program.dialect == ("ATEN" if "decomposed" in path.stem else "TRAINING")
    args, _ = program.example_inputs if program.example_inputs is not None else (args, {})
    given, again = copied(args), copied(args)
    assert same(program.module()(*given), make()(*again)) and same(given, again)
    assert same(flambeau.export.unflatten(load(path))(*copied(args)), make()(*copied(args)))
    assert same(load(path).run_decompositions().module()(*copied(args)), make()(*copied(args)))
    assert same(load(io.BytesIO(written(load(path)))).module()(*copied(args)), make()(*copied(args)))


def test_what_pytorchs_programs_ask_of_their_arguments():
    program = load(PYTORCH / "sizes.pt2")
    module = program.module()
    for rows in (4, 6, 10):
        assert module(flambeau.randn(rows, 3), flambeau.randn(9, 3))[0].shape == (rows // 2, 3)
    with pytest.raises(AssertionError, match="the program is for sizes with"):
        module(flambeau.randn(7, 3), flambeau.randn(9, 3))
    with pytest.raises(AssertionError, match=r"shape\[1\] must be 3"):
        module(flambeau.randn(8, 4), flambeau.randn(9, 3))
    values = load(PYTORCH / "values.pt2").module()
    with pytest.raises(RuntimeError, match="does not hold"):
        values(flambeau.randn(4, 6), flambeau.tensor(5))


def test_tensors_lie_as_bytes_at_multiples_of_64():
    """Where they lie is known when they are written; tensors of one memory are one entry."""
    first, last = nn.Linear(3, 2), nn.Linear(3, 2)
    last.weight = nn.Parameter(first.weight.detach())
    state = nn.Sequential(first, nn.Linear(2, 3), last).state_dict()
    file = io.BytesIO(b"before")
    file.seek(6)
    places = _payload.write(_files._Archive(file, "top"), "weights", "model", state)
    content = file.getvalue()[6:]
    for name, tensor in state.items():
        start = places[name].start
        assert start % 64 == 0 and content[start:start + 4 * tensor.numel()] == tensor.numpy().tobytes()
    assert places["0.weight"].entry == places["2.weight"].entry != places["0.bias"].entry
    with zipfile.ZipFile(io.BytesIO(written(export(first, (flambeau.ones(1, 3),))))) as archive:
        assert all(info.compress_type == zipfile.ZIP_STORED for info in archive.infolist())


def test_all_kinds_of_tensors():
    class Holds(nn.Module):
        def __init__(self):
            super().__init__()
            base = flambeau.arange(12.0).reshape(3, 4)
            self.register_buffer("rows", base.t()[1:])
            self.register_buffer("column", base[:, 1])
            self.register_buffer("none", flambeau.zeros(0, 3))
            self.register_buffer("short_ones", flambeau.ones(2, dtype=flambeau.bfloat16))
            self.register_buffer("sparse", flambeau.eye(3).to_sparse())
            self.register_buffer("waves", flambeau.ones(2, dtype=flambeau.complex64).conj())
            self.frozen = nn.Parameter(flambeau.ones(1), requires_grad=False)

        def forward(self, x):
            return x + self.column.sum() + self.frozen

    program = export(Holds(), (flambeau.ones(2),))
    again = load(io.BytesIO(written(program)))
    for name, value in program.state_dict.items():
        found = again.state_dict[name]
        assert found.layout == value.layout and found.dtype == value.dtype
        assert found.requires_grad == value.requires_grad
        assert type(found) is type(value) and flambeau.equal(found.to_dense(), value.to_dense())
    assert again.state_dict["rows"].stride() == program.state_dict["rows"].stride()
    again.state_dict["column"].zero_()
    assert again.state_dict["rows"][0].tolist() == [0, 0, 0]


Pair = namedtuple("Pair", "first second")


def test_containers_with_names():
    class Pairs(nn.Module):
        def forward(self, pair):
            return Pair(pair.first + 1, {"b": pair.second, "a": [pair.first]})

    program = export(Pairs(), (Pair(flambeau.ones(1), flambeau.zeros(1)),))
    with pytest.raises(NotImplementedError, match="has no name for files"):
        written(program)
    if Pair not in _pytree._register.NAMED.values():
        _pytree._register_namedtuple(Pair, serialized_type_name="tests.Pair")
    result = load(io.BytesIO(written(program))).module()(Pair(flambeau.ones(1), flambeau.zeros(1)))
    assert isinstance(result, Pair) and list(result.second) == ["b", "a"] and result.first.item() == 2


def test_dataclasses_with_names():
    @dataclasses.dataclass
    class Both:
        a: flambeau.Tensor
        b: flambeau.Tensor

    class Swaps(nn.Module):
        def forward(self, both):
            return Both(both.b, both.a + 1)

    flambeau.export.register_dataclass(Both, serialized_type_name="tests.Both")
    both = Both(flambeau.ones(2), flambeau.zeros(2))
    result = load(io.BytesIO(written(export(Swaps(), (both,))))).module()(both)
    assert isinstance(result, Both) and result.b.tolist() == [2, 2]


def test_versions_of_operators():
    file = io.BytesIO()
    save(export(Net(), (flambeau.randn(5, 4),)), file, opset_version={"mine": 3})
    load(file, expected_opset_version={"mine": 3, "aten": 10})
    with pytest.raises(ValueError, match="have version 3 in the file, not 4"):
        load(file, expected_opset_version={"mine": 4})
    with pytest.raises(TypeError, match="opset_version"):
        save(export(Net(), (flambeau.randn(5, 4),)), io.BytesIO(), opset_version={"mine": "3"})


def test_operators_of_ones_own():
    @flambeau.library.custom_op("tests_export::scaled", mutates_args=())
    def scaled(x: flambeau.Tensor, factor: float, sizes: list[int], *, shift: int = 0) -> flambeau.Tensor:
        return (x * factor + shift).expand(sizes).clone()

    @scaled.register_fake
    def _(x, factor, sizes, *, shift=0):
        return x.new_empty(sizes)

    class Scales(nn.Module):
        def forward(self, x):
            return flambeau.ops.tests_export.scaled(x, 2.5, [1, 2], shift=1)

    content = written(export(Scales(), (flambeau.ones(2),)))
    assert load(io.BytesIO(content)).module()(flambeau.ones(2)).tolist() == [[3.5, 3.5]]


def test_operators_that_only_this_library_has():
    """They keep all their arguments, those given one by one included."""
    class Own(nn.Module):
        def forward(self, x):
            return flambeau.block_diag(x, x, x), flambeau.cartesian_prod(x[0], x[1]), flambeau.fft.rfft(x)

    x = flambeau.randn(2, 3)
    program = export(Own(), (x,))
    for again in (program, program.run_decompositions()):
        assert same(load(io.BytesIO(written(again))).module()(x), Own()(x))


def test_files_keep_what_was_given_with_them(tmp_path):
    program = export(Net(), (flambeau.randn(5, 4),))
    save(program, tmp_path / "net.pt2", extra_files={"note": "hello"})
    extra = {"note": None}
    again = load(tmp_path / "net.pt2", extra_files=extra)
    assert extra == {"note": "hello"} and flambeau.equal(again.example_inputs[0][0], program.example_inputs[0][0])
    assert isinstance(again.state_dict["first.weight"], nn.Parameter)


def changed(change):
    """A file whose text was changed."""
    new = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(written(export(Net(), (flambeau.randn(5, 4),))))) as old, \
            zipfile.ZipFile(new, "w") as archive:
        for name in old.namelist():
            content = old.read(name)
            if name.endswith("model.json"):
                data = json.loads(content)
                change(data)
                content = json.dumps(data).replace('"DEEP"', "[" * 9000 + "]" * 9000)
            archive.writestr(name, content)
    return io.BytesIO(new.getvalue())


def graph_of(data):
    return data["graph_module"]["graph"]


def calls(target):
    return lambda data: graph_of(data)["nodes"][0].update(target=target)


def size(text):
    """Changes a size of the argument."""
    def change(data):
        graph_of(data)["tensor_values"]["x"]["sizes"][0] = {"as_expr": {"expr_str": text, "hint": None}}

    return change


def entry(data):
    return data["graph_module"]["module_call_graph"][0]["signature"]


@pytest.mark.parametrize("change, error, words", [
    (calls("os.system"), ValueError, "does not have"), (calls("math.__import__"), ValueError, "does not have"),
    (calls("_operator.getitem"), ValueError, "does not have"), (calls("torch.save"), ValueError, "does not have"),
    (calls("torch.ops.aten.no_such.default"), NotImplementedError, "not available"),
    (calls("torch.ops.flambeau.no_such.default"), NotImplementedError, "not available"),
    (calls("torch.ops.os.system"), NotImplementedError, "not registered"),
    (calls("torch.ops.aten.__class__.default"), NotImplementedError, "not available"),
    (calls("torch.ops.torchvision._register.default"), NotImplementedError, "not registered"),
    (lambda data: data["schema_version"].update(major=99), ValueError, "version 99"),
    (lambda data: data["graph_module"].pop("graph"), ValueError, "damaged"),
    (lambda data: graph_of(data)["outputs"].pop(), ValueError, "does not fit"),
    (lambda data: graph_of(data)["nodes"].pop(0), ValueError, "before it is made"),
    (lambda data: graph_of(data)["nodes"][0]["inputs"][0].update(arg={"eval": "1"}), ValueError, "of the kind"),
    (size("eval(Integer(1))"), ValueError, "no function of sizes"),
    (size("Symbol('s0').x"), ValueError, "than a function"),
    (size("Symbol(__import__('os'))"), ValueError, "number or name"), (size("1 +"), ValueError, "no expression"),
    (size("Pow(Integer(9), Integer(999999999))"), ValueError, "too large"),
    (size("FloorDiv(Integer(9), Integer(0))"), ValueError, "by zero"),
    (lambda data: data.update(guards_code=["L['x'].size()[0] == __import__('os')"]), NotImplementedError, "condition"),
    (lambda data: data.update(guards_code=["L['y'].size()[0] == 2"]), NotImplementedError, "condition"),
    (lambda data: entry(data).update(in_spec='[1, {"type": "os.system", "context": "", "children_spec": []}]'),
     NotImplementedError, "no class is registered"),
    (lambda data: entry(data).update(in_spec="[1, 2]"), ValueError, "damaged")])
def test_hostile_files_are_refused(change, error, words):
    with pytest.raises(error, match=words):
        load(changed(change))
    load(changed(lambda data: None))


def test_files_of_other_kinds():
    for content in (b"", b"no archive", flambeau.randn(3).numpy().tobytes()):
        with pytest.raises(ValueError, match=r"export\.load"):
            load(io.BytesIO(content))
    with pytest.raises(TypeError, match="ExportedProgram"):
        save(Net(), io.BytesIO())


def injected(data, marker):
    """Each place of a text whose content becomes a part of Python's code, with a call in it."""
    call = f"__import__('pathlib').Path({marker!r}).touch()"
    graph, module = data["graph_module"]["graph"], data["graph_module"]
    step = graph["nodes"][0]
    yield step["inputs"][0], "name", f"a=1, b={call}, c"
    yield step, "name", f"x = {call}; y"
    yield graph["inputs"][-1]["as_tensor"], "name", f"x={call}"
    yield step["outputs"][0]["as_tensor"], "name", f"x; {call}"
    yield module["module_call_graph"][0]["signature"], "forward_arg_names", [f"x={call}"]
    yield module["signature"]["input_specs"][0]["parameter"], "parameter_name", f'x", {call}, "'
    yield module["module_call_graph"][0]["signature"], "in_spec", json.dumps([1, {
        "type": "collections.defaultdict", "context": {"default_factory_module": "os", "default_factory_name": "getcwd",
                                                       "dict_context": []}, "children_spec": []}])
    yield step, "metadata", {"stack_trace": f"\n{call}\n", "nn_module_stack": f"\n{call},,x", "torch_fn": call}


@pytest.mark.parametrize("k", range(8))
def test_names_never_become_code(tmp_path, k):
    marker = tmp_path / "marker"

    def change(data):
        place, key, value = list(injected(data, str(marker)))[k]
        place[key] = value
        if k == 0:
            place["kind"] = 2

    with contextlib.suppress(ValueError, NotImplementedError, RuntimeError, TypeError, KeyError):
        program = load(changed(change))
        str(program)
        program.module()(flambeau.randn(5, 4))
        flambeau.export.unflatten(program)(flambeau.randn(5, 4))
        program.run_decompositions().module()(flambeau.randn(5, 4))
    assert not marker.exists()


@pytest.mark.parametrize("text", [
    "Add(" * 4000 + "Integer(1)" + ")" * 4000, "(" * 5000, "Mul(" + ", ".join(
        f"Add(Symbol('s{k}'), Symbol('s{k + 1}'), Integer(1))" for k in range(40)) + ")"])
def test_expressions_without_end(text):
    with pytest.raises(ValueError, match=r"export\.load"):
        load(changed(size(text)))


def test_texts_without_end():
    with pytest.raises(ValueError, match=r"export\.load"):
        load(changed(lambda data: data.update(more="DEEP")))


def test_names_of_attributes_are_quoted():
    name = """x") or print("no") or ("'"""
    root = nn.Module()
    root._buffers[name] = flambeau.ones(1)
    graph = flambeau.fx.Graph()
    graph.output(graph.get_attr(name))
    assert flambeau.fx.GraphModule(root, graph)() is root._buffers[name]


# ---- files that were changed by accident, or not ---------------------------------------------------------------------

def outcome(content):
    """What reading a file gives: a program, or an error that a user can act on."""
    try:
        return load(io.BytesIO(content))
    except (ValueError, NotImplementedError) as error:
        assert "export.load" in str(error) or "treespec_loads" in str(error) or "load:" in str(error), error
        return None


def test_damaged_files_are_refused():
    content = written(export(Net(), (flambeau.randn(5, 4),), dynamic_shapes=({0: Dim("batch")},)))
    numbers = random.Random(0)
    for _ in range(150):
        outcome(content[:numbers.randrange(len(content))])
        flipped = bytearray(content)
        for _ in range(numbers.choice((1, 1, 1, 8))):
            flipped[numbers.randrange(len(content))] ^= 1 << numbers.randrange(8)
        outcome(bytes(flipped))
    assert outcome(content) is not None


STRANGE = (None, True, -1, 0, 1 << 70, 2.5, "", "x", "__class__", [], {}, [[]], {"as_int": -5},
           {"as_tensor": {"name": "x"}}, {"as_expr": {"expr_str": "Symbol('s0')", "hint": None}}, "os.system",
           "torch.ops.aten.add.Tensor")


def places(data, path=()):
    """The paths of everything in a text."""
    items = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for key, value in items:
        yield (*path, key)
        yield from places(value, (*path, key))


@pytest.mark.parametrize("name", ["mlp", "sizes", "branches", "trees"])
def test_texts_that_say_something_else(name):
    """Each part of a program's text in turn is something else: reading it never fails otherwise than by an error."""
    make, args, shapes = PROGRAMS[name]
    content = written(export(make(), args, dynamic_shapes=shapes))
    with zipfile.ZipFile(io.BytesIO(content)) as old:
        entries = {entry: old.read(entry) for entry in old.namelist()}
    text = next(entry for entry in entries if entry.endswith("model.json"))
    numbers = random.Random(1)
    everything = list(places(json.loads(entries[text])))
    for path in numbers.sample(everything, 150):
        data = json.loads(entries[text])
        held = data
        for key in path[:-1]:
            held = held[key]
        held[path[-1]] = numbers.choice(STRANGE)
        new = io.BytesIO()
        with zipfile.ZipFile(new, "w") as archive:
            for entry, value in entries.items():
                archive.writestr(entry, json.dumps(data) if entry == text else value)
        outcome(new.getvalue())
