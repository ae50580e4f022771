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


def expanded(t):
    """Stride 0 along the first dimension, for tensors whose rows are equal anyway: made so from the first row."""
    return t[:1].expand(t.shape) if t.ndim and t.shape[0] > 1 else t


LAYOUTS = {"transposed": transposed, "spaced": spaced}


def same_shapes(a, b):
    for x, y in zip(tensors(a), tensors(b), strict=True):
        assert x.shape == y.shape


def by_strides(name):
    """Views, and the copies of views: what they may do depends on strides by definition."""
    name = name.removesuffix("_copy")
    return name in ("as_strided", "view") or fact(name, "kind") == "view"


@pytest.mark.parametrize("name", battery.with_samples("layouts"))
def test_layouts(name):
    if battery.is_random(name):
        pytest.skip("another layout means other numbers")
    for sample in samples(name):
        try:
            expected = run(name, sample)
        except NotImplementedError:
            continue
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


@pytest.mark.parametrize("name", battery.with_samples("layouts"))
def test_expanded_inputs(name):
    for sample in samples(name)[:4]:
        if by_strides(name):
            continue
        dense = map_tensors(lambda t: expanded(t).clone(), sample)
        stretched = map_tensors(expanded, sample)
        try:
            expected = run(name, dense)
        except battery.REFUSALS:
            continue
        assert_same(run(name, stretched), expected, atol=1e-9, what=f"{name}{sample}")


@pytest.mark.parametrize("name", battery.with_samples("inputs_unchanged"))
def test_inputs_stay_as_they_were(name):
    if name.endswith("_"):
        pytest.skip("in place")
    for sample in samples(name)[:4]:
        before, versions = [], []

        def note(t, before=before, versions=versions):
            before.append(t.clone())
            versions.append((t, t._version))
            return t
        map_tensors(note, sample)
        try:
            run(name, sample)
        except NotImplementedError:
            continue
        for (t, version), old in zip(versions, before, strict=True):
            assert t._version == version or name in ("batch_norm", "instance_norm"), "an input's version moved"
            assert flambeau.equal(t, old) or name in ("batch_norm", "instance_norm"), "an input changed"
