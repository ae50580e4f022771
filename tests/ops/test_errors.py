"""Wrong arguments raise an error that names the operator."""

import pytest

import flambeau

from . import battery
from .battery import OPS, samples


def base(name):
    return name.split(".")[0]


@pytest.mark.parametrize("name", battery.NAMES)
def test_unknown_keyword(name):
    found = samples(name) if battery.generator_of(name) else []
    sample = found[0] if found else None
    args, kwargs = (sample.args, sample.kwargs) if sample else ((), {})
    with pytest.raises((TypeError, NotImplementedError)):
        OPS[name](*args, **kwargs, no_such_argument=1)


@pytest.mark.parametrize("name", battery.with_samples("errors"))
def test_wrong_types_and_counts(name):
    sample = samples(name)[0]
    required = battery.parameters(name)
    if required and required[0][1] == "Tensor":
        with pytest.raises(TypeError) as missing:
            OPS[name]()
        assert base(name) in str(missing.value)
        with pytest.raises((TypeError, RuntimeError)) as wrong:
            OPS[name](object(), *sample.args[1:], **sample.kwargs)
        assert base(name) in str(wrong.value)
    with pytest.raises((TypeError, RuntimeError, ValueError)):
        OPS[name](*sample.args, *([object()] * 20), **sample.kwargs)


@pytest.mark.parametrize("name", battery.with_samples("errors"))
def test_mixed_devices_are_refused(name):
    for sample in samples(name)[:2]:
        seen = []
        battery.map_tensors(lambda t, seen=seen: seen.append(t), sample)
        if len(seen) < 2 or any(t.ndim == 0 for t in seen):
            continue
        moved = iter([True] + [False] * (len(seen) - 1))
        mixed = battery.map_tensors(lambda t, moved=moved: t.to("meta") if next(moved) else t, sample)
        try:
            result = OPS[name](*mixed.args, **mixed.kwargs)
        except (RuntimeError, NotImplementedError) as refusal:
            assert str(refusal)
        else:
            assert all(t.device.type == "meta" for t in battery.tensors(result)) or base(name) in ALLOWED


#: operators that look only at the other tensor's metadata
ALLOWED = {"expand_as", "view_as", "reshape_as", "type_as", "broadcast_tensors", "meshgrid", "atleast_1d"}


@pytest.mark.parametrize("name", [n for n in battery.with_samples("errors")
                                  if ("dim", "int") in battery.parameters(n)])
def test_dimension_out_of_range(name):
    names = [n for n, _ in battery.parameters(name)]
    for sample in samples(name)[:3]:
        bound = dict(zip(names, sample.args, strict=False)) | sample.kwargs
        if not isinstance(bound.get("dim"), int):
            continue
        for dim in (10, -10, 2 ** 40):
            bound["dim"] = dim
            with pytest.raises((IndexError, RuntimeError)) as error:
                OPS[name](**bound)
            assert "out of range" in str(error.value) or str(dim) in str(error.value)


@pytest.mark.parametrize("name", [n for n in battery.with_samples("errors") if battery.fact(n, "kind") == "elementwise"
                                  and [t for _, t in battery.parameters(n)][:2] == ["Tensor", "Tensor"]])
def test_shapes_that_do_not_broadcast(name):
    sample = samples(name)[0]
    if not isinstance(sample.args[1], flambeau.Tensor):
        pytest.skip("number operand")
    dtype = [a.dtype for a in sample.args[:2]]
    extra = sample.args[2:]
    with pytest.raises(RuntimeError) as error:
        OPS[name](flambeau.ones(2, 3).to(dtype[0]), flambeau.ones(4).to(dtype[1]), *extra, **sample.kwargs)
    assert "3" in str(error.value) and "4" in str(error.value)


def test_bytes_are_no_sizes():
    with pytest.raises(TypeError, match="tuple of ints"):
        flambeau.zeros(b"ab")
