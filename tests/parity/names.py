"""Which of PyTorch's public names Flambeau has, and with which parameters: `python -m tests.parity.names TABLE`.

TABLE is a list of PyTorch's public names, one per line: name, kind, number of repositories and of files that use it,
parameter names (tab-separated, with a heading line). Each library is asked in a process of its own. Prints coverage per
namespace, plain and weighted by the files that use a name, then what is missing, refuses or has other parameters.

A name is present if it can be reached. It has PyTorch's parameters if it takes each of them by name, the positional
ones in PyTorch's order; it may take more. PyTorch's are those that `inspect.signature` tells, or, where Python cannot
know (its compiled functions), those of TABLE that the operator's schemas have.
"""

import argparse
import collections
import json
import os
import re
import subprocess
import sys
from pathlib import Path

from flambeau.as_torch._doctor import described

from . import pins

DESCRIBE = Path(__file__).parents[2] / "src" / "flambeau" / "as_torch" / "_describe.py"
SCHEMAS = """
import json, torch
taken = {}
for schema in torch._C._jit_get_all_schemas():
    if schema.name.startswith("aten::"):
        taken.setdefault(schema.name[6:], set()).update(a.name for a in schema.arguments)
print(json.dumps({name: sorted(names) for name, names in taken.items()}))
"""
#: parameters that factories and copies have in Python beside those of their schema
OPTIONS = {"layout", "dtype", "device", "requires_grad", "pin_memory", "memory_format", "generator"}
#: parameters that PyTorch's documentation names and its functions refuse by name
REFUSED = {"torch.Tensor.new_tensor": ("layout", "pin_memory"), "torch.set_num_threads": ("int",),
           "torch.set_num_interop_threads": ("int",), "torch.Generator.set_state": ("new_state",),
           "torch.Generator.graphsafe_set_state": ("state",), "torch.nested.to_padded_tensor": ("out",),
           "torch.distributed.checkpoint.FsspecWriter": ("cache_staged_state_dict",), "torch.cuda.GreenContext": (
               "num_sms", "sm_partition", "workqueue_scope", "workqueue_concurrency_limit", "device_id")}
POSITIONAL = ("POSITIONAL_ONLY", "POSITIONAL_OR_KEYWORD")
Row = collections.namedtuple("Row", "name kind repositories files parameters note")
#: what another package has: torchvision's own files run beside this library
ELSEWHERE = "torchvision"


def rows(file):
    """The table's lines."""
    for line in Path(file).read_text("utf-8").splitlines()[1:]:
        name, kind, repositories, files, parameters, note = line.split("\t")
        yield Row(name, kind, int(repositories), int(files), [plain(p) for p in parameters.split(",") if p], note)


def theirs(python, names):
    """({name: what PyTorch has}, {operator: the parameters of its schemas})."""
    done = subprocess.run([python, str(DESCRIBE)], input="\n".join(names), capture_output=True, text=True, check=True)
    schemas = subprocess.run([python, "-c", SCHEMAS], capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1]), json.loads(schemas.stdout)


def named(described, name):
    """[(parameter, kind)] without the object of a method and without *args and **kwargs."""
    if described is None or described["parameters"] is None:
        return []
    found = [(plain(p), kind) for p, kind in described["parameters"]
             if not kind.startswith("VAR")]
    first = ("self", "input") if name.startswith("torch.Tensor.") else ("self",)
    return found[1:] if found and found[0][0] in first else found


def plain(parameter):
    """A parameter as PyTorch has it: `from` cannot be one in Python."""
    return "from" if parameter == "from_" else parameter


def documented(row, schemas):
    """Those of the table's parameters that PyTorch's own function takes, as far as its schemas tell."""
    row = row._replace(parameters=[p for p in row.parameters if p not in REFUSED.get(row.name, ())])
    last, space = row.name.rpartition(".")[2], row.name.split(".")[-2]
    taken = set().union(*(schemas.get(key, ()) for key in (last, f"{space}_{last}", last.rstrip("_"))))
    if not taken:
        return [(p, "") for p in row.parameters if not re.fullmatch(r"arg\d", p)]
    method = row.name.startswith("torch.Tensor.")
    taken |= OPTIONS | ({"input"} if "self" in taken and not method else set())
    return [(p, "") for p in row.parameters if p in taken]


def other_parameters(row, mine, expected, schemas):
    """What differs in the parameters: "" where nothing does, None where there is nothing to compare."""
    wanted = named(expected, row.name)
    table = documented(row, schemas) if not wanted else [(p, "") for p in row.parameters]
    if mine is None or not (wanted or table):
        return None
    have = named(mine, row.name)
    problems = [problem(want, have) for want in (wanted, table) if want]
    return "" if "" in problems else problems[0]


def problem(wanted, have):
    names = [name for name, _ in have]
    lost = [name for name, _ in wanted if name not in names]
    if lost:
        return "no " + ", ".join(lost)
    order = [name for name, kind in wanted if kind in POSITIONAL]
    return "" if [name for name in names if name in order] == order else "another order"


class Coverage:
    """What became of every name of the table."""

    def __init__(self, file, python):
        self.rows = list(rows(file))
        names = [row.name for row in self.rows]
        mine, (expected, schemas) = described(names), theirs(python, names)
        self.here = {name: found is not None and ": " not in found["kind"] for name, found in mine.items()}
        self.refused = {name for name, found in mine.items() if found and found["refused"]}
        self.differing = {row.name: other_parameters(row, mine[row.name] if self.here[row.name] else None,
                                                     expected[row.name], schemas) for row in self.rows}
        self.newer = {name for name, found in expected.items() if found is None}

    def own(self, elsewhere=False):
        return [row for row in self.rows if row.name.startswith(ELSEWHERE) == elsewhere]

    def present(self, rows, weigh=lambda row: 1):
        """The share of the names, weighed, that can be reached."""
        return share(rows, lambda row: self.here[row.name], weigh)

    def same(self, rows, weigh=lambda row: 1):
        """The share of the functions and classes, weighed, that have PyTorch's parameters."""
        compared = [row for row in rows if self.differing[row.name] is not None]
        return share(compared, lambda row: self.differing[row.name] == "", weigh)

    def pins(self):
        """{case: what differs}"""
        absent = {f"{row.name}: absent": "absent" for row in self.own() if not self.here[row.name]}
        return absent | {f"{row.name}: {text}": text for row in self.own() if (text := self.differing[row.name])}

    def __str__(self):
        lines = [f"{'namespace':<28}{'names':>7}{'here':>7}{'refuse':>8}{'by use':>10}{'parameters':>12}{'by use':>10}"]
        spaces = collections.defaultdict(list)
        for row in self.rows:
            spaces[".".join(row.name.split(".")[:-1][:3])].append(row)
        totals = {"all of torch": self.own(), ELSEWHERE: self.own(True), "with " + ELSEWHERE: self.rows}
        for space, members in {**dict(sorted(spaces.items())), **totals}.items():
            if len(members) >= 8:
                lines.append(self.line(space, members))
        return "\n".join(lines)

    def line(self, space, members):
        here = sum(self.here[row.name] for row in members)
        refused = sum(row.name in self.refused for row in members)
        shares = [self.present(members, used), self.same(members), self.same(members, used)]
        cells = ["-" if s is None else f"{100 * s:.2f} %" for s in shares]
        return f"{space:<28}{len(members):>7}{here:>7}{refused:>8}{cells[0]:>10}{cells[1]:>12}{cells[2]:>10}"


def used(row):
    return row.files


def share(rows, holds, weigh):
    total = sum(map(weigh, rows))
    return sum(weigh(row) for row in rows if holds(row)) / total if total else None


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="python -m tests.parity.names", description=__doc__.partition("\n")[0])
    parser.add_argument("table", help="PyTorch's public names, tab-separated")
    parser.add_argument("--torch", default=os.environ.get("FLAMBEAU_TORCH_PYTHON", sys.executable),
                        help="PyTorch's Python interpreter; with PYTHONPATH for torchvision's files")
    parser.add_argument("--pin", action="store_true", help="write the list of what differs anew")
    options = parser.parse_args(arguments)
    found = Coverage(options.table, options.torch)
    print(found, end="\n\n")
    for title, names in (("absent", [row for row in found.own() if not found.here[row.name]]),
                         ("other parameters", [row for row in found.own() if found.differing[row.name]]),
                         ("refuse", [row for row in found.own() if row.name in found.refused])):
        print(f"{title}: {len(names)}")
        for row in sorted(names, key=lambda row: -row.files)[:60]:
            print(f"  {row.files:>4} {row.name}  {found.differing[row.name] or ''}")
    if options.pin:
        pins.write("names", found.pins())
    print("\n".join(pins.problems("names", found.pins())) or "every difference is listed with its reason")


if __name__ == "__main__":
    main()
