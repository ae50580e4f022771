"""Which of PyTorch's public names Flambeau has, per namespace; those it leaves out stand in excluded.tsv."""

import re
from pathlib import Path

import flambeau

SPACES = ("torch", "torch.Tensor", "torch.nn", "torch.nn.functional", "torch.nn.init", "torch.nn.utils",
          "torch.nn.Module", "torch.optim", "torch.autograd", "torch.func", "torch.linalg", "torch.fft",
          "torch.special", "torch.signal.windows", "torch.masked", "torch.utils.data", "torch.random", "torch.testing",
          "torch.Generator", "torch.overrides")


def exclusions():
    """[(pattern of names, reason)]"""
    lines = Path(__file__).with_name("excluded.tsv").read_text().splitlines()
    return [tuple(line.split("\t")) for line in lines if line and not line.startswith("#")]


def state(name):
    """"present", "refused" (calling it raises NotImplementedError that says what to do instead) or "absent"."""
    found = flambeau
    for part in name.split(".")[1:]:
        try:
            found = getattr(found, part)
        except Exception:
            return "absent"
    code = getattr(found, "__code__", None)
    return "refused" if getattr(code, "co_name", "") == "refuse" or hasattr(found, "_unavailable_dtype") else "present"


def table(file):
    rules = exclusions()
    rows = [f"{'namespace':<24}{'names':>7}{'present':>9}{'refused':>9}{'excluded':>10}{'absent':>8}"]
    known = [line.split("\t")[0] for line in Path(file).read_text().splitlines()[1:]]
    for space in SPACES:
        mine = [n for n in known if n.rpartition(".")[0] == space]
        states = {n: state(n) for n in mine}
        absent, refused = ([n for n in mine if states[n] == s] for s in ("absent", "refused"))
        left = [n for n in absent if any(re.fullmatch(pattern, n) for pattern, _ in rules)]
        lost = [n.rpartition(".")[2] for n in absent if n not in left]
        note = "  " + " ".join(lost[:40]) if lost else ""
        rows.append(f"{space:<24}{len(mine):>7}{len(mine) - len(absent) - len(refused):>9}{len(refused):>9}"
                    f"{len(left):>10}{len(lost):>8}{note}")
    return "\n".join(rows)
