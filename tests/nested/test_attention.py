"""Attention over nested tensors, and what its layers need of them."""

import pytest

import flambeau


@pytest.mark.parametrize("lengths", ((4,), (4, 4), (3, 4)))
@pytest.mark.parametrize("need_weights", (True, False))
def test_layers_of_strided_tensors(lengths, need_weights):
    layer = flambeau.nn.MultiheadAttention(4, 2, batch_first=True)
    parts = [flambeau.randn(n, 4) for n in lengths]
    found, _ = layer(*[flambeau.nested.nested_tensor(parts)] * 3, need_weights=need_weights)
    for row, part in zip(found.unbind(), parts, strict=True):
        flambeau.testing.assert_close(row, layer(part, part, part)[0])


def test_flatten_of_parts_of_one_size():
    parts = [flambeau.randn(3, 2, 2) for _ in range(2)]
    for start in (1, 2):
        found = flambeau.nested.nested_tensor(parts).flatten(start)
        assert [p.tolist() for p in found.unbind()] == [p.flatten(start - 1).tolist() for p in parts]
