"""Every hint of the table, with a program that brings it up and the same program after doing what the hint says."""

import ast
import inspect
import sys
from itertools import product

import numpy as np
import pytest

import flambeau
from flambeau._absent.names import REMOVED
from flambeau.debug import _hints

from .mistakes import names

F32 = "torch.float32"
LSTM = "if it holds tensors, as what an LSTM returns does, pass one of them: x[0]"

#: (program, a part of the hint, program that follows it)
CASES = [
    ("nn.Linear(8, 4)(torch.ones(2, 7))", "input's last dimension, here 7", "nn.Linear(7, 4)(torch.ones(2, 7))"),
    ("nn.Linear(12, 4)(torch.ones(2, 3, 4))", "x.flatten(1) has 12",
     "nn.Linear(12, 4)(torch.ones(2, 3, 4).flatten(1))"),
    ("torch.ones(2, 3) @ torch.ones(4, 3)", "a @ b.mT", "torch.ones(2, 3) @ torch.ones(4, 3).mT"),
    ("torch.ones(3, 2) @ torch.ones(3, 4)", "a.mT @ b", "torch.ones(3, 2).mT @ torch.ones(3, 4)"),
    ("torch.ones(2, 3) @ torch.ones(4, 5)", "last dimension (3) must equal", "torch.ones(2, 3) @ torch.ones(3, 5)"),
    ("torch.addmm(torch.ones(2, 4), torch.ones(3, 2), torch.ones(3, 3))", "must equal the second's next to last (3)",
     "torch.addmm(torch.ones(3, 3), torch.ones(3, 3), torch.ones(3, 3))"),
    ("torch.ones(2, 3) + torch.ones(4)", "shapes [2, 3] and [4]", "torch.ones(2, 3) + torch.ones(1)"),
    ("torch.ones(3).add_(torch.ones(2, 3))", "x = x.add(…)", "torch.ones(3).add(torch.ones(2, 3))"),
    ("torch.ones(3).masked_fill_(torch.ones(2, 3) > 0, 1)", "x = x.masked_fill(…)",
     "torch.ones(3).masked_fill(torch.ones(2, 3) > 0, 1)"),
    ("torch.ones(3).copy_(torch.ones(2, 3))", "x = y.clone()", "torch.ones(2, 3).clone()"),
    ("torch.tensor([1]).add_(0.5)", "x.to(torch.float32)", "torch.tensor([1]).to(torch.float32).add_(0.5)"),
    ("torch.tensor([1.]).add_(1j)", "x.to(torch.complex64)", "torch.tensor([1.]).to(torch.complex64).add_(1j)"),
    ("torch.tensor([1]).exp_()", "out of place", "torch.tensor([1]).exp()"),
    ("torch.ones(2, 2) @ torch.ones(2, 2).long()", f".to({F32})",
     f"torch.ones(2, 2) @ torch.ones(2, 2).long().to({F32})"),
    ("nn.Linear(2, 2)(torch.ones(1, 2).long())", f"convert the input: x.to({F32})",
     f"nn.Linear(2, 2)(torch.ones(1, 2).long().to({F32}))"),
    ("nn.Linear(2, 2)(torch.ones(1, 2).double())", "or the layer: layer.to(torch.float64)",
     "nn.Linear(2, 2).to(torch.float64)(torch.ones(1, 2).double())"),
    ("nn.Linear(2, 2)(torch.ones(1, 2) + 0j)", "convert the layer: layer.to(torch.complex64)",
     "nn.Linear(2, 2).to(torch.complex64)(torch.ones(1, 2) + 0j)"),
    ("F.linear(torch.ones(1, 2), torch.ones(2, 2), torch.ones(2).double())", ".to(torch.float64)",
     "F.linear(*(t.to(torch.float64) for t in (torch.ones(1, 2), torch.ones(2, 2), torch.ones(2).double())))"),
    ("F.cross_entropy(torch.ones(1, 3), torch.tensor([3]))", "targets go from 0 to 2, and ignore_index",
     "F.cross_entropy(torch.ones(1, 3), torch.tensor([2]))\n"
     "F.cross_entropy(torch.ones(1, 3), torch.tensor([3]), ignore_index=3)"),
    ("F.nll_loss(torch.ones(3), torch.tensor(3))", "has 3 classes", "F.nll_loss(torch.ones(3), torch.tensor(2))"),
    ("F.cross_entropy(torch.ones(1, 3), torch.tensor([1.]))", "target.long()",
     "F.cross_entropy(torch.ones(1, 3), torch.tensor([1.]).long())"),
    ("F.cross_entropy(torch.ones(1, 3), torch.ones(1, 4))",
     "have shape [1, 3], class indices [1] and dtype torch.int64",
     "F.cross_entropy(torch.ones(1, 3), torch.ones(1, 3))\n"
     "F.cross_entropy(torch.ones(1, 3), torch.ones([1], dtype=torch.int64))"),
    ("F.cross_entropy(torch.ones(4, 3), torch.zeros(5).long())", "with the same N",
     "F.cross_entropy(torch.ones(4, 3), torch.zeros(4).long())"),
    ("nn.Conv2d(3, 8, 3)(torch.ones(1, 4, 8, 8))", "in_channels must equal the input's dimension of channels, here 4",
     "nn.Conv2d(4, 8, 3)(torch.ones(1, 4, 8, 8))"),
    ("nn.Conv2d(4, 8, 3, groups=2)(torch.ones(1, 6, 8, 8))", "here 6",
     "nn.Conv2d(6, 8, 3, groups=2)(torch.ones(1, 6, 8, 8))"),
    ("nn.Conv2d(4, 8, 3, groups=2)(torch.ones(1, 5, 8, 8))", "here 5, must be divisible by groups=2",
     "nn.Conv2d(4, 8, 3, groups=2)(torch.ones(1, 4, 8, 8))"),
    ("nn.Conv2d(1, 8, 3)(torch.ones(8, 8))", "a sample alone [C, H, W]; this input is [8, 8]",
     "nn.Conv2d(1, 8, 3)(torch.ones(1, 8, 8))"),
    ("nn.Conv2d(1, 8, 3)(torch.ones(2, 2, 1, 8, 8))", "a batch is [N, C, H, W]",
     "nn.Conv2d(1, 8, 3)(torch.ones(4, 1, 8, 8))"),
    ("nn.BatchNorm2d(4)(torch.ones(2, 3, 5, 5))", "dimension 1, here 3", "nn.BatchNorm2d(3)(torch.ones(2, 3, 5, 5))"),
    ("nn.BatchNorm1d(4)(torch.ones(1, 4))", "model.eval()", "nn.BatchNorm1d(4).eval()(torch.ones(1, 4))"),
    ("nn.BatchNorm1d(4, track_running_stats=False)(torch.ones(1, 4))", "  hint: drop_last=True",
     "m = nn.BatchNorm1d(4, track_running_stats=False)\n"
     "[m(x) for x in data.DataLoader(torch.ones(5, 4), batch_size=2, drop_last=True)]"),
    ("nn.InstanceNorm1d(4)(torch.ones(2, 4, 1))", "  hint: an instance norm needs samples of at least two values",
     "nn.InstanceNorm1d(4)(torch.ones(2, 4, 2))"),
    ("nn.Embedding(10, 4)(torch.tensor([12, 20]))", "indices.max()", "nn.Embedding(21, 4)(torch.tensor([12, 20]))"),
    ("torch.ones(6).view(4, 2)", "multiply to the number of elements, 6", "torch.ones(6).view(3, 2)"),
    ("torch.ones(7).view(2, -1)", "multiply to 2, which does not divide 7", "torch.ones(7).view(7, -1)"),
    ("torch.exp([1.0])", "if it holds numbers, make a tensor of it: torch.tensor(x);",
     "torch.exp(torch.tensor([1.0]))"),
    ("nn.Linear(2, 2)([1, 2])", "torch.tensor(x, dtype=weight.dtype)",
     "m = nn.Linear(2, 2); m(torch.tensor([1, 2], dtype=m.weight.dtype))"),
    ("nn.Linear(4, 2)(nn.LSTM(3, 4)(torch.ones(5, 2, 3)))", LSTM,
     "nn.Linear(4, 2)(nn.LSTM(3, 4)(torch.ones(5, 2, 3))[0])"),
    ("torch.exp([torch.ones(2)])", LSTM, "torch.exp([torch.ones(2)][0])"),
    ("torch.exp(2)", "torch.tensor(x) makes a tensor of 0 dimensions", "torch.exp(torch.tensor(2))"),
    ("torch.exp(np.ones(2))", "torch.from_numpy(x)", "torch.exp(torch.from_numpy(np.ones(2)))"),
    ("nn.Linear(2, 2)(np.ones(2))", "torch.from_numpy(x).to(weight.dtype)",
     "m = nn.Linear(2, 2); m(torch.from_numpy(np.ones(2)).to(m.weight.dtype))"),
    ("torch.stack([torch.ones(2, 4), torch.ones(3, 4)])", "nn.utils.rnn.pad_sequence",
     "torch.stack(list(nn.utils.rnn.pad_sequence([torch.ones(2, 4), torch.ones(3, 4)])))"),
    ("torch.stack([torch.ones(2, 4), torch.ones(2, 5)])", "nn.functional.pad",
     "torch.stack([F.pad(torch.ones(2, 4), (0, 1)), torch.ones(2, 5)])"),
    ("torch.stack([torch.ones(1), torch.tensor(1.)])", "x.unsqueeze",
     "torch.stack([torch.ones(1), torch.tensor(1.).unsqueeze(0)])"),
    ("torch.ones(2, 3).sum(2)", "the tensor has shape [2, 3]", "torch.ones(2, 3).sum(1)"),
    ("torch.ones(2, 3).sum(axes=1)", "did you mean dim=?", "torch.ones(2, 3).sum(dim=1)"),
    ("torch.ones(2, 3).sum(dmi=1)", "did you mean dim=?", "torch.ones(2, 3).sum(dim=1)"),
    ("torch.zeros(shape=(2,))", "did you mean size=?", "torch.zeros(size=(2,))"),
    ("nn.Conv2d(1, 1, 9)(torch.ones(1, 1, 4, 4))", "a larger input, padding, or a smaller kernel",
     "nn.Conv2d(1, 1, 9)(torch.ones(1, 1, 9, 9))\nnn.Conv2d(1, 1, 9, padding=3)(torch.ones(1, 1, 4, 4))\n"
     "nn.Conv2d(1, 1, 4)(torch.ones(1, 1, 4, 4))"),
    ("F.max_pool2d(torch.ones(1, 1, 4, 4), 9)", "a larger input, padding, or a smaller kernel",
     "F.max_pool2d(torch.ones(1, 1, 9, 9), 9)\nF.max_pool2d(torch.ones(1, 1, 4, 4), 9, padding=4)\n"
     "F.max_pool2d(torch.ones(1, 1, 4, 4), 4)"),
    ("torch.exp((lambda x: None)(2))", "does the function that made it return something?",
     "torch.exp((lambda x: torch.tensor(x))(2))"),
]


def run(program):
    exec(program, {**names(), "np": np})


def hint_of(program):
    with pytest.raises((RuntimeError, TypeError, ValueError, IndexError)) as raised:
        run(program)
    return "\n".join(note for note in getattr(raised.value, "__notes__", ()) if note.startswith("  hint:"))


@pytest.mark.parametrize("program, hint, corrected", CASES, ids=[case[0] for case in CASES])
def test_doing_what_the_hint_says_helps(program, hint, corrected):
    assert hint in hint_of(program)
    run(corrected)


def test_every_hint_has_a_case(monkeypatch):
    given, lines = set(), set()

    def watched(k, hint):
        def trace(frame, event, arg):
            lines.add(frame.f_lineno)
            return trace

        def call(m, op, tensors):
            before = sys.gettrace()
            sys.settrace(trace)
            try:
                found = hint if isinstance(hint, str) else hint(m, op, tensors)
            finally:
                sys.settrace(before)
            if found:
                given.add(k)
            return found
        return call

    table = _hints.HINTS
    monkeypatch.setattr(_hints, "HINTS", [(pattern, watched(k, hint)) for k, (pattern, hint) in enumerate(table)])
    for program, _, _ in CASES:
        assert hint_of(program)
    assert not [table[k][0].pattern for k in range(len(table)) if k not in given]
    functions = {hint.__name__ for _, hint in table if callable(hint)}
    returns = [node for f in ast.parse(inspect.getsource(_hints)).body
               if isinstance(f, ast.FunctionDef) and f.name in functions
               for node in ast.walk(f) if isinstance(node, ast.Return) and not is_none(node.value)]
    assert len(returns) > 20
    unseen = [ast.unparse(node) for node in returns if not lines & set(range(node.lineno, node.end_lineno + 1))]
    assert not unseen, "hints that no case brings up"


def is_none(node):
    return isinstance(node, ast.Constant) and node.value is None


DTYPES = ("uint8", "int64", "bool", "float16", "bfloat16", "float32", "float64", "complex64", "complex128")


@pytest.mark.parametrize("x, y", [pair for pair in product(DTYPES, DTYPES) if pair[0] != pair[1]])
def test_a_hint_about_dtypes_helps_for_every_pair(x, y):
    a, b = (flambeau.ones(2, 2).to(getattr(flambeau, dtype)) for dtype in (x, y))
    given = {"torch": flambeau, "a": a, "b": b, "F": flambeau.nn.functional}
    for call in ("a @ b", "torch.mm(a, b)", "torch.bmm(a[None], b[None])", "torch.mv(a, b[0])", "torch.dot(a[0], b[0])",
                 "F.linear(a, b)"):
        with pytest.raises(RuntimeError) as raised:
            eval(call, given)
        hint = next(note for note in raised.value.__notes__ if note.startswith("  hint:"))
        for way in hint.split(", or the layer"):
            dtype = getattr(flambeau, way.split(".to(torch.")[1].split(")")[0])
            eval(call, {**given, "a": a.to(dtype), "b": b.to(dtype)})
        if "layer.to" in hint:
            flambeau.nn.Linear(2, 2).to(a.dtype)


def test_names_of_results_are_no_suggestion():
    assert "indices" not in hint_of("torch.ones(2).sort(indice=1)")
    assert not hint_of("torch.exp(sel=1)")


def test_a_recurrent_layer_does_not_suggest_integer_weights():
    layer = flambeau.nn.LSTM(3, 4)
    with pytest.raises(ValueError, match=r"input\.to\(torch\.float32\)\n"):
        layer(flambeau.ones(2, 1, 3).long())
    with pytest.raises(ValueError, match=r"module\.to\(torch\.float64\)\n"):
        layer(flambeau.ones(2, 1, 3).double())


def test_a_name_that_pytorch_has_no_more():
    with pytest.raises(AttributeError, match=r"'symeig'.*which has linalg\.eigh now"):
        flambeau.symeig  # noqa: B018
    for now in REMOVED.values():
        space, name = now.split(".")
        assert callable(getattr(getattr(flambeau, space), name))
    assert not any(hasattr(flambeau, name) for name in REMOVED)


def test_volatile_variables_are_a_thing_of_the_past():
    with pytest.warns(UserWarning, match="no_grad"):
        x = flambeau.autograd.Variable(flambeau.ones(2), volatile=True)
    assert not x.requires_grad
