"""Where PyTorch keeps the private parts of vmap, which packages with containers of tensors take from there."""

import flambeau
from flambeau.as_torch.tree._C import _functorch


def test_levels_of_tensors():
    seen = []

    def f(x):
        seen.append((_functorch.is_batchedtensor(x), _functorch.is_functorch_wrapped_tensor(x),
                     _functorch.maybe_get_level(x), _functorch.maybe_get_bdim(x), _functorch.get_unwrapped(x).shape))
        return x * 2

    x = flambeau.ones(3, 2)
    flambeau.func.vmap(f)(x)
    assert seen == [(True, True, 1, 0, (3, 2))]
    assert not _functorch.is_batchedtensor(x) and not _functorch.is_functorch_wrapped_tensor(x)
    assert _functorch.maybe_get_level(x) == _functorch.maybe_get_bdim(x) == -1 and _functorch.get_unwrapped(x) is x
    assert not _functorch.is_legacy_batchedtensor(x)


def test_a_batch_is_put_in_and_out_by_level():
    ones = flambeau.ones(2, 3)
    found = flambeau.func.vmap(lambda y: y + _functorch._add_batch_dim(ones, 1, 1).sum())(flambeau.arange(3))
    assert found.tolist() == [2, 3, 4]
    inside = []
    flambeau.func.vmap(lambda y: inside.append(_functorch._remove_batch_dim(y * 2, 1, 3, 0)) or y)(flambeau.arange(3))
    assert inside[0].tolist() == [0, 2, 4]


def test_settings_of_another_compiler():
    from flambeau.as_torch.tree import _dynamo, _functorch

    assert _functorch.config.activation_memory_budget == 1.0 and _dynamo.config.specialize_int is False
    with _functorch.config.patch(donated_buffer=False, activation_memory_budget=0.5):
        assert not _functorch.config.donated_buffer and _functorch.config.activation_memory_budget == 0.5
    assert _functorch.config.donated_buffer
