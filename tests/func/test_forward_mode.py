"""Forward mode: against reverse mode for every operator, nested with the other transforms, and by hand."""

import pytest

import flambeau
import flambeau.autograd.forward_ad as fwAD
from flambeau.autograd import gradcheck, gradgradcheck
from flambeau.func import grad, hessian, jacfwd, jacrev, jvp, linearize, vjp, vmap
from flambeau.testing import assert_close
from flambeau.utils._pytree import tree_flatten, tree_unflatten

from ..ops import battery
from ..ops.battery import run, samples
from ..ops.samples import Sample

DOUBLE = flambeau.float64


def floating(x):
    return isinstance(x, flambeau.Tensor) and (x.is_floating_point() or x.is_complex())


def push_equals_pull(name, sample):
    """<u, jvp(v)> = <vjp(u), v> for random u and v, over the floating tensors among the arguments."""
    leaves, spec = tree_flatten((sample.args, sample.kwargs))
    places = [k for k, x in enumerate(leaves) if floating(x)]
    if not places:
        return False

    def call(*inputs):
        filled = list(leaves)
        for k, x in zip(places, inputs, strict=True):
            filled[k] = x
        args, kwargs = tree_unflatten(filled, spec)
        found = tree_flatten(run(name, Sample(tuple(args), dict(kwargs))))[0]
        return tuple(y for y in found if floating(y))

    inputs = tuple(leaves[k].detach() for k in places)
    moves = tuple(flambeau.randn_like(x) for x in inputs)
    outputs, pushed = jvp(call, inputs, moves)
    if not outputs:
        return False
    cotangents = tuple(flambeau.randn_like(y) for y in outputs)
    reverse, pull = vjp(call, *inputs)
    for a, b in zip(outputs, reverse, strict=True):
        assert_close(a, b, equal_nan=True)
    pulled = pull(cotangents)
    assert_close(inner(cotangents, pushed), inner(pulled, moves), rtol=1e-6, atol=1e-6, equal_nan=True)
    return True


def inner(us, vs):
    """The real inner product of two lists of tensors."""
    return sum((u.conj() * v).real.sum() if u.is_complex() else (u * v).sum() for u, v in zip(us, vs, strict=True))


#: derivatives that nobody defines, by an argument or of the gradient
UNDEFINED = ("grid_sample", "grid_sampler", "igamma", "igammac", "special_zeta")


def differentiable():
    return [n for n in battery.with_samples("gradcheck") if battery.skip_reason(n, "gradcheck") is None]


@pytest.mark.parametrize("name", differentiable())
def test_every_operator(name):
    done = 0
    for sample in samples(name, DOUBLE)[:3]:
        reference = run(name, sample)
        if not any(floating(y) for y in tree_flatten(reference)[0]):
            continue
        flambeau.manual_seed(0)
        try:
            done += push_equals_pull(name, sample)
        except NotImplementedError:
            if name not in UNDEFINED:
                raise
            battery.compared(0, "a derivative that nobody defines")
    battery.compared(done, "no sample with floating arguments and results")


# --- compositions -----------------------------------------------------------------------------------------------------

X = flambeau.tensor([0.3, -1.2, 2.0], dtype=DOUBLE)
V = flambeau.tensor([1.0, 0.5, -2.0], dtype=DOUBLE)


def model(x):
    y = x.sin() * x.roll(1) + x.exp().softmax(0)
    return (y.unsqueeze(0) @ y.unsqueeze(1)).sum() * y


def test_jacobians_agree():
    assert_close(jacfwd(model)(X), jacrev(model)(X))
    assert_close(jacfwd(jacrev(model))(X), jacrev(jacfwd(model))(X))
    assert_close(jacfwd(jacfwd(model))(X), jacrev(jacrev(model))(X))
    assert_close(hessian(lambda x: model(x).sum())(X), jacrev(jacrev(lambda x: model(x).sum()))(X))


def test_nesting():
    def total(x):
        return (x ** 3).sum()

    assert_close(jvp(grad(total), (X,), (V,))[1], 6 * X * V)
    assert_close(grad(lambda x: jvp(total, (x,), (V,))[1])(X), 6 * X * V)
    assert_close(jvp(lambda x: jvp(total, (x,), (V,))[1], (X,), (V,))[1], (6 * X * V * V).sum())
    assert_close(vmap(lambda x, v: jvp(lambda y: y ** 3, (x,), (v,))[1])(X, V), 3 * X * X * V)
    assert_close(jvp(vmap(lambda y: y ** 3), (X,), (V,))[1], 3 * X * X * V)
    # an inner derivative must not see the outer direction
    assert_close(jvp(lambda x: x * jvp(lambda y: x * y, (X,), (V,))[1], (X,), (V,))[1], 2 * X * V * V)


def test_linearize():
    output, push = linearize(model, X)
    expected, pushed = jvp(model, (X,), (V,))
    assert_close(output, expected)
    assert_close(push(V), pushed)
    assert_close(push(2 * V), 2 * pushed)


def test_linearize_in_vmap_leaves_no_history():
    _, push = linearize(flambeau.sin, X)
    pushed = flambeau.vmap(push)(flambeau.stack([V, 2 * V]))
    assert not pushed.requires_grad
    assert_close(pushed, flambeau.stack([push(V), push(2 * V)]))


def test_structures_and_aux():
    _, pushed, aux = jvp(lambda d: ({"y": d["a"] * d["b"]}, d["a"] + 1), ({"a": X, "b": V},), ({"a": V, "b": X},),
                             has_aux=True)
    assert_close(pushed["y"], V * V + X * X)
    assert_close(aux, X + 1)
    blocks = jacfwd(lambda a, b: (a * b, a.sum()), argnums=(0, 1))(X, V)
    assert_close(blocks[0][0], V.diag())
    assert_close(blocks[1][1], flambeau.zeros(3, dtype=DOUBLE))


def test_writes():
    def f(x):
        y = flambeau.zeros_like(x)
        y[0] = x[1] * x[2]
        y[1:] = x[:2]
        z = flambeau.zeros(3, dtype=DOUBLE)
        z.copy_(x)
        z.mul_(y).add_(x)
        z[2].zero_()
        return z

    expected = [[X[1] * X[2] + 1, X[0] * X[2], X[0] * X[1]], [X[1], X[0] + 1, 0.0], [0.0, 0.0, 0.0]]
    assert_close(jacfwd(f)(X), flambeau.tensor([[float(v) for v in row] for row in expected], dtype=DOUBLE))
    with pytest.raises(RuntimeError, match="made outside the transform"):
        outside = flambeau.zeros(3, dtype=DOUBLE)
        jvp(lambda x: outside.copy_(x), (X,), (V,))


@pytest.mark.parametrize("make", [
    lambda kept: kept.clone(), flambeau.zeros_like, lambda kept: kept.new_zeros(2, 3),
    lambda kept: kept.new_full((2, 3), 0.0)], ids=["clone", "zeros_like", "new_zeros", "new_full"])
def test_copies_of_tensors_from_outside_can_be_written(make):
    kept = flambeau.zeros(2, 3, dtype=DOUBLE)

    def f(x):
        y = make(kept)
        y[0] = x * x
        return y

    assert_close(jvp(f, (X,), (V,))[1], flambeau.stack([2 * X * V, flambeau.zeros(3, dtype=DOUBLE)]))


def test_detach_and_no_grad():
    assert_close(jvp(lambda x: x.detach() * x, (X,), (V,))[1], X * V)

    def quiet(x):
        with flambeau.no_grad():
            return x * x

    assert_close(jvp(quiet, (X,), (V,))[1], 2 * X * V)


def test_strict():
    with pytest.raises(RuntimeError, match="with strict=True every result must depend on"):
        jvp(lambda x: flambeau.ones(2), (X,), (V,), strict=True)
    assert_close(jvp(lambda x: flambeau.ones(2), (X,), (V,))[1], flambeau.zeros(2))


@pytest.mark.parametrize("primals, tangents, text", [
    (X, (V,), "primals must be a tuple"), ((X,), (V, V), "one tangent per primal"), ((X,), (V[:2],), "same size"),
    ((X,), (V.float(),), "dtype"), ((1.0,), (V,), "f, primals, tangents"),
])
def test_refused(primals, tangents, text):
    with pytest.raises(RuntimeError, match=text):
        jvp(model, primals, tangents)


# --- by hand ----------------------------------------------------------------------------------------------------------

def test_dual_level():
    with fwAD.dual_level():
        dual = fwAD.make_dual(X, V)
        tangent = fwAD.unpack_dual(dual.exp()).tangent
        assert_close(tangent, X.exp() * V)
        assert fwAD.unpack_dual(X).tangent is None
        assert fwAD.unpack_dual(dual.detach()).tangent is None
        with pytest.raises(RuntimeError, match="a dual level is open already, and levels do"):
            fwAD.enter_dual_level()
    with pytest.raises(RuntimeError, match="no dual level is open"):
        fwAD.make_dual(X, V)


def test_forward_over_reverse_by_hand():
    x = X.clone().requires_grad_()
    with fwAD.dual_level():
        (g,) = flambeau.autograd.grad((fwAD.make_dual(x, V) ** 3).sum(), x)
        primal, tangent = fwAD.unpack_dual(g)
        assert_close(primal, 3 * X * X)
        assert_close(tangent, 6 * X * V)
        fwAD.unpack_dual((fwAD.make_dual(x, V) ** 2).sum()).primal.backward()
    assert_close(x.grad, 2 * X)


def test_module():
    m = flambeau.nn.Sequential(flambeau.nn.Conv2d(1, 2, 3), flambeau.nn.ReLU(), flambeau.nn.MaxPool2d(2),
                               flambeau.nn.Flatten(), flambeau.nn.Linear(8, 3), flambeau.nn.LayerNorm(3)).double()
    x, v = flambeau.randn(2, 1, 6, 6, dtype=DOUBLE), flambeau.randn(2, 1, 6, 6, dtype=DOUBLE)
    near = (m(x + 1e-6 * v) - m(x - 1e-6 * v)) / 2e-6
    assert_close(jvp(m, (x,), (v,))[1], near, rtol=1e-6, atol=1e-6)


# --- custom functions -------------------------------------------------------------------------------------------------

class Square(flambeau.autograd.Function):
    @staticmethod
    def forward(x):
        return x * x

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)

    @staticmethod
    def backward(ctx, g):
        return 2 * ctx.saved_tensors[0] * g

    @staticmethod
    def jvp(ctx, t):
        return 2 * ctx.saved_tensors[0] * t


class Backward(flambeau.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return g * 2


def test_custom_function():
    assert_close(jvp(Square.apply, (X,), (V,))[1], 2 * X * V)
    assert_close(jvp(grad(lambda x: Square.apply(x).sum()), (X,), (V,))[1], 2 * V)
    assert_close(grad(lambda x: jvp(Square.apply, (x,), (V,))[1].sum())(X), 2 * V)
    with pytest.raises(NotImplementedError, match="forward-mode differentiation needs its jvp"):
        jvp(Backward.apply, (X,), (V,))


def test_a_tangent_made_inside_its_level():
    x = flambeau.arange(3.0)
    with fwAD.dual_level():
        dual = fwAD.make_dual(x, flambeau.ones(3))
        assert fwAD.unpack_dual(dual.expand(2, 3) * 2).tangent.tolist() == [[2, 2, 2]] * 2
        assert fwAD.unpack_dual(dual.view(3, 1).as_strided((2,), (1,), 1)).tangent.tolist() == [1, 1]
        with pytest.raises(RuntimeError, match="has a tangent"):
            fwAD.make_dual(x, dual)


def test_as_strided_of_what_shares_memory_twice():
    x = flambeau.rand(5, dtype=flambeau.float64, requires_grad=True)
    for function in (lambda x: (x * 1).expand(5, 5).as_strided((5, 5), (0, 1), 0),
                     lambda x: (x * 1).expand(3, 5).as_strided((3,), (1,), 1)):
        assert gradcheck(function, (x,), check_forward_ad=True)
        assert gradgradcheck(function, (x,))


@pytest.mark.parametrize("make", (flambeau.ones, flambeau.rand, flambeau.empty))
def test_a_leaf_made_inside_a_level(make):
    with fwAD.dual_level():
        leaf = make(3, requires_grad=True)
        dual = fwAD.make_dual(flambeau.ones(3), flambeau.ones(3))
        assert leaf.requires_grad and leaf.is_leaf
        tangent = fwAD.unpack_dual(leaf * dual * dual).tangent
        assert flambeau.autograd.grad(tangent.sum(), leaf)[0].tolist() == [2, 2, 2]
        (leaf * 2).sum().backward()
    assert leaf.grad.tolist() == [2, 2, 2]


@pytest.mark.parametrize("draw", (
    lambda x: flambeau.nn.functional.dropout(x, 0.5),
    lambda x: flambeau.nn.functional.dropout(x * x, 0.2).sum(),
    flambeau._standard_gamma, flambeau._sample_dirichlet,
    lambda x: flambeau.nn.functional.scaled_dot_product_attention(*[x.reshape(1, 1, 3, 2)] * 3, dropout_p=0.5)))
@pytest.mark.parametrize("recorded", (False, True))
def test_what_is_drawn_is_held(draw, recorded):
    def held(x):
        flambeau.manual_seed(1)
        return draw(x)

    x = flambeau.rand(6, dtype=flambeau.float64).add_(0.5).requires_grad_(recorded)
    t = flambeau.randn(6, dtype=flambeau.float64)
    out, pushed = jvp(held, (x,), (t,))
    v = flambeau.randn(out.shape, dtype=flambeau.float64)
    _, pull = vjp(held, x)
    assert pushed.any()
    assert_close((v * pushed).sum(), (pull(v)[0] * t).sum())


def test_tensors_of_a_level_after_its_end():
    x = flambeau.ones(2)
    with fwAD.dual_level():
        dual = fwAD.make_dual(x, flambeau.ones(2))
        made, doubled = flambeau.full((2,), 3.0), dual * 2
    assert (dual * made).tolist() == [3, 3] and doubled.sum().item() == 4 and repr(dual) == repr(x)
    assert fwAD.unpack_dual(dual).tangent is None
    made += 1
    assert made.tolist() == [4, 4] and flambeau.cat([made, dual]).tolist() == [4, 4, 1, 1]
    with fwAD.dual_level():
        again = fwAD.make_dual(dual, flambeau.ones(2))
        assert fwAD.unpack_dual(again * dual * made).tangent.tolist() == [4, 4]
    escaped = []
    jvp(lambda x: escaped.append(x) or x, (x,), (x,))
    with pytest.raises(RuntimeError, match="left the transform"):
        escaped[0] * 2


def test_arguments_beside_the_differentiated_ones_can_be_written():
    jacobian = jacfwd(lambda x, y: y.copy_(2 * x))(flambeau.ones(2), flambeau.zeros(2))
    assert_close(jacobian, 2 * flambeau.eye(2))


class Doubled(flambeau.autograd.Function):
    @staticmethod
    def forward(x):
        return x.mul_(2)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.mark_dirty(inputs[0])

    @staticmethod
    def backward(ctx, grad):
        return 2 * grad

    @staticmethod
    def jvp(ctx, tangent):
        return tangent.mul_(2)

    @staticmethod
    def vmap(info, in_dims, x):
        return Doubled.apply(x), in_dims[0]


def test_functions_that_write_into_their_input():
    def call(x):
        copy = x * 1
        assert Doubled.apply(copy) is copy
        return (copy * copy).sum()

    x = flambeau.tensor([1., 2.])
    assert_close(jvp(call, (x,), (flambeau.ones(2),)), (flambeau.tensor(20.), flambeau.tensor(24.)))
    assert_close(hessian(call)(x), 8 * flambeau.eye(2))
    assert_close(vmap(grad(call))(flambeau.ones(3, 2)), flambeau.full((3, 2), 8.))

    def through_a_view(x):
        whole = flambeau.zeros_like(x)
        Doubled.apply(whole[0].add_(x[0]))
        return whole

    assert_close(jvp(through_a_view, (x,), (flambeau.ones(2),))[1], flambeau.tensor([2., 0.]))


def test_what_is_printed_of_a_dual():
    with fwAD.dual_level():
        x = fwAD.make_dual(flambeau.ones(2), flambeau.zeros(2))
        assert repr(x) == "tensor([1., 1.], tangent=tensor([0., 0.]))"
        long = repr(fwAD.make_dual(flambeau.ones(2, 2), flambeau.zeros(2, 2)))
        assert long.splitlines()[2].lstrip().startswith("tangent=tensor([[0., 0.],")
    assert repr(x) == "tensor([1., 1.])"
