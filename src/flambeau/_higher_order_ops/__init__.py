"""Control flow under the private names by which programs know it."""

from ..control_flow import associative_scan as associative_scan
from ..control_flow import cond as cond
from ..control_flow import map as map
from ..control_flow import scan as scan
from ..control_flow import while_loop as while_loop
