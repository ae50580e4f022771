"""Which modules are running: in forward by their calls, in backward by the gradients that reach and leave them."""

from .. import Tensor, is_grad_enabled
from ..autograd.graph import queue_callback, register_multi_grad_hook
from ..nn.modules._hooks import register_module_forward_hook, register_module_forward_pre_hook
from ._pytree import tree_leaves

_ROOT = "Global"


def _differentiable(tree):
    return [t for t in tree_leaves(tree) if isinstance(t, Tensor) and t.requires_grad]


class ModuleTracker:
    """Inside `with tracker:` the set `tracker.parents` has the names of all modules that run now, and "Global".

    The outermost module is called by its class, those inside by their path ("Net.layers.0"). `is_bw` says whether it is
    backward that runs. A module without differentiable inputs counts as running until backward ends.

    >>> import flambeau
    >>> from flambeau import nn
    >>> from flambeau.utils.module_tracker import ModuleTracker
    >>> class Net(nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.layer = nn.ReLU()
    ...     def forward(self, x):
    ...         print(sorted(tracker.parents))
    ...         return self.layer(x)
    >>> tracker = ModuleTracker()
    >>> with tracker:
    ...     _ = Net()(flambeau.ones(1))
    ['Global', 'Net']
    """

    def __init__(self):
        self.parents, self.is_bw = {_ROOT}, False
        self._running, self._names, self._handles = [], {}, []

    def __enter__(self):
        self._handles = [register_module_forward_pre_hook(self._before),
                         register_module_forward_hook(self._after, always_call=True)]
        return self

    def __exit__(self, *_):
        for handle in self._handles:
            handle.remove()
        self._running.clear()
        self.parents, self.is_bw = {_ROOT}, False

    def _name(self, module):
        """The module's path below the outermost one that was running when it was first called."""
        if module not in self._names:
            root = type(module).__name__
            for path, inner in module.named_modules():
                self._names.setdefault(inner, f"{root}.{path}" if path else root)
        return self._names[module]

    def _before(self, module, inputs):
        name = self._name(module)
        self._running.append(name)
        self.parents.add(name)
        tensors = _differentiable(inputs)
        if tensors and is_grad_enabled():
            self._handles.append(register_multi_grad_hook(tensors, lambda _: self._leaves(name)))

    def _after(self, module, inputs, output):
        name = self._running.pop()
        if name not in self._running:
            self.parents.discard(name)
        tensors = _differentiable(output)
        if tensors and is_grad_enabled():
            self._handles.append(register_multi_grad_hook(tensors, lambda _: self._enters(name), mode="any"))

    def _enters(self, name):
        if not self.is_bw:
            self.is_bw = True
            queue_callback(self._ends)
        self.parents.add(name)

    def _leaves(self, name):
        if name not in self._running:
            self.parents.discard(name)

    def _ends(self):
        self.is_bw = False
        self.parents = {_ROOT, *self._running}
