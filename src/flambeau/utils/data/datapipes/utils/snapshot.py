"""Continuing at a place: a datapipe is read up to it again."""

from ...graph_settings import apply_random_seed
from .._hook_iterator import _SnapshotState


def _simple_graph_snapshot_restoration(datapipe, n_iterations, rng=None):
    """Reads `n_iterations` samples, after which the next iteration goes on. `rng` gives the seeds of what is random."""
    if datapipe._snapshot_state is _SnapshotState.Restored:
        raise RuntimeError(f"{type(datapipe).__name__}: Snapshot restoration was done already; iterate over the "
                           "datapipe before it is put to another place")
    datapipe.reset()
    apply_random_seed(datapipe, rng)
    samples = iter(datapipe)
    for count in range(n_iterations):
        try:
            next(samples)
        except StopIteration:
            raise RuntimeError(f"{type(datapipe).__name__}: it has {count} samples, so it cannot go on after "
                               f"{n_iterations}") from None
    datapipe._fast_forward_iterator = samples
    datapipe._snapshot_state = _SnapshotState.Restored
