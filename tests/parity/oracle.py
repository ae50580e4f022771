"""PyTorch's side of `tests.parity.samples`: iterates its operator samples, and writes programs and their outcomes.

Runs in PyTorch's interpreter: `python oracle.py FOLDER PATTERN [wide]`. One file per operator, FOLDER/name.pickle: a
dict with its name, path, and cases (form, dtype, program, storages, tensors, outcome).
"""

import itertools
import operator
import os
import pickle
import random
import re
import sys
import warnings

import numpy as np
import torch
from exchange import Excluded, Writer, read, read_tensor, run
from torch.overrides import TorchFunctionMode
from torch.testing._internal.common_methods_invocations import op_db

SPACES = (("torch", torch), ("torch.nn.functional", torch.nn.functional), ("torch.linalg", torch.linalg),
          ("torch.fft", torch.fft), ("torch.special", torch.special),
          ("torch.signal.windows", torch.signal.windows), ("torch.Tensor", torch.Tensor), ("operator", operator),
          ("torch.masked", torch.masked), ("torch._C._nn", torch._C._nn))
COUNTS = {torch.float64: 40, torch.float32: 8, torch.int64: 8, torch.bool: 8, torch.complex64: 8, torch.bfloat16: 8}
#: with --wide: the other dtypes, and PyTorch's larger set of inputs
WIDE = {torch.float64: 120, torch.int64: 60, torch.complex128: 20, torch.float16: 20, torch.int32: 12, torch.uint8: 12,
        torch.int8: 12, torch.int16: 8}
GETTERS = {}
PATHS = {}
for prefix, space in SPACES:
    for name in dir(space):
        thing = getattr(space, name, None)
        if prefix == "torch.Tensor" and hasattr(thing, "__get__") and not callable(thing):
            GETTERS[thing] = f"{prefix}.{name}.__get__"
        elif callable(thing):
            PATHS.setdefault(id(thing), f"{prefix}.{name}")


def path_of(function):
    if id(function) in PATHS:
        return PATHS[id(function)]
    owner = getattr(function, "__self__", None)
    if getattr(function, "__name__", "") == "__get__" and owner in GETTERS:
        return GETTERS[owner]
    raise Excluded(f"{getattr(function, '__module__', '')}.{getattr(function, '__name__', function)} is not public")


class Tracer(TorchFunctionMode):
    """Writes down the public calls that a wrapper makes."""

    def __init__(self, writer):
        super().__init__()
        self.writer, self.program = writer, []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        name = getattr(func, "__name__", "")
        try:
            result = func(*args, **(kwargs or {}))
        except Exception:  # the call that fails belongs to the program
            self.program.append((path_of(func), self.writer.value(args), self.writer.value(kwargs or {}), None))
            raise
        tensors = [t for t in (result if isinstance(result, (list, tuple)) else [result])
                   if isinstance(t, torch.Tensor)]
        if tensors or name == "__setitem__":
            if name != "__get__" or getattr(func.__self__, "__name__", "") in ("T", "H", "mT", "mH", "real", "imag"):
                seed = torch.initial_seed()
                self.program.append((path_of(func), self.writer.value(args), self.writer.value(kwargs or {}),
                                     seed if seed != 0 else None))
                self.writer.result(result, len(self.program) - 1)
        elif name in ("item", "tolist", "is_same_size"):
            self.program.append((path_of(func), self.writer.value(args), self.writer.value(kwargs or {}), None))
        return result


def program_of(function, writer, args, kwargs, form, process=None):
    """The calls that `function(*args, **kwargs)` makes. A public function is one call; a wrapper is watched."""
    if id(function) in PATHS and process is None:
        return [(PATHS[id(function)], writer.value(args), writer.value(kwargs), None)]
    values = writer.value(args), writer.value(kwargs)
    memory = [bytearray(s) for s in writer.storages]
    tensors = [read_tensor(torch, memory, r) for r in writer.tensors]
    # the tensors a wrapper sees are copies, which stand for the inputs of the same number
    copies = Writer(torch)
    copies.storages, copies.tensors = writer.storages, writer.tensors
    copies.memory = {t.untyped_storage().data_ptr(): r[0] for t, r in zip(tensors, writer.tensors) if t.numel()}
    if form == "inplace" and tensors and tensors[0].requires_grad:
        tensors[0] = tensors[0].clone()
    copies.seen = {id(t): k for k, t in enumerate(tensors)}
    torch.manual_seed(0)
    tracer = Tracer(copies)
    try:
        with tracer:
            result = function(*read(torch, values[0], tensors), **read(torch, values[1], tensors))
            if process is not None:
                process(result)
    except Exception:
        if form != "error" or not tracer.program:
            raise
    if not tracer.program:
        raise Excluded("a wrapper that calls no public function")
    return tracer.program


def forms(info):
    yield "function", info.op
    if info.method_variant is not None:
        yield "method", info.method_variant
    if info.inplace_variant is not None:
        yield "inplace", info.inplace_variant
    if info.operator_variant is not None:
        yield "operator", info.operator_variant
    if info.inplace_operator_variant is not None:
        yield "inplace", info.inplace_operator_variant
    if info.supports_out:
        yield "out", info.op
        yield "resized", info.op


def inputs_without_grad(args, kwargs):
    def plain(x):
        if isinstance(x, torch.Tensor):
            return x.detach()
        return type(x)(plain(v) for v in x) if type(x) in (list, tuple) else x
    return plain(args), {k: plain(v) for k, v in kwargs.items()}


def tensors_of(x):
    if isinstance(x, torch.Tensor):
        return [x]
    if isinstance(x, dict):
        x = list(x.values())
    return [t for part in x for t in tensors_of(part)] if isinstance(x, (list, tuple)) else []


UNSPECIFIED = ("empty", "new_empty")


def cases_of(info, dtype, count, wide):
    grad = info.supports_autograd and (dtype.is_floating_point or dtype.is_complex) and \
        info.supports_dtype(dtype, "cpu") and dtype in info.supported_backward_dtypes("cpu")
    values = not any(info.name.startswith(n) for n in UNSPECIFIED)
    made = (info.reference_inputs if wide else info.sample_inputs)("cpu", dtype, requires_grad=grad)
    if wide:  # what is far larger than the others shows nothing that they do not
        made = (s for s in made if all(t.numel() <= 4096 for t in tensors_of((s.input, s.args, s.kwargs))))
    for number, sample in enumerate(itertools.islice(made, count)):
        args, kwargs = (sample.input, *sample.args), dict(sample.kwargs)
        process = sample.output_process_fn_grad
        trivial = process is None or is_identity(process)
        for form, function in forms(info):
            if form == "inplace" and sample.broadcasts_input:
                continue
            given = inputs_without_grad(args, kwargs) if form in ("out", "resized") else (args, kwargs)
            if form in ("out", "resized") and "out" in kwargs:
                continue
            if form in ("out", "resized") and not trivial:
                continue
            yield case(f"{dtype_of(dtype)} {number}", form, function, *given, values,
                       None if trivial or form != "function" else process)


def is_identity(process):
    probe = object()
    try:
        return process(probe) is probe
    except Exception:
        return False


def dtype_of(dtype):
    return str(dtype).split(".")[1]


def case(what, form, function, args, kwargs, values=True, process=None):
    writer = Writer(torch)
    try:
        # a wrapper's in-place form is told by its name; the tensors it works on are copies as for any other
        program = program_of(function, writer, args, kwargs, form, process)
        if form in ("out", "resized") and len(program) > 1:
            return None
        outcome = run(torch, program, writer.storages, writer.tensors, form=form, values=values)
    except Excluded as reason:
        return {"what": what, "form": form, "excluded": str(reason)}
    except Exception as error:
        return {"what": what, "form": form, "excluded": f"oracle: {type(error).__name__}: {error}"[:200]}
    if form in ("out", "resized") and outcome[0] == "error":
        return None  # the samples do not promise out= of every dtype
    return {"what": what, "form": form, "program": program, "storages": writer.storages, "tensors": writer.tensors,
            "outcome": outcome, "values": values}


def error_cases(info):
    if info.error_inputs_func is None:
        return
    for number, wrong in enumerate(info.error_inputs("cpu")):
        sample = wrong.sample_input
        found = case(f"error {number}", "error", info.op, (sample.input, *sample.args), dict(sample.kwargs))
        if found and "outcome" in found and found["outcome"][0] != "error":
            continue  # not an error on this device
        yield found


def write(info, folder, wide):
    cases = []
    for dtype, count in (WIDE if wide else COUNTS).items():
        if dtype in info.dtypes:
            torch.manual_seed(0)
            np.random.seed(0)
            random.seed(0)
            cases += collect(cases_of(info, dtype, count, wide), dtype_of(dtype))
    cases += collect(error_cases(info), "error")
    name = info.name + ("." + info.variant_test_name if info.variant_test_name else "")
    record = {"name": name, "path": PATHS.get(id(info.op)), "cases": cases}
    file = os.path.join(folder, re.sub(r"[^\w.]", "_", name) + ".pickle")
    with open(file + ".part", "wb") as sink:
        pickle.dump(record, sink)
    os.replace(file + ".part", file)


def collect(cases, what):
    found = []
    try:
        for c in cases:
            if c:
                found.append(c)
    except Exception as error:
        found.append({"what": what, "form": "function",
                      "excluded": f"the sample generator: {type(error).__name__}: {error}"[:200]})
    return found


def main(folder, pattern, wide=""):
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    for info in op_db:
        if re.search(pattern, info.name) and not info.name.startswith(("jiterator", "sparse.")):
            write(info, folder, wide == "wide")
            print(info.name, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
