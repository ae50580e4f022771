"""A device is a table: memory, copies, fills and kernels pass through it, and nothing else asks which device it is."""

import pickle

import pytest

import flambeau

from . import seams

pytestmark = pytest.mark.skipif(seams.COMPILER is None, reason="no C++ compiler")


@pytest.fixture
def spent():
    """What the device was asked for since the last call: {kind: how often}, zeros left out."""
    before = seams.load().counts()

    def since():
        nonlocal before
        now = seams.load().counts()
        difference = {k: now[k] - before[k] for k in now if now[k] != before[k]}
        before = now
        return difference

    return since


def test_memory_copies_fills_and_kernels_are_the_devices_own(spent):
    a = flambeau.full((2, 3), 2.0, device=seams.DEVICE)
    assert spent() == {"kernels": 1, "allocations": 1, "fills": 1}
    b = flambeau.arange(6.0).reshape(2, 3).to(seams.DEVICE)
    assert spent() == {"allocations": 1, "copies": 1, "kernels": 1}
    c = a * b
    assert spent() == {"allocations": 1, "pointwise": 1}
    d = c.cumsum(1)
    assert spent()["kernels"] == 1
    assert {t.device for t in (a, b, c, d)} == {flambeau.device(seams.DEVICE)}
    assert d.cpu().tolist() == [[0.0, 2.0, 6.0], [6.0, 14.0, 24.0]]
    del a, b, c, d
    assert spent()["frees"] >= 4


def test_one_row_may_have_a_kernel_of_its_own(spent):
    x = flambeau.ones(3, device=seams.DEVICE)
    spent()
    assert x.sum().item() == 3
    found = spent()
    assert found["own_kernels"] == 1 and "kernels" not in found
    assert flambeau.ones(3).sum() == 3 and "own_kernels" not in spent()


def test_views_and_metadata_ask_the_device_for_nothing(spent):
    x = flambeau.ones(2, 3, device=seams.DEVICE)
    spent()
    assert (x.t().shape, x[0].stride(), x.unsqueeze(0).is_contiguous()) == ((3, 2), (1,), True)
    assert spent() == {}


def test_derivatives_are_computed_on_the_device(spent):
    x = flambeau.randn(3, 4, device=seams.DEVICE, requires_grad=True)
    (x.exp() * x).sum().backward()
    assert x.grad.device == x.device
    y = x.detach().cpu().requires_grad_()
    (y.exp() * y).sum().backward()
    assert flambeau.equal(x.grad.cpu(), y.grad)
    assert spent()["pointwise"] >= 4


def test_resizing_moves_the_memory_by_the_devices_copy(spent):
    x = flambeau.ones(2, device=seams.DEVICE)
    spent()
    x.resize_(1000)
    assert spent() == {"allocations": 1, "copies": 1, "frees": 1}
    assert x[:2].tolist() == [1, 1]


def test_devices_do_not_mix():
    x, y = flambeau.ones(3, device=seams.DEVICE), flambeau.ones(3)
    for f in (lambda: x + y, lambda: flambeau.mv(flambeau.ones(3, 3), x), lambda: flambeau.cat([x, y])):
        with pytest.raises(RuntimeError, match="two devices"):
            f()
    assert (x + y.sum()).device == x.device  # a 0-d tensor of the CPU is a number


def test_raw_memory_is_not_handed_out():
    x = flambeau.ones(3, device=seams.DEVICE)
    with pytest.raises((TypeError, BufferError, RuntimeError)):
        x.numpy()
    with pytest.raises((BufferError, RuntimeError)):
        flambeau.utils.dlpack.to_dlpack(x)


def test_meta_is_a_device_like_others():
    x = flambeau.ones(2, 3, device="meta", requires_grad=True)
    y = (x * 2).sum()
    y.backward()
    assert (y.shape, x.grad.shape, x.grad.device.type) == ((), (2, 3), "meta")
    x.detach().fill_(1).copy_(y)
    with pytest.raises(NotImplementedError, match="no data"):
        x.cpu()
    with pytest.raises(RuntimeError, match="no data"):
        y.item()
    with pytest.raises(RuntimeError):
        x.detach().copy_(flambeau.ones(4, device="meta"))  # shapes are checked all the same


def test_cuda_is_absent_and_says_so():
    with pytest.raises(RuntimeError, match=r"no .*CUDA|no cuda"):
        flambeau.ones(2, device="cuda")


def test_samples_give_on_the_device_what_they_give_on_the_cpu():
    tally = seams.own_samples(modes=("device",))
    assert tally.total["device"] > 2300
    assert tally.share("device") >= 0.99, f"{tally}\n{tally.differ[:20]}"


@pytest.mark.parity
def test_pytorchs_samples_give_on_the_device_what_they_give_on_the_cpu():
    tally = seams.torch_samples(seams.torch_python(), modes=("device",))
    assert tally.total["device"] > 21_000
    assert tally.share("device") >= 0.99, f"{tally}\n{tally.differ[:50]}"


@pytest.mark.parametrize("kind", ["mps", "xpu", "hpu", "xla", "vulkan"])
def test_devices_that_no_build_has_can_be_named_and_compared(kind):
    device = flambeau.device(f"{kind}:1")
    assert (device.type, device.index, str(device)) == (kind, 1, f"{kind}:1")
    assert device == flambeau.device(kind, 1) != flambeau.device("cpu") and flambeau.device(kind) != device
    assert pickle.loads(pickle.dumps(device)) == device
    x = flambeau.ones(2)
    for make in (lambda: flambeau.empty(2, device=device), lambda: flambeau.tensor([1.0], device=device),
                 lambda: x.to(device), lambda: x.new_zeros(0, device=kind), lambda: flambeau.empty_like(x, device=kind),
                 lambda: flambeau.arange(3, device=kind), lambda: flambeau.rand(2, device=kind)):
        with pytest.raises(RuntimeError, match=f"this build has no {kind}(:1)? device"):
            make()
    with device, pytest.raises(RuntimeError, match=f"no {kind}:1 device"):
        flambeau.zeros(3)
    assert flambeau.zeros(1).device.type == "cpu"


def test_a_wrapper_on_a_device_without_a_table_is_refused():
    class Wrapper(flambeau.Tensor):
        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            return NotImplemented

    with pytest.raises(NotImplementedError, match="no device of kind mps"):
        flambeau.Tensor._make_wrapper_subclass(Wrapper, (2,), device="mps")


@pytest.mark.parametrize("kind", ["cpu", "meta"])
def test_a_device_of_which_there_is_one_has_no_number(kind):
    numbered = f"{kind}:0"
    for x in (flambeau.empty(2, device=numbered), flambeau.ones(2).to(numbered), flambeau.arange(2, device=numbered),
              flambeau.empty_like(flambeau.ones(2), device=numbered), flambeau.tensor([1.0, 2.0], device=numbered)):
        assert x.device == flambeau.device(kind) and (x + flambeau.ones(2, device=kind)).shape == (2,)
    with flambeau.device(numbered):
        assert flambeau.ones(2).device == flambeau.device(kind)
