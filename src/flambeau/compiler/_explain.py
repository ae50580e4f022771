"""The graphs of one call, and where and why each but the last ended: what torch._dynamo.explain tells."""

import re
from traceback import FrameSummary
from typing import NamedTuple

from .._graph import Capture
from ._backends import planner_of
from ._report import ENDS
from ._watch import watched


class Break(NamedTuple):
    """Where a program ended before its function did."""

    reason: str
    user_stack: list
    graph_break: bool = True

    def __str__(self):
        frame = self.user_stack[0] if self.user_stack else None
        return self.reason + (f" ({frame.filename}:{frame.lineno}, {frame.name})" if frame else "")


class Explanation:
    """What one call captured.

    graph_count: programs that ran; graph_break_count: those that ended before the function did, with a Break for each
    in `break_reasons`. op_count: calls of operators. graphs: a GraphModule for each kind of program; programs that are
    alike share one. ops_per_graph: the operators that it calls. out_guards: there are no guards.
    """

    def __init__(self, runs, graphs):
        self.graph_count, self.op_count = len(runs), sum(run.calls for run in runs)
        self.break_reasons = [Break(ENDS[run.why], _frames(run.line)) for run in runs if run.why in ENDS]
        self.graph_break_count = len(self.break_reasons)
        self.graphs, self.out_guards, self.compile_times = graphs, [], None
        self.ops_per_graph = [[n.target for n in g.graph.nodes if n.op == "call_function"] for g in graphs]

    def __str__(self):
        lines = [f"graphs: {self.graph_count}, of {len(self.graphs)} kinds",
                 f"graph breaks: {self.graph_break_count}", f"operators: {self.op_count}"]
        lines += [f"break {k}: {reason}" for k, reason in enumerate(self.break_reasons, 1)]
        for k, ops in enumerate(self.ops_per_graph, 1):
            lines.append(f"graph {k}: " + " ".join(getattr(op, "name", None) or op.__name__ for op in ops))
        return "\n".join(lines)

    __repr__ = __str__


def explain(fn):
    """A function of `fn`'s arguments that calls it once, captured, and returns an Explanation.

    >>> import flambeau
    >>> def f(x):
    ...     return x.sin() if x.sum() > 0 else x.cos()
    >>> told = flambeau.compiler.explain(f)(flambeau.ones(2))
    >>> told.graph_count, told.graph_break_count, told.op_count
    (2, 1, 3)
    """
    plain = getattr(fn, "_torchdynamo_orig_callable", None) or getattr(fn, "_orig_mod", fn)

    def explained(*args, **kwargs):
        graphs = []

        def keep(module, _):
            graphs.append(module)
            return module.forward

        how = Capture(planner=planner_of(keep))
        runs, _ = watched("explain", how, (plain, args, kwargs), None)
        return Explanation(runs, graphs)
    return explained


def _frames(line):
    found = re.fullmatch(r'File "(.*)", line (\d+), in (.*)', line)
    return [FrameSummary(found[1], int(found[2]), found[3], lookup_line=False)] if found else []
