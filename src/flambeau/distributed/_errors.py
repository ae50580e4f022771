"""What is raised when processes cannot exchange something."""


class DistError(RuntimeError):
    """An exchange between processes failed."""


class DistBackendError(DistError):
    """A collective call failed: a rank has ended, time is up, or the ranks do different things."""


class DistNetworkError(DistError):
    """The process that keeps the store cannot be reached, or does not trust this one."""


class DistStoreError(DistError):
    """What was waited for did not come into the store in time."""


class QueueEmptyError(DistStoreError):
    """Nothing is in a queue of the store."""
