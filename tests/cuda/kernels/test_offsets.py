"""The type of offsets, where elements are many or far apart: what a kernel's text says, without running one."""

import pytest

from flambeau.cuda._calls import RowCall, TensorInfo
from flambeau.cuda.kernels import launches
from flambeau.cuda.kernels.lowering import lower

FAR = 2**30


def info(k, dtype, shape, strides=None):
    if strides is None:
        strides = launches.row_major(shape)
    return TensorInfo(k, dtype, tuple(shape), tuple(strides), True)


X, OUT = info(0, "float32", (10,)), info(3, "float32", (10,))
ONE = info(1, "int64", (5,))
MANY = info(1, "int64", (FAR,), (0,))      # one index, expanded: few bytes, many places
SPREAD = info(1, "int64", (5,), (FAR,))    # few places, far apart
CALLS = {
    "gather": lambda index: ((X, 0, index, False), info(3, "float32", index.shape)),
    "index_select": lambda index: ((X, 0, index), info(3, "float32", index.shape)),
    "index": lambda index: ((X, [index]), info(3, "float32", index.shape)),
    "scatter_add": lambda index: ((X, 0, index, info(2, "float32", index.shape, (0,))), OUT),
    "index_add": lambda index: ((X, 0, index, info(2, "float32", index.shape, (0,)), 1), OUT),
    "index_put": lambda index: ((X, [index], info(2, "float32", (1,)), True), OUT),
}


@pytest.mark.parametrize("name", CALLS)
def test_places_that_are_many_or_far_apart(monkeypatch, name):
    texts = []
    monkeypatch.setattr(launches, "compile", lambda source, arch, name: texts.append(source.rpartition("kernel(")[2]))
    for index, bits in ((ONE, 32), (MANY, 64), (SPREAD, 64)):
        texts.clear()
        args, out = CALLS[name](index)
        lower(RowCall(name, args, (out,), "sm_90", 0))
        kernels = [t for t in texts if "index0" in t]
        assert kernels and all(f"typedef int{bits}_t Index;" in t for t in kernels), (index, texts)


def test_windows_that_are_further_apart_than_they_are_many(monkeypatch):
    texts = []
    monkeypatch.setattr(launches, "compile", lambda source, arch, name: texts.append(source.rpartition("kernel(")[2]))
    grad, out = info(0, "float32", (3, 1)), info(1, "float32", (2 * FAR + 1,))
    lower(RowCall("unfold_backward", (grad, list(out.shape), 0, 1, FAR), (out,), "sm_90", 0))
    assert all("typedef int64_t Index;" in t for t in texts)
