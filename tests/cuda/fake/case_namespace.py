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


def test_graphs_by_the_accelerator_s_name():
    x = fb.ones(4, device="cuda")
    x * 2
    g = fb.accelerator.Graph()
    with g:
        y = x * 2
    x.fill_(3)
    g.replay()
    assert y.tolist() == [6] * 4 and g.pool()
    g.reset()
    with pytest.raises(RuntimeError):
        g.replay()
    kept = fb.accelerator.graphs.Graph(keep_graph=True, pool=g.pool(), capture_error_mode="relaxed")
    with cuda.stream(cuda.Stream()):
        kept.capture_begin()
        y = x * 2
        kept.capture_end()
        kept.instantiate()
        kept.replay()
    cuda.synchronize()
    assert y.tolist() == [6] * 4


def test_the_runtime_library_s_functions():
    runtime = cuda.cudart()
    memory = fb.empty(1000)
    assert runtime.cudaHostRegister(memory.data_ptr(), 4000, 0) == 0
    assert runtime.cudaHostRegister(memory.data_ptr(), 4000, 0) != 0
    assert runtime.cudaHostUnregister(memory.data_ptr()) == 0 and runtime.cudaMemGetInfo(0) == cuda.mem_get_info(0)
    assert runtime.cudaProfilerStart() == runtime.cudaProfilerStop() == 0 and "memory" in runtime.cudaGetErrorString(2)


def test_names_below_modules():
    assert cuda.random.manual_seed is cuda.manual_seed and cuda.streams.Stream is cuda.Stream
    assert cuda.graphs.make_graphed_callables is cuda.make_graphed_callables and len(cuda.default_generators) == 2
    assert cuda._get_device_index("cuda:1") == 1 and cuda._get_device_index(None, optional=True) == 0
    assert cuda._get_device_index(fb.device("cpu"), allow_cpu=True) == -1
    assert cuda.memory.memory_cached() == cuda.memory_reserved()
    called = []
    cuda._lazy_call(lambda: called.append(1))
    assert called


@pytest.mark.parametrize("dtype", (fb.float16, fb.bfloat16, fb.float32, fb.float64), ids=str)
def test_norms_use_the_epsilon_of_the_dtype_they_compute_in(dtype):
    x = fb.full((2, 4), 1e-4, dtype=dtype)
    assert fb.allclose(fb.rms_norm(x.cuda(), (4,)).cpu(), fb.rms_norm(x, (4,)))
