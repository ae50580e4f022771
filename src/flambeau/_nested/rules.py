"""The tables of rules: what each operator does with nested tensors. An operator without a rule is refused by name.

Rules in `RULES` take every layout. Those in `JAGGED` are written for jagged tensors: strided ones are handed to them as
jagged views, and their results are strided again; where the parts differ in several dimensions, the operator runs on
each part.
"""

from .. import _C
from .._C import Tensor
from .._symbolic.ragged import RaggedSizeError
from .._tensor.dtypes import can_cast
from .._tensor.wrapped import Rules
from ..ops.kinds import OPS
from .sequences import Windows
from .tensor import NestedTensor, as_jagged, as_strided, is_nested, joined, parts_of, values_like

RULES, JAGGED = Rules("nested"), Rules("jagged")
rule, jagged = RULES.rule, JAGGED.rule
#: arguments that name dimensions of the first one, which of a part are one less
_DIMS = {"dim", "dim0", "dim1", "dims", "dimension", "start_dim", "end_dim"}


def refuse(name, why="", kind=NotImplementedError):
    """Says that an operator has no rule for nested tensors, and what to do."""
    raise kind(f"{name}: not available for nested tensors{why}; compute on each part, "
               "[f(t) for t in x.unbind()], or on x.to_padded_tensor(0), or, part by part alike, on x.values()")


def call(func, args, kwargs, below=False):
    """`func(*args, **kwargs)` with a nested tensor among the arguments. below: autograd records this call itself."""
    name = getattr(func, "name", None) or func.__name__
    found = RULES.get(name)
    if found is not None and "out" not in kwargs:
        return found(*args, **kwargs)
    if "out" in kwargs:
        out = kwargs.pop("out")
        return write(out, call(func, args, kwargs), name)
    if name in JAGGED:
        return through_jagged(func, JAGGED[name], args, kwargs)
    if getattr(func, "is_inplace", False):
        plain = name.removesuffix("_")
        if plain in RULES or plain in JAGGED:
            return write(args[0], call(OPS[plain], args, kwargs), name)
    if getattr(func, "kind", None) == "composite" and not below:
        return _composed(func, args, kwargs)
    return refuse(name)


def _composed(func, args, kwargs):
    """An operator made of others, which have rules."""
    named = dict(zip([known for known, *_ in func.arguments], args, strict=False)) | kwargs
    rest = args[len(func.arguments):]
    try:
        return func.body(*[named.get(k, default) for k, only, _, default in func.arguments if not only],
                         *rest, **{k: named.get(k, default)
                                   for k, only, _, default in func.arguments if only})
    except RaggedSizeError:
        return refuse(func.name)


# --- layouts ----------------------------------------------------------------------------------------------------------

def is_strided(x):
    """Whether it is a nested tensor of the strided layout."""
    return isinstance(x, NestedTensor) and isinstance(x._form, Windows)


def mapped(function, value):
    """`value` with function(x) for each nested tensor in it, one level of lists and tuples deep."""
    if is_nested(value):
        return function(value)
    if type(value) in (list, tuple):
        return type(value)([function(x) if is_nested(x) else x for x in value])
    return value


def through_jagged(func, found, args, kwargs):
    """The rule for jagged tensors on arguments of any layout."""
    if not _any_strided((*args, *kwargs.values())):
        return found(*args, **kwargs)
    first = next(x for x in (*args, *kwargs.values()) if is_strided(x) or type(x) in (list, tuple))
    if is_strided(first) and not first._form.batch:
        if func.name in ("reshape", "view", "view.size"):
            raise RuntimeError(f"{func.name}: a nested tensor without parts has no sizes to change")
        return first
    views = {}

    def view(x):
        if not is_strided(x):
            raise RuntimeError(f"{getattr(func, 'name', func)}: a jagged and a strided nested tensor; convert one: "
                               "x.to(layout=flambeau.jagged)")
        if id(x) not in views:
            views[id(x)] = as_jagged(x)
        return views[id(x)]

    given, named = [mapped(view, a) for a in args], {k: mapped(view, v) for k, v in kwargs.items()}
    if any(v is None for v in views.values()):
        return each_part(func, args, kwargs)
    return strided(found(*given, **named))


def _any_strided(values):
    return any(is_strided(x) or (type(x) in (list, tuple) and any(map(is_strided, x))) for x in values)


def strided(result):
    """A rule's result with its nested tensors in the strided layout."""
    if is_nested(result):
        return as_strided(result)
    if isinstance(result, (tuple, list)):
        made = [strided(x) for x in result]
        return type(result)(made) if type(result) in (tuple, list) or not hasattr(result, "_fields") \
            else type(result)(tuple(made))
    return result


# --- part by part -----------------------------------------------------------------------------------------------------

def part_dim(dim, ndim, name):
    """The dimension of a part that is dimension `dim` of the nested tensor; the batch is refused."""
    found = _C.wrap_dim(dim, ndim, name)
    if found == 0:
        raise RuntimeError(f"{name}: dimension 0 of a nested tensor is the batch, across which parts of different "
                           "sizes do not combine; unbind() gives the parts")
    return found - 1


def part_dims(dims, ndim, name):
    """The same for one or several."""
    return part_dim(dims, ndim, name) if isinstance(dims, int) else [part_dim(d, ndim, name) for d in dims]


def for_parts(func, args, kwargs, extra=0):
    """The arguments of an operator with its dimensions counted in a part."""
    args, kwargs = list(args), dict(kwargs)
    ndim = next(x for x in (*args, *kwargs.values()) if is_nested(x)).dim() + extra
    for k, (name, keyword_only, _, _) in enumerate(func.arguments or ()):
        if name not in _DIMS:
            continue
        if name in kwargs and kwargs[name] is not None:
            kwargs[name] = part_dims(kwargs[name], ndim, func.name)
        elif not keyword_only and k < len(args) and args[k] is not None:
            args[k] = part_dims(args[k], ndim, func.name)
    return args, kwargs


def each_part(func, args, kwargs, form=None):
    """The operator on each part, and its results joined."""
    args, kwargs = for_parts(func, args, kwargs)
    found = per_part(func, args, kwargs)
    first = next(x for x in (*args, *kwargs.values()) if is_nested(x))
    return collected(found, first.layout, form)


def per_part(func, args, kwargs):
    """[func on the arguments' k-th parts, for each k]."""
    tensors = [x for x in (*args, *kwargs.values()) if is_nested(x)]
    count = tensors[0]._form.batch
    if any(x._form.batch != count for x in tensors):
        raise RuntimeError(f"{func.name}: nested tensors of {[x._form.batch for x in tensors]} parts; expected equally "
                           "many")
    split = {id(x): parts_of(x) for x in tensors}

    def part(x, k):
        return split[id(x)][k] if is_nested(x) else x

    return [func(*[part(a, k) for a in args], **{n: part(a, k) for n, a in kwargs.items()}) for k in range(count)]


def collected(results, layout, form=None):
    """The results for the parts as one: nested tensors, or a tuple of them."""
    if isinstance(results[0], tuple):
        made = [collected(list(row), layout, form) for row in zip(*results, strict=True)]
        return type(results[0])(made)
    if not isinstance(results[0], Tensor):
        return results
    return joined(results, layout, form) if results[0].dim() else OPS["stack"](results)


# --- in place ---------------------------------------------------------------------------------------------------------

def write(to, result, name):
    """`result` as the new contents of `to` (in-place forms, out=)."""
    if not is_nested(to):
        if is_nested(result):
            raise RuntimeError(f"{name}: the result is nested, which a dense tensor cannot hold; use the out-of-place "
                               "form")
        return to.resize_(result.shape).copy_(result)
    if not is_nested(result):
        raise RuntimeError(f"{name}: the result is dense, which a nested tensor cannot hold; use the out-of-place form")
    if result.dtype is not to.dtype and not can_cast(result.dtype, to.dtype):
        raise RuntimeError(f"{name}: the result is {result.dtype}, which a tensor of {to.dtype} cannot hold")
    refuse_leaf(to, name)
    to._held.copy_(values_like(result.detach(), to._form, name))
    to._bump_version()
    if result.requires_grad and result.grad_fn is not None:
        again = result if result.dtype is to.dtype else result.to(to.dtype)
        _C.set_history(to, again.grad_fn, again.output_nr)
    return to


def refuse_leaf(x, name):
    """Refuses to write into a leaf whose gradient is recorded."""
    if _C.is_grad_enabled() and x.requires_grad and x.is_leaf:
        raise RuntimeError(f"{name}: this tensor is a leaf that requires grad, and a change in place would lose its "
                           "value for the gradient. Write inside `with flambeau.no_grad():`, or use the out-of-place "
                           "form")


NestedTensor._run = staticmethod(call)
