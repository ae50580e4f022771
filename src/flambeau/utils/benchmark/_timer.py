"""Timer: runs a statement, in Python or C++, with a fixed number of threads, and measures it."""

import contextlib
import textwrap
import timeit
from enum import Enum

from ... import get_num_threads, set_num_threads
from ..._shown import shown
from ..cpp_extension import load_inline
from ._measurement import Measurement, TaskSpec

#: reading the clock takes this part of a block's time at most
_OVERHEAD = 1e-4
_LONGEST_BLOCKS = 1000

_CPP = """
#include <chrono>
#include <cstdint>
{global_setup}
double run(int64_t number) {{
  {setup}
  auto start = std::chrono::steady_clock::now();
  for (int64_t flambeau_k = 0; flambeau_k < number; ++flambeau_k) {{
    {stmt}
  }}
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}}
"""


def timer():
    """Seconds of the clock that is used.

    >>> from flambeau.utils.benchmark import timer
    >>> timer() <= timer()
    True
    """
    return timeit.default_timer()


_clock = timer


class Language(Enum):
    """What a statement is written in."""

    PYTHON = 0
    CPP = 1


@contextlib.contextmanager
def set_torch_threads(n):
    """Runs what is inside with n threads.

    >>> import flambeau
    >>> from flambeau.utils.benchmark import set_torch_threads
    >>> with set_torch_threads(1):
    ...     flambeau.get_num_threads()
    1
    """
    before = get_num_threads()
    set_num_threads(n)
    try:
        yield
    finally:
        set_num_threads(before)


class _Cpp:
    """A C++ statement with timeit's method."""

    def __init__(self, stmt, setup, global_setup):
        text = _CPP.format(stmt=stmt, setup="" if setup == "pass" else setup, global_setup=global_setup)
        self._run = load_inline("benchmarked", text, functions="run", extra_cflags=["-O2"]).run

    def timeit(self, number):
        return self._run(number)


class Timer:
    """Times a statement; `setup` runs before it, `globals` are its variables, `num_threads` what operators may use.

    `label`, `sub_label`, `description` and `env` say where the result stands in a `Compare` table. In C++
    (language="c++") the statement sees the standard library and `flambeau/extension.h`, and `global_setup` stands
    outside the function.

    >>> import flambeau
    >>> from flambeau.utils.benchmark import Timer
    >>> x = flambeau.ones(64)
    >>> m = Timer("x + 1", globals={"x": x}, label="add").blocked_autorange(min_run_time=0.01)
    >>> 0 < m.median < 1
    True
    """

    def __init__(self, stmt="pass", setup="pass", global_setup="", timer=timer, globals=None, label=None,
                 sub_label=None, description=None, env=None, num_threads=1, language=Language.PYTHON):
        if not isinstance(stmt, str) or not isinstance(setup, str):
            raise ValueError(f"Timer: stmt and setup are texts of programs, got {shown(stmt)} and {shown(setup)}; "
                             "put a function into globals and write its call")
        stmt, setup = textwrap.dedent(stmt).strip(), textwrap.dedent(setup).strip()
        if language in (Language.PYTHON, "py", "python"):
            if global_setup:
                raise ValueError("Timer: global_setup is for C++; in Python, setup does it")
            self._timer = timeit.Timer(stmt, setup, timer, dict(globals or {}))
        elif language in (Language.CPP, "c++", "cpp"):
            if globals:
                raise ValueError("Timer: C++ sees no variables of Python; leave globals out and make them in setup")
            if timer is not _clock:
                raise ValueError("Timer: C++ is timed by its own clock; leave timer out")
            self._timer = _Cpp(stmt, setup, textwrap.dedent(global_setup))
        else:
            raise ValueError(f"Timer: language is 'python' or 'c++', got {shown(language)}")
        self._task_spec = TaskSpec(stmt, setup, global_setup, label, sub_label, description, env, num_threads)

    def _measured(self, number, times):
        return Measurement(number, times, self._task_spec)

    def timeit(self, number=1000000):
        """One measurement of `number` runs, after a few to warm up.

        >>> from flambeau.utils.benchmark import Timer
        >>> Timer("pass").timeit(100).number_per_run
        100
        """
        with set_torch_threads(self._task_spec.num_threads):
            self._timer.timeit(max(number // 100, 2))
            return self._measured(number, [self._timer.timeit(number)])

    def _block(self, min_run_time):
        """How many runs make a block whose time the clock tells well."""
        with set_torch_threads(self._task_spec.num_threads):
            clock = min(timeit.Timer("pass").timeit(0) for _ in range(5))
            number = 1
            while True:
                t = self._timer.timeit(number)
                if clock <= t * _OVERHEAD and t >= min_run_time / _LONGEST_BLOCKS:
                    return number
                if t > min_run_time:
                    return number
                number *= 10

    def blocked_autorange(self, callback=None, min_run_time=0.2):
        """Blocks of runs until `min_run_time` seconds have been measured; callback(number, seconds) hears of each.

        >>> from flambeau.utils.benchmark import Timer
        >>> m = Timer("x = 1").blocked_autorange(min_run_time=0.01)
        >>> sum(m.raw_times) >= 0.01
        True
        """
        number, times = self._block(min_run_time), []
        with set_torch_threads(self._task_spec.num_threads):
            while sum(times) < min_run_time:
                times.append(self._timer.timeit(number))
                if callback is not None:
                    callback(number, times[-1])
        return self._measured(number, times)

    def adaptive_autorange(self, threshold=0.1, *, min_run_time=0.01, max_run_time=10.0, callback=None):
        """Blocks until the quartiles are close (`threshold` of the median), for at most `max_run_time` seconds.

        >>> from flambeau.utils.benchmark import Timer
        >>> m = Timer("x = 1").adaptive_autorange(max_run_time=0.05)
        >>> 0 < m.median < 1
        True
        """
        number, times = self._block(min_run_time), []
        with set_torch_threads(self._task_spec.num_threads):
            while sum(times) < max_run_time:
                times.append(self._timer.timeit(number))
                if callback is not None:
                    callback(number, times[-1])
                enough = len(times) > 3 and sum(times) >= min_run_time
                if enough and self._measured(number, times).meets_confidence(threshold):
                    break
        return self._measured(number, times)

    def repeat(self, repeat=-1, number=-1):
        """Not available: `blocked_autorange` repeats as often as needed."""
        raise NotImplementedError(f"Timer.repeat({repeat}, {number}): use blocked_autorange, which repeats by itself")

    def autorange(self, callback=None):
        """Not available: `blocked_autorange` finds the number of runs."""
        raise NotImplementedError(f"Timer.autorange({shown(callback)}): use blocked_autorange, which finds the number "
                                  "of runs")

    def collect_callgrind(self, number=100, *, repeats=None, collect_baseline=True, retain_out_file=False):
        """Not available: instructions are counted by a program around Python, not from inside it."""
        given = ", ".join(map(str, (number, repeats, collect_baseline, retain_out_file)))
        raise NotImplementedError(f"Timer.collect_callgrind({given}): instructions are not counted from inside Python; "
                                  "put the statement into a file and run `valgrind --tool=callgrind python file.py`")
