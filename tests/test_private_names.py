"""Names with a leading underscore that packages call: what they check and compute."""

import pytest

import flambeau


@pytest.mark.parametrize(("name", "error"), [("", RuntimeError), ("_index", IndexError), ("_value", ValueError),
                                             ("_type", TypeError), ("_not_implemented", NotImplementedError)])
def test_checks(name, error):
    check = getattr(flambeau, f"_check{name}")
    check(True)
    with pytest.raises(error, match="does not hold"):
        check(False)
    with pytest.raises(error, match="it is 3"):
        check(False, lambda: "it is 3")


def test_check_with_an_error_of_ones_own():
    flambeau._check_with(KeyError, True, lambda: "no")
    with pytest.raises(KeyError, match="here"):
        flambeau._check_with(KeyError, False, lambda: "here")


@pytest.mark.parametrize("call", [
    lambda: flambeau._check(1), lambda: flambeau._check(flambeau.tensor(True)),
    lambda: flambeau._check(False, "a text"), lambda: flambeau._check_tensor_all(flambeau.tensor([1])),
    lambda: flambeau._check_tensor_all(True)])
def test_what_cannot_be_checked(call):
    with pytest.raises(TypeError, match="_check"):
        call()


def test_check_of_all_elements_and_of_sizes():
    flambeau._check_tensor_all(flambeau.tensor([True, True]))
    with pytest.raises(RuntimeError, match="all of them"):
        flambeau._check_tensor_all(flambeau.tensor([True, False]), lambda: "all of them")
    with pytest.raises(ValueError):
        flambeau._check_tensor_all_with(ValueError, flambeau.tensor([False]))
    flambeau._check_is_size(0)
    flambeau._check_is_size(3, max=3)
    for size, most in ((-1, None), (4, 3)):
        with pytest.raises(RuntimeError):
            flambeau._check_is_size(size, max=most)


def test_assert_async_is_at_once():
    flambeau._assert_async(flambeau.tensor(2))
    with pytest.raises(RuntimeError, match="mine"):
        flambeau._assert_async(flambeau.tensor(0), "mine")


def test_shape_as_tensor():
    assert flambeau._shape_as_tensor(flambeau.ones(2, 3)).tolist() == [2, 3]
    assert flambeau._shape_as_tensor(flambeau.tensor(1.0)).tolist() == []
    assert flambeau._shape_as_tensor(flambeau.tensor(1.0)).dtype is flambeau.int64


@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
def test_backward_of_softmax(name):
    x, g = flambeau.rand(2, 3, requires_grad=True), flambeau.rand(2, 3)
    out = getattr(flambeau, name)(x, 1)
    out.backward(g)
    found = getattr(flambeau, f"_{name}_backward_data")(g, out.detach(), 1, flambeau.float32)
    flambeau.testing.assert_close(found, x.grad)
