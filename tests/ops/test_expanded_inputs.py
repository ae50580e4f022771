"""Operators that write into a copy accept an expanded tensor; the same in place is refused."""

import pytest

import flambeau

ROWS = flambeau.tensor([0, 1])
PLACES = flambeau.tensor([[0], [1], [2], [0]])
CALLS = {
    "scatter": (1, PLACES, 0), "scatter_add": (1, PLACES, flambeau.ones(4, 1)),
    "index_add": (0, ROWS, flambeau.ones(2, 3)), "index_copy": (0, ROWS, flambeau.ones(2, 3)),
    "index_fill": (0, ROWS, 0), "index_put": ((ROWS,), flambeau.ones(3)),
    "put": (flambeau.tensor([1]), flambeau.ones(1)),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_copies_of_expanded_tensors_are_written(name):
    expanded = flambeau.ones(4, 1).expand(4, 3)
    result = getattr(expanded, name)(*CALLS[name])
    assert result.tolist() == getattr(flambeau.ones(4, 3), name)(*CALLS[name]).tolist()
    if name == "index_fill":  # one number may be written twice
        expanded.index_fill_(*CALLS[name])
        assert expanded.tolist() == result.tolist()
    else:
        with pytest.raises(RuntimeError, match="written to share"):
            getattr(expanded, name + "_")(*CALLS[name])


def test_a_number_is_written_through_indices_and_masks_of_expanded_tensors():
    x = flambeau.zeros(3, 1).expand(3, 4)
    x[flambeau.tensor([1])] = 5
    x[flambeau.tensor([True, False, False])] = 7
    assert x.tolist() == [[7.0] * 4, [5.0] * 4, [0.0] * 4]
    with pytest.raises(RuntimeError, match="written to share"):
        x.index_put_((flambeau.tensor([1]),), flambeau.tensor(5.0), accumulate=True)
