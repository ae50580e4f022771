"""Programs of TorchScript between PyTorch and this library: of samples of operators, how many are right after loading?

`python -m tests.parity.torchscript --torch PYTHON [--folder DIR] [--failures]` lets PyTorch trace samples of its
operators and script its modules, and loads them here; traces and scripts them here, and loads them here and in PyTorch.
It prints a count for each.
"""

import argparse
import collections
import contextlib
import inspect
import json
import subprocess
import tempfile
import warnings
from pathlib import Path

import flambeau

from . import torchscript_results
from .scripts import registry

WORKER = Path(__file__).with_name("torchscript_worker.py")


def result(program, inputs, named=()):
    """What a program gives here."""
    return torchscript_results.result(flambeau, program, inputs, dict(named))


class Count:
    """How many programs are right, and why others are not."""

    def __init__(self, title):
        self.title, self.right, self.all, self.wrong = title, 0, 0, collections.defaultdict(list)

    def add(self, name, found, expected):
        """Compares the results of one program; `found` is called for them."""
        self.all += 1
        try:
            if torchscript_results.agree(flambeau, found(), expected):
                self.right += 1
                return True
            self.wrong["differs"].append(name)
        except Exception as error:  # any failure is one to be counted
            self.wrong[f"{type(error).__name__}: {str(error)[:160]}"].append(name)
        return False

    def print(self, failures):
        """One line, and one for each reason."""
        print(f"{self.title:40} {self.right:6,} of {self.all:6,}")
        for reason, names in sorted(self.wrong.items(), key=lambda pair: -len(pair[1])) if failures else ():
            print(f"  {len(names):4} {reason}: {' '.join(names[:5])}")


def compared(folder, torch, failures):
    """All three counts."""
    theirs, ours = folder / "torch", folder / "flambeau"
    for path in (theirs, ours):
        path.mkdir(exist_ok=True)
    subprocess.run([torch, WORKER, "write", theirs], check=True)
    loaded, again = Count("traced by PyTorch, loaded here"), Count("traced here, loaded here")
    for path in sorted(theirs.glob("*.pt")):
        kept = flambeau.load(path.with_suffix(".ref"))
        program = flambeau.jit.load(path)
        inputs = kept["inputs"]
        loaded.add(path.stem, lambda p=program, i=inputs: result(p, i), kept["results"])
        with contextlib.suppress(Exception):  # what cannot run cannot be traced
            expected = result(program, inputs)
            target = ours / path.name
            again.add(path.stem, lambda p=program, i=inputs, t=target: result(through(p, i, t), i), expected)
    for count in (loaded, again):
        count.print(failures)
    loaded_there("traced here, loaded by PyTorch", torch, theirs, ours, failures)


def loaded_there(title, torch, kept, programs, failures):
    """Counts the programs of a folder that are right in PyTorch."""
    answer = subprocess.run([torch, WORKER, "read", kept, programs], check=True, capture_output=True, text=True).stdout
    back = Count(title)
    back.right, back.all, back.wrong = json.loads(answer.splitlines()[-1])
    back.print(failures)
    return back


def compared_modules(folder, torch, failures):
    """Modules: scripted there, and scripted and traced here."""
    theirs = folder / "modules"
    theirs.mkdir(exist_ok=True)
    subprocess.run([torch, WORKER, "modules", theirs], check=True)
    loaded = Count("scripted by PyTorch, loaded here")
    for path in sorted(theirs.glob("*.ref")):
        kept = flambeau.load(path)
        loaded.add(path.stem, lambda p=path, k=kept: result(flambeau.jit.load(p.with_suffix(".pt")), k["inputs"],
                                                           k["named"]), kept["results"])
    loaded.print(failures)
    for verb, make in (("scripted", lambda module, args, kwargs: flambeau.jit.script(module)), ("traced", traced)):
        ours = folder / f"modules_{verb}"
        ours.mkdir(exist_ok=True)
        count = Count(f"{verb} here, loaded here")
        for k, case in enumerate(flambeau.load(theirs / "made")):
            with contextlib.suppress(Exception):  # a module that this library has not, or refuses
                written(count, make, k, case, ours)
        count.print(failures)
        loaded_there(f"{verb} here, loaded by PyTorch", torch, ours, ours, failures)


def compared_programs(folder, torch, failures):
    """The small programs of `scripts`: what PyTorch refuses, and the three Counts."""
    theirs, ours = folder / "programs", folder / "programs_here"
    for path in (theirs, ours):
        path.mkdir(exist_ok=True)
    answer = subprocess.run([torch, WORKER, "programs", theirs], check=True, capture_output=True, text=True).stdout
    refused = json.loads(answer.splitlines()[-1])
    loaded, again = Count("programs scripted by PyTorch, loaded here"), Count("programs scripted here, loaded here")
    for name, (what, inputs) in registry.PROGRAMS.items():
        kept = flambeau.load(theirs / f"{name}.ref")
        loaded.add(name, lambda n=name, k=kept: result(flambeau.jit.load(theirs / f"{n}.pt"), k["inputs"]),
                   kept["results"])

        def found(name=name, what=what, inputs=inputs):
            registry.write(name, flambeau.jit.script(registry.made(what)), inputs, ours)
            return result(flambeau.jit.load(ours / f"{name}.pt"), registry.inputs_of(inputs))

        again.add(name, found, kept["results"])
    for count in (loaded, again):
        count.print(failures)
    back = loaded_there("programs scripted here, loaded by PyTorch", torch, theirs, ours, failures)
    return refused, loaded, again, back


def traced(module, args, kwargs):
    """The trace of a module."""
    if not kwargs:
        return flambeau.jit.trace(module, tuple(args), check_trace=False)
    names = inspect.signature(module.forward).parameters
    return flambeau.jit.trace(module, example_kwarg_inputs=dict(zip(names, args)) | kwargs, check_trace=False)


def written(count, make, k, case, folder):
    """Counts one module of ours, and leaves it for PyTorch where it is right."""
    name, (args, kwargs), (inputs, named) = case
    module = getattr(flambeau.nn, name)(*args, **kwargs).eval()
    expected = result(module, inputs, named)
    path = folder / f"{name}_{k}.pt"

    def found():
        make(module, inputs, named).save(path)
        return result(flambeau.jit.load(path), inputs, named)

    if count.add(path.stem, found, expected):
        flambeau.save({"inputs": inputs, "named": named, "results": expected}, path.with_suffix(".ref"))
    else:
        path.unlink(missing_ok=True)


def through(program, inputs, path):
    """A trace of a call, written and read."""
    traced = flambeau.jit.trace(lambda *tensors: program(*tensors), tuple(t.clone() for t in inputs), check_trace=False)
    traced.save(path)
    return flambeau.jit.load(path)


def main():
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--torch", required=True, help="a Python that has PyTorch")
    parser.add_argument("--folder", type=Path, help="where the programs stay; otherwise they are deleted")
    parser.add_argument("--failures", action="store_true", help="why the others are not right")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as folder:
        folder = options.folder or Path(folder)
        compared_programs(folder, options.torch, options.failures)
        compared(folder, options.torch, options.failures)
        compared_modules(folder, options.torch, options.failures)


if __name__ == "__main__":
    main()
