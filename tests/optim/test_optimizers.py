"""Optimizers: PyTorch's numbers, its state_dict format, groups, hooks, errors."""

import copy
import json
import pickle
from collections import OrderedDict

import pytest

import flambeau
from flambeau.utils._pytree import tree_map

from .scenarios import GOLDEN, OPTIMIZERS, optimizer_run

EXPECTED = json.loads(GOLDEN.read_text())["optimizers"]
CASES = [pytest.param(name, options, expected, id=f"{name}-{'-'.join(options)}")
         for (name, options), expected in zip(OPTIMIZERS, EXPECTED)]


def flat(runs):
    return [value for step in runs for values in step for value in values]


@pytest.mark.parametrize(("name", "options", "expected"), CASES)
def test_golden_numbers_of_pytorch(name, options, expected):
    assert flat(optimizer_run(flambeau, name, options)) == pytest.approx(flat(expected), rel=1e-12, abs=1e-14)


@pytest.mark.parametrize(("name", "options", "expected"), CASES)
def test_float32_follows(name, options, expected):
    assert flat(optimizer_run(flambeau, name, options, "float32")) == pytest.approx(flat(expected), rel=2e-4, abs=2e-5)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize(("name", "options"), [("SGD", {"lr": 0.1, "momentum": 0.9}), ("AdamW", {"lr": 0.1})])
def test_halves(name, options, dtype):
    expected = flat(optimizer_run(flambeau, name, options))
    assert flat(optimizer_run(flambeau, name, options, dtype)) == pytest.approx(expected, rel=0.1, abs=0.1)


def run(make, params, grads):
    opt = make(params)
    for step_grads in grads:
        for p, g in zip(params, step_grads):
            p.grad = g
        opt.step()
    return opt


ALL = {
    "SGD": lambda p: flambeau.optim.SGD(p, lr=0.1, momentum=0.9),
    "Adam": lambda p: flambeau.optim.Adam(p, lr=0.1, amsgrad=True),
    "RMSprop": lambda p: flambeau.optim.RMSprop(p, lr=0.1, momentum=0.5, centered=True),
    "Adadelta": lambda p: flambeau.optim.Adadelta(p),
    "Adagrad": lambda p: flambeau.optim.Adagrad(p, lr=0.1),
}


@pytest.mark.parametrize("name", ALL)
def test_layouts_agree(name):
    """Transposed, sliced and contiguous parameters take the same steps."""
    values = flambeau.randn(7, 5)
    grads = [flambeau.randn(7, 5) for _ in range(3)]
    plain = values.clone().requires_grad_()
    run(ALL[name], [plain], [[g] for g in grads])
    turned = values.t().contiguous().t().requires_grad_()
    run(ALL[name], [turned], [[g] for g in grads])
    wide = flambeau.zeros(7, 10)
    wide[:, ::2] = values
    sliced = wide[:, ::2].detach().requires_grad_()
    run(ALL[name], [sliced], [[g] for g in grads])
    assert plain.tolist() == turned.tolist() == sliced.tolist()
    assert wide[:, 1::2].abs().sum().item() == 0


@pytest.mark.parametrize("name", ALL)
def test_threads_do_not_matter(name):
    values, grad = flambeau.randn(70001), flambeau.randn(70001)
    results = []
    threads = flambeau.get_num_threads()
    for n in (1, 2):
        flambeau.set_num_threads(n)
        p = values.clone().requires_grad_()
        run(ALL[name], [p, flambeau.ones(3, requires_grad=True)], [[grad, flambeau.ones(3)]] * 2)
        results.append(p.detach())
    flambeau.set_num_threads(threads)
    assert bool((results[0] == results[1]).all())


def test_complex_parameters_act_on_parts():
    p = flambeau.tensor([1 + 2j, -3j], requires_grad=True)
    parts = flambeau.tensor([[1.0, 2.0], [0.0, -3.0]], requires_grad=True)
    run(ALL["Adam"], [p], [[flambeau.tensor([0.5 - 1j, 2 + 0j])]] * 3)
    run(ALL["Adam"], [parts], [[flambeau.tensor([[0.5, -1.0], [2.0, 0.0]])]] * 3)
    assert [[z.real, z.imag] for z in p.tolist()] == parts.tolist()


def test_empty_and_scalar_parameters():
    p, q = flambeau.zeros(0, 3, requires_grad=True), flambeau.tensor(1.0, requires_grad=True)
    run(ALL["Adam"], [p, q], [[flambeau.zeros(0, 3), flambeau.tensor(2.0)]])
    assert q.item() == pytest.approx(0.9)


def test_step_bumps_versions():
    p = flambeau.ones(3, requires_grad=True)
    loss = (p * p).sum()
    loss.backward(retain_graph=True)
    flambeau.optim.SGD([p], lr=0.1).step()
    with pytest.raises(RuntimeError, match="changed in place since"):
        loss.backward()


def test_state_dict_format():
    p = [flambeau.ones(2, requires_grad=True), flambeau.ones(3, requires_grad=True)]
    opt = run(lambda p: flambeau.optim.Adam(p, lr=0.5), p, [[flambeau.ones(2), None]])
    state = opt.state_dict()
    assert list(state) == ["state", "param_groups"]
    assert list(state["state"]) == [0]
    assert list(state["state"][0]) == ["step", "exp_avg", "exp_avg_sq"]
    assert state["state"][0]["step"].dtype is flambeau.float32
    assert state["param_groups"] == [{
        "lr": 0.5, "betas": (0.9, 0.999), "eps": 1e-08, "weight_decay": 0, "amsgrad": False, "maximize": False,
        "foreach": None, "capturable": False, "differentiable": False, "fused": None,
        "decoupled_weight_decay": False, "params": [0, 1]}]


@pytest.mark.parametrize("name", ALL)
def test_resuming_continues_exactly(name):
    values, grads = flambeau.randn(11), [flambeau.randn(11) for _ in range(6)]
    whole = values.clone().requires_grad_()
    run(ALL[name], [whole], [[g] for g in grads])
    part = values.clone().requires_grad_()
    first = run(ALL[name], [part], [[g] for g in grads[:3]])
    saved = copy.deepcopy(first.state_dict())
    again = part.detach().clone().requires_grad_()
    second = ALL[name]([again])
    second.load_state_dict(saved)
    for g in grads[3:]:
        again.grad = g
        second.step()
    assert again.tolist() == whole.tolist()


def test_loaded_state_follows_the_parameter():
    p = flambeau.ones(2, requires_grad=True)
    saved = run(ALL["Adam"], [p], [[flambeau.ones(2)]]).state_dict()
    q = flambeau.ones(2, dtype=flambeau.float64, requires_grad=True)
    opt = ALL["Adam"]([q])
    opt.load_state_dict(saved)
    state = opt.state[q]
    assert state["exp_avg"].dtype is flambeau.float64
    assert state["step"].dtype is flambeau.float32
    assert state["step"].item() == 1


@pytest.mark.parametrize("change", [
    lambda s: s["param_groups"].pop(), lambda s: s["param_groups"][0]["params"].append(9)])
def test_state_that_does_not_fit(change):
    opt = ALL["SGD"]([flambeau.ones(2, requires_grad=True)])
    state = opt.state_dict()
    change(state)
    with pytest.raises(ValueError, match=r"in the state and 1 in the|has 0 parameter groups"):
        opt.load_state_dict(state)


def test_closure_and_zero_grad():
    p = flambeau.tensor([2.0], requires_grad=True)
    opt = flambeau.optim.SGD([p], lr=0.25)

    def closure():
        opt.zero_grad()
        loss = (p * p).sum()
        loss.backward()
        return loss

    with flambeau.no_grad():
        assert opt.step(closure).item() == 4.0
    assert p.item() == 1.0
    opt.zero_grad(set_to_none=False)
    assert p.grad.tolist() == [0.0]
    opt.zero_grad()
    assert p.grad is None
    opt.step()
    assert p.item() == 1.0


def test_hooks():
    p = flambeau.ones(1, requires_grad=True)
    opt = flambeau.optim.SGD([p], lr=0.1)
    seen = []
    handles = [
        opt.register_step_pre_hook(lambda o, a, k: seen.append("pre")),
        opt.register_step_post_hook(lambda o, a, k: seen.append("post")),
        opt.register_state_dict_pre_hook(lambda o: seen.append("state pre")),
        opt.register_state_dict_post_hook(lambda o, s: {**s, "extra": 1}),
        opt.register_load_state_dict_pre_hook(lambda o, s: seen.append("load pre")),
        opt.register_load_state_dict_post_hook(lambda o: seen.append("load post")),
        flambeau.optim.optimizer.register_optimizer_step_post_hook(lambda o, a, k: seen.append("all")),
    ]
    opt.step()
    state = opt.state_dict()
    assert state["extra"] == 1
    opt.load_state_dict(state)
    assert seen == ["pre", "post", "all", "state pre", "load pre", "load post"]
    for handle in handles:
        handle.remove()
    seen.clear()
    opt.step()
    assert seen == []


def test_groups_and_repr():
    p, q = flambeau.ones(1, requires_grad=True), flambeau.ones(1, requires_grad=True)
    opt = flambeau.optim.SGD([("a", p)], lr=0.1)
    opt.add_param_group({"params": [("b", q)], "lr": 0.5})
    assert [g["param_names"] for g in opt.param_groups] == [["a"], ["b"]]
    assert repr(flambeau.optim.SGD([p], lr=0.1)) == (
        "SGD (\nParameter Group 0\n    dampening: 0\n    differentiable: False\n    foreach: None\n    fused: None\n"
        "    lr: 0.1\n    maximize: False\n    momentum: 0\n    nesterov: False\n    weight_decay: 0\n)")


def test_pickling_keeps_working():
    p = flambeau.ones(2, requires_grad=True)
    opt = run(ALL["Adam"], [p], [[flambeau.ones(2)]])
    again = pickle.loads(pickle.dumps(opt))
    q = again.param_groups[0]["params"][0]
    q.grad = flambeau.ones(2)
    again.step()
    p.grad = flambeau.ones(2)
    opt.step()
    assert q.tolist() == p.tolist()


def one():
    return flambeau.ones(2, requires_grad=True)


@pytest.mark.parametrize(("make", "error", "text"), [
    (lambda: flambeau.optim.SGD([], lr=0.1), ValueError, "there are no parameters"),
    (lambda: flambeau.optim.SGD(one(), lr=0.1), TypeError, "iterable of Tensors or dicts"),
    (lambda: flambeau.optim.SGD([1], lr=0.1), TypeError, "parameters must be Tensors"),
    (lambda: flambeau.optim.SGD([one() * 2], lr=0.1), ValueError, "a parameter of shape"),
    (lambda: flambeau.optim.SGD([{"params": {one()}}], lr=0.1), TypeError, "parameters in a set have no fixed order"),
    (lambda: flambeau.optim.SGD([one()], lr=-1), ValueError, "Invalid learning rate: -1"),
    (lambda: flambeau.optim.SGD([one()], nesterov=True), ValueError, "nesterov=True needs momentum above"),
    (lambda: flambeau.optim.Adam([one()], betas=(1.0, 0.9)), ValueError, "beta parameter at index 0"),
    (lambda: flambeau.optim.Adam([one()], eps=-1), ValueError, "epsilon"),
    (lambda: flambeau.optim.Adam([one()], foreach=True, fused=True), RuntimeError, "fused"),
    (lambda: flambeau.optim.Rprop([one()], etas=(1, 2)), ValueError, "eta"),
])
def test_bad_arguments(make, error, text):
    with pytest.raises(error, match=text):
        make()


def test_same_parameter_twice():
    p = one()
    with pytest.warns(UserWarning, match="names a parameter more than once"):
        flambeau.optim.SGD([p, p], lr=0.1)
    with pytest.raises(ValueError, match="is in another group already"):
        flambeau.optim.SGD([{"params": [p]}, {"params": [p]}], lr=0.1)


def test_damaged_state_is_refused_before_anything_is_written():
    p, q = one(), one()
    opt = run(ALL["Adam"], [p, q], [[flambeau.ones(2), flambeau.ones(2)]])
    before = p.tolist()
    opt.state[q]["exp_avg"] = flambeau.zeros(3)
    with pytest.raises(RuntimeError, match=r"Adam: the state of parameter 1 is float32 \[3\]"):
        opt.step()
    opt.state[q]["exp_avg"] = "nonsense"
    with pytest.raises(TypeError, match="exp_avg"):
        opt.step()
    assert p.tolist() == before
    assert opt.state[p]["step"].item() == 1


def test_lbfgs_finds_the_minimum():
    for options in ({"lr": 0.5, "max_iter": 50}, {"line_search_fn": "strong_wolfe", "max_iter": 50}):
        p = flambeau.tensor([-1.0, 1.5], dtype=flambeau.float64, requires_grad=True)
        opt = flambeau.optim.LBFGS([p], **options)

        def closure(opt=opt, p=p):
            opt.zero_grad()
            loss = (p[0] - 1) ** 2 + 3 * (p[1] - 2) ** 2
            loss.backward()
            return loss

        opt.step(closure)
        assert p.tolist() == pytest.approx([1.0, 2.0], abs=1e-4)


@pytest.mark.parity
def test_parity():
    torch = pytest.importorskip("torch")
    for name, options in OPTIMIZERS:
        assert flat(optimizer_run(flambeau, name, options)) == pytest.approx(
            flat(optimizer_run(torch, name, options)), rel=1e-12, abs=1e-14)


def test_a_wrapper_that_leaves_out_the_constructor():
    """Accelerate's optimizer is a subclass that only passes calls on."""
    class Wrapper(flambeau.optim.Optimizer):
        def __init__(self, inner):
            self.inner = inner

        def step(self, closure=None):
            return self.inner.step(closure)

    seen = []
    handle = flambeau.optim.optimizer.register_optimizer_step_pre_hook(lambda opt, args, kwargs: seen.append(type(opt)))
    try:
        w = flambeau.ones(1, requires_grad=True)
        w.sum().backward()
        Wrapper(flambeau.optim.SGD([w], lr=0.5)).step()
    finally:
        handle.remove()
    assert w.item() == 0.5 and seen == [flambeau.optim.SGD]


@pytest.mark.parametrize("search", [None, "strong_wolfe"])
def test_lbfgs_uphill(search):
    def end(sign, **options):
        w = flambeau.tensor([3.0, -4.0, 1.0], dtype=flambeau.float64, requires_grad=True)
        optimizer = flambeau.optim.LBFGS([w], lr=0.5, max_iter=7, line_search_fn=search, **options)

        def closure():
            optimizer.zero_grad()
            loss = ((w ** 4).sum() + (w[0] * w[1] - 2) ** 2) * sign
            loss.backward()
            return loss

        return optimizer.step(closure).item(), w.tolist()

    (up, high), (down, low) = end(-1, maximize=True), end(1)
    assert up == -down and high == low


def test_a_wrapper_with_tables_of_hooks_of_its_own():
    class Wrapper(flambeau.optim.Optimizer):
        def __init__(self):
            self._optimizer_step_pre_hooks, self._optimizer_step_post_hooks = OrderedDict(), OrderedDict()
            self._patch_step_function()

        def step(self, closure=None):
            seen.append("step")

    seen = []
    wrapper = Wrapper()
    wrapper.register_step_post_hook(lambda opt, args, kwargs: seen.append("after"))
    wrapper.step()
    assert seen == ["step", "after"]


def test_lbfgs_searches_a_line_within_its_evaluations():
    p = flambeau.tensor([-1.2, 1.0], dtype=flambeau.float64, requires_grad=True)
    opt = flambeau.optim.LBFGS([p], max_iter=10, max_eval=1, line_search_fn="strong_wolfe")
    losses = []

    def closure():
        opt.zero_grad()
        loss = (1 - p[0]) ** 2 + 100 * (p[1] - p[0] ** 2) ** 2
        loss.backward()
        losses.append(loss.item())
        return loss

    for _ in range(3):
        opt.step(closure)
    assert len(losses) == 6  # PyTorch's: each step evaluates its start and one point of the line
    assert p.tolist() == [-1.2, 1.0]


def test_lbfgs_of_gradients_that_are_zero():
    start = flambeau.ones(2)
    for tolerance_grad in (float("inf"), 0.0, float("-inf")):
        optimizer = flambeau.optim.LBFGS([start], 0.01, tolerance_grad=tolerance_grad)
        assert optimizer.step(lambda: flambeau.tensor([10])).item() == 10 and start.tolist() == [1, 1]


class Wrapper(flambeau.Tensor):
    """Computes on what it wraps, and has no memory of its own."""

    @staticmethod
    def __new__(cls, inner, requires_grad=False):
        made = flambeau.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype, requires_grad=requires_grad)
        made.inner = inner
        return made

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        def opened(x):
            return x.inner if isinstance(x, Wrapper) else x

        args, kwargs = tree_map(opened, (args, kwargs or {}))
        return tree_map(lambda x: Wrapper(x) if isinstance(x, flambeau.Tensor) else x, func(*args, **kwargs))


@pytest.mark.parametrize("kind, options", [
    (name, options) for name in ("SGD", "Adam", "AdamW", "Adagrad", "RMSprop", "Adadelta", "NAdam", "Adamax", "Rprop",
                                 "ASGD")
    for options in ({}, {"momentum": 0.9} if name == "SGD" else {"maximize": True})])
def test_parameters_that_wrap_others_learn_as_those_do(kind, options):
    start = flambeau.tensor([[0.5, -0.25], [2.0, 1.0]])
    wrapper, plain = (flambeau.nn.Parameter(x) for x in (Wrapper(start.clone()), start.clone()))
    optimizer = getattr(flambeau.optim, kind)([wrapper, plain], lr=0.1, **options)
    for _ in range(3):
        optimizer.zero_grad()
        ((wrapper * wrapper).sum() + (plain * plain).sum()).backward()
        optimizer.step()
    assert isinstance(wrapper, Wrapper)
    assert flambeau.allclose(wrapper.detach().inner, plain.detach(), rtol=1e-5, atol=1e-6)


def test_step_hooks_see_the_optimizer_among_the_arguments():
    w = flambeau.ones(1, requires_grad=True)
    opt = flambeau.optim.SGD([w], lr=1.0)
    seen = []

    def before(optimizer, args, kwargs):
        seen.append((args == (opt,), kwargs))
        return (*args, lambda: flambeau.tensor(3.0)), {}

    opt.register_step_pre_hook(before)
    opt.register_step_post_hook(lambda optimizer, args, kwargs: seen.append(args[0] is opt and len(args)))
    assert opt.step().item() == 3.0
    assert seen == [(True, {}), 2]
