"""Whole networks: the CPU's losses on the device, step for step, by generated kernels that run on the CPU."""

import pytest

import flambeau as fb
from flambeau import nn
from flambeau.nn import functional as F

pytestmark = pytest.mark.usefixtures("own_kernels")


class Language(nn.Module):
    """One block of a small GPT, with attention as one operator and by its parts."""

    def __init__(self):
        super().__init__()
        self.embed, self.norm, self.out = nn.Embedding(11, 8), nn.LayerNorm(8), nn.Linear(8, 11)
        self.q, self.k, self.v = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x):
        h = self.norm(self.embed(x))
        seen = F.scaled_dot_product_attention(self.q(h), self.k(h), self.v(h), is_causal=True)
        scores = self.q(seen) @ self.k(h).transpose(1, 2) / 8**0.5
        mask = fb.ones(x.shape[1], x.shape[1], device=x.device).tril() == 0
        return self.out(h + scores.masked_fill(mask, float("-inf")).softmax(-1) @ self.v(h)).transpose(1, 2)


NETWORKS = {
    "mlp": (lambda: nn.Sequential(nn.Linear(6, 9), nn.GELU(), nn.Linear(9, 4)), lambda: fb.randn(5, 6), (5,)),
    "cnn": (lambda: nn.Sequential(nn.Conv2d(2, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2),
                                  nn.Conv2d(4, 4, 3, stride=2, groups=2), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                                  nn.Linear(4, 4)), lambda: fb.randn(3, 2, 8, 8), (3,)),
    "gpt": (Language, lambda: fb.randint(0, 11, (2, 7)), (2, 7)),
}


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("optimizer", ("SGD", "AdamW"))
def test_training_goes_as_on_the_cpu(name, optimizer):
    make, data, labels = NETWORKS[name]

    def losses(device):
        fb.manual_seed(0)
        model, x, y = make().to(device), data().to(device), fb.randint(0, 4, labels).to(device)
        steps = getattr(fb.optim, optimizer)(model.parameters(), lr=0.1)
        found = []
        for _ in range(4):
            loss = F.cross_entropy(model(x), y)
            steps.zero_grad()
            loss.backward()
            steps.step()
            found.append(loss.item())
        return found
    assert losses("cuda") == pytest.approx(losses("cpu"), rel=1e-4)


def test_switches_decide_how_attention_is_computed():
    from flambeau._tensor.dispatched import of_primitives
    from flambeau.utils._python_dispatch import TorchDispatchMode

    class Seen(TorchDispatchMode):
        @of_primitives
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            names.add(func.name if hasattr(func, "name") else str(func))
            return func(*args, **(kwargs or {}))

    switches, x = fb.backends.cuda, fb.randn(1, 2, 4, 8).cuda()

    def fused():
        names.clear()
        with Seen():
            F.scaled_dot_product_attention(x, x, x)
        return any("fused_attention" in str(name) for name in names)
    names = set()
    expected = F.scaled_dot_product_attention(x.cpu(), x.cpu(), x.cpu())
    for flash, efficient, math in ((1, 1, 1), (1, 0, 1), (0, 1, 1), (0, 0, 1), (0, 1, 0)):
        with switches.sdp_kernel(enable_flash=flash, enable_mem_efficient=efficient, enable_math=math):
            assert fused() == bool(flash or efficient)
            assert fb.allclose(F.scaled_dot_product_attention(x, x, x).cpu(), expected, atol=1e-5)
    with nn.attention.sdpa_kernel(nn.attention.SDPBackend.EFFICIENT_ATTENTION):
        assert fused() and switches.mem_efficient_sdp_enabled() and not switches.math_sdp_enabled()
    with nn.attention.sdpa_kernel(nn.attention.SDPBackend.CUDNN_ATTENTION), \
            pytest.raises(RuntimeError, match="No viable backend"):
        F.scaled_dot_product_attention(x, x, x)
    assert switches.math_sdp_enabled() and fused()


def test_lazy_modules_wait_for_their_input_on_the_device():
    for make, shape in ((lambda: nn.LazyLinear(3), (2, 5)), (lambda: nn.LazyConv1d(4, 2), (2, 3, 5)),
                        (lambda: nn.LazyBatchNorm1d(), (2, 3, 5))):
        layer = make().to("cuda")
        assert layer.has_uninitialized_params()
        assert layer(fb.ones(shape, device="cuda")).is_cuda and all(p.is_cuda for p in layer.parameters())


@pytest.mark.parametrize("steps, size", ((1, 2), pytest.param(3, None, marks=pytest.mark.exhaustive)))
def test_the_command_trains_on_a_device_as_on_the_cpu(steps, size):
    """Some steps of `flambeau train digits`, and a run that is continued on the other device from its state."""
    from flambeau.cli.digits import digits_task
    from flambeau.cli.training import Training

    task = digits_task()
    runs = [Training(task, task.defaults, device=device) for device in ("cpu", "cuda")]
    here, there = runs
    for run in runs:
        run.network.eval()  # without dropout, whose numbers differ
        run.model.train = lambda: None
    batches = iter(here.epoch_batches())
    for _ in range(steps):
        images, labels = (part[:size] for part in next(batches))
        losses = [run.step(images, labels)["loss"] for run in runs]
        assert losses[0] == pytest.approx(losses[1], rel=1e-4)
    state = there.state_dict()
    assert all(t.device.type == "cpu" for t in state["network"].values())
    back = Training(task, task.defaults)
    back.load_state_dict(state)
    back.network.eval()
    back.model.train = lambda: None
    images, labels = (part[:size] for part in next(batches))
    assert back.step(images, labels)["loss"] == pytest.approx(there.step(images, labels)["loss"], rel=1e-4)
