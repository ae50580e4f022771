"""embedding_bag against its definition, bag by bag."""

import itertools

import pytest

import flambeau
import flambeau.nn.functional as F
from flambeau.autograd.gradcheck import gradcheck, gradgradcheck

REDUCE = {"sum": lambda r: r.sum(0), "mean": lambda r: r.mean(0), "max": lambda r: r.amax(0)}


def plainly(index, weight, bounds, mode, factors=None, padding_idx=None):
    made = []
    for begin, end in itertools.pairwise(bounds):
        kept = [k for k in range(begin, end) if index[k] != padding_idx]
        rows = [weight[index[k]] if factors is None else weight[index[k]] * factors[k] for k in kept]
        made.append(REDUCE[mode](flambeau.stack(rows)) if rows else weight[0] * 0)
    return flambeau.stack(made)


@pytest.mark.parametrize("dtype", [flambeau.float32, flambeau.float64, flambeau.bfloat16], ids=str)
@pytest.mark.parametrize("kind", [flambeau.int64, flambeau.int32], ids=str)
@pytest.mark.parametrize("mode", REDUCE)
@pytest.mark.parametrize("width", [1, 3, 64, 77])
def test_bags(width, mode, kind, dtype):
    weight = flambeau.randn(9, width).to(dtype).requires_grad_()
    index, bounds = flambeau.randint(0, 9, (40,)), [0, 7, 7, 39]
    found = F.embedding_bag(index.to(kind), weight, flambeau.tensor(bounds).to(kind), mode=mode, padding_idx=4,
                            include_last_offset=True)
    exact = weight.detach().double().requires_grad_()
    expected = plainly(index.tolist(), exact, bounds, mode, padding_idx=4)
    near = {"rtol": 2e-2, "atol": 5e-2} if dtype == flambeau.bfloat16 else {"rtol": 1e-5, "atol": 1e-5}
    assert found.dtype == dtype and flambeau.allclose(found.double(), expected, **near)
    g = flambeau.randn(3, width).to(dtype)
    own, right = flambeau.autograd.grad(found, weight, g)[0], flambeau.autograd.grad(expected, exact, g.double())[0]
    assert flambeau.allclose(own.double(), right, **near) and not own[4].any()


@pytest.mark.parametrize("options", [{}, {"sparse": True}, {"scale_grad_by_freq": True}], ids=str)
@pytest.mark.parametrize("mode", ["sum", "mean"])
def test_other_forms_of_the_gradient(mode, options):
    weight = flambeau.randn(5, 4, requires_grad=True)
    index = flambeau.tensor([[0, 1, 1], [1, 3, 0]])
    found, = flambeau.autograd.grad(F.embedding_bag(index, weight, mode=mode, **options).sum(), weight)
    share = 1 if mode == "sum" else 1 / 3
    counts = flambeau.tensor([2.0, 3, 0, 1, 0])
    if "scale_grad_by_freq" in options:
        counts = (counts > 0).float()
    found = found.to_dense() if found.is_sparse else found
    assert flambeau.allclose(found, (counts * share).unsqueeze(1).expand(5, 4))


@pytest.mark.parametrize("offsets", [None, [0, 2, 2]], ids=str)
def test_factors_and_second_derivatives(offsets):
    index = flambeau.tensor([[0, 1, 3], [3, 3, 2]])
    at = None
    if offsets:
        index, at = index.reshape(-1), flambeau.tensor(offsets)
    weight = flambeau.randn(4, 2, dtype=flambeau.float64, requires_grad=True)
    factors = flambeau.randn(index.shape, dtype=flambeau.float64, requires_grad=True)

    def call(weight, factors):
        return F.embedding_bag(index, weight, at, mode="sum", per_sample_weights=factors)

    expected = plainly(index.reshape(-1).tolist(), weight, [*(offsets or [0, 3]), 6], "sum", factors.reshape(-1))
    assert flambeau.allclose(call(weight, factors), expected)
    assert gradcheck(call, (weight, factors)) and gradgradcheck(call, (weight, factors))
    assert gradgradcheck(lambda w: F.embedding_bag(index, w, at, mode="max"), (weight,))


def test_nan_is_the_largest_and_empty_bags_are_zero():
    weight = flambeau.tensor([[1.0, 5.0], [float("nan"), 7.0], [3.0, -1.0]], requires_grad=True)
    found = F.embedding_bag(flambeau.tensor([0, 1, 2]), weight, flambeau.tensor([0, 0, 3]), mode="max")
    assert found[0].tolist() == [0, 0] == found[2].tolist()
    assert found[1].isnan().tolist() == [True, False] and found[1, 1] == 7
    found.nansum().backward()
    assert weight.grad.nan_to_num(0).tolist() == [[0, 0], [0, 1], [0, 0]]
    for mode in REDUCE:
        assert F.embedding_bag(flambeau.empty(0, dtype=flambeau.int64), weight, flambeau.tensor([0]),
                               mode=mode).tolist() == [[0, 0]]
        assert F.embedding_bag(flambeau.empty(0, 3, dtype=flambeau.int64), weight, mode=mode).shape == (0, 2)
        assert F.embedding_bag(flambeau.empty(2, 0, dtype=flambeau.int64), weight, mode=mode).tolist() == [[0, 0]] * 2


@pytest.mark.parametrize("mode", REDUCE)
def test_an_index_outside_of_the_table(mode):
    for wrong in (3, -1):
        with pytest.raises(RuntimeError, match="outside of weight, which has 3 rows"):
            F.embedding_bag(flambeau.tensor([[0, wrong]]), flambeau.randn(3, 2), mode=mode)
    with pytest.raises(RuntimeError, match="floating point"):
        F.embedding_bag(flambeau.tensor([[0]]), flambeau.ones(3, 2, dtype=flambeau.int64), mode=mode)


def test_the_number_of_threads_changes_nothing():
    weight, index = flambeau.randn(50, 33, requires_grad=True), flambeau.randint(0, 50, (40, 300))
    threads, found = flambeau.get_num_threads(), []
    try:
        for count in (1, 2, 3):
            flambeau.set_num_threads(count)
            for mode in REDUCE:
                made = F.embedding_bag(index, weight, mode=mode)
                found.append((made, *flambeau.autograd.grad(made.square().sum(), weight)))
    finally:
        flambeau.set_num_threads(threads)
    for k in (3, 6):
        assert all(flambeau.equal(a, b) for one, other in zip(found[:3], found[k:k + 3], strict=True)
                   for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize("include_last", [False, True])
def test_rows_of_the_largest(include_last):
    weight = flambeau.tensor([[1.0, 5, 2], [3, 5, 0], [9, 9, 9], [0, 6, 7]])
    index, offsets = flambeau.tensor([0, 1, 2, 3, 0]), flambeau.tensor([0, 3, 3] + [5] * include_last)
    made, bags, sizes, rows = flambeau.embedding_bag(weight, index, offsets, mode=2, padding_idx=2,
                                                     include_last_offset=include_last)
    assert made.tolist() == [[3, 5, 2], [0, 0, 0], [1, 6, 7]] and sizes.tolist() == [3, 0, 2]
    assert rows.tolist() == [[1, 0, 0], [0, 0, 0], [0, 3, 3]] and bags.tolist() == [0, 0, 0, 2, 2]
    assert flambeau.embedding_bag(weight, index, offsets, mode=0)[3].numel() == 0


def test_a_sparse_gradient_has_indices_of_its_own():
    layer, rows = flambeau.nn.Embedding(10, 2, sparse=True), flambeau.tensor([7, 1, 3])
    layer(rows).sum().backward()
    rows[0] = 8
    assert layer.weight.grad._indices().tolist() == [[7, 1, 3]]


@pytest.mark.parametrize("mode", ("sum", "mean", "max"))
@pytest.mark.parametrize("dtype", (flambeau.float32, flambeau.float16))
def test_empty_bags_alone(mode, dtype):
    layer = flambeau.nn.EmbeddingBag(3, 2, mode=mode, dtype=dtype)
    made = layer(flambeau.zeros(0, dtype=flambeau.int64), flambeau.zeros(4, dtype=flambeau.int64))
    made.sum().backward()
    assert not made.any() and not layer.weight.grad.any()


def test_what_bags_refuse():
    weight, rows, bags = flambeau.ones(5, 2), flambeau.tensor([0, 1, 2]), flambeau.tensor([0, 2])
    bag = flambeau.nn.functional.embedding_bag
    for padding_idx in (-6, 5):
        with pytest.raises(RuntimeError, match="padding_idx must name"):
            bag(rows, weight, bags, padding_idx=padding_idx)
    with pytest.raises(RuntimeError, match="dtype of weight"):
        bag(rows, weight, bags, mode="sum", per_sample_weights=flambeau.ones(3).double())
    with pytest.raises(ValueError, match="2 dimensions"):
        bag(rows, weight[0], bags)
    with pytest.raises(RuntimeError, match="offsets of int64"):
        bag(rows, weight, bags.float())


def test_a_sparse_gradient_of_nothing():
    layer = flambeau.nn.Embedding(0, 0, sparse=True)
    layer(flambeau.zeros(0, dtype=flambeau.int64)).sum().backward()
    assert layer.weight.grad.shape == (0, 0)


def test_the_order_of_old_is_turned():
    table, rows, bags = flambeau.rand(4, 3), flambeau.tensor([0, 1, 2]), flambeau.tensor([0, 2])
    with pytest.warns(UserWarning, match="indices come first"):
        found = flambeau.nn.functional.embedding_bag(table, rows, bags)
    assert flambeau.equal(found, flambeau.nn.functional.embedding_bag(rows, table, bags))
