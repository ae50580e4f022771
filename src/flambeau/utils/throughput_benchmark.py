"""How many calls of a module per second several threads get done together."""

import contextlib
import itertools
import random
import threading
import time
from dataclasses import dataclass

from ..autograd import no_grad
from ..profiler import profile


def format_time(time_us=None, time_ms=None, time_s=None):
    """A time in a fitting unit; one of the three is given.

    >>> from flambeau.utils.throughput_benchmark import format_time
    >>> format_time(time_us=1500), format_time(time_s=2)
    ('1.500ms', '2.000s')
    """
    given = [(t, scale) for t, scale in ((time_us, 1.0), (time_ms, 1e3), (time_s, 1e6)) if t is not None]
    if len(given) != 1:
        raise AssertionError(f"format_time: give one of time_us, time_ms and time_s, got {len(given)}")
    microseconds = given[0][0] * given[0][1]
    scale, unit = next((s, u) for s, u in ((1e6, "s"), (1e3, "ms"), (0, "us")) if microseconds >= s)
    return f"{microseconds / (scale or 1):.3f}{unit}"


@dataclass(frozen=True)
class ExecutionStats:
    """What a benchmark found: average time of a call, calls, and seconds altogether."""

    latency_avg_ms: float
    num_iters: int
    total_time_seconds: float
    num_calling_threads: int = 1

    @property
    def iters_per_second(self):
        """Calls per second, of all threads together."""
        return self.num_iters / self.total_time_seconds

    def __str__(self):
        return (f"{self.num_iters} calls by {self.num_calling_threads} threads: "
                f"{format_time(time_ms=self.latency_avg_ms)} each, {self.iters_per_second:.2f} per second, "
                f"{format_time(time_s=self.total_time_seconds)} altogether")


class ThroughputBenchmark:
    """Calls a module from several threads at once, each time with one of the inputs, in any order.

    >>> import flambeau
    >>> from flambeau.utils.throughput_benchmark import ThroughputBenchmark
    >>> bench = ThroughputBenchmark(flambeau.nn.Linear(2, 2))
    >>> bench.add_input(flambeau.ones(1, 2))
    >>> bench.benchmark(num_calling_threads=2, num_warmup_iters=1, num_iters=10).num_iters
    10
    """

    def __init__(self, module):
        self._module, self._inputs = module, []

    def add_input(self, *args, **kwargs):
        """The arguments of one kind of call."""
        self._inputs.append((args, kwargs))

    def run_once(self, *args, **kwargs):
        """One call, for its result."""
        with no_grad():
            return self._module(*args, **kwargs)

    def benchmark(self, num_calling_threads=1, num_warmup_iters=10, num_iters=100, profiler_output_path=""):
        """`num_iters` calls shared by the threads, after `num_warmup_iters` of each; a trace goes into the path."""
        if not self._inputs:
            raise ValueError("ThroughputBenchmark: there is nothing to call the module with; say add_input(…) first")
        times, counter = [], itertools.count()
        start, errors = threading.Barrier(num_calling_threads + 1), []

        def work(seed):
            chosen = random.Random(seed)
            try:
                for _ in range(num_warmup_iters):
                    self._call(chosen)
                start.wait()
                while next(counter) < num_iters:
                    begin = time.perf_counter()
                    self._call(chosen)
                    times.append(time.perf_counter() - begin)
            except Exception as error:
                errors.append(error)
                start.abort()

        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(num_calling_threads)]
        total = self._run(threads, start, profiler_output_path)
        if errors:
            raise next((e for e in errors if not isinstance(e, threading.BrokenBarrierError)), errors[0])
        return ExecutionStats(1e3 * sum(times) / len(times), len(times), total, num_calling_threads)

    def _call(self, chosen):
        args, kwargs = chosen.choice(self._inputs)
        self.run_once(*args, **kwargs)

    def _run(self, threads, start, path):
        """Seconds from the moment when all threads are warm until all are done."""
        recording = profile() if path else None
        for thread in threads:
            thread.start()
        with contextlib.suppress(threading.BrokenBarrierError):  # a thread has failed, and says so below
            start.wait()
        begin = time.perf_counter()
        if recording is not None:
            recording.start()
        for thread in threads:
            thread.join()
        total = time.perf_counter() - begin
        if recording is not None:
            recording.stop()
            recording.export_chrome_trace(path)
        return total
