"""Lazy layers: shapes from the first call, then the ordinary class with PyTorch's initial values."""

import copy
import pickle

import pytest

import flambeau
from flambeau import nn

CASES = [
    (lambda: nn.LazyLinear(3), lambda: nn.Linear(2, 3), (4, 2)),
    (lambda: nn.LazyLinear(3, bias=False), lambda: nn.Linear(2, 3, bias=False), (2,)),
    (lambda: nn.LazyConv1d(4, 3, groups=2), lambda: nn.Conv1d(2, 4, 3, groups=2), (1, 2, 5)),
    (lambda: nn.LazyConv2d(4, 3), lambda: nn.Conv2d(2, 4, 3), (2, 5, 5)),
    (lambda: nn.LazyConvTranspose2d(4, 3, groups=2), lambda: nn.ConvTranspose2d(2, 4, 3, groups=2), (1, 2, 5, 5)),
    (lambda: nn.LazyBatchNorm1d(), lambda: nn.BatchNorm1d(2), (4, 2)),
    (lambda: nn.LazyBatchNorm2d(affine=False), lambda: nn.BatchNorm2d(2, affine=False), (1, 2, 3, 3)),
    (lambda: nn.LazyInstanceNorm2d(affine=True),
     lambda: nn.InstanceNorm2d(2, affine=True, track_running_stats=True), (2, 3, 3)),
]


@pytest.mark.parametrize(("lazy", "plain", "shape"), CASES)
def test_becomes_the_plain_layer(lazy, plain, shape):
    layer = lazy()
    assert type(layer).__name__.startswith("Lazy") and repr(layer).startswith("Lazy")
    x = flambeau.ones(shape)
    flambeau.manual_seed(1)
    result = layer(x)
    flambeau.manual_seed(1)
    expected = plain()
    assert type(layer) is type(expected) and repr(layer) == repr(expected)
    assert flambeau.equal(result, expected(x)) and not layer._forward_pre_hooks
    state = expected.state_dict()
    assert all(flambeau.equal(v, state[k]) for k, v in layer.state_dict().items())


def test_before_the_first_call():
    layer = nn.LazyLinear(2, dtype=flambeau.float64)
    assert isinstance(layer.weight, nn.UninitializedParameter) and isinstance(layer.weight, nn.Parameter)
    with pytest.raises(RuntimeError, match="this parameter or buffer has no shape yet,"):
        _ = layer.weight.shape
    twin = copy.deepcopy(layer)
    assert twin.weight is not layer.weight and twin.double()(flambeau.zeros(3, dtype=flambeau.float64)).shape == (2,)
    again = pickle.loads(pickle.dumps(layer))
    assert again.has_uninitialized_params()


def test_loading_gives_shapes():
    layer, source = nn.LazyLinear(2), nn.Linear(3, 2)
    layer.load_state_dict(source.state_dict())
    x = flambeau.randn(1, 3)
    assert flambeau.equal(layer(x), source(x)) and type(layer) is nn.Linear and layer.in_features == 3
    with pytest.raises(RuntimeError, match="never called"):
        nn.Linear(3, 2).load_state_dict(nn.LazyLinear(2).state_dict())


def test_wrong_first_input():
    with pytest.raises(RuntimeError, match="input must have"):
        nn.LazyConv2d(2, 3)(flambeau.zeros(3, 3))


def test_no_operator_sees_a_tensor_without_shape():
    for waiting in (nn.LazyLinear(2).weight, nn.LazyBatchNorm1d().running_mean):
        with pytest.raises(ValueError, match="this parameter has no shape yet, because its"):
            waiting + 1
        assert waiting.dtype == flambeau.float32 and not waiting.is_complex()


def test_converted_before_the_first_call():
    for make, shape in ((lambda: nn.LazyLinear(2), (3, 4)), (lambda: nn.LazyBatchNorm1d(), (3, 4))):
        layer = make().double()
        assert layer.has_uninitialized_params()
        assert layer(flambeau.ones(shape).double()).dtype == flambeau.float64
        assert {t.dtype for t in layer.state_dict().values()} <= {flambeau.float64, flambeau.int64}


def test_moved_to_another_device_before_the_first_call():
    for make in (lambda: nn.LazyLinear(2), lambda: nn.LazyBatchNorm1d()):
        layer = make().to("meta")
        assert layer.has_uninitialized_params() and layer.weight.device.type == "meta"
        assert layer(flambeau.ones(3, 4, device="meta")).shape == (3, layer.weight.shape[0])


def test_there_is_no_memory_to_share_before_the_first_call():
    waiting = nn.LazyBatchNorm1d()
    for module, tensor in ((nn.LazyLinear(2), None), (waiting, waiting.running_mean)):
        with pytest.raises(RuntimeError, match="no memory to share yet"):
            module.share_memory() if tensor is None else tensor.share_memory_()
    assert isinstance(waiting.running_mean, nn.parameter.UninitializedTensorMixin)


def test_inputs_by_name():
    layer = flambeau.nn.LazyBatchNorm1d()
    assert layer(input=flambeau.ones(4, 3)).shape == (4, 3) and type(layer) is flambeau.nn.BatchNorm1d
    layer = flambeau.nn.LazyConvTranspose1d(2, 3, stride=2)
    assert layer(input=flambeau.ones(1, 3, 4), output_size=[10]).shape == (1, 2, 10) and layer.in_channels == 3
    assert not layer._forward_pre_hooks and not layer._forward_pre_hooks_with_kwargs


def test_lazy_layers_of_others_reset_themselves():
    """A layer of a package's own made lazy by the mixin: its reset_parameters ends in that of the layer."""
    class Noisy(flambeau.nn.Linear):
        def reset_parameters(self):
            self.resets = getattr(self, "resets", 0) + 1

    class LazyNoisy(flambeau.nn.modules.lazy.LazyModuleMixin, Noisy):
        def __init__(self):
            super().__init__(1, 1)

        def initialize_parameters(self, x):
            self.reset_parameters()

        def reset_parameters(self):
            super().reset_parameters()

    layer = LazyNoisy()
    layer(flambeau.ones(1, 1))
    assert layer.resets == 2
