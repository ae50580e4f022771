"""What a fake implementation may ask for: sizes that only values decide, which stay open in the program."""

import contextlib
import threading

from .._shown import shown
from .._subclasses.fake import DynamicOutputShapeException
from .._symbolic.statements import INFINITE


class _Asking(threading.local):
    """Of this thread: the context of the fake implementation that runs."""

    context = None


_asking = _Asking()


class FakeImplCtx:
    """What `get_ctx` gives: the operator that is asked, and the FakeTensorMode (None: tensors on `meta`)."""

    def __init__(self, overload, mode):
        self._overload, self._mode = overload, mode

    def new_dynamic_size(self, *, min=0, max=None):
        """A size from min to max that only values decide: a SymInt."""
        name = self._overload.qualified
        for bound in (min, max):
            if not (bound is None or isinstance(bound, int)):
                raise ValueError(f"new_dynamic_size: {name}: bounds are ints, got {shown(bound)}")
        if min < 0:
            raise ValueError(f"new_dynamic_size: {name}: sizes are at least 0, got min={min}")
        if self._mode is None:
            raise RuntimeError(f"{name}: the shape of its result depends on values, which tensors on 'meta' do not "
                               "have; trace it with open sizes (make_fx with tracing_mode='symbolic', or export)")
        env = self._mode.shape_env
        if env is None or not env.allow_dynamic_output_shape_ops:
            raise DynamicOutputShapeException(self._overload)
        size = env.create_unbacked_symint(name)
        env.constrain_range(next(iter(size.node.expr.free_symbols)), min, INFINITE if max is None else max)
        return size

    def create_unbacked_symint(self, *, min=2, max=None):
        """The older name of `new_dynamic_size`."""
        return self.new_dynamic_size(min=min, max=max)


def get_ctx():
    """Inside a fake implementation: a context whose `new_dynamic_size()` is a size that depends on data. Else None.

    >>> import flambeau
    >>> @flambeau.library.custom_op("example::places", mutates_args=())
    ... def places(x: flambeau.Tensor) -> flambeau.Tensor:
    ...     return flambeau.as_tensor(x.numpy().nonzero()[0])
    >>> @places.register_fake
    ... def _(x):
    ...     return x.new_empty(flambeau.library.get_ctx().new_dynamic_size(), dtype=flambeau.int64)
    >>> program = flambeau.fx.experimental.proxy_tensor.make_fx(lambda x: places(x) + 1, tracing_mode="symbolic")
    >>> program(flambeau.ones(3))(flambeau.tensor([0., 1., 0., 1.]))
    tensor([2, 4])
    """
    return _asking.context


@contextlib.contextmanager
def answering(overload, mode):
    """Context in which `get_ctx` is that of an operator."""
    before, _asking.context = _asking.context, FakeImplCtx(overload, mode)
    try:
        yield
    finally:
        _asking.context = before
