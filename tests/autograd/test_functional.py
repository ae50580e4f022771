"""Jacobians, Hessians and their products against each other and against known values."""

import pytest

import flambeau
from flambeau.autograd import gradcheck
from flambeau.autograd.functional import hessian, hvp, jacobian, jvp, vhp, vjp


def rand(*shape):
    return flambeau.rand(*shape, dtype=flambeau.float64)


def f(x, y):
    return (x * y).sum(1), x.exp() @ y.t()


def test_jacobian_has_all_blocks():
    x, y = rand(2, 3), rand(2, 3)
    j = jacobian(f, (x, y))
    assert [[list(b.shape) for b in row] for row in j] == [[[2, 2, 3]] * 2, [[2, 2, 2, 3]] * 2]
    assert flambeau.allclose(j[0][0][0, 0], y[0]) and not j[0][0][0, 1].any()


def test_products_agree_with_the_jacobian():
    x, y = rand(2, 3), rand(2, 3)
    j = jacobian(f, (x, y))
    u, v = (rand(2), rand(2, 2)), (rand(2, 3), rand(2, 3))
    outputs, back = vjp(f, (x, y), u)
    assert flambeau.allclose(outputs[0], f(x, y)[0])
    for k in range(2):
        expected = sum(flambeau.tensordot(u[i], j[i][k], u[i].ndim) for i in range(2))
        assert flambeau.allclose(back[k], expected)
    _, forward = jvp(f, (x, y), v)
    for i in range(2):
        expected = sum(flambeau.tensordot(j[i][k], v[k], 2) for k in range(2))
        assert flambeau.allclose(forward[i], expected)


def test_hessian_and_its_products():
    a, x, v = rand(3, 3), rand(3), rand(3)

    def quadratic(x):
        return x @ a @ x / 2
    h = hessian(quadratic, x)
    assert flambeau.allclose(h, (a + a.t()) / 2)
    for product in (hvp, vhp):
        value, found = product(quadratic, x, v)
        assert flambeau.allclose(value, quadratic(x)) and flambeau.allclose(found, h @ v)


def test_hessian_of_two_inputs():
    x, y = rand(2), rand(2)
    h = hessian(lambda x, y: (x * x * y).sum(), (x, y))
    assert flambeau.allclose(h[0][0], flambeau.diag(2 * y)) and flambeau.allclose(h[0][1], flambeau.diag(2 * x))
    assert not h[1][1].any()


def test_create_graph():
    x = rand(3).requires_grad_()
    assert not jacobian(lambda x: x ** 3, x).requires_grad
    assert gradcheck(lambda x: jacobian(lambda x: x ** 3, x, create_graph=True), (x,))
    assert gradcheck(lambda x: jvp(lambda x: x ** 3, x, flambeau.ones_like(x), create_graph=True)[1], (x,))


def test_inputs_are_left_alone():
    x = rand(3)
    vjp(lambda x: x * 2, x, rand(3))
    assert not x.requires_grad and x.grad is None


def test_no_path():
    x, y = rand(2), rand(2)
    assert not jacobian(lambda x, y: x * 2, (x, y))[1].any()
    with pytest.raises(RuntimeError, match=r"independent"):
        jacobian(lambda x, y: x * 2, (x, y), strict=True)
    assert not jvp(lambda x: flambeau.ones(2), x, x)[1].any()


def test_errors():
    x = rand(2)
    with pytest.raises(RuntimeError, match=r"v\[0\] has shape"):
        vjp(lambda x: x * 2, x, rand(3))
    with pytest.raises(RuntimeError, match=r"left out"):
        vjp(lambda x: x * 2, x)
    with pytest.raises(RuntimeError, match="expected a function whose result is one Tensor"):
        hessian(lambda x: x * 2, x)
    with pytest.raises(TypeError, match=r"vjp: inputs"):
        vjp(lambda x: x, [3])
    with pytest.raises(NotImplementedError):
        jacobian(lambda x: x, x, strategy="forward-mode")


@pytest.mark.parametrize("transform", [jacobian, hessian, vjp, jvp, vhp, hvp])
def test_a_graph_is_made_under_no_grad_too(transform):
    x = flambeau.ones(3, requires_grad=True)
    one = () if transform in (jacobian, hessian) else (flambeau.ones(()) if transform is vjp else flambeau.ones(3),)
    for create_graph in (True, False):
        with flambeau.no_grad():
            found = transform(lambda x: (x ** 3).sum(), x, *one, create_graph=create_graph)
        for result in found if isinstance(found, tuple) else (found,):
            assert result.requires_grad == create_graph


@pytest.mark.parametrize("transform", [jacobian, hessian, vjp, vhp, hvp])
def test_strict_refuses_constant_derivatives(transform):
    x = flambeau.ones(3, requires_grad=True)
    one = () if transform in (jacobian, hessian) else (flambeau.ones(()) if transform is vjp else flambeau.ones(3),)
    with pytest.raises(RuntimeError, match="are constant"):
        transform(lambda x: (2 * x).sum(), x, *one, create_graph=True, strict=True)
