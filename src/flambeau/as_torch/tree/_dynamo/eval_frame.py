"""torch._dynamo.eval_frame: the class of compiled modules, which packages ask for before they unwrap a model."""

from ....compiler import OptimizedModule as OptimizedModule


def is_dynamo_supported():
    """Whether programs are captured: always."""
    return True
