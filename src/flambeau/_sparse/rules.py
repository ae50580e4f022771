"""The table of rules: what each operator does with sparse tensors. An operator without a rule is refused by name."""

from .. import _C
from .._C import Tensor
from .._tensor.dtypes import can_cast
from .._tensor.wrapped import Rules
from .tensor import SparseTensor, is_sparse

RULES = Rules("sparse")
rule = RULES.rule
_NAMES = {_C.sparse_coo: "sparse_coo", _C.sparse_csr: "sparse_csr", _C.sparse_csc: "sparse_csc",
          _C.sparse_bsr: "sparse_bsr", _C.sparse_bsc: "sparse_bsc", _C.strided: "strided"}


def layouts(args, kwargs):
    """The layouts among the arguments, in words."""
    found = []
    for x in (*args, *kwargs.values()):
        found += [_NAMES[y.layout] for y in (x if isinstance(x, (list, tuple)) else [x]) if isinstance(y, Tensor)]
    return ", ".join(dict.fromkeys(found))


def refuse(name, args=(), kwargs=None, why="", kind=NotImplementedError):
    """Says that an operator has no rule for these layouts, and what to do."""
    raise kind(
        f"{name}: not available for tensors of layout {layouts(args, kwargs or {})}{why}; use x.to_dense()")


def call(func, args, kwargs, below=False):
    """`func(*args, **kwargs)` with a sparse tensor among the arguments. below: autograd records this call itself."""
    name = getattr(func, "name", None) or func.__name__
    found = RULES.get(name)
    if found is not None and "out" not in kwargs:
        return found(*args, **kwargs)
    if getattr(func, "is_inplace", False) and name.removesuffix("_") in RULES:
        moves = getattr(func, "kind", None) == "view" and args[0].layout is _C.sparse_coo  # t_, transpose_: other sizes
        return write(args[0], RULES[name.removesuffix("_")](*args, **kwargs), name, resize=moves)
    if found is not None:
        out = kwargs.pop("out")
        return write(out, found(*args, **kwargs), name, resize=True)
    if getattr(func, "kind", None) == "composite" and not below:
        return func.body(*args, **kwargs)
    return refuse(name, args, kwargs)


def write(to, result, name, resize=False):
    """`result` as the new contents of `to` (in-place forms, out=)."""
    if not is_sparse(to):
        if is_sparse(result):
            raise RuntimeError(f"{name}: the result is of layout {_NAMES[result.layout]}, which a strided tensor "
                               "cannot hold; use the out-of-place form")
        if resize and to.shape != result.shape:
            to.resize_(result.shape)
        return to.copy_(result)
    if not is_sparse(result):
        raise RuntimeError(f"{name}: the result is dense, which a tensor of layout {_NAMES[to.layout]} cannot hold; "
                           "use the out-of-place form")
    if result.shape != to.shape and not resize:
        raise RuntimeError(f"{name}: the result has shape {list(result.shape)} but self {list(to.shape)}")
    if result.dtype is not to.dtype and not can_cast(result.dtype, to.dtype):
        raise RuntimeError(f"{name}: the result is {result.dtype}, which a tensor of {to.dtype} cannot hold")
    if _C.is_grad_enabled() and to.requires_grad and to.is_leaf:
        raise RuntimeError(f"{name}: this tensor is a leaf that requires grad, and a change in place would lose its "
                           "value for the gradient. Write inside `with flambeau.no_grad():`, or use the out-of-place "
                           "form")
    return replace(to, result.to(to.dtype))


def replace(to, result):
    """`to` takes the places, values and history of `result`; where the places stay, in the memory it has."""
    if to._pattern is result._pattern and to._held.shape == result._held.shape and to._held.is_contiguous():
        to._held.copy_(result._held)
    else:
        if to.shape != result.shape:
            _C.set_like(to, result.detach(), 0)
        to._pattern, to._held = result._pattern, result._held
    to._bump_version()
    if result.requires_grad and result.grad_fn is not None:
        _C.set_history(to, result.grad_fn, result.output_nr)
    return to


SparseTensor._run = staticmethod(call)
