"""flambeau.linalg: decompositions, solutions, norms and functions of matrices, in batches, under PyTorch's names.

>>> import flambeau
>>> flambeau.linalg.inv(flambeau.tensor([[2., 0.], [0., 4.]]))
tensor([[0.5000, 0.0000],
        [0.0000, 0.2500]])
"""

from ._C import LinAlgError as LinAlgError
from .ops import public
from .ops.products import matmul as matmul

globals().update(public("linalg"))
