"""Transforms and constraints: inverses, Jacobians by autograd, shapes, caches, registries."""

import pytest

import flambeau
from flambeau.distributions import Normal, biject_to, constraints, transform_to
from flambeau.distributions import transforms as T


def double(x):
    return flambeau.tensor(x, dtype=flambeau.float64)


POINT = double([0.4, -0.7, 1.3])
TRANSFORMS = {
    "exp": (T.ExpTransform(), POINT), "sigmoid": (T.SigmoidTransform(), POINT), "tanh": (T.TanhTransform(), POINT),
    "softplus": (T.SoftplusTransform(), POINT), "power": (T.PowerTransform(double(2.5)), POINT.abs()),
    "affine": (T.AffineTransform(1.0, -2.0), POINT), "affine of vectors": (T.AffineTransform(0, POINT, 1), POINT),
    "normal": (T.CumulativeDistributionTransform(Normal(double(0.0), double(1.0))), POINT),
    "stick": (T.StickBreakingTransform(), POINT), "correlation": (T.CorrCholeskyTransform(), POINT),
    "composed": (T.ComposeTransform([T.TanhTransform(), T.AffineTransform(2.0, 0.5), T.ExpTransform().inv]), POINT),
    "composed of vectors": (T.ComposeTransform([T.AffineTransform(1.0, 2.0), T.StickBreakingTransform()]), POINT),
    "independent": (T.IndependentTransform(T.ExpTransform(), 1), POINT),
    "reshape": (T.ReshapeTransform((3,), (3, 1)), POINT),
    "cat": (T.CatTransform([T.ExpTransform(), T.AffineTransform(1.0, 3.0)], lengths=[1, 2]), POINT),
    "stack": (T.StackTransform([T.ExpTransform(), T.TanhTransform(), T.AffineTransform(0.0, 2.0)]), POINT),
    "identity": (T.identity_transform, POINT),
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_inverse_shapes_and_jacobian(name):
    t, x = TRANSFORMS[name]
    y = t(x)
    flambeau.testing.assert_close(t.inv(y), x)
    assert t.domain.check(x).all() and t.codomain.check(y).all() and t.inv.inv is t
    assert t.forward_shape(x.shape) == y.shape and t.inverse_shape(y.shape) == x.shape
    found = t.log_abs_det_jacobian(x, y)
    assert found.shape == x.shape[:x.dim() - t.domain.event_dim]
    jacobian = flambeau.autograd.functional.jacobian(t, x).reshape(y.numel(), x.numel())
    if name == "stick":
        jacobian = jacobian[:-1]  # the last share is 1 minus the others
    if name == "correlation":
        jacobian = jacobian[y.tril(-1).flatten() != 0]
    if name == "composed of vectors":
        jacobian = jacobian[:-1]
    flambeau.testing.assert_close(found.sum(), flambeau.linalg.slogdet(jacobian).logabsdet)
    flambeau.testing.assert_close(t.inv.log_abs_det_jacobian(y, x), -found)


@pytest.mark.parametrize("name", TRANSFORMS)
def test_a_cache_keeps_the_pair(name):
    t, x = TRANSFORMS[name]
    if not t.domain.event_dim and name not in ("normal", "identity", "composed", "cat", "stack"):
        cached = t.with_cache(1)
        y = cached(x)
        assert cached.inv(y) is x and cached(x) is y and cached.with_cache(1) is cached and t.inv(t(x)) is not x


@pytest.mark.parametrize("constraint", [
    constraints.real, constraints.positive, constraints.nonnegative, constraints.less_than(2.0),
    constraints.interval(-1.0, 3.0), constraints.half_open_interval(0.0, 2.0), constraints.unit_interval,
    constraints.greater_than(double([1.0, 2.0, 3.0])), constraints.independent(constraints.positive, 1),
    constraints.simplex, constraints.corr_cholesky,
    constraints.cat([constraints.positive, constraints.real], 0, [1, 2]),
    constraints.stack([constraints.positive, constraints.real, constraints.unit_interval])], ids=repr)
def test_registries(constraint):
    for registry in (biject_to, transform_to):
        t = registry(constraint)
        y = t(POINT)
        assert constraint.check(y).all()
        if registry is biject_to:
            flambeau.testing.assert_close(t.inv(y), POINT)
            assert t.bijective


@pytest.mark.parametrize("constraint", [constraints.lower_cholesky, constraints.positive_definite,
                                        constraints.positive_semidefinite])
def test_matrices_are_mapped_onto(constraint):
    x = double([[0.3, 0.0], [1.0, -0.5]])
    t = transform_to(constraint)
    assert constraint.check(t(x)) and t(t.inv(t(x))).allclose(t(x))


def test_constraints():
    nan = float("nan")
    for constraint, value, answer in (
            (constraints.real, [1.0, nan], [True, False]), (constraints.boolean, [0.0, 0.5], [True, False]),
            (constraints.positive_integer, [0.0, 1.0], [False, True]),
            (constraints.integer_interval(1, 3), [1.0, 2.5, 4.0], [True, False, False]),
            (constraints.one_hot, [[0.0, 1.0], [1.0, 1.0]], [True, False]),
            (constraints.multinomial(2), [[1.0, 1.0], [2.0, 1.0]], [True, False]),
            (constraints.simplex, [[0.5, 0.5], [0.5, 0.6]], [True, False]),
            (constraints.lower_triangular, [[1.0, 0.0], [2.0, 1.0]], True),
            (constraints.positive_definite, [[1.0, 2.0], [2.0, 1.0]], False),
            (constraints.positive_semidefinite, [[1.0, 1.0], [1.0, 1.0]], True),
            (constraints.symmetric, [[1.0, 2.0], [3.0, 1.0]], False)):
        assert constraint.check(double(value)).tolist() == answer, constraint


def test_texts():
    assert repr(constraints.interval(0, 1)) == "Interval(lower_bound=0, upper_bound=1)"
    assert repr(constraints.real_vector) == "IndependentConstraint(Real(), 1)"
    assert repr(T.ExpTransform().inv) == "_InverseTransform(ExpTransform())"
    with pytest.raises(NotImplementedError):
        _ = constraints.dependent.event_dim
    with pytest.raises(ValueError, match="instance"):
        constraints.dependent.check(POINT)


@pytest.mark.parametrize("diag", [-2, -1, 0, 1, 2])
def test_triangles(diag):
    from flambeau.distributions.utils import tril_matrix_to_vec, vec_to_tril_matrix

    matrix = flambeau.arange(1.0, 33.0).reshape(2, 4, 4).tril(diag)
    flambeau.testing.assert_close(vec_to_tril_matrix(tril_matrix_to_vec(matrix, diag), diag), matrix)
