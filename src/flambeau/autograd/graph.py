"""The graph as Python sees it: nodes and edges, hooks where gradients pass, hooks on what nodes keep for backward."""

import contextlib
import threading
import weakref
from collections import namedtuple

from .. import _C
from .._shown import shown
from ..ops.kinds import OPS
from ..utils.hooks import RemovableHandle
from . import _nodes

Node = _C.Node

#: what a result of a node is: shape, dtype, device
InputMetadata = namedtuple("InputMetadata", "shape dtype device")


class GradientEdge(namedtuple("GradientEdge", "node output_nr ownership_token", defaults=(None,))):
    """A place where gradients arrive: output `output_nr` of `node`. `backward` and `grad` take it like a tensor."""

    __slots__ = ()


def get_gradient_edge(tensor):
    """The edge along which the tensor's gradient leaves, so that the tensor itself need not be kept.

    >>> import flambeau
    >>> x = flambeau.ones(2, requires_grad=True)
    >>> y = x * 3
    >>> edge = flambeau.autograd.graph.get_gradient_edge(y)
    >>> flambeau.autograd.grad(edge, x, grad_outputs=flambeau.ones(2))
    (tensor([3., 3.]),)
    """
    if not isinstance(tensor, _C.Tensor):
        raise TypeError(f"get_gradient_edge: expected a Tensor, got {type(tensor).__name__}")
    if not tensor.requires_grad:
        raise RuntimeError(f"get_gradient_edge: this tensor of shape {list(tensor.shape)} does not require grad, so no "
                           "edge of the graph leads to it")
    node = tensor.grad_fn
    if node is None:
        return GradientEdge(_C.accumulate_node(tensor), 0)
    return GradientEdge(node, tensor.output_nr)


# ---- hooks of tensors and nodes ------------------------------------------------------------------------------


def _register(hooks, hook):
    handle = RemovableHandle(hooks)
    hooks[handle.id] = hook
    return handle


def register_tensor_hook(tensor, hook):
    """Tensor.register_hook: hook(grad) -> None or another gradient, whenever a gradient for the tensor is computed."""
    return _register(_C.tensor_hooks(tensor), hook)


def register_accumulate_hook(tensor, hook):
    """Tensor.register_post_accumulate_grad_hook: hook(tensor) as soon as a leaf's `.grad` is complete in a pass.

    Gradients of the layers before it are still to come then: an optimizer step in the hook, followed by
    `tensor.grad = None`, keeps only one gradient in memory at a time.
    """
    return _register(_C.accumulate_hooks(tensor), hook)


def _register_hook(node, fn):
    """register_hook(fn): fn(grad_inputs, grad_outputs) -> None or new grad_inputs, after the node ran."""
    return _register(node._post_hooks(), fn)


def _register_prehook(node, fn):
    """register_prehook(fn): fn(grad_outputs) -> None or new grad_outputs, before the node runs."""
    return _register(node._pre_hooks(), fn)


def _input_metadata(node):
    """Shape, dtype and device of each gradient that arrives at the node (of each result of the recorded call)."""
    return [None if meta is None else InputMetadata(*meta) for meta in node._outputs]


class SavedTensor:
    """One tensor a node keeps (`node._raw_saved_self`); hooks may be put on it alone."""

    def __init__(self, node, name):
        self._node, self._name = node, name

    def data(self):
        """The tensor, unpacked."""
        return getattr(self._node, f"_saved_{self._name}")

    def register_hooks(self, pack_hook, unpack_hook):
        """Replaces what is kept by pack_hook(tensor); unpack_hook(that) must give the tensor again."""
        self._node._pack_saved(self._name, pack_hook, unpack_hook)


def _missing(node, name):
    if name.startswith("_raw_saved_") and name[11:] in node._saved_names():
        return SavedTensor(node, name[11:])
    raise AttributeError(f"'{node.name()}' object has no attribute '{name}'")


def _dir(node):
    """The names of a node's attributes, with those of what it keeps."""
    kept = node._saved_names()
    return [*(name for name in object.__dir__(node) if name != "_saved_names"),
            *(prefix + name for prefix in ("_saved_", "_raw_saved_") for name in kept)]


Node.register_hook = _register_hook
Node.__dir__ = _dir
Node.register_prehook = _register_prehook
Node._input_metadata = property(_input_metadata)
Node._raw_saved = _missing


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
    """Watches the gradients of several tensors.

    mode="all": fn(gradients) once per pass, when the gradient of the last of those that take part in it has come
    (None for the others). mode="any": fn(gradient) once per pass, at the first.

    >>> import flambeau
    >>> a, b = flambeau.ones(1, requires_grad=True), flambeau.ones(1, requires_grad=True)
    >>> handle = flambeau.autograd.graph.register_multi_grad_hook((a, b), lambda grads: print(len(grads)))
    >>> (a * b).sum().backward()
    2
    """
    if mode not in ("all", "any"):
        raise ValueError(f"register_multi_grad_hook: mode must be 'all' or 'any', got {shown(mode)}")
    tensors = tuple(tensors)
    watch = _All(tensors, fn) if mode == "all" else _Any(fn)
    return _Handles([register_tensor_hook(t, watch.hook_of(k)) for k, t in enumerate(tensors)])


class _All:
    """Gradients collected during one pass; which tensors to wait for is found when the first one comes."""

    def __init__(self, tensors, fn):
        self.fn, self.count = fn, len(tensors)
        self.edges = [get_gradient_edge(t)[:2] if t.grad_fn is not None else weakref.ref(t) for t in tensors]
        self.lock = threading.Lock()
        self.arrived, self.expected = {}, {}

    def hook_of(self, k):
        def hook(grad):
            owner = _C.current_pass()
            with self.lock:
                grads = self.arrived.get(owner)
                if grads is None:
                    grads = self.arrived[owner] = [None] * self.count
                    self.expected[owner] = self._taking_part(k)
                    _C.queue_callback(lambda: self._forget(owner))
                grads[k] = grad
                self.expected[owner].discard(k)
                complete = not self.expected[owner]
                if complete:
                    self.expected[owner].add(-1)  # once per pass
            if complete:
                self.fn(list(grads))
        return hook

    def _taking_part(self, first):
        members = _C.pass_members([e if isinstance(e, tuple) else e() for e in self.edges])
        return {k for k, inside in enumerate(members) if inside} | {first}

    def _forget(self, owner):
        self.arrived.pop(owner, None)
        self.expected.pop(owner, None)


class _Any:
    def __init__(self, fn):
        self.fn, self.seen, self.lock = fn, set(), threading.Lock()

    def hook_of(self, _):
        def hook(grad):
            owner = _C.current_pass()
            with self.lock:
                if owner in self.seen:
                    return
                self.seen.add(owner)
                _C.queue_callback(lambda: self.seen.discard(owner))
            self.fn(grad)
        return hook


def queue_callback(callback):
    """Calls callback() when the backward pass that is running on this thread has ended.

    >>> import flambeau
    >>> x = flambeau.ones(1, requires_grad=True)
    >>> handle = x.register_hook(lambda g: flambeau.autograd.graph.queue_callback(lambda: print("done")))
    >>> (x * 2).sum().backward()
    done
    """
    _C.queue_callback(callback)


class node_creation_hook:
    """Scope in which hook(node) is called for every node that is recorded by this thread.

    >>> import flambeau
    >>> x = flambeau.ones(1, requires_grad=True)
    >>> with flambeau.autograd.graph.node_creation_hook(lambda node: print(node.name())):
    ...     y = x.exp() * 2
    ExpBackward0
    MulBackward0
    """

    def __init__(self, hook):
        self.hook = hook

    def __enter__(self):
        self._entry = threading.get_ident(), self.hook
        _nodes.creation_hooks.append(self._entry)
        _nodes.update()

    def __exit__(self, *_):
        _nodes.creation_hooks.remove(self._entry)
        _nodes.update()


# ---- hooks of saved tensors ----------------------------------------------------------------------------------


class saved_tensors_hooks:
    """Scope in which pack_hook(tensor) decides what is kept for backward, and unpack_hook makes it a tensor again.

    >>> import flambeau
    >>> x = flambeau.ones(2, requires_grad=True)
    >>> with flambeau.autograd.graph.saved_tensors_hooks(lambda t: t.tolist(), flambeau.tensor):
    ...     y = x.exp()
    >>> y.sum().backward()
    >>> x.grad
    tensor([2.7183, 2.7183])
    """

    def __init__(self, pack_hook, unpack_hook):
        self.pack_hook, self.unpack_hook = pack_hook, unpack_hook

    def __enter__(self):
        _C.push_saved_hooks(self.pack_hook, self.unpack_hook)

    def __exit__(self, *_):
        _C.pop_saved_hooks()


class save_on_cpu(saved_tensors_hooks):
    """Scope in which saved tensors wait for backward in the CPU's memory."""

    def __init__(self, pin_memory=False, device_type="cuda"):
        _C.device(device_type)  # whose pinned memory; without CUDA there is nothing to pin for
        pinned = {"pin_memory": True} if pin_memory and _C._cuda.available() else {}

        def pack(tensor):
            copy = OPS["empty_like"](tensor, device="cpu", **pinned)
            return tensor.device, copy.copy_(tensor)

        def unpack(packed):
            device, tensor = packed
            return tensor.to(device)
        super().__init__(pack, unpack)


class disable_saved_tensors_hooks(contextlib.ContextDecorator):
    """Scope, or decorator, in which no saved-tensor hooks may be entered: trying raises RuntimeError(error_message)."""

    def __init__(self, error_message):
        self.message = error_message

    def __enter__(self):
        self._before = _C.set_saved_hooks_disabled(self.message)

    def __exit__(self, *_):
        _C.set_saved_hooks_disabled(self._before)

    def _recreate_cm(self):  # each call has a state of its own
        return type(self)(self.message)


class allow_mutation_on_saved_tensors(contextlib.ContextDecorator):
    """Scope in which writing into a tensor that was saved for backward is allowed: a copy is made before the write.

    >>> import flambeau
    >>> x = flambeau.ones(2, requires_grad=True)
    >>> with flambeau.autograd.graph.allow_mutation_on_saved_tensors():
    ...     y = x * 2
    ...     z = y * y
    ...     _ = y.zero_()
    ...     z.sum().backward()
    >>> x.grad
    tensor([8., 8.])
    """

    def __enter__(self):
        self._kept = _Kept()
        _C.push_saved_hooks(self._kept.pack, self._kept.unpack)
        self._before = _C.set_write_hook(self._kept.before_write)
        return self._kept

    def __exit__(self, *_):
        _C.set_write_hook(self._before)
        _C.pop_saved_hooks()
        self._kept.clear()


class _Kept:
    """Saved tensors by the memory they share; the first write to it gives each of them a copy of its own."""

    def __init__(self):
        self.by_memory, self.inside = {}, True

    def clear(self):
        self.by_memory, self.inside = {}, False

    def pack(self, tensor):
        slot = _Slot(tensor)
        if self.inside:
            self.by_memory.setdefault(tensor.untyped_storage().data_ptr(), []).append(weakref.ref(slot))
        return slot

    def unpack(self, slot):
        if not self.inside:
            raise RuntimeError("this graph was recorded under allow_mutation_on_saved_tensors, whose scope has ended; "
                               "call backward inside it")
        return slot.tensor

    def before_write(self, tensor):
        for ref in self.by_memory.pop(tensor.untyped_storage().data_ptr(), ()):
            slot = ref()
            if slot is not None:
                slot.tensor = slot.tensor.clone()


class _Slot:
    __slots__ = ("__weakref__", "tensor")

    def __init__(self, tensor):
        self.tensor = tensor


def increment_version(tensor):
    """Says that memory was written behind the library's back, so that saved uses of the tensors are noticed."""
    for t in (tensor,) if isinstance(tensor, _C.Tensor) else tensor:
        t._bump_version()


def region_activation_memory_budget(budget):
    """A context in a compiled function: how much of the memory for activations its backward may use. 1 is what there
    is; for less, `utils.checkpoint` computes activations again.

    >>> import flambeau
    >>> @flambeau.compile
    ... def double(x):
    ...     with flambeau.autograd.graph.region_activation_memory_budget(1.0):
    ...         return x * 2
    >>> double(flambeau.ones(1))
    tensor([2.])
    """

    if not 0 <= budget <= 1:
        raise ValueError(f"region_activation_memory_budget: budget must be from 0 to 1, got {shown(budget)}")
    if not _C.graph_capturing():
        raise RuntimeError("region_activation_memory_budget: it is for parts of a compiled function; elsewhere "
                           "utils.checkpoint.checkpoint computes activations again")
    if budget != 1:
        raise NotImplementedError(f"region_activation_memory_budget: budget={shown(budget)}: compiled functions keep "
                                  "what backward needs; wrap the part in utils.checkpoint.checkpoint")
    return contextlib.nullcontext()


def set_warn_on_accumulate_grad_stream_mismatch(enabled):
    """Accepted for PyTorch's programs: a backward pass here runs on one thread and has no streams that could differ."""


def set_override_stale_capture_stream(enabled):
    """Accepted for PyTorch's programs: there are no streams to capture."""
