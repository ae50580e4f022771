"""What happened in one call of a compiled function: which programs ran and why, and what each of their steps did."""

from math import prod
from typing import NamedTuple

from .. import _C, empty_strided
from ..utils.flop_counter import counts_of


class Value(NamedTuple):
    """A tensor that a step reads or makes: memory from outside ("input", slot), or a value of the program ("value",
    number). What a group keeps to itself has no layout."""

    kind: str
    number: int
    dtype: object
    shape: tuple
    strides: tuple

    @property
    def name(self):
        """The same for all that see this memory."""
        return self.kind, self.number

    @property
    def bytes(self):
        """The memory that it shows: what is expanded counts once."""
        if self.dtype is None:
            return 0
        return self.dtype.itemsize * prod(n for n, stride in zip(self.shape, self.strides) if stride)

    def described(self):
        """A tensor of this layout without memory."""
        return empty_strided(self.shape, self.strides, dtype=self.dtype, device="meta")


class Call(NamedTuple):
    """One call of an operator (None: a backend's function), with what it was given and what came of it."""

    op: object
    args: tuple
    results: list
    line: str

    @property
    def name(self):
        return "a backend's function" if self.op is None else self.op.name

    def reads(self):
        """The tensors among its arguments."""
        for arg in self.args:
            yield from (v for v in (arg if isinstance(arg, list) else [arg]) if isinstance(v, Value))

    def flops(self):
        """Operations, two per multiply-add, as utils.flop_counter knows them; 0 where it does not."""
        if self.op is None or any(v.dtype is None for v in self.reads()):
            return 0
        args, kwargs = [], {}
        for given, (name, keyword_only, _, _) in zip(self.args, self.op.arguments, strict=True):
            given = given.described() if isinstance(given, Value) else given
            if keyword_only:
                kwargs[name] = given
            else:
                args.append(given)
        results = [v.described() if v is not None and v.dtype is not None else None for v in self.results]
        return sum(n for _, n in counts_of(self.op, args, kwargs, results[0] if len(results) == 1 else results))


class Step(NamedTuple):
    """Calls that ran together, or one. `block`: how many elements of a group at a time; 0: one call after the other.
    `kept`: constants that an earlier run has made."""

    calls: list
    seconds: float
    block: int
    kept: bool

    @property
    def reads(self):
        """{what it reads from outside of itself: None}, in order."""
        made = {v.name for call in self.calls for v in call.results if v is not None}
        return dict.fromkeys(v for call in self.calls for v in call.reads() if v.name not in made and v.dtype)

    @property
    def makes(self):
        """What it writes for others."""
        return [v for call in self.calls for v in call.results if v is not None and v.dtype]

    @property
    def bytes(self):
        """Read and written; memory that is seen in several ways counts once, as the largest."""
        if self.kept:
            return 0
        seen = {}
        for value in self.reads:
            seen[value.name] = max(value.bytes, seen.get(value.name, 0))
        return sum(seen.values()) + sum(v.bytes for v in self.makes)

    @property
    def flops(self):
        return 0 if self.kept else sum(call.flops() for call in self.calls)

    @property
    def names(self):
        return [call.name for call in self.calls]


class AtOnce(NamedTuple):
    """A call that could not be put off. reason: "writes", "random", "values" or "other"."""

    name: str
    reason: str
    line: str


class Run(NamedTuple):
    """A program. why: the "end" of the function, a "value", a "write", "long". known: its plan was there."""

    why: str
    known: bool
    calls: int
    line: str
    steps: list
    before: list  # calls that could not be put off, since the program before
    recording: list  # what became of its recording, where it was asked for


def watched(name, fn, args, kwargs):
    """The programs that run while `fn` is called, in order, and what ran at once after the last."""
    runs, before = [], []
    for kind, *event in _C.graph_listen(fn, args, kwargs):
        if kind == "at once":
            before.append(AtOnce(*event))
        elif kind == "runs":
            runs.append(Run(*event, [], before, []))
            before = []
        elif kind == "recording":
            runs[-1].recording.extend(event)
        else:
            calls, *rest = event
            runs[-1].steps.append(Step([_call(c) for c in calls], *rest))
    if not runs:
        raise RuntimeError(f"{name}: the call has captured nothing; pass a function or module that compile() has "
                           "returned, and arguments with which it computes something")
    return runs, before


def _call(described):
    op, args, results, line = described
    return Call(op, tuple(map(_value, args)), [_value(v) for v in results], line)


def _value(v):
    if isinstance(v, tuple) and v and v[0] in ("input", "value"):
        return Value(*v)
    return [_value(item) for item in v] if isinstance(v, list) else v
