# ruff: noqa: UP006, UP035, UP045 (as programs for PyTorch write types)
"""Which attributes of modules a program declares, and with which types."""

import io
from typing import Dict, List, Optional

import pytest

import flambeau
from flambeau import nn


def through(program):
    return flambeau.jit.load(io.BytesIO(program.save_to_buffer()))


class Remembering(nn.Module):
    _table: Dict[str, int]

    def __init__(self):
        super().__init__()
        self._calls = 0
        self._table, self._limit = {}, 2.5
        self.last: Optional[flambeau.Tensor] = None
        self.seen: List[flambeau.Tensor] = []

    @property
    def level(self) -> int:
        return self._calls * 2

    @level.setter
    def level(self, n: int):
        self._calls = n

    @flambeau.jit.unused
    @property
    def shown(self):
        return vars(self)

    def forward(self, x):
        self._calls += 1
        self._table["b"] = self._calls
        last = self.last
        self.last = x
        self.seen.append(x)
        if last is not None:
            x = x + last
        if self.level > 3:
            self.level = 0
        return x * self._limit, len(self._table), len(self.seen), self._calls, self.level


def test_private_and_annotated_attributes_and_properties():
    module, program = Remembering(), through(flambeau.jit.script(Remembering()))
    x = flambeau.ones(2)
    for _ in range(3):
        a, b = module(x), program(x)
        assert flambeau.equal(a[0], b[0]) and a[1:] == b[1:]
    code = flambeau.jit.script(module)._compiled()._kind.text
    assert "_calls : int" in code and "last : Optional[Tensor]" in code and "seen : List[Tensor]" in code


def test_private_attributes_of_the_librarys_layers_are_constants():
    assert "_qkv" not in flambeau.jit.script(nn.MultiheadAttention(4, 2))._compiled()._kind.text


def test_what_is_none_at_first_needs_a_type():
    class Unclear(nn.Module):
        def __init__(self):
            super().__init__()
            self.last = None

        def forward(self, x):
            self.last = x
            return x

    with pytest.raises(NotImplementedError, match=r"last: Optional\[Tensor\]"):
        flambeau.jit.script(Unclear()).code  # noqa: B018
