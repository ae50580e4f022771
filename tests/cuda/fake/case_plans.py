"""Launch plans: made by Python once per signature, repeated by native code alone."""

import threading

import pytest

import flambeau as fb
from flambeau import _C, cuda


def counts():
    return _C._cuda.plan_counts()


def test_a_pointwise_plan_serves_all_sizes(fresh):
    x, y = fb.arange(6.0).cuda(), fb.ones(6, device="cuda")
    assert (x + y).tolist() == [1, 2, 3, 4, 5, 6]
    asked = len(fresh.asked)
    for n in range(1, 100):
        assert (x[:0].new_ones(n) + y[:0].new_ones(n)).tolist() == [2] * n
    assert len(fresh.asked) == asked
    call = next(c for c in fresh.asked if c.name == "add")
    assert (call.form, call.compute, call.result) == ("flat", "float32", "float32")
    assert (call.index, call.aligned, call.arch) == (32, True, "emulate")
    assert [tuple(o) for o in call.operands] == [("tensor", "float32", "float32")] * 2


def test_what_makes_another_signature(fresh):
    x = fb.ones(4, 6, device="cuda")

    def new(f):
        before = len(fresh.asked)
        f()
        return len(fresh.asked) - before

    assert new(lambda: x + x) == 1 and new(lambda: x + x) == 0
    assert new(lambda: x + x.view(6, 4).t()) == 1  # strided
    assert new(lambda: x[:, ::2] + x[:, 1::2]) == 0
    assert new(lambda: x + 1) == 1 and new(lambda: x + 2.5) == 0  # a number
    assert new(lambda: x + fb.tensor(3.0)) == 0  # a 0-d tensor of the CPU is a number too
    assert new(lambda: x.t() + x.t()) == 0  # one run of memory all the same
    unaligned = fb.ones(25, device="cuda")[1:]
    assert new(lambda: unaligned + unaligned) == 1
    assert new(lambda: x.to("cuda:1") + x.to("cuda:1")) == 1
    assert new(lambda: x * x) == 1


def test_broadcasting_and_numbers():
    x, row = fb.arange(12.0).view(3, 4), fb.tensor([1.0, 2.0, 3.0, 4.0])
    assert (x.cuda() + row.cuda()).cpu().equal(x + row)
    assert (x.cuda().t() * x.cuda().t()).cpu().equal(x.t() * x.t())
    assert (x.cuda() * 3).cpu().equal(x * 3)
    y = x.cuda()
    y += 1
    y[1:] *= 2
    expected = x + 1
    expected[1:] *= 2
    assert y.cpu().equal(expected)
    out = fb.empty(3, 4, device="cuda")
    assert fb.add(x.cuda(), 1, out=out) is out and out.cpu().equal(x + 1)


def test_written_over_itself():
    x = fb.arange(10.0).cuda()
    with pytest.raises(RuntimeError, match="shares memory"):
        x[1:].add_(x[:-1])
    with pytest.raises(RuntimeError, match="share memory"):
        fb.ones(1, device="cuda").expand(4).add_(1)


def test_a_row_plan_with_scratch_and_steps(fresh):
    x = fb.arange(100.0)
    y = x.cuda()
    for _ in range(3):
        assert y.sum().item() == x.sum().item()
        assert y.flip(0).cpu().equal(x)  # the plan by hand copies
    assert [c.name for c in fresh.asked] == ["sum", "flip"]
    call = fresh.asked[0]
    assert call.args[0].shape == (100,) and call.args[0].strides == (1,) and call.args[0].k == 0
    assert call.results[0].k == 1 and call.results[0].shape == ()
    y[:50].sum()
    assert len(fresh.asked) == 3  # the shape is part of the signature


def test_no_python_on_the_path_of_a_repeated_call(fresh):
    x = fb.ones(64, device="cuda")
    x + x, x.sum()
    asked, made = len(fresh.asked), counts()["made"]
    before = counts()
    for _ in range(1000):
        x + x
        x.sum()
    after = counts()
    assert len(fresh.asked) == asked and after["made"] == made
    assert after["pointwise"] - before["pointwise"] == 1000 and after["rows"] - before["rows"] == 1000
    assert after["launches"] - before["launches"] == 3000


def test_the_table_of_row_plans_is_bounded(fresh):
    x = fb.ones(5000, device="cuda")
    first = x[:1].clone().sum()
    for n in range(1, 4500):
        x[:n].sum()
    asked = len(fresh.asked)
    x[:4499].sum()
    assert len(fresh.asked) == asked  # used last: kept
    x[:1].sum()
    assert len(fresh.asked) == asked + 1 and first.item() == 1  # used longest ago: made again


def test_images_are_loaded_once(fake):
    x = fb.ones(10, device="cuda")
    x + x
    loaded = fake.calls("cuModuleLoadData")
    x * x, x * 2, x.sum(), x.flip(0)
    assert fake.calls("cuModuleLoadData") == loaded


def test_what_has_no_kernel_says_so_by_name():
    x = fb.ones(3, device="cuda")
    with pytest.raises(NotImplementedError, match="erfinv"):
        x.erfinv()
    with pytest.raises(NotImplementedError, match="cumsum"):
        x.cumsum(0)
    with pytest.raises(NotImplementedError, match="nonzero"):
        x.nonzero()
    assert (x + x).tolist() == [2, 2, 2]


def test_random_numbers_go_on(fresh):
    g = fb.Generator("cuda").manual_seed(5)
    assert g.device == fb.device("cuda:0") and g.initial_seed() == 5 and g.get_offset() == 0
    x = fb.empty(4, device="cuda")
    a = x.uniform_(generator=g).tolist()
    assert g.get_offset() == 4
    b = x.uniform_(generator=g).tolist()
    assert a != b and g.get_offset() == 8
    assert len([c for c in fresh.asked if c.name == "uniform_"]) == 1
    g.set_offset(4)
    assert x.uniform_(generator=g).tolist() == b
    state = g.get_state()
    assert state.dtype == fb.uint8 and state.numel() == 16
    c = x.uniform_(generator=g).tolist()
    g.set_state(state)
    assert x.uniform_(generator=g).tolist() == c
    fb.manual_seed(3)
    d = x.uniform_().tolist()
    cuda.manual_seed(3)
    assert x.uniform_().tolist() == d and cuda.initial_seed() == 3
    state = cuda.get_rng_state()
    e = x.uniform_().tolist()
    cuda.set_rng_state(state)
    assert x.uniform_().tolist() == e
    assert len(cuda.default_generators) == 2 and len(cuda.get_rng_state_all()) == 2
    with pytest.raises(RuntimeError, match="generator of cuda:0"):
        x.uniform_(generator=fb.Generator())
    with pytest.raises(RuntimeError, match="multiple of 4"):
        g.set_offset(3)


def test_threads_share_plans(fresh):
    x = fb.arange(100.0).cuda()
    wrong = []

    def work():
        for _ in range(300):
            if (x + x).sum().item() != 9900:
                wrong.append(1)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong and len(fresh.asked) <= 8


@pytest.mark.usefixtures("own_kernels")
@pytest.mark.parametrize("dtype", (fb.float32, fb.float64, fb.float16, fb.bfloat16, fb.int64, fb.complex64), ids=str)
def test_the_short_way_and_the_general_one_have_the_same_plans(dtype):
    """A call with out= goes the general way: it finds the plan of the short one, and gives the same numbers."""
    x, y = (fb.arange(1, 9).to(dtype).cuda() for _ in range(2))
    mask = x.cpu().abs().gt(4).cuda()
    real = not dtype.is_complex
    calls = [(fb.add, x, y), (fb.add, x, 2), (fb.mul, x, y), (fb.eq, x, y), (fb.abs, x), (fb.where, mask, x, y),
             *([(fb.lt, x, y), (fb.clamp, x, 2, 5), (fb.pow, x, y)] if real else []),
             *([(fb.exp, x), (fb.addcmul, x, y, y), (fb.lerp, x, y, 0.5)] if dtype.is_floating_point else [])]
    for f, *args in calls:
        short = f(*args)
        made = counts()["made"]
        out = fb.empty_like(short)
        assert f(*args, out=out) is out and fb.equal(out.cpu(), short.cpu()), f
        assert counts()["made"] == made, f
        same = tuple(a.cpu() if isinstance(a, fb.Tensor) else a for a in args)
        assert fb.allclose(short.cpu().to(fb.complex128), f(*same).to(fb.complex128), 1e-2), f
