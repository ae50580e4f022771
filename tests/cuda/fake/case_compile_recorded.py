"""`compile(mode="reduce-overhead")`: what a function does on the device is recorded, and gives what its calls give."""

import pytest

import flambeau as fb
from flambeau import _C, cuda, nn
from flambeau.compiler import _report
from flambeau.nn import functional as F

pytestmark = pytest.mark.usefixtures("own_kernels")


def recorded(function, **options):
    return fb.compile(function, mode="reduce-overhead") if not options else fb.compile(
        function, options={"triton.cudagraphs": True, **options})


def graphs(fake):
    return fake.calls("cuGraphLaunch")


def same(a, b):
    return fb.allclose(a.cpu(), b.cpu(), atol=1e-6)


FUNCTIONS = {
    "chain": lambda x: ((x * 2 + 1).sin() - x).abs().sqrt(),
    "a product between": lambda x: ((x * 2) @ (x.t() + 1)).tanh() - 1,
    "two results": lambda x: ((x + 1) * 2, x.exp().sum(-1)),
    "a view of a value": lambda x: (x * 2)[1:].t() + 1,
    "one value twice": lambda x: (lambda y: (y, y.view(-1)))(x + 1),
    "constants": lambda x: x + fb.arange(6, device=x.device) * 2,
    "nothing but a copy": lambda x: x.clone(),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_recorded_functions_give_what_eager_execution_does(fake, name):
    function, before = FUNCTIONS[name], graphs(fake)
    compiled, kept = recorded(function), []
    for turn in range(5):
        x = (fb.randn(4, 6) + turn).cuda()
        found = compiled(x)
        pairs = list(zip(*(r if isinstance(r, tuple) else (r,) for r in (found, function(x))), strict=True))
        kept += pairs
        assert all(same(*pair) and pair[0].stride() == pair[1].stride() for pair in pairs)
    assert graphs(fake) - before == 4
    assert all(same(*pair) for pair in kept), "a result changed later"


def test_a_recorded_call_launches_nothing_one_by_one(fake):
    compiled = recorded(lambda x: (x @ x).relu() @ x + 1)
    x = fb.randn(5, 5).cuda()
    for _ in range(3):
        compiled(x)
    launches = fake.calls("cuLaunchKernel")
    compiled(x)
    assert fake.calls("cuLaunchKernel") - launches <= 1  # the result's copy


def test_each_shape_has_a_graph_of_its_own(fake):
    compiled, before = recorded(lambda x: (x * 3).sum(0)), graphs(fake)
    for _ in range(3):
        for n in (2, 5, 7):
            x = fb.randn(n, 3)
            assert same(compiled(x.cuda()), (x * 3).sum(0))
    assert graphs(fake) - before == 6


def test_numbers_are_part_of_what_is_recorded(fake):
    compiled, x, before = recorded(lambda x, k: x * k + 1), fb.randn(6).cuda(), graphs(fake)
    for k in (1.0, 2.0, 1.0, 2.0, 3.0):
        assert same(compiled(x, k), x * k + 1)
    assert graphs(fake) - before == 2


def test_slices_of_one_large_tensor_are_copied_to_one_place(fake):
    data, compiled, before = fb.randn(80, 6).cuda(), recorded(lambda x: x.tanh() * 2), graphs(fake)
    for k in range(0, 80, 8):
        assert same(compiled(data[k:k + 8]), data[k:k + 8].tanh() * 2)
    assert graphs(fake) - before >= 6  # the first slice, and one whose offset is a size, have plans of their own


def test_memory_that_moves_later_is_recorded_again():
    compiled = recorded(lambda x, y: x + y * 2)
    x, y = fb.randn(8).cuda(), fb.randn(8).cuda()
    for _ in range(3):
        assert same(compiled(x, y), x + y * 2)
    for _ in range(3):
        x, keep = fb.randn(8).cuda(), x
        found = compiled(x, y)
        assert same(found, x + y * 2) and not same(keep, x)


def test_writes_to_memory_that_moves_arrive():
    compiled = recorded(lambda x: x.mul_(2).add_(1))
    for _ in range(4):
        x = fb.randn(5).cuda()
        expected = x * 2 + 1
        compiled(x)
        assert same(x, expected)


def test_random_numbers_go_on():
    def draw(x):
        return F.dropout(x, 0.5) + fb.rand(30, device=x.device)
    compiled, x = recorded(draw), fb.ones(30).cuda()
    cuda.manual_seed(5)
    found = [compiled(x).cpu() for _ in range(4)]
    cuda.manual_seed(5)
    assert all(fb.equal(draw(x).cpu(), f) for f in found)


def stepping(net, optimizer):
    """A training step of a classifier."""
    def step(x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach()
    return step


def training(compiling, fake):
    fb.manual_seed(0)
    net = nn.Sequential(nn.Linear(6, 9), nn.BatchNorm1d(9), nn.GELU(), nn.Linear(9, 4)).cuda()
    optimizer = fb.optim.AdamW(net.parameters(), lr=0.05, capturable=True)
    data, step = fb.randn(6, 5, 6), stepping(net, optimizer)
    step = recorded(step) if compiling else step
    losses = [step(x.cuda(), (x.sum(-1) > 0).long().cuda()).item() for x in data]
    return losses, {k: v.cpu() for k, v in net.state_dict().items()}


def test_a_recorded_training_step_trains_as_the_eager_one(fake):
    before = graphs(fake)
    mine, states = training(True, fake)
    assert graphs(fake) - before >= 3
    eager, expected = training(False, fake)
    assert mine == pytest.approx(eager, rel=1e-4)
    for name, value in expected.items():  # running statistics and their count among them
        assert fb.allclose(states[name].double(), value.double(), atol=1e-5), name


def test_the_backward_pass_of_a_recorded_forward():
    layer = nn.Linear(6, 3).cuda()
    compiled = recorded(lambda x: layer(x).tanh())
    for _ in range(4):
        x = fb.randn(4, 6)
        layer.zero_grad()
        compiled(x.cuda()).sum().backward()
        mine = layer.weight.grad.cpu()
        layer.zero_grad()
        layer(x.cuda()).tanh().sum().backward()
        assert same(layer.weight.grad, mine)


def test_functions_that_ask_for_values():
    def f(x):
        y = x * 2
        return y.sin() + 1 if y.sum().item() > 0 else y.cos() - 1
    compiled = recorded(f)
    for sign in (1, -1) * 3:
        x = (fb.rand(6) * sign).cuda()
        assert same(compiled(x), f(x))


def test_pure_functions_need_neither_python_nor_launches(fake):
    called = []

    def f(x, y):
        called.append(1)
        return (x @ y).relu() + 1
    compiled, y = recorded(f, pure=True), fb.randn(5, 5).cuda()
    for _ in range(5):
        x = fb.randn(5, 5).cuda()
        assert same(compiled(x, y), (x @ y).relu() + 1)
    assert len(called) == 1 and graphs(fake)


@pytest.fixture
def told(monkeypatch):
    """What reports say of a call; how fast this machine is does not matter."""
    monkeypatch.setattr(_report, "rates", lambda: None)
    return lambda compiled, *args: " ".join(fb.compiler.report(compiled, *args).reasons())


def test_what_cannot_be_recorded_runs_and_says_why(fake, told):
    before, x = graphs(fake), fb.randn(3, 3)
    mixed = fb.compile(lambda x: (x * 2).cpu() * 3, mode="reduce-overhead")
    solving = fb.compile(lambda x: x.sum() * 2, mode="reduce-overhead")
    for _ in range(3):
        assert same(mixed(x.cuda()), x * 6)
    assert "program 1 is not recorded as a CUDA graph: it works on cpu too" in told(mixed, x.cuda())
    assert graphs(fake) == before
    there = x.cuda()
    for n in range(3):
        if n == 1:
            fake.fail(1, "cuStreamEndCapture", 901)
        assert same(solving(there), x.sum() * 2)
        fake.fail(0)
    assert graphs(fake) == before and "is not recorded as a CUDA graph: cuda.graph: CUDA error" in told(solving, there)
    plain = fb.compile(lambda x: x + 1, mode="max-autotune-no-cudagraphs")
    assert "CUDA graph" not in told(plain, there)


def test_every_failure_of_the_driver_leaves_everything_usable(fake):
    def f(x):
        return (x @ x).relu() + 1
    x = fb.randn(4, 4).cuda()
    expected = f(x)
    for n in range(1, 200):
        fb.compiler.reset()
        compiled = recorded(f)
        compiled(x)
        fake.fail(n)
        try:
            found = compiled(x)
        except RuntimeError as error:
            assert "CUDA error" in str(error)
            found = expected
        left = fake.left()
        fake.fail(0)
        assert same(found, expected) and same(compiled(x), expected) and same(f(x), expected)
        if left:
            break
    assert n > 5


def test_inside_a_recording_nothing_else_is_recorded(fake):
    compiled, x = recorded(lambda x: x * 2 + 1), fb.ones(5).cuda()
    compiled(x)
    graph = cuda.CUDAGraph()
    with cuda.graph(graph):
        y = compiled(x)
    x.fill_(3)
    graph.replay()
    assert y.tolist() == [7] * 5


def test_streams_have_graphs_of_their_own():
    compiled, side, x = recorded(lambda x: x * 2 + 1), cuda.Stream(), fb.ones(5).cuda()
    for _ in range(3):
        assert compiled(x).tolist() == [3] * 5
        with cuda.stream(side):
            side.wait_stream(cuda.default_stream())
            assert compiled(x).tolist() == [3] * 5


def test_reset_gives_the_memory_back():
    cuda.empty_cache()
    before, x = cuda.memory_allocated(), fb.randn(100, 100).cuda()
    compiled = recorded(lambda x: (x @ x).relu() @ x)
    for _ in range(3):
        compiled(x.clone())
    del x
    assert cuda.memory_allocated() > before
    fb.compiler.reset()
    assert cuda.memory_allocated() == before


def test_a_whole_training_step_is_one_launch(fake):
    """Forward, backward, the optimizer's step: nothing is launched beside the graph but copies, no plan is made."""
    net = nn.Sequential(nn.Linear(6, 9), nn.GELU(), nn.LayerNorm(9), nn.Linear(9, 4)).cuda()
    compiled = recorded(stepping(net, fb.optim.AdamW(net.parameters(), lr=0.05, capturable=True)))
    x, y = fb.randn(5, 6).cuda(), fb.tensor([0, 1, 2, 3, 0]).cuda()
    losses = [compiled(x, y).item() for _ in range(6)]
    plans, before = _C._cuda.plan_counts(), {name: fake.calls(name) for name in ("cuGraphLaunch", "cuLaunchKernel")}
    losses.append(compiled(x, y).item())
    assert fake.calls("cuGraphLaunch") - before["cuGraphLaunch"] == 1
    assert fake.calls("cuLaunchKernel") == before["cuLaunchKernel"]
    assert _C._cuda.plan_counts() == plans and losses == sorted(losses, reverse=True)


def test_recordings_of_one_stream_share_memory():
    x = fb.arange(300_000).to(fb.float32).cuda()
    for rolled in range(1, 6):
        compiled = recorded(lambda x, k=rolled: x.roll(k).flip(0)[:10])
        for _ in range(3):
            compiled(x)
        of_graphs = [s for s in cuda.memory_snapshot() if s["segment_pool_id"] != (0, 0)]
        pools = {(s["segment_pool_id"], s["stream"]) for s in of_graphs}
        assert len(pools) == 1 and sum(s["segment_type"] == "large" for s in of_graphs) == 1
