"""draft_export: a program in any case, and a report of what `export` would refuse."""

import enum
import warnings
from dataclasses import dataclass, field

import flambeau

from .._graph.exporting import exporting
from .._shown import class_name
from .._subclasses.fake_tensor import UnsupportedOperatorException
from .._symbolic.shape_env import ConstraintViolationError
from ..fx.proxy import _stack
from ..utils._pytree import tree_map
from ._real import RealExport
from ._trace import export
from .dynamic_shapes import Dim, DimHint

#: what may fail: sizes that were to stay open, operators without a rule for tensors that hold nothing, values that
#: Python reads
FailureType = enum.Enum("FailureType", "CONSTRAINT_VIOLATION_ERROR DATA_DEPENDENT_ERROR MISSING_FAKE_KERNEL",
                        module=__name__)
FailureType.__str__ = lambda kind: kind.name


@dataclass
class FailureReport:
    """One thing that `export` refuses: its kind, what it says, and the lines of the program that lead there."""

    failure_type: FailureType
    message: str
    stack_trace: str = ""

    def __str__(self):
        lines = f"\n{self.stack_trace}" if self.stack_trace else ""
        return f"{self.failure_type.name}: {self.message}{lines}"


@dataclass
class DraftExportReport:
    """What `draft_export` found: `failures`; `successful()` says whether `export` would do the same.

    str() tells it all.
    """

    failures: list = field(default_factory=list)

    def successful(self):
        """Whether nothing failed."""
        return not self.failures

    def add(self, failure):
        """Adds a failure that is not there yet."""
        if failure not in self.failures:
            self.failures.append(failure)

    def __str__(self):
        if self.successful():
            return "draft_export: the program can be exported as it is"
        parts = [f"{k}. {failure}" for k, failure in enumerate(self.failures, 1)]
        return f"draft_export: export refuses this program for {len(parts)} reasons\n" + "\n".join(parts)


def draft_export(mod, args, kwargs=None, *, dynamic_shapes=None, preserve_module_call_signature=(), strict=False,
                 prefer_deferred_runtime_asserts_over_guards=False):
    """An ExportedProgram in any case: where `export` refuses, with looser sizes, or of a run on the example's values.

    `_report` of the program says what was refused and where; a warning says that there is something. What Python read
    of values is then a constant of the program, and all sizes are the example's.

    The arguments are those of `export`.

    >>> import flambeau, warnings
    >>> class Reads(flambeau.nn.Module):
    ...     def forward(self, x):
    ...         return x * 2 if x.sum() > 0 else x
    >>> with warnings.catch_warnings(action="ignore"):
    ...     program = flambeau.export.draft_export(Reads(), (flambeau.ones(2),))
    >>> program.module()(flambeau.ones(2)), program._report.successful()
    (tensor([2., 2.]), False)
    >>> [failure.failure_type.name for failure in program._report.failures]
    ['DATA_DEPENDENT_ERROR']
    """
    report = DraftExportReport()
    options = {"preserve_module_call_signature": preserve_module_call_signature, "strict": strict,
               "prefer_deferred_runtime_asserts_over_guards": prefer_deferred_runtime_asserts_over_guards}
    program, refusal = _with_open_sizes(mod, args, kwargs, dynamic_shapes, options, report)
    if program is None:
        program = _with_values(mod, args, kwargs, preserve_module_call_signature, report)
        if refusal.failure_type is not FailureType.DATA_DEPENDENT_ERROR or report.successful():
            report.add(refusal)  # else the lines that read values say it better
    program._report = report
    if not report.successful():
        warnings.warn(str(report), stacklevel=2)
    return program


def _with_open_sizes(mod, args, kwargs, dynamic_shapes, options, report):
    """(the program as `export` makes it, with the sizes that can be open, None), or (None, why there is none)."""
    refusal = None
    for shapes in (dynamic_shapes, tree_map(_loose, dynamic_shapes, is_leaf=_is_said)):
        try:
            return export(mod, args, kwargs, dynamic_shapes=shapes, **options), None
        except ConstraintViolationError as error:
            refusal = FailureReport(FailureType.CONSTRAINT_VIOLATION_ERROR, str(error))
            report.add(refusal)
        except (TypeError, ValueError):  # the call is wrong, or its arguments: export has said how
            raise
        except (RuntimeError, NotImplementedError) as error:
            missing = isinstance(error, (NotImplementedError, UnsupportedOperatorException))
            kind = FailureType.MISSING_FAKE_KERNEL if missing else FailureType.DATA_DEPENDENT_ERROR
            return None, FailureReport(kind, f"{class_name(type(error))}: {error}")
    return None, refusal


def _is_said(x):
    return isinstance(x, (Dim, DimHint))


def _loose(x):
    return Dim.AUTO if _is_said(x) and getattr(x, "_name", "") != "STATIC" else x


def _with_values(mod, args, kwargs, kept, report):
    """The program of one run on values; buffers are afterwards what they were."""
    def on_reading():
        report.add(FailureReport(FailureType.DATA_DEPENDENT_ERROR, "Python reads a value that depends on the "
                                 "arguments; it is a constant of this program", _stack()))

    state = {name: buffer.detach().clone() for name, buffer in mod.named_buffers()}
    trace = RealExport(mod, args, dict(kwargs or {}), on_reading)
    trace.kept = tuple(kept)
    try:
        with flambeau.no_grad(), exporting():
            return trace.program()
    finally:
        with flambeau.no_grad():
            for name, buffer in mod.named_buffers():
                buffer.copy_(state[name])
