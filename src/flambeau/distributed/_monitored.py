"""monitored_barrier: waits for all ranks, and says which of them do not come."""

from datetime import timedelta

from ._errors import DistStoreError
from ._groups import member
from ._stores import PrefixStore
from ._tcp import timeout_of


def monitored_barrier(group=None, timeout=None, wait_all_ranks=False):
    """Waits for all ranks; where some do not come, rank 0 says which: the first, or all with `wait_all_ranks`."""
    found = member(group, "monitored_barrier")
    if found is None:
        return
    seconds = timeout_of(timeout, timedelta(seconds=found.timeout), "monitored_barrier").total_seconds()
    if found.store is None:  # of MPI, which ends all when one ends
        return found.engine.barrier("monitored_barrier", seconds)
    number = found.monitored = getattr(found, "monitored", 0) + 1
    store = PrefixStore(f"monitored{number}", found.store)
    store.set(f"here{found.rank()}", "1")
    if found.rank():
        try:
            return store.wait(["all"], seconds)
        except DistStoreError:
            raise RuntimeError(f"monitored_barrier: rank 0 has not seen all ranks within {seconds:g} seconds; its "
                               "message says which are missing") from None
    _await_each(store, found, seconds, wait_all_ranks)
    return store.set("all", "1")


def _await_each(store, group, seconds, wait_all_ranks):
    missing = []
    for r in range(1, group.size()):
        try:
            store.wait([f"here{r}"], 0 if missing else seconds)
        except DistStoreError:
            missing.append(group.ranks[r])
            if not wait_all_ranks:
                break
    if missing:
        others = "" if wait_all_ranks else " (the first that is missing)"
        raise RuntimeError(f"monitored_barrier: within {seconds:g} seconds there was no sign of rank"
                           f"{'s' if len(missing) > 1 else ''} {', '.join(map(str, missing))}{others}")
