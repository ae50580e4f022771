"""Calls operators with hostile arguments: only Python exceptions may come of it.

Run as `python -m tests.fuzz_worker SEED CALLS LOG`. Each call is written to LOG before it is made, so that the log of a
process that died names the call that killed it. Prints how many calls worked. Memory is limited: sizes that a
machine could just serve are refused as those that none can.
"""

import os
import random
import resource
import signal
import sys
import warnings

import flambeau
from flambeau.ops.kinds import FACTS, OPS

from .ops import battery

HUGE = (2 ** 31, 2 ** 40, 2 ** 62, 2 ** 63 - 1, -2 ** 63)
NUMBERS = (0, 1, -1, 2, 3, 5, -2, -7, 64, 127, 1000, *HUGE)
FLOATS = (0.0, -0.0, 1.5, -1.0, 1e300, -1e300, float("inf"), -float("inf"), float("nan"))
STRINGS = ("", "mean", "sum", "none", "same", "valid", "reflect", "floor", "trunc", "ij,jk->ik", "no such", "\0",
           "é" * 20)
SHAPES = ((), (0,), (1,), (3,), (2, 3), (3, 2), (0, 3), (2, 0, 3), (1, 1, 1), (2, 3, 4), (2, 2, 3, 3), (1, 2, 2, 3, 3),
          (1,) * 7, (4, 1), (1, 4))
DTYPES = battery.ALL_DTYPES
#: after so long a call is interrupted, as Ctrl-C would
SECONDS = 4


class Hostile:
    """Objects that misbehave when they are asked anything."""

    def __index__(self):
        raise KeyError("index")

    def __float__(self):
        raise KeyError("float")

    def __len__(self):
        raise KeyError("len")

    def __getitem__(self, k):
        raise KeyError(k)


def tensor(r):
    shape = r.choice(SHAPES)
    dtype = r.choice(DTYPES) if r.random() < 0.5 else flambeau.float32
    kind = r.random()
    if kind < 0.06:
        return flambeau.empty(shape, dtype=dtype, device="meta")
    if kind < 0.1:  # overlapping
        return flambeau.ones(1, dtype=dtype).expand(r.choice((2, 3, 0)))
    if kind < 0.14:
        return flambeau.ones(*[n + 1 for n in shape], 2, dtype=dtype)[..., 0]
    if kind < 0.5 and ("float" in str(dtype) or "complex" in str(dtype)):
        t = flambeau.randn(shape).to(dtype)
    else:
        t = flambeau.randint(-3, 5, shape).to(dtype)
    if kind > 0.9 and t.numel() and "float" in str(dtype):
        t.view(-1)[0] = float(r.choice(FLOATS[:1] + FLOATS[-3:]))
    if kind > 0.95 and t.ndim > 1:
        t = t.transpose(0, -1)
    if r.random() < 0.2 and (t.is_floating_point() or t.is_complex()):
        t.requires_grad_()
    return t


def anything(r):
    return r.choice((
        lambda: tensor(r), lambda: r.choice(NUMBERS), lambda: r.choice(FLOATS), lambda: r.choice(STRINGS), lambda: None,
        list, tuple, dict, object, Hostile, lambda: True, lambda: 1j,
        lambda: [r.choice(NUMBERS) for _ in range(r.randrange(5))], lambda: [tensor(r) for _ in range(r.randrange(4))],
        lambda: [None, tensor(r)], lambda: 10 ** 30, lambda: r.choice(DTYPES), lambda: "cpu", lambda: "meta",
        lambda: [[1, 2], [3]], lambda: flambeau.Tensor, lambda: b"bytes", lambda: range(3),
    ))()


#: a plausible value for each type a schema can ask for
BY_TYPE = {
    "Tensor": tensor, "Tensor[]": lambda r: [tensor(r) for _ in range(r.randrange(4))],
    "Tensor?[]": lambda r: [r.choice((None, tensor(r))) for _ in range(r.randrange(4))],
    "Scalar": lambda r: r.choice((*NUMBERS, *FLOATS, 1j, True)), "int": lambda r: r.choice(NUMBERS),
    "int[]": lambda r: [r.choice(NUMBERS[:9] if r.random() < 0.8 else NUMBERS) for _ in range(r.randrange(5))],
    "float": lambda r: r.choice(FLOATS), "float[]": lambda r: [r.choice(FLOATS) for _ in range(r.randrange(4))],
    "bool": lambda r: r.random() < 0.5, "str": lambda r: r.choice(STRINGS), "dtype": lambda r: r.choice(DTYPES),
    "device": lambda r: r.choice(("cpu", "meta", "cuda", "no such", "cpu:-3")),
}


def argument(r, type_name):
    if r.random() < 0.12:
        return anything(r)
    base = type_name.rstrip("?") if not type_name.endswith("?[]") else type_name
    base = base if base in BY_TYPE else base.split("[")[0] + ("[]" if "[" in base else "")
    if type_name.endswith("?") and r.random() < 0.4:
        return None
    return BY_TYPE.get(base, anything)(r)


def sized(x):
    """Whether a number among the arguments asks for much memory honestly (a million elements and more)."""
    if isinstance(x, (list, tuple)):
        product = 1
        for v in x:
            product *= abs(v) if isinstance(v, int) else 1
        return 10 ** 6 < product < 10 ** 11 or any(sized(v) for v in x)
    return isinstance(x, int) and 10 ** 6 < abs(x) < 10 ** 11


def describe(name, args, kwargs):
    def show(x):
        if isinstance(x, flambeau.Tensor):
            return f"{x.dtype}{list(x.shape)}{'' if x.device.type == 'cpu' else '@meta'}{list(x.stride())}"
        if isinstance(x, (list, tuple)):
            return "[" + ", ".join(show(v) for v in x) + "]"
        return repr(x)[:60] if not isinstance(x, Hostile) else "Hostile()"
    return f"{name}({', '.join([*map(show, args), *(f'{k}={show(v)}' for k, v in kwargs.items())])})"


def near_sample(r, name):
    """A valid sample with one argument replaced."""
    found = battery.samples(name, r.choice((flambeau.float32, flambeau.float64)), r.random() < 0.3, r.randrange(5))
    if not found:
        return None
    sample = r.choice(found)
    args, kwargs = list(sample.args), dict(sample.kwargs)
    if args:
        k = r.randrange(len(args))
        args[k] = tensor(r) if isinstance(args[k], flambeau.Tensor) and r.random() < 0.7 else anything(r)
    return args, kwargs


def make_call(r, name):
    if r.random() < 0.4:
        made = near_sample(r, name)
        if made:
            return made
    parameters = battery.parameters(name)
    positional = parameters[:r.randrange(1, len(parameters) + 2)] if parameters else []
    args = [argument(r, t) for _, t in positional]
    kwargs = {n: argument(r, t) for n, t in parameters[len(positional):] if r.random() < 0.3}
    if r.random() < 0.05:
        kwargs["out"] = anything(r)
    return args, kwargs


class TooSlow(BaseException):
    """Stops a call whose numbers ask for endless work."""


def stop(*_):
    raise TooSlow


def main(seed, calls, log):
    signal.signal(signal.SIGALRM, stop)
    r = random.Random(seed)
    names = sorted(FACTS)
    worked = 0
    with open(log, "w", buffering=1) as out:
        for k in range(calls):
            name = names[k % len(names)]
            args, kwargs = make_call(r, name)
            if any(sized(x) for x in (*args, *kwargs.values())):
                continue
            out.seek(0)
            out.truncate()
            out.write(f"seed {seed}, call {k}: {describe(name, args, kwargs)}\n")
            target = OPS[name]
            if args and isinstance(args[0], flambeau.Tensor) and r.random() < 0.1:
                target, args = getattr(args[0], name + "_", None) or target, args
                args = args[1:] if target is not OPS[name] else args
            try:
                signal.alarm(SECONDS)
                result = target(*args, **kwargs)
                worked += 1
                follow_up(r, result)
            except (MemoryError, KeyError, TooSlow):
                pass  # KeyError comes from Hostile; a loop of Python that can be interrupted is no crash
            except Exception as error:
                if isinstance(error, SystemError):
                    raise
                str(error)
            finally:
                signal.alarm(0)
    print(worked)


def follow_up(r, result):
    """Some results are differentiated and printed."""
    for t in battery.tensors(result):
        if t.numel() > 10 ** 5 or t.device.type == "meta":
            continue
        if r.random() < 0.05:
            repr(t)
        if r.random() < 0.3 and t.requires_grad and not t.is_complex():
            t.sum().backward()


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    if "ASAN_OPTIONS" not in os.environ:  # the sanitizer reserves terabytes of addresses
        resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
