"""Layers under vmap: over inputs, over their parameters, and their gradients, compared with loops."""

import pytest

import flambeau
from flambeau import nn
from flambeau.func import functional_call, grad, vmap

CASES = {
    "linear": (lambda: nn.Linear(4, 3), (2, 4)),
    "linear of one example": (lambda: nn.Linear(4, 3), (4,)),
    "bilinear": (lambda: nn.Bilinear(4, 4, 2), (2, 4), (2, 4)),
    "conv1d": (lambda: nn.Conv1d(2, 4, 3, padding=1, groups=2), (2, 2, 5)),
    "conv2d": (lambda: nn.Conv2d(2, 3, 3, stride=2, dilation=1), (2, 2, 7, 6)),
    "conv2d of one example": (lambda: nn.Conv2d(2, 3, 3), (2, 7, 6)),
    "conv2d reflected": (lambda: nn.Conv2d(2, 3, 3, padding=1, padding_mode="reflect"), (1, 2, 5, 5)),
    "conv3d": (lambda: nn.Conv3d(1, 2, 2), (1, 1, 3, 3, 3)),
    "conv_transpose2d": (lambda: nn.ConvTranspose2d(2, 3, 3, stride=2, output_padding=1), (2, 2, 4, 4)),
    "max_pool": (lambda: nn.MaxPool2d(2), (2, 3, 6, 6)),
    "avg_pool": (lambda: nn.AvgPool2d(3, 2), (3, 6, 6)),
    "adaptive_pool": (lambda: nn.AdaptiveAvgPool2d((2, 1)), (2, 3, 5, 4)),
    "layer_norm": (lambda: nn.LayerNorm((3, 4)), (2, 3, 4)),
    "rms_norm": (lambda: nn.RMSNorm(4), (3, 4)),
    "group_norm": (lambda: nn.GroupNorm(2, 4), (2, 4, 3)),
    "instance_norm": (lambda: nn.InstanceNorm2d(2, affine=True), (2, 2, 3, 3)),
    "batch_norm": (lambda: nn.BatchNorm1d(3, track_running_stats=False), (5, 3)),
    "batch_norm in evaluation": (lambda: nn.BatchNorm2d(2).eval(), (3, 2, 2, 2)),
    "attention": (lambda: nn.MultiheadAttention(8, 2, batch_first=True), (2, 3, 8), (2, 4, 8), (2, 4, 8)),
    "transformer": (lambda: nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True), (2, 3, 8)),
    "rnn": (lambda: nn.RNN(3, 4), (5, 2, 3)),
    "gru": (lambda: nn.GRU(3, 4, bidirectional=True), (5, 2, 3)),
    "lstm": (lambda: nn.LSTM(3, 4, 2), (5, 2, 3)),
    "prelu": (lambda: nn.PReLU(), (2, 3)),
    "upsample": (lambda: nn.Upsample(scale_factor=2, mode="bilinear"), (1, 2, 3, 3)),
    "pixel_shuffle": (lambda: nn.PixelShuffle(2), (1, 4, 2, 2)),
    "unfold": (lambda: nn.Unfold(2), (1, 2, 4, 4)),
}
N = 3


def first(x):
    return x if isinstance(x, flambeau.Tensor) else first(x[0])


@pytest.mark.parametrize("name", CASES)
def test_layer(name):
    make, *shapes = CASES[name]
    flambeau.manual_seed(0)
    net = make().double()
    xs = [flambeau.randn(N, *s).double() for s in shapes]
    stacked = {k: flambeau.stack([p.detach() * (1 + j / 10) for j in range(N)]) for k, p in net.named_parameters()}
    buffers = dict(net.named_buffers())

    def call(parameters, *inputs):
        return first(functional_call(net, (parameters, buffers), inputs))

    def loss_gradient(parameters, *inputs):
        return grad(lambda p, *i: (call(p, *i) * 0.5).sin().sum(), argnums=(0, 1))(parameters, *inputs)

    one = {k: p[1] for k, p in stacked.items()}
    for parameters, p_dims in ((one, None), (stacked, 0)):
        for inputs, x_dims in ((xs, 0), ([x[1] for x in xs], None)):
            if (p_dims is None and x_dims is None) or (p_dims == 0 and not stacked):
                continue
            dims = (p_dims, *(x_dims for _ in xs))

            def of(k, parameters=parameters, p_dims=p_dims, inputs=inputs, x_dims=x_dims):
                return ({n: p[k] for n, p in parameters.items()} if p_dims == 0 else parameters,
                        *(x[k] if x_dims == 0 else x for x in inputs))

            flambeau.testing.assert_close(vmap(call, in_dims=dims)(parameters, *inputs),
                                          flambeau.stack([call(*of(k)) for k in range(N)]), rtol=1e-9, atol=1e-10)
            found = vmap(loss_gradient, in_dims=dims)(parameters, *inputs)
            each = [loss_gradient(*of(k)) for k in range(N)]
            for key in parameters:
                flambeau.testing.assert_close(found[0][key], flambeau.stack([e[0][key] for e in each]), rtol=1e-9,
                                              atol=1e-10)
            flambeau.testing.assert_close(found[1], flambeau.stack([e[1] for e in each]), rtol=1e-9, atol=1e-10)
