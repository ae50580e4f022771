"""What is printed of new programs, on stderr: FLAMBEAU_LOGS=graph,passes,plan or set_logs() says."""

import difflib
import os
import sys

from .._graph.words import Numbered
from .._shown import shown

KINDS = ("graph", "passes", "plan")
#: those that are printed
LOGS = set()


def set_logs(*, graph=None, passes=None, plan=None):
    """What is printed on stderr of every program that is new; None leaves a kind as it is.

    graph: the program as a graph. passes: what each rewriting has changed in it, as a unified diff. plan: the steps
    that run. The environment variable FLAMBEAU_LOGS="graph,passes,plan" switches kinds on from the beginning.

    >>> import flambeau
    >>> flambeau.compiler.set_logs(graph=True)
    >>> flambeau.compiler.set_logs(graph=False)
    """
    for kind, on in (("graph", graph), ("passes", passes), ("plan", plan)):
        if on is not None:
            (LOGS.add if on else LOGS.discard)(kind)


def from_environment(variables):
    """Switches on what FLAMBEAU_LOGS names."""
    names = [name.strip() for name in variables.get("FLAMBEAU_LOGS", "").split(",") if name.strip()]
    for name in names:
        if name not in KINDS:
            raise ValueError(f"FLAMBEAU_LOGS: {shown(name)} is not known; known are {', '.join(KINDS)}")
    LOGS.update(names)


from_environment(os.environ)


def log(kind, title, text):
    """Prints one part."""
    print(f"[{kind}] {title}\n{text}", file=sys.stderr)


def rewritten(graph, rewrite):
    """Lets a pass change the graph, and prints what it has changed."""
    before = str(graph).splitlines()
    rewrite(graph)
    changes = list(difflib.unified_diff(before, str(graph).splitlines(), "before", "after", lineterm=""))
    if changes:
        log("passes", rewrite.__name__, "\n".join(changes))


def steps_text(plan):
    """A plan, as it is handed to native code."""
    lines = ["kept from run to run:"] if plan.kept else []
    for number, (_, calls) in enumerate(plan.steps, 1):
        if 0 < plan.kept == number - 1:
            lines.append("computed in each run:")
        group = len(calls) > 1
        if group:
            lines.append(f"{number:4}  together:")
        lines += [f"{'' if group else number:>4}  {'  ' if group else ''}{_call_text(*call)}" for call in calls]
    return "\n".join([*lines, "results: " + ", ".join(f"%{value}" for _, value in plan.results)])


def _call_text(op, args, makes, _):
    made = ", ".join("_" if value < 0 else f"%{value}" for value in makes)
    return f"{made} = {op.name}({', '.join(map(_argument_text, args))})"


def _argument_text(a):
    if isinstance(a, tuple) and any(item is None or isinstance(item, Numbered) for item in a):
        return "[" + ", ".join(map(_argument_text, a)) + "]"
    if not isinstance(a, Numbered):
        return shown(a)
    return {"outside": "use {0}", "made": "%{0}", "view": "%{0} as use {1}",
            "given": "argument {1} of call {0}"}[a.kind].format(*a.numbers)
