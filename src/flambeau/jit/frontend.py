"""jit.frontend: the errors of what has no form in TorchScript, by PyTorch's names."""

from ._types import NotScriptable

FrontendError = NotSupportedError = UnsupportedNodeError = NotScriptable
