"""Checks derivatives against finite differences of the forward function.

Complex numbers are pairs of reals here. For one real number L = Re(conj(v) y), backward with gradient v returns
dL/d(re x) + i dL/d(im x), so a complex function is checked as a real one of twice the size in each place.
"""

import importlib
import warnings
from itertools import product
from math import isnan

from .. import _C
from ..ops.kinds import OPS
from ._call import grad as _grad
from .grad_mode import enable_grad, no_grad


class GradcheckError(RuntimeError):
    """A derivative disagrees with finite differences (or cannot be checked)."""


def gradcheck(func, inputs, *, eps=1e-6, atol=1e-5, rtol=1e-3, raise_exception=True, nondet_tol=0.0,
              check_undefined_grad=True, check_grad_dtypes=False, check_batched_grad=False,
              check_batched_forward_grad=False, check_forward_ad=False, check_backward_ad=True,
              fast_mode=False, masked=None):
    """Whether `func`'s gradients agree with central differences, for each input that requires a gradient.

    Raises GradcheckError (or returns False with `raise_exception=False`) where they do not. Inputs should be
    float64 or complex128; others are warned of. `fast_mode` compares one random projection, not the whole Jacobian;
    `check_forward_ad` compares forward mode along random directions, `check_batched_grad` and
    `check_batched_forward_grad` compare both modes under vmap with one vector after the other. Of sparse inputs
    `masked=True` compares the places that they have; otherwise they get all places.

    >>> import flambeau
    >>> x = flambeau.rand(3, dtype=flambeau.float64, requires_grad=True)
    >>> flambeau.autograd.gradcheck(lambda x: (x * x).sum(), (x,))
    True
    """
    func, inputs = _of_dense(func, _tuple(inputs), masked)
    try:
        _check_inputs(inputs)
        if check_backward_ad:
            compare = _compare_projection if fast_mode else _compare_jacobian
            compare(func, inputs, eps, atol, rtol, nondet_tol, check_grad_dtypes)
            _check_of_zeros(func, inputs)
            if check_undefined_grad:
                _check_undefined(func, inputs)
        if check_forward_ad:
            _compare_pushes(func, inputs, eps, atol, rtol)
        if check_batched_grad:
            _compare_batched_pulls(func, inputs)
        if check_batched_forward_grad:
            _compare_batched_pushes(func, inputs)
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


def gradgradcheck(func, inputs, grad_outputs=None, *, eps=1e-6, atol=1e-5, rtol=1e-3,
                  gen_non_contig_grad_outputs=False, raise_exception=True, nondet_tol=0.0, check_undefined_grad=True,
                  check_grad_dtypes=False, check_batched_grad=False, check_fwd_over_rev=False,
                  check_rev_over_rev=True, fast_mode=False, masked=False):
    """Whether the gradients of `func`'s gradients agree with central differences.

    >>> import flambeau
    >>> x = flambeau.rand(3, dtype=flambeau.float64, requires_grad=True)
    >>> flambeau.autograd.gradgradcheck(lambda x: x ** 3, (x,))
    True
    """
    inputs = _tuple(inputs)
    if grad_outputs is None:
        outputs = _differentiable(func(*inputs))
        grad_outputs = tuple(_random_like(y, gen_non_contig_grad_outputs).requires_grad_() for y in outputs)
    else:
        grad_outputs = _tuple(grad_outputs)
    wanted = [k for k, x in enumerate(inputs) if _wants_grad(x)]

    def first_derivative(*args):
        args, grads = args[:len(inputs)], args[len(inputs):]
        # an identity in front, so that an input that func returns as it is has an own node to differentiate
        args = tuple(_own_node(x) if k in wanted else x for k, x in enumerate(args))
        outputs = _differentiable(func(*args))
        return _grad(outputs, [args[k] for k in wanted], grads, create_graph=True, allow_unused=True,
                     materialize_grads=True)

    return gradcheck(
        first_derivative, inputs + grad_outputs, eps=eps, atol=atol, rtol=rtol, raise_exception=raise_exception,
        nondet_tol=nondet_tol, check_undefined_grad=check_undefined_grad, check_grad_dtypes=check_grad_dtypes,
        check_batched_grad=check_batched_grad, fast_mode=fast_mode, masked=masked,
        check_backward_ad=check_rev_over_rev, check_forward_ad=check_fwd_over_rev)


# --- sparse tensors ---------------------------------------------------------------------------------------------------

def _of_dense(func, inputs, masked):
    """(a function of dense tensors, these): each that stands for a sparse input becomes sparse in the function."""
    sparse = {k: x for k, x in enumerate(inputs) if isinstance(x, _C.Tensor) and x.layout is not _C.strided}
    if not sparse:
        return func, inputs
    places = {k: x.detach() if masked else _everywhere(x) for k, x in sparse.items()}
    dense = tuple(x.detach().to_dense().requires_grad_(x.requires_grad) if k in sparse else x
                  for k, x in enumerate(inputs))

    def of_dense(*args):
        found = func(*(a.sparse_mask(places[k]) if k in places else a for k, a in enumerate(args)))
        outputs = tuple(y.to_dense() if isinstance(y, _C.Tensor) and y.layout is not _C.strided else y
                        for y in _tuple(found))
        return outputs if isinstance(found, (tuple, list)) else outputs[0]

    return of_dense, dense


def _everywhere(x):
    """A sparse tensor of the same layout that has every place."""
    options = {"blocksize": x.values().shape[-2:]} if x.layout in (_C.sparse_bsr, _C.sparse_bsc) else {}
    return OPS["ones"](x.shape, dtype=x.dtype, device=x.device).to_sparse(layout=x.layout, **options)


# --- the parts ----------------------------------------------------------------------------------------------------

def _own_node(x):
    """The same tensor with a node of its own, also where a transform hides that a gradient is wanted."""
    y = x.view_as(x)
    return y if y.requires_grad else y.requires_grad_()


def _tuple(x):
    return tuple(x) if isinstance(x, (tuple, list)) else (x,)


def _wants_grad(x):
    return isinstance(x, _C.Tensor) and x.requires_grad


def _differentiable(outputs):
    return tuple(y for y in _tuple(outputs) if _wants_grad(y))


#: of the directions and weights: the default generator is left alone, so that functions which draw can draw again
_directions = _C.Generator()


def _random_like(y, non_contiguous):
    if not non_contiguous:
        return y.detach().clone().copy_(_drawn(y))
    return _random_like(y.detach().unsqueeze(-1).expand(*y.shape, 2).clone(), False)[..., 0]


def _drawn(y):
    """Numbers between -1 and 1, on the CPU; complex ones have two each."""
    shape = (*y.shape, 2) if y.is_complex() else y.shape
    numbers = OPS["empty"](shape, dtype=y.real.dtype if y.is_complex() else y.dtype, device="cpu")
    numbers.uniform_(-1, 1, generator=_directions)
    return OPS["view_as_complex"](numbers) if y.is_complex() else numbers


def _check_inputs(inputs):
    wanted = [x for x in inputs if _wants_grad(x)]
    if not wanted:
        raise ValueError("gradcheck: expected at least one input tensor with requires_grad=True")
    for k, x in enumerate(inputs):
        if not _wants_grad(x):
            continue
        if not (x.is_floating_point() or x.is_complex()) or x.element_size() < (16 if x.is_complex() else 8):
            warnings.warn(f"gradcheck: input {k} is {x.dtype}, in which differences are hardly exact enough; use "
                          "float64 or complex128", stacklevel=3)
        if any(n > 1 and s == 0 for n, s in zip(x.shape, x.stride(), strict=True)):
            raise GradcheckError(f"gradcheck: input {k} has elements that share memory (stride 0): clone it first")


def _parts(x):
    """The real numbers of `x` in order, as Python floats: real and imaginary parts in turn."""
    flat = x.detach().reshape(-1)
    values = flat.tolist() if flat._storage_ptr() else [v.item() for v in flat]  # of a wrapper, whose class answers
    return [part for v in values for part in (v.real, v.imag)] if x.is_complex() else [float(v) for v in values]


def _forward(func, inputs):
    with enable_grad():  # func may itself differentiate
        return [_parts(y) for y in _tuple(func(*inputs)) if isinstance(y, _C.Tensor)]


def _steps(x, eps):
    """Writes each perturbation of `x` in turn into its memory; yields with +eps, then with -eps, then restores."""
    data = x.detach()
    for index in product(*(range(n) for n in x.shape)):
        old = data[index].item()
        for unit in (1, 1j) if x.is_complex() else (1,):
            for sign in (1, -1):
                with no_grad():
                    data[index] = old + sign * eps * unit
                yield sign
            with no_grad():
                data[index] = old


def _numerical(func, inputs, x, which, eps):
    """Rows: the parts of x; each row: d(all parts of output k)/d(that part), for every k in `which`."""
    columns = {k: [] for k in which}
    plus = None
    for sign in _steps(x, eps):
        outputs = _forward(func, inputs)
        if sign > 0:
            plus = outputs
            continue
        for k in which:
            columns[k].append([(a - b) / (2 * eps) for a, b in zip(plus[k], outputs[k], strict=True)])
    return columns


def _analytical(y, xs, check_dtypes):
    """For each x of xs: rows by part of y, each the gradient's parts."""
    rows = [[] for _ in xs]
    for index in product(*(range(n) for n in y.shape)):
        for unit in (1, 1j) if y.is_complex() else (1,):
            v = y.detach().clone().zero_()
            v[index] = unit
            grads = _grad([y], xs, [v], retain_graph=True, allow_unused=True)
            for x, g, row in zip(xs, grads, rows, strict=True):
                row.append(_checked_parts(x, g, check_dtypes))
    return rows


def _checked_parts(x, g, check_dtypes):
    if g is None:
        return [0.0] * (x.numel() * (2 if x.is_complex() else 1))
    if g.shape != x.shape:
        raise GradcheckError(f"gradcheck: gradient has shape {list(g.shape)}, its input {list(x.shape)}")
    if check_dtypes and g.dtype != x.dtype:
        raise GradcheckError(f"gradcheck: gradient is {g.dtype}, its input {x.dtype}")
    parts = _parts(g)
    if x.is_complex() and not g.is_complex():
        return [part for v in parts for part in (v, 0.0)]
    if g.is_complex() and not x.is_complex():
        raise GradcheckError(f"gradcheck: gradient is complex ({g.dtype}) for a real input ({x.dtype})")
    return parts


def _outputs(func, inputs):
    with enable_grad():
        outputs = [y for y in _tuple(func(*inputs)) if isinstance(y, _C.Tensor)]
    return outputs, [k for k, y in enumerate(outputs) if y.requires_grad]


def _compare_jacobian(func, inputs, eps, atol, rtol, nondet_tol, check_dtypes):
    outputs, which = _outputs(func, inputs)
    places = [k for k, x in enumerate(inputs) if _wants_grad(x)]
    xs = [inputs[k] for k in places]
    by_output = {k: _analytical(outputs[k], xs, check_dtypes) for k in which}
    for k in which:
        _check_repeats(k, outputs[k], xs, nondet_tol)
    smooth = [k for k, y in enumerate(outputs) if y.is_floating_point() or y.is_complex()]
    for n, x in enumerate(xs):
        numerical = _numerical(func, inputs, x, smooth, eps)
        for k in smooth:
            expected = numerical[k]
            if k in by_output:
                found = [list(column) for column in zip(*by_output[k][n], strict=True)] or expected
            else:  # an output that claims to be independent of the inputs
                found = [[0.0] * len(row) for row in expected]
            if not _all_close(found, expected, atol, rtol):
                raise GradcheckError(
                    f"gradcheck: Jacobian of output {k} by input {places[n]} differs from central differences by "
                    f"{_worst(found, expected):.3g} (rows: input)\n  differences: {_short(expected)}\n"
                    f"  backward:    {_short(found)}")


def _check_repeats(k, y, xs, nondet_tol):
    """Two backward passes with one random gradient agree."""
    v = _random_like(y, False)
    first, again = ([_checked_parts(x, g, False) for x, g in zip(xs, _grad([y], xs, [v], True, allow_unused=True),
                                                                strict=True)] for _ in range(2))
    if not _all_close(again, first, nondet_tol, 0.0):
        raise GradcheckError(f"gradcheck: backward of output {k} is not deterministic (nondet_tol={nondet_tol})")


def _compare_projection(func, inputs, eps, atol, rtol, nondet_tol, check_dtypes):
    """u . (J v) two ways, one random direction v per input and one random u per output."""
    outputs, which = _outputs(func, inputs)
    places = [k for k, x in enumerate(inputs) if _wants_grad(x)]
    xs = [inputs[k] for k in places]
    directions = [_random_like(x, False) for x in xs]
    weights = {k: _random_like(outputs[k], False) for k in which}
    found = {}  # all backward passes before any step: steps write into what the graph has saved
    for k, u in weights.items():
        _check_repeats(k, outputs[k], xs, nondet_tol)
        grads = _grad([outputs[k]], xs, [u], retain_graph=True, allow_unused=True)
        for n, (x, v, g) in enumerate(zip(xs, directions, grads, strict=True)):
            found[k, n] = _dot(_checked_parts(x, g, check_dtypes), _parts(v))
    for n, (x, v) in enumerate(zip(xs, directions, strict=True)):
        plus, minus = _forward_along(func, inputs, x, v, eps)
        for k, u in weights.items():
            expected = (_dot(_parts(u), plus[k]) - _dot(_parts(u), minus[k])) / (2 * eps)
            # a projection sums many entries, and their errors with them
            if not _close(found[k, n], expected, atol * max(1.0, x.numel() ** 0.5), rtol):
                raise GradcheckError(f"gradcheck: output {k} by input {places[n]}, random projection: "
                                     f"central differences {expected:.6g}, backward {found[k, n]:.6g}")


def _forward_along(func, inputs, x, direction, eps):
    """The outputs with x moved by +eps and by -eps along the direction; x is restored."""
    data, old, ends = x.detach(), x.detach().clone(), []
    for sign in (1, -1):
        with no_grad():
            data.copy_(old + sign * eps * direction)
        ends.append(_forward(func, inputs))
    with no_grad():
        data.copy_(old)
    return ends


def _check_of_zeros(func, inputs):
    """Backward is linear: zeros give zeros."""
    outputs, which = _outputs(func, inputs)
    xs, places = [x for x in inputs if _wants_grad(x)], [k for k, x in enumerate(inputs) if _wants_grad(x)]
    for k in which:
        grads = _grad([outputs[k]], xs, [OPS["zeros_like"](outputs[k])], retain_graph=True, allow_unused=True)
        for n, g in zip(places, grads, strict=True):
            if g is not None and g.count_nonzero():
                raise GradcheckError(f"gradcheck: backward of output {k} gives input {n} a gradient where its own is "
                                     "zero; it must be multiplied by the gradient of the output")


def _check_undefined(func, inputs):
    """A gradient that never arrives counts as zero: leaving outputs out must equal giving them zeros."""
    outputs, which = _outputs(func, inputs)
    if len(which) < 2:
        return
    xs = [x for x in inputs if _wants_grad(x)]
    for k in which:
        alone = _grad([outputs[k]], xs, [outputs[k].detach().clone().zero_() + 1], retain_graph=True,
                      allow_unused=True)
        zeros = [outputs[j].detach().clone().zero_() + (1 if j == k else 0) for j in which]
        every = _grad([outputs[j] for j in which], xs, zeros, retain_graph=True, allow_unused=True)
        for x, a, b in zip(xs, alone, every, strict=True):
            if not _all_close([_checked_parts(x, a, False)], [_checked_parts(x, b, False)], 1e-12, 1e-12):
                raise GradcheckError(f"gradcheck: backward of output {k} alone differs from zeros for the others")


def _dot(a, b):
    return sum(p * q for p, q in zip(a, b, strict=True))


def _close(a, b, atol, rtol):
    return abs(a - b) <= atol + rtol * abs(b) or a == b or (isnan(a) and isnan(b))


def _all_close(a, b, atol, rtol):
    if isinstance(a, list):
        return len(a) == len(b) and all(_all_close(p, q, atol, rtol) for p, q in zip(a, b, strict=True))
    return _close(a, b, atol, rtol)


def _worst(a, b):
    return max((abs(p - q) for r, s in zip(a, b, strict=True) for p, q in zip(r, s, strict=True)), default=0.0)


def _short(rows, limit=6):
    text = ["[" + ", ".join(f"{v:.5g}" for v in row[:limit]) + (", ..." if len(row) > limit else "") + "]"
            for row in rows[:limit]]
    return "[" + ", ".join(text) + (", ..." if len(rows) > limit else "") + "]"


# --- forward mode, and both modes under vmap -------------------------------------------------------------------------

def _transforms():
    return importlib.import_module("flambeau._transforms")  # loaded when first used


def _of_wanted(func, inputs):
    """func as a function of the inputs that want a gradient, with the tuple of its differentiable results."""
    wanted = [k for k, x in enumerate(inputs) if _wants_grad(x)]

    def call(*values):
        full = [x.detach() if isinstance(x, _C.Tensor) else x for x in inputs]
        for k, v in zip(wanted, values, strict=True):
            full[k] = v
        results = _tuple(func(*full))
        return tuple(y for y in results if isinstance(y, _C.Tensor) and (y.is_floating_point() or y.is_complex()))

    return call, tuple(inputs[k].detach() for k in wanted)


def _near(a, b, atol, rtol):
    return bool(((a - b).abs() <= atol + rtol * b.abs()).all())


def _compare_pushes(func, inputs, eps, atol, rtol):
    call, points = _of_wanted(func, inputs)
    with enable_grad():
        for k, x in enumerate(points):
            move = tuple(_random_like(p, False) if j == k else OPS["zeros_like"](p) for j, p in enumerate(points))
            pushed = _pushed(call, points, move)
            ahead, behind = (call(*(p + s * eps * m for p, m in zip(points, move, strict=True))) for s in (1, -1))
            for j, (t, high, low) in enumerate(zip(pushed, ahead, behind, strict=True)):
                if not _near(t.detach(), (high - low).detach() / (2 * eps), atol, rtol):
                    raise GradcheckError(f"gradcheck: forward mode: output {j} along a random direction of input {k} "
                                         f"(shape {list(x.shape)}) moves by\n{t}\n"
                                         f"differences say\n{(high - low) / (2 * eps)}")


def _pushed(call, points, move):
    """The tangents of the results, in a level of its own kind: there a Function may have its context in forward."""
    forward_ad = importlib.import_module("flambeau.autograd.forward_ad")
    with forward_ad.dual_level():
        parts = [forward_ad.unpack_dual(y) for y in call(*map(forward_ad.make_dual, points, move))]
    return [OPS["zeros_like"](y.primal) if y.tangent is None else y.tangent for y in parts]


def _stacked(tensors):
    return tuple(OPS["stack"](list(parts)) for parts in zip(*tensors, strict=True))


def _compare_batched_pulls(func, inputs):
    call, points = _of_wanted(func, inputs)
    outputs, pull = _transforms().vjp(call, *points)
    vectors = [tuple(_random_like(y, False) for y in outputs) for _ in range(2)]
    _same_under_vmap("the gradient", pull, vectors)


def _compare_batched_pushes(func, inputs):
    call, points = _of_wanted(func, inputs)
    vectors = [tuple(_random_like(x, False) for x in points) for _ in range(2)]
    _same_under_vmap("forward mode", lambda v: _pushed(call, points, v), vectors)


def _same_under_vmap(what, function, vectors):
    batched = _transforms().vmap(function)(_stacked(vectors))
    for j, (a, b) in enumerate(zip(_tuple(batched), _stacked([function(v) for v in vectors]), strict=True)):
        if not _near(a.detach(), b.detach(), 1e-6, 1e-6):
            raise GradcheckError(f"gradcheck: {what} of a batch of vectors differs from one vector after the other, in "
                                 f"place {j}:\n{a}\nexpected\n{b}")
