"""Large float32 products, which processors with instructions for matrices of bfloat16 compute from numbers in three
parts: as exact as float32, with all its infinite and very small results, and the same on any number of threads."""

import threading

import numpy as np
import pytest

import flambeau
from flambeau import backends, nn

SHAPES = [(256, 256, 256), (501, 517, 333), (1900, 250, 150), (250, 2100, 129), (600, 400, 5000), (170, 9000, 200),
          (2100, 180, 2300)]
SEED = np.random.default_rng(0)


@pytest.fixture
def plain():
    """Runs what it is given by vectors of float32."""
    def run(f):
        backends.mkldnn.matmul.fp32_precision = "ieee"
        try:
            return f()
        finally:
            backends.mkldnn.matmul.fp32_precision = "none"
    return run


def numbers(*shape, turned=False):
    x = flambeau.tensor(SEED.standard_normal(shape[::-1] if turned else shape).astype("f"))
    return x.t() if turned else x


def rms(got, want):
    return np.sqrt(np.mean((got.numpy().astype("d") - want) ** 2))


@pytest.mark.parametrize(("m", "n", "k"), SHAPES)
@pytest.mark.parametrize(("left", "right"), [(False, False), (False, True), (True, False), (True, True)])
def test_sums_are_as_exact_as_those_of_vectors(m, n, k, left, right, plain):
    a, b = numbers(m, k, turned=left), numbers(k, n, turned=right)
    want = a.numpy().astype("d") @ b.numpy().astype("d")
    # four sums of vectors may stand side by side in a product; one of parts goes through all of k
    assert rms(a @ b, want) <= 1.6 * max(rms(plain(lambda: a @ b), want), 1e-7 * np.sqrt(k))


def test_products_of_integers_are_exact():
    a = flambeau.tensor(SEED.integers(-90, 90, (500, 400)).astype("f"))
    b = flambeau.tensor(SEED.integers(-90, 90, (400, 500)).astype("f"))
    assert np.array_equal((a @ b).numpy(), a.numpy().astype("d") @ b.numpy().astype("d"))
    large = flambeau.eye(500) * 16777215.0
    assert np.array_equal((large @ a).numpy(), np.float32(16777215) * a.numpy())


def test_slices_and_every_epilogue(plain):
    a, b, c = numbers(400, 700)[3:393, 5:405], numbers(410, 600)[7:407, 1:501], numbers(390, 501)[:, :500]
    bias, weight = numbers(500), numbers(500, 400)
    for f in (lambda: flambeau.addmm(c, a, b, alpha=-0.5, beta=2.0), lambda: flambeau.addmm(bias, a, b),
              lambda: flambeau.baddbmm(c.expand(3, 390, 500), a.expand(3, 390, 400), b.expand(3, 400, 500)),
              lambda: nn.functional.linear(a, weight, bias).relu()):
        assert np.allclose(f().numpy(), plain(f).numpy(), rtol=1e-5, atol=1e-4)
    out = flambeau.zeros(390, 512)
    flambeau.mm(a, b, out=out[:, 6:506])
    assert flambeau.equal(out[:, 6:506], a @ b) and not out[:, :6].any() and not out[:, 506:].any()


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan, 3.4e38, -3.40282e38])
@pytest.mark.parametrize("operand", [0, 1])
def test_what_has_no_parts_spoils_only_its_own_sums(value, operand, plain):
    operands = [numbers(300, 600), numbers(600, 700)]
    before = operands[0] @ operands[1]
    operands[operand][123, 234] = value
    got, want = operands[0] @ operands[1], plain(lambda: operands[0] @ operands[1])
    assert np.allclose(got.numpy(), want.numpy(), rtol=2e-5, atol=1e-4, equal_nan=True)
    untouched = np.ones(got.shape, bool)
    untouched[(123, slice(None)) if operand == 0 else (slice(None), 234)] = False
    assert np.allclose(got.numpy()[untouched], before.numpy()[untouched], rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("exponent", [-60, -52, -48, 62])
def test_very_small_and_large_results(exponent, plain):
    a, b = numbers(512, 300).abs() * 2.0 ** exponent, numbers(300, 512).abs() * 2.0 ** exponent
    got, want = (a @ b).numpy(), plain(lambda: a @ b).numpy()
    normal = np.abs(want) >= 2.0 ** -126
    assert np.allclose(got[normal], want[normal], rtol=1e-5, atol=0)
    assert np.abs(got[~normal]).max(initial=0) <= 2.0 ** -126


def test_a_row_of_small_numbers_keeps_its_digits(plain):
    a, b = numbers(512, 300), numbers(300, 512)
    a[17] *= 2.0 ** -105
    assert np.allclose((a @ b)[17].numpy(), plain(lambda: a @ b)[17].numpy(), rtol=1e-4, atol=2.0 ** -105 * 1e-4)


def on_threads(f):
    threads, results = flambeau.get_num_threads(), []
    try:
        for n in (1, 2, 3, 8):
            flambeau.set_num_threads(n)
            results.append(f().numpy())
    finally:
        flambeau.set_num_threads(threads)
    return results


def test_the_number_of_threads_changes_nothing():
    a, b = numbers(500, 700), numbers(700, 900)
    a[3, 5], b[6, 800], a[400] = np.inf, np.nan, a[400] * 1e-38
    first, *others = on_threads(lambda: a @ b)
    assert all(np.array_equal(first, r, equal_nan=True) for r in others)
    layer, x = nn.LSTM(64, 96), numbers(5, 70 * 64).reshape(5, 70, 64).clone()
    x[1, 9], x[2, 50] = np.nan, 1e-37
    first, *others = on_threads(lambda: layer(x)[0].detach())
    assert all(np.array_equal(first, r, equal_nan=True) for r in others)


def test_numbers_do_not_depend_on_their_neighbours():
    a, b = numbers(500, 700), numbers(700, 900)
    before = a @ b
    a[17], b[:, 300] = np.nan, np.inf
    after = a @ b
    assert flambeau.equal(after[18:, :300], before[18:, :300]) and flambeau.equal(after[:17, 301:], before[:17, 301:])


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
@pytest.mark.parametrize(("batch", "inputs", "hidden"), [(20, 64, 96), (33, 200, 130), (70, 50, 640)])
def test_recurrent_layers(kind, batch, inputs, hidden, plain):
    flambeau.manual_seed(0)
    layer = kind(inputs, hidden)
    x = numbers(7, batch * inputs).reshape(7, batch, inputs).clone().requires_grad_()

    def step():
        results = layer(x)[0]
        return [results, *flambeau.autograd.grad(results.square().sum(), [x, *layer.parameters()])]
    for got, want in zip(step(), plain(step), strict=True):
        assert np.allclose(got.detach().numpy(), want.detach().numpy(), rtol=1e-4, atol=1e-4 * want.abs().max().item())


def test_a_sequence_that_is_no_number_leaves_the_others_alone():
    flambeau.manual_seed(0)
    layer, x = nn.LSTM(64, 96), numbers(5, 20 * 64).reshape(5, 20, 64)
    want = layer(x)[0]
    x = x.clone()
    x[2, 7] = np.nan
    got = layer(x)[0]
    assert got[2:, 7].isnan().all() and not got[:2].isnan().any()
    others = [k for k in range(20) if k != 7]
    assert flambeau.allclose(got[:, others], want[:, others], rtol=1e-5, atol=1e-6)


def in_a_thread(f, *args):
    results = []
    thread = threading.Thread(target=lambda: results.append(f(*args)))
    thread.start()
    thread.join()
    return results[0]


def test_no_memory_left_for_the_parts():
    a, b, c = numbers(500, 600), numbers(600, 700), numbers(500, 700)
    want, failures = a @ b, 0

    def attempt(n):  # in a thread that has no scratch memory yet
        out = c.clone()
        flambeau._C.fail_allocation(n)
        try:
            return flambeau.mm(a, b, out=out)
        except (MemoryError, flambeau.OutOfMemoryError):
            return None
        finally:
            flambeau._C.fail_allocation(0)
    for n in range(1, 20):
        got = in_a_thread(attempt, n)
        failures += got is None
        assert got is None or flambeau.equal(got, want)
        assert flambeau.equal(a @ b, want)
    assert failures


def test_the_switch():
    assert backends.mkldnn.matmul.fp32_precision == "none"
    with pytest.raises(RuntimeError, match="fp32_precision: expected one of"):
        backends.mkldnn.matmul.fp32_precision = "half"
    before, a = flambeau._C.splits_floats(), numbers(600, 600)
    usual = a @ a
    for value in ("ieee", "tf32", "bf16", "none"):
        backends.mkldnn.matmul.fp32_precision = value
        assert backends.mkldnn.matmul.fp32_precision == value
        assert flambeau._C.splits_floats() == (before and value != "ieee")
        assert flambeau.equal(a @ a, usual) == (value == "none" or not before)


@pytest.fixture
def allowed():
    """Sets what float32 products may lose, until the test ends."""
    yield flambeau.set_float32_matmul_precision
    flambeau.set_float32_matmul_precision("highest")


@pytest.mark.parametrize(("m", "n", "k"), [*SHAPES, (128, 128, 512), (160, 130, 97), (300, 64, 200)])
@pytest.mark.parametrize(("left", "right"), [(False, False), (True, True)])
def test_fewer_parts_where_a_program_allows_them(m, n, k, left, right, allowed):
    a, b = numbers(m, k, turned=left), numbers(k, n, turned=right)
    exact = a @ b
    want, size = exact.numpy().astype("d"), np.sqrt(k)
    allowed("high")
    assert rms(a @ b, want) <= 2.0**-16 * size  # 16 bits of each factor
    allowed("medium")
    rounded = a.bfloat16().float(), b.bfloat16().float()
    found = a @ b
    by_rounded = rms(found, rounded[0].numpy().astype("d") @ rounded[1].numpy().astype("d")) <= 1e-6 * size
    assert by_rounded or flambeau.equal(found, exact)  # by processors without such instructions
    allowed("highest")
    assert flambeau.equal(a @ b, exact)


def test_what_is_allowed_reaches_linear_layers_and_their_gradients_but_no_filters(allowed):
    layer, x = nn.Linear(512, 384), numbers(256, 512).requires_grad_()
    one, three = nn.Conv2d(256, 256, 1), nn.Conv2d(64, 64, 3)
    image, small = numbers(4, 256, 16, 16), numbers(4, 64, 16, 16)

    def found():
        out = layer(x)
        grads = flambeau.autograd.grad((out * out).sum(), [x, *layer.parameters()])
        return [out.detach(), *grads], [one(image).detach(), three(small).detach()]
    layers, filters = found()
    for precision, share in (("high", 2e-5), ("medium", 8e-3)):
        allowed(precision)
        less, same = found()
        assert all(float((a - b).norm() / b.norm()) < share for a, b in zip(less, layers, strict=True))
        assert all(map(flambeau.equal, same, filters))
        if flambeau._C.splits_floats():
            assert not flambeau.equal(less[0], layers[0])


def test_fewer_parts_keep_infinite_and_very_small_results(allowed):
    a, b = numbers(300, 400), numbers(400, 300)
    a[7, 9], b[3, 5], a[11] = np.inf, np.nan, a[11] * 2.0**-110
    want = a @ b
    for precision in ("high", "medium"):
        allowed(precision)
        found = a @ b
        assert flambeau.equal(found[7].isfinite(), want[7].isfinite()) and found[:, 5].isnan().all()
        assert np.allclose(found[11, 6:].numpy(), want[11, 6:].numpy(), rtol=2e-2, atol=0)


@pytest.mark.parametrize("precision", ("high", "medium"))
def test_fewer_parts_do_not_depend_on_threads(precision, allowed):
    a, b = numbers(700, 500), numbers(500, 900)
    allowed(precision)
    first, *others = on_threads(lambda: a @ b)
    assert all(np.array_equal(first, r) for r in others)


@pytest.mark.parametrize(("images", "channels", "filters", "side", "padding"),
                         [(2, 64, 64, 20, 1), (3, 50, 70, 17, 1), (1, 64, 200, 15, 2), (2, 300, 128, 21, 1),
                          (2, 200, 230, 14, 0), (1, 130, 48, 31, 1)])
@pytest.mark.parametrize("last", [False, True])
def test_filters_of_three_by_three(images, channels, filters, side, padding, last, plain):
    form = flambeau.channels_last if last else flambeau.contiguous_format
    x = numbers(images * channels * side, side + 3).reshape(images, channels, side, side + 3).contiguous()
    x = x.contiguous(memory_format=flambeau.channels_last).requires_grad_()
    w = (numbers(filters * channels, 9).reshape(filters, channels, 3, 3) * 0.1).contiguous(memory_format=form)
    w.requires_grad_()

    def step(x, w):
        y = nn.functional.conv2d(x, w, padding=padding)
        factor = flambeau.arange(y.numel(), dtype=flambeau.float64).reshape(y.shape).sin().to(y.dtype)
        return [y.detach(), *flambeau.autograd.grad((y * factor).sum(), [x, w])]
    exact = step(x.double(), w.double())
    for got, by_vectors, want in zip(step(x, w), plain(lambda: step(x, w)), exact, strict=True):
        want = want.numpy()
        assert rms(got, want) <= 1.6 * max(rms(by_vectors, want), 1e-7 * np.abs(want).max())


def test_kept_weights_are_packed_for_each_way(plain):
    layer = nn.Conv2d(96, 64, 3, padding=1).eval()
    x = numbers(96, 400).reshape(1, 96, 20, 20)

    def run():
        with flambeau.no_grad():
            return layer(x)
    first, whole = run(), plain(run)
    for _ in range(5):
        assert flambeau.equal(plain(run), whole) and flambeau.equal(run(), first)
    assert np.allclose(first.numpy(), whole.numpy(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("batch", "ins", "outs", "side", "stride"), [(4, 256, 512, 14, 1), (2, 400, 400, 29, 2)])
def test_filters_of_one_place(batch, ins, outs, side, stride, plain):
    x = numbers(batch * ins, side * side).reshape(batch, ins, side, side)
    x = x.contiguous(memory_format=flambeau.channels_last).requires_grad_()
    w = numbers(outs, ins).reshape(outs, ins, 1, 1).requires_grad_()

    def step(x, w):
        y = nn.functional.conv2d(x, w, stride=stride)
        return [y.detach(), *flambeau.autograd.grad(y.square().sum(), [x, w])]
    exact = step(x.double(), w.double())
    for got, by_vectors, want in zip(step(x, w), plain(lambda: step(x, w)), exact, strict=True):
        want = want.numpy()
        assert rms(got, want) <= 1.6 * max(rms(by_vectors, want), 1e-7 * np.abs(want).max())
