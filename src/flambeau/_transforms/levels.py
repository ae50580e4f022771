"""The stack of active levels: one frame per running `vmap` or `jvp`, and how an operator call reaches its frame.

A tensor inside a transform is a wrapper with the number of its level. Autograd records on the wrappers themselves;
below it, native code hands the call to `interpret`, and the frame of the highest level among the arguments says what
the operator means there, in operators one level lower. How a wrapper looks is its frame's business alone.
"""

import threading

from .. import _C


class _Stack(threading.local):
    """The frames of this thread, outermost first."""

    def __init__(self):
        self.frames = []


stack = _Stack()


def _announce():
    """Tells native code how many levels are active, and whether the innermost one takes what is made from no tensor."""
    frames = stack.frames
    _C.set_levels(len(frames), bool(frames) and frames[-1].factories)


class Wrapper(_C.Tensor):
    """A tensor of some level. `value` is the tensor one level below; subclasses add what their frame needs."""

    __slots__ = ("frame", "value")
    __torch_function__ = _C._disabled_torch_function_impl

    def __repr__(self, *, tensor_contents=None):
        if outside(self) is not self:
            return repr(outside(self))
        return self._text()

    def __deepcopy__(self, memo):
        return self.clone()


class Frame:
    """One running transform. Subclasses say how an operator runs (`run`), how a tensor from outside enters (`lift`),
    and how their wrappers are copied, detached and read."""

    level = 0
    #: True once what is left of its tensors are their values (a dual level that was opened by hand, after its end)
    ended = False
    #: whether tensors made from no tensor (zeros, arange …) are of this level, so that they can be written to
    factories = False

    def __enter__(self):
        stack.frames.append(self)
        self.level = len(stack.frames)
        _announce()
        return self

    def __exit__(self, *_):
        stack.frames.pop()
        _announce()

    def run(self, op, args, kwargs):
        """The operator, whose highest arguments are of this level; results of this level."""
        raise NotImplementedError

    def lift(self, tensor):
        """A wrapper of this level that stands for a tensor of a lower one."""
        raise NotImplementedError

    def others(self, wrapper):
        """Tensors of a lower level that the wrapper holds besides `value`."""
        return ()

    def alias(self, wrapper):
        """A second wrapper of the same, without history at this level."""
        raise NotImplementedError

    def copy(self, to, wrapper):
        """Makes `to` a second wrapper of what `wrapper` holds."""
        raise NotImplementedError

    def rewrite(self, wrapper, result):
        """What was written into the wrapper's value is the value of `result`, which may hold more."""

    def detach(self, wrapper):
        """The wrapper without history, at this level and below."""
        raise NotImplementedError

    def read(self, wrapper):
        """The tensor whose element `item()` may read."""
        raise NotImplementedError


class below:
    """A context in which only the levels outside `frame` are active: what runs there cannot meet the frame again."""

    def __init__(self, frame):
        self.frame = frame

    def __enter__(self):
        self.frames = stack.frames
        stack.frames = self.frames[:self.frame.level - 1]
        _announce()

    def __exit__(self, *_):
        stack.frames = self.frames
        _announce()


def debug_unwrap(tensor, *, recurse=True):
    """What a tensor inside a transform stands for one level below (`recurse`: at the bottom), to look at in a debugger.

    >>> import flambeau
    >>> def look(x):
    ...     print(flambeau.func.debug_unwrap(x))
    ...     return x
    >>> _ = flambeau.vmap(look)(flambeau.tensor([1., 2.]))
    tensor([1., 2.])
    """
    if not isinstance(tensor, Wrapper):
        return tensor
    return debug_unwrap(tensor.value) if recurse else tensor.value


def innermost():
    """The frame of the innermost transform; None outside all of them."""
    frames = stack.frames
    return frames[-1] if frames else None


def outside(value):
    """A tensor of a dual level that has ended as what it held; one with history of its own stays, and so does the rest.
    """
    if isinstance(value, (list, tuple)) and any(isinstance(v, Wrapper) for v in value):
        return [outside(v) for v in value]
    while isinstance(value, Wrapper) and value.frame.ended and not value.requires_grad:
        value = value.value
    return value


def _after_the_end(op, args, kwargs):
    """The operator on what tensors of levels that have ended held."""
    given, named = [outside(a) for a in args], {k: outside(v) for k, v in kwargs.items()}
    if all(a is b for a, b in zip([*given, *named.values()], [*args, *kwargs.values()], strict=True)):
        raise RuntimeError(f"{op.name}: an argument left the transform that made it: return it from the transformed "
                           "function instead of storing it outside")
    result = op(*given, **named)
    return args[0] if op.is_inplace else result


def frame_of(wrapper):
    """The frame of a wrapper, which must still run."""
    frame = wrapper.frame
    frames = stack.frames
    if frame.level > len(frames) or frames[frame.level - 1] is not frame:
        raise RuntimeError(f"a tensor left the {frame.name} that made it (it was stored outside the function, or a "
                           "generator kept it): return it from the transformed function instead")
    return frame


def interpret(op, args, kwargs, level):
    """What native code calls for an operator whose highest argument is of that level."""
    frames = stack.frames
    if level > len(frames):
        return _after_the_end(op, args, kwargs)
    if frames[-1].factories:  # what the rules make is of the levels below
        with below(frames[level - 1]):
            return frames[level - 1].run(op, args, kwargs)
    return frames[level - 1].run(op, args, kwargs)


def _copy(to, wrapper):
    to.frame = wrapper.frame
    wrapper.frame.copy(to, wrapper)


def _read(wrapper):
    value = outside(wrapper)
    while isinstance(value, Wrapper):
        value = frame_of(value).read(value)
    return value


def _detach(wrapper):
    return wrapper.frame.detach(wrapper)


_C.set_level_handlers(interpret, _copy, _read, _detach)

