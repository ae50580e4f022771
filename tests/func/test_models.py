"""Modules under transforms: per-sample gradients, ensembles, model-agnostic meta-learning, tangent kernels."""

import pytest

import flambeau
from flambeau import nn
from flambeau.func import (
    functional_call,
    functionalize,
    grad,
    jacrev,
    replace_all_batch_norm_modules_,
    stack_module_state,
    vjp,
    vmap,
)


def same(a, b, **how):
    flambeau.testing.assert_close(a, b, **how)


def parameters_of(module):
    return {name: p.detach() for name, p in module.named_parameters()}


def network():
    flambeau.manual_seed(0)
    return nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.GroupNorm(2, 4), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
                         nn.LayerNorm(64), nn.Linear(64, 3)).double()


def test_per_sample_gradients():
    net, x, y = network(), flambeau.randn(5, 1, 8, 8).double(), flambeau.tensor([0, 1, 2, 0, 1])
    parameters = parameters_of(net)

    def loss(p, x, y):
        return nn.functional.cross_entropy(functional_call(net, p, (x.unsqueeze(0),)), y.unsqueeze(0))

    found = vmap(grad(loss), in_dims=(None, 0, 0))(parameters, x, y)
    for k in range(5):
        for name, g in grad(loss)(parameters, x[k], y[k]).items():
            same(found[name][k], g)
    assert not any(g.requires_grad for g in found.values())


def test_ensembles():
    models = [network() for _ in range(3)]
    for k, m in enumerate(models):
        flambeau.manual_seed(k)
        for p in m.parameters():
            p.data.normal_()
    state = stack_module_state(models)
    x = flambeau.randn(5, 1, 8, 8).double()

    def call(p, b, x):
        return functional_call(models[0], (p, b), (x,))

    same(vmap(call, in_dims=(0, 0, None))(*state, x), flambeau.stack([m(x) for m in models]))
    each = flambeau.randn(3, 5, 1, 8, 8).double()
    out = vmap(call)(*state, each)
    same(out, flambeau.stack([m(e) for m, e in zip(models, each, strict=True)]))
    out.sum().backward()
    models[1](each[1]).sum().backward()
    same(state[0]["0.weight"].grad[1], models[1][0].weight.grad)
    with pytest.raises(RuntimeError):
        stack_module_state([])


def test_meta_learning():
    net = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1)).double()
    parameters = parameters_of(net)
    x, y = flambeau.randn(4, 6, 3).double(), flambeau.randn(4, 6, 1).double()

    def task(p, x, y):
        def loss(p):
            return (functional_call(net, p, (x,)) - y).square().mean()
        step = grad(loss)(p)
        return loss({name: p[name] - 0.1 * step[name] for name in p})

    by_vmap = grad(lambda p: vmap(task, in_dims=(None, 0, 0))(p, x, y).sum())(parameters)
    same(by_vmap, grad(lambda p: sum(task(p, x[k], y[k]) for k in range(4)))(parameters))


def test_tangent_kernel():
    net = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 2)).double()
    parameters, a, b = parameters_of(net), flambeau.randn(4, 3).double(), flambeau.randn(5, 3).double()

    def one(p, x):
        return functional_call(net, p, (x,))

    def jacobians(x):
        return {k: j.flatten(2) for k, j in vmap(jacrev(one), in_dims=(None, 0))(parameters, x).items()}

    ja, jb = jacobians(a), jacobians(b)
    kernel = sum(flambeau.einsum("naf,mbf->nmab", ja[k], jb[k]) for k in ja)

    def entry(x1, x2):  # by products with vectors
        def of(v):
            _, pull = vjp(lambda p: one(p, x2), parameters)
            back = pull(v)[0]
            zero = flambeau.zeros(()).double()
            return jacrev(lambda t: one({k: parameters[k] + t * back[k] for k in back}, x1))(zero)
        return vmap(of)(flambeau.eye(2).double()).mT

    same(vmap(vmap(entry, (None, 0)), (0, None))(a, b), kernel)


def test_functional_call():
    net = nn.Linear(2, 1)
    tied = nn.Sequential(net, nn.Linear(1, 2), net)
    given = {"0.weight": flambeau.ones(1, 2), "0.bias": flambeau.zeros(1)}
    before = net.weight
    x = flambeau.randn(3, 2)
    y = functional_call(tied, given, x)
    same(y, nn.functional.linear(tied[1](x.sum(1, keepdim=True)), flambeau.ones(1, 2)))
    assert tied[0].weight is before
    with pytest.raises(RuntimeError, match="strict"):
        functional_call(net, {"weight": before}, x, strict=True)
    with pytest.raises(ValueError, match="more than one of the dicts gives a value for"):
        functional_call(net, ({"weight": before}, {"weight": before}), x)
    with pytest.raises(AttributeError):
        functional_call(net, {"nothing.weight": before}, x)
    norm = nn.BatchNorm1d(2)
    buffers = {k: b.clone() for k, b in norm.named_buffers()}
    functional_call(norm, buffers, x)
    assert buffers["num_batches_tracked"] == 1 and norm.num_batches_tracked == 0
    assert not flambeau.equal(buffers["running_mean"], norm.running_mean)


def test_batch_norm():
    net = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2))
    x = flambeau.randn(3, 4, 1, 5, 5)
    with pytest.raises(RuntimeError, match="batch_norm"):
        vmap(net)(x)
    replace_all_batch_norm_modules_(net)
    same(vmap(net)(x), flambeau.stack([net(a) for a in x]))


def test_functionalize():
    def f(x):
        y = x[0]
        y.add_(1)
        return x * 2

    x = flambeau.ones(2, 2)
    same(functionalize(f)(x), flambeau.tensor([[4., 4.], [2., 2.]]))
    same(x, flambeau.tensor([[2., 2.], [1., 1.]]))
    same(vmap(functionalize(lambda x: x.clone().mul_(2)))(x), x * 2)


def test_inference_mode():
    net = nn.Linear(3, 1)
    with flambeau.inference_mode():
        x = flambeau.ones(2, 3)
        same(grad(lambda a: (a * a).sum())(x), 2 * x)
        same(vmap(grad(lambda a: (a * a).sum()))(x), 2 * x)
        found = grad(lambda a: net(a).sum())(x)
        same(vjp(lambda a: a * 2, x)[1](x)[0], 2 * x)
        assert not found.requires_grad
    same(found, net.weight.detach().expand(2, 3))


def test_names_that_the_module_does_not_have_are_attributes_for_the_call():
    class Shifted(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner, self.plain, self.number = nn.Linear(1, 1), flambeau.ones(1), 2

        def forward(self, x):
            return self.inner(x) * 0 + self.plain + getattr(self, "extra", 0)

    module, x = Shifted(), flambeau.zeros(1)
    assert functional_call(module, {"extra": flambeau.ones(1), "inner.unused": x}, (x,)).item() == 2
    assert functional_call(module, {"plain": flambeau.zeros(1)}, (x,)).item() == 0
    assert not hasattr(module, "extra") and not hasattr(module.inner, "unused") and module.plain.item() == 1
    for given, error in (({"number": x}, TypeError), ({"inner": x}, TypeError), ({"extra": 1}, TypeError),
                         ({"nowhere.weight": x}, AttributeError)):
        with pytest.raises(error):
            functional_call(module, given, (x,))
    with pytest.raises(RuntimeError, match="unexpected: \\['extra'\\]"):
        functional_call(module, {"extra": x, **dict(module.named_parameters())}, (x,), strict=True)
    assert module.number == 2 and isinstance(module.inner, nn.Linear)


def test_functional_call_with_a_parameter_under_a_new_name():
    class Counted(nn.Linear):
        def forward(self, x):
            return [name for name, _ in self.named_parameters()], super().forward(x)

    module = Counted(1, 1)
    names, _ = functional_call(module, {"extra": nn.Parameter(flambeau.ones(1))}, (flambeau.ones(1, 1),))
    assert names == ["weight", "bias", "extra"]
    assert [name for name, _ in module.named_parameters()] == ["weight", "bias"] and not hasattr(module, "extra")


def test_a_module_that_contains_itself():
    module = nn.Sequential(nn.Linear(1, 1))
    module[0].around = module
    given = {"0.around.0.weight": flambeau.full((1, 1), 3.0), "0.bias": flambeau.zeros(1)}
    module[0].forward = lambda x: flambeau.nn.functional.linear(x, module[0].weight, module[0].bias)
    assert functional_call(module, given, (flambeau.ones(1, 1),), tie_weights=False).item() == 3


def test_an_ensemble_has_gradients_in_all_models_or_in_none():
    models = [flambeau.nn.Linear(2, 1), flambeau.nn.Linear(2, 1).requires_grad_(False)]
    with pytest.raises(RuntimeError, match="weight requires a gradient in some models"):
        flambeau.func.stack_module_state(models)
