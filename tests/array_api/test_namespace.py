"""The namespace of the array API standard: laws over its functions, then what differs from PyTorch's, name by name."""

import inspect
import math

import numpy as np
import pytest

import flambeau
from flambeau import array_api as xp
from flambeau.array_api._elementwise import OF_TWO

#: the functions of the standard's version 2025.12
NAMES = {
    "": """abs acos acosh add all any arange argmax argmin argsort asarray asin asinh astype atan atan2 atanh
        bitwise_and bitwise_invert bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor broadcast_arrays
        broadcast_shapes broadcast_to can_cast ceil clip concat conj copysign cos cosh count_nonzero cumulative_prod
        cumulative_sum diff divide empty empty_like equal exp expand_dims expm1 eye finfo flip floor floor_divide
        from_dlpack full full_like greater greater_equal hypot iinfo imag isdtype isfinite isin isinf isnan less
        less_equal linspace log log10 log1p log2 logaddexp logical_and logical_not logical_or logical_xor matmul
        matrix_transpose max maximum mean meshgrid min minimum moveaxis multiply negative nextafter nonzero
        not_equal ones ones_like permute_dims positive pow prod real reciprocal remainder repeat reshape result_type
        roll round searchsorted sign signbit sin sinh sort sqrt square squeeze stack std subtract sum take
        take_along_axis tan tanh tensordot tile tril triu trunc unique_all unique_counts unique_inverse
        unique_values unstack var vecdot where zeros zeros_like""",
    "linalg": """cholesky cross det diagonal eig eigh eigvals eigvalsh inv matmul matrix_norm matrix_power matrix_rank
        matrix_transpose outer pinv qr slogdet solve svd svdvals tensordot trace vecdot vector_norm""",
    "fft": "fft fftfreq fftn fftshift hfft ifft ifftn ifftshift ihfft irfft irfftn rfft rfftfreq rfftn",
}
DTYPES = [getattr(flambeau, name) for name in xp.__array_namespace_info__().dtypes(kind="numeric")]
inf, nan = math.inf, math.nan


@pytest.mark.parametrize("space", NAMES)
def test_every_function_of_the_standard_is_there_and_says_what_it_does(space):
    module = getattr(xp, space) if space else xp
    for name in NAMES[space].split():
        function = getattr(module, name)
        assert callable(function) and inspect.signature(function) and function.__doc__, name


def test_what_does_not_differ_is_the_operator_itself():
    assert xp.exp is flambeau.exp and xp.tile is flambeau.tile and xp.bitwise_invert is flambeau.bitwise_not
    assert xp.linalg.svd is flambeau.linalg.svd and xp.fft.fftfreq is flambeau.fft.fftfreq
    assert xp.float32 is flambeau.float32


@pytest.mark.parametrize("name", sorted(OF_TWO))
def test_shapes_play_no_part_in_promotion(name):
    """A function of two operands makes of any shapes what it makes of tensors of one dimension."""
    bits, bools = name.startswith("bitwise"), name.startswith("logical")
    pairs = [(xp.int8, xp.int64), (xp.uint8, xp.int16)] if bits else [(xp.float32, xp.float64)]
    for left, right in [(xp.bool, xp.bool)] if bools else pairs:
        function = getattr(xp, name)
        whole = function(xp.ones(3, dtype=left), xp.ones(3, dtype=right))
        for shapes in (((), (3,)), ((3,), ()), ((), ())):
            x, y = (xp.ones(shape, dtype=dtype) for shape, dtype in zip(shapes, (left, right)))
            assert function(x, y).dtype is whole.dtype
        number = True if bools else 1
        assert function(xp.ones(3, dtype=left), number).dtype is function(*[xp.ones(3, dtype=left)] * 2).dtype
        assert function(number, xp.ones((), dtype=left)).dtype is function(*[xp.ones((), dtype=left)] * 2).dtype


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_one_dtype_stays(dtype):
    x = xp.ones((2, 2), dtype=dtype)
    for y in (xp.add(x, x), xp.where(x == 1, x, 0), xp.concat([x, x]), xp.sort(x) if not dtype.is_complex else x,
              xp.linalg.vecdot(x, x), xp.linalg.matmul(x, x), xp.take(x, xp.asarray([0]), axis=1), xp.round(x)):
        assert y.dtype is dtype


def test_gradients_pass_through():
    x = flambeau.ones(3, requires_grad=True)
    y = xp.sum(xp.multiply(x, xp.asarray(2.0, dtype=xp.float64)))
    y.backward()
    assert y.dtype is xp.float64 and x.grad.tolist() == [2, 2, 2]


# --- named cases ------------------------------------------------------------------------------------------------------

def test_the_namespace_of_a_tensor():
    x = flambeau.ones(2)
    assert x.__array_namespace__() is x.__array_namespace__(api_version="2023.12") is xp
    assert x.to_device("cpu").tolist() == [1, 1] and x.to_device(x.device) is x
    with pytest.raises(ValueError, match=r"'2020\.01'.*2025\.12"):
        x.__array_namespace__(api_version="2020.01")
    with pytest.raises(ValueError, match="stream"):
        x.to_device("cpu", stream=1)


def test_what_the_namespace_says_of_itself():
    info = xp.__array_namespace_info__()
    assert info.devices() == (info.default_device(),) and info.capabilities()["boolean indexing"]
    assert info.default_dtypes()["real floating"] is flambeau.float32
    assert info.dtypes(kind=("bool", "signed integer")) == {
        "bool": xp.bool, "int8": xp.int8, "int16": xp.int16, "int32": xp.int32, "int64": xp.int64}
    assert len(info.dtypes(device="cpu")) == 13
    with pytest.raises(ValueError, match="meta"):
        info.default_dtypes(device="meta")
    most = info.capabilities()["max dimensions"]
    assert xp.ones((1,) * most).ndim == most
    with pytest.raises((RuntimeError, ValueError)):
        xp.ones((1,) * (most + 1))


def test_operators_follow_pytorch_outside_the_mode_and_the_standard_inside():
    x, y = flambeau.ones(2, dtype=flambeau.int8), flambeau.tensor(300)
    f, negative_zero = flambeau.tensor([inf]), flambeau.tensor([-0.0])
    assert (x + y).dtype is flambeau.int8 and (f // 2).isnan().all() and (negative_zero % 2).signbit().all()
    with xp.standard_operators():
        assert (x + y).tolist() == [301, 301]
        assert (2 + x).dtype is flambeau.int8
        assert (f // 2).tolist() == [inf]
        assert not (negative_zero % 2).signbit().any()
        assert (flambeau.ones(2, 2) @ flambeau.ones(2, 2, dtype=flambeau.float64)).dtype is flambeau.float64
        assert flambeau.ones(3, 2)[flambeau.zeros(0, dtype=flambeau.bool)].shape == (0, 2)
        f //= 2
        assert f.tolist() == [inf] and f.dtype is flambeau.float32
    assert (x + y).dtype is flambeau.int8
    with pytest.raises(IndexError):
        flambeau.ones(3, 2)[flambeau.zeros(0, dtype=flambeau.bool)]


@pytest.mark.parametrize("x1, x2, expected", [
    (inf, 2, inf), (inf, -2, -inf), (-inf, 2, -inf), (1.0, -inf, -0.0), (-1.0, inf, -0.0), (7.0, 2, 3.0),
    (-7.0, 2, -4.0),
])
def test_floor_divide(x1, x2, expected):
    found = xp.floor_divide(xp.asarray([x1]), x2).item()
    assert found == expected and math.copysign(1, found) == math.copysign(1, expected)


def test_remainder_has_the_sign_of_its_divisor():
    rest = xp.remainder(xp.asarray([0.0, -0.0, 3.0, -3.0]), xp.asarray([-2.0, 2.0, -2.0, 2.0]))
    assert rest.tolist() == [0, 0, -1, 1] and rest.signbit().tolist() == [True, False, True, False]


def test_sign_and_round_of_what_pytorch_leaves_out():
    assert xp.sign(xp.asarray([nan, -2.0])).isnan().tolist() == [True, False]
    assert xp.sign(xp.asarray([3 + 4j])).item() == pytest.approx(0.6 + 0.8j)
    assert xp.round(xp.asarray([1.5 - 2.4j])).item() == 2 - 2j


def test_tanh_at_infinity():
    z = xp.tanh(xp.asarray([complex(inf, 2), complex(-inf, 2), complex(inf, -2), complex(0.5, 2)]))
    assert z[:3].tolist() == [1, -1, 1] and z[:3].imag.signbit().tolist() == [False, False, True]
    assert z[3] == flambeau.tanh(flambeau.tensor(0.5 + 2j)) and xp.tanh(xp.asarray([inf])).tolist() == [1]


def test_clip_keeps_the_dtype():
    x = xp.asarray([1, 5], dtype=xp.int8)
    assert xp.clip(x, 2, xp.asarray(4)).tolist() == [2, 4] and xp.clip(x, max=xp.asarray(4)).dtype is xp.int8
    whole = xp.clip(x)
    assert whole.tolist() == [1, 5] and whole.data_ptr() != x.data_ptr()


def test_dtypes():
    assert xp.result_type(xp.int8, xp.uint16, xp.asarray(1, dtype=xp.uint8)) is xp.int32
    assert xp.result_type(xp.ones(2, dtype=xp.float32), 2.0, 1j) is xp.complex64
    with pytest.raises(ValueError, match="numbers only"):
        xp.result_type(1, 2.0)
    assert xp.can_cast(xp.uint8, xp.int16) and not xp.can_cast(xp.int64, xp.int32)
    assert not xp.can_cast(xp.int8, xp.uint64) and xp.can_cast(xp.ones(1), xp.float64)
    assert xp.finfo(xp.complex64).dtype is xp.float32 and xp.iinfo(xp.ones(1, dtype=xp.uint8)).max == 255
    assert xp.isdtype(xp.uint8, "integral") and not xp.isdtype(xp.bool, "numeric")
    with pytest.raises(ValueError, match="'floaty' is no kind"):
        xp.isdtype(xp.bool, "floaty")
    x = xp.ones(2)
    assert xp.astype(x, xp.float32, copy=False) is x and xp.astype(x, xp.float32) is not x


def test_creation():
    assert xp.arange(5, 0).tolist() == [] and xp.arange(5, 0).dtype is xp.int64
    assert xp.arange(0.0, 1, -1).dtype is xp.float32 and xp.arange(4, 0, -2).tolist() == [4, 2]
    assert xp.linspace(0, 1, 0, endpoint=False).shape == (0,) and xp.linspace(0, 1, 2).tolist() == [0, 1]
    assert xp.eye(3, 2, k=-1).tolist() == [[0, 0], [1, 0], [0, 1]] and not xp.eye(2, k=5).any()
    assert xp.zeros(2).shape == (2,) and xp.full(2, 7).tolist() == [7, 7] and xp.full((), 1e300).item() == inf
    columns, rows = xp.meshgrid(xp.arange(3), xp.arange(2))
    assert columns.tolist() == [[0, 1, 2], [0, 1, 2]] and rows.tolist() == [[0, 0, 0], [1, 1, 1]]
    assert xp.tril(xp.ones((2, 2)), k=-1).tolist() == [[0, 0], [1, 0]]


def test_asarray_reads_buffers_in_their_own_dtype():
    source = bytearray(b"abc")
    shared = xp.asarray(source)
    source[0] = 0
    assert shared.tolist() == [0, 98, 99] and xp.asarray(b"a").tolist() == [97]
    assert xp.asarray(memoryview(np.arange(4.0)).cast("B")).shape == (32,)
    assert xp.asarray(memoryview(np.ones((2, 2)))).dtype is xp.float64
    x = xp.ones(2)
    assert xp.asarray(x) is x and xp.asarray(x, copy=True) is not x
    with pytest.raises(ValueError, match="copy"):
        xp.asarray(x, dtype=xp.float64, copy=False)
    with pytest.raises(ValueError, match="copy"):
        xp.asarray([1.0], copy=False)


def test_reductions():
    x = xp.asarray([[1, 2], [3, 4]], dtype=xp.uint8)
    assert xp.sum(x).dtype is xp.uint64 and xp.prod(x, axis=(0, 1)).item() == 24
    assert xp.prod(x, keepdims=True).shape == (1, 1) and xp.sum(x, axis=()).tolist() == x.tolist()
    assert xp.max(x).item() == 4 and xp.max(x, axis=(0, 1), keepdims=True).shape == (1, 1)
    assert xp.min(x, axis=()).tolist() == x.tolist()
    assert xp.var(xp.asarray([1.0, 3.0])).item() == 1 and xp.std(xp.asarray([1.0, 3.0]), correction=1.5).item() == 2
    assert xp.all(x, axis=()).tolist() == [[True, True], [True, True]] and xp.any(x).dtype is xp.bool
    assert xp.count_nonzero(x, axis=0, keepdims=True).tolist() == [[2, 2]]
    assert xp.cumulative_sum(x, axis=1, include_initial=True).tolist() == [[0, 1, 3], [0, 3, 7]]
    assert xp.cumulative_prod(xp.asarray([2, 3])).tolist() == [2, 6]
    with pytest.raises(ValueError, match="needs an axis"):
        xp.cumulative_sum(x)


def test_shapes():
    x = xp.ones((1, 3))
    assert xp.expand_dims(x, (0, 2)).shape == (1, 1, 1, 3) and xp.squeeze(x, 0).shape == (3,)
    with pytest.raises(ValueError, match="axis 1 has size 3"):
        xp.squeeze(x, 1)
    with pytest.raises(IndexError):
        xp.expand_dims(x, (0, 4))
    with pytest.raises(ValueError, match="twice"):
        xp.expand_dims(x, (0, -4))
    with pytest.raises(ValueError, match="shape mismatch"):
        xp.broadcast_shapes((2,), (3,))
    assert xp.concat([x, xp.asarray([1])], axis=None).tolist() == [1, 1, 1, 1]
    assert xp.stack([xp.ones(()), xp.asarray(1, dtype=xp.float64)]).dtype is xp.float64
    assert xp.flip(xp.asarray([[1, 2], [3, 4]])).tolist() == [[4, 3], [2, 1]]
    assert xp.roll(xp.asarray([[1, 2], [3, 4]]), 1, axis=(0, 1)).tolist() == [[4, 3], [2, 1]]
    assert xp.roll(xp.asarray(5), 1).item() == 5
    assert xp.repeat(xp.asarray([1, 2]), xp.asarray([2, 0], dtype=xp.uint8)).tolist() == [1, 1]
    assert xp.reshape(x, (3,), copy=False).data_ptr() == x.data_ptr() != xp.reshape(x, (3,), copy=True).data_ptr()
    assert [y.item() for y in xp.unstack(xp.asarray([1, 2]))] == [1, 2]


def test_places():
    x = xp.asarray([[1, 0], [0, 4]])
    assert xp.take(x, xp.asarray([1]), axis=-1).tolist() == [[0], [4]]
    assert [i.tolist() for i in xp.nonzero(x)] == [[0, 1], [0, 1]]
    with pytest.raises(ValueError, match="without axes"):
        xp.nonzero(xp.asarray(1))
    with pytest.raises(ValueError, match="needs an axis"):
        xp.take(x, xp.asarray([1]))
    assert xp.take_along_axis(x, xp.asarray([[1], [0]])).tolist() == [[0], [0]]
    assert xp.searchsorted(xp.asarray([1, 3], dtype=xp.int8), xp.asarray([2.0, 3.0]), side="right").tolist() == [1, 2]
    assert xp.isin(x, 4, invert=True).tolist() == [[True, True], [True, False]]
    assert xp.sort(x, descending=True).tolist() == [[1, 0], [4, 0]]
    assert xp.argsort(xp.asarray([1, 0, 1]), descending=True).tolist() == [0, 2, 1]


def test_unique():
    x = xp.asarray([[3.0, nan], [1.0, 3.0]])
    values, indices, inverse, counts = xp.unique_all(x)
    assert values[:2].tolist() == [1, 3] and counts.tolist() == [1, 2, 1]
    assert inverse.shape == x.shape and xp.take(x.flatten(), indices)[:2].tolist() == [1, 3]
    assert xp.unique_values(xp.asarray([nan, nan])).shape == (2,)
    z = xp.asarray([1 + 1j, 0j, 1 + 1j])
    assert sorted(xp.unique_counts(z).counts.tolist()) == [1, 2]
    assert xp.take(xp.unique_values(z), xp.unique_inverse(z).inverse_indices).tolist() == z.tolist()


def test_linear_algebra():
    x = xp.asarray(np.arange(8.0).reshape(2, 2, 2))
    assert xp.linalg.diagonal(x).tolist() == [[0, 3], [4, 7]] and xp.linalg.trace(x).tolist() == [3, 11]
    assert xp.linalg.solve(xp.eye(2, dtype=xp.float64).expand(2, 2, 2), x[0]).shape == (2, 2, 2)
    assert xp.linalg.solve(2 * xp.eye(2), xp.ones(2)).tolist() == [0.5, 0.5]
    assert xp.linalg.vector_norm(x, axis=()).tolist() == x.tolist()
    assert xp.linalg.matrix_norm(x, keepdims=True).shape == (2, 1, 1)
    assert xp.linalg.cross(xp.ones((4, 1, 3)), xp.ones(3)).shape == (4, 1, 3)
    assert xp.linalg.matmul(xp.ones((2, 2)), x).dtype is xp.float64
    with pytest.raises(ValueError, match="one length"):
        xp.linalg.vecdot(xp.ones(1), xp.ones(3))
    with pytest.raises(ValueError, match="at least 2"):
        xp.linalg.matrix_transpose(xp.ones(3))


def test_fourier():
    x = xp.asarray(np.random.default_rng(0).standard_normal((4, 6)))
    assert np.allclose(xp.fft.rfft(x, n=4, axis=0, norm="ortho"), np.fft.rfft(x, n=4, axis=0, norm="ortho"))
    assert np.allclose(xp.fft.fftn(x, s=(2,), axes=(1,)), np.fft.fftn(x, s=(2,), axes=(1,)))
    assert np.array_equal(xp.fft.fftshift(x, axes=1), np.fft.fftshift(x, axes=1))


def test_a_call_without_arrays_is_refused():
    with pytest.raises(TypeError, match="at least one array"):
        xp.add(1, 2)


def test_hasattr_understands_that_real_numbers_have_no_imaginary_part():
    """Protocols of other libraries ask with hasattr, which lets no other exception than AttributeError pass."""
    x = flambeau.ones(2)
    assert not hasattr(x, "imag") and hasattr(x.to(flambeau.complex64), "imag")
    with pytest.raises(RuntimeError, match="imag: expected a complex tensor, got float32"):
        _ = x.imag


@pytest.mark.parametrize(("axes", "kind"), [((0, 0), ValueError), ((1, -3), ValueError), ((0, 5), IndexError)])
def test_expand_dims_refuses_axes_that_are_no_places(axes, kind):
    with pytest.raises(kind, match="expand_dims"):
        xp.expand_dims(xp.ones((2, 3)), axis=axes)
    assert xp.expand_dims(xp.ones((2, 3)), axis=(0, -1)).shape == (1, 2, 3, 1)
