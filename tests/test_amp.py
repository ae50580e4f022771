"""Mixed precision: which operators autocast converts, weights and gradients under it, and scaled gradients."""

import pickle

import pytest

import flambeau
import flambeau.nn.functional as F
from flambeau.ops.kinds import composite

X = flambeau.arange(16.0).reshape(4, 4) / 8 - 1
H = X.bfloat16()
V = X[0]
B = X[None]
IMAGE = flambeau.ones(1, 3, 8, 8)
low, full = flambeau.bfloat16, flambeau.float32


@pytest.mark.parametrize("call, dtype", [
    (lambda: X @ X, low), (lambda: flambeau.mm(X, X), low), (lambda: F.linear(X, X, V), low), (lambda: B @ B, low),
    (lambda: flambeau.addmm(X, X, X), low), (lambda: flambeau.addbmm(X, B, B), low),
    (lambda: flambeau.baddbmm(B, B, B), low),
    (lambda: flambeau.mv(X, V), full), (lambda: flambeau.dot(V, V), full), (lambda: flambeau.addmv(V, X, V), full),
    (lambda: flambeau.addr(X, V, V), full), (lambda: flambeau.outer(V, V), full), (lambda: flambeau.kron(X, X), full),
    (lambda: flambeau.einsum("ij,jk->ik", X, X), low), (lambda: flambeau.chain_matmul(X, X), low),
    (lambda: F.conv2d(IMAGE, flambeau.ones(2, 3, 3, 3)), low), (lambda: F.prelu(X, V), low),
    (lambda: F.scaled_dot_product_attention(B, B, B), low), (lambda: F.bilinear(X, X, flambeau.ones(2, 4, 4)), full),
    (lambda: flambeau.nn.MultiheadAttention(4, 1)(X, X, X)[0], low),
    (lambda: X.double() @ X.double(), flambeau.float64),
    (lambda: F.softmax(X, -1), full), (lambda: F.softmax(H, -1), low), (lambda: F.layer_norm(H, (4,)), low),
    (lambda: H.exp(), low), (lambda: H.sum(), low), (lambda: F.gelu(H), low), (lambda: X + H, full),
    (lambda: flambeau.cat([X, H]), full), (lambda: F.mse_loss(H, H), full), (lambda: F.l1_loss(H, H), full),
    (lambda: F.cross_entropy(H, flambeau.arange(4)), full), (lambda: F.nll_loss(H, flambeau.arange(4)), full),
    (lambda: F.binary_cross_entropy_with_logits(H, H), full), (lambda: F.kl_div(H, H.sigmoid()), full),
    (lambda: flambeau.cdist(H, H), full), (lambda: H.prod(), full), (lambda: flambeau.trace(H), full),
    (lambda: F.avg_pool2d(IMAGE.bfloat16(), 2), low), (lambda: F.pad(H, (1, 1), "reflect"), full),
    (lambda: F.embedding(flambeau.tensor([1]), X), full), (lambda: F.triplet_margin_loss(H, H, H), full),
    (lambda: flambeau.ones(2), full), (lambda: flambeau.quantile(H, 0.5), full),
])
def test_policies(call, dtype):
    with flambeau.autocast("cpu", dtype=flambeau.bfloat16):
        assert call().dtype is dtype


SQUARE = (flambeau.eye(4) * 3 + 0.1).bfloat16()
SIGNAL = flambeau.ones(8, dtype=low)


@pytest.mark.parametrize("name", "inv eigvalsh svdvals cholesky cond tensorinv pinv matrix_rank".split())
def test_decompositions_compute_in_float32(name):
    """In half precision there is no kernel for them: without a policy each of these calls would fail."""
    argument = SQUARE.reshape(2, 2, 2, 2) if name == "tensorinv" else SQUARE
    with flambeau.autocast("cpu", dtype=low):
        found = getattr(flambeau.linalg, name)(argument)
    assert flambeau.equal(found, getattr(flambeau.linalg, name)(argument.float()))


@pytest.mark.parametrize("call", [
    lambda: flambeau.linalg.solve(SQUARE, SQUARE[0]), lambda: flambeau.linalg.eigh(SQUARE)[0],
    lambda: flambeau.linalg.svd(SQUARE)[1], lambda: flambeau.linalg.qr(SQUARE)[1],
    lambda: flambeau.linalg.lstsq(SQUARE, SQUARE)[0], lambda: flambeau.linalg.inv_ex(SQUARE)[0],
    lambda: flambeau.linalg.cholesky_ex(SQUARE)[0], lambda: flambeau.pinverse(SQUARE), lambda: flambeau.lu(SQUARE)[0],
    lambda: flambeau.linalg.householder_product(SQUARE, SQUARE[0]), lambda: flambeau.fft.irfft(SIGNAL),
    lambda: flambeau.fft.fft(SIGNAL).real, lambda: flambeau.fft.rfftn(SQUARE).real, lambda: flambeau.fft.hfft(SIGNAL),
    lambda: flambeau.linalg.eig(SQUARE)[0].real, lambda: F.fractional_max_pool2d(SQUARE[None], 2, output_size=2)])
def test_transforms_and_decompositions_give_float32(call):
    with flambeau.autocast("cpu", dtype=low):
        assert call().dtype is full


def test_a_constant_border_keeps_the_dtype():
    with flambeau.autocast("cpu", dtype=low):
        assert F.pad(H, (1, 1)).dtype is low and F.pad(H, (1, 1), "replicate").dtype is full


def test_an_unknown_class_in_a_record_is_refused():
    with pytest.raises(KeyError):
        composite("_unknown_class(Tensor self) -> Tensor", namespace=None, autocast="double")(lambda self: self)


def test_float16_and_nesting():
    with flambeau.autocast("cpu", dtype=flambeau.float16):
        assert (X @ H).dtype is flambeau.float16
        with flambeau.autocast("cpu", enabled=False):
            assert (X @ X).dtype is full
        with flambeau.autocast("cpu"):  # keeps the dtype in use
            assert (X @ X).dtype is flambeau.float16
        assert flambeau.is_autocast_enabled("cpu") and not flambeau.is_autocast_enabled()
    assert (X @ X).dtype is full and flambeau.get_autocast_dtype("cpu") is low
    assert flambeau.autocast("cpu")(lambda a: a @ a)(X).dtype is low


def test_training_under_autocast():
    flambeau.manual_seed(0)
    model = flambeau.nn.Sequential(flambeau.nn.Linear(4, 8), flambeau.nn.ReLU(), flambeau.nn.Linear(8, 1))
    optimizer = flambeau.optim.SGD(model.parameters(), lr=0.05)
    losses = []
    for _ in range(30):
        optimizer.zero_grad()
        with flambeau.autocast("cpu"):
            loss = F.mse_loss(model(X), X.sum(1, keepdim=True))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] / 5
    assert all(p.dtype is full and p.grad.dtype is full for p in model.parameters())


def test_weights_are_converted_once():
    w = flambeau.ones(4, 4, requires_grad=True)
    with flambeau.autocast("cpu"):
        y = (X @ w).sum() + (X @ w).sum()
    y.backward()
    assert flambeau.allclose(w.grad, 2 * X.sum(0)[:, None].expand(4, 4), rtol=1e-2)
    with flambeau.no_grad():
        w.mul_(2)
    with flambeau.autocast("cpu"):
        assert (flambeau.eye(4) @ w)[0, 0].item() == 2


def test_custom_functions():
    seen = []

    class Product(flambeau.autograd.Function):
        @staticmethod
        @flambeau.amp.custom_fwd(device_type="cpu")
        def forward(ctx, a):
            ctx.save_for_backward(a)
            return a @ a

        @staticmethod
        @flambeau.amp.custom_bwd(device_type="cpu")
        def backward(ctx, g):
            seen.append(flambeau.is_autocast_enabled("cpu"))
            return (g.float() @ ctx.saved_tensors[0]).float()

    class InFloat32(flambeau.autograd.Function):
        @staticmethod
        @flambeau.amp.custom_fwd(device_type="cpu", cast_inputs=flambeau.float32)
        def forward(ctx, a):
            seen.append(a.dtype)
            return a @ a

    x = X.clone().requires_grad_()
    with flambeau.autocast("cpu"):
        y = Product.apply(x)
        assert y.dtype is low and InFloat32.apply(H).dtype is full
    y.float().sum().backward()
    assert seen == [full, True]


def test_requests_that_cannot_be_met():
    with pytest.warns(UserWarning, match=r"not in torch\.float64: autocast is off"):
        assert not flambeau.autocast("cpu", dtype=flambeau.float64)._enabled
    with pytest.warns(UserWarning, match="CUDA is not available"):
        assert not flambeau.autocast("cuda")._enabled
    with pytest.raises(RuntimeError):
        flambeau.autocast("nope")
    with pytest.raises(ValueError):
        flambeau.autocast(flambeau.device("cpu"))
    with pytest.warns(FutureWarning, match="is the old spelling"):
        assert flambeau.cpu.amp.autocast()._enabled
    with pytest.warns(UserWarning, match="Disabling"):
        assert not flambeau.amp.GradScaler().is_enabled()


# --- GradScaler -------------------------------------------------------------------------------------------------------

def test_scaled_steps():
    w = flambeau.ones(1, 2, requires_grad=True)
    optimizer = flambeau.optim.SGD([w], lr=0.1)
    scaler = flambeau.GradScaler("cpu", init_scale=4.0, growth_interval=2)
    scales = []
    for k in range(4):
        optimizer.zero_grad()
        loss = (w * (float("inf") if k == 1 else 1)).sum()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        if k != 1:
            assert w.grad.tolist() == [[1, 1]]
        scaler.step(optimizer)
        scaler.update()
        scales.append(scaler.get_scale())
    assert scales == [4, 2, 2, 4]
    assert flambeau.allclose(w, flambeau.full((1, 2), 0.7))
    other = pickle.loads(pickle.dumps(scaler))
    assert other.state_dict() == scaler.state_dict()
    third = flambeau.GradScaler("cpu")
    third.load_state_dict(scaler.state_dict())
    assert third.get_scale() == 4


def test_optimizers_that_scale_themselves():
    seen = []

    class Scales(flambeau.optim.SGD):
        _step_supports_amp_scaling = True

        def step(self, closure=None):
            seen.append((self.grad_scale if self.grad_scale is None else self.grad_scale.item(), self.found_inf.item()))

    class Asks(flambeau.optim.SGD):
        _step_supports_amp_scaling = True

        def step(self, closure=None, *, grad_scaler):
            found, = grad_scaler._check_inf_per_device(self).values()
            seen.append((grad_scaler.get_scale(), found.item()))

    w = flambeau.ones(1, requires_grad=True)
    scaler = flambeau.GradScaler("cpu", init_scale=4.0)
    for kind, factor, unscaled in ((Scales, 1, False), (Scales, 1, True), (Scales, float("inf"), False)):
        w.grad, optimizer = None, kind([w], lr=0.1)
        scaler.scale(w * factor).backward()
        if unscaled:
            scaler.unscale_(optimizer)
        scaler.step(optimizer)
        assert not hasattr(optimizer, "grad_scale") and not hasattr(optimizer, "found_inf")
        scaler.update()
    assert seen == [(4, 0), (None, 0), (4, 1)] and scaler.get_scale() == 2
    with pytest.warns(FutureWarning, match="older way"):
        scaler.step(Asks([w], lr=0.1))
    assert seen[-1] == (2, 1)


def test_a_scaler_with_its_own_rule_for_gradients():
    class Own(flambeau.GradScaler):
        def _unscale_grads_(self, optimizer, inv_scale, found_inf, allow_fp16):
            return super()._unscale_grads_(optimizer, inv_scale, found_inf, True)

    w = flambeau.ones(2, dtype=flambeau.float16, requires_grad=True)
    optimizer, scaler = flambeau.optim.SGD([w], lr=0.5), Own("cpu", init_scale=8.0)
    scaler.scale(w.sum().float()).backward()
    scaler.step(optimizer)
    assert w.tolist() == [0.5, 0.5]
    assert scaler._found_inf_per_device(optimizer) == {flambeau.device("cpu"): 0}


def test_sparse_gradients_are_unscaled():
    table = flambeau.nn.Embedding(4, 2, sparse=True)
    optimizer, scaler = flambeau.optim.SGD(table.parameters(), lr=0.5), flambeau.GradScaler("cpu", init_scale=8.0)
    scaler.scale(table(flambeau.tensor([1, 1])).sum()).backward()
    scaler.unscale_(optimizer)
    assert table.weight.grad.to_dense()[1].tolist() == [2, 2]


def test_updates_of_a_scaler():
    grads = [flambeau.full((2,), 4.0), flambeau.full((3,), 6.0, dtype=flambeau.float16)]
    found, scale, tracker = flambeau.zeros(1), flambeau.tensor([4.0]), flambeau.zeros(1, dtype=flambeau.int32)
    flambeau._amp_foreach_non_finite_check_and_unscale_(grads, found, flambeau.tensor([0.5]))
    assert [g.tolist() for g in grads] == [[2, 2], [3, 3, 3]] and found.item() == 0
    assert flambeau._amp_update_scale_(scale, tracker, found, 2.0, 0.25, 2) is scale and (scale, tracker) == (4, 1)
    flambeau._amp_update_scale_(scale, tracker, found, 2.0, 0.25, 2)
    assert (scale, tracker) == (8, 0)
    grads[0][1] = float("nan")
    flambeau._amp_foreach_non_finite_check_and_unscale_(grads, found, flambeau.tensor([0.5]))
    assert found.item() == 1 and flambeau._amp_update_scale_(scale, tracker, found, 2.0, 0.25, 2).item() == 2
    with pytest.raises(RuntimeError, match="inv_scale must hold one number"):
        flambeau._amp_foreach_non_finite_check_and_unscale_(grads, found, flambeau.ones(2))


def test_misuse_of_the_scaler():
    w = flambeau.ones(1, requires_grad=True)
    optimizer = flambeau.optim.SGD([w], lr=0.1)
    scaler = flambeau.GradScaler("cpu")
    with pytest.raises(AssertionError, match="there is no scale yet"):
        scaler.step(optimizer)
    scaler.scale(w.sum()).backward()
    scaler.unscale_(optimizer)
    with pytest.raises(RuntimeError, match="the gradients of this SGD are unscaled already"):
        scaler.unscale_(optimizer)
    scaler.step(optimizer)
    with pytest.raises(RuntimeError, match="has made its step"):
        scaler.step(optimizer)
    scaler.update()
    with pytest.raises(AssertionError, match="no parameter of this SGD has a gradient"):
        scaler.step(flambeau.optim.SGD([flambeau.ones(1, requires_grad=True)], lr=0.1))
    with pytest.raises(AssertionError, match="no optimizer has been unscaled"):
        scaler.update()
    assert flambeau.GradScaler("cpu", enabled=False).scale(w) is w


# --- convolutions and recurrent layers --------------------------------------------------------------------------------

LAYERS = {
    "conv1d": (lambda: flambeau.nn.Conv1d(32, 48, 5, padding=2), (4, 32, 200)),
    "conv2d": (lambda: flambeau.nn.Conv2d(32, 48, 3, padding=1), (3, 32, 24, 24)),
    "conv2d strided groups": (lambda: flambeau.nn.Conv2d(32, 64, 3, stride=2, groups=4), (3, 32, 33, 33)),
    "conv3d": (lambda: flambeau.nn.Conv3d(8, 16, 3, padding=1), (2, 8, 8, 12, 12)),
    "conv_transpose2d": (lambda: flambeau.nn.ConvTranspose2d(32, 24, 3, stride=2), (3, 32, 14, 14)),
    "conv_transpose2d without bias": (lambda: flambeau.nn.ConvTranspose2d(32, 24, 2, 2, bias=False), (3, 32, 14, 14)),
}


@pytest.mark.parametrize("dtype", [flambeau.bfloat16, flambeau.float16])
@pytest.mark.parametrize("name", LAYERS)
def test_convolutions_in_half_precision(name, dtype):
    """Whether the processor multiplies halves or float32: the result is that of the rounded operands, rounded once, and
    so are the gradients."""
    make, shape = LAYERS[name]
    flambeau.manual_seed(1)
    layer, x = make(), flambeau.randn(shape, requires_grad=True)
    with flambeau.autocast("cpu", dtype=dtype):
        y = layer(x)
    assert y.dtype is dtype
    g = flambeau.randn(y.shape).to(dtype)
    y.backward(g)
    exact = make().double()
    exact.load_state_dict({k: v.to(dtype).double() for k, v in layer.state_dict().items()})
    wide = x.detach().to(dtype).double().requires_grad_()
    expected = exact(wide)
    expected.backward(g.double())
    eps = flambeau.finfo(dtype).eps
    pairs = [(y, expected), (x.grad, wide.grad)]
    pairs += [(p.grad, q.grad) for p, q in zip(layer.parameters(), exact.parameters(), strict=True)]
    for found, right in pairs:
        assert ((found.double() - right).abs() / (right.abs() + right.abs().mean())).max().item() < 1.01 * eps


@pytest.mark.parametrize("dtype", [flambeau.bfloat16, flambeau.float16])
@pytest.mark.parametrize("kind", ["RNN", "GRU", "LSTM"])
def test_recurrent_layers_in_half_precision(kind, dtype):
    """Under autocast they compute in half precision; sums and states are kept in float32 between the steps."""
    flambeau.manual_seed(2)
    layer = getattr(flambeau.nn, kind)(16, 24, 2, bidirectional=True)
    x = flambeau.randn(12, 5, 16, requires_grad=True)
    with flambeau.autocast("cpu", dtype=dtype):
        y, _ = layer(x)
    assert y.dtype is (flambeau.float32 if kind == "GRU" else dtype)  # GRU's state is a sum with the state before
    expected, _ = layer(x)
    assert (y.float() - expected).abs().max().item() < 8 * flambeau.finfo(dtype).eps
    grads = []
    for out in (y.float(), expected):
        layer.zero_grad()
        x.grad = None
        (out * out).sum().backward()
        grads.append([x.grad, *(p.grad for p in layer.parameters())])
    for found, right in zip(*grads, strict=True):
        assert found.dtype is flambeau.float32
        assert (found - right).abs().max().item() < 30 * flambeau.finfo(dtype).eps * right.abs().max().item()


@pytest.mark.parametrize("dtype", [flambeau.bfloat16, flambeau.float16])
@pytest.mark.parametrize(("kind", "follows_state"), [("LSTM", False), ("GRU", True), ("RNN", False), ("LSTMCell", True),
                                                     ("GRUCell", True), ("RNNCell", False)])
def test_dtypes_of_recurrent_results_under_autocast(kind, follows_state, dtype):
    """Sums with the state have the state's dtype, as in PyTorch; inputs that are halves meet float32 weights."""
    layer = getattr(flambeau.nn, kind)(4, 5)
    x = flambeau.randn(2, 4) if kind.endswith("Cell") else flambeau.randn(3, 2, 4)
    for given in (flambeau.float32, dtype):
        with flambeau.autocast("cpu", dtype=dtype):
            found = flambeau.utils._pytree.tree_leaves(layer(x.to(given)))
        assert {t.dtype for t in found} == {given if follows_state else dtype}, given


def test_a_state_decides_the_dtype_under_autocast():
    layer, x, h = flambeau.nn.GRU(4, 5), flambeau.randn(3, 2, 4), flambeau.zeros(1, 2, 5)
    with flambeau.autocast("cpu"):
        assert [t.dtype for t in layer(x.bfloat16(), h)] == [flambeau.float32] * 2
        assert [t.dtype for t in layer(x, h.bfloat16())] == [flambeau.bfloat16] * 2


@pytest.mark.parametrize("dtype", (flambeau.bfloat16, flambeau.float16), ids=str)
@pytest.mark.parametrize("reduction", ("mean", "sum", "none"))
def test_cross_entropy_of_halves_is_float32_without_a_copy(reduction, dtype):
    """Loss and gradients, also those of gradients, are what a float32 copy of the logits gives."""
    labels, weight = flambeau.tensor([1, 2, 3, -100, 5, 6]), flambeau.rand(10).to(dtype)
    x = flambeau.randn(6, 10).to(dtype).requires_grad_()
    wide = x.detach().float().requires_grad_()
    options = {"reduction": reduction, "label_smoothing": 0.1}
    with flambeau.autocast("cpu", dtype=flambeau.bfloat16):
        loss = F.cross_entropy(x, labels, weight, **options)
    expected = F.cross_entropy(wide, labels, weight.float(), **options)
    assert loss.dtype == flambeau.float32 and flambeau.equal(loss, expected)
    near, up = {"rtol": 2e-2, "atol": 2e-2}, flambeau.arange(10.0)
    (first,), (second,) = (flambeau.autograd.grad(out.sum(), leaf, create_graph=True)
                           for out, leaf in ((loss, x), (expected, wide)))
    assert first.dtype == dtype and flambeau.equal(first, second.to(dtype))
    (first,), (second,) = (flambeau.autograd.grad((g.float() * up).sum(), leaf)
                           for g, leaf in ((first, x), (second, wide)))
    assert first.dtype == dtype and flambeau.allclose(first.float(), second, **near)
