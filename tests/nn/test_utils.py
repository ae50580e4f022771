"""nn.utils: clipping, vectors of parameters, folding batch norm."""

import math

import pytest

import flambeau
from flambeau import nn
from flambeau.nn import utils


def parameters_with_grads(*grads):
    params = [nn.Parameter(flambeau.zeros(len(g))) for g in grads]
    for p, g in zip(params, grads, strict=True):
        p.grad = flambeau.tensor(g)
    return [*params, nn.Parameter(flambeau.zeros(1))]  # one without a gradient


@pytest.mark.parametrize(("norm_type", "expected"), [(2, 13.0), (1, 19.0), (math.inf, 12.0)])
def test_clip_grad_norm(norm_type, expected):
    params = parameters_with_grads([3.0, 4.0], [12.0])
    assert utils.clip_grad_norm_(params, 2.0, norm_type).item() == pytest.approx(expected, rel=1e-6)
    assert params[0].grad.tolist() == pytest.approx([6 / expected, 8 / expected], rel=1e-5)
    assert utils.get_total_norm([p.grad for p in params[:2]], norm_type).item() == pytest.approx(2, rel=1e-5)
    before = params[0].grad.clone()
    utils.clip_grad_norm_(params, 100.0, norm_type)
    assert flambeau.equal(params[0].grad, before)


def test_clip_grad_norm_edge_cases():
    parameters = iter([flambeau.ones(1, requires_grad=True)])
    next(parameters)
    with pytest.warns(UserWarning, match="at its end") as caught:
        utils.clip_grad_norm_(parameters, 1.0)
    assert caught[0].filename == __file__
    assert utils.clip_grad_norm_([], 1.0).item() == 0
    params = parameters_with_grads([math.nan])
    with pytest.raises(RuntimeError, match="the total norm"):
        utils.clip_grad_norm_(params, 1.0, error_if_nonfinite=True)
    with pytest.warns(FutureWarning, match="clip_grad_norm_"):
        utils.clip_grad_norm(params, 1.0)


def test_clip_grad_value():
    params = parameters_with_grads([3.0, -4.0, 0.5])
    utils.clip_grad_value_(params, 1)
    assert params[0].grad.tolist() == [1, -1, 0.5]


def test_parameters_as_a_vector():
    a, b = nn.Linear(2, 3), nn.Linear(2, 3)
    vector = utils.parameters_to_vector(a.parameters())
    assert vector.shape == (9,) and vector.requires_grad
    utils.vector_to_parameters(vector, b.parameters())
    assert flambeau.equal(a.weight, b.weight) and flambeau.equal(a.bias, b.bias)
    with pytest.raises(TypeError, match="list"):
        utils.vector_to_parameters([1.0], b.parameters())


@pytest.mark.parametrize("bias", [True, False])
def test_folding_batch_norm(bias):
    conv, norm = nn.Conv2d(2, 3, 3, bias=bias), nn.BatchNorm2d(3)
    norm(conv(flambeau.randn(4, 2, 6, 6)))
    nn.init.normal_(norm.weight)
    conv.eval()
    norm.eval()
    x = flambeau.randn(1, 2, 5, 5)
    assert flambeau.allclose(utils.fuse_conv_bn_eval(conv, norm)(x), norm(conv(x)), atol=1e-5)
    with pytest.raises(AssertionError):
        utils.fuse_conv_bn_eval(conv.train(), norm)


def test_folding_batch_norm_into_linear():
    linear, norm = nn.Linear(2, 3).eval(), nn.BatchNorm1d(3).eval()
    nn.init.normal_(norm.running_mean)
    x = flambeau.randn(4, 2)
    assert flambeau.allclose(utils.fuse_linear_bn_eval(linear, norm)(x), norm(linear(x)), atol=1e-5)


def test_skip_init_draws_nothing():
    expected = flambeau.rand(1).item()
    flambeau.manual_seed(0)
    layer = utils.skip_init(nn.Linear, 2, 3)
    assert layer.weight.device.type == "cpu" and flambeau.rand(1).item() == expected
    with pytest.raises(RuntimeError, match="a class of Modules is expected"):
        utils.skip_init(int)


@pytest.mark.parametrize("dim", [0, 1, None])
def test_weight_norm(dim):
    layer = nn.Linear(3, 4)
    x, before = flambeau.randn(2, 3), layer.weight.detach().clone()
    expected = layer(x)
    utils.weight_norm(layer, dim=dim)
    assert list(layer.state_dict()) == ["bias", "weight_g", "weight_v"]
    assert layer.weight_g.shape == {0: (4, 1), 1: (1, 3), None: ()}[dim]
    assert flambeau.allclose(layer(x), expected, atol=1e-6)
    layer(x).sum().backward()
    # the direction's gradient is orthogonal to it: its length does not matter
    along = (layer.weight_v.grad * layer.weight_v).sum().item()
    assert abs(along) < 1e-5 and layer.weight_g.grad is not None
    with pytest.raises(RuntimeError, match="has one already"):
        utils.weight_norm(layer)
    utils.remove_weight_norm(layer)
    assert flambeau.allclose(layer.weight, before, atol=1e-6) and isinstance(layer.weight, nn.Parameter)
    with pytest.raises(ValueError, match="not found"):
        utils.remove_weight_norm(layer)


@pytest.mark.parametrize("make", [lambda: nn.Linear(3, 4), lambda: nn.ConvTranspose2d(2, 3, 2)])
def test_spectral_norm(make):
    layer = utils.spectral_norm(make(), n_power_iterations=50)
    x = flambeau.randn(1, 3) if isinstance(layer, nn.Linear) else flambeau.randn(1, 2, 4, 4)
    layer(x).sum().backward()
    assert layer.weight_orig.grad is not None
    matrix = layer.weight.detach() if isinstance(layer, nn.Linear) else layer.weight.detach().transpose(0, 1).flatten(1)
    gram = matrix @ matrix.t()
    vector = flambeau.ones(len(gram))
    for _ in range(100):
        vector = gram @ vector
        vector = vector / vector.norm()
    assert (vector @ gram @ vector).item() == pytest.approx(1, abs=1e-3)
    layer.eval()
    expected, u = layer(x), layer.weight_u.clone()
    assert flambeau.equal(layer.weight_u, u)
    utils.remove_spectral_norm(layer.train())
    assert layer.training and flambeau.allclose(layer(x), expected, atol=1e-6)
    assert list(layer.state_dict()) == ["bias", "weight"]
    with pytest.raises(ValueError, match="positive"):
        utils.spectral_norm(layer, n_power_iterations=0)
    with pytest.raises(ValueError, match="no parameter 'x'"):
        utils.spectral_norm(layer, "x")


def test_a_tensor_in_the_place_of_another():
    from flambeau.nn.utils._named_member_accessor import swap_tensor
    layer, new = flambeau.nn.BatchNorm1d(2), flambeau.zeros(2)
    weight, mean = layer.weight, layer.running_mean
    assert swap_tensor(layer, "weight", new) is weight and layer.weight is new and "weight" in layer._parameters
    assert swap_tensor(layer, "running_mean", new) is mean and layer.running_mean is new
    mark = swap_tensor(layer, "extra", new, allow_missing=True)
    assert layer.extra is new and swap_tensor(layer, "extra", mark) is new and not hasattr(layer, "extra")
    assert swap_tensor(layer, "bias", None) is not None and layer.bias is None
    layer.number = 3
    for args, error in [((layer, "nothing", new), AttributeError), ((layer, "a.b", new), KeyError),
                        ((layer, "number", new), TypeError), ((layer, "weight", 3), TypeError),
                        ((3, "weight", new), TypeError)]:
        with pytest.raises(error, match="swap_tensor"):
            swap_tensor(*args)
