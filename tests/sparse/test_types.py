"""Sparse types of old programs: how they make tensors, and what is one of them."""

import pytest

import flambeau

INDICES, VALUES = flambeau.tensor([[0, 1], [1, 0]]), flambeau.tensor([1.0, 2.0])
FloatTensor = flambeau.sparse.FloatTensor


@pytest.mark.parametrize("make, size", [
    (lambda: FloatTensor(INDICES, VALUES), (2, 2)),
    (lambda: FloatTensor(INDICES, VALUES, flambeau.Size([3, 3])), (3, 3)),
    (lambda: FloatTensor(indices=INDICES, values=VALUES, size=(3, 2), device="cpu"), (3, 2)),
    (lambda: FloatTensor().new(INDICES, VALUES, (2, 4)), (2, 4)),
])
def test_of_indices_and_values(make, size):
    x = make()
    assert x.layout is flambeau.sparse_coo and not x.is_coalesced() and x.shape == size
    assert x.to_dense()[:2, :2].tolist() == [[0, 1], [2, 0]]


@pytest.mark.parametrize("make, size", [
    (lambda: FloatTensor(), (0,)), (lambda: FloatTensor(2, 3), (2, 3)), (lambda: FloatTensor(flambeau.Size([4])), (4,)),
    (lambda: FloatTensor(1).new(2, 3), (2, 3)), (lambda: FloatTensor(1).new_zeros(2, 3), (2, 3)),
    (lambda: FloatTensor(1).new_empty((2, 3)), (2, 3)),
])
def test_of_a_size(make, size):
    x = make()
    assert x.shape == size and x._nnz() == 0 and x.dtype is flambeau.float32 and x._dimI() == len(size)


@pytest.mark.parametrize("error, make", [
    (TypeError, lambda: FloatTensor([2, 3])), (TypeError, lambda: FloatTensor(INDICES, VALUES, 3, 3)),
    (TypeError, lambda: FloatTensor([[0]], [1.0])), (RuntimeError, lambda: FloatTensor(INDICES.int(), VALUES)),
    (TypeError, lambda: FloatTensor(2, extra=1)), (NotImplementedError, lambda: FloatTensor(2).new_ones(2)),
])
def test_what_is_refused(error, make):
    with pytest.raises(error):
        make()


def test_what_is_an_instance():
    x = FloatTensor(INDICES, VALUES)
    assert [isinstance(x, kind) for kind in (FloatTensor, flambeau.sparse.DoubleTensor, flambeau.FloatTensor)] == \
        [True, False, False]
    assert not isinstance(VALUES, FloatTensor) and not isinstance(x.to_dense().to_sparse_csr(), FloatTensor)
    for wanted in (flambeau.sparse.DoubleTensor, "torch.sparse.DoubleTensor"):
        assert isinstance(x.type(wanted), flambeau.sparse.DoubleTensor)
    assert VALUES.type("torch.sparse.DoubleTensor").layout is flambeau.strided


def test_a_method_by_the_class_asks_the_layout():
    x = flambeau.eye(2).to_sparse_csr()
    assert flambeau.Tensor.crow_indices(x).tolist() == [0, 1, 2] and flambeau.Tensor._nnz(x) == 2
    with pytest.raises(RuntimeError, match="only sparse column compressed"):
        flambeau.Tensor.ccol_indices(VALUES)


def test_ones_at_the_places_or_everywhere():
    x = flambeau.eye(2, dtype=flambeau.float64).to_sparse_csr() * 3
    assert flambeau.ones_like(x).to_dense().tolist() == [[1, 0], [0, 1]]
    for like in (x, x.to_sparse_coo()):
        made = flambeau.ones_like(like, layout=flambeau.strided, dtype=flambeau.float32)
        assert made.tolist() == [[1, 1], [1, 1]] and made.dtype is flambeau.float32
    assert x.new_zeros((2, 3)).layout is flambeau.sparse_csr
