"""torch._dynamo.exc: the errors of traces by the names that programs catch."""

from ...._symbolic.shape_env import UserError as UserError


class TorchDynamoException(RuntimeError):
    """Of a compiler that reads Python; this one runs it, and raises no such error."""


class Unsupported(TorchDynamoException):
    """Of Python that a compiler cannot read; none is."""


class InternalTorchDynamoError(TorchDynamoException):
    """Of a mistake in a compiler that reads Python."""


class BackendCompilerFailed(TorchDynamoException):
    """Of a compiler behind another; here a backend's own error is raised."""


class TorchRuntimeError(TorchDynamoException):
    """Of a call that fails while Python is read; here it fails where it is made."""


class RecompileError(TorchDynamoException):
    """Of programs that are compiled again; none is."""
