"""Anomaly mode, and what an exception in backward says without it."""

import warnings

import pytest

import flambeau
from flambeau.autograd import Function, detect_anomaly, set_detect_anomaly

nn = flambeau.nn


class Fails(Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, g):
        raise KeyError("no derivative")


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = nn.Linear(3, 3)

    def forward(self, x):
        return Fails.apply(self.proj(x))  # the line that is named


def notes_of(f):
    with pytest.raises(Exception) as caught:
        f()
    return "\n".join(caught.value.__notes__)


def test_an_exception_in_backward_names_line_module_and_shapes():
    model = nn.Sequential(nn.ReLU(), nn.Sequential(Block()))
    y = model(flambeau.ones(2, 3))
    text = notes_of(lambda: y.sum().backward())
    assert "in the backward of: FailsBackward, gradient for [2, 3] from [2, 3]" in text
    assert f'forward: File "{__file__}", line ' in text and "in Block.forward" in text
    assert "return Fails.apply(self.proj(x))  # the line that is named" in text
    assert "in: 1.0 (Block())" in text


def test_the_line_is_the_users_and_not_the_librarys():
    layer = nn.Linear(2, 2)
    node = layer(flambeau.ones(1, 2)).grad_fn
    assert node.origin[0] == __file__
    assert node.modules == [layer]


def test_modules_are_not_kept_alive():
    layer = nn.Linear(2, 2)
    y = layer(flambeau.ones(1, 2, requires_grad=True))
    del layer
    assert y.grad_fn.modules == [None]


def test_nan_in_backward():
    x = flambeau.tensor([0.0, 1.0], requires_grad=True)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with detect_anomaly(), pytest.raises(RuntimeError, match="SqrtBackward0: gradient 0 contains NaN"):
            (x * 0).sqrt().mul(0).sum().backward()
    texts = [str(w.message) for w in caught]
    assert texts[0].startswith("anomaly detection is on")
    assert "backward failed in SqrtBackward0, which this call recorded:" in texts[1]
    assert "(x * 0).sqrt()" in texts[1]


def test_nan_check_can_be_left_out():
    x = flambeau.tensor([0.0], requires_grad=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with detect_anomaly(check_nan=False):
            (x * 0).sqrt().mul(0).sum().backward()
    assert x.grad.isnan().all()


def test_switch_as_a_function_and_as_a_scope():
    anomaly = flambeau.autograd.anomaly_mode
    with set_detect_anomaly(True, check_nan=False):
        assert flambeau.is_anomaly_enabled is anomaly.is_anomaly_enabled
        assert anomaly.is_anomaly_enabled() and not anomaly.is_anomaly_check_nan_enabled()
    assert not anomaly.is_anomaly_enabled()
    set_detect_anomaly(True)
    assert anomaly.is_anomaly_enabled() and anomaly.is_anomaly_check_nan_enabled()
    set_detect_anomaly(False)
    assert not anomaly.is_anomaly_enabled()


def test_second_derivatives_name_what_induced_them():
    x = flambeau.tensor([0.0], requires_grad=True)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with detect_anomaly():
            (g,) = flambeau.autograd.grad((x ** 1.5).sum(), x, create_graph=True)
            with pytest.raises(RuntimeError, match="contains NaN"):
                (g * 0).sum().backward()
    assert any("That call belongs to the backward of PowBackward0" in str(w.message) for w in caught)
