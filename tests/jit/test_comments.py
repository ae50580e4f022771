# ruff: noqa: UP035, F401 (as programs for older PyTorch write types)
"""Types that comments tell, as programs had them before Python had annotations."""

import io
from typing import Dict, List, Optional, Tuple

import pytest

import flambeau
from flambeau import nn


def through(program):
    return flambeau.jit.load(io.BytesIO(program.save_to_buffer()))


def below(x, n, names):
    # type: (Tensor, int, List[str]) -> Tuple[Tensor, Dict[str, int]]
    out = []  # type: List[Tensor]
    table = {}  # type: Dict[str, int]
    for k in range(n):
        out.append(x * k)
    for k, name in enumerate(names):
        table[name] = k
    return flambeau.stack(out), table


def behind(x,  # type: Tensor
           n=2,  # type: int
           more=None,  # type: Optional[Tensor]
           ):
    # type: (...) -> Tensor
    if more is not None:
        x = x + more
    return x * n


def beside(x: flambeau.Tensor, other) -> bool:
    # type: (Tensor, float) -> bool
    return bool(x.sum() > other)


class Method(nn.Module):
    def __init__(self):
        super().__init__()
        self.names = ["a"]

    def forward(self, x, k):
        # type: (Tensor, Optional[int]) -> List[Tensor]
        """Copies of a tensor."""
        if k is None:
            k = len(self.names)  # type: ignore[assignment]
        return [x] * k


@pytest.mark.parametrize(("what", "head"), [
    (below, "x: Tensor, n: int, names: List[str]) -> Tuple[Tensor, Dict[str, int]]:"),
    (behind, "x: Tensor, n: int=2, more: Optional[Tensor]=None) -> Tensor:"),
    (beside, "x: Tensor, other: float) -> bool:"), (Method(), "x: Tensor, k: Optional[int]) -> List[Tensor]:")])
def test_heads(what, head):
    assert head in flambeau.jit.script(what).code.splitlines()[0]


def test_values():
    x = flambeau.ones(2)
    stacked, table = through(flambeau.jit.script(below))(x, 2, ["a", "b"])
    assert stacked.tolist() == [[0, 0], [1, 1]] and table == {"a": 0, "b": 1}
    assert through(flambeau.jit.script(behind))(x, 3, None).tolist() == [3, 3]
    assert len(through(flambeau.jit.script(Method()))(x, None)) == 1


def test_a_comment_that_is_no_signature():
    def wrong(x):
        # type: Tensor, int -> Tensor
        return x

    with pytest.raises(NotImplementedError, match="no signature"):
        flambeau.jit.script(wrong).code  # noqa: B018
