"""In-place writes and views: versions are checked, histories follow the memory."""

import pytest

import flambeau
from flambeau.autograd import grad


def leaf(*shape):
    return flambeau.rand(*shape, dtype=flambeau.float64, requires_grad=True)


def ones(*shape):
    return flambeau.ones(*shape, dtype=flambeau.float64)


def test_version_counts_writes():
    x = ones(2, 2)
    start = x._version
    x.add_(1)
    x[0].mul_(2)
    x.view(4)[1] = 5
    assert x._version >= start + 3
    assert x[1]._version == x._version == x.detach()._version


def test_changed_saved_tensor_is_refused():
    x = leaf(3)
    y = x.exp()
    y.add_(1)  # exp keeps its result
    with pytest.raises(RuntimeError, match=r"changed in place since"):
        y.sum().backward()


def test_changed_input_is_refused():
    x, w = leaf(3), ones(3)
    y = x * w
    w.add_(1)
    with pytest.raises(RuntimeError, match=r"changed in place since"):
        y.sum().backward()


def test_unsaved_inputs_may_change():
    x, w = leaf(3), ones(3)
    y = x + w
    w.add_(1)
    y.sum().backward()
    assert x.grad.tolist() == [1.0] * 3


def test_in_place_chain():
    x = leaf(3)
    y = x * 1
    y.mul_(3).add_(2)
    y.sum().backward()
    assert flambeau.allclose(x.grad, 3 * ones(3))
    assert y.grad_fn is not None


def test_in_place_makes_a_plain_tensor_part_of_the_graph():
    x, buffer = leaf(3), flambeau.zeros(3, dtype=flambeau.float64)
    buffer.add_(x * 2)
    assert buffer.requires_grad
    buffer.sum().backward()
    assert x.grad.tolist() == [2.0] * 3


def test_leaf_and_its_views_are_protected():
    x = leaf(2, 2)
    with pytest.raises(RuntimeError, match=r"leaf"):
        x.mul_(2)
    with pytest.raises(RuntimeError, match=r"leaf"):
        x[0].mul_(2)
    with pytest.raises(RuntimeError, match=r"leaf"):
        x[0] = 1.0


def test_write_through_a_view_reaches_the_base():
    x = leaf(4)
    y = x * 1
    y[1:3].mul_(10)
    y.sum().backward()
    assert x.grad.tolist() == [1.0, 10.0, 10.0, 1.0]


def test_write_to_the_base_reaches_an_older_view():
    x = leaf(4)
    y = x * 1
    v = y[1:3]
    y.mul_(5)
    v.sum().backward()
    assert x.grad.tolist() == [0.0, 5.0, 5.0, 0.0]


def test_write_through_a_view_of_a_view():
    x = leaf(2, 3)
    y = x * 1
    y[0][1:].mul_(4)
    y.t()[2].mul_(3)
    y.sum().backward()
    assert x.grad.tolist() == [[1.0, 4.0, 12.0], [1.0, 1.0, 3.0]]


def test_write_through_a_view_into_a_plain_base():
    base = flambeau.zeros(4, dtype=flambeau.float64)
    x = leaf(2)
    view = base[1:3]
    view.copy_(x)
    assert base.requires_grad
    (base * flambeau.arange(4, dtype=flambeau.float64)).sum().backward()
    assert x.grad.tolist() == [1.0, 2.0]


def test_assignment_with_index():
    x, base = leaf(2), flambeau.zeros(2, 3, dtype=flambeau.float64)
    base[:, 1] = x * 2
    base[0, 0] = 7.0
    (base ** 2).sum().backward()
    assert flambeau.allclose(x.grad, 8 * x.detach())


def test_overwritten_values_have_no_gradient():
    x = leaf(3)
    y = x * 2
    y[1] = 0.0
    y.sum().backward()
    assert x.grad.tolist() == [2.0, 0.0, 2.0]
    x.grad = None
    z = x * 2
    z.zero_()
    z.sum().backward()
    assert x.grad.tolist() == [0.0] * 3


def test_view_of_a_leaf_made_under_no_grad_may_not_be_written_with_grad():
    x = leaf(3)
    with flambeau.no_grad():
        v = x[1:]
    with pytest.raises(RuntimeError):
        v.mul_(2)


def test_detached_alias_shares_memory_and_version():
    x = leaf(3)
    y = x * 1
    d = y.detach()
    before = y._version
    d.add_(1)
    assert y._version == before + 1
    assert flambeau.allclose(y.detach(), x.detach() + 1)


def test_data_does_not_count():
    x = leaf(3)
    y = x * x
    x.data.add_(0)
    y.sum().backward()
    assert x.grad is not None


def test_parts_of_a_split_are_written_like_other_views():
    x = leaf(4)
    y = x * 1
    a, _ = y.split(2)
    a.mul_(2)
    y.unbind(0)[3].mul_(5)
    y.sum().backward()
    assert x.grad.tolist() == [2.0, 2.0, 1.0, 5.0]


def test_expanded_target_is_refused():
    x = flambeau.ones(1, dtype=flambeau.float64).expand(3)
    with pytest.raises(RuntimeError, match="elements of the tensor written to share memory"):
        x.add_(1)


def test_in_place_needs_room():
    with pytest.raises(RuntimeError, match=r"shape"):
        ones(3).add_(ones(2, 3))


def test_in_place_cannot_narrow_kind():
    with pytest.raises(RuntimeError, match="the result is float32, which a tensor of int64"):
        flambeau.ones(2, dtype=flambeau.int64).mul_(1.5)


def test_double_backward_through_an_in_place_view_write():
    x = leaf(3)
    y = x * 1
    y[0:2].pow_(2)
    (g,) = grad(y.sum(), x, create_graph=True)
    (gg,) = grad(g.sum(), x)
    assert flambeau.allclose(gg, flambeau.tensor([2.0, 2.0, 0.0], dtype=flambeau.float64))


def test_shape_changed_in_place():
    x = flambeau.arange(6.0).reshape(2, 3).requires_grad_()
    y = (x * 2).t_()
    assert y.shape == (3, 2) and y.grad_fn.name() == "TBackward0"
    (y.unsqueeze_(0).squeeze_() * flambeau.arange(6.0).reshape(3, 2)).sum().backward()
    assert x.grad.tolist() == [[0.0, 4.0, 8.0], [2.0, 6.0, 10.0]]


def test_shape_of_a_view_changed_in_place():
    x = flambeau.ones(2, 3, requires_grad=True)
    base = x * 1
    row = base[1:]
    row.squeeze_(0).mul_(flambeau.tensor([1.0, 2.0, 3.0]))
    base.sum().backward()
    assert x.grad.tolist() == [[1.0, 1.0, 1.0], [1.0, 2.0, 3.0]]


def test_shape_of_a_leaf_stays():
    x = flambeau.ones(2, 3, requires_grad=True)
    with pytest.raises(RuntimeError, match="leaf that requires grad"):
        x.t_()


def test_complex_numbers_written_as_pairs():
    x = flambeau.tensor([1 + 2j, 3 - 1j], dtype=flambeau.complex128, requires_grad=True)

    def written(x):
        y = x * 1
        parts = flambeau.view_as_real(y)
        parts[:, 0].mul_(3)  # the view's history is made anew from the base's between the writes
        parts.add_(flambeau.view_as_real(x) ** 2)
        return y

    assert flambeau.autograd.gradcheck(written, (x,))
    assert flambeau.autograd.gradgradcheck(written, (x,))


def test_pairs_written_as_complex_numbers():
    x = flambeau.arange(1.0, 9.0, dtype=flambeau.float64).reshape(2, 2, 2).requires_grad_()

    def written(x):
        y = x * 1
        numbers = flambeau.view_as_complex(y[1:])
        numbers.mul_(2 + 1j)
        numbers[:, 1].mul_(flambeau.view_as_complex(x)[0, 1])
        return y

    assert flambeau.autograd.gradcheck(written, (x,))
    assert flambeau.autograd.gradgradcheck(written, (x,))


@pytest.mark.parametrize("name, expected", [("mul_", 5), ("add_", 1), ("div_", -5 / 9), ("copy_", 1)])
def test_the_first_history_of_a_base_comes_from_a_write_through_its_view(name, expected):
    a, b = flambeau.tensor([2.0, 5.0]), flambeau.tensor([3.0], requires_grad=True)
    getattr(a[1:], name)(b).sum().backward()
    assert abs(b.grad.item() - expected) < 1e-6
    a, b = flambeau.tensor([2.0, 5.0]), flambeau.tensor([3.0], requires_grad=True)
    getattr(a[1:], name)(b)
    a.sum().backward()
    assert a.requires_grad and abs(b.grad.item() - expected) < 1e-6


@pytest.mark.parametrize("name", ["normal_", "mul_"])
def test_errors_name_the_call_that_was_made(name):
    leaf = flambeau.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match=f"^{name}: this tensor is a leaf"):
        getattr(leaf, name)(*([2] if name == "mul_" else []))


def test_what_is_replaced_by_0_or_1_has_no_gradient():
    for write in (lambda y: y.eq_(2), lambda y: y.gt_(flambeau.ones(2)), lambda y: y.logical_not_(),
                  lambda y: y.logical_and_(flambeau.ones(2)), lambda y: y.heaviside_(flambeau.ones(2))):
        x = flambeau.tensor([1.0, 2.0], requires_grad=True)
        y = x * 3
        write(y)
        assert flambeau.autograd.grad(y.sum(), x)[0].tolist() == [0, 0]


def test_a_leaf_that_wants_no_gradient_any_more_gets_none():
    for stop in (lambda x: x.requires_grad_(False), lambda x: x.detach_()):
        x, w = flambeau.ones(2, requires_grad=True), flambeau.ones(2, requires_grad=True)
        loss = (x * w).sum()
        stop(x)
        loss.backward()
        assert x.grad is None and w.grad.tolist() == [1, 1]


def test_views_that_a_mode_returns_are_views_of_the_caller():
    class Watching(flambeau.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            return func(*args, **(kwargs or {}))

    x = flambeau.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    with Watching():
        z = x.clone()
        z[0].mul_(x[1])
        z.sum().backward()
    assert x.grad.tolist() == [[3, 4], [2, 3]]


WRITES_TO_PARTS = (lambda w: w.__setitem__(0, 0.3), lambda w: w[0].mul_(2), lambda w: w.view(-1).add_(1),
                   lambda w: w.t().zero_(), lambda w: w.unbind(0)[0].add_(1))  # fmt: skip


@pytest.mark.parametrize("write", WRITES_TO_PARTS)
def test_a_leaf_that_is_a_view_is_not_written_to_through_its_parts(write):
    w = flambeau.arange(6.0).reshape(2, 3).requires_grad_()
    with pytest.raises(RuntimeError, match="view of a leaf that requires grad"):
        write(w)
    with flambeau.no_grad():
        write(w)
    (w * 2).sum().backward()
    assert w.is_leaf and w.grad.tolist() == [[2, 2, 2], [2, 2, 2]]


def test_memory_beside_a_leaf_that_is_a_view_may_be_written_to():
    base = flambeau.zeros(4)
    leaf = base[:2].requires_grad_()
    y = leaf * 2
    base[2:].add_(1)
    y.sum().backward()
    assert leaf.grad.tolist() == [2, 2] and base.tolist() == [0, 0, 1, 1]


def test_whole_numbers_written_from_floats_have_no_gradient():
    x = flambeau.ones(3, requires_grad=True)
    n, mask = flambeau.zeros(3, dtype=flambeau.int64), flambeau.zeros(3, dtype=flambeau.bool)
    n[0] = x.sum()
    n.view(-1)[1] = x[0]
    mask[:] = x
    assert not n.requires_grad and not mask.requires_grad and n.numpy().tolist() == [3, 1, 0]
    bits = x.view(flambeau.int32)
    bits.bitwise_and_(0)
    assert bits._base is None and x.tolist() == [0, 0, 0]
