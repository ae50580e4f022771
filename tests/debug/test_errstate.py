"""Floating-point errors, forward and backward."""

import warnings

import pytest

import flambeau

nn = flambeau.nn


@pytest.mark.parametrize(("kind", "call", "text"), [
    ("divide", lambda t: t([1.0, 2.0]) / t([1.0, 0.0]), r"div: divide by zero in 1 of 2 elements.* index \[1\]"),
    ("divide", lambda t: t([1.0, 0.0]).log(), "log: divide by zero"),
    ("over", lambda t: t([1.0, 100.0]).exp(), r"exp: overflow .*self = 100"),
    ("over", lambda t: t([3e38]).mul_(10), "mul: overflow"),
    ("invalid", lambda t: t([-1.0]).sqrt(), r"sqrt: invalid value .*self = -1"),
    ("invalid", lambda t: t([0.0]) / 0, "div: invalid value"),
    ("under", lambda t: t([1e-30]) * 1e-30, "mul: underflow"),
    ("under", lambda t: t([-200.0]).exp(), "exp: underflow"),
])
def test_kinds(kind, call, text):
    with flambeau.errstate(**{kind: "raise"}), pytest.raises(FloatingPointError, match=text):
        call(flambeau.tensor)
    call(flambeau.tensor)
    with flambeau.errstate(**{k: "raise" for k in ("divide", "over", "under", "invalid") if k != kind}):
        call(flambeau.tensor)


def test_what_is_passed_on_is_no_error():
    bad = flambeau.tensor([float("nan"), float("inf"), 1.0])
    with flambeau.errstate(all="raise"):
        (bad * 2 + 1).exp()
        bad.clone()[1:].sum()
        flambeau.rand(3).log_softmax(0)
        flambeau.tensor([0.0, 1.0]).exp()


def test_the_module_is_named():
    model = nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.Softplus(), nn.ReLU()))
    with flambeau.no_grad():
        model[0].weight.fill_(1e38)
    with flambeau.errstate(over="raise"), pytest.raises(FloatingPointError) as caught:
        model(flambeau.full((1, 2), 1e5))
    assert "linear: overflow" in str(caught.value) and "from 1e+38 to 1e+38" in str(caught.value)
    assert caught.value.__notes__[0].startswith("  in: 0 (Linear(")


def test_backward_too():
    w = flambeau.tensor([0.0, 1.0], requires_grad=True)
    with flambeau.errstate(divide="raise", over="raise"), pytest.raises(FloatingPointError) as caught:
        w.sqrt().sum().backward()
    text = "\n".join(caught.value.__notes__)
    assert "in the backward of: sqrt (SqrtBackward0)" in text and "w.sqrt().sum().backward()" in text


def test_warn_print_and_decorator(capsys):
    @flambeau.errstate(divide="print")
    def f():
        return flambeau.ones(1) / 0
    f()
    assert "div: divide by zero" in capsys.readouterr().err
    layer = nn.Softplus()
    layer.forward = lambda x: x.log()
    with warnings.catch_warnings(record=True) as caught, flambeau.errstate(all="warn"):
        warnings.simplefilter("always")
        layer(flambeau.zeros(1))
    assert "in: Softplus(" in str(caught[0].message)
    with pytest.raises(ValueError, match="over='shout'"):
        flambeau.errstate(over="shout")
