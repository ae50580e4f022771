# ruff: noqa: UP006, UP035 (as programs for PyTorch write types)
"""Hooks of modules in programs: they run where Python runs them, here and in what is read."""

import io
from typing import Tuple

import pytest

import flambeau
from flambeau import nn


def through(program):
    return flambeau.jit.load(io.BytesIO(program.save_to_buffer()))


class Inner(nn.Module):
    def __init__(self):
        super().__init__()
        self.shift = 2

    def forward(self, x: flambeau.Tensor, k: int) -> Tuple[flambeau.Tensor, int]:
        return x * k, k


class Outer(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Inner()
        self.chain = nn.Sequential(nn.Linear(2, 2), nn.ReLU())

    def forward(self, x: flambeau.Tensor) -> flambeau.Tensor:
        a, _ = self.inner(x, 3)
        b = self.inner.forward(x, 3)
        return a + b[0] * 100 + self.chain(x)


def moved(self, input: Tuple[flambeau.Tensor, int]) -> Tuple[flambeau.Tensor, int]:
    return input[0] + self.shift, input[1] + 1


def looked_at(self, input: Tuple[flambeau.Tensor, int]) -> None:
    assert input[1] > 0


def grown(self, input: Tuple[flambeau.Tensor, int], output: Tuple[flambeau.Tensor, int]):
    return output[0] + 1000, output[1]


def halved(self, input: Tuple[flambeau.Tensor]) -> flambeau.Tensor:
    return input[0] / 2


def summed(self, input: Tuple[flambeau.Tensor], output: flambeau.Tensor):
    output = output + input[0]
    return output


def hooked():
    flambeau.manual_seed(0)
    module = Outer()
    for hook in (moved, looked_at):
        module.inner.register_forward_pre_hook(hook)
    module.inner.register_forward_hook(grown)
    module.chain.register_forward_hook(summed)
    module.chain[0].register_forward_pre_hook(halved)
    module.register_forward_pre_hook(halved)
    module.register_forward_hook(summed)
    return module


def test_hooks_are_methods():
    module, x = hooked(), flambeau.rand(3, 2)
    scripted = flambeau.jit.script(module)
    program = through(scripted)
    assert flambeau.allclose(scripted(x), module(x)) and flambeau.allclose(program(x), module(x))
    assert flambeau.allclose(program.forward(x), module.forward(x))  # without those of the module itself
    assert flambeau.allclose(program.inner(x, 1)[0], module.inner(x, 1)[0])
    again = through(program)
    assert flambeau.allclose(again(x), module(x)) and flambeau.allclose(
        flambeau.jit.freeze(again.eval())(x), module.forward(x))


@pytest.mark.parametrize(("register", "text"), [
    (lambda m: m.register_forward_pre_hook(moved, with_kwargs=True), "positional"),
    (lambda m: m.register_forward_hook(grown, always_call=True), "positional"),
    (lambda m: m.register_forward_pre_hook(lambda module, args: None), "name"),
    (lambda m: m.register_forward_pre_hook(type("shift", (), {"__name__": "shift", "__call__": moved})()), "name"),
])
def test_hooks_that_a_program_has_not(register, text):
    module = Outer()
    register(module.inner)
    with pytest.raises(NotImplementedError, match=text):
        flambeau.jit.script(module).code  # noqa: B018


def test_a_class_that_lists_a_hook_has_it():
    with pytest.raises(RuntimeError, match="lists a hook"):
        flambeau.jit._program.Program({"__torch__": "class A(Module):\n  __parameters__ = []\n  __buffers__ = []\n"
                                                    '  __forward_hooks__ = ["missing", ]\n'}).find("__torch__.A")
