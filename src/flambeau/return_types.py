"""flambeau.return_types: the named tuples returned by operators with several results.

>>> import flambeau
>>> isinstance(flambeau.tensor([2, 1]).sort(), flambeau.return_types.sort)
True
"""

from .ops import OPS

_NAMES = (
    "aminmax", "cummax", "cummin", "frexp", "geqrf", "histogram", "histogramdd", "kthvalue", "linalg_cholesky_ex",
    "linalg_eig", "linalg_eigh", "linalg_inv_ex", "linalg_ldl_factor", "linalg_ldl_factor_ex", "linalg_lstsq",
    "linalg_lu", "linalg_lu_factor", "linalg_lu_factor_ex", "linalg_qr", "linalg_slogdet", "linalg_solve_ex",
    "linalg_svd", "lu_unpack", "max", "median", "min", "mode", "nanmedian", "qr", "slogdet", "sort", "svd", "topk",
    "triangular_solve",
)  # fmt: skip
_TYPES = {op.result_type.__name__: op.result_type for op in OPS.values() if op.result_type is not None}
globals().update({name: _TYPES[name] for name in _NAMES if name in _TYPES})
all_return_types = [_TYPES[name] for name in _NAMES if name in _TYPES]


def __dir__():
    return sorted(_NAMES)
