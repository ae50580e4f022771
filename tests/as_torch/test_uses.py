"""Which names of PyTorch a source text uses: aliases, scopes, guards, methods of tensors."""

import pytest

from flambeau.as_torch import uses


def names(source, *methods):
    return [use.name for use in uses(source, methods=methods)]


def after_import(source):
    return names(f"import torch\n{source}")[1:]


@pytest.mark.parametrize(("source", "found"), [
    ("import torch\ntorch.ones(2)", ["torch", "torch.ones"]),
    ("import torch as t\nt.nn.Linear", ["torch", "torch.nn.Linear"]),
    ("import torch.nn.functional as F\nF.relu", ["torch.nn.functional", "torch.nn.functional.relu"]),
    ("import torch.optim.adamw\ntorch.optim.SGD", ["torch.optim.adamw", "torch.optim.SGD"]),
    ("from torch import nn, ones as o\nnn.Linear; o(2)", ["torch.nn", "torch.ones", "torch.nn.Linear", "torch.ones"]),
    ("from torch.nn import *", ["torch.nn"]),
    ("from torchvision import models", ["torchvision.models"]),
    ("import numpy as torch\ntorch.ones", []),
    ("from . import torch\ntorch.ones", []),
    ("from .torch import ones\nones", []),
    ("import torchmetrics\ntorchmetrics.ones", []),
])
def test_imports(source, found):
    assert names(source) == found


@pytest.mark.parametrize(("source", "found"), [
    ("F = torch.nn.functional\nF.relu", ["torch.nn.functional", "torch.nn.functional.relu"]),
    ("def f(torch):\n    torch.ones", []),
    ("def f(x=torch.ones):\n    import torch as t\n    return t.zeros, x", ["torch.ones", "torch", "torch.zeros"]),
    ("def f():\n    torch = 3\n    return torch.ones", []),
    ("def f():\n    global torch\n    torch = 3\n    return torch.ones", ["torch.ones"]),
    ("[torch.a for torch in b]\ntorch.ones", ["torch.ones"]),
    ("lambda torch: torch.a\nlambda x: torch.ones", ["torch.ones"]),
    ("class A(torch.nn.Module):\n    t = torch\n    def f(self):\n        t.ones", ["torch.nn.Module"]),
    ("@torch.no_grad()\ndef f(x: torch.Tensor) -> torch.Size: pass", ["torch.no_grad", "torch.Tensor", "torch.Size"]),
    ("torch.backends.cudnn.benchmark = True", []),
    ("torch.ones(2).shape.x", ["torch.Tensor.shape", "torch.ones"]),
    ("a = b = a.x", []),
])
def test_scopes(source, found):
    assert after_import(source) == found


@pytest.mark.parametrize(("source", "found"), [
    ("torch.ones(2).foo()", "torch.Tensor.foo"),
    ("x = torch.ones(2)\nx.foo", "torch.Tensor.foo"),
    ("x = torch.nn.functional.relu(y)\nz = (2 * x).float()[0].T\nz.foo", "torch.Tensor.foo"),
    ("def f(x: torch.Tensor):\n    x.foo", "torch.Tensor.foo"),
])
def test_methods_of_what_is_a_tensor_for_sure(source, found):
    assert found in after_import(source)


@pytest.mark.parametrize("source", [
    "x = torch.ones(2)\nx = read()\nx.foo", "def f(x):\n    x.foo", "x = torch.max(y, 0)\nx.foo",
    "def f(x: int):\n    x.foo", "x = torch.ones(2)\ndef f(x):\n    x.foo", "for x in torch.ones(2):\n    x.foo"])
def test_methods_of_what_may_be_anything(source):
    assert "torch.Tensor.foo" not in after_import(source)


def test_methods_that_only_tensors_have():
    assert names("x.record_stream(s); x.close()", "record_stream") == ["torch.Tensor.record_stream"]


@pytest.mark.parametrize(("source", "guarded"), [
    ("try:\n    torch.a\nexcept AttributeError:\n    pass", True),
    ("try:\n    torch.a\nexcept (KeyError, ImportError):\n    pass", True),
    ("try:\n    torch.a\nexcept:\n    pass", True),
    ("try:\n    torch.a\nexcept ValueError:\n    pass", False),
    ("try:\n    pass\nexcept ImportError:\n    torch.a", False),
    ("if hasattr(torch, 'a'):\n    torch.a", True),
    ("getattr(torch, 'a', None)", True),
    ("getattr(torch, 'a')", False),
    ("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    torch.a\nelse:\n    pass", True),
    ("torch.a", False),
])
def test_guards(source, guarded):
    found = [use for use in uses(f"import torch\n{source}") if use.name == "torch.a"]
    assert found and all(use.guarded is guarded for use in found)


def test_names_below_a_guarded_one_are_guarded():
    found = uses("import torch\nif hasattr(torch, 'xpu'):\n    torch.xpu.empty_cache()")
    assert {use.name: use.guarded for use in found}["torch.xpu.empty_cache"]


def test_lines():
    found = uses("import torch\n\nx = (1,\n  torch.pi)")
    assert [(use.name, use.line) for use in found] == [("torch", 1), ("torch.pi", 4)]
