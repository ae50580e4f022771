"""The library that programs are written for, and the list of them: {name: (what is scripted, its inputs)}."""

import copy
import importlib
import os

torch = importlib.import_module(os.environ.get("SCRIPTED_LIBRARY", "flambeau"))
PROGRAMS, REFUSED = {}, {}


def given(*inputs):
    """Marks a function, or a class of modules, as a program; `inputs` are made anew for each run, or called."""
    def mark(what):
        PROGRAMS[what.__name__] = what, inputs
        return what

    return mark


def refused(*inputs):
    """Marks what PyTorch refuses to compile."""
    def mark(what):
        REFUSED[what.__name__] = what, inputs
        return what

    return mark


def inputs_of(inputs):
    """The arguments of one call."""
    torch.manual_seed(5)
    return [make() if callable(make) else copy.deepcopy(make) for make in inputs]


def made(what):
    """What is scripted: a function, or a module of a class."""
    torch.manual_seed(7)
    return what().eval() if isinstance(what, type) else what


def write(name, program, inputs, folder):
    """NAME.pt is the program, NAME.ref its inputs and results, as lists of plain values."""
    torch.jit.save(program, str(folder / f"{name}.pt"))
    given, kept = inputs_of(inputs), inputs_of(inputs)
    torch.save({"inputs": kept, "results": leaves(program(*given))}, str(folder / f"{name}.ref"))


def leaves(x):
    """The tensors, numbers and texts of a result."""
    if isinstance(x, dict):
        x = list(x.values())
    return [leaf for item in x for leaf in leaves(item)] if isinstance(x, (list, tuple)) else [x]


def vector():
    """Six numbers."""
    return torch.arange(6.0) - 2


def matrix():
    """Three rows of four."""
    return torch.arange(12.0).reshape(3, 4) / 4 - 1


def batch():
    """Two pictures of three channels."""
    return torch.rand(2, 3, 8, 8)
