"""torch._custom_ops: the older way to say what an operator of one's own gives."""

from ...library import custom_op as custom_op
from ...library import get_ctx as get_ctx
