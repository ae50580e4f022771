"""Models as ONNX files beside PyTorch's: the same inputs, names and sizes, and the same results in a runtime."""

import json
import subprocess

import pytest

import flambeau

pytestmark = pytest.mark.parity

onnx = pytest.importorskip("onnx", reason="onnx is not installed")
onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

PRELUDE = """
import json, sys, warnings
warnings.simplefilter("ignore")
nn, F = torch.nn, torch.nn.functional
class Attends(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.qkv, self.norm = nn.Embedding(9, 8), nn.Linear(8, 24), nn.LayerNorm(8)
    def forward(self, tokens):
        x = self.norm(self.words(tokens))
        q, k, v = (t.unflatten(-1, (2, 4)).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return (x + y.transpose(1, 2).flatten(2)).softmax(-1)
class Tags(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers, self.out = nn.LSTM(4, 3, 2, batch_first=True, bidirectional=True), nn.Linear(6, 2)
    def forward(self, x):
        y, (h, c) = self.layers(x)
        return self.out(y), h
class Shapes(nn.Module):
    def forward(self, x):
        return (x.reshape(x.shape[0], -1), torch.cat([x, x * 2], 1).sum(1, keepdim=True), x[:, 1:, ::2],
                x.transpose(1, 2).contiguous().view(-1, x.shape[1]), F.pad(x, (1, 2)), x.max(-1)[0], x.argmax(1))
def conv(a, b):
    return nn.Sequential(nn.Conv2d(a, b, 3, padding=1), nn.BatchNorm2d(b), nn.ReLU())
"""
#: name -> (expression of the model, expression of the argument, axes of the input, how many results)
MODELS = {
    "mlp": ("nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Dropout(), nn.Linear(16, 4))", "torch.randn(3, 8)",
            {0: "batch"}, 1),
    "cnn": ("nn.Sequential(conv(3, 4), nn.MaxPool2d(2), conv(4, 6), nn.AdaptiveAvgPool2d(1), nn.Flatten(), "
            "nn.Linear(6, 3))", "torch.randn(2, 3, 8, 8)", {0: "batch"}, 1),
    "attends": ("Attends()", "torch.randint(0, 9, (2, 5))", {0: "batch", 1: "time"}, 1),
    "tags": ("Tags()", "torch.randn(2, 5, 4)", {0: "batch", 1: "time"}, 2),
    "shapes": ("Shapes()", "torch.randn(2, 3, 4)", {0: "batch"}, 7),
}
_WRITE = """
for name, (model, argument, axes, count) in json.loads(sys.argv[1]).items():
    torch.manual_seed(0)
    model = eval(model).eval()
    torch.manual_seed(1)
    axes = {int(d): text for d, text in axes.items()}
    names = [f"y{k}" for k in range(count)]
    torch.onnx.export(model, (eval(argument),), f"{sys.argv[2]}/{name}.onnx", input_names=["x"], output_names=names,
                      dynamic_axes={"x": axes}, dynamo=False)
"""


@pytest.fixture(scope="module")
def theirs(torch_python, tmp_path_factory):
    """The folder with PyTorch's files."""
    folder = tmp_path_factory.mktemp("files")
    code = "import torch\n" + PRELUDE + _WRITE
    made = subprocess.run([torch_python, "-c", code, json.dumps(MODELS), str(folder)], capture_output=True, text=True,
                          check=False)
    if "onnx" in made.stderr and "ModuleNotFoundError" in made.stderr:
        pytest.skip("PyTorch's interpreter has no onnx")
    assert not made.returncode, made.stderr
    return folder


def session(path):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


@pytest.mark.parametrize("name", MODELS)
def test_files_are_alike(name, theirs, tmp_path):
    space = {"torch": flambeau}
    exec(PRELUDE, space)
    model, argument, axes, count = MODELS[name]
    flambeau.manual_seed(0)  # the same initial weights
    model = eval(model, space).eval()
    flambeau.manual_seed(1)
    x, path = eval(argument, space), tmp_path / "ours.onnx"
    flambeau.onnx.export(model, (x,), path, input_names=["x"], output_names=[f"y{k}" for k in range(count)],
                         dynamic_axes={"x": axes}, dynamo=False)
    ours, their = onnx.load(path), onnx.load(theirs / f"{name}.onnx")
    assert ours.opset_import[0].version == their.opset_import[0].version == 20
    assert [i.name for i in ours.graph.input] == [i.name for i in their.graph.input] == ["x"]
    assert ours.graph.input[0].type == their.graph.input[0].type
    assert [(o.name, o.type.tensor_type.elem_type, len(o.type.tensor_type.shape.dim)) for o in ours.graph.output] == \
        [(o.name, o.type.tensor_type.elem_type, len(o.type.tensor_type.shape.dim)) for o in their.graph.output]
    assert len(ours.graph.node) <= len(their.graph.node)
    more = [n + 2 if d in axes else n for d, n in enumerate(x.shape)]
    other = flambeau.randn(*more) if x.is_floating_point() else flambeau.randint(0, 9, tuple(more))
    for given in (x, other):
        first, second = (session(p).run(None, {"x": given.numpy()}) for p in (path, theirs / f"{name}.onnx"))
        for a, b in zip(first, second, strict=True):
            assert a.dtype == b.dtype and a.shape == b.shape
            assert flambeau.allclose(flambeau.from_numpy(a).double(), flambeau.from_numpy(b).double(), atol=1e-5)
