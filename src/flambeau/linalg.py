"""flambeau.linalg: the linear algebra that is made of products; decompositions come with a later version."""

from .ops import public
from .ops.linalg import matmul as matmul
from .ops.linalg import outer as outer

globals().update(public("linalg"))
diagonal = public("")["diagonal"]
