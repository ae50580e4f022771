"""What programs know as `functorch.experimental.control_flow`."""

from ....control_flow import cond as cond
from ....control_flow import map as map
