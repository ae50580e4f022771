"""Masked reductions of sparse tensors: the places of the mask count, as 0 where there is no value."""

import pytest

import flambeau
from flambeau import masked

INPUT = flambeau.tensor([[-1.0, 0, -2, 4], [0, -3, 0, 0], [0, 0, 0, 5], [7, 0, 0, 0]])
MASK = flambeau.tensor([[1, 1, 0, 1], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 0]]).bool()
LAYOUTS = {"coo": lambda t: t.to_sparse(), "csr": lambda t: t.to_sparse_csr(), "dense": lambda t: t}


@pytest.mark.parametrize("name", ["sum", "prod", "amax", "amin", "mean"])
@pytest.mark.parametrize("mask_layout", LAYOUTS)
@pytest.mark.parametrize("layout", ["coo", "csr"])
@pytest.mark.parametrize("dim", [0, 1, (0, 1), None])
def test_reductions_are_the_dense_ones_where_the_mask_has_places(layout, mask_layout, name, dim):
    if (layout, name) == ("coo", "mean"):
        with pytest.raises(ValueError, match="to_sparse_csr"):
            masked.mean(INPUT.to_sparse(), dim, mask=MASK)
        return
    function, x, mask = getattr(masked, name), LAYOUTS[layout](INPUT), LAYOUTS[mask_layout](MASK)
    found = function(x, dim, keepdim=True, mask=mask)
    assert found.layout is x.layout
    expected, some = function(INPUT, dim, keepdim=True, mask=MASK), masked.sum(MASK.long(), dim, keepdim=True) > 0
    assert flambeau.equal(found.to_dense(), expected.masked_fill(~some, 0))
    assert len(found.values()) == some.sum().item()  # what the mask leaves out altogether has no place


@pytest.mark.parametrize("name", ["sum", "prod", "amax", "amin"])
@pytest.mark.parametrize("dim", [0, 1, (0, 2), (0, 1, 2)])
def test_dimensions_of_coordinates_may_go(name, dim):
    x, mask = flambeau.stack([INPUT, INPUT.flip(0)]).long(), flambeau.stack([MASK, ~MASK])
    found = getattr(masked, name)(x.to_sparse(), dim, mask=mask.to_sparse())
    some = masked.sum(mask.long(), dim) > 0
    assert found.dtype is flambeau.int64
    assert flambeau.equal(found.to_dense(), getattr(masked, name)(x, dim, mask=mask).masked_fill(~some, 0))


def test_without_a_mask_only_sums():
    assert masked.sum(INPUT.to_sparse(), 1).to_dense().tolist() == [1, -3, 5, 7]
    with pytest.raises(ValueError, match=r"masked\.prod: a sparse tensor needs a mask"):
        masked.prod(INPUT.to_sparse(), 1)


def test_a_mask_that_says_false_and_one_that_is_expanded():
    mask = flambeau.sparse_coo_tensor(flambeau.tensor([[0, 0], [0, 3]]), flambeau.tensor([True, False]), (4, 4))
    assert masked.sum(INPUT.to_sparse(), 1, mask=mask)._nnz() == 1
    row = flambeau.tensor([True, False, False, True])
    assert masked.sum(INPUT.to_sparse(), 1, mask=row).to_dense().tolist() == [3, 0, 5, 7]


def test_gradients_reach_the_values_that_count():
    x = INPUT.to_sparse().requires_grad_()
    masked.sum(x, 1, mask=MASK).to_dense().sum().backward()
    assert flambeau.equal(x.grad.to_dense(), (MASK & (INPUT != 0)).float())


@pytest.mark.parametrize("name", ["cumsum", "softmax", "log_softmax", "softmin", "argmax", "argmin", "median"])
def test_what_is_for_dense_tensors_takes_sparse_masks_alone(name):
    function, mask = getattr(masked, name), MASK.clone().fill_diagonal_(True)
    dense, found = function(INPUT, 1, mask=mask), function(INPUT, 1, mask=mask.to_sparse())
    assert flambeau.equal(found, dense)
    with pytest.raises(ValueError, match="to_dense"):
        function(INPUT.to_sparse(), 1, mask=mask)


def test_layouts_that_cannot_be_reduced_are_refused():
    with pytest.raises(RuntimeError, match="keepdim=True"):
        masked.sum(INPUT.to_sparse_csr(), 1, mask=MASK)
    with pytest.raises(AssertionError, match="keepdim=True"):
        masked.amax(INPUT.to_sparse_csr(), 1, mask=MASK)
    with pytest.raises(ValueError, match="sparse_csc"):
        masked.sum(INPUT.to_sparse_csc(), 1, keepdim=True, mask=MASK)
    with pytest.raises(TypeError, match="mask must be a Tensor of bool"):
        masked.sum(INPUT.to_sparse(), 1, mask=MASK.float())
