"""How `vmap` runs products: a batch of matrices is one batched product, a shared matrix one larger product."""

from ..ops.kinds import OPS
from .batched import elementwise, front, rule
from .view_rules import ones_in_front

_mm, _bmm, _matmul, _view, _sum = OPS["mm"], OPS["bmm"], OPS["matmul"], OPS["reshape"], OPS["sum"]
_add, _mul = OPS["add"], OPS["mul"]


@rule("mm")
def mm(op, size, values, marks, options):
    a, b = values
    if a.ndim - marks[0] != 2 or b.ndim - marks[1] != 2:
        return NotImplemented
    if all(marks):
        return _bmm(a, b)
    if marks[0] and size and a.shape[1]:
        return _view(_mm(_view(a, (size * a.shape[1], a.shape[2])), b), (size, a.shape[1], b.shape[1]))
    return _matmul(a, b)


@rule("bmm")
def bmm(op, size, values, marks, options):
    a, b = values
    if a.ndim - marks[0] != 3 or b.ndim - marks[1] != 3:
        return NotImplemented
    return _matmul(a, b)


@rule("mv")
def mv(op, size, values, marks, options):
    a, v = values
    if a.ndim - marks[0] != 2 or v.ndim - marks[1] != 1:
        return NotImplemented
    if not marks[1]:
        return _matmul(a, v)
    if not marks[0]:
        return _mm(v, a.t())
    return _bmm(a, v.unsqueeze(-1)).squeeze(-1)


@rule("dot")
def dot(op, size, values, marks, options):
    a, b = values
    if a.ndim - marks[0] != 1 or b.ndim - marks[1] != 1 or a.shape[-1] != b.shape[-1]:
        return NotImplemented
    if all(marks):
        return _sum(_mul(a, b), (1,))
    return _matmul(a, b) if marks[0] else _matmul(b, a)


@rule("matmul")
def matmul(op, size, values, marks, options):
    a, b = values
    na, nb = a.ndim - marks[0], b.ndim - marks[1]
    if na == 0 or nb == 0:
        return NotImplemented
    if na == 1 and nb == 1:
        return dot(op, size, values, marks, options)
    if na == 1 and nb == 2 and not marks[1]:
        return _mm(a, b)
    if nb == 1 and na == 2:
        return mv(op, size, values, marks, options)
    if na == 1:
        a, na = a.unsqueeze(-2), 2
        return matmul(op, size, (a, b), marks, options).squeeze(-2)
    if nb == 1:
        return matmul(op, size, (a, b.unsqueeze(-1)), marks, options).squeeze(-1)
    if na == 2 and nb == 2:
        return mm(op, size, values, marks, options)
    most = max(na, nb)
    return _matmul(ones_in_front(a, most) if marks[0] else a, ones_in_front(b, most) if marks[1] else b)


def _scaled(x, factor):
    return x if factor == 1 else x * factor


@rule("addmm", "baddbmm")
def addmm(op, size, values, marks, options):
    base, a, b = values
    product = (mm if op.name == "addmm" else bmm)(op, size, (a, b), marks[1:], {})
    if product is NotImplemented:
        return product
    beta, alpha = options.get("beta", 1), options.get("alpha", 1)
    product = _scaled(product, alpha)
    mark = any(marks[1:])
    if beta == 0:
        return front(product, mark, size)
    return elementwise(_add, size, (_scaled(base, beta), product), (marks[0], mark), {})


@rule("linear")
def linear(op, size, values, marks, options):
    x, weight, bias = (*values, None)[:3]
    mx, mw, mb = (*marks, False)[:3]
    if not mw and not mb:
        return op(x, weight, bias)
    if weight.ndim - mw != 2 or x.ndim == mx:
        return NotImplemented
    if mw:
        lead = x.shape[mx:-1]
        rows = _view(x, (size, -1, x.shape[-1]) if mx else (-1, x.shape[-1])) if x.numel() else None
        if rows is None:
            return NotImplemented
        result = _view(_matmul(rows, weight.mT), (size, *lead, weight.shape[1]))
    else:
        result = op(x, weight)
    if bias is None:
        return result
    return elementwise(_add, size, (result, bias), (mw or mx, mb), {})


@rule("linear_backward")
def linear_backward(op, size, values, marks, options):
    grad, x, weight, mask = values
    if not marks[0] or weight.ndim - marks[2] != 2 or x.numel() == 0 or grad.numel() == 0:
        return NotImplemented
    none = grad.new_empty((size, 0))
    g = _view(grad, (size, -1, grad.shape[-1]))
    rows = _view(x, (size, -1, x.shape[-1]) if marks[1] else (-1, x.shape[-1]))
    w = weight.conj() if weight.is_complex() else weight
    to_x = to_weight = to_bias = none
    if mask & 1:
        to_x = _view(mm(_mm, size, (g, w), (True, marks[2]), {}), (size, *x.shape[marks[1]:]))
    if mask & 2:
        rows = rows.conj() if rows.is_complex() else rows
        if g.shape[1] == 1:
            to_weight = _mul(g.mT, rows)
        else:
            to_weight = _matmul(g.mT, rows)
    if mask & 4:
        to_bias = g.squeeze(1) if g.shape[1] == 1 else _sum(g, (1,))
    return to_x, to_weight, to_bias


def _merge(x, keep):
    """Leading dimensions in one, before the last `keep`."""
    return _view(x, (-1, *x.shape[-keep:]))


@rule("fused_attention")
def attention(op, size, values, marks, options):
    q, k, v, *rest = values
    q, k, v = (front(t, m, size) for t, m in zip((q, k, v), marks, strict=False))
    if q.numel() == 0 or q.ndim - 1 < 3:
        return NotImplemented
    out, lse = op(q.flatten(0, 1), k.flatten(0, 1), v.flatten(0, 1), *rest)
    return out.unflatten(0, (size, -1)), lse.unflatten(0, (size, -1))


@rule("fused_attention_backward")
def attention_backward(op, size, values, marks, options):
    tensors = [front(t, m, size) for t, m in zip(values[:6], marks, strict=False)]
    if tensors[0].numel() == 0 or tensors[1].ndim - 1 < 3:
        return NotImplemented
    found = op(*[t.flatten(0, 1) for t in tensors], *values[6:])
    return tuple(t.unflatten(0, (size, -1)) for t in found)


# --- decompositions: the batch is one of the dimensions they accept --------------------------------------------------

def _batched_results(found, size):
    results = found if isinstance(found, tuple) else (found,)
    return found if all(t.ndim and t.shape[0] == size for t in results) else NotImplemented


@rule("linalg_cholesky_ex", "linalg_lu_factor_ex", "linalg_ldl_factor_ex", "linalg_qr", "geqrf", "linalg_inv_ex",
      "_linalg_eigh", "_linalg_eig", "_linalg_svd", "_linalg_det", "_linalg_slogdet")
def decomposition(op, size, values, marks, options):
    if values[0].ndim < 3:
        return NotImplemented
    return _batched_results(op(*values, **options), size)


@rule("_linalg_solve_ex", "_solve_triangular", "_lu_solve", "_ldl_solve", "_householder_product")
def solve(op, size, values, marks, options):
    tensors = 3 if op.name in ("_lu_solve", "_ldl_solve") else 2
    fronts = [front(v, m, size) for v, m in zip(values[:tensors], marks, strict=False)]
    if fronts[0].ndim < 3 or any(t.shape[:-2] != fronts[0].shape[:-2] for t in fronts[::2]):
        return NotImplemented
    if op.name in ("_linalg_solve_ex", "_solve_triangular") and fronts[1].shape[:-2] != fronts[0].shape[:-2]:
        return NotImplemented
    return _batched_results(op(*fronts, *values[tensors:], **options), size)


@rule("_linalg_check_errors")
def check_errors(op, size, values, marks, options):
    return op(values[0], values[1], False)
