"""Random programs under random nests of transforms, three deep, against plain reverse mode and loops."""

import hypothesis.strategies as st
from hypothesis import given, settings

import flambeau
from flambeau.autograd.functional import jacobian
from flambeau.func import grad, jacfwd, jacrev, jvp, vjp, vmap
from flambeau.testing import assert_close

N = 3
UNARY = (
    lambda x: x.sin(), lambda x: x * x, lambda x: x.tanh(), lambda x: (x * 0.3).exp(), lambda x: x.softmax(-1),
    lambda x: x.flip(0), lambda x: x.cumsum(0), lambda x: x - x.mean(), lambda x: x.reshape(1, N).t().reshape(N),
    lambda x: x[flambeau.tensor([2, 0, 1])], lambda x: flambeau.cat([x[1:], x[:1]]), lambda x: x.clone().mul_(x),
    lambda x: flambeau.where(x > 0, x, x * 0.5), lambda x: (x.unsqueeze(0) @ x.unsqueeze(1)).squeeze(0) * x,
    lambda x: flambeau.nn.functional.layer_norm(x, (N,)), lambda x: x.sigmoid().log(),
    lambda x: flambeau.einsum("i,j->ij", x, x).sum(1), lambda x: (x * x + 1).sqrt(),
)
BINARY = (lambda a, b: a * b, lambda a, b: a + 2 * b, lambda a, b: a / (b * b + 1),
          lambda a, b: flambeau.atan2(a, b * b + 1),
          lambda a, b: flambeau.outer(a, b).sum(0), lambda a, b: flambeau.stack([a, b]).amax(0))

#: a program: per step either (unary, value) or (binary, value, value), values by their place counted from the last
steps = st.lists(st.one_of(st.tuples(st.integers(0, len(UNARY) - 1), st.integers(0, 5)),
                           st.tuples(st.integers(0, len(BINARY) - 1), st.integers(0, 5), st.integers(0, 5))),
                 min_size=1, max_size=5)
numbers = st.lists(st.floats(-1.5, 1.5), min_size=N, max_size=N, unique=True).map(
    lambda v: flambeau.tensor(v, dtype=flambeau.float64))


def program(plan):
    def run(x):
        values = [x]
        for kind, *places in plan:
            chosen = [values[-1 - p % len(values)] for p in places]
            values.append(UNARY[kind](*chosen) if len(chosen) == 1 else BINARY[kind](*chosen))
        return values[-1]
    return run


def by_pushes(f):
    """The Jacobian column by column, one jvp each: a loop, and forward mode without vmap."""
    def columns(x):
        return flambeau.stack([jvp(f, (x,), (e,))[1] for e in flambeau.eye(N, dtype=x.dtype)], -1)
    return columns


def by_pulls(f):
    """The Jacobian row by row through vjp under vmap, whatever the shape of the result."""
    def rows(x):
        y, pull = vjp(f, x)
        basis = flambeau.eye(y.numel(), dtype=x.dtype).reshape(y.numel(), *y.shape)
        return vmap(lambda e: pull(e)[0])(basis).reshape(*y.shape, N)
    return rows


DERIVATIVES = (jacrev, jacfwd, by_pushes, by_pulls)


def reference(f, depth):
    """Jacobians of Jacobians by loops over plain reverse mode."""
    for _ in range(depth):
        f = (lambda g: lambda x: jacobian(g, x, create_graph=True))(f)
    return f


@settings(max_examples=60, deadline=None)
@given(steps, numbers, st.lists(st.integers(0, len(DERIVATIVES) - 1), min_size=1, max_size=3))
def test_nested_derivatives(plan, x, nest):
    f = program(plan)
    transformed = f
    for k in nest:
        transformed = DERIVATIVES[k](transformed)
    assert_close(transformed(x), reference(f, len(nest))(x.clone().requires_grad_()).detach(), rtol=1e-7, atol=1e-7,
                 equal_nan=True)


@settings(max_examples=40, deadline=None)
@given(steps, st.lists(numbers, min_size=1, max_size=3), st.lists(st.integers(0, len(DERIVATIVES) - 1), max_size=2),
       st.booleans())
def test_vmap_of_derivatives(plan, batch, nest, outside):
    """vmap around derivatives equals the loop; the gradient of a vmapped function that of its sum."""
    f = program(plan)
    for k in nest:
        f = DERIVATIVES[k](f)
    x = flambeau.stack(batch)
    assert_close(vmap(f)(x), flambeau.stack([f(v) for v in batch]), equal_nan=True)
    if outside:
        total = grad(lambda x: vmap(f)(x).sum())(x)
        assert_close(total, flambeau.stack([grad(lambda v: f(v).sum())(v) for v in batch]), rtol=1e-7, atol=1e-7,
                     equal_nan=True)
