"""PowerSGD: gradients as products of two thin matrices, of which only these are exchanged.

M ~ P Q^T with P [n, r] and Q [m, r]: one step of subspace iteration from the last Q; what is lost is added to the next
gradient   (Vogels, Karimireddy, Jaggi 2019, algorithm 1).
"""

import math

import flambeau

from ....futures import Future
from ... import _collectives as collectives
from ..._buckets import cut, joined
from ..._values import ReduceOp
from . import default_hooks


class PowerSGDState:
    """What the hook keeps from step to step: thin matrices and errors of each bucket, and its settings.

    Gradients are exchanged as they are for the first `start_powerSGD_iter` steps, and always where the rank r would not
    save a factor of `min_compression_rate`. `compression_stats()` tells at any time what was saved: nothing is logged,
    and matrices are taken one by one, whatever the last two arguments say.
    """

    def __init__(self, process_group, matrix_approximation_rank=1, start_powerSGD_iter=1000, min_compression_rate=2,
                 use_error_feedback=True, warm_start=True, orthogonalization_epsilon=0, random_seed=0,
                 compression_stats_logging_frequency=10000, batch_tensors_with_same_shape=False):
        if start_powerSGD_iter <= 1 and (use_error_feedback or warm_start):
            raise ValueError("PowerSGDState: start_powerSGD_iter must be greater than 1 with use_error_feedback or "
                             f"warm_start, got {start_powerSGD_iter}")
        self.process_group, self.matrix_approximation_rank = process_group, matrix_approximation_rank
        self.start_powerSGD_iter, self.min_compression_rate = start_powerSGD_iter, min_compression_rate
        self.use_error_feedback, self.warm_start = use_error_feedback, warm_start
        self.orthogonalization_epsilon = orthogonalization_epsilon
        self.random_seed, self.iter = random_seed, 0
        self.compression_stats_logging_frequency = compression_stats_logging_frequency
        self.batch_tensors_with_same_shape = batch_tensors_with_same_shape
        self.error_dict, self.q_memory_dict = {}, {}
        self.total_numel_before_compression = self.total_numel_after_compression = 0

    def maybe_increase_iter(self, bucket):
        """A step is over with its last bucket."""
        if bucket.is_last():
            self.iter += 1

    def compression_stats(self):
        """(compression rate, elements before, elements after), of all steps so far."""
        before, after = self.total_numel_before_compression, self.total_numel_after_compression
        return (before / after if after else 0), before, after

    def _draw(self, name, rows, rank, like):
        """Q of the last step; random orthogonal columns at first, the same on all ranks."""
        kept = self.q_memory_dict.get(name)
        if kept is not None and self.warm_start:
            return kept
        generator = flambeau.Generator().manual_seed(self.random_seed + self.iter * 4096 + hash(name) % 4096)
        q = flambeau.randn(rows, rank, dtype=flambeau.float32, generator=generator).to(like.dtype)
        return orthogonal(q, self.orthogonalization_epsilon)


def orthogonal(matrix, epsilon=0):
    """The columns made orthonormal: by QR, or by Gram and Schmidt with an epsilon added to lengths of 0."""
    if epsilon == 0 and matrix.dtype in (flambeau.float32, flambeau.float64):
        return flambeau.linalg.qr(matrix)[0]
    columns = []
    for column in matrix.float().unbind(1):
        for other in columns:
            column = column - (column @ other) * other
        columns.append(column / (column.norm() + epsilon))
    return flambeau.stack(columns, 1).to(matrix.dtype)


def _compressed(state, name, matrix):
    """The mean of all ranks' matrices, of low rank."""
    n, m = matrix.shape
    rank = min(n, m, state.matrix_approximation_rank)
    q = state._draw(name, m, rank, matrix)
    p = matrix @ q
    collectives.all_reduce(p, ReduceOp.AVG, state.process_group)
    p = orthogonal(p, state.orthogonalization_epsilon)
    q = matrix.mT @ p
    collectives.all_reduce(q, ReduceOp.AVG, state.process_group)
    if state.warm_start:
        state.q_memory_dict[name] = q
    state.total_numel_after_compression += (n + m) * rank
    return p @ q.mT


def _worth(state, shape):
    n, m = shape[0], math.prod(shape[1:])
    rank = min(n, m, state.matrix_approximation_rank)
    return (n + m) * rank * state.min_compression_rate < n * m


def _with_error(state, index, buffer):
    """The gradients and what was lost of them in the last step; a copy, from which the next loss is taken."""
    if not state.use_error_feedback:
        return None
    if index in state.error_dict:
        buffer.add_(state.error_dict[index])
    return buffer.clone()


def _hook(state, bucket, reduce):
    """A step: `reduce(state, bucket)` puts a mean in the gradients' place and returns those that it exchanged as they
    were. What the others lost by it is added in the next step."""
    if state.iter < state.start_powerSGD_iter:
        state.maybe_increase_iter(bucket)
        return default_hooks.allreduce_hook(state.process_group, bucket)
    index, buffer = bucket.index(), bucket.buffer()
    wanted = _with_error(state, index, buffer)
    state.total_numel_before_compression += buffer.numel()
    exact = reduce(state, bucket)
    if wanted is not None:
        _lost_nothing(bucket, wanted, exact)
        state.error_dict[index] = wanted.sub_(buffer)
    state.maybe_increase_iter(bucket)
    future = Future()
    future.set_result(buffer)
    return future


def powerSGD_hook(state, bucket):
    """The mean of the gradients, each matrix of low rank; vectors and small ones as they are."""
    return _hook(state, bucket, _each_matrix)


def batched_powerSGD_hook(state, bucket):
    """The mean of the gradients, all of a bucket as one square matrix of low rank."""
    return _hook(state, bucket, _one_square)


def _each_matrix(state, bucket):
    plain = [x for x in bucket.gradients() if x.ndim < 2 or not _worth(state, x.shape)]
    if plain:
        together = joined(plain)
        collectives.all_reduce(together, ReduceOp.AVG, state.process_group)
        for x, part in zip(plain, cut(together, plain)):
            x.copy_(part)
        state.total_numel_after_compression += together.numel()
    for k, x in enumerate(bucket.gradients()):
        if not any(x is each for each in plain):
            x.copy_(_compressed(state, (bucket.index(), k), x.reshape(x.shape[0], -1)).view(x.shape))
    return plain


def _lost_nothing(bucket, wanted, exact):
    """What was exchanged as it was leaves no error: the copy gets the result."""
    for x, place in zip(bucket.gradients(), bucket._cut(wanted)):
        if any(x is each for each in exact):
            place.copy_(x)


def _one_square(state, bucket):
    buffer = bucket.buffer()
    side = math.isqrt(max(buffer.numel() - 1, 0)) + 1
    square = flambeau.zeros(side * side, dtype=buffer.dtype)
    square[:buffer.numel()] = buffer
    mean = _compressed(state, (bucket.index(), -1), square.view(side, side))
    buffer.copy_(mean.reshape(-1)[:buffer.numel()])
    return []
