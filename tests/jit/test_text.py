"""TorchScript's text: what it means, statement by statement and operator by operator."""

import bdb
import io
import math
import traceback

import pytest

import flambeau
from flambeau.jit import CompilationUnit


def run(body, *args, head="x: Tensor"):
    lines = "\n".join(f"  {line}" for line in body.splitlines())
    return CompilationUnit(f"def f({head}):\n{lines}\n").f(*args)


@pytest.mark.parametrize(("text", "value"), [
    ("torch.pow(2, 3)", 8.0), ("torch.div(7, 2)", 3.5), ("torch.floordiv(-7, 2)", -4), ("torch.remainder(-7, 3)", 2),
    ("torch.add([1], [2])", [1, 2]), ("torch.mul([1, 2], 2)", [1, 2, 1, 2]), ("torch.add(\"a\", \"b\")", "ab"),
    ("torch.div(1., 0.)", math.inf), ("torch.log(0.)", -math.inf), ("torch.ceil(1.5)", 2), ("torch.round(2.5)", 2.0),
    ("torch.eq([1], [1])", True), ("torch.__is__(None, None)", True), ("torch.__not__(True)", False),
    ("torch.__contains__([1, 2], 2)", True), ("torch.len({\"a\": 1})", 1),
    ("torch.slice([1, 2, 3], 1, None, 1)", [2, 3]),
    ("torch.slice(\"abcd\", 0, 3, 2)", "ac"), ("torch.format(\"{} {}\", 1, \"b\")", "1 b"), ("inf", math.inf),
    ("torch.percentFormat(\"%d!\", 3)", "3!"), ("torch.keys({\"a\": 1})", ["a"]), ("torch.items({1: 2})", [(1, 2)]),
    ("ops.prim.max(3, 4)", 4), ("ops.prim.min([3, 1, 2])", 1), ("torch.sorted([3, 1])", [1, 3]), ("3j", 3j),
    ("annotate(List[int], [])", []), ("unchecked_cast(int, 3)", 3), ("int(2.9)", 2), ("bool(0)", False),
    ("torch.strip(\" a \")", "a"), ("torch.split(\"a b\", None, -1)", ["a", "b"]),
    ("torch.join(\",\", [\"a\", \"b\"])", "a,b"),
    ("torch.ord(\"a\")", 97), ("torch.gcd(12, 18)", 6), ("torch.__lshift__(1, 3)", 8), ("torch.abs(-3)", 3),
    ("1 + 2 * 3 // 2", 4), ("\"a\" if 1 < 2 else \"b\"", "a"), ("[i * 2 for i in [1, 2]]", [2, 4]),
    ("not (1 == 2)", True),
    ("{\"a\": 1}[\"a\"]", 1), ("(1, 2.5, \"x\")[2]", "x"), ("len(\"abc\") + max(1, 2)", 5), ("math.pi", math.pi),
    ("isinstance(3, int)", True), ("isinstance([1], List[int])", True), ("isinstance(1, (str, float))", False),
])
def test_values_that_are_no_tensors(text, value):
    found = run(f"return {text}", head="")
    assert found == value and type(found) is type(value)


@pytest.mark.parametrize(("text", "value"), [
    ("torch.add(x, 1)", [2, 3, 4]), ("torch.sub(x, x, alpha=2)", [-1, -2, -3]), ("torch.size(x)", [3]),
    ("x.size(0)", 3), ("-x", [-1, -2, -3]),
    ("torch.slice(x, 0, 1)", [2, 3]), ("torch.select(x, 0, -1)", 3), ("torch.index(x, [torch.tensor([2, 0])])", [3, 1]),
    ("torch.to(x, 4)", [1, 2, 3]), ("torch.to(x, torch.device(\"cpu\"), 7).sum()", 6), ("x[1:]", [2, 3]),
    ("torch.sum(x, [0], False, dtype=7)", 6), ("torch.max(x, 0)[1]", 2), ("x.view(3, 1).t()", [[1, 2, 3]]),
    ("torch.view(x, [1, -1])", [[1, 2, 3]]), ("torch.cat([x, x]).numel()", 6), ("torch.unbind(x)[2]", 3),
    ("torch.where(torch.gt(x, 1), x, torch.neg(x))", [-1, 2, 3]), ("torch.einsum(\"i,i->\", [x, x])", 14),
    ("torch.stack(torch.meshgrid([x, x]))[0, 1]", [2, 2, 2]), ("ops.prim.NumToTensor(3)", 3),
    ("torch.upsample_nearest1d(torch.view(x, [1, 1, 3]), None, [2.])[0, 0]", [1, 1, 2, 2, 3, 3]),
    ("int(x[0]) + 1", 2), ("ops.prim.dtype(x)", 6),
    ("torch.index_put(x, [torch.tensor([0])], torch.tensor(9.))", [9, 2, 3]),
    ("torch.masked_fill(x, torch.gt(x, 2), 0)", [1, 2, 0]),
    ("torch.nn.functional.relu(-x)", [0, 0, 0]), ("torch.linalg.norm(x) > 3", True), ("x.to(torch.int64)", [1, 2, 3]),
])
def test_values_of_tensors(text, value):
    found = run(f"return {text}", flambeau.tensor([1.0, 2.0, 3.0]))
    assert (found.tolist() if isinstance(found, flambeau.Tensor) else found) == value


def test_statements():
    unit = CompilationUnit("""
def helper(n: int) -> int:
  if n > 3:
    return n
  return helper(n + 1)

def f(x: Tensor, names: List[str], *, k: int = 2):
  total = 0
  for i in range(k):
    if i == 1:
      continue
    total += i
  while True:
    total = total + 1
    if total > 4:
      break
  pairs = annotate(Dict[str, int], {})
  for i, name in enumerate(names):
    pairs[name] = i
  a, (b, c) = 1, (2, 3)
  y = x.clone()
  y[0] = 7.
  del pairs[names[0]]
  with torch.no_grad():
    z = y * 2
  def inner():
    return z + 1
  later = fork(inner)
  assert total == 5, "five"
  return torch.wait(later), pairs, a + b + c + helper(0), z.requires_grad
""")
    z, pairs, number, grad = unit.f(flambeau.zeros(2, requires_grad=True), ["a", "b"], k=3)
    assert z.tolist() == [15, 1] and pairs == {"b": 1} and number == 10 and grad is False
    with pytest.raises(AttributeError, match="defines no g"):
        unit.g  # noqa: B018
    unit.define("def g(x):\n  return f(x, ['a'])[1]")
    assert unit.g(flambeau.zeros(2)) == {} and unit.f.name == "f" and "return helper(n + 1)" in unit.helper.code


def test_a_function_of_a_text_is_written_as_it_was():
    unit = CompilationUnit("def f(x: Tensor, n: int = 2):\n  return x.view(-1, n)[..., 0] if n > 1 else -x\n")
    x = flambeau.arange(6.0)
    program = flambeau.jit.load(io.BytesIO(unit.f.save_to_buffer()))
    assert program(x, 3).tolist() == unit.f(x, 3).tolist() == [0, 3] and program(x).tolist() == [0, 2, 4]
    assert "x.view(-1, n)" in program.code


@pytest.mark.parametrize(("statement", "kind", "text"), [
    ("raise ValueError(\"no\")", ValueError, "no"), ("assert x.dim() == 2, \"two\"", AssertionError, "two"),
    ("ops.prim.RaiseException(\"why\", \"builtins.KeyError\")", KeyError, "why"),
    ("ops.prim.RaiseException(\"why\", \"mine.Own\")", flambeau.jit.Error, "why"),
    ("ops.prim.RaiseException(\"AssertionError: bad\")", AssertionError, "bad"),
    ("return torch.no_such_operator(x)", NotImplementedError, "torch.no_such_operator"),
])
def test_errors(statement, kind, text):
    with pytest.raises(kind, match=text):
        run(statement, flambeau.ones(1))


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("mask_type", [None, 0, 1])
def test_whole_layers_of_transformers(norm_first, mask_type):
    layer = flambeau.nn.TransformerEncoderLayer(8, 2, 16, 0.0, batch_first=True, norm_first=norm_first).eval()
    attention, x = layer.self_attn, flambeau.rand(3, 5, 8)
    mask = None if mask_type is None else flambeau.rand((3, 5) if mask_type else (5, 5)) > 0.6
    if mask is not None:
        mask[:, 0] = False
    options = {} if mask is None else {"src_key_padding_mask" if mask_type else "src_mask": mask}
    weights = [attention.in_proj_weight, attention.in_proj_bias, attention.out_proj.weight, attention.out_proj.bias]
    rest = [layer.norm1.weight, layer.norm1.bias, layer.norm2.weight, layer.norm2.bias, layer.linear1.weight,
            layer.linear1.bias, layer.linear2.weight, layer.linear2.bias]
    text = ("def f(x: Tensor, w: List[Tensor], r: List[Tensor], mask: Optional[Tensor], first: bool):\n  return "
            "torch._transformer_encoder_layer_fwd(x, 8, 2, w[0], w[1], w[2], w[3], False, first, 1e-05, r[0], r[1],"
            f" r[2], r[3], r[4], r[5], r[6], r[7], mask, {mask_type})\n")
    with flambeau.no_grad():
        found = CompilationUnit(text).f(x, weights, rest, mask, norm_first)
        assert flambeau.allclose(found, layer(x, **options), atol=1e-5)


def test_the_lines_of_a_text_are_seen_by_tracebacks_and_debuggers():
    unit = CompilationUnit("def f(x: Tensor):\n  y = torch.relu(x)\n  return torch.matmul(y, y)\n")
    with pytest.raises(RuntimeError) as caught:
        unit.f(flambeau.ones(2, 3))
    assert "return torch.matmul(y, y)" in "".join(traceback.format_exception(caught.value))
    seen = []

    class Stepper(bdb.Bdb):
        def user_line(self, frame):
            if "__torch__" in frame.f_code.co_filename:
                seen.append(frame.f_lineno)

    Stepper().runcall(unit.f, flambeau.ones(2, 2))
    assert seen == [2, 2, 3] or seen == [2, 3]


def test_values_are_let_go_after_their_last_use():
    """A trace of many layers needs no more memory than its module."""
    lines = [f"  y{k + 1} = torch.add(y{k}, 1)" for k in range(30)]
    unit = CompilationUnit("\n".join(["def f(y0: Tensor):", *lines, "  return [y30 for i in [1]]", ""]))
    x = flambeau.zeros(1 << 18)
    flambeau.memory.reset_peak()
    before = flambeau.memory.stats()
    assert unit.f(x)[0][0] == 30
    grown = flambeau.memory.stats()["peak"] - before["allocated"]
    assert grown <= 4 * x.numel() * 4


@pytest.mark.parametrize(("text", "what"), [
    ("def f(x):\n  return y\n", "'y' is not defined"), ("def f(*args):\n  return 1\n", "arguments"),
    ("def f(x):\n  return lambda: x\n", "Lambda"), ("def f(x):\n  import os\n", "Import"),
    ("def f(x:\n", "never closed"),
    ("def f(x):\n  x.a = 1\n", "does not declare"), ("def f(x):\n  return torch.relu\n", "is not there"),
    ("def f(x):\n  return getattr(x, x)\n", "getattr"), ("@staticmethod\ndef f(x):\n  return x\n", "decorators"),
])
def test_what_is_no_torchscript(text, what):
    with pytest.raises(RuntimeError, match=what):
        CompilationUnit(text)
