"""What stands around tensors of CUDA devices: accelerator, autocast, GradScaler, generators of scopes, backends."""

import pytest

import flambeau as fb
from flambeau import cuda

pytestmark = pytest.mark.usefixtures("own_kernels")


def test_accelerator():
    a = fb.accelerator
    assert a.is_available() and a.device_count() == 2 and a.current_accelerator() == fb.device("cuda")
    with a.device_index(1):
        assert a.current_device_index() == 1
    with a.device_index(None):
        assert a.current_device_index() == 0
    a.set_device_index(1)
    assert cuda.current_device() == 1
    a.set_device_index(0)
    assert a.current_stream() == cuda.current_stream() and a.memory_allocated() == cuda.memory_allocated()
    assert a.get_memory_info() == cuda.mem_get_info() and a.max_memory_reserved() >= 0 and a.memory_stats()
    a.synchronize()
    a.empty_cache()
    a.empty_host_cache()
    a.reset_peak_memory_stats()
    assert fb.bfloat16 in a.get_device_capability()["supported_dtypes"]
    assert fb.backends.cuda.is_built()


def test_autocast_of_each_kind_of_device():
    x, w = fb.ones(4, device="cuda"), fb.ones(4)
    assert fb.amp.is_autocast_available("cuda") and not fb.is_autocast_enabled("cuda")
    with fb.autocast("cuda"):
        assert fb.is_autocast_enabled("cuda") and not fb.is_autocast_enabled("cpu")
        assert fb.get_autocast_dtype("cuda") == fb.float16
        assert fb.nn.functional.softmax(x.half(), 0).dtype == fb.float32
        assert fb.nn.functional.softmax(w.half(), 0).dtype == fb.float16
        with fb.autocast("cuda", enabled=False):
            assert fb.nn.functional.softmax(x.half(), 0).dtype == fb.float16
        with fb.autocast("cpu"):
            assert (fb.ones(2, 2) @ fb.ones(2, 2)).dtype == fb.bfloat16
            assert fb.nn.functional.softmax(w.half(), 0).dtype == fb.float16
    with fb.autocast("cuda", dtype=fb.bfloat16):
        assert fb.get_autocast_dtype("cuda") == fb.bfloat16
    assert not fb.is_autocast_enabled("cuda") and fb.get_autocast_dtype("cuda") == fb.float16


def test_grad_scaler():
    p = fb.nn.Parameter(fb.ones(3, device="cuda"))
    optimizer, scaler = fb.optim.SGD([p], lr=0.5), fb.amp.GradScaler("cuda", init_scale=4.0)
    assert scaler.is_enabled()
    scaler.scale((p * p).sum()).backward()
    assert p.grad.tolist() == [8] * 3
    scaler.step(optimizer)
    scaler.update()
    assert p.tolist() == [0] * 3 and scaler.get_scale() == 4
    p.grad = fb.full((3,), float("inf"), device="cuda")
    scaler.step(optimizer)
    scaler.update()
    assert p.tolist() == [0] * 3 and scaler.get_scale() == 2


def test_scopes_put_generators_back():
    x = fb.empty(4, device="cuda")
    cuda.manual_seed(1)
    with fb.random.fork_rng():
        a = x.uniform_().tolist()
    assert x.uniform_().tolist() == a
    with fb.random.fork_rng(devices=[0]):
        b = x.uniform_().tolist()
    assert x.uniform_().tolist() == b


def test_checkpoints_draw_the_same_numbers_again():
    from flambeau.utils.checkpoint import checkpoint, get_device_states, set_device_states

    def f(x):
        return fb.nn.functional.dropout(x * 2.0, 0.5)

    x = fb.ones(200, device="cuda", requires_grad=True)
    y = checkpoint(f, x, use_reentrant=False)
    y.sum().backward()
    assert x.grad.tolist() == y.tolist()
    devices, states = get_device_states(x)
    a = fb.rand(3, device="cuda").tolist()
    set_device_states(devices, states)
    assert devices == [0] and fb.rand(3, device="cuda").tolist() == a
