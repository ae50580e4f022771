"""Compiled programs on the device: fused groups are one generated kernel each, with the numbers of eager execution."""

import pytest

import flambeau as fb
from flambeau import nn
from flambeau.nn import functional as F

pytestmark = pytest.mark.usefixtures("own_kernels")
X = fb.linspace(-2, 3, 5 * 64).view(5, 64)


def soft(x):
    e = (x - x.amax(-1, keepdim=True)).exp()
    return e / e.sum(-1, keepdim=True)


def norm(x):
    centred = x - x.mean(-1, keepdim=True)
    return centred * (centred.square().mean(-1, keepdim=True) + 1e-5).rsqrt()


def in_place(x):
    y = x * 2
    y.mul_(x).add_(1)
    return y, y.sum()


#: a function of one tensor -> how many kernels it may be, where it is known
FUNCTIONS = {
    "chain": (lambda x: ((x * 2 + 1).sin() - x).abs().sqrt(), 1),
    "broadcasting": (lambda x: (x + x[0]) * x[:, :1] - 3, 1),
    "transposed": (lambda x: (x.t() * 2 + 1).exp(), 1),
    "two results": (lambda x: ((x + 1) * 2, x.exp() - 1), 1),
    "where": (lambda x: fb.where(x > 0.5, x * 3, -1.0), 1),
    "clamp, gelu": (lambda x: F.gelu(x.clamp(-1, 1), approximate="tanh") * 2, 1),
    "halves": (lambda x: ((x.half() + 1) * 3).float() - x, 4),  # conversions are calls of their own
    "whole numbers": (lambda x: (x.int() // 2 + 3) * 7, 2),
    "softmax by hand": (soft, 1),
    "layer norm by hand": (norm, 1),
    "sums of rows": (lambda x: (x * x).sum(-1), 1),
    "in place": (in_place, None),
    "a product between": (lambda x: ((x * 2) @ (x.t() + 1)).tanh() - 1, None),
    "a linear layer": (lambda x: F.relu(F.linear(x, X[:3].to(x.device))) + 1, None),
    "random numbers": (lambda x: x + fb.rand(4, device=x.device).sum() * 0, None),
    "one number of the CPU": (lambda x: x * fb.tensor(2.5) + 1, None),
    "made on the way": (lambda x: x + fb.arange(64, device=x.device) * 2, None),
    "to the CPU": (lambda x: (x * 2 + 1).cpu() * 3, None),
}


def tensors(result):
    return result if isinstance(result, tuple) else (result,)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_compiled_function_gives_what_eager_execution_does(fake, name):
    function, kernels = FUNCTIONS[name]
    compiled, x = fb.compile(function), X.cuda()
    for turn in range(3):
        before = fake.calls("cuLaunchKernel")
        found = tensors(compiled(x))
        if kernels is not None and turn:
            assert fake.calls("cuLaunchKernel") - before == kernels
        for mine, eager, cpu in zip(found, tensors(function(x)), tensors(function(X)), strict=True):
            assert mine.device == eager.device and mine.dtype == eager.dtype and mine.stride() == eager.stride()
            assert fb.allclose(mine.cpu(), eager.cpu(), atol=1e-5) and fb.allclose(mine.cpu(), cpu, atol=1e-4)


def test_plans_of_the_cpu_and_of_a_device_are_apart():
    """One function, one shape: the CPU's program has operators that only the CPU has."""
    layer = F.linear
    compiled = fb.compile(lambda x, w: F.relu(layer(x, w) + 1))
    w = fb.randn(3, 64)
    for _ in range(2):
        cpu = compiled(X, w)
        assert fb.allclose(compiled(X.cuda(), w.cuda()).cpu(), cpu, atol=1e-4)


def test_a_compiled_training_step_trains_as_the_eager_one():
    def losses(compiling):
        fb.manual_seed(0)
        model = nn.Sequential(nn.Linear(6, 9), nn.GELU(), nn.LayerNorm(9), nn.Linear(9, 4)).cuda()
        x, y = fb.randn(5, 6).cuda(), fb.randint(0, 4, (5,)).cuda()
        optimizer = fb.optim.AdamW(model.parameters(), lr=0.05)

        def step():
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            return loss
        if compiling:
            step = fb.compile(step)
        return [step().item() for _ in range(5)]
    assert losses(True) == pytest.approx(losses(False), rel=1e-4)


def test_other_sizes_need_no_other_kernel():
    compiled = fb.compile(lambda x: (x * 2 + 1).sin())
    compiled(X.cuda())
    from flambeau.cuda.kernels import compiling
    made = compiling.compile.cache_info().misses
    for n in (1, 7, 1000, 4099):
        x = fb.randn(n)
        assert fb.allclose(compiled(x.cuda()).cpu(), (x * 2 + 1).sin(), atol=1e-6)
    assert compiling.compile.cache_info().misses - made <= 2  # a tensor of one element lies otherwise; copies


@pytest.mark.parametrize("dtypes", ((fb.float32,) * 2, (fb.bfloat16,) * 2, (fb.bfloat16, fb.float32), (fb.float64,) * 2,
                                    (fb.uint8, fb.float32)), ids=str)
def test_packs_of_any_number_of_elements(dtypes):
    """Whole packs, a part of one, and addresses that are no whole accesses; two results, one of them in place."""
    def function(x, y, z):
        z.mul_(2).add_(1)
        return (x * 2 + y).abs() + z, x + 1

    compiled = fb.compile(function)
    for n in (1, 5, 8, 4096, 8195, 20001):
        for start in (0, 1):
            numbers = fb.arange(n + 1.0).remainder(7)[start:n + start]
            x, y = (numbers.sub(0 if d == fb.uint8 else 3).to(d) for d in dtypes)
            z = fb.arange(float(n)).to(dtypes[1])
            there, here = [t.cuda()[:] for t in (x, y, z)], [x.clone(), y.clone(), z.clone()]
            if start:
                there[0] = fb.cat([there[0][:1], there[0]])[1:]
            for mine, theirs in zip(compiled(*there), function(*here), strict=True):
                assert mine.dtype == theirs.dtype and fb.allclose(mine.cpu().double(), theirs.double(), rtol=2e-2)
            assert fb.equal(there[2].cpu(), here[2])


def test_norms_between_products_of_halves_need_no_conversions(fake):
    """Autocast converts each norm's result and the gradient that comes to it; compiled, the norm's kernels do."""
    def made():
        fb.manual_seed(0)
        net = nn.Sequential(nn.LayerNorm(24), nn.Linear(24, 24)).cuda()
        return net, fb.randn(40, 24, device="cuda", requires_grad=True)

    def step(net, x):
        with fb.autocast("cuda", dtype=fb.bfloat16):
            y = net(x)
        return fb.autograd.grad(y.float().square().sum(), (x, *net.parameters()))
    results, launches = [], []
    for compiling in (False, True):
        net, x = made()
        run = fb.compile(step) if compiling else step
        run(net, x)
        before = fake.calls("cuLaunchKernel")
        results.append(run(net, x))
        launches.append(fake.calls("cuLaunchKernel") - before)
    assert all(map(fb.equal, *results)) and launches[1] <= launches[0] - 2
