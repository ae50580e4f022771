"""What runs in one thread is not seen in another: exports and traces."""

from concurrent.futures import ThreadPoolExecutor

import pytest

import flambeau
from flambeau._graph.exporting import exporting
from flambeau.jit._state import tracing
from flambeau.onnx import _capture


@pytest.mark.parametrize("block, asked", [
    (exporting, flambeau.compiler.is_exporting), (tracing, flambeau.jit.is_tracing),
    (_capture.exporting, flambeau.onnx.is_in_onnx_export),
], ids=["export", "jit", "onnx"])
def test_a_thread_has_its_own_answer(block, asked):
    with ThreadPoolExecutor(1) as pool, pytest.raises(KeyError), block():
        with block():
            assert asked() and not pool.submit(asked).result()
        assert asked()
        raise KeyError
    assert not asked()
