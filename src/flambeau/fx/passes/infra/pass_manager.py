"""PassManager: runs passes in an order that fits constraints, until nothing changes or a number of times."""

import functools
import inspect
import warnings
from graphlib import CycleError, TopologicalSorter

from ...._shown import clipped
from ...graph_module import GraphModule
from .pass_base import PassResult

__all__ = ["PassManager", "pass_result_wrapper", "this_before_that_pass_constraint"]


def pass_result_wrapper(fn):
    """The pass, made of a function that changes a module in place and returns nothing."""
    if fn is None:
        return None

    @functools.wraps(fn)
    def wrapped(gm):
        result = fn(gm)
        if result is None:
            return PassResult(gm, True)
        return result if isinstance(result, PassResult) else PassResult(result, True)

    if not inspect.isfunction(fn):
        wrapped.__name__ = type(fn).__name__
    return wrapped


def this_before_that_pass_constraint(this, that):
    """A constraint: pass `that` never comes before pass `this`."""
    def fits(a, b):
        return not (a == that and b == this)

    return fits


def _topological_sort_passes(passes, constraints):
    """The passes in an order in which each constraint(earlier, later) holds."""
    if not constraints:
        return passes
    after = {k: set() for k in range(len(passes))}
    for k, a in enumerate(passes):
        for j, b in enumerate(passes):
            if k != j and not all(fits(a, b) for fits in constraints):
                after[k].add(j)  # a before b does not fit: b comes first
    try:
        return [passes[k] for k in TopologicalSorter(after).static_order()]
    except CycleError as error:
        names = [getattr(passes[k], "__name__", str(passes[k])) for k in error.args[1]]
        raise RuntimeError(f"PassManager: the constraints on {' and '.join(names)} contradict each other") from None


class PassManager:
    """Runs passes over a module.

    passes                     functions or PassBase objects: from a GraphModule to a PassResult
    constraints                functions of two passes: whether the first may come before the second
    steps                      how often all run, at most: they stop when none changes anything
    run_checks_after_each_pass calls the checks (see add_checks) after each pass, not only at the end
    suppress_check_failures    errors of checks become warnings

    >>> import flambeau
    >>> from flambeau.fx.passes.infra.pass_manager import PassManager, pass_result_wrapper
    >>> def drop(gm):
    ...     gm.graph.eliminate_dead_code()
    >>> manager = PassManager(passes=[pass_result_wrapper(drop)])
    >>> result = manager(flambeau.fx.symbolic_trace(lambda x: (x.exp(), x)[1]))
    >>> [node.name for node in result.graph_module.graph.nodes]
    ['x', 'output']
    """

    def __init__(self, passes=None, constraints=None, steps=None, run_checks_after_each_pass=False,
                 suppress_check_failures=False):
        self.passes, self.constraints = passes or [], constraints or []
        self.steps = steps or 1
        self.checks = []
        self.run_checks_after_each_pass = run_checks_after_each_pass
        self.suppress_check_failures = suppress_check_failures
        self._validated = False

    def add_pass(self, _pass):
        """Adds a pass at the end."""
        self.passes.append(_pass)
        self._validated = False

    def add_constraint(self, constraint):
        """Adds a constraint."""
        self.constraints.append(constraint)
        self._validated = False

    def validate_constraints(self):
        """RuntimeError where the order of the passes does not fit a constraint."""
        if self._validated:
            return
        for fits in self.constraints:
            for k, earlier in enumerate(self.passes):
                for later in self.passes[k + 1:]:
                    if not fits(earlier, later):
                        raise RuntimeError(f"PassManager: {getattr(earlier, '__name__', earlier)} may not come before "
                                           f"{getattr(later, '__name__', later)}; solve_constraints() finds an order")
        self._validated = True

    def solve_constraints(self):
        """Puts the passes into an order that fits."""
        self.passes = _topological_sort_passes(self.passes, self.constraints)
        self._validated = True

    def add_checks(self, check):
        """Adds a function of a module that raises where something is wrong."""
        if list(inspect.signature(check).parameters) and len(inspect.signature(check).parameters) != 1:
            raise TypeError("add_checks: a check takes the module, and nothing else")
        self.checks.append(check)

    def check(self, module):
        """Calls the checks."""
        for check in self.checks:
            try:
                check(module)
            except Exception as error:
                if not self.suppress_check_failures:
                    raise
                warnings.warn(f"PassManager: a check failed: {clipped(error)}", stacklevel=2)

    def __call__(self, module):
        if not self._validated:
            self.solve_constraints()
        self.check(module)
        changed = False
        for _ in range(self.steps):
            step_changed = False
            for each in self.passes:
                module, modified = self._run(each, module)
                step_changed |= modified
            changed |= step_changed
            if not step_changed:
                break
        return PassResult(module, changed)

    def _run(self, each, module):
        name = getattr(each, "__name__", type(each).__name__)
        try:
            result = each(module)
        except Exception as error:
            error.add_note(f"  while running the pass {name}")
            raise
        if not isinstance(result, PassResult):
            raise TypeError(f"PassManager: the pass {name} gave a {type(result).__name__}; a pass gives a PassResult, "
                            "and pass_result_wrapper makes one of a function that gives nothing")
        if isinstance(result.graph_module, GraphModule):
            result.graph_module.recompile()
        if self.run_checks_after_each_pass:
            self.check(result.graph_module)
        return result.graph_module, bool(result.modified)
