"""Blocks that models are made of: convolution with norm and activation, gates, perceptrons, stochastic depth."""

import pytest

import flambeau
from flambeau import nn
from flambeau.vision import ops
from flambeau.vision.ops.misc import ConvNormActivation


@pytest.mark.parametrize(("kernel", "dilation", "padding"), [(3, 1, (1, 1)), (5, 2, (4, 4)), ((3, 5), 2, (2, 4)),
                                                             ((3, 5), (2, 3), (2, 6)), (4, 1, (1, 1))])
def test_a_convolution_keeps_the_size_at_stride_1(kernel, dilation, padding):
    block = ops.Conv2dNormActivation(3, 8, kernel, dilation=dilation)
    assert block[0].padding == padding and block.out_channels == 8
    if kernel != 4:
        assert block(flambeau.rand(1, 3, 16, 16)).shape == (1, 8, 16, 16)


def test_layers_that_are_none_are_left_out():
    assert [type(layer) for layer in ops.Conv2dNormActivation(3, 8, norm_layer=None)] == [nn.Conv2d, nn.ReLU]
    assert ops.Conv2dNormActivation(3, 8, norm_layer=None)[0].bias is not None
    assert ops.Conv2dNormActivation(3, 8, activation_layer=None)[0].bias is None
    assert not ops.Conv2dNormActivation(3, 8, inplace=False)[2].inplace
    assert [type(layer) for layer in ops.Conv3dNormActivation(3, 8)] == [nn.Conv3d, nn.BatchNorm3d, nn.ReLU]
    with pytest.warns(UserWarning, match="Conv2dNormActivation"):
        ConvNormActivation(3, 8)


def test_perceptrons():
    layers = ops.MLP(8, [16, 4], norm_layer=nn.LayerNorm, dropout=0.1, inplace=True)
    assert [type(layer) for layer in layers] == [nn.Linear, nn.LayerNorm, nn.ReLU, nn.Dropout, nn.Linear, nn.Dropout]
    assert layers[5].inplace and layers[2].inplace
    assert ops.Permute([0, 2, 1])(flambeau.rand(2, 3, 4)).shape == (2, 4, 3)


def test_a_gate_scales_each_channel():
    flambeau.manual_seed(0)
    x = flambeau.rand(2, 4, 3, 3) + 1
    scale = ops.SqueezeExcitation(4, 2)(x) / x
    assert flambeau.allclose(scale, scale[:, :, :1, :1].expand_as(x)) and (scale > 0).all() and (scale < 1).all()


def test_a_frozen_norm_is_the_norm_in_evaluation_and_has_no_parameters():
    flambeau.manual_seed(0)
    norm = nn.BatchNorm2d(4)
    norm(flambeau.randn(8, 4, 3, 3) * 3 + 1)
    nn.init.uniform_(norm.weight)
    frozen = ops.FrozenBatchNorm2d(4)
    frozen.load_state_dict(norm.state_dict())  # its counter is left out
    x = flambeau.randn(2, 4, 5, 5)
    assert flambeau.allclose(frozen(x), norm.eval()(x), atol=1e-6) and not list(frozen.parameters())


def test_stochastic_depth_keeps_the_mean():
    flambeau.manual_seed(0)
    rows = ops.stochastic_depth(flambeau.ones(4000, 3), 0.25, "row")
    assert set(rows.unique().tolist()) == {0.0, flambeau.tensor(1 / 0.75).item()}
    assert (rows == rows[:, :1]).all() and abs(rows.mean() - 1) < 0.05
    whole = ops.stochastic_depth(flambeau.ones(50, 2), 0.5, "batch")
    assert whole.unique().numel() == 1
    assert not ops.stochastic_depth(flambeau.ones(3, 2), 1.0, "row").any()
    layer = ops.StochasticDepth(1.0, "row").eval()
    assert layer(flambeau.ones(2)).tolist() == [1, 1] and repr(layer) == "StochasticDepth(p=1.0, mode=row)"


def test_seeds_draw_what_torchvision_draws():
    flambeau.manual_seed(0)
    assert ops.stochastic_depth(flambeau.ones(4, 2), 0.5, "row")[:, 0].tolist() == [0, 0, 2, 0]


@pytest.mark.parametrize(("p", "mode", "what"), [(2.0, "row", "probability"), (0.2, "column", "'batch'")])
def test_wrong_settings_are_refused(p, mode, what):
    with pytest.raises(ValueError, match=what):
        ops.stochastic_depth(flambeau.ones(2, 2), p, mode)
