"""Orders of the arguments that old programs write, with numbers before the tensors they belong to."""

import subprocess
import sys
import warnings

import pytest

import flambeau as fb
from flambeau.ops.kinds import OLDER, OPS

from .battery import samples

CASES = [(name, order) for name, orders in OLDER.items() for order in orders]


def call(form, order, arguments):
    """The form on the arguments that `order` names, in that order."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return form(*(arguments[name] for name in order.split()))


def tensors_of(name):
    """The tensors of the operator's first sample, by their names in its schema, and what its numbers are called."""
    names = [name for name, *_ in OPS[name].arguments]
    sample = next(s for s in samples(name, fb.float32) if all(isinstance(t, fb.Tensor) for t in s.args[:2]))
    return dict(zip(names, sample.args, strict=False)), names[len(sample.args):]


@pytest.mark.parametrize(("name", "order"), CASES)
def test_an_older_order_is_the_same_call(name, order):
    tensors, numbers = tensors_of(name)
    given = {number: 3 - k for k, number in enumerate(numbers) if number in order.split()}
    expected = getattr(fb, name)(*tensors.values(), **given)
    arguments = tensors | given
    assert fb.equal(call(getattr(fb, name), order, arguments), expected)
    as_method = " ".join(n for n in order.split() if n != "self")
    assert fb.equal(call(getattr(tensors["self"], name), as_method, arguments), expected)
    out = fb.empty(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        getattr(fb, name)(*(arguments[n] for n in order.split()), out=out)
    assert fb.equal(out, expected)
    if tensors["self"].shape == expected.shape:
        itself = tensors["self"].clone()
        assert call(getattr(itself, name + "_"), as_method, arguments) is itself
        assert fb.equal(itself, expected)


@pytest.mark.parametrize("name", OLDER)
def test_every_tensor_and_number_is_in_the_longest_order(name):
    assert sorted(max(OLDER[name], key=len).split()) == sorted(n for n, *_ in OPS[name].arguments)


def test_a_step_of_an_old_optimizer():
    p, grad, mean, square = fb.ones(3), fb.tensor([1., 2., 3.]), fb.zeros(3), fb.zeros(3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        mean.mul_(0.9).add_(1 - 0.9, grad)
        square.mul_(0.999).addcmul_(1 - 0.999, grad, grad)
        p.addcdiv_(-0.1, mean, square.sqrt().add_(1e-8))
    assert fb.allclose(p, 1 - 0.1 * (0.1 * grad) / (0.001 ** 0.5 * grad + 1e-8))


SAID = """
import warnings, flambeau
x = flambeau.ones(2)
with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always")
    x.add(2, x), x.add_(2, x)
print(len(seen), seen[0].category.__name__, seen[0].message)
"""


def test_it_is_said_once_how_to_write_it():
    said = subprocess.run([sys.executable, "-c", SAID], text=True, capture_output=True, check=True).stdout
    assert said.startswith("1 UserWarning add(): ") and "add(Tensor self, Tensor other, *, Scalar alpha=1)" in said


def test_numbers_that_are_in_the_wrong_place_are_refused():
    x = fb.ones(2)
    with pytest.raises(TypeError, match="takes 2 positional arguments but 3"):
        fb.add(x, x, x)
    with pytest.raises(TypeError, match="multiple values for argument 'alpha'"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fb.add(x, 2, x, alpha=1)
    with pytest.raises(TypeError, match="addmm"):
        fb.ones(2, 2).addmm(2, fb.ones(2, 2), 3, fb.ones(2, 2))


@pytest.mark.parametrize(("name", "numbers", "expected"), [
    ("add", (3, 2), 5), ("add", (True, 2), 3), ("sub", (3, 2.5), 0.5), ("mul", (2, 1j), 2j), ("div", (3, 2), 1.5),
    ("floor_divide", (7, 2), 3), ("mul", (True, True), True)])
def test_numbers_alone(name, numbers, expected):
    result = getattr(fb, name)(*numbers)
    assert fb.equal(result, fb.tensor(expected)) and result.dtype is fb.tensor(expected).dtype
