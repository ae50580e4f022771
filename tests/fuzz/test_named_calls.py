"""Calls that once killed the process, hung it, or were accepted where PyTorch refuses: each is one named case."""

import signal
import subprocess
import sys

import pytest

import flambeau
from flambeau import nn
from flambeau.nn import functional as F

SURVIVED = """
import flambeau
from flambeau import nn
class Wrapper(flambeau.Tensor):
    @staticmethod
    def __new__(cls): return flambeau.Tensor._make_wrapper_subclass(cls, (2,), dtype=flambeau.float32)
    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None): raise KeyError("no values")
def fails(call, *errors):
    try: call()
    except errors: return
    raise AssertionError("no exception")
"""


def survives(text):
    found = subprocess.run([sys.executable, "-c", SURVIVED + text], capture_output=True, text=True, timeout=60,
                           check=False)
    assert found.returncode == 0, found.stderr[-2000:]


@pytest.mark.parametrize("call", [
    "flambeau.zeros(2, device='\\ud800')", "flambeau.range(1.5, device='\\ud800')", "flambeau.device('\\ud800')",
    "flambeau.full((2,), 1, device='\\ud800')", "nn.Linear(2, 2, device='\\ud800')"])
def test_a_device_that_no_utf8_can_spell(call):
    survives(f"fails(lambda: {call}, RuntimeError, UnicodeError)")


def test_data_of_a_tensor_is_never_a_wrapper_without_memory():
    survives("""
for x in (flambeau.ones(2), flambeau.ones(2, requires_grad=True), nn.Parameter(flambeau.ones(2))):
    fails(lambda: setattr(x, "data", Wrapper()), RuntimeError)
    assert (x + 1).tolist() == [2, 2] and flambeau.logical_or(x, x).all()
""")


def test_an_undone_pad_and_indices_of_the_widest_diagonal():
    survives("""
x = flambeau.zeros(1, 2, 3)
try: nn.functional.pad(x, [3, -4], "replicate")
except (RuntimeError, ValueError): pass
for f in (flambeau.tril_indices, flambeau.triu_indices):
    for offset in (-2 ** 63, 2 ** 63 - 1):
        try: assert f(3, 4, offset).shape[0] == 2
        except (RuntimeError, ValueError, MemoryError): pass
""")


@pytest.mark.parametrize("name", ["laguerre_polynomial_l", "legendre_polynomial_p"])
@pytest.mark.parametrize("shape", [(), (2, 3), (300,)])
def test_a_polynomial_of_endless_degree_can_be_interrupted(name, shape):
    class Stopped(BaseException):
        pass

    def stop(*_):
        raise Stopped
    before = signal.signal(signal.SIGALRM, stop)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        with pytest.raises(Stopped):
            getattr(flambeau.special, name)(flambeau.full(shape, 0.3), 2 ** 62)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_a_message_keeps_the_ends_of_a_long_argument():
    with pytest.raises((RuntimeError, TypeError, ValueError)) as error:
        flambeau.device("x" * 10 ** 6)
    assert len(str(error.value)) < 5000 and "left out" in str(error.value)


# --- what PyTorch refuses -------------------------------------------------------------------------------------------

INTEGERS = [flambeau.uint8, flambeau.int8, flambeau.int16, flambeau.int32, flambeau.int64]


@pytest.mark.parametrize("dtype", INTEGERS[1:4])
@pytest.mark.parametrize("loss", [F.cross_entropy, F.nll_loss, F.multi_margin_loss])
def test_class_indices_are_int64(loss, dtype):
    x, target = flambeau.rand(2, 3), flambeau.tensor([0, 2])
    loss(x, target)
    with pytest.raises(RuntimeError, match="int64"):
        loss(x, target.to(dtype))
    with pytest.raises(RuntimeError, match="int64"):
        F.multilabel_margin_loss(x, flambeau.zeros(2, 3, dtype=dtype))


def test_class_indices_may_be_bytes_where_there_are_no_places():
    target = flambeau.tensor([0, 2], dtype=flambeau.uint8)
    assert F.cross_entropy(flambeau.zeros(2, 3), target) > 1
    with pytest.raises(RuntimeError, match="int64"):
        F.cross_entropy(flambeau.rand(1, 3, 2), target[None])


@pytest.mark.parametrize("loss", [F.cross_entropy, F.nll_loss])
def test_class_weights_have_the_inputs_dtype(loss):
    x, target = flambeau.rand(2, 3), flambeau.tensor([0, 2])
    loss(x, target, weight=flambeau.ones(3))
    for dtype in (flambeau.float64, flambeau.float16, flambeau.int64):
        with pytest.raises(RuntimeError, match="weight"):
            loss(x, target, weight=flambeau.ones(3, dtype=dtype))


@pytest.mark.parametrize("dtype", [flambeau.bool, *INTEGERS])
@pytest.mark.parametrize("loss", [F.binary_cross_entropy, F.binary_cross_entropy_with_logits, F.kl_div])
def test_targets_of_probabilities_are_floating(loss, dtype):
    with pytest.raises(RuntimeError, match="target"):
        loss(flambeau.rand(2, 3), flambeau.ones(2, 3, dtype=dtype))


def test_binary_cross_entropy_wants_one_dtype():
    with pytest.raises(RuntimeError, match="dtype"):
        F.binary_cross_entropy(flambeau.rand(2), flambeau.ones(2, dtype=flambeau.float64))


def test_indices_that_pytorch_refuses():
    x = flambeau.zeros(3, 3)
    index = flambeau.tensor([0, 1], dtype=flambeau.int32)
    with pytest.raises(IndexError):
        x.index_fill(0, index, 1.0)
    with pytest.raises(RuntimeError):
        x.index_copy(0, index, flambeau.ones(2, 3))
    for dtype in (flambeau.int8, flambeau.int16):
        with pytest.raises(IndexError):
            x[index.to(dtype)]
        with pytest.raises(IndexError):
            x[index.to(dtype)] = 1.0
    assert x[index].shape == (2, 3)


@pytest.mark.parametrize("dtype", [flambeau.bool, *INTEGERS])
def test_the_mean_of_integers_is_refused(dtype):
    with pytest.raises(RuntimeError):
        flambeau.ones(3, dtype=dtype).mean()


def test_booleans_are_not_subtracted():
    a = flambeau.tensor([True, False])
    for call in (lambda: a - a, lambda: 1 - a, lambda: -a, lambda: a.sub_(a), lambda: flambeau.rsub(a, a)):
        with pytest.raises(RuntimeError):
            call()


class Unfinished(nn.Module):
    def __init__(self):
        self.plain = 1

    def forward(self, x):
        return x


@pytest.mark.parametrize("use", [
    lambda m: m(1), lambda m: nn.Sequential(m)(1), lambda m: m.register_forward_hook(print),
    lambda m: m.register_forward_pre_hook(print), lambda m: m.register_full_backward_hook(print), repr,
    lambda m: list(m.parameters()), lambda m: m.state_dict(), lambda m: m.train(), lambda m: m.load_state_dict({}),
    lambda m: setattr(m, "layer", nn.Linear(1, 1)), lambda m: setattr(m, "p", nn.Parameter(flambeau.ones(1)))])
def test_a_module_that_skips_the_base_init_is_refused(use):
    module = Unfinished()
    assert module.plain == 1 and module.forward(2) == 2
    with pytest.raises(AttributeError):
        use(module)


class NoMemory(flambeau.Tensor):
    """A wrapper: sizes and a dtype, no memory."""

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        return f"{function.name} was dispatched"


@pytest.mark.parametrize("call", [
    lambda out: flambeau.sqrt(flambeau.ones(3), out=out), lambda out: flambeau.add(flambeau.ones(3), 1, out=out),
    lambda out: flambeau.logical_and(flambeau.ones(3), flambeau.ones(1), out=out),
    lambda out: flambeau.special.airy_ai(flambeau.ones(3), out=out),
    lambda out: flambeau.sum(flambeau.ones(3, 2), 1, out=out), lambda out: flambeau.cat([flambeau.ones(3)], out=out)])
def test_a_wrapper_as_out_is_never_written_to(call):
    with pytest.raises((TypeError, RuntimeError)):  # its dispatch returns no tensor, or it has no memory
        call(flambeau.Tensor._make_wrapper_subclass(NoMemory, (3,)))


def test_out_of_a_transform_is_refused():
    """Before, the tensor behind the level was written to, shared by all examples."""
    with pytest.raises(RuntimeError, match="out="):
        flambeau.vmap(lambda row: flambeau.sqrt(flambeau.ones(4), out=row))(flambeau.rand(3, 4))


@pytest.mark.parametrize("mode", ["replicate", "reflect"])  # "circular" repeats what the crop has left
def test_a_border_that_is_cropped_itself_stays_inside_its_memory(mode):
    """Wrote behind the result: five elements were put before, but only four remain."""
    x = flambeau.arange(6.0).reshape(1, 1, 6)
    whole = flambeau.nn.functional.pad(x, [5, 0], mode)
    for after in range(0, -11, -1):
        cropped = flambeau.nn.functional.pad(x, [5, after], mode)
        assert cropped.tolist() == whole[..., :11 + after].tolist()
    one = flambeau.ones(1, 1, 1, requires_grad=True)
    if mode == "replicate":
        padded = flambeau.nn.functional.pad(one, [5, -2], mode)
        padded.sum().backward()
        assert padded.tolist() == [[[1.0] * 4]] and one.grad.item() == 4
