"""gradcheck's further checks: forward mode, and both modes under vmap; each finds a wrong derivative."""

import pytest

import flambeau
from flambeau.autograd import Function, GradcheckError, gradcheck, gradgradcheck

ALL = {"check_forward_ad": True, "check_batched_grad": True, "check_batched_forward_grad": True}


def inputs():
    return tuple(flambeau.rand(3, dtype=flambeau.float64, requires_grad=True) for _ in range(2))


def test_right_derivatives():
    assert gradcheck(lambda a, b: (a.sin() * b, a.softmax(0)), inputs(), **ALL)
    assert gradgradcheck(lambda a, b: (a.sin() * b).exp(), inputs(), check_fwd_over_rev=True, check_batched_grad=True)
    z = flambeau.rand(2, dtype=flambeau.complex128, requires_grad=True)
    assert gradcheck(lambda z: (z * z, z.abs()), (z,), **ALL)


class Wrong(Function):
    generate_vmap_rule = True

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
        return 3 * ctx.saved_tensors[0] * t


def test_wrong_forward_mode_is_found():
    x = (inputs()[0],)
    assert gradcheck(Wrong.apply, x)
    with pytest.raises(GradcheckError, match="forward mode"):
        gradcheck(Wrong.apply, x, check_forward_ad=True)
    assert not gradcheck(Wrong.apply, x, check_forward_ad=True, raise_exception=False)


LAYOUTS = [flambeau.sparse_coo, flambeau.sparse_csr, flambeau.sparse_csc, flambeau.sparse_bsr]


@pytest.mark.parametrize("masked", [True, False, None])
@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_sparse_inputs(layout, masked):
    options = {"blocksize": (1, 2)} if layout is flambeau.sparse_bsr else {}
    x = flambeau.tensor([[1.0, 0, 2, 0], [0, 0, 3, 4]], dtype=flambeau.float64).to_sparse(layout=layout, **options)
    x.requires_grad_()
    d = flambeau.rand(2, 4, dtype=flambeau.float64, requires_grad=True)
    for fast in (False, True):
        assert gradcheck(lambda x, d: (x.to_dense() * d, x * 2), (x, d), masked=masked, fast_mode=fast)
    with pytest.raises(GradcheckError):
        gradcheck(lambda x, d: x.to_dense() * x.to_dense().detach(), (x, d), masked=masked)


def test_a_backward_that_is_not_linear_is_found():
    def shifted(x):
        y = x.clone()
        y.register_hook(lambda g: g + 1e-2)
        return y

    x = flambeau.ones(2, dtype=flambeau.float64, requires_grad=True)
    for fast_mode in (False, True):
        with pytest.raises(GradcheckError, match="multiplied by the gradient"):
            gradcheck(shifted, (x,), atol=0.1, fast_mode=fast_mode)
        assert not gradcheck(shifted, (x,), atol=0.1, fast_mode=fast_mode, raise_exception=False)


def test_single_precision_is_warned_of():
    x = flambeau.ones(2, requires_grad=True)
    with pytest.warns(UserWarning, match="float64"):
        assert gradcheck(lambda x: x * x, (x,), eps=1e-2, atol=1e-2)


def test_forward_mode_of_a_function_with_its_context_in_forward():
    class Scaled(flambeau.autograd.Function):
        factor = 2.0

        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            ctx.save_for_forward(x)
            return x * x

        @staticmethod
        def backward(ctx, grad):
            return 2 * ctx.saved_tensors[0] * grad

        @staticmethod
        def jvp(ctx, tangent):
            return Scaled.factor * ctx.saved_tensors[0] * tangent

    x = flambeau.tensor([1.0, 3.0], dtype=flambeau.float64, requires_grad=True)
    assert gradcheck(Scaled.apply, (x,), check_forward_ad=True)
    Scaled.factor = 3.0
    with pytest.raises(GradcheckError, match="forward mode"):
        gradcheck(Scaled.apply, (x,), check_forward_ad=True)


def test_functions_that_draw_again_what_they_drew():
    x = flambeau.randn(4, dtype=flambeau.float64, requires_grad=True)

    def noisy(x):
        state = flambeau.get_rng_state()
        result = flambeau.nn.functional.dropout(x, 0.5) * flambeau.rand_like(x)
        flambeau.set_rng_state(state)
        return result

    before = flambeau.get_rng_state()
    for fast_mode in (False, True):
        assert gradcheck(noisy, (x,), fast_mode=fast_mode, check_forward_ad=True)
    assert flambeau.equal(flambeau.get_rng_state(), before)


def test_functions_with_their_context_in_forward_are_checked_in_every_mode():
    class Product(flambeau.autograd.Function):
        @staticmethod
        def forward(ctx, x, y):
            ctx.save_for_backward(x, y)
            ctx.save_for_forward(x, y)
            return x * y

        @staticmethod
        def backward(ctx, grad):
            x, y = ctx.saved_tensors
            return grad * y, grad * x

        @staticmethod
        def jvp(ctx, a, b):
            x, y = ctx.saved_tensors
            return a * y + x * b

    inputs = [flambeau.randn(3, dtype=flambeau.float64, requires_grad=True) for _ in range(2)]
    assert flambeau.autograd.gradcheck(Product.apply, inputs, check_forward_ad=True, check_batched_forward_grad=True)
