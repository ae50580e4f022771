"""autograd.Function inside transforms: generated rules, written rules, outer gradients, nesting."""

import pytest

import flambeau
from flambeau.autograd import Function
from flambeau.func import grad, jacrev, vmap


def same(a, b, **how):
    flambeau.testing.assert_close(a, b, **how)


class Product(Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x, y):
        return x.sin() * y

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs, output)

    @staticmethod
    def backward(ctx, g):
        x, y, _ = ctx.saved_tensors
        return g * x.cos() * y * 2, g * x.sin()  # twice the derivative, so that one sees whose rule ran


class Written(Function):
    @staticmethod
    def forward(x, k):
        return x * k

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.k = inputs[1]

    @staticmethod
    def backward(ctx, g):
        return g * ctx.k, None

    @staticmethod
    def vmap(info, in_dims, x, k):
        assert info.batch_size == 3 and in_dims[1] is None
        return Written.apply(x.movedim(in_dims[0], -1), k), -1


class OldStyle(Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return g * 2


class NoRule(Product):
    generate_vmap_rule = False


x, y = flambeau.randn(3, 4), flambeau.randn(4)


@pytest.mark.parametrize("dims", [(0, 0), (0, None), (None, 0)])
def test_generated_rule(dims):
    a, b = x if dims[0] == 0 else y, x if dims[1] == 0 else y
    same(vmap(Product.apply, in_dims=dims)(a, b), a.sin() * b)

    def per_sample(a, b):
        return grad(lambda a, b: Product.apply(a, b).sum(), argnums=(0, 1))(a, b)

    found = vmap(per_sample, in_dims=dims)(a, b)
    same(found[0], (a.cos() * b * 2).expand(3, 4))
    same(found[1], a.sin().expand(3, 4))


@pytest.mark.parametrize("dims", [(0, 0), (0, None), (None, 0)])
def test_outer_gradients_use_the_function_s_backward(dims):
    a, b = x if dims[0] == 0 else y, x if dims[1] == 0 else y

    def by_vmap(a, b):
        return vmap(Product.apply, in_dims=dims)(a, b).sum()

    def by_loop(a, b):
        return sum(Product.apply(a[k] if dims[0] == 0 else a, b[k] if dims[1] == 0 else b).sum() for k in range(3))

    same(grad(by_vmap, argnums=(0, 1))(a, b), grad(by_loop, argnums=(0, 1))(a, b))
    same(jacrev(grad(by_vmap))(a, b), jacrev(grad(by_loop))(a, b))


def test_nested_and_written_rules():
    same(vmap(vmap(Product.apply, in_dims=(0, None)), in_dims=(None, 0))(y, flambeau.ones(2)), y.sin().expand(2, 4))
    outer = grad(lambda s: vmap(vmap(Product.apply, in_dims=(0, None)), in_dims=(None, 0))(y, s).sum())
    same(outer(flambeau.ones(2)), y.sin().sum().expand(2))
    same(vmap(Written.apply, in_dims=(0, None))(x, 3.0), x * 3)
    same(vmap(grad(lambda a: Written.apply(a, 3.0).sum()))(x), flambeau.full((3, 4), 3.0))
    same(grad(lambda a: vmap(Written.apply, in_dims=(0, None))(a, 3.0).sum())(x), flambeau.full((3, 4), 3.0))


def test_errors():
    with pytest.raises(RuntimeError, match="NoRule says nothing about batches"):
        vmap(NoRule.apply)(x, x)
    with pytest.raises(RuntimeError, match="setup_context"):
        vmap(OldStyle.apply)(x)


def test_batched_gradients():
    a = flambeau.randn(3, requires_grad=True)
    result = a.sin().cumsum(0)
    rows, = flambeau.autograd.grad(result, a, flambeau.eye(3), is_grads_batched=True, retain_graph=True)
    same(rows, jacrev(lambda a: a.sin().cumsum(0))(a.detach()))
    f = flambeau.autograd.functional
    same(f.jacobian(lambda a: a.sin().cumsum(0), a, vectorize=True), rows)
    same(f.hessian(lambda a: (a ** 3).prod(), a, vectorize=True), f.hessian(lambda a: (a ** 3).prod(), a))
    same(f.jacobian(lambda a: a.sin().cumsum(0), a, vectorize=True, strategy="forward-mode"), rows)
    b = flambeau.randn(2)
    forward = f.hessian(lambda a, b: (a ** 3).prod() * b.sum(), (a.detach(), b), vectorize=True,
                        outer_jacobian_strategy="forward-mode")
    same(forward, f.hessian(lambda a, b: (a ** 3).prod() * b.sum(), (a.detach(), b)))
    with pytest.raises(RuntimeError, match="with is_grads_batched=True all grad_outputs"):
        flambeau.autograd.grad(result, a, flambeau.tensor(1.), is_grads_batched=True)


def test_grad_wants_a_real_result():
    z = flambeau.tensor(1 + 2j)
    with pytest.raises(RuntimeError, match="must return a real number"):
        flambeau.func.grad(lambda z: z * z)(z)
    assert flambeau.func.grad(lambda z: z.abs() ** 2)(z) == 2 * z
