"""torch._dynamo.exc: the errors of compiled functions by the names that programs catch."""

from ...._graph.errors import BackendCompilerFailed as BackendCompilerFailed
from ...._graph.errors import TorchDynamoException as TorchDynamoException
from ...._graph.errors import Unsupported as Unsupported
from ...._symbolic.shape_env import UserError as UserError


class InternalTorchDynamoError(TorchDynamoException):
    """Of a mistake in a compiler that reads Python; this one runs it, and raises no such error."""


class TorchRuntimeError(TorchDynamoException):
    """Of a call that fails while Python is read; here it fails where it is made."""


class RecompileError(TorchDynamoException):
    """Of programs that are compiled again; none is."""


class FailOnRecompileLimitHit(TorchDynamoException):
    """Of programs that are compiled too often; there is no limit."""


class ResetRequired(TorchDynamoException):
    """Of compilers that are not reset between backends; none need be."""


class UncapturedHigherOrderOpError(Unsupported):
    """Of control flow that cannot be one step of a program."""
