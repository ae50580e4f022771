"""Distances, matrix norms, covariance and integrals against NumPy."""

import numpy as np
import pytest

import flambeau

RNG = np.random.default_rng(0)
t = flambeau.from_numpy


@pytest.mark.parametrize("ord", ["fro", 1, -1, np.inf, -np.inf])
def test_matrix_norms(ord):
    a = RNG.standard_normal((2, 3, 4))
    for dim in ((-2, -1), (2, 0)):
        expected = np.linalg.norm(a, ord, dim)
        np.testing.assert_allclose(flambeau.linalg.matrix_norm(t(a), ord, dim).numpy(), expected)
        kept = flambeau.linalg.norm(t(a), ord, dim, True)
        np.testing.assert_allclose(kept.numpy(), np.linalg.norm(a, ord, dim, True))
    np.testing.assert_allclose(flambeau.linalg.norm(t(a)).numpy(), np.linalg.norm(a))
    np.testing.assert_allclose(flambeau.linalg.norm(t(a), 3, 1).numpy(), np.linalg.norm(a, 3, 1))


def test_distances():
    a, b = RNG.standard_normal((5, 3)), RNG.standard_normal((4, 3))
    pairs = a[:, None] - b[None]
    for p in (1.0, 2.0, 3.0):
        np.testing.assert_allclose(flambeau.cdist(t(a), t(b), p).numpy(), np.linalg.norm(pairs, p, axis=-1))
    rows = np.array([np.linalg.norm(a[i] - a[j]) for i in range(5) for j in range(i + 1, 5)])
    np.testing.assert_allclose(flambeau.pdist(t(a)).numpy(), rows)
    np.testing.assert_allclose(t(a[0]).dist(t(b[0]), 1).numpy(), np.abs(a[0] - b[0]).sum())


def test_covariance():
    a = RNG.standard_normal((3, 9))
    f, w = RNG.integers(1, 4, 9), RNG.uniform(0.5, 2, 9)
    np.testing.assert_allclose(t(a).cov().numpy(), np.cov(a))
    both = t(a).cov(correction=0, fweights=t(f), aweights=t(w))
    np.testing.assert_allclose(both.numpy(), np.cov(a, ddof=0, fweights=f, aweights=w))
    np.testing.assert_allclose(t(a).cov(fweights=t(f)).numpy(), np.cov(a, fweights=f))
    np.testing.assert_allclose(t(a).cov(aweights=t(w)).numpy(), np.cov(a, aweights=w))
    np.testing.assert_allclose(t(a).corrcoef().numpy(), np.corrcoef(a))
    np.testing.assert_allclose(t(a[0]).cov().numpy(), np.cov(a[0]))


def test_integrals():
    y, x = RNG.standard_normal((3, 6)), np.sort(RNG.standard_normal(6))
    area = ((y[:, 1:] + y[:, :-1]) / 2 * np.diff(x)).sum(1)
    np.testing.assert_allclose(flambeau.trapezoid(t(y), t(x)).numpy(), area)
    np.testing.assert_allclose(flambeau.trapezoid(t(y), dx=0.5, dim=0).numpy(), ((y[1:] + y[:-1]) / 4).sum(0))
    assert flambeau.trapezoid(flambeau.zeros(2, 1)).tolist() == [0, 0]


@pytest.mark.parametrize("p", [0.5, 1.0, 1.5, 2.0, 3.0, float("inf")])
def test_distance_gradients(p):
    a = t(RNG.standard_normal((5, 3))).requires_grad_()
    b = t(RNG.standard_normal((2, 4, 3))).requires_grad_()
    assert flambeau.autograd.gradcheck(lambda x, y: flambeau.cdist(x, y, p), (a, b))
    assert flambeau.autograd.gradcheck(lambda x: flambeau.pdist(x, p), (a,))
    if p in (2.0, 3.0):
        assert flambeau.autograd.gradgradcheck(lambda x, y: flambeau.cdist(x, y, p), (a, b))


def test_distances_by_product():
    a, b = RNG.standard_normal((40, 5)), RNG.standard_normal((30, 5))
    expected = np.linalg.norm(a[:, None] - b[None], axis=-1)
    for mode in (None, "use_mm_for_euclid_dist", "donot_use_mm_for_euclid_dist"):
        np.testing.assert_allclose(flambeau.cdist(t(a), t(b), compute_mode=mode).numpy(), expected, atol=1e-7)
    same = t(a).requires_grad_()
    flambeau.cdist(same, same, compute_mode="donot_use_mm_for_euclid_dist").sum().backward()
    assert same.grad.isfinite().all()  # rows at distance 0 pull nowhere


@pytest.mark.parametrize("ord", [None, 2, 1, np.inf, "fro", "nuc"])
def test_norms_of_matrices_without_elements_are_zero(ord):
    for shape in ((0, 3), (2, 0), (0, 0)):
        assert flambeau.linalg.norm(flambeau.ones(shape), ord).tolist() == 0
        assert flambeau.linalg.norm(flambeau.ones(4, *shape), ord, dim=(1, 2)).tolist() == [0] * 4


@pytest.mark.parametrize(("ord", "shape"), [(-2, (0, 3)), (-2, (2, 0)), (-1, (2, 0)), (-np.inf, (0, 3))])
def test_the_smallest_of_nothing_is_refused(ord, shape):
    with pytest.raises(IndexError, match="size 0"):
        flambeau.linalg.norm(flambeau.ones(shape), ord)


@pytest.mark.parametrize("dim", [(), (0, 1, 2)])
def test_norm_takes_one_dimension_or_two(dim):
    with pytest.raises(RuntimeError, match="one dimension"):
        flambeau.linalg.norm(flambeau.ones(2, 2, 2), dim=dim)


@pytest.mark.parametrize("dtype", [flambeau.float32, flambeau.float64])
@pytest.mark.parametrize("n, d", [(2, 5), (3, 0), (6, 16), (33, 37), (301, 600)])
def test_pairs_of_rows_longer_and_shorter_than_vectors(n, d, dtype):
    x = t(RNG.standard_normal((n, d))).to(dtype)
    i, j = flambeau.triu_indices(n, n, 1)
    for p in (0.0, 1.0, 2.0, 3.0, float("inf")):
        rows = x.double()[i] - x.double()[j]
        expected = rows.norm(p=p, dim=1) if d else flambeau.zeros(len(i), dtype=flambeau.float64)
        found = flambeau.pdist(x, p).double()
        np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=3e-6 if dtype == flambeau.float32 else 1e-12)


def test_cosine_similarity_of_two_dtypes():
    found = flambeau.cosine_similarity(flambeau.tensor([3, 4]), flambeau.tensor([3.0, 4.0]), dim=0)
    assert found.dtype == flambeau.float32 and abs(found.item() - 1) < 1e-6


@pytest.mark.parametrize("p", (0, 0.5, 1, 1.5, 2, 3, float("inf")))
def test_no_distance_pulls_nowhere(p):
    x = flambeau.tensor([[1.0, -2.0], [1.0, -2.0]], requires_grad=True)
    (flambeau.pdist(x, p).sum() + flambeau.cdist(x, x.detach(), p).sum()).backward()
    assert x.grad.tolist() == [[0, 0], [0, 0]]


def test_differences_that_are_nan_do_not_count_as_one():
    x = flambeau.full((2, 2), np.inf)
    assert flambeau.nn.functional.pdist(x, p=0.0).isnan().all() and flambeau.cdist(x, x, p=0.0).isnan().all()
