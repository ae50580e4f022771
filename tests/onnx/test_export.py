"""export and ONNXProgram: arguments, names, files, errors, operators of one's own."""

import io
import subprocess
import sys

import pytest

import flambeau
from flambeau import nn
from flambeau.export import Dim
from flambeau.library import custom_op
from flambeau.nn import functional as F
from flambeau.onnx.errors import OnnxExporterError, UnsupportedOperatorError

onnx = pytest.importorskip("onnx", reason="onnx is not installed")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
export = flambeau.onnx.export


@custom_op("exporting::cubed", mutates_args=())
def cubed(x: flambeau.Tensor, scale: float = 1.0) -> flambeau.Tensor:
    return x ** 3 * scale


cubed.register_fake(lambda x, scale=1.0: flambeau.empty_like(x))


class Two(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 3)

    def forward(self, x, pair, scale=2.0, *, flip=False):
        y = self.layer(x + pair["a"]) * scale
        return {"y": y.flip(0) if flip else y, "z": (x.sum(), pair["b"])}


def two_arguments():
    return flambeau.randn(2, 4), {"a": flambeau.randn(2, 4), "b": flambeau.randn(3)}


def names(values):
    return [v.name for v in values]


def dims(value):
    return [d.dim_param or d.dim_value for d in value.type.tensor_type.shape.dim]


def layer():
    flambeau.manual_seed(0)
    return nn.Linear(4, 3)


X = flambeau.linspace(-1, 1, 8).reshape(2, 4)


# ---- arguments and names ---------------------------------------------------------------------------------------------

def test_arguments_are_flat_and_constants_stay_in_the_program():
    model, args = Two(), two_arguments()
    program = export(model, args, kwargs={"flip": True})
    graph = program.model_proto.graph
    assert names(graph.input) == ["x", "pair_a", "pair_b"] and len(graph.output) == 3
    assert flambeau.allclose(program(*args, flip=True)[0], model(*args, flip=True)["y"], atol=1e-6)
    with pytest.raises(ValueError, match="flip is True in the program, got False"):
        program(*args, flip=False)
    with pytest.raises(TypeError, match="arguments are not those"):
        program(args[0])


def test_names_of_inputs_and_results():
    program = export(Two(), two_arguments(), input_names=["left"], output_names=["first", "second"])
    assert names(program.model_proto.graph.input) == ["left", "pair_a", "pair_b"]
    assert names(program.model_proto.graph.output)[:2] == ["first", "second"]


def test_a_weight_of_the_name_of_an_input():
    program = export(layer(), (X,), input_names=["weight"], output_names=["bias"])
    assert names(program.model_proto.graph.input) == ["weight"] and names(program.model_proto.graph.output) == ["bias"]
    onnx.checker.check_model(program.model_proto, full_check=True)
    assert flambeau.allclose(program(X)[0], layer()(X), atol=1e-6)


def test_one_tensor_and_the_older_way_of_named_arguments(tmp_path):
    assert export(layer(), X)(X)[0].shape == (2, 3)
    path = tmp_path / "two.onnx"
    x, pair = two_arguments()
    assert export(Two(), (x, {"pair": pair, "scale": 3.0}), path, dynamo=False) is None
    assert names(onnx.load(path).graph.input) == ["x", "pair_a", "pair_b"]


@pytest.mark.parametrize("said", [
    {"dynamic_shapes": ({0: Dim("rows")},)}, {"dynamic_shapes": ({0: "rows"},)},
    {"dynamic_shapes": {"input": {0: Dim("rows", max=64)}}}, {"dynamic_axes": {"input": {0: "rows"}}},
    {"dynamic_axes": {"input": {0: "rows"}, "out": {0: "rows"}}, "output_names": ["out"]}])
def test_open_sizes(said):
    graph = export(layer(), (X,), **said).model_proto.graph
    assert dims(graph.input[0]) == ["rows", 4] and dims(graph.output[0]) == ["rows", 3]


def test_open_sizes_without_names():
    assert dims(export(layer(), (X,), dynamic_axes={"input": [0]}).model_proto.graph.input[0])[0] == \
        "input_dynamic_axes_1"
    assert dims(export(layer(), (X,), dynamic_shapes=({0: Dim.DYNAMIC},)).model_proto.graph.output[0]) == ["s0", 3]
    odd = export(layer(), (X,), dynamic_axes={"input": {0: "batch size"}})
    assert dims(odd.model_proto.graph.input[0]) == ["batch size", 4]
    odd.rename_axes({"batch size": "n"})
    assert dims(odd.model_proto.graph.output[0]) == ["n", 3]


def test_sizes_that_depend_on_each_other():
    rows = {0: 2 * Dim("pairs", min=1)}
    program = export(lambda x: x.view(-1, 2, 4).sum(1), (flambeau.cat([X, X]),), dynamic_shapes=(rows,))
    graph = program.model_proto.graph
    assert dims(graph.input[0]) == ["2*pairs", 4] and dims(graph.output[0]) == ["pairs", 4]


def test_functions_programs_and_scripts():
    assert export(lambda x: F.relu(x) + 1, (X,))(X)[0].shape == (2, 4)
    program = flambeau.export.export(layer(), (X,), dynamic_shapes=({0: Dim("rows")},))
    assert export(program, verify=True)(flambeau.ones(5, 4))[0].shape == (5, 3)
    with pytest.raises(ValueError, match="already"):
        export(program, dynamic_shapes=({0: "rows"},))
    traced = flambeau.jit.trace(layer(), (X,))
    assert flambeau.allclose(export(traced, (X,))(X)[0], layer()(X), atol=1e-6)


def test_modes():
    model = nn.Sequential(nn.Linear(4, 3), nn.Dropout(0.5), nn.BatchNorm1d(3)).train()
    modes = flambeau.onnx.TrainingMode
    kinds = {mode: {n.op_type for n in export(model, (X,), training=mode).model_proto.graph.node} for mode in modes}
    assert "Dropout" not in kinds[modes.EVAL] and "Dropout" in kinds[modes.TRAINING] == kinds[modes.PRESERVE]
    assert model.training and model[1].training
    seen = []
    export(nn.Sequential(layer(), Seen(seen)), (X,))
    assert seen and all(seen) and not flambeau.onnx.is_in_onnx_export()


class Seen(nn.Module):
    def __init__(self, seen):
        super().__init__()
        self.seen = seen

    def forward(self, x):
        self.seen.append(flambeau.onnx.is_in_onnx_export())
        return x


# ---- files -----------------------------------------------------------------------------------------------------------

def big():
    flambeau.manual_seed(0)
    return nn.Linear(64, 16)


WIDE = flambeau.linspace(-1, 1, 128).reshape(2, 64)


def run_file(path, x):
    import onnxruntime
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    return flambeau.from_numpy(session.run(None, {session.get_inputs()[0].name: x.numpy()})[0])


@pytest.mark.parametrize("options, beside", [({}, True), ({"external_data": False}, False), ({"dynamo": False}, False)])
def test_files(tmp_path, options, beside):
    path = tmp_path / "model.onnx"
    export(big(), (WIDE,), path, **options)
    assert (tmp_path / "model.onnx.data").exists() is beside
    onnx.checker.check_model(str(path), full_check=True)
    assert flambeau.allclose(run_file(str(path), WIDE), big()(WIDE), atol=1e-5)


def test_open_files_and_the_ways_of_save(tmp_path):
    held = io.BytesIO()
    program = export(big(), (WIDE,), held)
    assert onnx.load_from_string(held.getvalue()).graph.node[0].op_type == "Gemm"
    path = str(tmp_path / "again.onnx")
    program.save(path, include_initializers=False)
    bare = onnx.load(path)
    assert not bare.graph.initializer and names(bare.graph.input) == ["input_1", "weight", "bias"]
    program.save(path, keep_initializers_as_inputs=True)
    assert len(onnx.load(path).graph.initializer) == 2 and len(onnx.load(path).graph.input) == 3
    program.model_proto.doc_string = "changed"
    program.save(path, external_data=True)
    assert onnx.load(path).doc_string == "changed"
    assert flambeau.allclose(run_file(path, WIDE), big()(WIDE), atol=1e-5)


def test_weights_as_inputs():
    plain = export(big(), (WIDE,), export_params=False)
    assert names(plain.model_proto.graph.input) == ["input_1", "weight", "bias"]
    assert not plain.model_proto.graph.initializer
    assert flambeau.allclose(plain(WIDE)[0], big()(WIDE), atol=1e-5)
    kept = export(big(), (WIDE,), keep_initializers_as_inputs=True)
    assert len(kept.model_proto.graph.input) == 3 and len(kept.model_proto.graph.initializer) == 2
    assert flambeau.allclose(kept(WIDE)[0], big()(WIDE), atol=1e-5)


def test_what_is_written_about_an_export(tmp_path, capsys):
    export(layer(), (X,), tmp_path / "m.onnx", artifacts_dir=tmp_path, report=True, profile=True, verify=True,
           dump_exported_program=True, verbose=True)
    found = {p.name for p in tmp_path.iterdir()}
    assert found == {"m.onnx", "onnx_export_report.md", "onnx_export_profile.txt", "onnx_export.pt2"}
    assert "1 Gemm" in (tmp_path / "onnx_export_report.md").read_text()
    assert "1 Gemm" in capsys.readouterr().out
    assert flambeau.export.load(tmp_path / "onnx_export.pt2").module()(X).shape == (2, 3)


# ---- the program -----------------------------------------------------------------------------------------------------

def test_running_a_program():
    program = export(nn.Sequential(layer(), nn.ReLU()), (X,))
    wanted = F.relu(layer()(X))
    assert flambeau.allclose(program(X)[0], wanted, atol=1e-6)
    assert flambeau.allclose(program.call_reference(X)[0], wanted, atol=1e-6)
    linear, = program.compute_values([program.model_proto.graph.node[0].output[0]], (X,))
    assert flambeau.allclose(linear, layer()(X), atol=1e-6)
    with pytest.raises(ValueError, match="no values of the names"):
        program.compute_values(["absent"], (X,))
    made = []
    program.release()
    program.initialize_inference_session(lambda model: made.append(model) or flambeau.onnx._run.default_session(model))
    assert flambeau.allclose(program(X)[0], wanted, atol=1e-6) and len(made) == 1


def test_changing_a_program():
    model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2)).eval()
    x = flambeau.randn(1, 1, 5, 5)
    program = export(model, (x,), optimize=False)
    assert [n.op_type for n in program.model_proto.graph.node] == ["Conv", "BatchNormalization"]
    program.optimize()
    assert [n.op_type for n in program.model_proto.graph.node] == ["Conv"]
    assert flambeau.allclose(program(x)[0], model(x), atol=1e-5)
    before = {k: v.clone() for k, v in model.state_dict().items()}
    program.apply_weights({"0.bias": flambeau.tensor([5.0, 6.0])})
    assert flambeau.allclose(program(x)[0].mean((2, 3)) - model(x).mean((2, 3)),
                             flambeau.tensor([[5.0, 6.0]]) - before["0.bias"], atol=1e-4)
    assert flambeau.equal(model[0].bias, before["0.bias"])  # the module keeps its own, as does the exported program
    assert flambeau.equal(program.exported_program.state_dict["0.bias"], before["0.bias"])
    with pytest.raises(ValueError, match="'absent'"):
        program.apply_weights({"absent": flambeau.ones(1)})


# ---- operators of one's own ------------------------------------------------------------------------------------------

@pytest.mark.parametrize("key", [cubed, "exporting::cubed", flambeau.ops.exporting.cubed,
                                 flambeau.ops.exporting.cubed.default])
def test_translations_of_ones_own(key):
    def translated(g, x, scale=1.0):
        return g.op("Mul", g.op("Pow", x, g.scalar(3.0, x.dtype)), g.scalar(scale, x.dtype))

    program = export(lambda x: cubed(x, 2.0) + 1, (X,), custom_translation_table={key: translated})
    assert flambeau.allclose(program(X)[0], X ** 3 * 2 + 1, atol=1e-6)


def test_other_translations_of_known_operators():
    program = export(lambda x: F.hardtanh(x).softmax(-1), (X,), custom_translation_table={
        flambeau.softmax: lambda g, x, dim: g.op("LogSoftmax", x, axis=dim)})
    assert [n.op_type for n in program.model_proto.graph.node] == ["Clip", "LogSoftmax"]


def test_operators_of_other_domains():
    flambeau.onnx.register_custom_op_symbolic("exporting::cubed", lambda g, x, scale=1.0: g.op(
        "shop::Cubed", x, scale_f=scale, version=3), 18)
    try:
        proto = export(cubed, (X,), custom_opsets={"other": 2}).model_proto
    finally:
        flambeau.onnx.unregister_custom_op_symbolic("exporting::cubed", 18)
    node, = proto.graph.node
    assert (node.domain, node.op_type, node.attribute[0].name) == ("shop", "Cubed", "scale")
    assert {i.domain: i.version for i in proto.opset_import} == {"": 20, "shop": 3, "other": 2}
    with pytest.raises(UnsupportedOperatorError, match="exporting::cubed"):
        export(cubed, (X,))


def test_translations_as_they_are_written_for_pytorch():
    from flambeau.onnx import symbolic_opset11 as opset11
    from flambeau.onnx.symbolic_helper import parse_args
    from flambeau.onnx.symbolic_opset9 import dropout, relu

    @parse_args("v", "f")
    def symbolic(g, x, scale=1.0):
        factor = g.op("Constant", value_t=flambeau.tensor(scale))
        return dropout(g, opset11.mul(g, relu(g, x), factor), 0.5, False)

    flambeau.onnx.register_custom_op_symbolic("exporting::cubed", symbolic, 11)
    try:
        program = export(lambda x: cubed(x, 3.0), (X,), opset_version=13)
    finally:
        flambeau.onnx.unregister_custom_op_symbolic("exporting::cubed", 11)
    assert flambeau.allclose(program(X)[0], X.relu() * 3, atol=1e-6)


def test_operators_that_the_program_names():
    def shifted(x):
        a, b = flambeau.onnx.ops.symbolic_multi_out("shop::Halves", (x, None), {"keep": [True, False], "how": "fast"},
                                                    dtypes=[x.dtype, 7], shapes=[(x.shape[0], 2), (2,)], version=2)
        return flambeau.onnx.ops.symbolic("Neg", (a,), dtype=a.dtype, shape=a.shape), b

    proto = export(shifted, (X,), dynamic_shapes=({0: "n"},)).model_proto
    assert [n.op_type for n in proto.graph.node] == ["Halves", "Neg"]
    assert dims(proto.graph.output[0]) == ["n", 2] and proto.graph.output[1].type.tensor_type.elem_type == 7
    assert flambeau.equal(shifted(X)[0], flambeau.zeros(2, 2))


def test_attention_and_rotary_embedding_are_what_the_standard_says():
    from onnx.reference import ReferenceEvaluator
    flambeau.manual_seed(0)
    q, k, v = flambeau.randn(2, 4, 3, 8), flambeau.randn(2, 2, 5, 8), flambeau.randn(2, 2, 5, 8)
    mask = flambeau.randn(3, 5)
    node = onnx.helper.make_node("Attention", ["q", "k", "v", "m"], ["y"], scale=0.3)
    wanted, = ReferenceEvaluator(node).run(None, {n: t.numpy() for n, t in zip("qkvm", (q, k, v, mask), strict=True)})
    found = flambeau.onnx.ops.attention(q, k, v, mask, scale=0.3)[0]
    assert flambeau.allclose(found, flambeau.from_numpy(wanted), atol=1e-5)
    x, cos, sin = flambeau.randn(2, 4, 3, 8), flambeau.randn(6, 4), flambeau.randn(6, 4)
    places = flambeau.tensor([[0, 2, 5], [1, 3, 4]])
    for interleaved in (0, 1):
        node = onnx.helper.make_node("RotaryEmbedding", ["x", "c", "s", "p"], ["y"], interleaved=interleaved)
        wanted, = ReferenceEvaluator(node).run(None, {n: t.numpy() for n, t in zip("xcsp", (x, cos, sin, places),
                                                                                  strict=True)})
        found = flambeau.onnx.ops.rotary_embedding(x, cos, sin, places, interleaved=bool(interleaved))
        assert flambeau.allclose(found, flambeau.from_numpy(wanted), atol=1e-5)


# ---- calls that are watched ------------------------------------------------------------------------------------------

class Optional(nn.Module):
    def forward(self, x, y=None, k=2):
        return x * k if y is None else x + y


def test_what_calls_show():
    model, observer = Optional(), flambeau.onnx.InputObserver()
    with observer(model, store_n_calls=2):
        model(flambeau.ones(2, 3), y=flambeau.ones(2, 3))
        model(flambeau.ones(4, 3), y=flambeau.ones(4, 3))
        model(flambeau.ones(9, 9))
    assert observer.num_obs() == 2 and "forward" not in vars(model)
    shapes = observer.infer_dynamic_shapes()
    assert {k: list(v) for k, v in shapes.items()} == {"x": [0], "y": [0]}
    assert observer.infer_arguments(1)["x"].shape == (4, 3) and len(observer.infer_arguments(flat=True)) == 2
    assert set(observer.infer_arguments({"x": flambeau.zeros(2, 3)})) == {"x", "y"}
    program = export(model, kwargs=observer.infer_arguments(), dynamic_shapes=shapes)
    found = observer.check_discrepancies(program)
    assert [(f["SUCCESS"], f["abs"], f["index"], f["n_inputs"]) for f in found] == [(True, 0.0, k, 2) for k in (0, 1)]
    wrong = export(lambda x, y: x + y + 1, kwargs=observer.infer_arguments(), dynamic_shapes=shapes)
    assert [f["SUCCESS"] for f in observer.check_discrepancies(wrong)] == [False, False]
    with pytest.raises(RuntimeError, match="no call was observed"):
        flambeau.onnx.InputObserver().infer_arguments()


def test_missing_arguments_and_batches():
    model, observer = Optional(), flambeau.onnx.InputObserver()
    with observer(model):
        model(flambeau.ones(2, 3))
        model(flambeau.ones(2, 5), flambeau.ones(2, 5))
    assert [x.shape for x in observer.infer_arguments(0)] == [(2, 3), (2, 5)]
    assert [list(s) for s in observer.infer_dynamic_shapes({0})] == [[0, 1], []]
    assert [list(s) for s in observer.infer_dynamic_shapes(True)] == [[0, 1], [0]]


def test_modules_that_know_how():
    class Doubles(flambeau.onnx.ExportableModule):
        def forward(self, x):
            return x * 2

        def example_arguments(self):
            return (X,), None

        def input_names(self):
            return ("left",)

        def dynamic_shapes(self):
            return ({0: "rows"},)

    graph = Doubles().to_onnx(output_names=["right"]).model_proto.graph
    assert (names(graph.input), names(graph.output), dims(graph.output[0])) == (["left"], ["right"], ["rows", 4])
    with pytest.raises(TypeError):
        flambeau.onnx.ExportableModule()


# ---- large models ----------------------------------------------------------------------------------------------------

def test_weights_that_no_message_holds(tmp_path, monkeypatch):
    """With a limit of a kilobyte in the place of 2 GB."""
    monkeypatch.setattr(flambeau.onnx._proto, "_LIMIT", 1024)
    program = export(big(), (WIDE,))
    with pytest.raises(ValueError, match="2 GB"):
        _ = program.model_proto
    assert flambeau.allclose(program(WIDE)[0], big()(WIDE), atol=1e-5)
    program.save(tmp_path / "large.onnx")
    assert (tmp_path / "large.onnx.data").stat().st_size >= 4096
    assert flambeau.allclose(run_file(str(tmp_path / "large.onnx"), WIDE), big()(WIDE), atol=1e-5)


# ---- errors ----------------------------------------------------------------------------------------------------------

def test_all_operators_without_a_form_are_named_at_once():
    with pytest.raises(UnsupportedOperatorError, match=r"3 operators of this model: exporting::cubed, i0, lgamma"):
        export(lambda x: cubed(x) + flambeau.lgamma(x) + flambeau.special.i0(x), (X,))


def test_a_use_without_a_form_names_the_step():
    with pytest.raises(UnsupportedOperatorError, match=r"as_strided[^\n]*\n  at step as_strided"):
        export(lambda x: x.t().as_strided((2, 2), (1, 2)), (X,))


@pytest.mark.parametrize("options, error, text", [
    ({"opset_version": 7}, ValueError, "11 to 23, got 7"),
    ({"dynamo": False}, TypeError, "f must be a path"),
    ({"export_modules_as_functions": True}, NotImplementedError, "export_modules_as_functions"),
    ({"autograd_inlining": False}, NotImplementedError, "autograd_inlining"),
    ({"operator_export_type": flambeau.onnx.OperatorExportTypes.ONNX_ATEN}, NotImplementedError, "operator_export"),
    ({"training": 7}, ValueError, "TrainingMode"),
    ({"custom_translation_table": {3: len}}, TypeError, "takes operators"),
    ({"dynamic_axes": {"input": [0]}, "dynamic_shapes": ({0: "n"},)}, ValueError, "not both"),
    ({"dynamic_axes": {"nothing": [0]}, "output_names": ["y"]}, ValueError, "nothing"),
    ({"fallback": 3}, TypeError, "fallback"),
])
def test_arguments_that_are_refused(options, error, text):
    with pytest.raises(error, match=text):
        export(layer(), (X,), **options)


def test_models_that_are_refused():
    with pytest.raises(TypeError, match="args must be a tuple"):
        export(layer(), 3)
    with pytest.raises(TypeError, match="model must be a Module"):
        export(3, (X,))
    with pytest.raises(OnnxExporterError, match="no tensors"):
        export(lambda x: (), (X,))


def test_nothing_of_onnx_is_loaded_before_an_export():
    code = "import sys, flambeau\nflambeau.onnx.is_in_onnx_export()\n" \
           "assert not any(m.partition('.')[0] in ('onnx', 'onnxruntime') for m in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_without_the_package():
    code = "import sys, flambeau\nsys.modules['onnx'] = None\n" \
           "try: flambeau.onnx.export(flambeau.nn.Linear(2, 2), (flambeau.ones(1, 2),))\n" \
           "except ModuleNotFoundError as error: print(error)"
    found = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert "pip install onnx" in found.stdout
