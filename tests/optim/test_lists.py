"""Optimizers as functions of lists: one step is the class's, whose state lies in the lists."""

from importlib import import_module

import pytest

import flambeau

#: function -> (options of the class, the function's own names for some of them, its lists of state)
CASES = {
    "adam": ({"lr": 0.1, "betas": (0.9, 0.99), "eps": 1e-6, "weight_decay": 0.1, "amsgrad": True, "maximize": False},
             ("exp_avg", "exp_avg_sq", "max_exp_avg_sq", "step")),
    "adamw": ({"lr": 0.1, "betas": (0.9, 0.99), "eps": 1e-6, "weight_decay": 0.1, "amsgrad": False, "maximize": True},
              ("exp_avg", "exp_avg_sq", None, "step")),
    "sgd": ({"lr": 0.1, "momentum": 0.9, "dampening": 0.1, "weight_decay": 0.1, "nesterov": False, "maximize": False},
            ("momentum_buffer",)),
    "rmsprop": ({"lr": 0.1, "alpha": 0.9, "eps": 1e-6, "weight_decay": 0.1, "momentum": 0.9, "centered": True},
                ("square_avg", "grad_avg", "momentum_buffer", "step")),
    "adagrad": ({"lr": 0.1, "lr_decay": 0.1, "eps": 1e-6, "weight_decay": 0.1, "maximize": False}, ("sum", "step")),
    "adadelta": ({"lr": 0.1, "rho": 0.9, "eps": 1e-6, "weight_decay": 0.1, "maximize": False},
                 ("square_avg", "acc_delta", "step")),
    "adamax": ({"lr": 0.1, "betas": (0.9, 0.99), "eps": 1e-6, "weight_decay": 0.1}, ("exp_avg", "exp_inf", "step")),
    "nadam": ({"lr": 0.1, "betas": (0.9, 0.99), "eps": 1e-6, "weight_decay": 0.1, "momentum_decay": 0.01},
              ("exp_avg", "exp_avg_sq", "mu_product", "step")),
    "radam": ({"lr": 0.1, "betas": (0.9, 0.99), "eps": 1e-6, "weight_decay": 0.1}, ("exp_avg", "exp_avg_sq", "step")),
    "rprop": ({"etas": (0.5, 1.2), "step_sizes": (1e-6, 50)}, ("prev", "step_size", "step")),
    "asgd": ({"lr": 0.1, "lambd": 1e-4, "t0": 1e6, "alpha": 0.75, "weight_decay": 0.1}, ("ax", "mu", "eta", "step")),
}
PAIRS = {"betas": ("beta1", "beta2"), "etas": ("etaminus", "etaplus"),
         "step_sizes": ("step_size_min", "step_size_max")}
CLASSES = {"adamw": "AdamW", "sgd": "SGD", "rmsprop": "RMSprop", "nadam": "NAdam", "radam": "RAdam", "asgd": "ASGD"}


def spelled(options):
    found = {}
    for name, value in options.items():
        found |= dict(zip(PAIRS[name], value)) if name in PAIRS else {name: value}
    return found


@pytest.mark.parametrize("name", CASES)
def test_a_step_is_the_class_s(name):
    options, keys = CASES[name]
    step = getattr(import_module(f"flambeau.optim.{name}"), name)
    flambeau.manual_seed(0)
    params = [flambeau.randn(3, requires_grad=True), flambeau.randn(2, 2, requires_grad=True)]
    optimizer = getattr(flambeau.optim, CLASSES.get(name, name.capitalize()))(params, **options)
    for param in params:
        param.grad = flambeau.randn_like(param)
    optimizer.step()
    own = [param.detach().clone() for param in params]
    lists = [[optimizer.state[param][key].clone() if key else None for param in params] if key else []
             for key in keys]
    for _ in range(2):
        optimizer.step()
        step(own, [param.grad for param in params], *lists, **spelled(options))
    for k, (mine, param) in enumerate(zip(own, params)):
        assert flambeau.equal(mine, param) and mine.grad is None
        assert all(flambeau.equal(found[k], optimizer.state[param][key]) for found, key in zip(lists, keys) if key)


def test_first_momentum_is_put_into_its_list():
    options, _ = CASES["sgd"]
    for momentum in (0.9, 0):
        params, buffers = [flambeau.ones(2)], [None]
        flambeau.optim.sgd.sgd(params, [flambeau.ones(2)], buffers, **options | {"momentum": momentum})
        assert (buffers[0] is not None) == (momentum > 0)


def test_gradients_are_unscaled_and_steps_skipped_where_infinities_were_found():
    options = spelled(CASES["adam"][0])
    made = []
    for scale, found in ((None, None), (4.0, 0.0), (None, 1.0)):
        state = [[flambeau.zeros(2)] for _ in range(3)] + [[flambeau.tensor(0.0)]]
        params = [flambeau.ones(2)]
        flambeau.optim.adam.adam(
            params, [flambeau.full((2,), scale or 1.0)], *state, **options,
            grad_scale=None if scale is None else flambeau.tensor(scale),
            found_inf=None if found is None else flambeau.tensor(found))
        made.append((params[0].tolist(), state[3][0].item()))
    assert made[0] == made[1] != made[2] == ([1, 1], 0)
