"""Looking at what was recorded: the graph as readable Python, and as a picture.

Derivative rules are plain Python (the lambdas in `flambeau/ops`), so a debugger steps through a backward pass: set a
breakpoint in a rule, or `breakpoint()` in a hook, and look at the gradients that arrive.
"""

from ._draw import draw as draw
from ._tape import tape as tape
