"""A compiled function's call as a table: what each step computes, moves and takes, and what did not fuse and why."""

import re
from collections import Counter
from pathlib import Path

from ..fx.node import value_text
from ._machine import rates
from ._watch import watched

_WIDTH = 120
_COLUMNS = "{:>4}  {:>10}  {:>6}  {:>6}  {:>9}  {:>9}  {:<24}  {}"
#: how a program ends before its function does
ENDS = {"value": "a value was asked for", "write": "memory that it reads was about to be written",
         "long": "so many calls are not kept"}
_AT_ONCE = {"writes": "writes to memory that another library knows, or that it also reads elsewhere",
            "random": "draws from a generator that was given", "values": "its result's shape depends on values",
            "other": "is computed at once"}


class Report:
    """What one call did. `runs` are its programs, each with its `steps`; `rates` what the machine can do at best.

    str() is a table. time, share: of the step, and of all steps. floor: the least time the machine needs for the step's
    bytes and operations, as a share of the time it took; more than 100 % where a cache held the data.
    """

    def __init__(self, runs, after, machine):
        self.runs, self.after, self.rates = runs, after, machine

    @property
    def steps(self):
        """Those of all programs."""
        return [step for run in self.runs for step in run.steps]

    @property
    def seconds(self):
        """Of all steps together."""
        return sum(step.seconds for step in self.steps)

    def floor(self, step):
        """Which share of the step's time the machine needs at least."""
        return self.rates.least_seconds(step.bytes, step.flops) / max(step.seconds, 1e-9)

    def reasons(self):
        """What was not fused and why, what ran at once, where programs ended, what was recorded: a line each."""
        lines = Counter()
        for run in self.runs:
            lines.update(_at_once(call) for call in run.before)
            lines.update(filter(None, map(_not_fused, run.steps)))
        lines.update(_at_once(call) for call in self.after)
        told = [line if n == 1 else f"{line} ({n} times)" for line, n in lines.items()]
        told += [f"program {k} ended: {ENDS[run.why]}{_place(run.line)}"
                 for k, run in enumerate(self.runs, 1) if run.why in ENDS]
        return told + [f"program {k} {text}" for k, run in enumerate(self.runs, 1) for text in run.recording]

    def __str__(self):
        total = self.seconds or 1e-9
        lines = [_COLUMNS.format("step", "time", "share", "floor", "bytes", "flops", "makes", "computes")]
        for number, step in enumerate(self.steps, 1):
            flops = step.flops
            lines.append(_COLUMNS.format(
                number, duration(step.seconds), f"{step.seconds / total:.0%}", f"{self.floor(step):.0%}",
                amount(step.bytes, "B"), amount(flops) if flops else "", made_text(step),
                computed_text(step))[:_WIDTH])
        flops = sum(s.flops for s in self.steps)
        lines.append(_COLUMNS.format(
            "all", duration(self.seconds), "", f"{self._floor_of_all() / total:.0%}",
            amount(sum(s.bytes for s in self.steps), "B"), amount(flops) if flops else "", "",
            f"in {_counted(len(self.steps), 'step')}" + self._programs())[:_WIDTH])
        new = sum(not run.known for run in self.runs)
        if new:
            lines.append(f"{_counted(new, 'plan')} made in this call: times are those of a first run")
        lines.append(f"floor: {amount(self.rates.bytes, 'B')}/s copied, {amount(self.rates.flops)} float32 "
                     "operations/s in large products")
        reasons = self.reasons()
        return "\n".join([*lines, *(["not fused:"] if reasons else []), *(f"  {line}"[:_WIDTH] for line in reasons)])

    __repr__ = __str__

    def _floor_of_all(self):
        return sum(self.rates.least_seconds(s.bytes, s.flops) for s in self.steps)

    def _programs(self):
        return f" of {_counted(len(self.runs), 'program')}" if len(self.runs) > 1 else ""


def report(fn, *args, **kwargs):
    """Calls what `compile` (or `Module.compile`) has made, and tells what the call did: a Report, readable by print.

    >>> import flambeau
    >>> f = flambeau.compile(lambda x: (x * 2 + 1).sum())
    >>> [step.names for step in flambeau.compiler.report(f, flambeau.ones(3)).steps][0][:2]
    ['mul', 'add']
    """
    return Report(*watched("report", fn, args, kwargs), rates())


def computed_text(step):
    """The operators of a step."""
    if step.kept:
        return "kept: " + " ".join(step.names)
    if len(step.calls) == 1:
        return step.names[0] + _taken_in(step.calls[0])
    return (f"blocks of {step.block}: " if step.block else "together: ") + " ".join(step.names)


def _taken_in(call):
    """The activation that is part of a library call."""
    if call.op is None or not call.name.endswith("_tail"):
        return ""
    names = [name for name, *_ in call.op.arguments]
    activation = call.args[names.index("activation")]
    return "" if activation == "none" else f", then {activation}"


def made_text(step):
    """The dtypes and shapes that a step makes, as far as there is room."""
    texts = [value_text(v) for v in step.makes]
    more = f" +{len(texts) - 1}" if len(texts) > 1 else ""
    return (texts[0] if texts else "-") + more


def duration(seconds):
    """In the unit that suits it.

    >>> from flambeau.compiler._report import duration
    >>> duration(2.5e-6), duration(0.0123), duration(2)
    ('2.5 us', '12.3 ms', '2.0 s')
    """
    for unit, size in (("s", 1), ("ms", 1e-3)):
        if seconds >= size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds * 1e6:.1f} us"


def amount(n, unit=""):
    """With three digits and a prefix.

    >>> from flambeau.compiler._report import amount
    >>> amount(1.5e9), amount(12345, "B"), amount(12, "B")
    ('1.5 G', '12.3 kB', '12 B')
    """
    for prefix, size in (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if n >= size:
            return f"{n / size:.1f} {prefix}{unit}"
    return f"{n:.0f} {unit}".rstrip()


def _counted(n, what):
    return f"{n} {what}" if n == 1 else f"{n} {what}s"


def _place(line):
    """`File "a/b.py", line 3, in f` in short, in brackets."""
    found = re.fullmatch(r'File "(.*)", line (\d+), in (.*)', line)
    return f" ({Path(found[1]).name}:{found[2]}, {found[3]})" if found else ""


def _at_once(call):
    return f"{call.name}: {_AT_ONCE[call.reason]}{_place(call.line)}"


def _not_fused(step):
    """Why the calls of a step are alone; None where they are not."""
    if step.kept:
        return None
    if len(step.calls) > 1:
        return None if step.block else f"{' '.join(step.names)}: these layouts are not walked in blocks"
    call = step.calls[0]
    if call.op is None:
        return None
    if step.flops:
        return f"{call.name}: one call of a library"
    if call.op.kind == "elementwise":
        return f"{call.name}: shares no value with another pointwise call of its shape{_place(call.line)}"
    if not call.results:
        return f"{call.name}: writes to memory from outside{_place(call.line)}"
    why = "a reduction ends the group" if call.op.kind == "reduction" else "is not computed element by element"
    return f"{call.name}: {why}{_place(call.line)}"
