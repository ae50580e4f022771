"""From an operator to its numbers: generated kernels, run on the CPU, through native launch plans."""

import copy
import pickle

import pytest

import flambeau as fb
from flambeau.nn import functional as F
from flambeau.vision import ops

pytestmark = pytest.mark.usefixtures("own_kernels")


def close(a, b):
    return a.device.type == "cuda" and a.dtype == b.dtype and fb.allclose(a.cpu(), b, atol=1e-5)


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
    "one_hot": lambda x: F.one_hot((x + 2).long()[:2], 7),
    "one_hot that counts the classes": lambda x: F.one_hot((x + 2).long()),
    "halves as complex numbers": lambda x: fb.view_as_real((fb.complex(x.half(), x[0].half().expand(4, 6)) * 2).clone()
                                                           + fb.polar(x.half(), x.half())).float(),
    "repeat_interleave": lambda x: x[:, 0].repeat_interleave((x[:, 0] + 2).long()),
    "whole ranges of broken steps": lambda x: fb.cat([fb.arange(*r, dtype=d, device=x.device).float() for r in (
        (-3.5, 3.5, 1), (5.5, 0, -1.5), (0, 9, 1.4)) for d in (fb.int64, fb.int32)]),
    "equal eighths": lambda x: fb.tensor([x.to(fb.float8_e5m2).equal(x.to(fb.float8_e5m2)),
                                          x.to(fb.float8_e5m2).equal((-x).to(fb.float8_e5m2))], device=x.device),
    "median of nothing": lambda x: fb.stack([x[:0].median().isnan(), x[:0].long().median() == 0]),
    "histogram": lambda x: fb.histogram(x.reshape(-1), 5)[0],
    "numbers beyond 2**63": lambda x: fb.add(x, x, alpha=2**63) / 2**63 + (x * 2**63) / 2**63,
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


LAWS = [("SGD", {}), ("SGD", {"momentum": 0.9, "nesterov": True, "weight_decay": 0.1}), ("Adam", {"amsgrad": True}),
        ("AdamW", {"weight_decay": 0.1}), ("RMSprop", {"centered": True, "momentum": 0.5}), ("Adadelta", {"lr": 1.0}),
        ("Adagrad", {"lr_decay": 0.1})]


@pytest.mark.parametrize("dtype", (fb.float32, fb.float64, fb.bfloat16), ids=str)
@pytest.mark.parametrize("kind, options", LAWS)
def test_one_launch_steps_many_parameters(fake, kind, options, dtype):
    """50 parameters are two launches; some are transposed, one has no elements, and steps follow the CPU's."""
    shapes = [(3, k % 5 + 1) for k in range(48)] + [(0, 2), (70, 70)]
    on_cpu = [fb.nn.Parameter(fb.randn(s).to(dtype)) for s in shapes]
    on_cpu[3] = fb.nn.Parameter(fb.randn(4, 5).to(dtype).t())
    there = [fb.nn.Parameter(p.detach().cuda()) for p in on_cpu]
    options = {"lr": 0.1, **options}
    steps = [getattr(fb.optim, kind)(ps, **options) for ps in (on_cpu, there)]
    for turn in range(3):
        for p, q in zip(on_cpu, there, strict=True):
            p.grad = fb.randn_like(p.detach())
            q.grad = p.grad.cuda()
        before = fake.calls("cuLaunchKernel")
        for optimizer in steps:
            optimizer.step()
        assert turn == 0 or fake.calls("cuLaunchKernel") - before == 2
    near = 2e-2 if dtype == fb.bfloat16 else 1e-5
    assert all(fb.allclose(p.detach(), q.detach().cpu(), rtol=near, atol=near)
               for p, q in zip(on_cpu, there, strict=True))


def test_a_recorded_step_counts_on():
    """With capturable=True the count of steps lies on the device: each replay is another step."""
    def optimizer(p):
        return fb.optim.AdamW([p], lr=0.1, capturable=p.is_cuda)

    a, b = fb.nn.Parameter(X.clone()), fb.nn.Parameter(X.cuda())
    one, two = optimizer(a), optimizer(b)
    b.grad = X.cuda() * 0
    for _ in range(2):
        two.step()
    assert two.state[b]["step"].is_cuda and two.state[b]["step"].item() == 2
    graph = fb.cuda.CUDAGraph()
    with fb.cuda.graph(graph):
        two.step()
    a.grad = X * 0
    for _ in range(2):
        one.step()
    for turn in range(3):
        a.grad = X * (turn + 1) - 1
        b.grad.copy_(a.grad)
        one.step()
        graph.replay()
    assert two.state[b]["step"].item() == 5
    assert close(b.detach(), a.detach())


def test_parameters_of_two_devices_step_in_one_group():
    a, b = fb.nn.Parameter(X.clone()), fb.nn.Parameter(X.cuda())
    optimizer = fb.optim.Adam([a, b], lr=0.1)
    for p in (a, b):
        p.grad = p.detach() * 2
    optimizer.step()
    assert close(b.detach(), a.detach())


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


@pytest.mark.parametrize("p", (1.0, 2.0, 3.0))
def test_gradients_of_distances(p):
    """On a device that is not the default one."""
    a, b = X.clone().requires_grad_(), X.cuda().requires_grad_()
    for x in (a, b):
        (F.pdist(x * x, p) ** 2).sum().backward()
    assert fb.allclose(b.grad.cpu(), a.grad, rtol=1e-4)


def test_eight_bits_are_not_drawn_and_complex_numbers_not_summed_without_nan():
    for x in (fb.zeros(4), fb.zeros(4, device="cuda")):
        with pytest.raises(NotImplementedError, match="float8"):
            x.to(fb.float8_e5m2).uniform_()
        with pytest.raises(RuntimeError, match="complex"):
            x.to(fb.complex64).nansum()


def test_classes_that_are_refused():
    for x in (fb.tensor([], dtype=fb.int64), fb.tensor([1], dtype=fb.int32)):
        with pytest.raises(RuntimeError) as on_cpu:
            F.one_hot(x)
        with pytest.raises(RuntimeError) as there:
            F.one_hot(x.cuda())
        assert str(on_cpu.value) == str(there.value)


def test_what_has_no_kernel_says_so():
    with pytest.raises(NotImplementedError, match="geqrf"):
        fb.eye(3, device="cuda").geqrf()
