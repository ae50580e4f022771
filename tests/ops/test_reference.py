"""Each operator computes what its reference in NumPy or SciPy does."""

import importlib

import numpy as np
import pytest

import flambeau

from . import battery, refusals
from .battery import fact, parameters, run, samples, to_numpy

#: arguments that NumPy calls otherwise
RENAMED = {"dim": "axis", "dims": "axis", "keepdim": "keepdims", "correction": "ddof", "diagonal": "k", "offset": "k",
           "min": "min", "max": "max"}
NAMES = [n for n in battery.with_samples("reference") if fact(n, "ref")]


def reference(path):
    if callable(path):
        return path
    module, _, name = path.rpartition(".")
    if module == "reference":
        module = "tests.ops.reference"
    parts = module.split(".")
    for k in range(len(parts), 0, -1):
        try:
            owner = importlib.import_module(".".join(parts[:k]))
        except ModuleNotFoundError:
            continue
        for part in parts[k:]:
            owner = getattr(owner, part)
        return getattr(owner, name)
    raise ModuleNotFoundError(path)


def numpy_cumulative(f):
    return lambda x, dim: f(x, dim) if x.ndim else f(x, 0).reshape(())


#: operators whose arguments mean something else in NumPy
CALLS = {
    "clamp_max": np.minimum, "clamp_min": np.maximum, "cumsum": numpy_cumulative(np.cumsum),
    "cumprod": numpy_cumulative(np.cumprod), "diagonal": np.diagonal, "tile": np.tile, "permute": np.transpose,
    "expand": lambda x, shape: np.broadcast_to(x, [n if n >= 0 else x.shape[k - len(shape)]
                                                   for k, n in enumerate(shape)]),
    "index_select": lambda x, dim, index: np.take(x, index, dim),
    "transpose": lambda x, a, b: np.swapaxes(x, a, b) if x.ndim else x,
    "squeeze": lambda x, dim=None: np.squeeze(x, dim if dim is None else tuple(
        d for d in (dim if isinstance(dim, tuple) else (dim,)) if x.shape[d] == 1)),
    "meshgrid": lambda *xs, indexing: np.meshgrid(*xs, indexing=indexing),
}


def as_numpy(x):
    if isinstance(x, flambeau.Tensor):
        return to_numpy(x)
    if isinstance(x, (list, tuple)):
        return type(x)(as_numpy(v) for v in x)
    return x


def numpy_call(name, sample):
    """The reference with the sample's arguments: NumPy's names for dim and keepdim, the rest in place."""
    if name in CALLS:
        return CALLS[name](*map(as_numpy, sample.args), **{k: as_numpy(v) for k, v in sample.kwargs.items()})
    known = [p for p, _ in parameters(name)]
    bound = [*zip(known, sample.args, strict=False), *sample.kwargs.items()]
    if len(sample.args) > len(known):
        bound = [(None, a) for a in sample.args]
    args, kwargs = [], {}
    for key, value in bound:
        value = as_numpy(value)
        if key in RENAMED and not fact(name, "ref").startswith("tests") and "reference." not in fact(name, "ref"):
            kwargs[RENAMED[key]] = tuple(value) if isinstance(value, list) else value
        elif kwargs:
            kwargs[key] = value
        else:
            args.append(value)
    with np.errstate(all="ignore"):
        return reference(fact(name, "ref"))(*args, **kwargs)


def dtypes_of(name):
    allowed = fact(name, "dtypes")
    wanted = [d for d in (flambeau.float64, flambeau.float32, flambeau.complex128)
              if not refusals.refuses_all(name, d)]
    if allowed is None:
        return wanted
    return [d for d in wanted if any(a in str(d) for a in ([allowed] if isinstance(allowed, str) else allowed))]


def is_empty(sample):
    return any(isinstance(a, flambeau.Tensor) and a.numel() == 0 for a in sample.args)


@pytest.mark.parametrize("name, dtype", [(n, d) for n in NAMES for d in dtypes_of(n)],
                         ids=lambda x: x if isinstance(x, str) else str(x).split(".")[1])
def test_reference(name, dtype):
    checked = 0
    for k, sample in enumerate(samples(name, dtype)):
        # SciPy and NumPy refuse many empty arrays; the other laws cover them
        if is_empty(sample) or refusals.refuses(name, dtype, k):
            continue
        results = battery.tensors(run(name, sample))
        try:
            expected = numpy_call(name, sample)
        except TypeError:
            if dtype == flambeau.complex128:  # no such ufunc loop
                continue
            raise
        expected = list(expected) if isinstance(expected, (tuple, list)) else [expected]
        t = battery.tolerance(results[0].dtype, fact(name, "atol"))
        for x, y in zip(results, map(np.asarray, expected), strict=True):
            assert tuple(x.shape) == y.shape, f"{name}{sample}"
            assert kind_of(to_numpy(x).dtype) == kind_of(y.dtype), f"{name}{sample}: {x.dtype}, the reference {y.dtype}"
            np.testing.assert_allclose(to_numpy(x), y, rtol=max(t, 2e-6 if dtype == flambeau.float32 else 1e-9),
                                       atol=t, err_msg=f"{name}{sample}")
            checked += 1
    battery.compared(checked, "the reference, or the operator, takes no such numbers")


def kind_of(dtype):
    """Bools, integers, floats, complex numbers: a reference in NumPy computes in its own width."""
    return {"u": "i"}.get(dtype.kind, dtype.kind)


#: where PyTorch's value at infinity or NaN is another than the reference's, and ours is PyTorch's or the limit
OTHER_LIMITS = ("sign", "lgamma", "i0", "special_i0", "special_i1", "special_i0e", "special_i1e")


def is_unary(name):
    return fact(name, "kind") == "elementwise" and len(parameters(name)) == 1 and \
        not refusals.refuses(name, flambeau.float32, 0)


@pytest.mark.parametrize("name", [n for n in NAMES if is_unary(n) and n not in OTHER_LIMITS
                                  and battery.skip_reason(n, "special_values") is None])
def test_special_values(name):
    """Infinities, NaN and signed zeros, one tensor of them, where the operator is unary elementwise."""
    values = [0.0, -0.0, float("inf"), -float("inf"), float("nan"), 1.0, -1.0, 1e-30, -1e-30, 1e30, 0.5, -0.5]
    for dtype in (flambeau.float64, flambeau.float32):
        x = flambeau.tensor(values * 3, dtype=dtype)
        found = to_numpy(battery.OPS[name](x))
        with np.errstate(all="ignore"):
            expected = reference(fact(name, "ref"))(to_numpy(x))
        np.testing.assert_allclose(found, expected, rtol=3e-6 if dtype == flambeau.float32 else 1e-9,
                                   atol=1e-7 if dtype == flambeau.float32 else 1e-12, err_msg=str(dtype))
