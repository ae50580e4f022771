"""In-place, `out=`, method and public forms give what the function gives."""

import pytest

import flambeau
from flambeau import _C

from . import battery
from .battery import OPS, assert_same, run, samples, tensors


def in_place_form(name):
    return None if "." in name else getattr(flambeau.Tensor, name + "_", None)


#: in-place methods that only share the name: bernoulli_(p) draws with p, bernoulli() with the elements
OTHER_MEANING = ("bernoulli", "normal", "random")

IN_PLACE = [n for n in battery.with_samples("inplace") if n not in OTHER_MEANING
            and in_place_form(n) is not None and battery.parameters(n)[:1] and battery.parameters(n)[0][1] == "Tensor"]


@pytest.mark.parametrize("name", IN_PLACE)
def test_in_place_equals_function(name):
    done = 0
    for sample in samples(name):
        if not isinstance(sample.args[0], flambeau.Tensor):
            continue
        expected = run(name, sample)
        target = sample.args[0].clone()
        if not isinstance(expected, flambeau.Tensor) or expected.shape != target.shape:
            with_error = expected.shape != target.shape if isinstance(expected, flambeau.Tensor) else False
            if with_error and battery.fact(name, "kind") == "elementwise":
                with pytest.raises(RuntimeError):
                    in_place_form(name)(target, *sample.args[1:], **sample.kwargs)
            continue
        if not flambeau.can_cast(expected.dtype, target.dtype):
            with pytest.raises(RuntimeError, match="cannot hold"):
                in_place_form(name)(target, *sample.args[1:], **sample.kwargs)
            continue
        _C.follow_writes(target)
        version, stamp = target._version, _C.stamp_of(target)
        flambeau.manual_seed(0)
        result = in_place_form(name)(target, *sample.args[1:], **sample.kwargs)
        assert result is target
        if battery.fact(name, "kind") != "view":
            assert target._version > version, "the version counter did not move"
            assert _C.stamp_of(target) != stamp, "what is kept of the memory would be stale"
            assert target.dtype == sample.args[0].dtype
        assert_same(target, expected.to(target.dtype), atol=1e-9, what=f"{name}_{sample}")
        done += 1
    battery.compared(done, "no sample whose result has its input's shape")


def differentiable_in_place(name):
    return 0 in {k for k, (argument, _) in enumerate(battery.parameters(name))
                 for rule in OPS[name].rules if argument in rule}


@pytest.mark.parametrize("name", [n for n in IN_PLACE if OPS[n].rules and differentiable_in_place(n)])
def test_gradients_through_a_written_view(name):
    """Writing through a view differentiates as the function applied to that part does."""
    done = 0
    for sample in samples(name, requires_grad=True):
        x = sample.args[0]
        if not isinstance(x, flambeau.Tensor) or not x.is_floating_point() or x.ndim == 0 or not x.requires_grad:
            continue
        inputs = [t for t in tensors([*sample.args, *sample.kwargs.values()]) if t.requires_grad]
        expected = run(name, sample)
        if expected.dtype is flambeau.bool:  # written as 0 or 1
            expected = expected.to(x.dtype)
        if expected.shape != x.shape or expected.dtype != x.dtype or len({id(t) for t in inputs}) < len(inputs):
            continue
        whole = flambeau.stack([x, x + 1], 0)
        flambeau.manual_seed(0)
        in_place_form(name)(whole[0], *sample.args[1:], **sample.kwargs)
        weight = flambeau.arange(whole.numel(), dtype=whole.dtype).reshape(whole.shape) / 7
        loss = (whole * weight).sum()
        reference = (flambeau.stack([expected, x + 1], 0) * weight).sum()
        found = flambeau.autograd.grad(loss, inputs, allow_unused=True, materialize_grads=True)
        wanted = flambeau.autograd.grad(reference, inputs, allow_unused=True, materialize_grads=True)
        assert_same(found, wanted, atol=1e-9, what=f"{name}_{sample}")
        done += 1
    battery.compared(done, "no sample whose result has its input's shape")


def accepts_out(name):
    return all(op.takes_out for op in OPS[name].alternatives or (OPS[name],))


@pytest.mark.parametrize("name", [n for n in battery.with_samples("out") if accepts_out(n)])
def test_out_equals_function(name):
    done = 0
    for sample in samples(name)[:5]:
        expected = run(name, sample)
        for new in (lambda like: flambeau.empty(0, dtype=like.dtype), flambeau.empty_like, spread):
            out = each(new, expected)
            flambeau.manual_seed(0)
            result = OPS[name](*sample.args, **sample.kwargs, out=out)
            if result is not None:  # operators that fill a list return nothing
                assert all(x is y for x, y in zip(tensors(result), tensors(out), strict=True))
            assert_same(tensors(out), tensors(expected), atol=1e-9, what=f"{name}{sample}, out=")
            done += len(tensors(out))
    battery.compared(done, "no tensors")


def each(new, result):
    """out= for a result: a new tensor for each of its tensors."""
    return new(result) if isinstance(result, flambeau.Tensor) else tuple(map(new, result))


def spread(like):
    return flambeau.empty((*like.shape, 2), dtype=like.dtype)[..., 0]


def takes_tensors(name):
    return any(kind.startswith("Tensor") for n in (name, *battery.alternatives(name)) for _, kind in
               battery.parameters(n))


# what makes tensors of numbers alone makes them in the dtype of out=: test_creation.py; what bernoulli draws fits any
@pytest.mark.parametrize("name", [n for n in battery.with_samples("out") if accepts_out(n) and takes_tensors(n)
                                  and n != "bernoulli"])
def test_out_refuses_a_narrower_kind(name):
    sample = samples(name)[0]
    expected = run(name, sample)
    battery.compared(any(t.is_floating_point() for t in tensors(expected)), "no floating result")
    out = each(lambda t: flambeau.empty(t.shape, dtype=flambeau.int64), expected)
    with pytest.raises(RuntimeError, match=r"dtype|int64"):
        OPS[name](*sample.args, **sample.kwargs, out=out)


def method_of(name):
    method = None if "." in name else getattr(flambeau.Tensor, name, None)
    return method if callable(method) else None


@pytest.mark.parametrize("name", [n for n in battery.with_samples("method") if method_of(n)
                                  and battery.parameters(n)[:1] and battery.parameters(n)[0][0] == "self"])
def test_method_equals_function(name):
    done = 0
    for sample in samples(name)[:4]:
        if not isinstance(sample.args[0], flambeau.Tensor):
            continue
        expected = run(name, sample)
        flambeau.manual_seed(0)
        assert_same(method_of(name)(*sample.args, **sample.kwargs), expected, atol=1e-9, what=f"Tensor.{name}{sample}")
        done += 1
    battery.compared(done, "no sample whose first argument is a tensor")


def takes_several(name, sample):
    """Whether the sample gives a list argument as several arguments."""
    known = battery.parameters(name)
    return bool(known) and known[0][1].startswith(("Tensor[", "any")) and isinstance(sample.args[0], flambeau.Tensor)


@pytest.mark.parametrize("name", battery.with_samples("keywords"))
def test_arguments_by_keyword(name):
    names = [n for n, _ in battery.parameters(name)]
    done = 0
    for sample in samples(name)[:2]:
        if len(sample.args) > len(names) or takes_several(name, sample):
            continue
        expected = run(name, sample)
        flambeau.manual_seed(0)
        found = OPS[name](**dict(zip(names, sample.args, strict=False)), **sample.kwargs)
        assert_same(found, expected, atol=1e-9, what=f"{name}{sample} by keyword")
        if names and names[0] == "self":
            flambeau.manual_seed(0)
            found = OPS[name](**dict(zip(["input", *names[1:]], sample.args, strict=False)), **sample.kwargs)
            assert_same(found, expected, atol=1e-9, what=f"{name}{sample}, input=")
        done += 1
    battery.compared(done, "its arguments are in its alternatives' schemas, or are given one by one")


@pytest.mark.parametrize("name", battery.with_samples("meta"))
def test_meta_matches_real(name):
    """Shape, dtype and strides on the meta device are those of the real result."""
    done = 0
    for sample in samples(name):
        expected = tensors(run(name, sample))
        found = on_meta(name, sample)
        if found is None:
            continue
        for x, y in zip(found, expected, strict=True):
            assert x.device.type == "meta", f"{name}{sample}: result on {x.device}"
            assert x.shape == y.shape, f"{name}{sample}: {list(x.shape)} instead of {list(y.shape)}"
            assert x.dtype == y.dtype, f"{name}{sample}: {x.dtype} instead of {y.dtype}"
            assert x.stride() == y.stride() or y.numel() < 2, f"{name}{sample}: {x.stride()} instead of {y.stride()}"
            done += 1
    battery.compared(done, "its results depend on values, which meta tensors have not, or are no tensors")


def on_meta(name, sample):
    """The tensors of the call on meta tensors; None where the result depends on what they hold."""
    moved = battery.map_tensors(lambda t: t.to("meta"), sample)
    try:
        if any(isinstance(a, flambeau.Tensor) for a in flat(sample)):
            return tensors(run(name, moved))
        if "device" in dict(battery.parameters(name)):
            return tensors(OPS[name](*sample.args, **sample.kwargs, device="meta"))
    except (NotImplementedError, RuntimeError) as reason:
        if "meta" not in str(reason) and "data" not in str(reason):
            raise
    return None


def flat(sample):
    for a in (*sample.args, *sample.kwargs.values()):
        yield from a if isinstance(a, (tuple, list)) else (a,)


def test_out_that_grows_may_be_an_operand():
    x = flambeau.tensor([2.0])
    y = flambeau.ones(100_000)
    with pytest.warns(UserWarning, match="resized"):
        flambeau.add(x, y, out=x)
    assert x.shape == (100_000,) and bool((x == 3).all())


def test_out_may_be_another_part_of_an_operands_memory():
    w = flambeau.arange(12.0)
    flambeau.cat([w[:2], w[4:6]], out=w[6:10])
    flambeau.gather(w[:4], 0, flambeau.tensor([3, 0]), out=w[4:6])
    assert w.tolist() == [0, 1, 2, 3, 3, 0, 0, 1, 4, 5, 10, 11]
    with pytest.raises(RuntimeError, match="shares memory with an input"):
        flambeau.stack([w[:2], w[2:4]], out=w[3:7].view(2, 2))


# --- out= and arguments that look alike -------------------------------------------------------------------------------

@pytest.mark.parametrize("make", [
    lambda **kw: flambeau.arange(6.0, **kw), lambda **kw: flambeau.linspace(1, 2, 6, **kw),
    lambda **kw: flambeau.logspace(0, 1, 6, **kw), lambda **kw: flambeau.range(0, 5, **kw)],
    ids=["arange", "linspace", "logspace", "range"])
@pytest.mark.parametrize("place", [
    lambda: flambeau.zeros(2, 3), lambda: flambeau.zeros(3, 2).T, lambda: flambeau.zeros(2, 4)[:, :3],
    lambda: flambeau.zeros(12)[::2]], ids=["matrix", "transposed", "part", "strided"])
def test_numbers_in_a_row_fill_a_tensor_of_as_many_in_its_own_order(make, place):
    out = place()
    strides = out.stride()
    assert make(out=out) is out
    assert out.stride() == strides and out.flatten().tolist() == make().tolist()


@pytest.mark.parametrize("call", [
    lambda: flambeau.zeros(2, dtype=flambeau.float64, out=flambeau.empty(2)),
    lambda: flambeau.arange(3, dtype=flambeau.int32, out=flambeau.empty(3)),
    lambda: flambeau.sum(flambeau.ones(2, 2), 0, dtype=flambeau.float64, out=flambeau.empty(2)),
    lambda: flambeau.nonzero(flambeau.ones(2), out=flambeau.empty(2, 1)),
    lambda: flambeau.any(flambeau.ones(2, 2), 0, out=flambeau.empty(2))])
def test_out_has_the_dtype_that_is_asked_for(call):
    with pytest.raises(RuntimeError, match="out="):
        call()


def test_requires_grad_of_a_new_tensor_in_out():
    out = flambeau.empty(2)
    assert flambeau.ones(2, requires_grad=True, out=out) is out and out.requires_grad and out.is_leaf


@pytest.mark.parametrize("call", [
    lambda x: x.sum(True), lambda x: x.topk(1, True), lambda x: x.select(True, 0), lambda x: x.unsqueeze(True),
    lambda x: flambeau.zeros(True), lambda x: flambeau.zeros((True, 2)), lambda x: x.view(True, 6),
    lambda x: x.transpose(True, 0)])
def test_a_bool_is_no_dimension_and_no_size(call):
    with pytest.raises(TypeError):  # x.sum(True) means keepdim
        call(flambeau.ones(2, 3))


def test_none_is_an_empty_list_of_dimensions_where_that_is_the_default():
    x = flambeau.arange(4).view(2, 2)
    assert flambeau.roll(x, 1, None).tolist() == [[3, 0], [1, 2]]


def test_comparisons_write_to_out_beside_what_requires_grad():
    p = flambeau.tensor([1.0, 2.0], requires_grad=True)
    mask, ones = flambeau.zeros(2, dtype=flambeau.bool), flambeau.zeros(2)
    assert flambeau.gt(p, 1.5, out=mask).tolist() == [False, True]
    assert flambeau.logical_and(p, p, out=mask).tolist() == [True, True]
    assert flambeau.lt(p, 1.5, out=ones).tolist() == [1, 0] and not ones.requires_grad


def test_ends_of_ranges_may_be_tensors():
    p = flambeau.tensor([1.0, 2.0], requires_grad=True)
    made = flambeau.linspace(p[0], p[1], 3)
    assert made.tolist() == [1, 1.5, 2] and not made.requires_grad
    assert flambeau.logspace(p[0], p[1], 2).tolist() == [10, 100]


def test_softmax_takes_its_dtype_third():
    x = flambeau.tensor([0.0, 0.0])
    for f in (flambeau.softmax, flambeau.log_softmax, flambeau.Tensor.softmax, flambeau.Tensor.log_softmax):
        assert f(x, 0, flambeau.float64).dtype == flambeau.float64
    assert flambeau.nn.functional.softmax(x, 0, 3, flambeau.float64).dtype == flambeau.float64
