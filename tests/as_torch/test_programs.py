"""The table of public programs: how a program ended, its metric, time and memory, beside another interpreter's."""

import re
import sys

import pytest
from benchmarks import programs

from .test_process import SOURCE


@pytest.fixture
def folder(tmp_path):
    """A folder with two of the programs that the table knows, written for this test."""
    vae, regression = tmp_path / "examples/vae", tmp_path / "examples/regression"
    for place in (vae, regression):
        place.mkdir(parents=True)
    (vae / "helper.py").write_text("import torch\nloss = torch.full((1,), 2.5)\n")
    (vae / "main.py").write_text("import sys, helper\nprint(sys.argv[1:])\nfor k in range(2):\n"
                                 "    print('====> Test set loss: %.4f' % (helper.loss.item() - k))\n")
    (regression / "main.py").write_text("import torch\nprint('Loss: 0.25 after 3 batches')\ntorch.nonsense\n")
    return tmp_path


def test_a_table_of_the_programs_that_are_there(folder, capsys, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", SOURCE)
    monkeypatch.delenv("FLAMBEAU_TORCH_PYTHON", raising=False)
    programs.main([str(folder), "--python", sys.executable, "--outputs", str(folder / "out")])
    vae, regression = capsys.readouterr().out.splitlines()
    assert vae.split()[:3] == ["vae", "flambeau", "1.5000"] and vae.endswith("ok")
    assert regression.split()[:3] == ["regression", "flambeau", "0.25"] and "AttributeError" in regression
    assert "['--epochs', '1']" in (folder / "out/vae.flambeau.txt").read_text()


def test_a_program_that_takes_too_long_is_ended(tmp_path):
    found = programs.run([sys.executable, "-c", "import time; print('loss 1.5', flush=True); time.sleep(60)"], tmp_path,
                         r"loss (\S+)", 2)
    assert found.ended == "over 2 s" and found.metric == "1.5" and 2 <= found.seconds < 20 and found.megabytes > 1


def test_names_are_distinct_and_patterns_find_one_group():
    names = [program.name for program in programs.PROGRAMS]
    assert len(set(names)) == len(names) > 15
    assert all(re.compile(program.metric).groups == 1 for program in programs.PROGRAMS)
