"""Wrong arguments raise an error that names the operator."""

import pytest

import flambeau

from . import battery
from .battery import OPS, base, samples

#: operators that look only at the other tensor's metadata
ALLOWED = {"expand_as", "view_as", "reshape_as", "type_as", "broadcast_tensors", "meshgrid", "atleast_1d",
           # what is copied into a tensor may come from another device
           "copy_", "as_strided_scatter", "diagonal_scatter", "select_scatter", "slice_scatter"}


@pytest.mark.parametrize("name", battery.with_samples("errors"))
def test_unknown_keyword(name):
    for sample in samples(name)[:2]:
        with pytest.raises(TypeError, match=r"no_such_argument|forms are"):
            OPS[name](*sample.args, **sample.kwargs, no_such_argument=1)


def required(name):
    """The arguments without a default, from the schema."""
    schema = battery.fact(name, "schema")
    return [] if name in battery.OVERLOADS else [n for n, _ in battery.parameters(name)
                                                 if f" {n}=" not in schema and f" {n}" in schema]


@pytest.mark.parametrize("name", [n for n in battery.NAMES if required(n)])
def test_no_arguments(name):
    """Every operator that needs an argument says its own name and which one is missing."""
    with pytest.raises(TypeError) as missing:
        OPS[name]()
    assert base(name).rstrip("_") in str(missing.value) and required(name)[0] in str(missing.value), missing.value


@pytest.mark.parametrize("name", battery.with_samples("errors"))
def test_wrong_types_and_counts(name):
    sample = samples(name)[0]
    parameters = battery.parameters(name)
    if parameters and parameters[0][1] == "Tensor":
        with pytest.raises((TypeError, RuntimeError)) as wrong:
            OPS[name](object(), *sample.args[1:], **sample.kwargs)
        assert base(name) in str(wrong.value)
    with pytest.raises(TypeError) as many:
        OPS[name](*sample.args, *([object()] * 20), **sample.kwargs)
    assert base(name) in str(many.value)


@pytest.mark.parametrize("name", [n for n in battery.with_samples("errors") if base(n) not in ALLOWED])
def test_mixed_devices_are_refused(name):
    done = 0
    for sample in samples(name)[:3]:
        count = len(leaves(sample))
        for first in (True, False) if count > 1 and all(t.ndim and t.numel() for t in leaves(sample)) else ():
            moved = iter([first] + [not first] * (count - 1))
            mixed = battery.map_tensors(lambda t, moved=moved: t.to("meta") if next(moved) else t, sample)
            with pytest.raises((RuntimeError, NotImplementedError)) as refusal:
                OPS[name](*mixed.args, **mixed.kwargs)
            assert "meta" in str(refusal.value), refusal.value
            done += 1
    battery.compared(done, "no sample with two tensors that have elements and dimensions")


def test_a_meta_tensor_has_nothing_to_copy():
    meta, here = flambeau.empty(3, device="meta"), flambeau.ones(3)
    assert meta.copy_(here) is meta and flambeau.slice_scatter(meta, here[:2], 0, 0, 2).is_meta
    with pytest.raises((RuntimeError, NotImplementedError), match="meta"):
        here.copy_(meta)


def leaves(sample):
    found = []
    battery.map_tensors(lambda t: found.append(t) or t, sample)
    return found


@pytest.mark.parametrize("name", [n for n in battery.with_samples("errors")
                                  if ("dim", "int") in battery.parameters(n)])
def test_dimension_out_of_range(name):
    names = [n for n, _ in battery.parameters(name)]
    done = 0
    for sample in samples(name)[:3]:
        bound = dict(zip(names, sample.args, strict=False)) | sample.kwargs
        if not isinstance(bound.get("dim"), int):
            continue
        for dim in (10, -10, 2 ** 40):
            bound["dim"] = dim
            with pytest.raises(IndexError, match=f"dim {dim} is out of range for "):
                OPS[name](**bound)
            done += 1
    battery.compared(done, "no sample that gives `dim`")


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
