"""Writes and reads exported programs with PyTorch: `write FOLDER COUNT` exports samples of its operators, `modules
FOLDER` its modules, `models FOLDER` programs with open sizes, control flow and writes; `read FOLDER OTHER` runs the
programs of OTHER on the inputs of FOLDER.

Needs PyTorch, and nothing of Flambeau.
"""

import collections
import copy
import json
import logging
import sys
import warnings
from pathlib import Path

import exported_programs
import torch
import torchscript_worker
from torchscript_results import agree, own, result


class Called(torch.nn.Module):
    """A function of tensors as a module."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *tensors):
        """What the function gives."""
        return self.function(*tensors)


def kept(path, module, inputs, named, shapes=None, decompose=False):
    """Writes PATH.pt2, the program of a module, and PATH.ref, its inputs and results."""
    try:
        program = torch.export.export(copy.deepcopy(module), own(torch, inputs), own(torch, named),
                                      dynamic_shapes=shapes)
        program = program.run_decompositions() if decompose else program
        torch.export.save(program, f"{path}.pt2")
        results = result(torch, program.module(), inputs, named)  # samples of random operators seed in their functions
        torch.save({"inputs": inputs, "named": named, "results": plain(results)}, f"{path}.ref")
        return True
    except Exception:  # what PyTorch itself cannot export or store
        Path(f"{path}.pt2").unlink(missing_ok=True)
        return False


def plain(x):
    """Results in tuples, lists and dicts alone."""
    if isinstance(x, dict):
        return {key: plain(value) for key, value in x.items()}
    return type(x)(map(plain, x)) if type(x) in (list, tuple) else tuple(map(plain, x)) if isinstance(x, tuple) else x


def write(folder, count):
    """NAME.pt2 is the program of a sample."""
    torchscript_worker.SAMPLES = int(str(count))
    torch.manual_seed(0)
    for name, function, leaves in torchscript_worker.samples():
        kept(folder / name, Called(function), tuple(t.detach().clone() for t in leaves), {})


def modules(folder):
    """Programs of modules, and `made`: [(class, how it is made, its inputs)]."""
    made = []
    torchscript_worker.SAMPLES = 3
    for info, case, training in torchscript_worker.module_cases():
        (args, options), (inputs, named) = torchscript_worker.parts(case)
        torch.manual_seed(1)
        try:
            module = info.module_cls(*args, **options).train(training)
        except Exception:  # a layer that this machine cannot make
            continue
        name = f"{info.name}_{'train' if training else 'eval'}{len(made)}"
        kept(folder / name, module, tuple(inputs), named)
        if not training:
            made.append((info.module_cls.__name__, (args, options), (inputs, named)))
    torch.save([case for case in made if torchscript_worker.plain(case[1:])], folder / "made")


def models(folder):
    """Programs that both libraries can make, as exported and after decompositions."""
    for name, (make, args, shapes) in exported_programs.programs(torch).items():
        torch.manual_seed(0)
        module = make()
        for decompose in (False, True):
            kept(folder / f"{name}{'_decomposed' * decompose}", module, args, {}, shapes, decompose)


def read(folder, other):
    """Prints JSON: how many programs there are, how many are right, and {reason: names} of the rest."""
    right, wrong = 0, collections.defaultdict(list)
    programs = sorted(other.glob("*.pt2"))
    for path in programs:
        reference = torch.load(folder / f"{path.stem}.ref", weights_only=False)
        try:
            program = torch.export.load(str(path)).module()
            if agree(torch, result(torch, program, reference["inputs"], reference.get("named", {})),
                     reference["results"]):
                right += 1
            else:
                wrong["differs"].append(path.stem)
        except Exception as error:
            wrong[f"{type(error).__name__}: {str(error)[-160:]}"].append(path.stem)
    print(json.dumps([right, len(programs), wrong]))


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    logging.disable(logging.ERROR)
    {"write": write, "modules": modules, "models": models, "read": read}[sys.argv[1]](*map(Path, sys.argv[2:]))
