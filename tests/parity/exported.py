"""Exported programs between PyTorch and this library: of samples of operators, modules and models, how many are right
after loading?

`python -m tests.parity.exported --torch PYTHON [--folder DIR] [--samples N] [--failures]` lets PyTorch export samples
of its operators, its modules, and the programs of exported_programs.py, and loads them here; exports them here, and
loads them here and in PyTorch. It prints a count for each.
"""

import argparse
import contextlib
import json
import subprocess
import tempfile
import warnings
from pathlib import Path

import flambeau

from . import exported_programs
from .torchscript import Count, result

WORKER = Path(__file__).with_name("exported_worker.py")


def loaded_here(title, folder, failures):
    """Counts the programs of a folder that are right here."""
    count = Count(title)
    for path in sorted(folder.glob("*.pt2")):
        kept = flambeau.load(path.with_suffix(".ref"))
        count.add(path.stem, lambda p=path, k=kept: result(flambeau.export.load(p).module(), k["inputs"], k["named"]),
                  kept["results"])
    count.print(failures)
    return count


def loaded_there(title, torch, kept, programs, failures):
    """Counts the programs of a folder that are right in PyTorch."""
    answer = subprocess.run([torch, WORKER, "read", kept, programs], check=True, capture_output=True, text=True).stdout
    count = Count(title)
    count.right, count.all, count.wrong = json.loads(answer.splitlines()[-1])
    count.print(failures)
    return count


class Called(flambeau.nn.Module):
    """A loaded program as a module that is exported again, operator by operator."""

    def __init__(self, program):
        super().__init__()
        self.program = program

    def forward(self, *args):
        """What the program gives."""
        return self.program(*args)


def written(count, make, inputs, named, expected, path, shapes=None):
    """Counts one export here, and leaves it for PyTorch where it is right."""
    def found():
        program = flambeau.export.export(make(), tuple(inputs), dict(named), dynamic_shapes=shapes)
        flambeau.export.save(program, path)
        return result(flambeau.export.load(path).module(), inputs, named)

    if not count.add(path.stem, found, expected):
        path.unlink(missing_ok=True)
        return
    if not path.with_suffix(".ref").exists():
        flambeau.save({"inputs": inputs, "named": named, "results": expected}, path.with_suffix(".ref"))


def operators(folder, torch, samples, failures):
    """Counts of samples of operators."""
    theirs, ours = folder / "operators", folder / "operators_here"
    if fresh(theirs):
        subprocess.run([torch, WORKER, "write", theirs, str(samples)], check=True)
    fresh(ours)
    loaded_here("operators, exported by PyTorch, loaded here", theirs, failures)
    count = Count("operators, exported here, loaded here")
    for path in sorted(theirs.glob("*.pt2")):
        with contextlib.suppress(Exception):  # what cannot run cannot be exported
            program = flambeau.export.load(path).module(check_guards=False)
            inputs = flambeau.load(path.with_suffix(".ref"))["inputs"]
            expected = result(program, inputs)
            written(count, lambda p=program: Called(p), inputs, {}, expected, ours / path.name)
    count.print(failures)
    loaded_there("operators, exported here, loaded by PyTorch", torch, ours, ours, failures)


def modules(folder, torch, failures):
    """Counts of modules."""
    theirs, ours = folder / "modules", folder / "modules_here"
    if fresh(theirs):
        subprocess.run([torch, WORKER, "modules", theirs], check=True)
    fresh(ours)
    loaded_here("modules, exported by PyTorch, loaded here", theirs, failures)
    count = Count("modules, exported here, loaded here")
    for k, (name, (args, options), (inputs, named)) in enumerate(flambeau.load(theirs / "made")):
        with contextlib.suppress(Exception):  # a module that this library has not, or refuses
            module = getattr(flambeau.nn, name)(*args, **options).eval()
            expected = result(module, inputs, named)
            written(count, lambda m=module: m, inputs, named, expected, ours / f"{name}_{k}.pt2")
    count.print(failures)
    loaded_there("modules, exported here, loaded by PyTorch", torch, ours, ours, failures)


def models(folder, torch, failures):
    """Counts of programs with open sizes, control flow and writes."""
    theirs, ours = folder / "models", folder / "models_here"
    if fresh(theirs):
        subprocess.run([torch, WORKER, "models", theirs], check=True)
    fresh(ours)
    found = [loaded_here("models, exported by PyTorch, loaded here", theirs, failures)]
    count = Count("models, exported here, loaded here")
    for name, (make, args, shapes) in exported_programs.programs(flambeau).items():
        flambeau.manual_seed(0)
        module = make()
        flambeau.manual_seed(0)
        written(count, lambda m=module: m, args, {}, result(make(), args), ours / f"{name}.pt2", shapes)
    count.print(failures)
    return [*found, count, loaded_there("models, exported here, loaded by PyTorch", torch, ours, ours, failures)]


def fresh(folder):
    """Makes a folder; False where it was there."""
    there = folder.exists()
    folder.mkdir(exist_ok=True)
    return not there


def main():
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--torch", required=True, help="a Python that has PyTorch")
    parser.add_argument("--folder", type=Path, help="where the programs stay; otherwise they are deleted")
    parser.add_argument("--samples", type=int, default=3, help="how many samples of each operator")
    parser.add_argument("--only", nargs="*", default=["models", "modules", "operators"], help="which counts")
    parser.add_argument("--failures", action="store_true", help="why the others are not right")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as folder:
        folder = options.folder or Path(folder)
        if "models" in options.only:
            models(folder, options.torch, options.failures)
        if "modules" in options.only:
            modules(folder, options.torch, options.failures)
        if "operators" in options.only:
            operators(folder, options.torch, options.samples, options.failures)


if __name__ == "__main__":
    main()
