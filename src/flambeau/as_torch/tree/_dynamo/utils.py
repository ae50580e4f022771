"""torch._dynamo.utils: what programs ask of PyTorch's compiler."""

import sys
from collections import Counter
from collections.abc import Mapping

from ...._absent import say_once
from ...._C import graph_counts
from . import config
from .testing import same as same


def is_compile_supported(device_type):
    """Whether functions are compiled for this kind of device: for the CPU."""
    return device_type == "cpu"


def warn_once(msg, stacklevel=1):
    """A warning with this text, the first time."""
    say_once(msg, stacklevel)


def disable_cache_limit():
    """A block in which functions may be compiled for any number of sizes, as they may be anyway."""
    return config.patch(recompile_limit=sys.maxsize, accumulated_cache_size_limit=sys.maxsize)


class _Counters(Mapping):
    """What was captured since the last clear(), by subject; other subjects are empty.

    "stats": calls_captured and unique_graphs (plans that were made). "frames": programs that ran, in total and ok.
    "graph_break": those that ran before their function had ended.
    """

    def __init__(self):
        self._before = Counter()

    def __getitem__(self, subject):
        now = Counter(graph_counts())
        now.subtract(self._before)
        known = {"stats": {"calls_captured": now["calls"], "unique_graphs": now["made"]},
                 "frames": {"total": now["programs"], "ok": now["programs"]},
                 "graph_break": {"a value was asked for, or memory was about to be written": now["breaks"]}}
        return Counter({name: n for name, n in known.get(subject, {}).items() if n})

    def __iter__(self):
        return iter(subject for subject in ("stats", "frames", "graph_break") if self[subject])

    def __len__(self):
        return sum(1 for _ in self)

    def clear(self):
        """Counts from here on."""
        self._before = Counter(graph_counts())


counters = _Counters()
