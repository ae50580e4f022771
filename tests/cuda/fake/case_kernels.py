"""From an operator to its numbers: generated kernels, run on the CPU, through native launch plans."""

import copy
import pickle

import pytest

import flambeau as fb
from flambeau.nn import functional as F
from flambeau.vision import ops

from .. import emulate


@pytest.fixture(autouse=True)
def own_kernels(fresh, monkeypatch):
    import importlib

    from flambeau.cuda import _plans
    assert emulate.MARK  # importing it is enough: kernels are compiled for the CPU from then on
    monkeypatch.setattr(_plans, "kernels", lambda: importlib.import_module("flambeau.cuda.kernels"))


def close(a, b):
    return a.device.type == "cuda" and fb.allclose(a.cpu(), b, atol=1e-5)


X = fb.linspace(-2, 3, 24).view(4, 6)
OPERATORS = {
    "exp of a transposed": lambda x: x.t().exp(),
    "broadcasting": lambda x: x + x[0] * x[:, :1],
    "sum": lambda x: x.sum(1),
    "softmax": lambda x: x.softmax(1),
    "layer_norm": lambda x: F.layer_norm(x, (6,)),
    "gelu": F.gelu,
    "where": lambda x: fb.where(x > 0, x, -1.0),
    "cat": lambda x: fb.cat([x, x], 1),
    "half": lambda x: (x.half() * 2).float(),
    "mask": lambda x: x[x > 0],
    "mask of the CPU": lambda x: x[fb.tensor([True, False, True, False])],
    "indices of the CPU": lambda x: x[fb.tensor([2, 0])],
    "nonzero": lambda x: (x > 0).nonzero(),
    "nonzero in parts": lambda x: (x > 0).nonzero(as_tuple=True)[1],
    "masked_select": lambda x: x.masked_select(x[0] > -1.9),
    "nonzero of nothing": lambda x: (x > 9).nonzero(),
    "unique": lambda x: x.round().unique(),
    "unique with inverse": lambda x: x.round().unique(return_inverse=True)[1],
    "unique with counts": lambda x: x.round().unique(return_counts=True)[1],
    "unique of rows": lambda x: (x > 0).float().unique(dim=0),
    "unique_consecutive": lambda x: x.round().unique_consecutive(),
    "bincount": lambda x: (x + 2).long().reshape(-1).bincount(minlength=9),
    "bincount with weights": lambda x: (x + 2).long().reshape(-1).bincount(x.reshape(-1)),
    "repeat_interleave": lambda x: x[:, 0].repeat_interleave((x[:, 0] + 2).long()),
    "mode": lambda x: x.round().mode(1).values,
    "nms": lambda x: ops.nms(fb.cat([x.t(), x.t() + 1], 0)[:, [0, 1, 2, 3]].abs().cumsum(1), x.reshape(-1)[:12], 0.3),
    "cdist": lambda x: fb.cdist(x, x[:2]),
    "fold": lambda x: F.fold(F.unfold(x.reshape(1, 1, 4, 6), 3, padding=1), (4, 6), 3, padding=1),
    "grid_sample": lambda x: F.grid_sample(x.reshape(1, 1, 4, 6), x.reshape(1, 3, 4, 2) / 3, align_corners=False),
}


@pytest.mark.parametrize("name", OPERATORS)
def test_operators(name):
    f = OPERATORS[name]
    assert close(f(X.cuda()), f(X))


def test_writing_where_a_mask_says():
    a, b = X.cuda(), X.clone()
    for x in (a, b):
        x[x > 0] = 5.0
        x[fb.tensor([0, 1])] = fb.ones(2, 6, device=x.device)
    assert close(a, b)
    with pytest.raises(IndexError, match="mask"):
        a[fb.ones(3, dtype=fb.bool, device="cuda")]


@pytest.mark.parametrize("kind, options", [
    ("SGD", {"momentum": 0.9}), ("Adam", {"amsgrad": True}), ("AdamW", {"maximize": True}), ("RMSprop", {}),
    ("Adagrad", {}), ("RAdam", {})])
def test_optimizers_step_as_on_the_cpu(kind, options):
    parameters = [fb.nn.Parameter(X.clone()), fb.nn.Parameter(X.cuda())]
    for p in parameters:
        optimizer = getattr(fb.optim, kind)([p], lr=0.1, **options)
        for _ in range(3):
            p.grad = p.detach() * 2 + 1
            optimizer.step()
    assert close(parameters[1].detach(), parameters[0].detach())


def test_training_goes_as_on_the_cpu():
    def losses(device):
        fb.manual_seed(0)
        w, b = ((fb.randn(16) * 0.1).to(device).requires_grad_() for _ in range(2))
        x = fb.linspace(-1, 1, 32).to(device).unsqueeze(1)
        optimizer = fb.optim.Adam([w, b], lr=1e-2)
        for _ in range(5):
            optimizer.zero_grad()
            loss = (((x * w + b).tanh().sum(1) - x.squeeze(1) * 2) ** 2).mean()
            loss.backward()
            optimizer.step()
            yield loss.item()

    assert list(losses("cuda")) == pytest.approx(list(losses("cpu")), rel=1e-5)


def test_copies_of_objects():
    x = X.cuda()
    for y in (copy.deepcopy(x), copy.copy(x), pickle.loads(pickle.dumps(x))):
        assert y.device == x.device and close(y, X)
    layer = fb.nn.LayerNorm(6).cuda()
    assert layer.weight.is_cuda and layer.state_dict()["weight"].is_cuda
    assert close(layer(x).detach(), F.layer_norm(X, (6,)))


def test_boxes_beyond_one_block_are_suppressed():
    """More boxes than are looked at together: those of the first block suppress later ones."""
    corner = fb.rand(1500, 2) * 8
    boxes, scores = fb.cat([corner, corner + 1 + fb.rand(1500, 2)], 1), fb.rand(1500)
    assert fb.equal(ops.nms(boxes.cuda(), scores.cuda(), 0.4).cpu(), ops.nms(boxes, scores, 0.4))


def test_what_values_forbid_is_said():
    with pytest.raises(RuntimeError, match="bincount: expected only non-negative integers, but one is -2"):
        X.cuda().long().reshape(-1).bincount()
    with pytest.raises(RuntimeError, match="repeats must not be negative"):
        X.cuda()[0].repeat_interleave(fb.tensor([1, -1, 1, 1, 1, 1], device="cuda"))


def test_what_has_no_kernel_says_so():
    with pytest.raises(NotImplementedError, match="cholesky_inverse"):
        fb.eye(3, device="cuda").cholesky_inverse()
