"""Recorded work with generated kernels: random numbers that go on at each replay, forward and backward of modules."""

import pytest

import flambeau as fb
from flambeau import cuda, nn
from flambeau.nn import functional as F

pytestmark = pytest.mark.usefixtures("own_kernels")


def recorded(function):
    """(graph, results) of a function, whose kernels are made first."""
    function()
    graph = cuda.CUDAGraph()
    with cuda.graph(graph):
        results = function()
    return graph, results


def test_random_numbers_go_on_at_each_replay():
    """Replays draw what the same calls would have drawn one after the other."""
    graph, (a, b) = recorded(lambda: (fb.rand(5, device="cuda"), fb.randn(3, device="cuda")))
    cuda.manual_seed(7)
    replayed = []
    for _ in range(3):
        graph.replay()
        replayed.append((a.clone(), b.clone()))
    after = fb.rand(2, device="cuda")
    cuda.manual_seed(7)
    for x, y in replayed:
        assert fb.equal(fb.rand(5, device="cuda"), x) and fb.equal(fb.randn(3, device="cuda"), y)
    assert fb.equal(fb.rand(2, device="cuda"), after)


def test_recording_draws_nothing():
    cuda.manual_seed(3)
    first = fb.rand(4, device="cuda")
    cuda.manual_seed(3)
    graph = cuda.CUDAGraph()
    with cuda.graph(graph):
        x = fb.rand(4, device="cuda")
    assert fb.equal(fb.rand(4, device="cuda"), first) and x.shape == (4,)


def test_generators_of_their_own():
    g = fb.Generator("cuda")
    graph, (a, b) = recorded(lambda: (fb.rand(5, device="cuda", generator=g), fb.rand(5, device="cuda")))
    g.manual_seed(1)
    cuda.manual_seed(2)
    graph.replay()
    g.manual_seed(1)
    cuda.manual_seed(2)
    assert fb.equal(fb.rand(5, device="cuda", generator=g), a) and fb.equal(fb.rand(5, device="cuda"), b)


def test_dropout_and_its_mask():
    x = fb.ones(400, device="cuda")
    graph, y = recorded(lambda: F.dropout(x, 0.5))
    graph.replay()
    one = y.clone()
    graph.replay()
    assert 120 < (y == 0).sum().item() < 280 and not fb.equal(y, one)


def model():
    fb.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 9), nn.GELU(), nn.LayerNorm(9), nn.Linear(9, 4)).cuda()


def test_a_recorded_module_trains_as_the_eager_one(fake):
    def losses(net, x, y):
        optimizer = fb.optim.SGD(net.parameters(), lr=0.1)
        for _ in range(4):
            optimizer.zero_grad()
            loss = F.cross_entropy(net(x), y)
            loss.backward()
            optimizer.step()
            yield loss.item()
    x, y = fb.randn(5, 6).cuda(), fb.randint(0, 4, (5,)).cuda()
    eager = list(losses(model(), x, y))
    net = model()
    fast = cuda.make_graphed_callables(net, (x,))
    assert fast is net and list(losses(net, x, y)) == pytest.approx(eager, rel=1e-5)
    net.eval()  # another mode than the recorded one runs as it is
    before = fake.calls("cuGraphLaunch")
    net(x)
    assert fake.calls("cuGraphLaunch") == before


def test_gradients_of_inputs_and_of_several_results():
    def f(x, y):
        return x * y, (x + 1).exp().detach(), y.sin()

    x, y = (fb.randn(4).cuda().requires_grad_() for _ in range(2))
    fast = cuda.make_graphed_callables(f, (x, y))
    for _ in range(2):
        a, b = (fb.randn(4).cuda().requires_grad_() for _ in range(2))
        mine, eager = fast(a, b), f(a, b)
        assert all(fb.allclose(m.detach(), e.detach()) for m, e in zip(mine, eager, strict=True))
        assert [m.requires_grad for m in mine] == [e.requires_grad for e in eager]
        found = fb.autograd.grad((mine[0] * 2 + mine[2]).sum(), (a, b))
        wanted = fb.autograd.grad((eager[0] * 2 + eager[2]).sum(), (a, b))
        assert all(fb.allclose(m, w) for m, w in zip(found, wanted, strict=True))


def test_unused_inputs():
    x, y = (fb.randn(4).cuda().requires_grad_() for _ in range(2))
    with pytest.raises(RuntimeError):
        cuda.make_graphed_callables(lambda x, y: x * 2, (x, y))
    fast = cuda.make_graphed_callables(lambda x, y: x * 2, (x, y), allow_unused_input=True)
    fast(x, y).sum().backward()
    assert x.grad.tolist() == [2] * 4 and y.grad is None
