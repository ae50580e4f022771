"""Saved-tensor hooks: what a node keeps goes through the user's functions and comes back."""

import gc
import weakref

import pytest

import flambeau
from flambeau.autograd import Function, graph


def leaf(*values):
    return flambeau.tensor(values, dtype=flambeau.float64, requires_grad=True)


def test_pack_sees_each_saved_tensor_and_unpack_gives_it_back():
    packed, unpacked = [], []
    x = leaf(1.0, 2.0)

    def pack(t):
        packed.append(t.tolist())
        return len(packed) - 1

    def unpack(k):
        unpacked.append(k)
        return flambeau.tensor(packed[k], dtype=flambeau.float64)
    with graph.saved_tensors_hooks(pack, unpack):
        y = x.exp() * x
    y.sum().backward()
    assert x.grad.tolist() == pytest.approx([2 * 2.718281828459045, 3 * 7.38905609893065])
    assert len(packed) == 3 and sorted(unpacked) == [0, 1, 2]


def test_packed_tensors_have_no_history():
    x = leaf(1.0)
    seen = []
    with graph.saved_tensors_hooks(lambda t: seen.append(t.requires_grad) or t, lambda t: t):
        (x * x).exp()
    assert seen and not any(seen)


def test_second_derivatives_through_hooks():
    for value in (2.0, 3.0):
        x = leaf(value)
        with graph.saved_tensors_hooks(lambda t: t.clone(), lambda t: t):
            y = x ** 3 * x.exp()
            (g,) = flambeau.autograd.grad(y, x, create_graph=True)
        (h,) = flambeau.autograd.grad(g, x)
        e = flambeau.tensor(value, dtype=flambeau.float64).exp().item()
        assert g.item() == pytest.approx((3 * value ** 2 + value ** 3) * e)
        assert h.item() == pytest.approx((6 * value + 6 * value ** 2 + value ** 3) * e)


def test_lists_of_tensors_are_packed_one_by_one():
    a, b = leaf(1.0, 2.0), leaf(3.0, 4.0)
    count = []
    with graph.saved_tensors_hooks(lambda t: count.append(1) or t, lambda t: t):
        y = flambeau.einsum("i,i->", a, b)
    y.backward()
    assert a.grad.tolist() == [3.0, 4.0] and count


def test_hooks_nest_and_the_innermost_runs():
    x, used = leaf(1.0), []
    with graph.saved_tensors_hooks(lambda t: used.append("outer") or t, lambda t: t):
        with graph.saved_tensors_hooks(lambda t: used.append("inner") or t, lambda t: t):
            x.exp()
        x.exp()
    x.exp()
    assert used == ["inner", "outer"]


def test_unpack_must_give_a_tensor():
    x = leaf(1.0)
    with graph.saved_tensors_hooks(lambda t: t, lambda t: 3):
        y = x.exp()
    with pytest.raises(TypeError, match="the unpack hook must return a Tensor"):
        y.backward()


def test_pack_must_not_write():
    x = leaf(1.0)
    with graph.saved_tensors_hooks(lambda t: t.add_(1), lambda t: t), pytest.raises(RuntimeError, match="in place"):
        x.exp()


def test_an_exception_in_pack_leaves_everything_in_order():
    x = leaf(1.0)

    def pack(t):
        raise KeyError("no")
    with pytest.raises(KeyError), graph.saved_tensors_hooks(pack, lambda t: t):
        x.exp()
    x.exp().backward()
    assert x.grad.item() == pytest.approx(2.718281828459045)


def test_function_saves_through_hooks():
    class Square(Function):
        @staticmethod
        def forward(ctx, x):
            y = x * x
            ctx.save_for_backward(x, y)
            return y

        @staticmethod
        def backward(ctx, g):
            x, y = ctx.saved_tensors
            assert y.item() == x.item() ** 2
            return 2 * x * g
    x, names = leaf(3.0), []
    with graph.saved_tensors_hooks(lambda t: names.append(t.item()) or t * 1, lambda t: t):
        y = Square.apply(x)
    (g,) = flambeau.autograd.grad(y, x, create_graph=True)
    (h,) = flambeau.autograd.grad(g, x)
    assert names == [3.0, 9.0] and (g.item(), h.item()) == (6.0, 2.0)


def test_save_on_cpu():
    x = leaf(2.0)
    with graph.save_on_cpu():
        y = x ** 3
    y.backward()
    assert x.grad.item() == 12


def test_disabled_hooks_say_why():
    with (graph.disable_saved_tensors_hooks("not in here"), pytest.raises(RuntimeError, match="not in here"),
          graph.saved_tensors_hooks(lambda t: t, lambda t: t)):
        pass
    with graph.saved_tensors_hooks(lambda t: t, lambda t: t):
        pass


def test_hooks_of_one_saved_tensor():
    x = leaf(2.0)
    y = x.exp()
    y.grad_fn._raw_saved_result.register_hooks(lambda t: t.tolist(),
                                               lambda v: flambeau.tensor(v, dtype=flambeau.float64) * 10)
    y.sum().backward()
    assert x.grad.item() == pytest.approx(73.8905609893065)
    with pytest.raises(RuntimeError, match=r"has hooks already|was freed by"):
        z = x.exp()
        z.grad_fn._raw_saved_result.register_hooks(lambda t: t, lambda t: t)
        z.grad_fn._raw_saved_result.register_hooks(lambda t: t, lambda t: t)


def test_mutation_of_saved_tensors_where_allowed():
    x = leaf(1.0, 2.0)
    with graph.allow_mutation_on_saved_tensors():
        y = x * 3
        z = y * y
        y.zero_()
        y[0] = 5
        z.sum().backward()
    assert x.grad.tolist() == [18.0, 36.0]
    with pytest.raises(RuntimeError, match="changed in place since"):
        y = x * 3
        z = y * y
        y.zero_()
        z.sum().backward()


def test_packed_objects_die_with_the_graph():
    class Kept:
        pass
    x, refs = leaf(1.0), []

    def pack(t):
        kept = Kept()
        refs.append(weakref.ref(kept))
        return kept
    with graph.saved_tensors_hooks(pack, lambda k: None):
        y = x.exp()
    assert refs[0]() is not None
    del y
    gc.collect()
    assert refs[0]() is None


def test_packed_objects_are_freed_by_backward():
    x, refs = leaf(1.0), []

    def pack(t):
        t = t.clone()
        refs.append(weakref.ref(t))
        return t
    with graph.saved_tensors_hooks(pack, lambda t: t):
        y = x.exp()
    y.backward()
    assert refs[0]() is None and y is not None


def test_without_cuda_nothing_is_pinned():
    x = flambeau.ones(2, requires_grad=True)
    with flambeau.autograd.graph.save_on_cpu(pin_memory=True):
        y = x.exp().sum()
    y.backward()
    assert flambeau.allclose(x.grad, x.exp())


def test_scopes_are_decorators_too():
    @graph.disable_saved_tensors_hooks("not in here")
    def step(again):
        with pytest.raises(RuntimeError, match="not in here"), graph.saved_tensors_hooks(lambda x: x, lambda x: x):
            pass
        if again:
            step(False)

    step(True)
    with graph.saved_tensors_hooks(lambda x: x, lambda x: x):
        pass

    @graph.allow_mutation_on_saved_tensors()
    def slope(x):
        y = x * 2
        z = y * y
        y.zero_()
        return flambeau.autograd.grad(z.sum(), x)[0]

    assert slope(flambeau.ones(2, requires_grad=True)).tolist() == [8, 8]
