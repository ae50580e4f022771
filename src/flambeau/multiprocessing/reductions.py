"""What Python's multiprocessing calls for tensors and storages, under PyTorch's names."""

from .. import _C
from .._tensor.sharing import reduce_storage as reduce_storage
from .._tensor.sharing import reduce_tensor as reduce_tensor
from .._tensor.sharing import register
from ..nn.parameter import Buffer, Parameter


def init_reductions():
    """Makes multiprocessing send tensors in shared memory; importing flambeau.multiprocessing does so."""
    register(_C.Tensor, Parameter, Buffer)
