"""Copies between host and device: every pair of dtypes and of layouts gives what the CPU gives."""

import itertools

import numpy as np
import pytest

import flambeau as fb

DTYPES = [fb.bool, fb.uint8, fb.int8, fb.int16, fb.uint16, fb.int32, fb.uint32, fb.int64, fb.uint64, fb.float16,
          fb.bfloat16, fb.float32, fb.float64, fb.complex64, fb.complex128]
#: layouts of a (4, 6) tensor: from a contiguous (8, 12) one
LAYOUTS = {
    "contiguous": lambda t: t[:4, :6].contiguous(),
    "transposed": lambda t: t[:6, :4].contiguous().t(),
    "rows": lambda t: t[::2, :6],
    "columns": lambda t: t[:4, ::2],
    "both": lambda t: t.t()[::3, 2:8],
    "expanded": lambda t: t[:1, :6].expand(4, 6),
    "shifted": lambda t: t.reshape(-1)[3:27].view(4, 6),
}


def numbers(dtype):
    return (fb.arange(96) % 7).to(dtype).view(8, 12)


def same(a, b):
    return a.dtype == b.dtype and a.shape == b.shape and bool((a == b).all())


@pytest.mark.filterwarnings("ignore:.*imaginary.*:UserWarning")
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_there_and_back(dtype):
    for layout in LAYOUTS.values():
        x = layout(numbers(dtype))
        y = x.to("cuda")
        assert y.device == fb.device("cuda:0") and y.is_cuda and not y.is_cpu
        assert same(y.cpu(), x) and y.tolist() == x.tolist()


@pytest.mark.filterwarnings("ignore:.*imaginary.*:UserWarning")
@pytest.mark.parametrize("source", DTYPES, ids=str)
def test_every_pair_of_dtypes(source):
    for target in DTYPES:
        x = numbers(source)
        expected = x.to(target)
        on_device = x.cuda()
        assert same(on_device.to(target).cpu(), expected)
        assert same(on_device.t().to(target).cpu(), expected.t())
        assert same(fb.empty(8, 12, dtype=target, device="cuda").copy_(x).cpu(), expected)
        assert same(fb.empty(8, 12, dtype=target).copy_(on_device), expected)


@pytest.mark.parametrize("source, target", list(itertools.product(LAYOUTS, LAYOUTS)))
def test_every_pair_of_layouts(source, target):
    if target == "expanded":
        return
    for from_device, to_device in ((True, True), (True, False), (False, True)):
        for dtype in (fb.float32, fb.int16):
            x = LAYOUTS[source](numbers(fb.float32).to("cuda" if from_device else "cpu"))
            whole = fb.zeros(8, 12, dtype=dtype, device="cuda" if to_device else "cpu")
            place = LAYOUTS[target](whole)
            place.copy_(x)
            assert same(place.cpu(), x.cpu().to(dtype)), (from_device, to_device)


def test_only_the_written_part_changes():
    whole = fb.zeros(8, 12, device="cuda")
    whole[2:6, 3:9] = fb.ones(4, 6)
    expected = fb.zeros(8, 12)
    expected[2:6, 3:9] = 1
    assert same(whole.cpu(), expected)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_fills(dtype):
    for value in (0, 1, 3):
        assert same(fb.full((5, 3), value, dtype=dtype, device="cuda").cpu(), fb.full((5, 3), value, dtype=dtype))
        x = fb.zeros(6, 4, dtype=dtype, device="cuda")
        x[::2, 1:3] = value
        y = fb.zeros(6, 4, dtype=dtype)
        y[::2, 1:3] = value
        assert same(x.cpu(), y)
        assert same(x.t().fill_(value).cpu(), fb.full((4, 6), value, dtype=dtype))
    assert same(fb.ones_like(x).zero_().cpu(), fb.zeros(6, 4, dtype=dtype))


def test_overlapping_memory_is_read_before_it_is_written():
    x = fb.arange(10).float().cuda()
    x[1:] = x[:-1].clone()
    y = fb.arange(10).float()
    y[1:] = y[:-1].clone()
    assert same(x.cpu(), y)
    a = fb.arange(12).float().cuda().view(3, 4)
    a[:, 1:].copy_(a[:, :-1])
    b = fb.arange(12).float().view(3, 4)
    b[:, 1:].copy_(b[:, :-1])
    assert same(a.cpu(), b)


def test_between_devices():
    x = numbers(fb.float32).to("cuda:0")
    y = x.to("cuda:1")
    assert y.device == fb.device("cuda:1") and same(y.cpu(), x.cpu())
    assert same(x.t().to("cuda:1", fb.int32).cpu(), x.t().cpu().to(fb.int32))
    z = fb.zeros(12, 8, device="cuda:1").t()
    z.copy_(x)
    assert same(z.cpu(), x.cpu())
    with pytest.raises(RuntimeError, match="device"):
        x + y


def test_more_than_eight_dimensions():
    x = fb.arange(2 ** 10).view([2] * 10)
    order = [9, 0, 8, 1, 7, 2, 6, 3, 5, 4]
    assert same(x.cuda().permute(order).contiguous().cpu(), x.permute(order).contiguous())


def test_nothing_and_one():
    for shape in ((), (0,), (3, 0, 2), (1, 1)):
        x = fb.ones(shape)
        assert same(x.cuda().cpu(), x) and same(x.cuda().double().cpu(), x.double())
    assert fb.tensor(2.5, device="cuda").item() == 2.5 and float(fb.tensor([3]).cuda()) == 3
    assert fb.tensor([True]).cuda() and fb.tensor(3).cuda().__index__() == 3


def test_numpy_needs_the_cpu():
    x = fb.ones(3, device="cuda")
    with pytest.raises((TypeError, BufferError, RuntimeError), match=r"cpu"):
        np.asarray(x)
    assert (x.cpu().numpy() == 1).all()


def test_printing():
    assert repr(fb.tensor([1.0, 2.0]).cuda()) == "tensor([1., 2.], device='cuda:0')"
    assert repr(fb.zeros(2, dtype=fb.int32, device="cuda:1")) == "tensor([0, 0], device='cuda:1', dtype=torch.int32)"


def test_devices_do_not_mix():
    x, y = fb.ones(3).cuda(), fb.ones(3)
    for f in (lambda: x + y, lambda: y * x, lambda: fb.cat([x, y]), lambda: fb.mv(fb.ones(3, 3), x),
              lambda: fb.add(x, x, out=y)):
        with pytest.raises(RuntimeError, match=r"cuda|cpu"):
            f()


def test_a_number_of_the_cpu_goes_with_anything():
    x = fb.tensor([1.0, 2.0]).cuda()
    assert (x * fb.tensor(3.0)).tolist() == [3, 6] and (x + 1).tolist() == [2, 3]


def test_gradients_go_back_to_where_they_belong():
    x = fb.tensor([1.0, 2.0], requires_grad=True)
    w = fb.tensor([3.0, 4.0])
    y = (x * w).to("cuda")
    (y * y).backward(fb.ones(2, device="cuda"))
    assert x.grad.device == fb.device("cpu") and x.grad.tolist() == [18, 64]
