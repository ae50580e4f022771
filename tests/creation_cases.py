"""What tensors are made of: data of every kind that `tensor` and its relatives read, for this library and for PyTorch.

`python -m tests.creation_cases` under a Python with PyTorch writes creation.json, what PyTorch makes of each case:
[dtype, shape, values], or the exception's type.
"""

import array
import collections
import enum
import json
import warnings
from pathlib import Path

import numpy as np

GOLDEN = Path(__file__).parent / "creation.json"
NUMBERS = (np.bool_, np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64, np.longlong,
           np.float16, np.float32, np.float64, np.longdouble, np.complex64, np.complex128)


class Series:
    """What pandas' Series looks like from outside: a length, items, and an array on request."""

    def __init__(self, values):
        self.values = values

    def __len__(self):
        return len(self.values)

    def __getitem__(self, k):
        return self.values[k]


class ArraySeries(Series):
    def __array__(self, dtype=None, copy=None):
        return np.asarray(self.values, dtype)


class OnlyArray:
    def __array__(self, dtype=None, copy=None):
        return np.ones(2, np.int16)


class OwnArray(np.ndarray):
    pass


class OwnFloat(float):
    pass


class OwnInt(int):
    pass


class OnlyIndex:
    def __index__(self):
        return 2


def nested(depth):
    data = 1
    for _ in range(depth):
        data = [data]
    return data


def looped():
    data = [1.0]
    data.append(data)
    return data


def structured():
    return np.zeros(2, [("a", "f4")])


def numpy_cases(library):
    """Name -> function that makes the data, for every NumPy type in every position."""
    for kind in NUMBERS:
        name = kind.__name__
        one = kind(1)
        yield name, lambda one=one: one
        for other_name, other in (("int", 1), ("float", 1.5), ("True", True), ("complex", 1j)):
            yield f"[{name}, {other_name}]", lambda one=one, other=other: [one, other]
            yield f"[{other_name}, {name}]", lambda one=one, other=other: [other, one]
        yield f"[{name}]", lambda one=one: [one]
        yield f"(({name},),)", lambda one=one: ((one,),)
        yield f"[{name}, tensor of float32]", lambda one=one: [one, library.tensor(1.5)]
        yield f"[{name}, tensor of int64]", lambda one=one: [one, library.tensor(1)]
        yield f"array of {name}", lambda one=one: np.stack([one, one])
        yield f"0-d array of {name}", lambda one=one: np.array(one)
        yield f"empty array of {name}", lambda kind=kind: np.ones((0, 2), kind)
        yield f"[empty array of {name}]", lambda kind=kind: [np.ones((0, 2), kind)]
        yield f"[0-d array of {name}]", lambda one=one: [np.array(one)]
        yield f"[array of {name}, list]", lambda one=one: [np.stack([one, one]), [1, 2]]
        yield f"[list, array of {name}]", lambda one=one: [[1.5, 2], np.stack([one, one])]


def pairs(library):
    for a in NUMBERS:
        for b in NUMBERS:
            yield f"[{a.__name__}, {b.__name__}]", lambda a=a, b=b: [a(1), b(1)]


def other_cases(library):
    one, two = library.ones(1), library.ones(2)
    return {
        "float64 and 0-d array": lambda: [np.float64(1), np.ones(())],
        "datetime64": lambda: np.datetime64(3, "s"), "timedelta64": lambda: np.timedelta64(3, "s"),
        "timedelta64 of ns": lambda: np.timedelta64(3, "ns"),
        "[datetime64]": lambda: [np.datetime64(3, "s")], "[timedelta64]": lambda: [np.timedelta64(3, "ns")],
        "str_": lambda: np.str_("a"), "[str_]": lambda: [np.str_("a")], "bytes_": lambda: np.bytes_(b"a"),
        "void": lambda: np.void(b"abc"), "[void]": lambda: [np.void(b"abc")],
        "record": lambda: structured()[0], "[record]": lambda: [structured()[0]], "records": structured,
        "dates": lambda: np.zeros(2, "M8[s]"), "durations": lambda: np.zeros(2, "m8[s]"),
        "strings": lambda: np.array(["a"]), "objects": lambda: np.array([1, 2], object),
        "[objects]": lambda: [np.array([1, 2], object)], "[dates]": lambda: [np.zeros(2, "M8[s]")],
        "0-d object": lambda: np.array(None, object), "big-endian": lambda: np.ones(2, ">f4"),
        "series of ints": lambda: Series([1, 2]), "series of floats": lambda: Series([1.5, 2]),
        "series of float64": lambda: Series(np.ones(2)), "series of float32": lambda: Series(np.ones(2, np.float32)),
        "[series of float64]": lambda: [Series(np.ones(2))],
        "array series of float64": lambda: ArraySeries(np.ones(2)),
        "array series of a list": lambda: ArraySeries([1, 2]),
        "[array series of int16]": lambda: [ArraySeries(np.ones(2, np.int16))],
        "only __array__": OnlyArray, "[only __array__]": lambda: [OnlyArray()],
        "own array": lambda: np.ones(2).view(OwnArray), "[own array]": lambda: [np.ones(2).view(OwnArray)],
        "matrix": lambda: np.matrix([[1, 2]]), "masked": lambda: np.ma.array([1.0, 2]),
        "own float": lambda: [OwnFloat(2)], "own int": lambda: [OwnInt(2)], "only __index__": OnlyIndex,
        "enum": lambda: [enum.IntEnum("E", "A B").B],
        "nothing": list, "[nothing]": lambda: [[]], "[nothing, nothing]": lambda: [[], []], "()": tuple,
        "None": lambda: None, "[None]": lambda: [None], "str": lambda: "a", "[str]": lambda: ["a"],
        "[[str]]": lambda: [["a"]], "bytes": lambda: b"a", "set": lambda: {1}, "dict": lambda: {0: 1},
        "[dict]": lambda: [{0: 1}], "generator": lambda: (x for x in [1]), "type": lambda: int, "[type]": lambda: [int],
        "range": lambda: range(3), "[range]": lambda: [range(3)], "deque": lambda: collections.deque([1, 2]),
        "array.array": lambda: array.array("d", [1, 2]), "[array.array]": lambda: [array.array("h", [1, 2])],
        "ragged": lambda: [[1], [1, 2]], "deeper later": lambda: [1, [1]], "flatter later": lambda: [[1], 1],
        "ragged arrays": lambda: [np.ones(2), np.ones(3)], "array, then int": lambda: [np.ones(2), 1],
        "looped": looped, "63 levels": lambda: nested(63),
        "one-element tensors": lambda: [one, one], "[[tensor]]": lambda: [[one]], "[tensor, int]": lambda: [one, 2],
        "[int, tensor]": lambda: [1, one], "[1x1 tensor]": lambda: [library.ones(1, 1)], "tensor": lambda: two,
        "[float64 tensor, int]": lambda: [library.ones((), dtype=library.float64), 1],
        "[float16 tensor, float]": lambda: [library.ones((), dtype=library.float16), 1.5],
        "[int16 tensor, int]": lambda: [library.ones((), dtype=library.int16), 1],
        "[bool tensor, int]": lambda: [library.tensor(True), 1],
        "[meta tensor]": lambda: [library.ones((), device="meta")],
        "[leaf that wants a gradient]": lambda: [library.ones((), requires_grad=True)],
        "2**63": lambda: 2 ** 63, "[2**63]": lambda: [2 ** 63], "[2**63, float]": lambda: [2 ** 63, 1.5],
        "[2**70, float]": lambda: [2 ** 70, 1.0], "-2**63 - 1": lambda: -2 ** 63 - 1,
        "uint64 above 2**63": lambda: np.full(1, 2 ** 63 + 2048, np.uint64),
        "[float, uint64 above 2**63]": lambda: [1.5, np.uint64(2 ** 63 + 2048)],
        "mixed": lambda: [True, 1, 1.5, 1j], "bools and ints": lambda: [True, 1], "complex and int": lambda: [1j, 1],
        "Size": lambda: two.shape,
        "[arrays of one number type]": lambda: [list(np.ones(3)), list(np.ones(3, np.float32))],
        "nested arrays": lambda: [[np.ones(2)], [np.ones(2)]], "read-only": lambda: np.broadcast_to(np.ones(1), (3,)),
    }


def functions(library, collate):
    return {
        "tensor": library.tensor, "as_tensor": library.as_tensor, "asarray": library.asarray,
        "from_numpy": library.from_numpy,
        "new_tensor": lambda data: library.ones(1, dtype=library.float16).new_tensor(data),
        "tensor of int64": lambda data: library.tensor(data, dtype=library.int64),
        "default_collate": lambda data: collate([data, data]),
    }


def shown(library, result):
    if isinstance(result, library.Tensor):
        values = [str(v) for v in result.detach().reshape(-1).tolist()]
        return [str(result.dtype).rsplit(".", 1)[1], list(result.shape), values]
    if isinstance(result, (list, tuple)):
        return [shown(library, part) for part in result]
    return type(result).__name__


def outcomes(library, collate):
    """(function: case) -> what came, for all of them."""
    found = {}
    for function_name, function in functions(library, collate).items():
        mixed = pairs(library) if function_name == "tensor" else ()  # the rule is the same for all of them
        for name, make in (*numpy_cases(library), *mixed, *other_cases(library).items()):
            try:
                found[f"{function_name}: {name}"] = shown(library, function(make()))
            except Exception as error:
                found[f"{function_name}: {name}"] = type(error).__name__
    return found


if __name__ == "__main__":
    import torch
    from torch.utils.data import default_collate
    warnings.simplefilter("ignore")
    lines = ",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in outcomes(torch, default_collate).items())
    GOLDEN.write_text("{\n" + lines + "\n}\n")
