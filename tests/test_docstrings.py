"""The examples in the docstrings run and print what they say."""

import doctest
import importlib
import pkgutil

import pytest

import flambeau
from flambeau.ops.kinds import OPS

#: modules that are programs, or need what the tests may not have
LEFT_OUT = ("flambeau.__main__", "flambeau._C", "flambeau.cli")
#: module -> the optional package that its examples need
NEEDED = {"flambeau.utils.tensorboard": "tensorboard", "flambeau.onnx": "onnx"}


def modules():
    for found in pkgutil.walk_packages(flambeau.__path__, "flambeau."):
        if not found.name.startswith(LEFT_OUT):
            yield found.name


def run(test):
    output = []
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)
    runner.run(test, out=output.append)
    assert not runner.failures, "".join(output)


@pytest.mark.parametrize("name", list(modules()))
def test_module(name):
    for beginning, package in NEEDED.items():
        if name.startswith(beginning):
            pytest.importorskip(package)
    module = importlib.import_module(name)
    finder = doctest.DocTestFinder(exclude_empty=True)
    for test in finder.find(module, name, module=module):
        if test.examples:
            test.globs.setdefault("flambeau", flambeau)
            run(test)


@pytest.mark.parametrize("name", [n for n in OPS if ">>>" in (OPS[n].__doc__ or "")])
def test_operator(name):
    run(doctest.DocTestParser().get_doctest(OPS[name].__doc__, {"flambeau": flambeau}, name, None, 0))
