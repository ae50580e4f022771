"""What becomes of the output of processes that are started together."""

from enum import IntFlag

from . import errors as errors


class Std(IntFlag):
    """Streams of a process."""

    NONE = 0
    OUT = 1
    ERR = 2
    ALL = OUT | ERR

    @classmethod
    def from_str(cls, vm):
        """A number, or {local rank: number} of text as in "0:3,1:1".

        >>> from flambeau.distributed.elastic.multiprocessing import Std
        >>> Std.from_str("3") == Std.ALL, Std.from_str("0:1") == {0: Std.OUT}
        (True, True)
        """
        try:
            if ":" not in vm:
                return cls(int(vm))
            return {int(rank): cls(int(value)) for rank, value in (part.split(":") for part in vm.split(","))}
        except ValueError:
            raise ValueError(f"Std.from_str: expected 0, 1, 2 or 3, or RANK:NUMBER,…, got {vm[:80]}") from None


class LogsSpecs:
    """Where the output of processes goes: `log_dir`/run/attempt/rank, which streams only there (`redirects`), which
    there and to this process's own output (`tee`), and whose output is shown at all (`local_ranks_filter`).
    """

    def __init__(self, log_dir=None, redirects=Std.NONE, tee=Std.NONE, local_ranks_filter=None):
        self.root_log_dir, self.redirects, self.tee = log_dir, redirects, tee
        self.local_ranks_filter = local_ranks_filter


class DefaultLogsSpecs(LogsSpecs):
    """The one that there is."""
