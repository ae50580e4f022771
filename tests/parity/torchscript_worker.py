"""Writes and reads programs of TorchScript with PyTorch: `write FOLDER` traces samples of its operators, `modules
FOLDER` scripts its modules, `programs FOLDER` scripts the small programs of `scripts`, `read FOLDER OTHER` runs the
programs of OTHER on the inputs of FOLDER.

Needs PyTorch, and nothing of Flambeau.
"""

import collections
import json
import os
import random
import sys
import warnings
from pathlib import Path

import torch
from torchscript_results import agree, result

SAMPLES = 6  # of each operator


def walk(x, leaves):
    """A tree of lists, tuples and constants, with the numbers of its tensors, which go into `leaves`."""
    if isinstance(x, torch.Tensor):
        leaves.append(x)
        return "tensor", len(leaves) - 1
    if type(x) in (list, tuple):
        return type(x), [walk(item, leaves) for item in x]
    return "constant", x


def built(tree, tensors):
    """The tree with tensors in it."""
    kind, value = tree
    if kind == "tensor":
        return tensors[value]
    return kind([built(item, tensors) for item in value]) if kind in (list, tuple) else value


def samples():
    """(name, function, its tensors) of each sample that is traced."""
    from torch.testing._internal.common_methods_invocations import op_db
    for op in op_db:
        if torch.float32 not in op.supported_dtypes("cpu"):
            continue
        try:
            found = list(op.sample_inputs("cpu", torch.float32, requires_grad=False))
        except Exception:  # a sample that this build of PyTorch cannot make
            continue
        random.seed(1)
        for k, sample in enumerate(random.sample(found, SAMPLES) if len(found) > SAMPLES else found):
            leaves = []
            args = walk([sample.input, *sample.args], leaves)
            kwargs = {key: walk(value, leaves) for key, value in sample.kwargs.items()}
            if leaves and all(t.layout == torch.strided for t in leaves):
                variant = f".{op.variant_test_name}" if op.variant_test_name else ""
                yield f"{op.name}{variant}_{k}".replace("/", "_"), called(op.op, args, kwargs), leaves


def called(op, args, kwargs):
    """The call as a function of its tensors."""
    def call(*tensors):
        return op(*built(args, tensors), **{key: built(value, tensors) for key, value in kwargs.items()})

    return call


def write(folder):
    """NAME.pt is the program of a sample, NAME.ref its inputs and results."""
    torch.manual_seed(0)
    for name, function, leaves in samples():
        inputs = [t.detach().clone() for t in leaves]
        try:
            program = torch.jit.trace(function, tuple(t.clone() for t in inputs), check_trace=False, strict=False)
            results = result(torch, program, inputs, {})
            program.save(str(folder / f"{name}.pt"))
            torch.save({"inputs": inputs, "results": results}, folder / f"{name}.ref")
        except Exception:  # what PyTorch itself cannot trace or store
            (folder / f"{name}.pt").unlink(missing_ok=True)


def plain(x):
    """Whether a value is of tensors, numbers, texts and containers alone."""
    if isinstance(x, dict):
        return all(map(plain, x.values()))
    return all(map(plain, x)) if isinstance(x, (list, tuple)) else isinstance(x, (int, float, str, torch.Tensor,
                                                                                 type(None)))


def module_cases():
    """(info, case, training) of up to SAMPLES cases of each module that PyTorch tests."""
    from torch.testing._internal.common_modules import module_db
    torch.manual_seed(0)
    for info in module_db:
        for training in (False, True):
            try:
                found = info.module_inputs_func(info, device="cpu", dtype=torch.float32, requires_grad=False,
                                                training=training)
            except Exception:  # inputs that need a GPU
                continue
            yield from ((info, case, training) for case in found[:SAMPLES] if case.forward_input is not None)


def modules(folder):
    """NAME.pt is a scripted module, NAME.ref its inputs and results; made.pt: [(class, how it is made, its inputs)]."""
    made, numbers = [], collections.Counter()
    for info, case, training in module_cases():
        name = f"{info.name}_{'train' if training else 'eval'}"
        script(info, case, training, folder / f"{name}{numbers[name]}.pt")
        numbers[name] += 1
        if not training:
            made.append((info.module_cls.__name__, *parts(case)))
    torch.save([case for case in made if plain(case[1:])], folder / "made")


def parts(case):
    """How a module is made, and its inputs: (args, kwargs) each."""
    options = {key: value for key, value in case.constructor_input.kwargs.items() if key not in ("device", "dtype")}
    inputs = case.forward_input
    return (case.constructor_input.args, options), (inputs.args, dict(inputs.kwargs))


def script(info, case, training, path):
    """Writes one module."""
    (args, kwargs), (inputs, named) = parts(case)
    try:
        torch.manual_seed(1)
        program = torch.jit.script(info.module_cls(*args, **kwargs).train(training))
        program.save(str(path))
        results = result(torch, program, inputs, named)
        torch.save({"inputs": inputs, "named": named, "results": results}, path.with_suffix(".ref"))
    except Exception:  # what PyTorch itself cannot script or store
        path.unlink(missing_ok=True)


def programs(folder):
    """NAME.pt is a small program, NAME.ref its inputs and results; prints JSON: what PyTorch refuses, {name: why}."""
    os.environ["SCRIPTED_LIBRARY"] = "torch"
    from scripts import registry
    refused = {}
    for name, (what, inputs) in {**registry.PROGRAMS, **registry.REFUSED}.items():
        try:
            registry.write(name, torch.jit.script(registry.made(what)), inputs, folder)
        except Exception as error:
            refused[name] = f"{type(error).__name__}: {error}"
    print(json.dumps(refused))


def read(folder, other):
    """Prints JSON: how many programs there are, how many are right, and {reason: names} of the rest."""
    right, wrong = 0, collections.defaultdict(list)
    programs = sorted(other.glob("*.pt"))
    for path in programs:
        kept = torch.load(folder / f"{path.stem}.ref", weights_only=False)
        try:
            program = torch.jit.load(str(path))
            if agree(torch, result(torch, program, kept["inputs"], kept.get("named", {})), kept["results"]):
                right += 1
            else:
                wrong["differs"].append(path.stem)
        except Exception as error:
            wrong[f"{type(error).__name__}: {str(error)[:160]}"].append(path.stem)
    print(json.dumps([right, len(programs), wrong]))


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    {"write": write, "modules": modules, "programs": programs, "read": read}[sys.argv[1]](*map(Path, sys.argv[2:]))
