"""The recorded graph as a program and as a picture."""

import io
import shutil
import xml.etree.ElementTree as ElementTree

import pytest

import flambeau
from flambeau import debug

nn = flambeau.nn


def example():
    model = nn.Sequential(nn.Linear(4, 3), nn.Tanh())
    y = model(flambeau.ones(2, 4))
    z = flambeau.cat([y, y * 2], 1).max(1)
    return model, z.values.sum() / 3


def test_tape_is_readable():
    model, loss = example()
    out = io.StringIO()
    debug.tape(loss, names=dict(model.named_parameters()), file=out)
    text = out.getvalue()
    forward, backward = text.split("backward\n", 1)
    assert "0.weight = leaf  # [3, 4] float32" in forward
    assert "v1 = tanh(v0)" in forward and "v2 = mul(v1, other=2)" in forward and "cat([v1, v2], dim=1)" in forward
    assert "# in 1 (Tanh())" in forward and "test_tape.py:" in forward
    assert "z = flambeau.cat([y, y * 2], 1).max(1)" in forward
    assert "# TanhBackward0: from g_v1" in backward
    assert "g_v0 += (lambda g, result: tanh_backward(g, result))" in backward
    assert backward.index("CatBackward0") < backward.index("TanhBackward0") < backward.index("from g_v0")


def test_tape_of_a_custom_function_and_after_backward():
    class Cube(flambeau.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x ** 3

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return 3 * x * x * g
    x = flambeau.ones(2, requires_grad=True)
    y = Cube.apply(x.exp()).sum()
    y.backward()
    out = io.StringIO()
    debug.tape(y, file=out)
    assert "CubeBackward(v0)" in out.getvalue() and "g_v0 += CubeBackward.backward(g_v1)" in out.getvalue()


def test_tensors_without_a_graph_are_refused():
    with pytest.raises(RuntimeError, match="no graph"):
        debug.tape(flambeau.ones(1))
    with pytest.raises(TypeError, match="expected a Tensor"):
        debug.tape(3)


def test_draw_writes_svg(tmp_path):
    model, loss = example()
    path = tmp_path / "graph.svg"
    debug.draw(loss, path, names=dict(model.named_parameters()), layout="own")
    root = ElementTree.parse(path).getroot()
    texts = [t.text for t in root.iter("{http://www.w3.org/2000/svg}text")]
    assert {"0.weight", "0.bias", "linear", "tanh", "mul", "cat", "max.dim", "sum", "div"} <= set(texts)
    assert len(list(root.iter("{http://www.w3.org/2000/svg}rect"))) == 9
    boxes = [(float(r.get("x")), float(r.get("y"))) for r in root.iter("{http://www.w3.org/2000/svg}rect")]
    assert len(set(boxes)) == len(boxes)


def test_draw_writes_dot(tmp_path):
    _, loss = example()
    path = tmp_path / "graph.dot"
    debug.draw(loss, path)
    assert path.read_text().startswith("digraph") and "->" in path.read_text()
    if not shutil.which("dot"):
        with pytest.raises(FileNotFoundError):
            debug.draw(loss, tmp_path / "graph.svg", layout="dot")
    with pytest.raises(ValueError, match=r"\.svg or \.dot"):
        debug.draw(loss, tmp_path / "graph.png")
