"""The op table as test cases: every operator's samples, and the helpers that the laws in test_*.py share.

A record's fact `skip` is {law: reason} or one reason for all laws; `dtypes` restricts what the samples are made of.
"""

from functools import cache

import numpy as np
import pytest

import flambeau
from flambeau.ops.kinds import FACTS, OPS

from . import samples as sample_module
from .samples import forms as sample_forms

#: where samples are made; `pytest --device` sets it before tests are collected
DEVICE = "cpu"
FLOATS = (flambeau.float16, flambeau.bfloat16, flambeau.float32, flambeau.float64)
INTS = (flambeau.uint8, flambeau.int8, flambeau.int16, flambeau.int32, flambeau.int64)
COMPLEX = (flambeau.complex64, flambeau.complex128)
ALL_DTYPES = (flambeau.bool, *INTS, *FLOATS, *COMPLEX)
#: what an operator may say to a dtype or form it does not offer
REFUSALS = (RuntimeError, TypeError, ValueError, IndexError, NotImplementedError)
RANDOM_KINDS = ("random",)
#: samples that say nothing of a device, by operator: of these drivers CUDA has "gels", which is not the CPU's default
NOT_THERE = {"linalg_lstsq": lambda sample: sample.kwargs.get("driver") != "gels"}

#: a name that stands for several records has no facts of its own, only samples
OVERLOADS = sorted(n for n in OPS if n not in FACTS)
#: without forms for `ops.aten` alone, which are there once something has asked for one
NAMES = sorted(name for name, op in OPS.items() if getattr(op.body, "__module__", "") != "flambeau.ops.aten_forms")
KEYS = ("kind", "schema", "ref", "samples", "atol", "dtypes", "skip")


def fact(name, key):
    if name in FACTS:
        return FACTS[name][KEYS.index(key)]
    return {"kind": "overloads", "schema": f"{name}() -> Tensor"}.get(key)


def is_public(name):
    """Whether users can call it; what they cannot is tested through the operators made of it."""
    base = name.split(".")[0]
    return not base.startswith("_") and any(hasattr(space, base) for space in (
        flambeau, flambeau.nn.functional, flambeau.Tensor))


def base(name):
    """The name in messages: without the alternative's suffix."""
    return name.split(".")[0]


def skip_reason(name, law):
    """Why the record leaves this law out; None if it does not."""
    skip = fact(name, "skip")
    if skip is None:
        return None
    if isinstance(skip, str):
        return skip
    return skip.get(law) if isinstance(skip, dict) else (str(law) if law in skip else None)


def skip_what_needs_a_library(refusal):
    """Skips where a refusal says that one of NVIDIA's libraries is wanted, which are no part of the fake driver."""
    if DEVICE != "cpu" and "part of flambeau[cuda]" in str(refusal):
        pytest.skip(str(refusal).splitlines()[0])


def tensor(values, shape, dtype):
    fractions = not (dtype.is_floating_point or dtype.is_complex) and any(isinstance(v, float) for v in values)
    made = flambeau.tensor(values, dtype=flambeau.float64 if fractions else dtype, device=DEVICE)
    return made.to(dtype).reshape(shape)


def maker(dtype=flambeau.float64, requires_grad=False, seed=0):
    return sample_module.Maker(tensor, dtype, flambeau.int64, flambeau.bool, requires_grad, seed)


def generator_of(name):
    """(generator, parameters) of an operator's samples; None for internal ones whose record names none."""
    if not is_public(name) and fact(name, "samples") is None and name not in sample_forms.GENERATORS:
        return None
    return sample_module.resolve(name, fact(name, "kind"), fact(name, "schema"), fact(name, "samples"))


def samples(name, dtype=flambeau.float64, requires_grad=False, seed=0):
    """The sample calls of an operator, tensors included; [] where it has no generator."""
    found = generator_of(name)
    made = list(found[0](maker(dtype, requires_grad, seed), *found[1])) if found else []
    return [s for s in made if not NOT_THERE[name](s)] if DEVICE != "cpu" and name in NOT_THERE else made


#: results whose values nobody promises
UNSPECIFIED = ("empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided")
#: laws that compare two calls' values
COMPARING = ("gradcheck", "gradgradcheck", "complex_gradcheck", "float32_gradient", "layouts", "narrow_dtypes",
             "keywords", "method", "inplace", "out")


@cache
def with_samples(law):
    """The names of operators that have samples and do not skip `law`."""
    return [n for n in NAMES if generator_of(n) is not None and skip_reason(n, law) is None
            and not (law in COMPARING and n in UNSPECIFIED)]


def is_random(name):
    """Whether results depend on the generator: another layout or dtype then means other numbers."""
    return name == "bernoulli_" or any("Generator" in fact(n, "schema") for n in (name, *alternatives(name)))


def alternatives(name):
    """The records behind an overloaded name, as far as their names show it."""
    return [n for n in FACTS if n.startswith((name + ".", name + "_"))] if name in OVERLOADS else []


def run(name, sample):
    flambeau.manual_seed(0)  # random operators repeat
    if name.endswith("_"):  # in place
        sample = map_tensors(lambda t: t.clone(), sample)
    return OPS[name](*sample.args, **sample.kwargs)


def compared(count, why):
    """Ends a law's test: one that compared nothing is skipped, which tests/skips.txt must list."""
    if not count:
        pytest.skip(why)


def tensors(result):
    """The tensors of a result, in order."""
    if isinstance(result, flambeau.Tensor):
        return [result]
    if isinstance(result, (tuple, list)):
        return [t for part in result for t in tensors(part)]
    return []


def others(result):
    """What else is in a result: numbers, bools, sizes, dtypes."""
    if isinstance(result, (tuple, list)) and not isinstance(result, flambeau.Size):
        return [x for part in result for x in others(part)]
    return [] if isinstance(result, flambeau.Tensor) else [result]


def map_tensors(f, sample):
    """The sample with every tensor of its arguments replaced by f(tensor)."""
    def change(x):
        if isinstance(x, flambeau.Tensor):
            return f(x)
        if isinstance(x, (tuple, list)):
            return type(x)(change(v) for v in x)
        return x
    return sample_module.Sample(tuple(change(a) for a in sample.args),
                                {k: change(v) for k, v in sample.kwargs.items()})


def parameters(name):
    """[(argument name, type)] of the schema, in order."""
    schema = fact(name, "schema")
    inside = schema[schema.index("(") + 1:schema.rindex("->")].strip().rstrip(")")
    parts, depth, start = [], 0, 0
    for k, c in enumerate(inside + ","):
        depth += (c in "[(") - (c in "])")
        if c == "," and depth == 0:
            parts.append(inside[start:k].strip())
            start = k + 1
    return [(p.split("=")[0].split()[1], p.split()[0]) for p in parts if p and p != "*"]


def result_text(name):
    schema = fact(name, "schema")
    return schema[schema.rindex("->") + 2:].strip()


def to_numpy(x):
    """Values for comparison: halves as float32 (NumPy has no bfloat16)."""
    x = x.detach().cpu()
    if x.dtype in (flambeau.float16, flambeau.bfloat16):
        x = x.to(flambeau.float32)
    return x.resolve_conj().resolve_neg().numpy()


def tolerance(dtype, atol=None):
    base = {flambeau.float16: 2e-3, flambeau.bfloat16: 2e-2, flambeau.float32: 1e-5, flambeau.complex64: 1e-5}
    t = base.get(dtype, 1e-9)
    return max(t, atol or 0.0) if dtype in base else max(t, min(atol or 0.0, 1e-6))


def assert_same(found, expected, dtype=None, atol=None, what=""):
    """Results equal within the dtype's tolerance: same types, structure, shapes, dtypes; numbers and sizes equal."""
    assert type(found) is type(expected), f"{what}: {type(found).__name__} instead of {type(expected).__name__}"
    for x, y in zip(others(found), others(expected), strict=True):
        assert x == y or (x != x and y != y), f"{what}: {x} instead of {y}"
    a, b = tensors(found), tensors(expected)
    assert len(a) == len(b), f"{what}: {len(a)} results instead of {len(b)}"
    for x, y in zip(a, b, strict=True):
        assert x.shape == y.shape, f"{what}: shape {list(x.shape)} instead of {list(y.shape)}"
        assert x.dtype == y.dtype, f"{what}: dtype {x.dtype} instead of {y.dtype}"
        t = tolerance(x.dtype, atol)
        np.testing.assert_allclose(to_numpy(x), to_numpy(y), rtol=t, atol=t, err_msg=what)
