"""Modules, arrays and other values whose parts do not fit each other: refused, whatever the file was named as."""

import numpy
import pytest

import flambeau
from flambeau._files.pickle_writer import Global, Reduce, Writer

from .test_names_in_files import Settings
from .test_save_load import archive

NAMES = Settings.__module__


# --- hostile parts


def module_stream(**changes):
    linear = Global("torch.nn.modules.linear", "Linear")
    state = {"training": True, "_parameters": {}, "_buffers": {}, "_modules": {}} | changes
    return archive(Writer(lambda obj, place: None).dump(Reduce(linear, (), state=state, new=True)))


@pytest.mark.parametrize(
    "changes",
    [
        {"_parameters": None},
        {"_parameters": [1]},
        {"_parameters": {"w": 1}},
        {"_parameters": {1: None}},
        {"training": 1},
        {"_modules": {"a": 3}},
        {"_buffers": {"b": "x"}},
        {"_buffers": 5},
        {"_modules": ()},
    ],
    ids=repr,
)
def test_modules_with_wrong_tables(changes):
    with pytest.raises(RuntimeError, match=r"a Linear (without|whose|that is)"):
        flambeau.load(module_stream(**changes), weights_only=False)


DTYPE = Reduce(Global("numpy", "dtype"), ("f8", False, True), state=(3, "<", None, None, None, -1, -1, 0))


def dtype(code, *state):
    return Reduce(Global("numpy", "dtype"), (code, False, True), state=state or None)


def array(*state):
    start = (Global("numpy", "ndarray"), (0,), b"b")
    return Reduce(Global("numpy._core.multiarray", "_reconstruct"), start, state=state)


HOSTILE = {
    "no characters": array(1, (1,), dtype("U1", 3, "<", None, None, None, 4, 4, 8), False, b"a\0\0 "),
    "too little data": array(1, (3,), DTYPE, False, bytes(16)),
    "too much data": array(1, (1,), DTYPE, False, bytes(16)),
    "endless shape": array(1, (1 << 40, 1 << 40), DTYPE, False, b""),
    "negative": array(1, (-1, -1), DTYPE, False, bytes(8)),
    "huge number": array(1, (1 << 70,), DTYPE, False, b""),
    "many dims": array(1, (1,) * 65, DTYPE, False, bytes(8)),
    "no dtype": array(1, (1,), "f8", False, bytes(8)),
    "text": array(1, (1,), DTYPE, False, "x" * 8),
    "objects as bytes": array(1, (1,), dtype("O8", 3, "|", None, None, None, -1, -1, 63), False, bytes(8)),
    "nothing many times": array(1, (1 << 50,), dtype("S0", 3, "|", None, None, None, 0, 1, 0), False, b""),
    "flag": array(1, (1,), DTYPE, 1, bytes(8)),
    "short state": array(1, (1,)),
    "dtype's size": dtype("f8", 3, "<", None, None, None, 100, -1, 0),
    "dtype's flags": dtype("f8", 3, "<", None, None, None, -1, -1, 63),
    "dtype's order": dtype("f8", 3, "x", None, None, None, -1, -1, 0),
    "subarray": dtype("f8", 3, "<", (DTYPE, (2,)), None, None, -1, -1, 0),
    "fields out of it": dtype("V4", 3, "|", None, ("a",), {"a": (DTYPE, 0)}, 4, 1, 16),
    "field at -1": dtype("V8", 3, "|", None, ("a",), {"a": (DTYPE, -1)}, 8, 1, 16),
    "fields with objects": dtype(
        "V8", 3, "|", None, ("a",), {"a": (dtype("O8", 3, "|", None, None, None, -1, -1, 63), 0)}, 8, 1, 63
    ),
    "names without fields": dtype("V8", 3, "|", None, ("a",), None, 8, 1, 16),
    "unit": dtype("M8", 4, "<", None, None, None, -1, -1, 0, (None, (b"x" * 100, 1, 1, 1))),
    "unit's number": dtype("M8", 4, "<", None, None, None, -1, -1, 0, (None, (b"D", -1, 1, 1))),
    "code": dtype("(3,)f8,f4"),
    "code with a name": dtype("object"),
    "long code": dtype("V999999999999"),
    "scalar's size": Reduce(Global("numpy._core.multiarray", "scalar"), (DTYPE, b"x")),
    "scalar object": Reduce(
        Global("numpy._core.multiarray", "scalar"), (dtype("O8", 3, "|", None, None, None, -1, -1, 63), bytes(8))
    ),
    "array of a class": Reduce(
        Global("numpy._core.multiarray", "_reconstruct"), (Global("builtins", "list"), (0,), b"b")
    ),
    "path": Reduce(Global("pathlib", "PosixPath"), (3,)),
    "date": Reduce(Global("datetime", "date"), (b"xx",)),
    "moment": Reduce(Global("datetime", "datetime"), (bytes(10), 3)),
    "delta": Reduce(Global("datetime", "timedelta"), (1 << 70,)),
    "uuid": Reduce(Global("uuid", "UUID"), (), state={"int": 1 << 129}, new=True),
    "decimal": Reduce(Global("decimal", "Decimal"), ("x",)),
    "fraction": Reduce(Global("fractions", "Fraction"), ("1e999999999",)),
    "fraction of zero": Reduce(Global("fractions", "Fraction"), (1, 0)),
    "range": Reduce(Global("__builtin__", "xrange"), (1, 2, 0)),
    "deque": Reduce(Global("collections", "deque"), ([], -1)),
    "namespace": Reduce(Global("argparse", "Namespace"), (), state={1: 2}, new=True),
    "enum": Reduce(Global(NAMES, "Mode"), (7,)),
    "enum of a list": Reduce(Global(NAMES, "Mode"), ([],)),
    "getattr": Reduce(Global("__builtin__", "getattr"), (Global("os", "path"), "join")),
    "getattr of a class": Reduce(Global("__builtin__", "getattr"), (Global(NAMES, "Settings"), "__init__")),
    "arguments": Reduce(Global(NAMES, "Settings"), (1,), new=True),
    "call": Reduce(Global(NAMES, "Settings"), (1,)),
    "slots": Reduce(Global(NAMES, "Settings"), (), state=(None, {"__class__": 1}), new=True),
    "state": Reduce(Global(NAMES, "Settings"), (), state=[1], new=True),
    "layout": Reduce(Global("torch.serialization", "_get_layout"), ("torch.ones",)),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_parts_are_refused(name):
    file = archive(Writer(lambda obj, place: None).dump([HOSTILE[name]]))
    with pytest.raises(RuntimeError, match=r"load: the file: entry 'data\.pkl'"):
        flambeau.load(file, weights_only=False)


def test_a_uuid_without_its_number_is_that_of_zero():
    """Found by fuzzing: it had no number at all, and could not be printed."""
    assert str(flambeau.load(archive(b"cuuid\nUUID\n)\x81."))).startswith("00000000-")


def test_parts_that_are_right():
    """The streams above would be read if they were not hostile."""
    good = [
        array(1, (2,), DTYPE, False, bytes(16)),
        dtype("V8", 3, "|", None, ("a",), {"a": (DTYPE, 0)}, 8, 1, 16),
        Reduce(Global(NAMES, "Settings"), (), state={"lr": 3}, new=True),
    ]
    found = flambeau.load(archive(Writer(lambda obj, place: None).dump(good)), weights_only=False)
    assert found[0].tolist() == [0, 0] and found[1] == numpy.dtype([("a", "f8")]) and found[2] == Settings(3)
