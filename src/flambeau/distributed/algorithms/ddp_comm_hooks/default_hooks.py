"""Exchange gradients as they are, or rounded to 16 bits: half the memory traffic, and rounding errors in the mean."""

import flambeau

from ... import _collectives as collectives
from ..._values import ReduceOp


def _mean(group, buffer):
    """A Future of the mean of all ranks' buffers."""
    work = collectives.all_reduce(buffer, ReduceOp.AVG, group, async_op=True)
    return work.get_future().then(lambda future: future.wait()[0])


def allreduce_hook(process_group, bucket):
    """The mean of the gradients: what DistributedDataParallel does without a hook."""
    return _mean(process_group, bucket.buffer())


def _rounded_mean(group, bucket, dtype):
    buffer = bucket.buffer()
    return _mean(group, buffer.to(dtype)).then(lambda future: buffer.copy_(future.wait()))


def fp16_compress_hook(process_group, bucket):
    """The mean of the gradients, which are rounded to float16 before and after."""
    return _rounded_mean(process_group, bucket, flambeau.float16)


def bf16_compress_hook(process_group, bucket):
    """The mean of the gradients, which are rounded to bfloat16 before and after."""
    return _rounded_mean(process_group, bucket, flambeau.bfloat16)


class _Rounded:
    """A bucket whose buffer has another dtype."""

    def __init__(self, bucket, dtype):
        self._bucket, self._buffer = bucket, bucket.buffer().to(dtype)

    def __getattr__(self, name):
        return getattr(self._bucket, name)

    def buffer(self):
        """The rounded gradients."""
        return self._buffer

    def gradients(self):
        """Their parts, in the shapes of the parameters."""
        return self._bucket._cut(self._buffer)

    def set_buffer(self, buffer):
        """Puts other gradients into the buffer's place."""
        self._buffer.copy_(buffer)


def _wrapped(hook, dtype):
    def rounded(state, bucket):
        home = bucket.buffer()
        return hook(state, _Rounded(bucket, dtype)).then(lambda future: home.copy_(_tensor(future.wait())))

    return rounded


def _tensor(value):
    return value[0] if isinstance(value, (list, tuple)) else value


def fp16_compress_wrapper(hook):
    """A hook that gets gradients in float16: `fp16_compress_wrapper(powerSGD_hook)`."""
    return _wrapped(hook, flambeau.float16)


def bf16_compress_wrapper(hook):
    """A hook that gets gradients in bfloat16."""
    return _wrapped(hook, flambeau.bfloat16)


def unchanged(bucket):
    """A Future of the gradients as they are."""
    future = flambeau.futures.Future()
    future.set_result(bucket.buffer())
    return future
