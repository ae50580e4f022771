"""Transforms nested three deep around random programs, compared with loops and with the tape."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import flambeau
from flambeau.func import grad, jacfwd, jacrev, jvp, vjp, vmap

#: steps of a program on (x, y), two vectors of three numbers: smooth, and of moderate size
STEPS = {
    "sin": lambda x, y: (x.sin(), y),
    "tanh_product": lambda x, y: ((x * y).tanh(), x),
    "exp": lambda x, y: ((-x * x).exp(), y + 1),
    "softmax": lambda x, y: (x.softmax(0), y.log_softmax(-1)),
    "cumsum": lambda x, y: (x.cumsum(0), y.flip(0)),
    "outer": lambda x, y: (flambeau.outer(x, y).tanh() @ x, y),
    "matmul": lambda x, y: (flambeau.outer(y, y).t().matmul(x).sin(), x),
    "stack": lambda x, y: (flambeau.stack([x, y]).mean(0), flambeau.cat([x, y])[1:4]),
    "index": lambda x, y: (x[flambeau.tensor([2, 0, 0])], y.roll(1)),
    "where": lambda x, y: (flambeau.where(x > y, x.sin(), y), y),
    "write": lambda x, y: (_written(x, y), y),
    "norm": lambda x, y: (flambeau.nn.functional.layer_norm(x, (3,), y, x, 0.1), y.square().sum() * x),
    "variance": lambda x, y: (x / (1 + x.var()), y - y.mean()),
    "sort": lambda x, y: (x.sort().values, (x * y).amax() + y),
    "linear": lambda x, y: (flambeau.nn.functional.linear(x, flambeau.outer(y, x).cos(), y), x),
}


def _written(x, y):
    z = flambeau.zeros_like(x) + y.new_zeros(())
    z[0] = x[1]
    z[1:] += y[:2] * x[0]
    return z.mul(x)


def program(names):
    def run(x):
        a, b = x, x.cos()
        for name in names:
            a, b = STEPS[name](a, b)
        return a + b
    return run


# Each transform makes a function of a vector from one, and has a reference made of loops and the tape.

def by_tape(f, x, v):
    """v^T J, on the tape of the caller."""
    x = x * 1 if x.requires_grad else x.detach().requires_grad_()
    y = f(x)
    if not y.requires_grad:
        return flambeau.zeros_like(x)
    found, = flambeau.autograd.grad(y, x, v, create_graph=True, allow_unused=True)
    return flambeau.zeros_like(x) if found is None else found


def pushed_by_tape(f, x, v):
    """J v, as the gradient of u^T J by u."""
    u = flambeau.zeros_like(x).requires_grad_()
    back = by_tape(f, x, u)
    if not back.requires_grad:
        return flambeau.zeros_like(x)
    found, = flambeau.autograd.grad(back, u, v, create_graph=True, allow_unused=True)
    return flambeau.zeros_like(x) if found is None else found


def scaled(x):
    return flambeau.stack([x, x * 0.5])


TRANSFORMS = {
    "vmap": (lambda f: lambda x: vmap(f)(scaled(x)).sum(0), lambda f: lambda x: f(x) + f(x * 0.5)),
    "grad": (lambda f: grad(lambda x: f(x).sum()), lambda f: lambda x: by_tape(f, x, flambeau.ones_like(x))),
    "vjp": (lambda f: lambda x: vjp(f, x)[1](x.sin())[0], lambda f: lambda x: by_tape(f, x, x.sin())),
    "jvp": (lambda f: lambda x: jvp(f, (x,), (x.cos(),))[1], lambda f: lambda x: pushed_by_tape(f, x, x.cos())),
    "jacrev": (lambda f: lambda x: jacrev(f)(x).sum(0), lambda f: lambda x: by_tape(f, x, flambeau.ones_like(x))),
    "jacfwd": (lambda f: lambda x: jacfwd(f)(x).sum(1),
               lambda f: lambda x: pushed_by_tape(f, x, flambeau.ones_like(x))),
}
POINT = [0.3, -0.7, 1.1]


def check(steps, transforms):
    f = reference = program(steps)
    for name in transforms:
        make, like = TRANSFORMS[name]
        f, reference = make(f), like(reference)
    x = flambeau.tensor(POINT, dtype=flambeau.float64)
    found, expected = f(x), reference(x)
    flambeau.testing.assert_close(found.detach(), expected.detach(), rtol=1e-8, atol=1e-9)
    assert not found.requires_grad
    return f


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.lists(st.sampled_from(sorted(STEPS)), min_size=1, max_size=3),
       st.lists(st.sampled_from(sorted(TRANSFORMS)), min_size=1, max_size=3))
def test_nested_transforms(steps, transforms):
    check(steps, transforms)


@settings(max_examples=20, deadline=None, derandomize=True)
@given(st.lists(st.sampled_from(sorted(STEPS)), min_size=1, max_size=2),
       st.lists(st.sampled_from(sorted(TRANSFORMS)), min_size=1, max_size=2))
def test_the_tape_of_the_caller_goes_through(steps, transforms):
    f = check(steps, transforms)
    x = flambeau.tensor(POINT, dtype=flambeau.float64, requires_grad=True)
    f(x).sum().backward()
    flambeau.testing.assert_close(x.grad, grad(lambda x: f(x).sum())(x.detach()), rtol=1e-8, atol=1e-9)


@pytest.mark.exhaustive
@settings(max_examples=2000, deadline=None)
@given(st.lists(st.sampled_from(sorted(STEPS)), min_size=1, max_size=4),
       st.lists(st.sampled_from(sorted(TRANSFORMS)), min_size=3, max_size=3))
def test_nested_transforms_at_length(steps, transforms):
    check(steps, transforms)
