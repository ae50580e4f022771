"""Custom Functions: what the context carries, what backward may return, what is refused."""

import gc
import weakref

import pytest

import flambeau
from flambeau.autograd import Function, grad, gradcheck, gradgradcheck
from flambeau.autograd.function import once_differentiable


def leaf(values):
    return flambeau.tensor(values, dtype=flambeau.float64, requires_grad=True)


class Product(Function):
    @staticmethod
    def forward(ctx, x, y, k=1):
        ctx.save_for_backward(x, y)
        ctx.k = k
        return x * y * k

    @staticmethod
    def backward(ctx, g):
        x, y = ctx.saved_tensors
        return g * y * ctx.k, g * x * ctx.k, None


class Exp(Function):
    @staticmethod
    def forward(x):
        return x.exp()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx, g):
        (y,) = ctx.saved_tensors
        return g * y


def function(forward, backward):
    return type("Made", (Function,), {"forward": staticmethod(forward), "backward": staticmethod(backward)})


def test_both_styles():
    x, y = leaf([1.0, 2.0]), leaf([3.0, 4.0])
    Product.apply(x, y, 2).sum().backward()
    assert x.grad.tolist() == [6.0, 8.0] and y.grad.tolist() == [2.0, 4.0]
    assert gradcheck(Product.apply, (x, y)) and gradgradcheck(Product.apply, (x, y))
    assert gradcheck(Exp.apply, (x,)) and gradgradcheck(Exp.apply, (x,))


def test_grad_fn_is_named_after_the_function():
    assert "ProductBackward" in type(Product.apply(leaf([1.0]), leaf([1.0])).grad_fn).__name__ or \
        "ProductBackward" in Product.apply(leaf([1.0]), leaf([1.0])).grad_fn.name()


def test_needs_input_grad():
    seen = []

    def backward(ctx, g):
        seen.append(ctx.needs_input_grad)
        return g, None, None
    f = function(lambda ctx, x, y, k: x * 1, backward)
    f.apply(leaf([1.0]), flambeau.ones(1), 3).sum().backward()
    assert seen == [(True, False, False)]


def test_not_recorded_without_need():
    x = flambeau.ones(1)
    assert not Exp.apply(x).requires_grad
    with flambeau.no_grad():
        assert not Exp.apply(leaf([1.0])).requires_grad


def test_forward_does_not_record():
    inside = []

    def forward(ctx, x):
        y = x * 2
        inside.append((y.requires_grad, flambeau.is_grad_enabled()))
        return y
    function(forward, lambda ctx, g: g).apply(leaf([1.0]))
    assert inside == [(False, False)]


def test_several_outputs_and_materialised_zeros():
    got = []

    def backward(ctx, g, h):
        got.append((g, h))
        return g * 2 + h * 3
    f = function(lambda ctx, x: (x * 2, x * 3), backward)
    x = leaf([1.0, 2.0])
    a, b = f.apply(x)
    a.sum().backward()
    assert got[0][1].tolist() == [0.0, 0.0]
    assert x.grad.tolist() == [2.0, 2.0]
    a, b = f.apply(x)
    assert grad((a + b).sum(), x)[0].tolist() == [5.0, 5.0]


def test_materialize_off():
    got = []

    def forward(ctx, x):
        ctx.set_materialize_grads(False)
        return x * 2, x * 3

    def backward(ctx, g, h):
        got.append((g, h))
        return None
    _, b = function(forward, backward).apply(leaf([1.0]))
    b.sum().backward()
    assert got[0][0] is None and got[0][1].tolist() == [1.0]


def test_non_tensor_outputs():
    f = function(lambda ctx, x: (x * 2, "text", 5), lambda ctx, g, *_: g * 2)
    y, text, five = f.apply(leaf([1.0]))
    assert (text, five) == ("text", 5) and y.requires_grad


def test_mark_non_differentiable():
    def forward(ctx, x):
        order = x.argsort()
        plain = x * 0
        ctx.mark_non_differentiable(order, plain)
        return x * 2, order, plain
    x = leaf([2.0, 1.0])
    y, order, plain = function(forward, lambda ctx, g, *_: g * 2).apply(x)
    assert y.requires_grad and not order.requires_grad and not plain.requires_grad
    y.sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]


def test_mark_dirty():
    def forward(ctx, x):
        x.mul_(3)
        ctx.mark_dirty(x)
        return x
    f = function(forward, lambda ctx, g: g * 3)
    x = leaf([1.0, 2.0])
    y = x * 1
    z = f.apply(y)
    assert z is y and y.tolist() == [3.0, 6.0]
    y.sum().backward()
    assert x.grad.tolist() == [3.0, 3.0]
    with pytest.raises(RuntimeError, match=r"leaf"):
        f.apply(leaf([1.0]))


def test_input_returned_as_it_is():
    x = leaf([1.0])
    y = function(lambda ctx, x: x, lambda ctx, g: g * 7).apply(x)
    assert y is not x and y.data_ptr() == x.data_ptr()
    y.sum().backward()
    assert x.grad.tolist() == [7.0]


@pytest.mark.parametrize("returned, message", [
    (lambda g: (g, g), "one gradient per argument of forward"),
    (lambda g: (), "one gradient per argument of forward"),
    (lambda g: g[:1].expand(5), "cannot be summed"),
])
def test_wrong_gradients(returned, message):
    x = leaf([1.0, 2.0])
    f = function(lambda ctx, x: x * 2, lambda ctx, g: returned(g))
    with pytest.raises(RuntimeError, match=message):
        f.apply(x).sum().backward()


def test_gradient_for_a_number_is_refused():
    f = function(lambda ctx, x, k: x * k, lambda ctx, g: (g, g))
    with pytest.raises(RuntimeError, match=r"an argument that is no Tensor"):
        f.apply(leaf([1.0]), 3).sum().backward()


def test_extra_none_gradients_are_accepted():
    x = leaf([1.0])
    function(lambda ctx, x: x * 2, lambda ctx, g: (g * 2, None, None)).apply(x).sum().backward()
    assert x.grad.tolist() == [2.0]


def test_gradient_broader_than_the_input_is_summed():
    x = leaf([1.0])
    f = function(lambda ctx, x: x.expand(3) * 2, lambda ctx, g: g * 2)
    f.apply(x).sum().backward()
    assert x.grad.tolist() == [6.0]


def test_errors_pass_through():
    def backward(ctx, g):
        raise KeyError("mine")
    with pytest.raises(KeyError, match=r"mine"):
        function(lambda ctx, x: x * 2, backward).apply(leaf([1.0])).sum().backward()


def test_saved_tensors_are_released_and_guarded():
    x, y = leaf([1.0]), leaf([2.0])
    z = Product.apply(x, y)
    z.sum().backward()
    with pytest.raises(RuntimeError, match=r"retain_graph=True"):
        z.sum().backward()
    k = flambeau.ones(1, dtype=flambeau.float64)
    z = Product.apply(x, k)
    k.add_(1)
    with pytest.raises(RuntimeError, match=r"changed in place since"):
        z.sum().backward()


def test_saved_memory_is_freed_by_backward():
    x = leaf([1.0, 2.0])

    def forward(ctx, x):
        contexts.append(ctx)
        y = x * 2
        ctx.save_for_backward(y)
        kept.append(weakref.ref(y))
        return x * 3
    contexts, kept = [], []
    z = function(forward, lambda ctx, g: g * 3).apply(x)
    z.sum().backward(retain_graph=True)
    assert kept[0]() is not None and len(contexts[0].saved_tensors) == 1
    z.sum().backward()
    assert kept[0]() is None
    with pytest.raises(RuntimeError, match=r"freed"):
        _ = contexts[0].saved_tensors


def test_save_for_backward_takes_tensors_only():
    with pytest.raises(TypeError, match=r"save_for_backward"):
        function(lambda ctx, x: ctx.save_for_backward(3), lambda ctx, g: g).apply(leaf([1.0]))


def test_once_differentiable():
    class Square(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        @once_differentiable
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return 2 * x * g
    x = leaf([3.0])
    v = leaf([1.0])
    (g,) = grad(Square.apply(x), x, v, create_graph=True)
    assert g.item() == 6.0
    with pytest.raises(RuntimeError, match=r"once_differentiable|differentiate twice"):
        g.sum().backward()


def test_own_output_makes_no_leak():
    class Big:
        pass

    def forward(ctx, x):
        y = x.exp()
        ctx.save_for_backward(y)
        ctx.marker = Big()
        markers.append(weakref.ref(ctx.marker))
        return y
    markers = []
    f = function(forward, lambda ctx, g: g * ctx.saved_tensors[0])
    y = f.apply(leaf([1.0]))
    del y
    gc.collect()
    assert markers[0]() is None


def test_an_object_warns_applies_and_is_not_called():
    with pytest.warns(DeprecationWarning, match=r"Product\.apply"):
        product = Product()
    assert product.apply(leaf([2.0]), leaf([3.0])).item() == 6
    with pytest.raises(RuntimeError, match=r"Product\.apply"):
        product(leaf([1.0]), leaf([1.0]))


def test_missing_methods_are_named():
    class Half(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1
    with pytest.raises(NotImplementedError, match=r"backward"):
        Half.apply(leaf([1.0])).sum().backward()


def test_marking_what_is_no_input_changes_nothing():
    class Marks(Function):
        @staticmethod
        def forward(ctx, x):
            result = x.clone()
            ctx.mark_dirty(result)
            return result

        @staticmethod
        def backward(ctx, g):
            return g * 3

    x = flambeau.ones(1, requires_grad=True)
    with pytest.warns(UserWarning, match="not an input"):
        Marks.apply(x).backward()
    assert x.grad.item() == 3


def test_backward_under_both_names():
    class Both(Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, g):
            return g

        @staticmethod
        def vjp(ctx, g):
            return g

    with pytest.raises(RuntimeError, match="both backward and vjp"):
        Both.apply(flambeau.ones(1, requires_grad=True)).backward()


def test_saved_tensors_by_their_old_name():
    class Square(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, grad):
            return 2 * ctx.saved_variables[0] * grad

    x = flambeau.tensor([3.0], requires_grad=True)
    with pytest.warns(DeprecationWarning, match="saved_tensors"):
        Square.apply(x).backward()
    assert x.grad.item() == 6


class Power(Function):
    @staticmethod
    def forward(x, n=3):
        return x ** n

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, ctx.n = inputs
        ctx.save_for_backward(x)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * ctx.n * x ** (ctx.n - 1), None


@pytest.mark.parametrize(("args", "kwargs", "slope"), [((), {}, 12), ((2,), {}, 4), ((), {"n": 4}, 32)])
def test_arguments_left_out_and_arguments_by_name(args, kwargs, slope):
    x = flambeau.tensor(2.0, requires_grad=True)
    Power.apply(x, *args, **kwargs).backward()
    assert x.grad.item() == slope
    assert flambeau.func.grad(lambda x: Power.apply(x, *args, **kwargs))(x.detach()).item() == slope
    with pytest.raises(TypeError, match="unexpected"):
        Power.apply(x, m=1)


def test_integers_have_no_tangents():
    seen = []

    class Both(Function):
        @staticmethod
        def forward(ctx, x, n):
            return x * n

        @staticmethod
        def jvp(ctx, x, n):
            seen.append(n)
            return x

    with flambeau.autograd.forward_ad.dual_level():
        dual = flambeau.autograd.forward_ad.make_dual(flambeau.ones(1), flambeau.ones(1))
        Both.apply(dual, flambeau.tensor(3))
    assert seen == [None]


def test_variable_of_what_is_no_tensor():
    with pytest.raises(TypeError, match="expected a Tensor, got list"):
        flambeau.autograd.Variable([1.0])


def test_tuples_stay_tuples_in_transforms():
    class Picked(Function):
        @staticmethod
        def forward(x, at=(1, 0)):
            return x[at]

        @staticmethod
        def setup_context(ctx, inputs, output):
            pass

        @staticmethod
        def jvp(ctx, x, at):
            return x[1, 0]

        @staticmethod
        def vmap(info, in_dims, x, at):
            return Picked.apply(x, (slice(None), *at)), 0

    x = flambeau.arange(12.0).reshape(2, 3, 2)
    assert flambeau.vmap(Picked.apply)(x).tolist() == [2, 8]
    assert [y.item() for y in flambeau.func.jvp(Picked.apply, (x[1],), (x[0],))] == [8, 2]


@pytest.mark.parametrize("given", [3, "a", [flambeau.ones(3)]])
def test_what_backward_must_not_return(given):
    class Wrong(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            return given

    with pytest.raises(RuntimeError, match="expected a Tensor or None at position 1"):
        Wrong.apply(flambeau.ones(3, requires_grad=True)).sum().backward()
