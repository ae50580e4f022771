"""Dimensions counted from the end: one function wraps and checks them, and every operator speaks with its voice."""

import re
from pathlib import Path

import pytest

import flambeau
from flambeau.ops.dims import wrap_dim, wrap_dims

ROOT = Path(flambeau.__file__).resolve().parent


def test_wrapping():
    assert [wrap_dim(d, 3, "f") for d in (-3, -1, 0, 2)] == [0, 2, 0, 2]
    assert wrap_dim(-1, 0, "f") == wrap_dim(0, 0, "f") == 0  # a number has one place for dim
    assert wrap_dims((-1, 0), 2, "f") == [1, 0] and wrap_dims((), 0, "f") == []


@pytest.mark.parametrize(("dim", "ndim", "message"), [
    (3, 3, "f: dim 3 is out of range for 3 dimensions: -3 to 2"), (-4, 3, "f: dim -4 is out of range for 3 dimensions"),
    (1, 0, "f: dim 1 is out of range for 1 dimension: -1 to 0")])
def test_out_of_range(dim, ndim, message):
    with pytest.raises(IndexError, match=re.escape(message)):
        wrap_dim(dim, ndim, "f")


def test_none_is_named_twice():
    with pytest.raises(RuntimeError, match=r"f: dims \[1, -1\] name a dimension twice"):
        wrap_dims([1, -1], 2, "f")


def test_wrap_dim_takes_numbers():
    with pytest.raises(TypeError):
        wrap_dim("0", 1, "f")
    with pytest.raises(TypeError):
        wrap_dim(0, 1)


@pytest.mark.parametrize("call", [
    lambda x, d: flambeau.tensordot(x, x, ([d], [0])), lambda x, d: flambeau.rot90(x, 1, (0, d)),
    lambda x, d: flambeau.diag_embed(x, 0, 0, d), lambda x, d: flambeau.gradient(x, dim=d),
    lambda x, d: flambeau.renorm(x, 2, d, 1.0), lambda x, d: flambeau.linalg.matrix_norm(x, dim=(0, d)),
    lambda x, d: flambeau.linalg.cross(x, x, dim=d), lambda x, d: flambeau.fft.fft(x, dim=d),
    lambda x, d: flambeau.fft.fftshift(x, dim=d), lambda x, d: flambeau.masked.sum(x, d),
    lambda x, d: flambeau.take_along_dim(x, flambeau.zeros(3, 3, dtype=flambeau.int64), d),
    lambda x, d: flambeau.repeat_interleave(x, 2, d), lambda x, d: flambeau.trapezoid(x, x[0], dim=d),
    lambda x, d: flambeau.vmap(lambda y: y.sum(d))(x), lambda x, d: flambeau.vmap(lambda y: y, out_dims=d)(x),
    lambda x, d: flambeau.hash_tensor(x, d), lambda x, d: flambeau.norm_except_dim(x, 2, d),
    lambda x, d: x.tensor_split(2, d),
    lambda x, d: flambeau.segment_reduce(x, "sum", lengths=flambeau.tensor([3]), axis=d)])
def test_composites_say_what_primitives_say(call):
    with pytest.raises(IndexError, match=r"dim 9 is out of range for \d dimensions?: -\d to \d"):
        call(flambeau.ones(3, 3), 9)


def test_nobody_else_wraps():
    """No other module computes `dim % ndim`, or writes the sentence itself."""
    pattern = re.compile(r"% *(max\()?[\w.]*\b(ndim\b|dim\(\))|\bdim \{[^}]*\} is out of range")
    for path in ROOT.rglob("*.py"):
        if path.name != "dims.py":
            for number, line in enumerate(path.read_text().splitlines(), 1):
                assert not pattern.search(line), f"{path.relative_to(ROOT)}:{number}: use ops/dims.py"
