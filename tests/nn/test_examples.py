"""The examples in the docstrings of nn run and print what they say."""

import doctest
import importlib
import pkgutil

import pytest

import flambeau
from flambeau import nn

MODULES = [info.name for info in pkgutil.walk_packages(nn.__path__, "flambeau.nn.")]


@pytest.mark.parametrize("name", MODULES)
def test_examples(name):
    result = doctest.testmod(importlib.import_module(name), extraglobs={"flambeau": flambeau})
    assert result.failed == 0


def test_every_layer_has_an_example():
    missing = [n for n in dir(nn) if n[0].isupper() and ">>>" not in (getattr(nn, n).__doc__ or "")]
    assert [n for n in missing if not n.startswith(("Lazy", "Uninitialized", "RNNBase", "RNNCellBase"))] == []
