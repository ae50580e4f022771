"""Tensors from data: dtypes, shapes and values as PyTorch makes them, and caught mistakes leave nothing behind."""

import collections
import json
import re
import subprocess
import sys
import warnings

import numpy as np
import pytest

import flambeau
from flambeau.utils.data import default_collate

from . import creation_cases

#: where PyTorch makes a tensor and this library refuses or makes another: pattern of the cases -> why
DIFFERENT = {
    r"longdouble": "a dtype that no tensor has is refused, whatever dtype is asked for",
    r"^(new_tensor|tensor of int64): .*complex": "an imaginary part is not dropped in silence",
    r"void|record|objects|timedelta64": "bytes, records, objects and times are no numbers, whatever dtype is asked for",
    r"^asarray: array.array": "its numbers are read, not its bytes as if they were float32",
}
#: where PyTorch refuses and this library makes a tensor: what it means is plain
ACCEPTED = {
    r"0-d array": "an array without dimensions is a number",
    r"bool|uint|longlong": "NumPy's bool counts as an integer, its unsigned types are tensor dtypes",
    r"^tensor of int64": "floats are cut to integers from lists as from arrays",
    r"^as_tensor: \[|1x1|one-element": "tensors in a list are stacked",
}
#: other exceptions for the same refusal
OTHER_ERRORS = {"asarray: bytes_", "tensor of int64: [meta tensor]", "default_collate: array.array",
                "default_collate: [meta tensor]"}


@pytest.fixture(scope="module")
def outcomes():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return creation_cases.outcomes(flambeau, default_collate)


def is_error(outcome):
    return isinstance(outcome, str) and outcome.endswith("Error")


def test_dtype_shape_and_values_are_pytorchs(outcomes):
    golden = json.loads(creation_cases.GOLDEN.read_text())
    assert outcomes.keys() == golden.keys()
    wrong = []
    for name, expected in golden.items():
        found = outcomes[name]
        if found == expected or name in OTHER_ERRORS:
            continue
        reasons = ACCEPTED if is_error(expected) and not is_error(found) else DIFFERENT
        if not any(re.search(pattern, name) for pattern in reasons):
            wrong.append(f"{name}: {found}, PyTorch {expected}")
    assert not wrong, "\n".join(wrong)


def test_numpy_scalars_keep_their_dtype_beside_others():
    assert flambeau.tensor([np.float64(1), np.ones(())]).dtype == flambeau.float64
    assert flambeau.tensor([1.5, np.float64(1)]).dtype == flambeau.float64
    assert default_collate([np.float64(1), np.float64(2)]).dtype == flambeau.float64
    assert flambeau.as_tensor(creation_cases.Series(np.ones(2))).dtype == flambeau.float64
    assert flambeau.tensor([np.float32(1), 2]).dtype == flambeau.float32


@pytest.mark.parametrize("data", [
    np.datetime64(3, "s"), np.timedelta64(3, "ns"), np.str_("a"), np.bytes_(b"a"), np.void(b"abc"),
    np.zeros(2, [("a", "f4")]), np.zeros(2, [("a", "f4")])[0], np.array([1, 2], object), np.zeros(2, "M8[s]")])
def test_what_is_no_number_is_a_type_error(data):
    for make in (flambeau.tensor, flambeau.as_tensor, flambeau.from_numpy, lambda d: flambeau.tensor([d]),
                 lambda d: flambeau.ones(2, dtype=flambeau.float64).new_tensor(d)):
        with pytest.raises((TypeError, ValueError) if isinstance(data, str) else TypeError):
            make(data)


class Slowly(collections.UserList):
    """A sequence that is read one element at a time."""


@pytest.mark.parametrize("dtype", [None, "bool", "uint8", "int64", "float32", "float64", "complex64"])
@pytest.mark.parametrize("number", [2, -(2**63), 2**40, True, 2.5, float("nan"), 1e300, 2**64, 3j,
                                    np.float32(7)], ids=repr)
@pytest.mark.parametrize("at", [0, 1, 3])
def test_runs_of_plain_numbers_are_read_as_single_ones(number, at, dtype):
    def outcome(sequence):
        try:
            return repr(flambeau.tensor(sequence, dtype=dtype and getattr(flambeau, dtype)))
        except (TypeError, ValueError, RuntimeError, OverflowError) as error:
            return type(error), str(error)

    for plain in ([1, 0, 1], [0.5, 1.5, 1.0], [True, False, True]):
        row = [*plain[:at], number, *plain[at:]]
        for rows in (row, [plain + plain[:1], row]):
            nested = [Slowly(r) for r in rows] if rows is not row else rows
            assert outcome(rows) == outcome(Slowly(nested)) == outcome(tuple(rows))


def test_integers_above_63_bits_are_exact_or_refused():
    assert flambeau.tensor(2 ** 63, dtype=flambeau.float64).item() == 2.0 ** 63
    assert flambeau.tensor([2 ** 70, 1.5]).tolist() == [2.0 ** 70, 1.5]
    assert flambeau.tensor(2 ** 64 - 1, dtype=flambeau.uint64).item() == 2 ** 64 - 1
    assert flambeau.tensor([1.5, np.uint64(2 ** 63)], dtype=flambeau.float64)[1].item() == 2.0 ** 63
    with pytest.raises(ValueError, match="uint64"):
        flambeau.tensor(2 ** 63, dtype=flambeau.int64)
    with pytest.raises(OverflowError):
        flambeau.tensor(2 ** 64, dtype=flambeau.uint64)


MISTAKES = """
def loop():
    data = [1.0]
    data.append(data)
    return data
def loop_first():
    data = []
    data.append(data)
    return data
class Endless:
    def __len__(self): return 3
    def __getitem__(self, k): return self
class Raises:
    def __len__(self): return 3
    def __getitem__(self, k): raise KeyError(k)
MAKERS = [lambda: [["a"]], loop, loop_first, lambda: [1, loop()], Endless, lambda: [Endless()], lambda: [[[Raises()]]],
          lambda: [[1], [1, 2]], lambda: [[[1]], [[object()]]]]
"""


def run_python(text, timeout=60):
    found = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=timeout, check=False)
    assert found.returncode == 0, found.stderr[-2000:]
    return found.stdout


def test_caught_mistakes_leave_the_recursion_limit_alone():
    """Each throw used to keep the depth it was made at: after some hundred, every Python call failed."""
    run_python("import flambeau" + MISTAKES + """
x = flambeau.zeros(3)
def assign(data): x[:] = data
for make in MAKERS:
    for use in (flambeau.tensor, flambeau.as_tensor, flambeau.Tensor, x.new_tensor, assign, lambda d: x[d]):
        for _ in range(500):
            try: use(make())
            except (TypeError, ValueError, RuntimeError, KeyError, IndexError): pass
def depth(n): return n and depth(n - 1)
depth(900)
""")


def test_tensors_without_values_inside_a_list_are_refused():
    """Each of these used to copy from address 0."""
    run_python("""
import flambeau
from flambeau import func
class Wrapper(flambeau.Tensor):
    @staticmethod
    def __new__(cls, x): return flambeau.Tensor._make_wrapper_subclass(cls, x.shape, dtype=x.dtype)
    def __init__(self, x): pass
    @classmethod
    def __torch_dispatch__(cls, f, types, args=(), kwargs=None): raise RuntimeError("no values")
class Plain(flambeau.Tensor): pass
ones = flambeau.ones
refused = [ones(2, device="meta"), ones((), device="meta"), ones(1, device="meta"), Wrapper(ones(2)), Wrapper(ones(()))]
for t in refused:
    for data in ([t], [[t]], (t, t), [1.0, t], [ones(2), t]):
        for make in (flambeau.tensor, flambeau.as_tensor, flambeau.Tensor, ones(2).new_tensor):
            try: make(data)
            except (RuntimeError, ValueError, TypeError): pass
            else: raise AssertionError((t.shape, data))
for t in (ones(2, requires_grad=True), ones((), requires_grad=True), Plain(ones(2)), flambeau.nn.Parameter(ones(2))):
    assert flambeau.tensor([t, t]).shape == (2, *t.shape) and not flambeau.tensor([t]).requires_grad
def batched(x):
    try: flambeau.tensor([x, x])
    except (RuntimeError, ValueError): pass
    return x
func.vmap(batched)(ones(3, 2)); func.vmap(batched)(ones(3)); func.grad(lambda x: batched(x).sum())(ones(2))
""")


def test_a_sequence_that_changes_while_it_is_read():
    run_python("""
import flambeau
class Shrinking:
    def __init__(self, data): self.data = data
    def __float__(self): self.data.clear(); return 1.0
class Growing:
    def __init__(self, data): self.data = data
    def __float__(self): self.data.extend([1.0] * 10); return 1.0
for kind in (Shrinking, Growing):
    for _ in range(100):
        data = [1.0, 2.0, 3.0]; data.insert(1, kind(data))
        try: flambeau.tensor(data)
        except (IndexError, ValueError): pass
        inner = [1.0, 2.0]; outer = [[1.0, kind(inner)], inner]
        try: flambeau.tensor(outer)
        except (IndexError, ValueError): pass
""")


def test_an_endless_sequence_can_be_interrupted():
    run_python("""
import flambeau, signal
def stop(*_): raise KeyboardInterrupt
signal.signal(signal.SIGALRM, stop)
class Endless:
    def __len__(self): return 2 ** 62
    def __getitem__(self, k): return 1
for make in (lambda: flambeau.tensor(range(2 ** 62)), lambda: flambeau.tensor(Endless()),
             lambda: flambeau.ones(3)[range(2 ** 62)]):
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    try: make()
    except (KeyboardInterrupt, MemoryError, RuntimeError): pass
    signal.setitimer(signal.ITIMER_REAL, 0)
""", timeout=30)
