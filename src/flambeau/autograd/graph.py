"""The graph as Python sees it: nodes, and the hooks that run when gradients reach tensors and nodes."""

from .. import _C
from ..utils.hooks import RemovableHandle

Node = _C.Node


def _register(hooks, hook):
    handle = RemovableHandle(hooks)
    hooks[handle.id] = hook
    return handle


def register_tensor_hook(tensor, hook):
    """Tensor.register_hook: hook(grad) -> None or another gradient, whenever a gradient for the tensor is computed."""
    return _register(_C.tensor_hooks(tensor), hook)


def register_accumulate_hook(tensor, hook):
    """Tensor.register_post_accumulate_grad_hook: hook(tensor) after a gradient was added to a leaf's `.grad`."""
    return _register(_C.accumulate_hooks(tensor), hook)


def _register_hook(node, fn):
    """register_hook(fn): fn(grad_inputs, grad_outputs) -> None or new grad_inputs, after the node ran."""
    return _register(node._post_hooks(), fn)


def _register_prehook(node, fn):
    """register_prehook(fn): fn(grad_outputs) -> None or new grad_outputs, before the node runs."""
    return _register(node._pre_hooks(), fn)


Node.register_hook = _register_hook
Node.register_prehook = _register_prehook


class _Handles:
    """Several handles removed as one."""

    def __init__(self, handles):
        self._handles = handles

    def remove(self):
        for handle in self._handles:
            handle.remove()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.remove()


def register_multi_grad_hook(tensors, fn, *, mode="all"):
    """Calls fn(gradients) once per backward pass, when the last of the tensors' gradients has come.

    A tensor that gets no gradient in a pass leaves the hook waiting: every tensor must take part.

    >>> import flambeau
    >>> a, b = flambeau.ones(1, requires_grad=True), flambeau.ones(1, requires_grad=True)
    >>> handle = flambeau.autograd.graph.register_multi_grad_hook((a, b), lambda grads: print(len(grads)))
    >>> (a * b).sum().backward()
    2
    """
    if mode != "all":
        raise NotImplementedError(f"register_multi_grad_hook: mode={mode!r} is not available, only 'all'")
    tensors = tuple(tensors)
    arrived = {}

    def hook_of(k):
        def hook(grad):
            arrived[k] = grad
            if len(arrived) == len(tensors):
                grads = tuple(arrived[j] for j in range(len(tensors)))
                arrived.clear()
                fn(grads)
        return hook

    return _Handles([register_tensor_hook(t, hook_of(k)) for k, t in enumerate(tensors)])


def increment_version(tensors):
    """Says that the tensors' memory was written behind the library's back, so that saved uses of it are noticed."""
    for t in (tensors,) if isinstance(tensors, _C.Tensor) else tensors:
        t._bump_version()
