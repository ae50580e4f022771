"""The law of every operator on a nested tensor: it gives what the operator gives for each part, gradients included."""

import pytest

import flambeau as fb
from flambeau.ops.kinds import OPS

OFFSETS, LENGTHS = [0, 3, 4, 8], [2, 1, 3]


def jagged(shape, ragged=1, holes=False, seed=0, dtype=fb.float64):
    """Three parts of 3, 1 and 4 rows (2, 1 and 3 with holes) between the other sizes."""
    g = fb.Generator().manual_seed(seed)
    values = (fb.rand(8, *shape, generator=g) * 1.6 - 0.8).to(dtype)
    values = values.movedim(0, ragged - 1) if ragged > 1 else values
    lengths = fb.tensor(LENGTHS) if holes else None
    return fb.nested.nested_tensor_from_jagged(values, fb.tensor(OFFSETS), lengths, ragged)


def windows(sizes, seed=0):
    g = fb.Generator().manual_seed(seed)
    return fb.nested.nested_tensor([fb.rand(s, generator=g).double() * 1.6 - 0.8 for s in sizes])


KINDS = {
    "2d": lambda seed=0: jagged((), seed=seed), "3d": lambda seed=0: jagged((4,), seed=seed),
    "4d": lambda seed=0: jagged((2, 3), seed=seed), "transposed": lambda seed=0: jagged((4,), 2, seed=seed),
    "holes": lambda seed=0: jagged((4,), holes=True, seed=seed),
    "strided": lambda seed=0: windows([(3, 4), (1, 4), (2, 4)], seed),
    "one part": lambda seed=0: windows([(2, 3)], seed),
    "irregular": lambda seed=0: windows([(3, 2), (1, 4), (2, 5)], seed),
    "strided transposed": lambda seed=0: windows([(3, 4), (1, 4), (2, 4)], seed).transpose(1, 2),
}
#: elementwise operators of one tensor
UNARY = [name for name, op in OPS.items() if op.kind == "elementwise" and op.arguments
         and all(default is not None or k == 0 or optional
                 for k, (_, _, optional, default) in enumerate(op.arguments)) and not name.startswith("_")]
BINARY = "add sub mul div maximum minimum atan2 hypot lt ge eq logaddexp copysign remainder fmod".split()
TAKE_NUMBERS = "add sub mul div lt ge eq remainder fmod copysign".split()
REDUCTIONS = "sum mean prod amax amin argmax argmin logsumexp var std".split()
ALONG = {"softmax": fb.softmax, "log_softmax": fb.log_softmax, "cumsum": fb.cumsum, "cumprod": fb.cumprod,
         "sort": lambda x, d: fb.sort(x, d)[0], "argsort": fb.argsort, "flip": lambda x, d: fb.flip(x, [d]),
         "cummax": lambda x, d: fb.cummax(x, d)[1], "normalize": lambda x, d: fb.nn.functional.normalize(x, dim=d),
         "logcumsumexp": fb.logcumsumexp, "softmin": lambda x, d: fb.nn.functional.softmin(x, dim=d)}


def same(found, parts, **options):
    found = list(found.unbind())
    fb.testing.assert_close(found, list(parts), equal_nan=True, **options)


def graded(f, x):
    """(the parts of f(x), the gradients of the parts of x)."""
    leaf = x.detach().clone().requires_grad_()
    found = f(leaf)
    weights = [fb.arange(p.numel(), dtype=p.dtype).reshape(p.shape).cos() for p in found.unbind()]
    sum((p * w).sum() for p, w in zip(found.unbind(), weights, strict=True)).backward()
    assert leaf.grad.is_nested and leaf.grad.layout is x.layout
    return found.detach().unbind(), leaf.grad.unbind()


def graded_parts(f, x):
    leaves = [p.detach().clone().requires_grad_() for p in x.unbind()]
    found = [f(p) for p in leaves]
    sum((p * fb.arange(p.numel(), dtype=p.dtype).reshape(p.shape).cos()).sum() for p in found).backward()
    return [p.detach() for p in found], [p.grad for p in leaves]


@pytest.mark.parametrize("kind", KINDS)
def test_every_pointwise_operator(kind):
    x = KINDS[kind]()
    for name in UNARY:
        try:
            expected = [OPS[name](p) for p in x.unbind()]
        except (RuntimeError, TypeError, NotImplementedError):
            continue
        if isinstance(expected[0], fb.Tensor):
            found = OPS[name](x)
            assert found.layout is x.layout, name
            same(found, expected)
            out = x.clone()
            if OPS[name].inplace_form is not None and expected[0].dtype is x.dtype:
                assert OPS[name].inplace_form(out) is out, name
                same(out, expected)


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_of_pointwise_operators(kind):
    x = KINDS[kind]()
    for name in ("exp", "tanh", "sin", "sigmoid", "square", "relu", "gelu", "silu", "neg", "atan", "softplus", "mish"):
        for found, expected in zip(graded(OPS[name], x), graded_parts(OPS[name], x), strict=True):
            fb.testing.assert_close(list(found), list(expected))


@pytest.mark.parametrize("name", BINARY)
@pytest.mark.parametrize("kind", KINDS)
def test_two_nested_tensors(name, kind):
    op, x = getattr(fb, name), KINDS[kind]()
    y = fb.empty_like(x).copy_(KINDS[kind](1)) if x.layout is fb.strided else \
        fb.nested.nested_tensor_from_jagged(KINDS[kind](1)._values, x.offsets(), x.lengths(), x._ragged_idx)
    same(op(x, y), [op(p, q) for p, q in zip(x.unbind(), y.unbind(), strict=True)])
    if name in TAKE_NUMBERS:
        same(op(x, 0.5), [op(p, 0.5) for p in x.unbind()])
    same(op(x, fb.tensor(0.5)), [op(p, fb.tensor(0.5)) for p in x.unbind()])


def test_dense_tensors_broadcast():
    x, g = jagged((4,)), fb.Generator().manual_seed(2)
    for shape in ((4,), (1, 4), (1, 1, 4), (3, 1, 4), (3, 1, 1), (1, 1, 1), (3, 4, 4), (1,), ()):
        t = fb.rand(shape, generator=g).double()
        whole = t.expand(3, 4, 4)
        expected = [p * (whole[k, :len(p)]) for k, p in enumerate(x.unbind())]
        same(x * t, expected)
        same(t * x, expected)
    with pytest.raises(RuntimeError, match="expected size 1 in the ragged dimension, or that of the longest part, 4"):
        x + fb.ones(3, 3, 4)
    dense = fb.ones(3, 1, 4, dtype=fb.float64, requires_grad=True)
    (x * dense).sum().backward()
    fb.testing.assert_close(dense.grad, x.sum(1, keepdim=True))


@pytest.mark.parametrize("kind", ["2d", "3d", "4d", "transposed", "holes"])
def test_reductions(kind):
    x = KINDS[kind]()
    rows = fb.cat([p.movedim(x._ragged_idx - 1, 0) for p in x.unbind()])
    for name in REDUCTIONS:
        op = OPS[name]
        for dim in range(1, x.dim()):
            for keepdim in (False, True):
                expected = [op(p, dim - 1, keepdim=keepdim) for p in x.unbind()]
                found = op(x, dim, keepdim=keepdim)
                fb.testing.assert_close(found, fb.stack(expected), equal_nan=True) if dim == x._ragged_idx else \
                    same(found, expected)
        if name not in ("argmax", "argmin", "logsumexp"):
            fb.testing.assert_close(op(x), op(rows))
        if name in ("sum", "mean", "amax"):
            fb.testing.assert_close(op(x, (0, x._ragged_idx)), op(rows, 0))
        with pytest.raises(RuntimeError, match="batch"):
            op(x, 0)
    assert x.max() == rows.max() and (x > -2).all() and not (x > 2).any()
    for dim in range(1, x.dim()):
        found, (values, places) = (x > 0).any(dim), x.max(dim)
        parts = [p.max(dim - 1) for p in x.unbind()]
        assert found.is_nested == values.is_nested == (dim != x._ragged_idx)
        fb.testing.assert_close(list(places.unbind()), [p.indices for p in parts])


@pytest.mark.parametrize("name", ALONG)
@pytest.mark.parametrize("kind", ["2d", "3d", "4d", "transposed", "holes", "strided", "irregular"])
def test_along_a_dimension(name, kind):
    x, f = KINDS[kind](), ALONG[name]
    for dim in range(1, x.dim()):
        same(f(x, dim), [f(p, dim - 1) for p in x.unbind()])
        same(f(x, dim - x.dim()), [f(p, dim - 1) for p in x.unbind()])
    with pytest.raises((RuntimeError, IndexError)):
        f(x, 0)


@pytest.mark.parametrize("kind", ["3d", "transposed", "holes", "strided", "irregular"])
def test_gradients_along_dimensions(kind):
    x = KINDS[kind]()
    for name in ("softmax", "log_softmax", "cumsum"):
        for dim in (1, 2):
            for found, expected in zip(graded(lambda t: ALONG[name](t, dim), x),  # noqa: B023
                                       graded_parts(lambda t: ALONG[name](t, dim - 1), x), strict=True):  # noqa: B023
                fb.testing.assert_close(list(found), list(expected))


SHAPES = {  # on the nested tensor [3, j, 4] (or strided), on each part
    "transpose": (lambda x: x.transpose(1, 2), lambda p: p.t()), "permute": (lambda x: x.permute(0, 2, 1), fb.t),
    "unsqueeze 1": (lambda x: x.unsqueeze(1), lambda p: p[None]), "mT": (lambda x: x.mT, fb.t),
    "unsqueeze": (lambda x: x.unsqueeze(-1), lambda p: p[..., None]),
    "squeeze": (lambda x: x.unsqueeze(2).squeeze(2), lambda p: p),
    "view": (lambda x: x.view(3, -1, 2, 2), lambda p: p.reshape(-1, 2, 2)),
    "unflatten": (lambda x: x.unflatten(-1, [2, 2]), lambda p: p.unflatten(-1, [2, 2])),
    "flatten": (lambda x: x.unflatten(-1, [2, 2]).flatten(2), lambda p: p),
    "narrow": (lambda x: x.narrow(2, 1, 2), lambda p: p.narrow(1, 1, 2)),
    "select": (lambda x: x.select(2, 1), lambda p: p[:, 1]), "index": (lambda x: x[..., 1:3], lambda p: p[..., 1:3]),
    "chunk": (lambda x: x.chunk(2, -1)[1], lambda p: p.chunk(2, -1)[1]),
    "split": (lambda x: x.split([1, 3], -1)[1], lambda p: p.split([1, 3], -1)[1]),
    "cat": (lambda x: fb.cat([x, x * 2], -1), lambda p: fb.cat([p, p * 2], -1)),
    "cat ragged": (lambda x: fb.cat([x, x], 1), lambda p: fb.cat([p, p])),
    "stack": (lambda x: fb.stack([x, -x], 2), lambda p: fb.stack([p, -p], 1)),
    "slice ragged": (lambda x: x[:, :2], lambda p: p[:2]), "step": (lambda x: x[:, ::2], lambda p: p[::2]),
    "repeat": (lambda x: x.repeat(1, 1, 2), lambda p: p.repeat(1, 2)),
    "linear": (lambda x: fb.nn.functional.linear(x, WEIGHT), lambda p: fb.nn.functional.linear(p, WEIGHT)),
    "matmul": (lambda x: x @ WEIGHT.t(), lambda p: p @ WEIGHT.t()),
    "layer_norm": (lambda x: fb.nn.functional.layer_norm(x, (4,)), lambda p: fb.nn.functional.layer_norm(p, (4,))),
    "rms_norm": (lambda x: fb.nn.functional.rms_norm(x, (4,)), lambda p: fb.nn.functional.rms_norm(p, (4,))),
    "movedim": (lambda x: x.movedim(1, 2), fb.t), "masked_fill": (lambda x: x.masked_fill(x > 0, 0.0),
                                                                lambda p: p.masked_fill(p > 0, 0.0)),
    "where": (lambda x: fb.where(x > 0, x, -1.0), lambda p: fb.where(p > 0, p, -1.0)),
    "clamp": (lambda x: x.clamp(-0.2, 0.3), lambda p: p.clamp(-0.2, 0.3)),
    "double": (lambda x: x.double(), lambda p: p),
    "clone": (lambda x: x.clone(), lambda p: p), "contiguous": (lambda x: x.contiguous(), lambda p: p),
    "other layout": (lambda x: x.to(layout=OTHER[x.layout]).to(layout=x.layout), lambda p: p),
}
WEIGHT = fb.arange(20, dtype=fb.float64).reshape(5, 4).cos()
OTHER = {fb.strided: fb.jagged, fb.jagged: fb.strided}


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("kind", ["3d", "holes", "strided", "strided twice transposed"])
def test_shapes_and_products(name, kind):
    f, of_part = SHAPES[name]
    x = KINDS["strided"]().transpose(1, 2).transpose(1, 2) if kind == "strided twice transposed" else KINDS[kind]()
    found, expected = graded(f, x), graded_parts(of_part, x)
    for mine, theirs in zip(found, expected, strict=True):
        fb.testing.assert_close(list(mine), list(theirs))
    assert f(x).layout is x.layout


@pytest.mark.parametrize("kind", KINDS)
def test_padding(kind):
    x = KINDS[kind]()
    padded = x.to_padded_tensor(7.0)
    for p, row in zip(x.unbind(), padded, strict=True):
        inside = tuple(slice(n) for n in p.shape)
        fb.testing.assert_close(row[inside], p)
        rest = row.clone()
        rest[inside] = 7.0
        assert (rest == 7).all()
    bigger = [n + 1 for n in padded.shape]
    assert fb.nested.to_padded_tensor(x, 0.0, bigger).shape == fb.Size(bigger)
    leaf = x.detach().clone().requires_grad_()
    leaf.to_padded_tensor(7.0).square().sum().backward()
    same(leaf.grad, [2 * p for p in x.unbind()])


@pytest.mark.parametrize("kind", KINDS)
def test_reductions_of_strided_tensors(kind):
    x = KINDS[kind]()
    if x.layout is fb.strided:
        rows = fb.cat([p.reshape(-1) for p in x.unbind()])
        for name in ("sum", "mean", "amax", "std"):
            fb.testing.assert_close(OPS[name](x), OPS[name](rows))
        fb.testing.assert_close(x.sum((1, 2)), fb.stack([p.sum() for p in x.unbind()]))
        same(x.sum(2, keepdim=True), [p.sum(1, keepdim=True) for p in x.unbind()])


@pytest.mark.parametrize("kind", KINDS)
def test_second_derivatives(kind):
    leaf = KINDS[kind]().detach().clone().requires_grad_()
    first, = fb.autograd.grad((leaf ** 3).sum(), leaf, create_graph=True)
    second, = fb.autograd.grad(first.sum(), leaf)
    same(second, [6 * p for p in leaf.detach().unbind()])


@pytest.mark.parametrize("heads", [True, False])
@pytest.mark.parametrize("causal", [True, False])
def test_attention(heads, causal):
    x = jagged((2, 3)).transpose(1, 2) if heads else jagged((3,))
    attend = fb.nn.functional.scaled_dot_product_attention

    def of(t):
        return attend(t, t * 2, t - 1, is_causal=causal)

    for mine, theirs in zip(graded(of, x), graded_parts(of, x), strict=True):
        fb.testing.assert_close(list(mine), list(theirs))
