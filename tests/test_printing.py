"""How tensors are printed: PyTorch's texts."""

import json
from pathlib import Path

import pytest

import flambeau

from .printed import OPTIONS, drawn_texts, tensors

GOLDEN = json.loads((Path(__file__).parent / "printed.json").read_text())


@pytest.mark.parametrize("number", range(len(OPTIONS)), ids=lambda k: json.dumps(OPTIONS[k]))
def test_texts_are_pytorchs(number):
    try:
        flambeau.set_printoptions(**OPTIONS[number])
        texts = [repr(t) for t in tensors(flambeau)]
    finally:
        flambeau.set_printoptions(profile="default")
    assert texts == GOLDEN[number]


def test_drawn_texts_are_pytorchs():
    assert drawn_texts(flambeau) == GOLDEN[len(OPTIONS)]


def test_named_results():
    assert repr(flambeau.tensor([[1.0, 2.0]]).max(1)) == ("torch.return_types.max(\nvalues=tensor([2.]),\n"
                                                          "indices=tensor([1]))")


def test_gradients_and_subclasses():
    x = flambeau.ones(2, requires_grad=True)
    assert repr(x) == "tensor([1., 1.], requires_grad=True)"
    assert repr(x * 2) == "tensor([2., 2.], grad_fn=<MulBackward0>)"
    assert repr(flambeau.nn.Parameter(flambeau.ones(1))) == "Parameter containing:\ntensor([1.], requires_grad=True)"
    assert repr(flambeau.ones(2, 3, device="meta")) == "tensor(..., device='meta', size=(2, 3))"

    class Mine(flambeau.Tensor):
        pass

    assert repr(flambeau.ones(1).as_subclass(Mine)) == "Mine([1.])"
    assert f"{flambeau.tensor(1.5):.3f}" == "1.500"
    assert str(flambeau.tensor([True])) == "tensor([True])"


def test_long_suffixes_go_to_a_new_line():
    x = flambeau.full((9,), 0.125, requires_grad=True) * 1
    assert repr(x) == ("tensor([0.1250, 0.1250, 0.1250, 0.1250, 0.1250, 0.1250, 0.1250, 0.1250, 0.1250],\n"
                       "       grad_fn=<MulBackward0>)")


def test_options():
    before = flambeau.get_printoptions()
    with flambeau.printoptions(precision=1):
        assert repr(flambeau.tensor([0.25])) == "tensor([0.2])"
    assert flambeau.get_printoptions() == before
    with pytest.warns(UserWarning, match="no profile 'long', which changes nothing"):  # as YOLOv5 asks for
        flambeau.set_printoptions(profile="long")
    assert flambeau.get_printoptions() == before


def test_parameters_of_other_classes_say_so():
    class Own(flambeau.Tensor):
        pass

    text = repr(flambeau.nn.Parameter(flambeau.ones(2).as_subclass(Own), requires_grad=False))
    assert text == "Parameter(Own([1., 1.]))"


@pytest.mark.parametrize("name, number", [
    ("nn.attention.SDPBackend.MATH", 0), ("distributed.ReduceOp.SUM", 0), ("onnx.TrainingMode.TRAINING", 2),
    ("monitor.Aggregation.SUM", 4), ("nn.functional.ScalingType.RowWise", 1)])
def test_values_of_enumerations_print_as_names_and_count_as_numbers(name, number):
    value = flambeau
    for part in name.split("."):
        value = getattr(value, part)
    assert str(value) == f"{value}" == f"{type(value).__name__}.{name.rpartition('.')[2]}" and value == number
