"""Which operators refuse which dtypes, and how: the table refusals.txt, which `python -m tests.ops.refusals` writes.

A line is an operator's name and what it refuses: the exception's type, then dtypes. Where a dtype is refused in some
samples only, their numbers stand behind it: `RuntimeError: bool float16(0,2)`. What is not in the table works.
"""

import warnings
from functools import cache
from pathlib import Path

import flambeau

from . import battery

FILE = Path(__file__).with_name("refusals.txt")
#: one word for dtypes that are mostly refused together
GROUPS = {"integers": "uint8 int8 int16 int32 int64", "halves": "float16 bfloat16", "singles": "float32 float64",
          "complex": "complex64 complex128"}


def short(dtype):
    return str(dtype).split(".")[1]


def refused(name, dtype):
    """{number of the sample: exception's type} of what the operator refuses; anything but a refusal is raised."""
    found = {}
    for k, sample in enumerate(battery.samples(name, dtype)):
        try:
            result = battery.run(name, sample)
        except battery.REFUSALS as refusal:
            battery.skip_what_needs_a_library(refusal)
            assert str(refusal).strip(), f"{name}{sample}: an error without a message"
            found[k] = type(refusal).__name__
            continue
        for t in battery.tensors(result):
            t.tolist()  # values are readable
    return found


def parts(name):
    """{exception's type: [dtype, or dtype(samples)]}: the operator's line of the table, as data."""
    line = {}
    for dtype in battery.ALL_DTYPES:
        count = len(battery.samples(name, dtype))
        kinds = {}
        for k, kind in refused(name, dtype).items():
            kinds.setdefault(kind, []).append(k)
        for kind, numbers in kinds.items():
            some = f"({','.join(map(str, numbers))})" if len(numbers) < count else ""
            line.setdefault(kind, []).append(short(dtype) + some)
    return line


def text(line):
    return "; ".join(f"{kind}: {grouped(dtypes)}" for kind, dtypes in sorted(line.items()))


def grouped(dtypes):
    words = f" {' '.join(dtypes)} "
    for group, members in GROUPS.items():
        words = words.replace(f" {members} ", f" {group} ")
    return words.strip()


@cache
def table():
    """{operator: its line} of those that refuse anything."""
    lines = (line.split("\t") for line in FILE.read_text().splitlines() if not line.startswith("#"))
    return dict(lines)


@cache
def pinned(name):
    """{(dtype's name, number of the sample, None for all): exception's type}, read from the table."""
    found = {}
    for part in table().get(name, "").split("; "):
        kind, _, dtypes = part.partition(": ")
        for word in dtypes.split():
            dtype, _, numbers = word.rstrip(")").partition("(")
            for each in GROUPS.get(dtype, dtype).split():
                found |= {(each, int(k) if k else None): kind for k in numbers.split(",")}
    return found


def refuses(name, dtype, number):
    """Whether the table says that the operator refuses this sample in this dtype."""
    known = pinned(name)
    return (short(dtype), None) in known or (short(dtype), number) in known


def refuses_all(name, dtype):
    return (short(dtype), None) in pinned(name)


def write():
    lines = {n: text(parts(n)) for n in battery.with_samples("dtypes")}
    head = "# what each operator refuses; written by `python -m tests.ops.refusals`"
    FILE.write_text("\n".join([head, *(f"{n}\t{line}" for n, line in lines.items() if line), ""]))


if __name__ == "__main__":
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        flambeau.set_num_threads(1)
        write()
