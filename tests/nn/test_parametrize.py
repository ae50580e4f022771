"""Parametrizations: what is stored, assigned, cached and removed."""

import copy
import io
import pickle

import pytest

import flambeau
from flambeau import nn
from flambeau.nn.utils import parametrizations, parametrize


class Symmetric(nn.Module):
    def forward(self, x):
        return x.triu() + x.triu(1).T

    def right_inverse(self, a):
        return a.triu()


class RankOne(nn.Module):
    def forward(self, x, y):
        return x.unsqueeze(-1) @ y.unsqueeze(-2)

    def right_inverse(self, z):
        return z[:, 0].clone(), z[0].clone()


class Double(nn.Module):
    def forward(self, x):
        return 2 * x


def test_the_original_is_the_parameter():
    m = nn.Linear(3, 3)
    weight = m.weight
    parametrize.register_parametrization(m, "weight", Symmetric())
    assert type(m).__name__ == "ParametrizedLinear" and isinstance(m, nn.Linear)
    assert list(m.state_dict()) == ["bias", "parametrizations.weight.original"]
    assert m.parametrizations.weight.original is weight and flambeau.equal(m.weight, m.weight.T)
    m(flambeau.ones(2, 3)).sum().backward()
    assert weight.grad.tolist() == [[2.0, 4.0, 4.0], [0.0, 2.0, 4.0], [0.0, 0.0, 2.0]]
    value = flambeau.eye(3) + 1
    m.weight = value
    assert flambeau.equal(m.weight, value) and flambeau.equal(weight, value.triu())
    assert parametrize.type_before_parametrizations(m) is nn.Linear


def test_one_after_another_and_removal():
    m = nn.Linear(3, 3)
    weight, bias = m.weight, m.bias.detach().clone()
    parametrize.register_parametrization(m, "weight", Symmetric())
    once = m.weight.detach()
    parametrize.register_parametrization(m, "weight", Double())
    parametrize.register_parametrization(m, "bias", Double())
    assert flambeau.equal(m.weight, 2 * once) and flambeau.equal(m.bias, 2 * bias)
    with pytest.raises(RuntimeError, match="right_inverse"):
        m.weight = once
    parametrize.remove_parametrizations(m, "bias", leave_parametrized=False)
    assert flambeau.equal(m.bias, bias) and parametrize.is_parametrized(m)
    parametrize.remove_parametrizations(m, "weight")
    assert type(m) is nn.Linear and m.weight is weight and flambeau.equal(weight, 2 * once)
    assert not hasattr(m, "parametrizations")


def test_several_originals():
    m = nn.Linear(3, 4)
    parametrize.register_parametrization(m, "weight", RankOne())
    assert [tuple(p.shape) for p in m.parameters()] == [(4,), (4,), (3,)]
    twin = parametrize.transfer_parametrizations_and_params(m, nn.Linear(3, 4))
    assert flambeau.equal(twin.weight, m.weight)
    with pytest.raises(ValueError, match="is computed from several tensors, none of"):
        parametrize.remove_parametrizations(m, "weight", leave_parametrized=False)
    value = m.weight.detach()
    parametrize.remove_parametrizations(m, "weight")
    assert isinstance(m.weight, nn.Parameter) and flambeau.equal(m.weight, value)


def test_cached_copied_pickled():
    m = parametrizations.weight_norm(nn.Linear(3, 3))
    with parametrize.cached():
        first = m.weight
        with parametrize.cached():
            assert m.weight is first
        assert m.weight is first
    assert m.weight is not first
    twin = copy.deepcopy(m)
    assert flambeau.equal(twin.weight, m.weight) and twin.bias is not m.bias
    with pytest.raises(RuntimeError, match="state_dict"):
        pickle.dumps(m)
    fresh = parametrizations.weight_norm(nn.Linear(3, 3))
    fresh.load_state_dict(m.state_dict())
    assert flambeau.equal(fresh.weight, m.weight)


@pytest.mark.parametrize("bad", [lambda x: x[:1], lambda x: x.double(), lambda x: "x"])
def test_shape_and_dtype_stay(bad):
    class Bad(nn.Module):
        def forward(self, x):
            return bad(x)

    m = nn.Linear(3, 3)
    with pytest.raises(ValueError, match=r"dtype|shape|in the place of a tensor"):
        parametrize.register_parametrization(m, "weight", Bad())
    assert type(m) is nn.Linear and isinstance(m.weight, nn.Parameter)
    with pytest.raises(ValueError, match="Linear has no parameter, buffer or"):
        parametrize.register_parametrization(m, "scale", Double())


def test_weight_norm():
    m = parametrizations.weight_norm(nn.Conv2d(2, 3, 2), dim=0)
    g, v = m.parametrizations.weight.original0, m.parametrizations.weight.original1
    assert g.shape == (3, 1, 1, 1) and flambeau.allclose(m.weight, v, atol=1e-6)
    with flambeau.no_grad():
        g.fill_(2.0)
    assert flambeau.allclose(m.weight.flatten(1).norm(dim=1), flambeau.full((3,), 2.0))
    older = nn.utils.weight_norm(nn.Linear(3, 2))
    m = parametrizations.weight_norm(nn.Linear(3, 2))
    m.load_state_dict(older.state_dict())
    older(flambeau.zeros(1, 3))
    assert flambeau.allclose(m.weight, older.weight)


def test_spectral_norm():
    flambeau.manual_seed(0)
    m = parametrizations.spectral_norm(nn.Linear(6, 4), n_power_iterations=30)
    for _ in range(20):
        w = m.weight.detach()
    x = flambeau.randn(200, 6)
    assert ((x @ w.T).norm(dim=1) <= x.norm(dim=1) * 1.001).all()
    m.eval()
    assert flambeau.equal(m.weight, m.weight)
    assert parametrizations.spectral_norm(nn.ConvTranspose2d(2, 3, 2)).parametrizations.weight[0]._u.shape == (3,)
    with pytest.raises(ValueError, match="n_power_iterations"):
        parametrizations.spectral_norm(nn.Linear(2, 2), n_power_iterations=0)
    with pytest.raises(IndexError):
        parametrizations.spectral_norm(nn.Linear(2, 2), dim=2)


def test_a_parametrized_module_refuses_to_be_saved_whole():
    m = nn.Sequential(parametrizations.orthogonal(nn.Linear(2, 2)))
    with pytest.raises(RuntimeError, match="state_dict"):
        flambeau.save(m, io.BytesIO())
