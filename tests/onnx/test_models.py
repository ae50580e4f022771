"""Models as files: the checker accepts them, and a runtime computes what the module computes, at other sizes too."""

import pytest

import flambeau
from flambeau import nn
from flambeau.utils._pytree import tree_leaves

onnx = pytest.importorskip("onnx", reason="onnx is not installed")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

from .programs import MODELS  # noqa: E402


def assert_same(program, model, args, tolerance=1e-4):
    with flambeau.no_grad():
        wanted = tree_leaves(model(*args))
    found = program(*args)
    assert len(found) == len(wanted)
    for a, b in zip(found, wanted, strict=True):
        assert a.dtype is b.dtype and a.shape == b.shape
        assert flambeau.allclose(a.double(), b.double(), rtol=tolerance, atol=tolerance), (a - b).abs().max()


def trained(model):
    """The model with statistics in its batch norms that are not those of a new one."""
    for module in model.modules():
        if isinstance(module, (nn.BatchNorm1d, nn.BatchNorm2d)):
            nn.init.normal_(module.running_mean)
            nn.init.uniform_(module.running_var, 0.5, 2)
    return model.eval()


@pytest.mark.parametrize("optimize", [True, False])
@pytest.mark.parametrize("name", MODELS)
def test_model(name, optimize):
    flambeau.manual_seed(0)
    make, args, axes, others = MODELS[name]
    model, given = trained(make()), args()
    program = flambeau.onnx.export(model, given, dynamic_shapes=axes, optimize=optimize)
    onnx.checker.check_model(program.model_proto, full_check=True)
    assert_same(program, model, given)
    if others is not None:
        assert_same(program, model, others())
        opened = program.model_proto.graph.input[0].type.tensor_type.shape.dim
        assert {d: opened[d].dim_param for d in axes[0]} == axes[0]


@pytest.mark.parametrize("opset", range(11, 24))
@pytest.mark.parametrize("name", ["mlp", "cnn", "lstm2", "gpt_fixed", "vit"])
def test_versions_of_onnx(name, opset):
    flambeau.manual_seed(0)
    make, args, _, _ = MODELS[name]
    model, given = trained(make()), args()
    program = flambeau.onnx.export(model, given, opset_version=opset)
    assert [i.version for i in program.model_proto.opset_import] == [opset]
    onnx.checker.check_model(program.model_proto, full_check=True)
    assert_same(program, model, given)


@pytest.mark.parametrize("name, count", [
    ("cnn", 8), ("mlp", 4), ("lstm", 7), ("gpt_fixed", 60), ("unet", 14), ("gpt", 65)])
def test_no_more_nodes_than_these(name, count):
    """What is known beforehand is no node: batch norms in convolutions, transposed weights, masks, shapes."""
    make, args, axes, _ = MODELS[name]
    program = flambeau.onnx.export(make().eval(), args(), dynamic_shapes=axes)
    nodes = [n.op_type for n in program.model_proto.graph.node]
    assert len(nodes) <= count, nodes
    assert name != "cnn" or "BatchNormalization" not in nodes


def test_models_of_vision():
    models = pytest.importorskip("flambeau.vision.models")
    for make, count in ((models.resnet18, 49), (models.mobilenet_v3_small, 122)):
        flambeau.manual_seed(0)
        model = trained(make(weights=None))
        x = flambeau.randn(2, 3, 64, 64)
        program = flambeau.onnx.export(model, (x,), dynamic_shapes=({0: "batch"},))
        assert len(program.model_proto.graph.node) <= count
        assert_same(program, model, (flambeau.randn(3, 3, 64, 64),), 1e-3)


@pytest.mark.parametrize("dtype", [flambeau.float16, flambeau.bfloat16, flambeau.float64])
def test_models_of_other_dtypes(dtype):
    flambeau.manual_seed(0)
    model, x = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.LayerNorm(16), nn.Linear(16, 4)).to(dtype), \
        flambeau.randn(3, 8, dtype=dtype)
    program = flambeau.onnx.export(model, (x,))
    onnx.checker.check_model(program.model_proto, full_check=True)
    assert_same(program, model, (x,), {flambeau.float64: 1e-10}.get(dtype, 2e-2))


@pytest.mark.exhaustive
@pytest.mark.parametrize("name, size", [
    ("alexnet", 64), ("vgg11_bn", 32), ("densenet121", 32), ("googlenet", 64), ("inception_v3", 75),
    ("shufflenet_v2_x0_5", 64), ("squeezenet1_0", 64), ("mnasnet0_5", 64), ("regnet_x_400mf", 64),
    ("efficientnet_b0", 64), ("efficientnet_v2_s", 64), ("mobilenet_v2", 64), ("convnext_tiny", 64), ("vit_b_32", 224),
    ("swin_t", 64), ("swin_v2_t", 64), ("maxvit_t", 224), ("segmentation.fcn_resnet50", 64),
    ("segmentation.deeplabv3_mobilenet_v3_large", 64), ("segmentation.lraspp_mobilenet_v3_large", 64),
    ("video.r3d_18", 32), ("optical_flow.raft_small", 128)])
def test_all_kinds_of_models_of_vision(name, size):
    make = pytest.importorskip("flambeau.vision.models")
    for part in name.split("."):
        make = getattr(make, part)
    options = {"weights_backbone": None} if "segmentation" in name else {}
    options |= {"init_weights": True} if name in ("googlenet", "inception_v3") else {}
    flambeau.manual_seed(0)
    model = trained(make(weights=None, **options))
    args = (flambeau.randn(1, 3, 4, size, size) if "video" in name else flambeau.randn(2, 3, size, size),)
    args *= 2 if "optical_flow" in name else 1
    program = flambeau.onnx.export(model, args)
    onnx.checker.check_model(program.model_proto, full_check=True)
    with flambeau.no_grad():
        wanted = tree_leaves(model(*args))
    for a, b in zip(program(*args), wanted, strict=True):
        assert (a - b).abs().max() <= 1e-4 * b.abs().max()
