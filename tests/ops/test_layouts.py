"""Results do not depend on how inputs lie in memory, and inputs are left as they were."""

import pytest

import flambeau

from . import battery
from .battery import assert_same, fact, map_tensors, run, samples, tensors


def transposed(t):
    """Same values, dimensions reversed in memory."""
    order = tuple(reversed(range(t.ndim)))
    return t.permute(order).contiguous().permute(order)


def spaced(t):
    """Same values, every second element of a larger block, starting past its beginning."""
    return flambeau.stack([flambeau.zeros_like(t), t], -1)[..., 1]


def cut(t):
    """Same values, the rows being parts of longer ones."""
    return flambeau.stack([t, t, t], -2).flatten(-2).narrow(-1, t.shape[-1], t.shape[-1]) if t.ndim else t


def expanded(t):
    """Stride 0 along the first dimension, for tensors whose rows are equal anyway: made so from the first row."""
    return t[:1].expand(t.shape) if t.ndim and t.shape[0] > 1 else t


LAYOUTS = {"transposed": transposed, "spaced": spaced, "cut": cut}


def same_shapes(a, b):
    for x, y in zip(tensors(a), tensors(b), strict=True):
        assert x.shape == y.shape


def by_strides(name):
    """Views, and the copies of views: what they may do depends on strides by definition."""
    name = name.removesuffix("_copy")
    return name in ("as_strided", "view") or fact(name, "kind") == "view"


#: another layout means other numbers
NAMES = [n for n in battery.with_samples("layouts") if not battery.is_random(n)]


@pytest.mark.parametrize("name", NAMES)
def test_layouts(name):
    done = 0
    for sample in samples(name):
        expected = run(name, sample)
        for layout, change in LAYOUTS.items():
            moved = map_tensors(change, sample)
            try:
                found = run(name, moved)
            except RuntimeError as refusal:
                if by_strides(name):  # these depend on strides by definition
                    assert "view" in str(refusal) or "stride" in str(refusal) or "storage" in str(refusal), refusal
                    continue
                raise
            if name.startswith("as_strided"):
                same_shapes(found, expected)
            else:
                assert_same(found, expected, atol=1e-9, what=f"{name}{sample}, {layout}")
            done += any(t.numel() > 1 for t in given(moved))
    battery.compared(done, "no sample with a tensor of several elements")


def given(sample):
    found = []
    map_tensors(lambda t: found.append(t) or t, sample)
    return found


#: a matrix of equal rows is singular, and equal lengths of packed sequences are other sequences
NOT_OF_EQUAL_ROWS = ("cholesky", "inverse", "linalg_cholesky", "linalg_inv", "linalg_lu_factor", "linalg_solve",
                     "linalg_tensorinv", "linalg_tensorsolve", "gru.data", "lstm.data", "rnn_relu.data",
                     "rnn_tanh.data")


@pytest.mark.parametrize("name", [n for n in battery.with_samples("layouts") if not by_strides(n)
                                  and not n.endswith("_") and n not in NOT_OF_EQUAL_ROWS])
def test_expanded_inputs(name):
    done = 0
    for sample in samples(name)[:4]:
        dense = map_tensors(lambda t: expanded(t).clone(), sample)
        stretched = map_tensors(expanded, sample)
        assert_same(run(name, stretched), run(name, dense), atol=1e-9, what=f"{name}{sample}")
        done += any(0 in t.stride() for t in given(stretched))
    battery.compared(done, "no sample with a tensor of several rows")


@pytest.mark.parametrize("name", [n for n in battery.with_samples("inputs_unchanged") if not n.endswith("_")])
def test_inputs_stay_as_they_were(name):
    done = 0
    for sample in samples(name)[:4]:
        before, versions = [], []

        def note(t, before=before, versions=versions):
            before.append(t.clone())
            versions.append((t, t._version))
            return t
        map_tensors(note, sample)
        run(name, sample)
        for (t, version), old in zip(versions, before, strict=True):
            assert t._version == version or name in ("batch_norm", "instance_norm"), "an input's version moved"
            assert flambeau.equal(t, old) or name in ("batch_norm", "instance_norm"), "an input changed"
            done += 1
    battery.compared(done, "no tensor among its arguments")
