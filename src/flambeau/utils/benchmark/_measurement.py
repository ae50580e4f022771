"""What was timed (TaskSpec) and what came out (Measurement): seconds per run, their spread, and what it is worth."""

import math
from dataclasses import dataclass, field
from statistics import fmean, median, quantiles

from ..._shown import shown

_UNITS = {"ns": ("nanosecond", 1e-9), "us": ("microsecond", 1e-6), "ms": ("millisecond", 1e-3), "s": ("second", 1.0)}
#: a spread above this part of the median is worth a warning
_SPREAD = 0.1


def select_unit(t):
    """(unit, its seconds) that a time is best written in.

    >>> from flambeau.utils.benchmark import select_unit
    >>> select_unit(0.002)
    ('ms', 0.001)
    """
    power = 0 if t <= 0 else min(3, max(0, 3 + math.floor(math.log10(t) / 3 + 1e-9)))
    name = list(_UNITS)[power]
    return name, _UNITS[name][1]


def unit_to_english(u):
    """A unit in words.

    >>> from flambeau.utils.benchmark import unit_to_english
    >>> unit_to_english("us")
    'microsecond'
    """
    return _UNITS[u][0]


def trim_sigfig(x, n):
    """x with n digits that count.

    >>> from flambeau.utils.benchmark import trim_sigfig
    >>> trim_sigfig(1234.5, 2)
    1200.0
    """
    return float(f"{x:.{n - 1}e}")


def ordered_unique(elements):
    """Each element once, in the order of first appearance.

    >>> from flambeau.utils.benchmark import ordered_unique
    >>> ordered_unique([3, 1, 3])
    [3, 1]
    """
    return list(dict.fromkeys(elements))


@dataclass(init=True, repr=False, eq=True, frozen=True)
class TaskSpec:
    """What is timed, and what it is called: `label`, `sub_label` (its row), `description` (its column), `env`.

    >>> from flambeau.utils.benchmark import TaskSpec
    >>> print(TaskSpec("x + 1", "x = 1", label="add").summarize())
    add
    setup: x = 1
    """

    stmt: str
    setup: str
    global_setup: str = ""
    label: str | None = None
    sub_label: str | None = None
    description: str | None = None
    env: str | None = None
    num_threads: int = 1

    @property
    def title(self):
        """The label, or the statement, with the sub-label."""
        if self.label is not None:
            return self.label + (f": {self.sub_label}" if self.sub_label else "")
        return f"stmt:\n{_indented(self.stmt)}" if "\n" in self.stmt else self.stmt

    def setup_str(self):
        """The setup as it is shown; nothing for none."""
        if self.setup in ("", "pass"):
            return ""
        return f"setup:\n{_indented(self.setup)}" if "\n" in self.setup else f"setup: {self.setup}"

    def summarize(self):
        """Title, description and setup, a line each."""
        return "\n".join(part for part in (self.title, self.description or "", self.setup_str()) if part)


def _indented(text):
    return "".join(f"  {line}\n" for line in text.strip().splitlines())


@dataclass(init=True, repr=False)
class Measurement:
    """Times of a statement: `raw_times` are of blocks of `number_per_run` runs, `times` of one run.

    >>> from flambeau.utils.benchmark import Measurement, TaskSpec
    >>> m = Measurement(10, [1e-4, 1.1e-4, 1.2e-4], TaskSpec("f()", "pass"))
    >>> m.median, m.mean == sum(m.times) / 3
    (1.1e-05, True)
    >>> print(m)
    <flambeau Measurement>
    f()
      Median: 11.00 us
      IQR:    1.00 us (10.50 to 11.50)
      3 measurements, 10 runs per measurement, 1 thread
    """

    number_per_run: int
    raw_times: list
    task_spec: TaskSpec
    metadata: dict | None = field(default=None)

    def __getattr__(self, name):
        if name in TaskSpec.__dataclass_fields__ or name in ("title", "setup_str"):
            return getattr(self.task_spec, name)
        raise AttributeError(f"Measurement has no attribute {shown(name)}")

    @property
    def times(self):
        """Seconds per run, one for each block."""
        return [t / self.number_per_run for t in self.raw_times]

    def _needs_times(self):
        if not self.raw_times:
            raise ValueError("Measurement: there are no times")
        return self.times

    @property
    def median(self):
        """The middle of the times: what a slow block hardly changes."""
        return median(self._needs_times())

    @property
    def mean(self):
        """The average of the times."""
        return fmean(self._needs_times())

    def _quartiles(self):
        times = self._needs_times()
        return (times[0], times[0]) if len(times) == 1 else quantiles(times, n=4, method="inclusive")[::2]

    @property
    def iqr(self):
        """The distance of the quartiles: half of the times lie within it."""
        low, high = self._quartiles()
        return high - low

    @property
    def significant_figures(self):
        """How many digits of the median the spread of the times allows, 90 times in 100."""
        deviation = self.iqr / 1.349 * 1.2533 / math.sqrt(len(self.raw_times))  # of the median of normal times
        if len(self.raw_times) < 2 or deviation == 0:
            return 1 if len(self.raw_times) < 2 else 5
        return max(1, min(5, math.ceil(math.log10(self.median / (1.645 * deviation)))))

    @property
    def has_warnings(self):
        """Whether the quartiles are further apart than a tenth of the median."""
        return not self.meets_confidence()

    def meets_confidence(self, threshold=_SPREAD):
        """Whether the distance of the quartiles is at most that part of the median."""
        return self.iqr <= threshold * self.median

    @property
    def as_row_name(self):
        """The name of the row in a table: sub-label, or statement."""
        return self.sub_label or self.stmt or "[Unknown]"

    @property
    def title(self):
        """The task's title."""
        return self.task_spec.title

    @staticmethod
    def merge(measurements):
        """Measurements of equal tasks joined; a list in the order of first appearance."""
        grouped = {}
        for m in measurements:
            grouped.setdefault((m.task_spec, m.number_per_run), []).extend(m.raw_times)
        return [Measurement(number, times, task) for (task, number), times in grouped.items()]

    def __repr__(self):
        unit, scale = select_unit(self.median)
        low, high = (q / scale for q in self._quartiles())
        blocks, threads = len(self.raw_times), self.num_threads
        lines = [f"<{__name__.partition('.')[0]} Measurement>", self.task_spec.summarize()]
        if blocks == 1:
            lines.append(f"  {self.median / scale:.2f} {unit}")
            lines.append(f"  1 measurement, {self.number_per_run} runs, {threads} thread{'s' * (threads > 1)}")
            return "\n".join(lines)
        lines += [f"  Median: {self.median / scale:.2f} {unit}",
                  f"  IQR:    {self.iqr / scale:.2f} {unit} ({low:.2f} to {high:.2f})",
                  f"  {blocks} measurements, {self.number_per_run} runs per measurement, "
                  f"{threads} thread{'s' * (threads > 1)}"]
        if self.has_warnings:
            lines.append(f"  WARNING: the quartiles are {self.iqr / self.median:.1%} of the median apart: repeat it "
                         "on a quiet machine")
        return "\n".join(lines)
