"""Masked reductions: what the mask lets through counts as if the rest were not there."""

import math

import pytest

import flambeau
from flambeau import masked

X = flambeau.tensor([[1.0, -2, 3], [4, 5, -6], [7, 8, 9]])
K = flambeau.tensor([[True, False, True], [False, False, False], [True, True, False]])
ROWS = [X[k][K[k]] for k in range(3)]


@pytest.mark.parametrize("name, of, empty", [
    ("sum", lambda r: r.sum(), 0.0), ("prod", lambda r: r.prod(), 1.0), ("mean", lambda r: r.mean(), math.nan),
    ("amax", lambda r: r.amax(), -math.inf), ("amin", lambda r: r.amin(), math.inf),
    ("median", lambda r: r.median(), math.nan), ("logsumexp", lambda r: r.logsumexp(0), -math.inf),
    ("var", lambda r: r.var(), math.nan), ("std", lambda r: r.std(), math.nan),
])
@pytest.mark.parametrize("keepdim", [False, True])
def test_reductions(name, of, empty, keepdim):
    found = getattr(masked, name)(X, 1, keepdim=keepdim, mask=K)
    expected = flambeau.stack([of(ROWS[0]), flambeau.tensor(empty), of(ROWS[2])])
    expected = expected[:, None] if keepdim else expected
    flambeau.testing.assert_close(found, expected, equal_nan=True)


def test_whole_tensors_and_dims():
    assert masked.sum(X, mask=K) == 19 and masked.sum(X, (0, 1), mask=K) == 19
    assert masked.mean(X, (0, 1), mask=K).item() == 4.75
    assert masked.sum(X.long(), 1, mask=K).dtype is flambeau.int64
    assert masked.argmax(X, 1, mask=K).tolist() == [2, 0, 1] and masked.argmin(X, 1, mask=K).tolist() == [0, 0, 0]
    assert masked.amax(X.int(), 1, mask=K)[1].item() == -2**31
    assert masked.norm(X, 2.0, 1, mask=K)[1].item() == 0
    assert masked.cumsum(X, 1, mask=K)[0].tolist() == [1, 1, 4]
    assert masked.cumprod(X, 1, mask=K)[0].tolist() == [1, 1, 3]
    assert masked.median(X.long(), 0, mask=K).tolist() == [1, 8, 3]


def test_normalisations():
    y = masked.softmax(X, 1, mask=K)
    assert y[0, 1] == 0 and y[0].sum().item() == pytest.approx(1) and y[1].isnan().all()
    flambeau.testing.assert_close(masked.log_softmax(X, 1, mask=K)[2, :2], X[2, :2].log_softmax(0))
    flambeau.testing.assert_close(masked.softmin(X, 1, mask=K)[2, :2], (-X[2, :2]).softmax(0))
    flambeau.testing.assert_close(masked.normalize(X, 2.0, 1, mask=K)[0], flambeau.tensor([1.0, 0, 3]) / 10**0.5)
    flambeau.testing.assert_close(masked.logaddexp(X, X, input_mask=K, other_mask=~K), X)


def test_gradients():
    x = X.double().requires_grad_()
    for name in ("sum", "mean", "var", "logsumexp"):
        assert flambeau.autograd.gradcheck(lambda t, name=name: getattr(masked, name)(t, 1, mask=K)[::2], (x,))


def test_errors():
    with pytest.raises(IndexError):
        masked.sum(X, 5, mask=K)
    with pytest.raises(RuntimeError, match="twice"):
        masked.sum(X, (0, 0), mask=K)
    with pytest.raises(TypeError):
        masked.sum(X, mask=K.int())
    with pytest.raises(ValueError):
        masked.median(X.long(), 1, mask=K)


@pytest.mark.parametrize("name", ["softmax", "log_softmax", "softmin", "cumsum", "cumprod"])
@pytest.mark.parametrize("dim, along", [((), 0), (None, 0), ((1,), 1), ((0, 1), 0)])
def test_what_works_along_one_dimension_takes_the_first_of_several(name, dim, along):
    x, mask = flambeau.arange(6.).reshape(2, 3), flambeau.tensor([[True, False, True], [True, True, False]])
    apply = getattr(masked, name)
    assert flambeau.allclose(apply(x, dim, mask=mask), apply(x, along, mask=mask), equal_nan=True)


def test_the_median_of_all_dimensions_and_a_sparse_number():
    x = flambeau.tensor([[1., 5.], [3., 4.]])
    assert masked.median(x, ()).tolist() == masked.median(x, 0).tolist()
    number = flambeau.tensor(3.).to_sparse()
    mask = flambeau.tensor(True).to_sparse()
    assert masked.amax(number, (), keepdim=True, mask=mask).to_dense().item() == 3
