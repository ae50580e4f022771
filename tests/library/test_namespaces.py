"""`flambeau.ops.<library>`: namespaces of operators."""

import pytest

import flambeau
from flambeau.library import Library


def test_a_library_may_be_asked_for_before_it_is_made():
    space = flambeau.ops.later_library
    assert not hasattr(space, "double") and "later_library" in repr(space)
    with pytest.raises(AttributeError, match="'later_library' object has no attribute 'double'"):
        space.double(1)
    library = Library("later_library", "DEF")
    library.define("double(Tensor x) -> Tensor")
    library.impl("double", lambda x: 2 * x, "CPU")
    assert space.double(flambeau.ones(1)).item() == 2 and flambeau.ops.later_library is space


def test_names_of_python_are_no_libraries():
    assert not hasattr(flambeau.ops, "__wrapped__")
