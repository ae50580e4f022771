"""Which memory views name, and where creation operators and copies have their edges."""

import numpy as np
import pytest

import flambeau
from flambeau import arange, ones, tensor, zeros


def block(*shape):
    return arange(float(np.prod(shape))).view(shape)


@pytest.mark.parametrize("view, shape, stride, offset", [
    (lambda: block(2, 6).view(3, -1, 2), (3, 2, 2), (4, 2, 1), 0),
    (lambda: block(4, 6)[:, ::2].view(2, 2, 3), (2, 2, 3), (12, 6, 2), 0),
    (lambda: block(2, 3, 4).permute(2, 0, 1), (4, 2, 3), (1, 12, 4), 0),
    (lambda: block(2, 3).unsqueeze(1), (2, 1, 3), (3, 3, 1), 0),
    (lambda: block(1, 3, 1).squeeze((0, 2)), (3,), (1,), 0),
    (lambda: block(1, 3).expand(2, 2, 3), (2, 2, 3), (0, 0, 1), 0),
    (lambda: block(4, 3).narrow(0, 1, 2), (2, 3), (3, 1), 3),
    (lambda: block(4, 3).select(1, -1), (4,), (3,), 2),
    (lambda: block(2, 5).unfold(1, 2, 2), (2, 2, 2), (5, 2, 1), 0),
    (lambda: block(2, 3, 4).diagonal(-1, -1, 0), (3, 2), (4, 13), 1),
    (lambda: block(2, 3, 4).movedim((0, 1), (2, 0)), (3, 4, 2), (4, 1, 12), 0),
    (lambda: block(2, 6).unflatten(1, (2, 3)), (2, 2, 3), (6, 3, 1), 0),
    (lambda: block(5).flatten(), (5,), (1,), 0),
    (lambda: block(6)[::-2], (3,), (-2,), 5),
    (lambda: block(2, 3, 4).mT, (2, 4, 3), (12, 1, 4), 0),
    (lambda: block(5, 2).chunk(2)[1], (2, 2), (2, 1), 6),
])
def test_views_name_the_memory_pytorchs_do(view, shape, stride, offset):
    v = view()
    assert (tuple(v.shape), tuple(v.stride()), v.storage_offset()) == (shape, stride, offset)
    assert v._base is not None


@pytest.mark.parametrize("call, error, text", [
    (lambda: block(2, 6).view(5), RuntimeError, "12 elements cannot have shape"),
    (lambda: block(2, 6).t().view(12), RuntimeError, "without a copy"),
    (lambda: block(3).view(-1, -1), RuntimeError, "-1 can stand for one size only"),
    (lambda: zeros(0).view(-1, 0), RuntimeError, "does not say what -1 stands for"),
    (lambda: block(2, 3).permute(0, 0), RuntimeError, "named twice"),
    (lambda: block(2, 3).transpose(0, 5), IndexError, "is out of range for"),
    (lambda: block(3).expand(4), RuntimeError, "cannot be expanded to"),
    (lambda: block(5).split([1, 1]), RuntimeError, "must add up to 5"),
    (lambda: block(6).as_strided((5, 5), (1, 2)), RuntimeError, "outside the storage"),
    (lambda: block(6).as_strided((2,), (-1,)), RuntimeError, "outside the storage"),
    (lambda: flambeau.randperm(2050, dtype=flambeau.float16), RuntimeError, "too large"),
    (lambda: flambeau.Size([1]) + [2], TypeError, "tuple"),
    (lambda: flambeau.Size([1]) + ("a",), TypeError, "sizes are ints"),
    (lambda: flambeau.cat([zeros(2, 3), zeros(3, 2)]), RuntimeError, "they may differ only in dimension 0"),
    (lambda: flambeau.stack([zeros(2), zeros(3)]), RuntimeError, "all must have one shape"),
    (lambda: flambeau.cat([]), ValueError, "the list of tensors is empty"),
    (lambda: zeros(3).expand(2, 3).copy_(zeros(2, 3)), RuntimeError, "written to share memory"),
    (lambda: zeros(2).repeat(2**62, 2**62), RuntimeError, "overflow|more elements"),
    (lambda: zeros(2**40, 2**40), RuntimeError, "overflow"),
    (lambda: zeros(-1), RuntimeError, "sizes must not be negative"),
    (lambda: zeros(2, dtype=flambeau.int64, requires_grad=True), RuntimeError, "floating-point or complex dtype"),
    (lambda: arange(0, 5, 0), RuntimeError, "step must be nonzero"),
    (lambda: arange(5, 0), RuntimeError, "one never gets from 5 to 0"),
    (lambda: arange(float("nan")), RuntimeError, "unsupported range"),
    (lambda: arange(1e300), RuntimeError, "overflow"),
    (lambda: flambeau.tril_indices(2**50, 3), RuntimeError, "below 2"),
])
def test_errors(call, error, text):
    with pytest.raises(error, match=text):
        call()


@pytest.mark.parametrize("args, count, dtype", [
    ((5,), 5, flambeau.int64), ((5.0,), 5, flambeau.float32), ((1, 6, 2), 3, flambeau.int64),
    ((0, 1, 0.1), 10, flambeau.float32),
    ((5, 0, -2), 3, flambeau.int64), ((0,), 0, flambeau.int64), ((2**62, 2**62 + 3), 3, flambeau.int64),
    ((-2**63, 2**63 - 1, 2**62), 4, flambeau.int64),
])
def test_arange_counts_exactly(args, count, dtype):
    made = arange(*args)
    assert (made.numel(), made.dtype) == (count, dtype)
    np.testing.assert_allclose(made.numpy(), np.arange(*args)[:count], rtol=1e-6)


def test_like_keeps_the_order_of_memory():
    assert flambeau.zeros_like(block(2, 3).t()).stride() == (1, 3)
    assert flambeau.zeros_like(block(4, 6)[:, ::2]).stride() == (3, 1)
    assert flambeau.zeros_like(block(2, 3).t(), memory_format=flambeau.contiguous_format).stride() == (2, 1)
    assert flambeau.empty(2, 3, 4, 5, memory_format=flambeau.channels_last).stride() == (60, 1, 15, 3)
    assert block(2, 3, 4, 5).contiguous(memory_format=flambeau.channels_last).stride() == (60, 1, 15, 3)


def test_contiguous_of_a_contiguous_tensor_is_itself():
    x = ones(2, requires_grad=True)
    assert x.contiguous() is x


def test_linspace_ends_exactly():
    made = flambeau.linspace(0.1, 0.7, 1001)
    assert made[-1].item() == tensor(0.7).item() and made[0].item() == tensor(0.1).item()


def test_cat_of_many_with_some_gradients():
    parts = [flambeau.full((2,), float(k), requires_grad=k % 3 == 0) for k in range(100)]
    (flambeau.cat(parts) * arange(200.0)).sum().backward()
    for k, p in enumerate(parts):
        assert (p.grad is None) if k % 3 else p.grad.tolist() == [2 * k, 2 * k + 1]


def test_iterating_over_many_rows_with_gradients():
    x = zeros(1000, 2, requires_grad=True)
    sum(row.sum() for row in x).backward()
    assert (x.grad == 1).all()


def test_legacy_empty_tensors_join_anything():
    x = ones(2, 3, requires_grad=True)
    empty = zeros(0, requires_grad=True)
    flambeau.cat([empty, x, x]).sum().backward()
    assert (x.grad == 2).all() and empty.grad.shape == (0,)


def test_overlapping_copies_read_before_they_write():
    x = arange(6)
    x[1:] = x[:-1]
    assert x.tolist() == [0, 0, 1, 2, 3, 4]
    x = block(3, 3)
    x.copy_(x.t())
    assert x.tolist() == block(3, 3).t().tolist()


def test_roll_wraps_any_shift():
    x = np.arange(24.0).reshape(4, 3, 2)
    for shifts, dims in (((1, 5, -1), (0, 1, 2)), ((-9,), (1,)), ((2, 3), (0, 0))):
        assert np.array_equal(tensor(x).roll(shifts, dims).numpy(), np.roll(x, shifts, dims))
    assert np.array_equal(tensor(x).roll(-5).numpy(), np.roll(x, -5))
    long = np.arange(3.0 * 1100).reshape(3, 1100)  # shifted rows lie a few bytes apart modulo a page
    for shift in (1, 7, 1099):
        assert np.array_equal(tensor(long).roll(shift, 1).numpy(), np.roll(long, shift, 1))


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.float32, np.float64, np.complex128])
def test_narrow_pieces_are_joined_as_wide_ones(dtype):
    for count in (2, 3, 4, 5, 9):
        parts = [(np.arange(4000) + 31 * k).astype(dtype) for k in range(count)]
        assert np.array_equal(flambeau.stack([tensor(p) for p in parts], -1).numpy(), np.stack(parts, -1))
        mixed = [p[:3000].reshape(1000, 3)[:, :1 + k % 3].copy() for k, p in enumerate(parts)]
        assert np.array_equal(flambeau.cat([tensor(p) for p in mixed], 1).numpy(), np.concatenate(mixed, 1))


def test_meta_tensors_have_shapes_only():
    m = zeros(2, 3, device="meta")
    i = zeros(2, dtype=flambeau.int64, device="meta")
    assert m[:, i].shape == (2, 2) and m[0].shape == (3,) and m.repeat(2, 2).shape == (4, 6)
    assert flambeau.cat([m, m]).shape == (4, 3) and m.flip(0).is_meta and m.copy_(m).is_meta
    with pytest.raises(NotImplementedError, match="meta"):
        m.nonzero()


def test_shape_in_place_keeps_history():
    x = ones(2, 3, requires_grad=True)
    y = x * 2
    assert y.t_() is y and y.shape == (3, 2)
    y.mul_(block(3, 2))
    y.unsqueeze_(0).sum().backward()
    assert x.grad.tolist() == (2 * block(3, 2).t()).tolist()
    with pytest.raises(RuntimeError, match="leaf"):
        x.unsqueeze_(0)


def test_resize_in_another_memory_format():
    for shape, form in (((2, 3, 4, 5), flambeau.channels_last), ((1, 2, 3, 2, 2), flambeau.channels_last_3d)):
        x = arange(6).resize_(shape, memory_format=form)
        expected = flambeau.empty(shape).contiguous(memory_format=form)
        assert x.shape == shape and x.stride() == expected.stride() and x.is_contiguous(memory_format=form)
        assert arange(6).resize_as_(x, memory_format=form).stride() == x.stride()
    with pytest.raises(RuntimeError, match="preserve_format"):
        arange(2).resize_(2, memory_format=flambeau.preserve_format)


def test_resize_grows_only_memory_of_its_own():
    x = arange(6)
    assert x.resize_(2, 2).tolist() == [[0, 1], [2, 3]]
    assert x.resize_(40).shape == (40,) and x[:4].tolist() == [0, 1, 2, 3]
    part = arange(6)[2:4]
    with pytest.raises(NotImplementedError, match=r"share|view"):
        part.resize_(100)
    with pytest.raises(RuntimeError, match="overflow"):
        arange(2).resize_(2**62, 2)


def test_split_by_the_names_of_the_function():
    x = flambeau.arange(6)
    for sections in (2, [2, 2, 2]):
        parts = flambeau.split(tensor=x, split_size_or_sections=sections)
        assert [part.tolist() for part in parts] == [[0, 1], [2, 3], [4, 5]]
        assert parts[1].data_ptr() == x[2:].data_ptr()
    assert [part.tolist() for part in x.split(split_size=(1, 5), dim=0)] == [[0], [1, 2, 3, 4, 5]]
    assert [part.tolist() for part in flambeau.split(x, split_size_or_sections=4, dim=0)] == [[0, 1, 2, 3], [4, 5]]


def test_swapaxes_is_transpose_with_numpys_names():
    x = flambeau.arange(6.0, requires_grad=True)
    y = flambeau.swapaxes(x.view(2, 3), axis0=0, axis1=1)
    assert y.shape == (3, 2) and y.data_ptr() == x.data_ptr()
    (y * flambeau.arange(6.0).view(3, 2)).sum().backward()
    assert x.grad.tolist() == [0, 2, 4, 1, 3, 5]
    z = flambeau.zeros(2, 3)
    assert z.swapaxes_(axis0=0, axis1=1) is z and z.shape == (3, 2)


@pytest.mark.parametrize("offset, dims", [(0, (-2, -1)), (2, (-1, -2)), (-1, (0, 2)), (1, (1, 0))])
def test_diag_embed_is_read_back_by_diagonal(offset, dims):
    x = arange(1, 7).reshape(2, 3)
    y = flambeau.diag_embed(x, offset, *dims)
    assert flambeau.equal(y.diagonal(offset, *dims), x) and y.sum() == x.sum()
    assert flambeau.equal(flambeau.diag_embed(x.t(), offset, *dims).diagonal(offset, *dims), x.t())


def test_diag_embed_of_wrong_dimensions():
    with pytest.raises(RuntimeError, match="twice"):
        flambeau.diag_embed(ones(2), 0, 1, -1)
    with pytest.raises(RuntimeError, match="no dimension"):
        flambeau.diag_embed(ones(()), 0, 0, -1)
    with pytest.raises(IndexError, match="diag_embed: dim 2"):
        flambeau.diag_embed(ones(2), 0, 0, 2)


@pytest.mark.parametrize("dtype", ["uint8", "int16", "float32", "float64", "complex64", "complex128"])
def test_copies_that_deal_out_collect_and_reverse(dtype):
    """Runs that go to several places in turn, as channels that become pixels, parts of numbers, rows read backwards."""
    for groups in (2, 3, 4, 6, 8):
        x = (flambeau.arange(5 * 37 * groups * 2) % 251).to(getattr(flambeau, dtype)).view(5, 37, groups, 2)
        n = x.numpy()
        for order in ((2, 0, 1, 3), (2, 3, 0, 1), (3, 2, 0, 1), (0, 2, 3, 1), (0, 3, 2, 1), (3, 0, 2, 1)):
            np.testing.assert_array_equal(x.permute(order).contiguous().numpy(), n.transpose(order))
        np.testing.assert_array_equal(x.view(-1, groups)[:, 1].contiguous().numpy(), n.reshape(-1, groups)[:, 1])
        for dims in ((3,), (1, 3), (0, 1, 2, 3)):
            np.testing.assert_array_equal(x.flip(dims).numpy(), np.flip(n, dims))
        rows = n.reshape(5, -1)
        np.testing.assert_array_equal(x.view(5, -1).flip(1).numpy(), rows[:, ::-1])
        np.testing.assert_array_equal(x.view(5, -1).rot90().numpy(), np.rot90(rows))


def test_sizes_one_by_one_are_whatever_counts():
    x, twelve = zeros(2, 3, 4), np.prod([3, 4])
    for sizes in ((-1, twelve), (twelve, -1), (np.int64(2), np.int32(12)), (-1, tensor(12))):
        assert x.view(*sizes).numel() == 24 and x.view(*sizes).shape == x.reshape(*sizes).shape
    with pytest.raises(TypeError, match="no form"):
        x.view(2, np.float64(12))


def test_the_older_names_of_reshape():
    x = arange(6.0).reshape(2, 3).requires_grad_()
    assert x.resize(3, 2).tolist() == x.resize_as(flambeau.empty(3, 2)).tolist() == [[0, 1], [2, 3], [4, 5]]
    x.resize(6)[4].backward()
    assert x.grad.tolist() == [[0, 0, 0], [0, 1, 0]]
    with pytest.raises(RuntimeError, match="6"):
        x.resize(7)


def test_split_takes_whole_numbers_and_lists_of_them():
    x = arange(3)
    assert [p.tolist() for p in x.split(tensor(2))] == [p.tolist() for p in x.split(np.int64(2))] == [[0, 1], [2]]
    for wrong in (2.5, "a", None, True, tensor(1.5), tensor([1, 2]), [1., 2]):
        with pytest.raises(TypeError):
            x.split(wrong)


def test_the_adjoint_of_a_number():
    assert tensor(1 + 2j).adjoint().item() == 1 - 2j and tensor(1.5).adjoint().item() == 1.5


def test_block_diag_counts_tensors_without_dimensions_as_numbers():
    assert flambeau.block_diag(tensor(1.5), ones(1, 1, dtype=flambeau.float16)).dtype is flambeau.float16
    assert flambeau.block_diag(tensor(1.5), tensor([[1]])).dtype is flambeau.float32


def test_broadcast_shapes_refuses_negative_sizes():
    for wrong in ((-1,), (1, -12)):
        with pytest.raises(ValueError, match="negative"):
            flambeau.broadcast_shapes((1, 1), wrong)


def test_new_dimensions_of_size_1_step_over_what_follows():
    x = flambeau.ones(5)
    assert [x.expand(size).stride() for size in ((1, 5), (1, 1, 5), (2, 5), (1, 2, 5), (2, 1, 5))] == [
        (5, 1), (5, 5, 1), (0, 1), (0, 0, 1), (0, 5, 1)]
    assert flambeau.ones(3, 1).expand(1, 1, 3, 4).stride() == (3, 3, 1, 0)
    assert flambeau.tensor(2.0).expand(1, 1).stride() == (0, 0)
