"""Every operator, exported and run without Python, gives what it gives in Python."""

import io

import pytest

import flambeau
from flambeau import nn
from flambeau.export import export, save

from ..core import seams
from ..ops import battery
from .running import run

#: operators whose kernels are Python functions, which a program without Python cannot call
IN_PYTHON = {"cholesky_inverse", "cholesky_solve", "linalg_pinv", "pinverse"}
#: operators that export does not trace as they are; the reason
UNTRACED = {"nonzero_numpy": "of a number, it gives one index or none, as the value decides"}


class Call(nn.Module):
    """The operator on one of its samples, whose tensors are arguments."""

    def __init__(self, name, sample):
        super().__init__()
        self.name, self.sample = name, [sample]  # in a list: tensors among attributes would be constants

    def forward(self, *given):
        given = iter(given)
        sample = battery.map_tensors(lambda t: next(given), self.sample[0])
        return tuple(battery.tensors(battery.run(self.name, sample)))


def tensors_of(sample):
    """The tensors that `map_tensors` visits, in its order."""
    found = []
    battery.map_tensors(lambda t: found.append(t.detach().clone()) or t, sample)
    return tuple(found)


def computed(name, sample):
    """What the operator gives, from a fixed seed; None where it refuses."""
    flambeau.manual_seed(0)
    found = seams.outcome(lambda: battery.tensors(battery.run(name, battery.map_tensors(
        lambda t: t.detach().clone(), sample))))
    return None if found[0] == "error" else found[1]


@pytest.mark.parametrize("name", [n for n in battery.with_samples("graphs") if n not in UNTRACED])
def test_every_operator(name):
    for sample in battery.samples(name, flambeau.float32):
        given = tensors_of(sample)
        expected = computed(name, sample)
        if expected is None or name in battery.UNSPECIFIED or any(t.layout is not flambeau.strided for t in given):
            continue
        try:
            program = export(Call(name, sample), given)
        except (*battery.REFUSALS, TypeError):
            continue  # its results depend on values, or it makes what no graph holds
        if name in IN_PYTHON:
            with pytest.raises(NotImplementedError, match="needs Python: it calls"):
                run(program, *given)
            continue
        flambeau.manual_seed(0)
        for a, b in zip(run(program, *given), expected, strict=True):
            assert seams.same(battery.to_numpy(a), battery.to_numpy(b)), sample


@pytest.mark.parametrize("name", battery.with_samples("graphs"))
def test_every_program_can_be_saved(name):
    """Whether the library can run it or not."""
    sample = battery.samples(name, flambeau.float32)[0]
    try:
        program = export(Call(name, sample), tensors_of(sample))
    except (*battery.REFUSALS, TypeError):
        return
    try:
        save(program, io.BytesIO())
    except (NotImplementedError, RuntimeError, TypeError) as error:
        assert str(error).startswith("export.save: "), error
