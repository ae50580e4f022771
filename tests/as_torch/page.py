"""Writes the tables of docs/coming-from-pytorch.md: `python -m tests.as_torch.page`.

What differs comes from `as_torch/_differences.py`, what refuses from the names that do, each with its own reason. The
text above the mark is written by hand.
"""

import importlib
import inspect
import textwrap
from pathlib import Path

import flambeau
from flambeau._absent.names import FUNCTIONS
from flambeau.as_torch._describe import reason_of
from flambeau.as_torch._differences import TABLE

PAGE = Path(__file__).parents[2] / "docs" / "coming-from-pytorch.md"
MARK = "<!-- from here on written by: python -m tests.as_torch.page -->\n"
#: namespaces in the order of the page
SPACES = """
    torch Tensor nn nn.functional nn.init nn.utils nn.attention optim optim.lr_scheduler autograd func linalg fft
    special signal.windows masked sparse distributions utils.data utils.checkpoint utils.tensorboard utils.cpp_extension
    random serialization hub library overrides profiler amp testing multiprocessing quasirandom futures compiler fx jit
    ao.quantization nn.quantized nested export onnx distributed distributed.checkpoint distributed.fsdp
    distributed.tensor distributed.device_mesh distributed.optim cuda cuda.gds cuda.tunable xpu mps mtia accelerator
    package
""".split()
_SHOWN = 12
#: what `tests.parity.names` has measured; its test keeps the shares
COUNTED = ("`python -m tests.parity.names TABLE --torch PYTHON` counts which names of a list of PyTorch's public names "
           "are here and compares their parameters. Of 2,642 names (without torchvision's) 2,635 are here, among them "
           "all that were found in 33,627 uses in the files of public programs, and 99 % of the functions and classes "
           "take the same parameters. torchvision's 467 come from its own files.")


def space(name):
    if name in ("torch", "Tensor"):
        return flambeau if name == "torch" else flambeau.Tensor
    return importlib.import_module(f"flambeau.{name}")


def refused(name):
    """{reason: [names]} of the public names of a namespace that only refuse."""
    found, reasons = space(name), {}
    members = {member: inspect.getattr_static(found, member, None) for member in dir(found)}
    if name == "torch":
        members |= FUNCTIONS
    for member in sorted(members):
        reason = reason_of(members[member])
        if reason and not member.startswith("_"):
            reasons.setdefault(reason, []).append(member)
    return reasons


def wrapped(text):
    return textwrap.fill(text, 120, break_long_words=False, break_on_hyphens=False)


def short(names):
    """Names as code, the first few."""
    rest = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(f"`{name}`" for name in names[:_SHOWN]) + rest


def differences():
    yield "## What differs"
    yield "Each line says what a program finds different under these names, and what to do."
    for subject, entries in TABLE.items():
        rows = [f"| {', '.join(f'`{name}`' for name in names.split())} | {sentence} |" for names, sentence in entries]
        yield "\n".join([f"### {subject}", "", "| names | what is different |", "|---|---|", *rows])


def refusals():
    found = {name: refused(name) for name in SPACES}
    yield "## What works"
    yield wrapped(COUNTED + " In these namespaces no name only refuses: "
                  + ", ".join(f"`{name}`" for name in SPACES if not found[name]) + ".")
    yield "## What is not there yet"
    yield wrapped("These names can be imported, named in annotations and tested for with `isinstance`. Calling one "
                  "raises `NotImplementedError` with the reason and what to do instead.")
    rows = [f"| `{name}` | {short(names)} | {reason} |" for name in SPACES for reason, names in found[name].items()]
    yield "\n".join(["| namespace | names | instead |", "|---|---|---|", *rows])


def page():
    """The whole page: its beginning as it stands, and the tables."""
    return PAGE.read_text("utf-8").partition(MARK)[0] + MARK + "\n" + "\n\n".join([*differences(), *refusals()]) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
