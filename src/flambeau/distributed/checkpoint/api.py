"""What a checkpoint raises when a rank has failed: on all ranks the same, with every rank's own error."""

import traceback
from traceback import StackSummary

WRAPPED_EXCEPTION = tuple[BaseException, StackSummary]


class CheckpointException(BaseException):
    """Saving or loading has failed on some ranks. `failures` has each one's exception and stack."""

    def __init__(self, msg, failures):
        super().__init__(msg, failures)
        self._failures = failures

    @property
    def failures(self):
        """{rank: (exception, stack)}"""
        return self._failures

    def __str__(self):
        step = {"plan": "planning", "write": "writing", "read": "reading"}.get(self.args[0], self.args[0])
        parts = [f"checkpoint: {step} has failed on rank{'s' * (len(self._failures) > 1)} "
                 f"{', '.join(map(str, self._failures))}\n"]
        for rank, (error, stack) in self._failures.items():
            parts.append(f"rank {rank}:\n{''.join(stack.format())}")
            parts += traceback.format_exception_only(type(error), error)
        return "".join(parts)
