"""Tensors of a user's class without memory (`_make_wrapper_subclass`), alone and under transforms."""

import pytest

import flambeau
from flambeau.func import grad, vmap
from flambeau.utils._pytree import tree_map


class Logged(flambeau.Tensor):
    calls = []

    @staticmethod
    def __new__(cls, inner):
        made = flambeau.Tensor._make_wrapper_subclass(
            cls, inner.size(), strides=inner.stride(), dtype=inner.dtype, device=inner.device,
            requires_grad=inner.requires_grad)
        made.inner = inner.detach()
        return made

    def __repr__(self, **_):
        return f"Logged({self.inner})"

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        def opened(x):
            return x.inner if isinstance(x, Logged) else x

        def closed(x):
            return Logged(x) if isinstance(x, flambeau.Tensor) and not isinstance(x, Logged) else x

        cls.calls.append(func.name)
        return tree_map(closed, func(*tree_map(opened, args), **tree_map(opened, kwargs or {})))


def same(a, b):
    flambeau.testing.assert_close(a, b)


def test_operators_and_gradients():
    x = Logged(flambeau.arange(6.).reshape(2, 3))
    assert (x.shape, x.stride(), x.dtype) == ((2, 3), (3, 1), flambeau.float32)
    Logged.calls.clear()
    same((x @ x.t() + 1).inner, flambeau.tensor([[6., 15.], [15., 51.]]))
    assert Logged.calls == ["t", "mm", "add"] or "add" in Logged.calls
    y = Logged(flambeau.ones(3, requires_grad=True))
    (y * 2).exp().sum().backward()
    assert type(y.grad) is Logged
    same(y.grad.inner, 2 * flambeau.ones(3).mul(2).exp())
    assert type(y.detach()) is Logged and not y.detach().requires_grad
    assert x.sum().item() == 15 and bool(x.sum() > 0)
    x.add_(1)
    same(x.inner.sum(), flambeau.tensor(21.))
    with pytest.raises(RuntimeError):
        x.numpy()
    with pytest.raises(RuntimeError), flambeau.overrides.disable_torch_dispatch():
        x + 1


def test_under_transforms():
    x = Logged(flambeau.arange(6.).reshape(2, 3))
    out = vmap(lambda a: a.sin().sum())(x)
    assert type(out) is Logged
    same(out.inner, x.inner.sin().sum(1))
    same(grad(lambda a: (a * a).sum())(x).inner, 2 * x.inner)
    same(vmap(grad(lambda a: (a * a).sum()))(x).inner, 2 * x.inner)


def test_copies_of_wrapped_tensors():
    x = flambeau.randn(3, 2)
    same(vmap(lambda a: flambeau.tensor(a) * 2)(x), x * 2)
    with pytest.raises(RuntimeError):
        vmap(lambda a: flambeau.tensor([a[0], a[1]]))(x)
    with pytest.raises(TypeError):
        vmap(lambda a: flambeau.save(a, "/dev/null"))(x)
    for take in (lambda a: a.as_subclass(flambeau.Tensor), flambeau.Tensor,
                 lambda a: a.resize_(1), lambda a: a.untyped_storage().tolist(), lambda a: memoryview(a).tolist()):
        with pytest.raises((RuntimeError, BufferError, NotImplementedError)):
            vmap(lambda a, take=take: (take(a), a)[1])(x)


def test_what_a_class_keeps_in_slots_stays_when_history_is_left_out():
    class Slotted(Logged):
        __slots__ = ("inner", "note")

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            opened = tree_map(lambda x: x.inner if isinstance(x, cls) else x, args)
            return cls(func(*opened, **(kwargs or {})))

    x = Slotted(flambeau.ones(2, requires_grad=True))
    for other in (x.detach(), x.data, (x * 2).detach()):
        assert type(other) is Slotted and other.inner.shape == (2,) and not hasattr(other, "note")
    x.note = "kept"
    assert x.detach().note == "kept"
    same(flambeau.autograd.functional.jacobian(lambda x: x * x, x).inner, 2 * flambeau.eye(2))


@pytest.mark.parametrize("vectorize", [False, True])
def test_jacobians_of_functions_of_wrappers(vectorize):
    x = Logged(flambeau.tensor([1.0, 2.0], requires_grad=True))
    found = flambeau.autograd.functional.jacobian(lambda x: x * x, x, vectorize=vectorize)
    same(found.inner, 2 * flambeau.tensor([1.0, 2.0]).diag())


@pytest.mark.parametrize("fast_mode", [False, True])
def test_gradients_of_wrappers_are_checked(fast_mode):
    x = Logged(flambeau.rand(2, 3, dtype=flambeau.float64).requires_grad_())
    assert flambeau.autograd.gradcheck(lambda x: x.sin() * x, (x,), fast_mode=fast_mode)
