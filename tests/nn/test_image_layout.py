"""Results of convolutions may lie with their channels last and look contiguous: nobody can tell, but by the time."""

import copy
import io
import pickle
import threading

import numpy as np
import pytest

import flambeau as torch
from flambeau import _C, func, nn
from flambeau.nn import functional as F

SHAPE = (3, 16, 28, 26)


def images(seed=0, dtype=torch.float32):
    """What a large enough convolution has made, and the same values in plain memory."""
    torch.manual_seed(seed)
    x, w = torch.randn(SHAPE).to(dtype), (torch.randn(16, 16, 3, 3) / 12).to(dtype)
    y = F.conv2d(x, w, padding=1)
    return y, torch.tensor(F.conv2d(x, w, padding=1).tolist(), dtype=dtype)


OPERATORS = {
    "relu": torch.relu, "exp": torch.exp, "a number": lambda y: y * 2 + 1, "compare": lambda y: y > 0,
    "with itself": lambda y: y * y.sigmoid() - y, "a row": lambda y: y + torch.arange(26.0),
    "channels": lambda y: y * torch.arange(16.0).view(16, 1, 1),
    "plain": lambda y: y + torch.arange(34944.0).view(SHAPE),
    "larger": lambda y: y + torch.ones(2, 1, 1, 1, 1),
    "column": lambda y: torch.where(y > 0, y, torch.ones(28, 1)),
    "dtype": lambda y: y.double() + y, "int": lambda y: (y * 5).int(), "transposed": lambda y: y.transpose(1, 3),
    "view": lambda y: y.view(3, -1), "flatten": lambda y: y.flatten(1) @ torch.ones(11648, 2, dtype=y.dtype),
    "slice": lambda y: y[1:, ::2], "gather": lambda y: y[:, [3, 1]],
    "cat": lambda y: torch.cat([y, y.relu()], 1), "cat others": lambda y: torch.cat([y, torch.ones(3, 2, 28, 26)], 1),
    "cat wide": lambda y: torch.cat([y, y], 3), "stack": lambda y: torch.stack([y, y]), "clone": torch.clone,
    "last": lambda y: y.contiguous(memory_format=torch.channels_last),
    "copied": lambda y: torch.empty(SHAPE).copy_(y), "zero": torch.zeros_like,
    "max_pool": lambda y: F.max_pool2d(y, 3, 2, 1), "indices": lambda y: F.max_pool2d(y, 2, return_indices=True)[1],
    "avg_pool": lambda y: F.avg_pool2d(y, 2), "pad": lambda y: F.pad(y, (1, 2, 0, 1)),
    "shuffle": lambda y: F.pixel_shuffle(y, 2), "unfold": lambda y: F.unfold(y, 3),
    "resize": lambda y: F.interpolate(y, scale_factor=2), "out": lambda y: torch.add(y, 1, out=torch.empty(SHAPE)),
    "amax": lambda y: y.amax((2, 3)), "sort": lambda y: y.sort(1)[0], "repeat": lambda y: y.repeat(1, 2, 1, 1),
    "bf16": lambda y: y.bfloat16().float(), "half way": lambda y: y.lerp(y + 1, 0.5), "clamp": lambda y: y.clamp(-1, 1),
    "vmap": lambda y: func.vmap(lambda c: c * 2 - 1)(y),
    "compiled": lambda y: torch.compile(lambda v: v.relu() * 2 + v)(y),
    "as_strided": lambda y: y.as_strided((4, 5), (5, 1), 7),
}
#: whose sums may be taken in another order
SUMS = {
    "sum": lambda y: y.sum(), "mean": lambda y: y.mean((0, 2, 3)), "softmax": lambda y: y.softmax(1),
    "batch_norm": lambda y: F.batch_norm(y, None, None, training=True), "var": lambda y: y.var(1),
    "normalised": lambda y: F.batch_norm(y, torch.ones(16), torch.full((16,), 2.0)),
    "group_norm": lambda y: F.group_norm(y, 4), "one place": lambda y: F.adaptive_avg_pool2d(y, 1),
    "conv": lambda y: F.conv2d(y, torch.ones(32, 16, 3, 3, dtype=y.dtype) / 99, torch.arange(32).to(y.dtype), stride=2),
    "grouped": lambda y: F.conv2d(y, torch.ones(32, 4, 3, 3, dtype=y.dtype) / 9, groups=4),
    "small": lambda y: F.conv2d(y, torch.ones(1, 16, 1, 1, dtype=y.dtype)),
    "upwards": lambda y: F.conv_transpose2d(y, torch.ones(16, 8, 2, 2, dtype=y.dtype), torch.arange(8).to(y.dtype),
                                            stride=2),
    "layer_norm": lambda y: F.layer_norm(y, (26,)), "local": lambda y: F.local_response_norm(y, 3),
}
#: whose results lie so, too
LYING = ("relu", "a number", "with itself", "channels", "plain", "cat", "cat others", "cat wide", "max_pool", "indices",
         "batch_norm", "conv", "grouped", "upwards", "clamp", "half way", "avg_pool", "resize", "group_norm", "clone",
         "pad", "shuffle", "softmax", "normalised", "local", "bf16", "dtype", "int")


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("name", [*OPERATORS, *SUMS])
def test_operators_see_the_same_values(name, dtype):
    lying, plain = images(dtype=dtype)
    assert _C.lies_channels_last(lying) and not _C.lies_channels_last(plain)
    op = OPERATORS.get(name) or SUMS[name]
    expected = op(plain)
    if name in LYING:
        assert _C.lies_channels_last(op(lying))
    for y in (lying, lying):  # as it lies, and after somebody has looked
        got = op(y)
        assert got.shape == expected.shape and got.dtype == expected.dtype and got.stride() == expected.stride()
        if name in SUMS:
            rtol, atol = (1e-4, 1e-5) if dtype == torch.float32 else (2e-2, 1e-2)
            torch.testing.assert_close(got, expected, rtol=rtol, atol=atol)
        else:
            assert torch.equal(got, expected)
        assert torch.equal(y, plain)


def gate(c=16):
    return torch.linspace(-1, 1, 3 * c).view(3, c, 1, 1)


#: what networks do between convolutions: images that lie go in and come out, and so do their gradients
BETWEEN = {
    "dropout": lambda y: F.dropout(y, 0.3), "dropout2d": lambda y: F.dropout2d(y, 0.3),
    "alpha_dropout": lambda y: F.alpha_dropout(y, 0.3), "clone": lambda y: y.clone(),
    "contiguous": lambda y: y.contiguous() * 1, "pad": lambda y: F.pad(y, (0, 1, 2, 1)),
    "crop": lambda y: F.pad(y, (-1, -1, 0, -2)), "pad channels": lambda y: F.pad(y, (0, 0, 0, 0, 4, 4), value=2),
    "pad batch": lambda y: F.pad(y, (1, 0, 0, 0, 0, 0, 0, 1)), "reflect": lambda y: F.pad(y, (2, 1, 1, 2), "reflect"),
    "replicate": lambda y: F.pad(y, (1, 0, 3, 0), "replicate"),
    "circular": lambda y: F.pad(y, (1, 1, 1, 1), "circular"),
    "pixel_shuffle": lambda y: F.pixel_shuffle(y, 2), "pixel_unshuffle": lambda y: F.pixel_unshuffle(y, 2),
    "channel_shuffle": lambda y: F.channel_shuffle(y, 4), "half": lambda y: y.bfloat16() * 1,
    "softmax": lambda y: F.softmax(y, 1), "log_softmax": lambda y: F.log_softmax(y, 1),
    "softmax of rows": lambda y: F.softmax(y, -1), "batch_norm": lambda y: F.batch_norm(y, None, None, training=True),
    "group_norm": lambda y: F.group_norm(y, 4), "instance_norm": lambda y: F.instance_norm(y),
    **{f.__name__: f for f in (F.relu, F.leaky_relu, F.silu, F.hardswish, F.hardsigmoid, F.gelu, torch.sigmoid,
                               torch.tanh, F.mish, F.elu, F.softplus, F.relu6)},
    "prelu": lambda y: F.prelu(y, torch.linspace(0, 1, 16, dtype=y.dtype)), "gate": lambda y: y * gate().to(y.dtype),
    "squeeze and excite": lambda y: y * F.adaptive_avg_pool2d(y, 1).sigmoid(),
    "squeeze by mean": lambda y: y * y.mean((2, 3), keepdim=True).sigmoid(),
    "attention of places": lambda y: y * y.amax(1, keepdim=True).sigmoid(),
    "max_pool": lambda y: F.max_pool2d(y, 3, 2, 1), "avg_pool": lambda y: F.avg_pool2d(y, 2),
    "adaptive": lambda y: F.adaptive_avg_pool2d(y, 7), "nearest": lambda y: F.interpolate(y, scale_factor=2),
    "bilinear": lambda y: F.interpolate(y, scale_factor=2, mode="bilinear"),
    "cat": lambda y: torch.cat([y, y.relu()], 1), "add": lambda y: y + y.relu(), "product": lambda y: y * y.tanh(),
    "flip": lambda y: y.flip(3), "roll": lambda y: y.roll((1, -2), (2, 3)),
}
#: parts and other views: forward takes them as they lie
PARTS = {
    "chunk": lambda y: y.chunk(2, 1)[1].relu(), "swapped": lambda y: torch.cat(y.chunk(2, 1)[::-1], 1),
    "glu": lambda y: F.glu(y, 1), "channels": lambda y: y[:, 3:9] * 2, "inner": lambda y: y[:, :, 1:-1, 2:] + 1,
    "every second": lambda y: torch.cat([y[..., i::2, j::2] for i in (0, 1) for j in (0, 1)], 1),
    "convolved": lambda y: F.conv2d(y.chunk(2, 1)[0], torch.ones(16, 8, 3, 3, dtype=y.dtype) / 50, padding=1),
    "shuffled by hand": lambda y: y.view(3, 4, 4, 28, 26).transpose(1, 2).contiguous().view(SHAPE).relu(),
    "shuffled by reshape": lambda y: y.view(3, 8, 2, 28, 26).transpose(1, 2).reshape(SHAPE).relu(),
    "cloned": lambda y: y[:, 4:8].clone() * 2, "index_select": lambda y: y.index_select(1, torch.tensor([3, 1, 1])),
}
#: what only reads
READING = {
    "mean": lambda y: y.mean((2, 3)), "mean kept": lambda y: y.mean((2, 3), keepdim=True), "sum": lambda y: y.sum(),
    "amax": lambda y: y.amax((2, 3)), "max": lambda y: y.max(1)[0], "argmax": lambda y: y.argmax(1),
    "var": lambda y: y.var((0, 2, 3)), "of channels": lambda y: y.mean(1, keepdim=True),
    "norm": lambda y: y.norm(dim=1),
    "rows": lambda y: y.permute(0, 2, 3, 1).contiguous(),
    "linear": lambda y: F.linear(y.flatten(2).transpose(1, 2), torch.linspace(-1, 1, 80, dtype=y.dtype).view(5, 16)),
    "layer_norm": lambda y: F.layer_norm(y.permute(0, 2, 3, 1), (16,)),
    "rows reshaped": lambda y: y.permute(0, 2, 3, 1).reshape(3, -1, 8), "copied": lambda y: torch.ones(SHAPE).copy_(y),
    "part": lambda y: y[1:, 2:9, :3].sum((0, 2)), "image": lambda y: y[1].sum(0),
    "one channel": lambda y: y[:, 5].sum(1),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("name", [*BETWEEN, *PARTS, *READING])
def test_nobody_copies_them_between_convolutions(name, dtype):
    lying, plain = images(dtype=dtype)
    op = BETWEEN.get(name) or PARTS.get(name) or READING[name]

    def results(y, gradient_of):
        torch.manual_seed(5)
        x = y.detach().requires_grad_()
        out = op(x)
        if not out.requires_grad:
            return out, None, None
        g = gradient_of(out.detach())
        return out, *torch.autograd.grad(out, x, g), g

    out, to_x, g = results(lying, lambda out: (out * 0.5 - 1).to(out.dtype))
    assert _C.lies_channels_last(lying)
    if name not in READING:
        assert _C.lies_channels_last(out)
    if name in BETWEEN:
        assert _C.lies_channels_last(g) and _C.lies_channels_last(to_x)
    expected, to_plain, _ = results(plain, lambda _: torch.tensor(g.tolist(), dtype=g.dtype))
    rtol = max(1e-4, 4 * torch.finfo(dtype).eps)
    for mine, other in ((out, expected), (to_x, to_plain)):
        if other is not None:
            assert mine.stride() == other.stride() or name in READING
            size = float(other.double().abs().max())
            torch.testing.assert_close(mine.double(), other.double(), rtol=rtol, atol=rtol * max(size, 1))


VIEWS = {
    "image": lambda y: y[1], "channel": lambda y: y[:, 3], "row": lambda y: y[..., 4, :], "column": lambda y: y[..., 5],
    "part": lambda y: y[1:, 2:9, 3:20, ::2], "steps": lambda y: y[:, 1::3], "one": lambda y: y[:, 4:5],
    "transposed": lambda y: y.transpose(1, 3), "turned": lambda y: y.transpose(2, 3),
    "rows": lambda y: y.permute(0, 2, 3, 1),
    "groups": lambda y: y.unflatten(1, (4, 4)), "dealt": lambda y: y.unflatten(1, (2, 8)).transpose(1, 2),
    "places": lambda y: y.flatten(2), "sequence": lambda y: y.flatten(2).transpose(1, 2), "all": lambda y: y.flatten(),
    "cut": lambda y: y.unflatten(2, (7, 4)), "channels first": lambda y: y[0].unflatten(1, (7, 4)),
    "windows": lambda y: y.unfold(2, 4, 2), "spread": lambda y: y[:1].expand(2, 16, 28, 26), "more": lambda y: y[None],
    "diagonal": lambda y: y.diagonal(0, 2, 3), "across": lambda y: y.diagonal(0, 1, 2),
    "strided": lambda y: y.as_strided((3, 5, 7), (900, 30, 2), 11), "joined": lambda y: y.flatten(0, 1),
}
USES = {
    "clone": torch.clone, "contiguous": lambda v: v.contiguous(), "reshape": lambda v: v.reshape(-1),
    "twice": lambda v: v * 2,
    "sum": torch.sum, "last": lambda v: v.amax(-1), "first": lambda v: v.mean(0, keepdim=True),
    "argmax": lambda v: v.argmax(0), "softmax": lambda v: v.softmax(-1), "cat": lambda v: torch.cat([v, v], -1),
    "flip": lambda v: v.flip(0), "pad": lambda v: F.pad(v, (1, 2)),
    "layer_norm": lambda v: F.layer_norm(v, v.shape[-1:]),
    "select": lambda v: v.index_select(0, torch.tensor([0, 0])), "copy": lambda v: torch.zeros(v.shape).copy_(v),
    "half": lambda v: v.bfloat16(), "sum of two": lambda v: v + v.exp(),
    "conv": lambda v: F.conv2d(v, torch.ones(3, v.shape[1], 1, 1)) if v.ndim == 4 else v,
    "shuffle": lambda v: F.channel_shuffle(v, v.shape[1]) if v.ndim > 2 else v,
    "pool": lambda v: F.max_pool2d(v, 2) if v.ndim == 4 else v,
}


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("use", USES)
def test_views_of_them(view, use):
    lying, plain = images()
    mine, other = (USES[use](VIEWS[view](y)) for y in (lying, plain))
    assert mine.shape == other.shape and mine.stride() == other.stride() and mine.dtype == other.dtype
    torch.testing.assert_close(mine, other, rtol=1e-4, atol=1e-4 * max(1, float(other.abs().max())))
    if use in ("clone", "copy", "twice"):
        mine.fill_(7)
    assert torch.equal(lying, plain)


def test_dropout_draws_in_the_order_that_users_see():
    (lying, plain), masks = images(), []
    for y in (lying, plain):
        torch.manual_seed(9)
        masks.append(F.dropout(y, 0.5) == 0)
    assert torch.equal(*masks)


@pytest.mark.parametrize("first", ["lies", "last"])
def test_beside_images_with_channels_last(first):
    """The first operand decides how the result is seen, as of plain images."""
    lying, plain = images()
    last = plain.contiguous(memory_format=torch.channels_last)
    mixed = lying + last if first == "lies" else last - lying
    expected = plain + last if first == "lies" else last - plain
    assert _C.lies_channels_last(lying) and mixed.stride() == expected.stride() and torch.equal(mixed, expected)
    kept = last.clone()
    kept += lying
    assert _C.lies_channels_last(lying) and torch.equal(kept, last + plain)


@pytest.mark.parametrize("name", ["pad", "reflect", "replicate", "pixel_shuffle", "pixel_unshuffle", "channel_shuffle",
                                  "cat", "swapped", "every second", "convolved", "chunk", "dropout"])
def test_channels_last_stays_for_all_to_see(name):
    op = BETWEEN.get(name) or PARTS[name]
    x = torch.randn(SHAPE).contiguous(memory_format=torch.channels_last)
    torch.manual_seed(1)
    got = op(x)
    assert got.is_contiguous(memory_format=torch.channels_last) and not got.is_contiguous()
    if name != "dropout":  # whose numbers go by memory
        torch.testing.assert_close(got, op(x.contiguous()), rtol=1e-5, atol=1e-5)


def test_it_looks_contiguous():
    y, plain = images()
    assert y.stride() == plain.stride() and y.is_contiguous() and not y.is_contiguous(memory_format=torch.channels_last)
    assert y.storage_offset() == 0 and y.untyped_storage().nbytes() == plain.untyped_storage().nbytes()
    assert np.array_equal(y.numpy(), plain.numpy()) and y.data_ptr() == y.data_ptr()


@pytest.mark.parametrize("write", [
    lambda y: y.relu_(), lambda y: y.add_(1), lambda y: y.mul_(y), lambda y: y.add_(torch.ones(SHAPE)),
    lambda y: y.zero_(), lambda y: y.copy_(torch.ones(SHAPE)), lambda y: y[1].fill_(3), lambda y: y.clamp_(0, 1),
    lambda y: y.fill_(2), lambda y: torch.ones(SHAPE).mul_(y), lambda y: y.index_fill_(1, torch.tensor([2]), 7),
    lambda y: y.neg_(), lambda y: F.relu6(y, inplace=True), lambda y: y.masked_fill_(y > 0, 5),
    lambda y: y.lerp_(y + 1, 0.25), lambda y: y.transpose_(1, 2), lambda y: y.resize_(4, 4), lambda y: y.set_(y[0])])
def test_writes_are_seen_by_all_who_share_the_memory(write):
    (lying, plain), results = images(), []
    for y in (lying, plain):
        same, part, flat, turned = views = y.detach(), y[:, 2:5], y.flatten(), y.permute(0, 2, 3, 1)
        write(y)
        assert torch.equal(part, same[:, 2:5]) and torch.equal(flat.view(SHAPE), same)
        assert torch.equal(turned, same.permute(0, 2, 3, 1))
        results.append(y)
        assert len(views) == 4
    assert torch.equal(*results) and lying._version == plain._version


def test_copies_and_files():
    y, plain = images()
    file = io.BytesIO()
    torch.save(y, file)
    file.seek(0)
    for got in (copy.deepcopy(images()[0]), pickle.loads(pickle.dumps(images()[0])), torch.load(file), y.tolist()):
        assert torch.equal(torch.as_tensor(got), plain)


class Net(nn.Module):
    """Convolutions of all kinds, norms, pools, a sum and a concatenation."""

    def __init__(self):
        super().__init__()
        self.first = nn.Sequential(nn.Conv2d(3, 24, 3, padding=1), nn.BatchNorm2d(24), nn.ReLU6(inplace=True))
        self.deep = nn.Sequential(nn.Conv2d(24, 24, 5, padding=2, groups=24), nn.BatchNorm2d(24), nn.Hardswish(),
                                  nn.Conv2d(24, 24, 3, padding=1, groups=4), nn.SiLU())
        self.down, self.up = nn.Conv2d(24, 32, 3, 2, 1), nn.ConvTranspose2d(32, 16, 2, 2)
        self.last = nn.Conv2d(40, 8, 3, padding=1)
        self.out = nn.Linear(8, 5)

    def forward(self, x):
        y = self.first(x)
        y = y + self.deep(y)
        z = self.up(F.relu(self.down(y)))
        z = self.last(torch.cat([z, F.max_pool2d(F.avg_pool2d(y, 3, 1, 1), 3, 1, 1)], 1))
        return self.out(F.adaptive_avg_pool2d(z, 1).flatten(1))


@pytest.mark.parametrize("how", ["eager", "compiled", "one thread"])
def test_a_network_learns_as_in_double_precision(how):
    torch.manual_seed(0)
    net = Net()
    exact = copy.deepcopy(net).double()
    x, target = torch.randn(8, 3, 40, 36), torch.randint(0, 5, (8,))

    def step(net, x):
        loss = F.cross_entropy(net(x), target)
        loss.backward()
        return loss.detach()
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(1 if how == "one thread" else threads)
        for _ in range(2):
            got = (torch.compile(step) if how == "compiled" else step)(net, x)
            torch.testing.assert_close(got.double(), step(exact, x.double()), rtol=1e-5, atol=0)
    finally:
        torch.set_num_threads(threads)
    for (name, p), q in zip(net.named_parameters(), exact.parameters(), strict=True):
        error = float((p.grad.double() - q.grad).abs().max() / max(float(q.grad.abs().max()), 1e-3))
        assert error < 2e-3, (name, error)
    for a, b in zip(net.buffers(), exact.buffers(), strict=True):
        torch.testing.assert_close(a.double(), b.double(), rtol=1e-4, atol=1e-5)


def test_weights_that_change_in_inference_are_heard():
    x, conv = torch.randn(4, 16, 30, 30), nn.Conv2d(16, 24, 3)
    array = conv.weight.detach().numpy()
    with torch.no_grad():
        for change in (lambda: None, lambda: None, lambda: conv.weight.mul_(2), lambda: array.__imul__(3),
                       lambda: conv.bias.add_(1)):
            change()
            exact = F.conv2d(x.double(), conv.weight.double(), conv.bias.double())
            torch.testing.assert_close(conv(x).double(), exact, rtol=1e-4, atol=1e-4)


def test_a_thread_that_looks_does_not_lose_what_another_writes():
    x, w = torch.randn(8, 16, 64, 64), torch.randn(32, 16, 3, 3)
    for _ in range(40):
        y = F.conv2d(x, w)
        expected = y.clone().add_(1).mul_(2)
        y = F.conv2d(x, w)
        reader = threading.Thread(target=lambda y=y: (y.flatten(1).sum(), y.relu(), y[0].tolist()))
        reader.start()
        y.add_(1)
        y.mul_(2)
        reader.join()
        assert torch.equal(y, expected)


def test_second_derivatives_and_hooks():
    torch.manual_seed(1)
    x, w = torch.randn(4, 8, 40, 40, requires_grad=True), torch.randn(16, 8, 3, 3, requires_grad=True)
    seen = []
    y = F.conv2d(x, w, padding=1)
    assert _C.lies_channels_last(y)
    y.register_hook(lambda g: seen.append(g.clone()))
    y.retain_grad()
    (g,) = torch.autograd.grad((y.tanh() ** 2).sum(), w, create_graph=True)
    g.square().sum().backward()
    X, W = x.detach().double().requires_grad_(), w.detach().double().requires_grad_()
    (G,) = torch.autograd.grad((F.conv2d(X, W, padding=1).tanh() ** 2).sum(), W, create_graph=True)
    G.square().sum().backward()
    torch.testing.assert_close(x.grad.double(), X.grad, rtol=1e-2, atol=1e-3 * float(X.grad.abs().max()))
    torch.testing.assert_close(w.grad.double(), W.grad, rtol=1e-2, atol=1e-3 * float(W.grad.abs().max()))
    assert seen and seen[0].shape == y.shape


@pytest.mark.parametrize("form", [
    (1, 1, 3, 1), (1, 2, 3, 1), (4, 1, 3, 1), (16, 1, 3, 1), (1, 1, 1, 1), (1, 1, 5, 2), (16, 1, 11, 1)])
@pytest.mark.parametrize("transposed", [False, True])
def test_weights_with_channels_last(form, transposed):
    """They are read as they lie, and their gradients lie so too."""
    groups, stride, kernel, dilation = form
    torch.manual_seed(0)
    x, w = torch.randn(2, 16, 24, 21), torch.randn(16, 16 // groups, kernel, kernel) / kernel
    op = F.conv_transpose2d if transposed else F.conv2d

    def passes(x, w):
        x, w = x.requires_grad_(), w.requires_grad_()
        y = op(x, w, None, stride, kernel // 2, groups=groups, dilation=dilation)
        return y, *torch.autograd.grad(y.square().sum(), (x, w))

    plain = passes(x.clone(), w.clone())
    last = passes(*(t.contiguous(memory_format=torch.channels_last) for t in (x, w)))
    for mine, other in zip(last, plain, strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-4, atol=1e-4 * float(other.abs().max()))
    if kernel > 1 and groups < 16:
        assert last[2].is_contiguous(memory_format=torch.channels_last) and not last[2].is_contiguous()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("form", [(1, 1, 3), (1, 2, 3), (4, 1, 3), (32, 1, 3), (32, 2, 3), (32, 1, 7), (1, 1, 1),
                                  (1, 2, 5)])
@pytest.mark.parametrize("transposed", [False, True])
def test_all_passes_of_each_dtype(form, transposed, dtype):
    """Of images and weights with channels last, and the bias, beside double precision."""
    groups, stride, kernel = form
    torch.manual_seed(1)
    x, w, b = torch.randn(2, 32, 24, 21), torch.randn(32, 32 // groups, kernel, kernel) / 32 / kernel, torch.randn(32)
    op = F.conv_transpose2d if transposed else F.conv2d

    def passes(*operands):
        operands = [t.requires_grad_() for t in operands]
        y = op(*operands, stride, kernel // 2, groups=groups)
        torch.manual_seed(2)
        return y, *torch.autograd.grad(y, operands, torch.randn(y.shape).to(dtype).to(y.dtype))

    given = [t.to(dtype) for t in (x, w, b)]
    expected = passes(*(t.double() for t in given))
    error = max(1e-5, 4 * torch.finfo(dtype).eps)
    for layout in (torch.contiguous_format, torch.channels_last):
        found = passes(*(t.contiguous(memory_format=layout) if t.ndim == 4 else t.clone() for t in given))
        assert found[0].is_contiguous(memory_format=layout)
        for mine, other in zip(found, expected, strict=True):
            assert mine.dtype == dtype
            torch.testing.assert_close(mine.double(), other, rtol=error, atol=error * float(other.abs().max()))
