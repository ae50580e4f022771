"""PyTorch's samples on a device: of the calls that the CPU answers as PyTorch does, how many does the device?

`python -m tests.parity.on_device --torch PYTHON [--device cuda] [--emulate] [--modules] [--only RE] [--failures FILE]`
prints counts for calls with their gradients, other call forms, and errors. Each operator runs in a process of its
own, so that one whose kernel faults spoils no other. `--emulate` runs on the fake driver and libraries of tests/cuda.
Draws are not compared: a device has a stream of its own.
"""

import argparse
import collections
import contextlib
import functools
import multiprocessing
import os
import sys
import tempfile
import time
import warnings

import flambeau

from ..core import seams
from . import modules, samples
from .exchange import Excluded

#: what PyTorch refuses on a GPU too
REFUSED_THERE = ("on CUDA there is the driver 'gels'",)


class Library(seams.Library):
    """flambeau for one program: inputs lie on the device; those that share memory on the CPU share it there."""

    def __init__(self, device):
        super().__init__(lambda t: t.to(device), device)
        self._memory = {}

    def frombuffer(self, memory, dtype):
        if id(memory) not in self._memory:
            self._memory[id(memory)] = super().frombuffer(memory, dtype=dtype)
        return self._memory[id(memory)]

    def Generator(self):
        return flambeau.Generator(self._device)


def emulate():
    """Lets this process and those it starts use the fake driver, whose kernels g++ compiles."""
    from flambeau._libraries import find_lapack

    from ..cuda import emulate, fake
    assert emulate.MARK  # importing it is enough
    os.environ |= {fake.VARIABLE: str(fake.build_driver()), fake.LIBRARY_FOLDER: str(fake.build_libraries()),
                   "FLAMBEAU_FAKE_LAPACK": str(find_lapack())}


def mentions(x):
    """Whether a tensor, or what a step gave, is among arguments."""
    if isinstance(x, tuple) and x and x[0] in ("t", "r"):
        return True
    return isinstance(x, (list, tuple)) and any(map(mentions, x))


def run_there(device, case):
    """A sample's outcome on the device, which is the default one only where a call is given no tensor: what others make
    on the way belongs on the device of theirs."""
    program = seams.moved(case["program"], device)
    given = all(mentions(args) or mentions(kwargs) for _, args, kwargs, _ in program)
    with contextlib.nullcontext() if given else flambeau.device(device):
        return samples.run_here(case | {"program": program}, Library(device))


def draws(seed):
    """Whether the program that has just run on the CPU, which begins with that seed, took random numbers."""
    after = flambeau.get_rng_state()
    flambeau.manual_seed(seed)
    return not flambeau.equal(after, flambeau.get_rng_state())


def operator_cases(device, dtypes, record):
    """(kind, case, what differs) of each call that the CPU answers as PyTorch does; what differs is None or words."""
    name = record["name"].split(".")[0]
    for case in record["cases"]:
        if "program" not in case or (dtypes and case["form"] != "error" and case["what"].split()[0] not in dtypes):
            continue
        kind = {"function": "samples", "error": "errors"}.get(case["form"], "forms")
        try:
            if samples.compare(name, case):
                continue
            drawn = draws(0)
            problem = samples.compare(name, case, functools.partial(run_there, device))
            if any(words in (problem or "") for words in REFUSED_THERE):
                continue
            if drawn and "differ, as" in (problem or ""):
                problem = None
        except Excluded:
            continue
        except Exception as error:
            problem = f"cannot be compared: {type(error).__name__}: {error}"
        yield kind, f"{record['name']} [{case['form']} {case['what']}] {samples.call_of(case)}", problem


def module_outcomes(device, dtypes, answers):
    """As operator_cases, for the modules of one name."""
    for case, theirs in answers:
        if modules.compare(case, theirs) or (dtypes and case.dtype not in dtypes):
            continue
        drawn = draws(1)
        found = modules.compare(case, theirs, device)
        if drawn:
            found = {aspect: text for aspect, text in found.items() if aspect == "error"}
        yield ("errors" if case.error else "modules",
               f"{case.module} [{case.label}] {case.dtype} {'train' if case.training else 'eval'}",
               "; ".join(f"{aspect}: {text}" for aspect, text in found.items()) or None)


def work(sink, run, device, dtypes, given):
    warnings.simplefilter("ignore")
    flambeau.set_num_threads(1)
    flambeau.backends.cudnn.allow_tf32 = False
    for outcome in run(device, dtypes, given):
        sink.send(outcome)
    sink.send(None)


class Pool:
    """Processes, one for each item; what they send is added to a tally, and what differs is written down."""

    def __init__(self, jobs, failures):
        self.jobs, self.running, self.failures = jobs, {}, failures
        self.total, self.equal, self.seconds = collections.Counter(), collections.Counter(), []

    def start(self, name, *given):
        while len(self.running) >= self.jobs:
            self.listen()
        source, sink = multiprocessing.get_context("fork").Pipe(False)
        process = multiprocessing.get_context("fork").Process(target=work, args=(sink, *given))
        process.start()
        sink.close()
        self.running[source] = process, name, time.perf_counter()

    def listen(self):
        for source in multiprocessing.connection.wait(list(self.running)):
            process, name, since = self.running[source]
            try:
                outcome = source.recv()
            except EOFError:
                process.join()
                outcome = None
                print(f"{name} ended its process: {process.exitcode}", file=self.failures, flush=True)
            if outcome is None:
                del self.running[source]
                process.join()
                self.seconds.append((time.perf_counter() - since, name))
                continue
            kind, case, problem = outcome
            self.total[kind] += 1
            self.equal[kind] += problem is None
            if problem:
                print(*f"{case} | {problem}".split(), file=self.failures, flush=True)

    def finish(self):
        while self.running:
            self.listen()
        return self

    def __str__(self):
        return "\n".join(f"{kind}: {self.equal[kind]} of {total} as on the CPU ({100 * self.equal[kind] / total:.2f} %)"
                         for kind, total in sorted(self.total.items()))


def measure(options, failures):
    pool = Pool(options.jobs, failures)
    dtypes = set(filter(None, options.dtypes.split(",")))
    if options.modules:
        answers = collections.defaultdict(list)
        for case, theirs in modules.ask(options.torch, options.only, options.dtypes or "float32,float64",
                                        options.cache):
            answers[case.module].append((case, theirs))
        for name, given in answers.items():
            pool.start(name, module_outcomes, options.device, dtypes, given)
        return pool.finish()
    with tempfile.TemporaryDirectory() as folder:
        for record in samples.records(options.torch, options.only, options.cache or folder, False):
            if not samples.excluded_reason(record["name"]):
                pool.start(record["name"], operator_cases, options.device, dtypes, record)
        return pool.finish()


def main():
    parser = argparse.ArgumentParser(prog="python -m tests.parity.on_device", description=__doc__.splitlines()[0])
    parser.add_argument("--torch", metavar="PYTHON", default=os.environ.get("FLAMBEAU_TORCH_PYTHON", sys.executable))
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--emulate", action="store_true", help="on the fake driver of the tests")
    parser.add_argument("--modules", action="store_true", help="PyTorch's module samples and those beside them")
    parser.add_argument("--only", metavar="RE", default="", help="operators or modules that this expression finds")
    parser.add_argument("--dtypes", default="", help="names of dtypes, with commas between them; otherwise all")
    parser.add_argument("--cache", help="folder that keeps PyTorch's outcomes for the next time")
    parser.add_argument("--jobs", type=int, default=2, help="how many processes at once")
    parser.add_argument("--failures", metavar="FILE", help="where to write what differs, one a line")
    options = parser.parse_args()
    if options.emulate:
        emulate()
    with contextlib.ExitStack() as stack:
        pool = measure(options, stack.enter_context(open(options.failures, "w")) if options.failures else sys.stdout)
    print(pool)
    print("longest:", ", ".join(f"{name} {seconds:.0f} s" for seconds, name in sorted(pool.seconds)[:-6:-1]))


if __name__ == "__main__":
    main()
