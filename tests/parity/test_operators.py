"""Every operator against PyTorch on its samples, in every dtype: values, shapes, dtypes, and what is refused.

What differs is listed with its reason in differ_operators.txt."""

import numpy as np
import pytest

import flambeau

from ..ops import battery
from ..ops.battery import OPS, run, samples, tensors, to_numpy
from . import pins

pytestmark = pytest.mark.parity
TOLERANCE = {"float16": 2e-3, "bfloat16": 2e-2, "float32": 2e-5, "complex64": 2e-5}


#: what PyTorch takes and Flambeau refuses, by dtype: known, and small enough to wait
NOT_OFFERED = {
    "int64": ("avg_pool1d", "avg_pool2d", "avg_pool3d", "local_response_norm"),
    "bool": ("clamp_max", "clamp_min", "addr", "pow"),
    "complex": ("adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d", "logaddexp", "logcumsumexp",
                "logsumexp", "rms_norm"),
}
#: which of equal elements they name is nobody's promise
TIES = ("topk", "kthvalue", "median", "nanmedian", "mode")


def not_offered(name, dtype, sample):
    """Whether a refusal is a known one. PyTorch also takes any dtype where an empty tensor leaves nothing to do."""
    if any(isinstance(a, flambeau.Tensor) and a.numel() == 0 for a in sample.args):
        return True
    return any(kind in str(dtype) and name in names for kind, names in NOT_OFFERED.items())


def flat(x):
    if isinstance(x, tuple) and x and x[0] == "tensor":
        return [x]
    return [t for part in x for t in flat(part)] if isinstance(x, (list, tuple)) else []


def torch_name(name):
    return name.split(".")[0]


@pytest.mark.parametrize("name", [n for n in battery.with_samples("parity") if battery.is_public(n)])
def test_operator(name, torch_process):
    compared = differ = 0
    problems = []
    for dtype in battery.ALL_DTYPES:
        try:
            calls = samples(name, dtype)
        except battery.REFUSALS:
            continue
        answers = torch_process.ask([(torch_name(name), s.args, s.kwargs) for s in calls])
        for sample, answer in zip(calls, answers, strict=True):
            what = f"{name}{sample}"
            if answer[0] == "missing":
                pytest.skip("PyTorch has no function of this name")
            try:
                found = tensors(run(name, sample))
            except battery.REFUSALS as refusal:
                if answer[0] == "result" and not not_offered(name, dtype, sample):
                    problems.append(f"{what}: PyTorch works, here: {type(refusal).__name__}: {refusal}")
                continue
            if answer[0] == "error":
                differ += 1  # offered here and not there: no fault
                continue
            if "int" in str(dtype) and name in TIES:
                found = found[:1]
            if not (name == "addr" and dtype == flambeau.bool):
                problems += compare(what, found, flat(answer[1])[:len(found)], name)
            compared += 1
    differing = {problem.partition(": ")[0]: problem for problem in problems}
    unexpected = pins.problems("operators", differing, lambda case: case.startswith(name + "("))
    assert not unexpected, "\n".join(unexpected[:12])
    if not compared:
        pytest.skip(f"nothing to compare ({differ} calls that only Flambeau takes)")


UNSPECIFIED = ("empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided")


def compare(what, found, expected, name):
    if len(found) != len(expected):
        return [f"{what}: {len(found)} results, PyTorch has {len(expected)}"]
    problems = []
    for x, (_, dtype, array) in zip(found, expected, strict=True):
        if str(x.dtype).split(".")[1] != dtype:
            problems.append(f"{what}: {x.dtype}, PyTorch {dtype}")
        elif tuple(x.shape) != array.shape:
            problems.append(f"{what}: shape {list(x.shape)}, PyTorch {list(array.shape)}")
        elif torch_name(name) not in UNSPECIFIED:
            t = TOLERANCE.get(dtype, 1e-9)
            mine = to_numpy(x).astype(array.dtype)
            with np.errstate(all="ignore"):
                if not np.allclose(mine, array, rtol=t, atol=t, equal_nan=True):
                    problems.append(f"{what}: {mine.ravel()[:6]}, PyTorch {array.ravel()[:6]}")
    return problems


@pytest.mark.parametrize("a", battery.ALL_DTYPES, ids=str)
def test_promotion(a, torch_process):
    names = ("add", "sub", "mul", "div", "true_divide", "floor_divide", "pow", "maximum", "eq", "atan2", "remainder")
    for name in names:
        if name not in OPS or (name == "pow" and a == flambeau.bool):
            continue
        calls = []
        for b in battery.ALL_DTYPES:
            x, y = flambeau.ones(2).to(a), flambeau.ones(2).to(b)
            calls += [(x, y), (x, y[0]), (x[0], y), (x, 2), (x, 1.5), (x, True)]
        answers = torch_process.ask([(name, args, {}) for args in calls])
        for args, answer in zip(calls, answers, strict=True):
            try:
                found = OPS[name](*args)
            except battery.REFUSALS:
                assert answer[0] == "error", f"{name}{args}: PyTorch works"
                continue
            if answer[0] == "result":
                assert str(found.dtype).split(".")[1] == answer[1][1], f"{name}{args}: {found.dtype}"
