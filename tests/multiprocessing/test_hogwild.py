"""Several processes train one model in shared memory: our example, alone and together."""

import importlib.util
import re
from pathlib import Path

import pytest

import flambeau

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "hogwild.py"


@pytest.fixture
def example():
    spec = importlib.util.spec_from_file_location("hogwild", EXAMPLE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_two_processes_learn(example):
    losses, accuracy = example.run(2, 150, "fork")
    assert losses[:, 0].max() > 1.5 and (losses[:, -20:].mean(1) < 0.5).all() and accuracy > 0.9
    assert not flambeau.equal(losses[0], losses[1])


def test_one_process_computes_what_no_process_would(example):
    """The same losses as in this process: the child has the parent's numbers, and no others write."""
    losses, _ = example.run(1, 20, "fork")
    flambeau.manual_seed(0)
    model, expected, threads = example.Net(), flambeau.zeros(1, 20), flambeau.get_num_threads()
    example.train(0, model, *example.digits(4000, seed=1), 20, expected)
    flambeau.set_num_threads(threads)
    assert flambeau.equal(losses, expected)


def test_the_program_runs(program):
    text = EXAMPLE.read_text(encoding="utf-8")
    printed = program(text, "--processes", "2", "--steps", "100", "--start-method", "spawn")
    assert len(re.findall(r"process \d: loss \d\.\d+ -> [01]\.\d+", printed)) == 2
    assert float(re.search(r"accuracy ([\d.]+)", printed)[1]) > 0.8
