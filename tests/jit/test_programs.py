"""Small programs as people write them: scripted, written and read, each does what its Python does."""

import io

import pytest

import flambeau
from tests.parity import torchscript_results
from tests.parity.scripts import registry

#: what PyTorch's compiler refuses and programs have here
TAKEN = {"constants_from_outside", "list_constant", "reversed_list", "comprehension_with_if", "global_table"}


def results(program, inputs):
    return registry.leaves(program(*registry.inputs_of(inputs)))


def through(program):
    return flambeau.jit.load(io.BytesIO(program.save_to_buffer()))


@pytest.mark.filterwarnings("ignore:once")
@pytest.mark.parametrize("name", registry.PROGRAMS)
def test_a_program(name):
    what, inputs = registry.PROGRAMS[name]
    scripted = flambeau.jit.script(registry.made(what))
    expected = results(scripted, inputs)
    twin = through(flambeau.jit.script(registry.made(what)))
    assert torchscript_results.agree(flambeau, results(twin, inputs), expected)
    frozen = flambeau.jit.freeze(through(flambeau.jit.script(registry.made(what))).eval())
    assert torchscript_results.agree(flambeau, results(frozen, inputs), expected)


@pytest.mark.parametrize("name", registry.REFUSED)
def test_what_pytorch_refuses_runs_and_is_written_or_says_why_not(name):
    what, inputs = registry.REFUSED[name]
    scripted = flambeau.jit.script(registry.made(what))
    try:
        twin = through(scripted)
    except NotImplementedError as error:
        assert name not in TAKEN and "jit.script: " in str(error)
        scripted(*registry.inputs_of(inputs))
    else:
        assert torchscript_results.agree(flambeau, results(twin, inputs), results(scripted, inputs))
