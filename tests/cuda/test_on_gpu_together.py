"""What several parts do together on a GPU: recorded programs, decompositions, tensors between processes. Needs a GPU.

`pytest tests/cuda/test_on_gpu_together.py -n 0` on a machine that has one.
"""

import pytest

import flambeau as fb
import flambeau.multiprocessing as mp
from flambeau import cuda, linalg, nn
from flambeau.nn import functional as F

if not cuda.is_available():
    pytest.skip("no GPU is here", allow_module_level=True)


def near(a, b, tolerance=1e-4):
    return fb.allclose(a.cpu(), b.cpu(), rtol=tolerance, atol=tolerance)


# --- recorded programs

def training(compiling):
    fb.manual_seed(0)
    cuda.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Dropout(0.3), nn.Flatten(),
                        nn.Linear(8 * 36, 5)).cuda()
    optimizer = fb.optim.AdamW(net.parameters(), lr=1e-2, capturable=True)
    images, labels = fb.randn(12, 16, 3, 8, 8), fb.randint(0, 5, (12, 16))

    def step(x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach()
    step = fb.compile(step, mode="reduce-overhead") if compiling else step
    losses = [step(x.cuda(), y.cuda()).item() for x, y in zip(images, labels, strict=True)]
    return losses, net.state_dict(), step


def test_a_recorded_training_step_trains_as_the_eager_one():
    mine, states, step = training(True)
    eager, expected, _ = training(False)
    assert mine == pytest.approx(eager, rel=1e-3)
    assert all(near(states[k].double(), v.double(), 1e-2) for k, v in expected.items())
    x, y = fb.randn(16, 3, 8, 8).cuda(), fb.randint(0, 5, (16,)).cuda()
    assert "program 1 is recorded as a CUDA graph" in fb.compiler.report(step, x, y).reasons()


def test_results_of_recorded_programs_stay():
    f = fb.compile(lambda x: (x @ x).relu(), mode="reduce-overhead")
    inputs = [fb.randn(64, 64).cuda() for _ in range(6)]
    found = [f(x) for x in inputs]
    assert all(near(y, (x @ x).relu(), 1e-2) for x, y in zip(inputs, found, strict=True))


# --- streams and kernels of a program's own

def test_derivatives_run_on_the_streams_of_their_operations():
    """Each stream is kept busy, so that memory given back too early would be written over."""
    x, streams = fb.randn(1 << 20, device="cuda", requires_grad=True), [cuda.Stream() for _ in range(3)]
    home = cuda.current_stream()
    for _ in range(20):
        parts = []
        for s in streams:
            s.wait_stream(home)
            with cuda.stream(s):
                y = x.sin().exp()
                cuda._sleep(1_000_000)
                parts.append((y * y).sum())
        for s in streams:
            home.wait_stream(s)
        x.grad = None
        sum(parts).backward()
        with cuda.stream(streams[0]):
            assert fb.full((1 << 20,), fb.nan, device="cuda").isnan().all()
        expected = 6 * x.detach().cos() * (2 * x.detach().sin()).exp()
        assert near(x.grad, expected, 1e-3)


def test_a_kernel_of_a_program_s_own():
    scaled = cuda._compile_kernel("""extern "C" __global__ void scaled(const float* x, float* y, int n, double factor) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = float(x[i] * factor);
}""", "scaled")
    x = fb.randn(1000, device="cuda")
    y = fb.zeros_like(x)
    scaled((4, 1, 1), (256, 1, 1), [x, y, 1000, 2.5], stream=cuda.Stream())
    cuda.synchronize()
    assert near(y, x * 2.5)


# --- decompositions

@pytest.mark.parametrize("shape", ((40, 40), (60, 20), (20, 60), (9, 5, 5), (3, 700, 700)), ids=str)
@pytest.mark.parametrize("dtype", (fb.float64, fb.complex128), ids=str)
def test_factors_multiply_to_the_matrix(dtype, shape):
    a = fb.randn(shape, dtype=dtype).cuda()
    for mode in ("reduced", "complete"):
        q, r = linalg.qr(a, mode)
        unit = fb.eye(q.shape[-1], dtype=dtype).expand(*shape[:-2], -1, -1)
        assert near(q @ r, a, 1e-8) and near(q.mH @ q, unit, 1e-8)
    u, s, v = linalg.svd(a, full_matrices=False)
    assert near((u * s.to(dtype).unsqueeze(-2)) @ v, a, 1e-8)
    if shape[-1] != shape[-2]:
        b = fb.randn(*shape[:-1], 3, dtype=dtype)
        assert near(linalg.lstsq(a, b.cuda()).solution, linalg.lstsq(a.cpu(), b, driver="gels").solution, 1e-6)
        return
    values, vectors = linalg.eig(a)
    assert near(a.to(values.dtype) @ vectors, vectors * values.unsqueeze(-2), 1e-6)
    symmetric = (a + a.mT) * (fb.eye(shape[-1]) == 0).cuda()
    factors, pivots = linalg.ldl_factor(symmetric)
    assert near(symmetric @ linalg.ldl_solve(factors, pivots, a), a, 1e-6)
    positive = a @ a.mH + shape[-1] * fb.eye(shape[-1], dtype=dtype).cuda()
    assert near(linalg.cholesky(positive), linalg.cholesky(positive.cpu()), 1e-8)
    assert near(linalg.solve(positive, a), linalg.solve(positive.cpu(), a.cpu()), 1e-8)


def test_matrices_that_are_not_finite_end():
    """No library may go on for ever, or crash; which error there is, the CPU says."""
    a = fb.full((5, 5), float("nan"))
    for f in (linalg.svdvals, linalg.svd, linalg.eigvals, linalg.eig):
        for x in (a, a.expand(3, 5, 5)):
            with pytest.raises(RuntimeError, match="inf or nan"):
                f(x.cuda())
    for x in (a, a.expand(3, 5, 5)):
        assert all(t.isnan().all() for t in linalg.eigh(x.cuda()))
    linalg.qr(a.cuda())


# --- images of bytes

@pytest.mark.parametrize("antialias", (False, True))
@pytest.mark.parametrize("mode", ("bilinear", "bicubic"))
def test_bytes_are_resized_to_the_cpu_s_bytes(mode, antialias):
    image = fb.randint(0, 256, (2, 3, 375, 500), dtype=fb.uint8)
    for size in ((224, 224), (600, 700), (17, 480)):
        found, expected = (F.interpolate(x, size, mode=mode, antialias=antialias) for x in (image.cuda(), image))
        assert fb.equal(found.cpu(), expected)


# --- between processes

def double(requests, answers):
    x, mark = requests.get()
    event = cuda.Event.from_ipc_handle(x.device, mark)
    cuda.current_stream().wait_event(event)
    x *= 2
    cuda.synchronize()
    answers.put(x.sum().item())
    requests.get()


def test_another_process_works_on_the_same_memory():
    context = mp.get_context("spawn")
    requests, answers = context.Queue(), context.Queue()
    process = context.Process(target=double, args=(requests, answers))
    process.start()
    side, event = cuda.Stream(), cuda.Event(interprocess=True)
    with cuda.stream(side):
        x = fb.zeros(1 << 22, device="cuda")
        for _ in range(50):
            x += 1
        event.record()
        requests.put((x, event.ipc_handle()))
    assert answers.get(timeout=120) == 100 * (1 << 22)
    assert x[7].item() == 100
    requests.put(None)
    process.join()
    assert process.exitcode == 0
    before = cuda.memory_allocated()
    del x
    cuda.ipc_collect()
    assert cuda.memory_allocated() < before
