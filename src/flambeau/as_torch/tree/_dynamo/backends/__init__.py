"""torch._dynamo.backends: what is made of backends of one's own."""

from . import common as common
