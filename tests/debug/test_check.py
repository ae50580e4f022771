"""check: outputs in names, what sizes must satisfy, and where dimensions disagree."""

from typing import Annotated

import pytest

import flambeau
from flambeau import Tensor, nn
from flambeau.debug import _dims


class Joined(nn.Module):
    def forward(self, a, b):
        return flambeau.cat([a, b], 1)


class Product(nn.Module):
    def forward(self, a, b):
        return a @ b


class Net(nn.Module):
    """Down and up again: only even heights and widths meet."""

    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(3, 8, 3, padding=1)
        self.pool = nn.MaxPool2d(2)
        self.up = nn.Upsample(scale_factor=2)

    def forward(self, x: 'Float[Tensor, "batch 3 h w"]') -> 'Float[Tensor, "batch channels h w"]':  # noqa: F722, F821
        a = self.first(x)
        return flambeau.cat([a, self.up(self.pool(a))], 1)


class Words(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(100, 16)
        self.place = nn.Parameter(flambeau.zeros(50, 16))

    def forward(self, x: Annotated[Tensor, "int64: batch seq"]) -> Annotated[Tensor, "batch seq 16"]:
        return self.embed(x) + self.place[:x.shape[1]]


@pytest.mark.parametrize(("model", "inputs", "outputs"), [
    (nn.Linear(4, 8), ["batch 4"], ["batch 8"]),
    (nn.Linear(4, 8), ["... 4"], ["_0_0_1 _0_0_2 8"]),
    (nn.Conv1d(3, 5, 3), ["batch 3 steps"], ["batch 5 steps-2"]),
    (nn.Conv1d(3, 5, 3, stride=2, padding=1), ["batch 3 steps"], ["batch 5 (steps+1)//2"]),
    (nn.Flatten(), ["batch 3 h w"], ["batch 3*h*w"]),
    (nn.LSTM(8, 16, 2), ["steps batch 8"], ["steps batch 16", "2 batch 16", "2 batch 16"]),
    (Joined(), ["n a", "n b"], ["n a+b"]),
    (Product(), ["n k", "k m"], ["n m"]),
    (nn.Upsample(scale_factor=2), ["b c n"], ["b c 2*n"]),
    (nn.Upsample(scale_factor=1.5), ["b c n"], ["b c 3*n//2"]),
    (nn.Embedding(10, 4), ["int64: batch seq"], ["batch seq 4"]),
    (nn.CrossEntropyLoss(), ["batch classes", "int64: batch"], ["scalar"]),
])
def test_outputs_in_names(model, inputs, outputs):
    report = flambeau.check(model, *inputs)
    assert report and report.outputs == outputs, str(report)


def test_requirements():
    report = flambeau.check(Net())
    assert report.outputs == ["batch 16 h w"]
    assert {name: text.partition(" (")[0] for name, text in report.requirements.items()} == {
        "h": "a multiple of 2", "w": "a multiple of 2"}
    assert flambeau.check(Words()).requirements["seq"].startswith("at most 50 (")
    assert "at least 3" in flambeau.check(nn.Conv1d(3, 5, 3), "1 3 n").requirements["n"]


def test_disagreements_say_where_and_why():
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(6, 2))
    report = flambeau.check(model, "batch seq 4")
    assert not report and report.outputs == []
    first, operator, *_ = report.problems[0].splitlines()
    assert first.startswith("2 (Linear(in_features=6") and "input has 8 features but weight expects 6" in first
    assert operator.strip() == "linear of [batch, seq, 8], [2, 6], [2]"


def test_names_that_are_not_free():
    report = flambeau.check(nn.Linear(4, 8), "batch features")
    assert report.problems[1:] == ["features must be 4 for this model"]
    assert "input has features features but weight expects 4" in report.problems[0]
    report = flambeau.check(Product(), "n a", "b m")
    assert report.problems[1:] in (["a must be equal to b for this model"], ["b must be equal to a for this model"])


def test_annotations_of_the_result_and_of_layers_inside():
    class Inner(nn.Module):
        def forward(self, x: 'Float[Tensor, "batch 7"]'):  # noqa: F722, F821
            return x

    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = Inner()

        def forward(self, x: 'Float[Tensor, "batch 6"]') -> 'Float[Tensor, "batch 5"]':  # noqa: F722, F821
            return self.inner(x)

    problems = flambeau.check(Outer()).problems
    assert problems == ["inner: argument x is annotated 'batch 7' but is [batch, 6]",
                        "the result is annotated 'batch 5' but is 'batch 6'"]


def test_a_jaxtyping_type_is_read_by_its_text():
    class Float:
        dim_str = "batch dim=4"

    Float.__name__ = "Float32[Tensor, 'batch 4']"
    assert str(_dims.annotation_spec(Float)) == "float32: batch 4"
    assert _dims.annotation_spec("jt.Int[torch.Tensor, 'a  b']").dims == ("a", "b")
    assert _dims.annotation_spec("Tensor") is None and _dims.annotation_spec(None) is None


def test_the_model_stays_as_it_was():
    model = nn.Sequential(nn.BatchNorm1d(4), nn.Dropout())
    assert flambeau.check(model, "batch 4")
    assert model.training and model[0].running_mean.device.type == "cpu" and model[0].num_batches_tracked.item() == 0


def test_wrong_use():
    with pytest.raises(TypeError, match=r"annotate Linear\.forward"):
        flambeau.check(nn.Linear(2, 3))
    with pytest.raises(ValueError, match="no dtype"):
        flambeau.check(nn.Linear(2, 3), "number: batch 2")
    with pytest.raises(ValueError, match="neither a size nor a name"):
        flambeau.check(nn.Linear(2, 3), "batch 2+")
