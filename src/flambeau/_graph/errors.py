"""Errors of compiled functions, under the names that programs catch."""


class TorchDynamoException(RuntimeError):
    """Of a function that is compiled."""


class Unsupported(TorchDynamoException):
    """Of a function that is not one program, although fullgraph=True asks for that."""


class BackendCompilerFailed(TorchDynamoException):
    """Of a backend of one's own that raised an exception, which is `inner_exception`."""

    def __init__(self, backend, inner_exception):
        name = getattr(backend, "__name__", None) or type(backend).__name__
        super().__init__(f"compile: the backend {name} raised {type(inner_exception).__name__}: {inner_exception}")
        self.backend_name, self.inner_exception = name, inner_exception
