"""Memory exchanged with other libraries, files and processes."""

import numpy as np
import pytest

import flambeau

# --- DLPack -----------------------------------------------------------------------------------------------------------

def test_numpy_reads_tensors():
    x = flambeau.arange(6.0).reshape(2, 3).t()
    a = np.from_dlpack(x)
    assert a.shape == (3, 2) and a.strides == (4, 12)
    x[0, 0] = 7
    assert a[0, 0] == 7


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int8", "int16", "uint16", "int32", "uint32", "int64", "uint64",
                                   "float16", "float32", "float64", "complex64", "complex128"])
def test_round_trip_of_dtypes(dtype):
    a = np.ones((2, 3), dtype=dtype)
    t = flambeau.from_dlpack(a)
    assert t.dtype is getattr(flambeau, dtype)
    back = np.from_dlpack(t)
    assert back.dtype == a.dtype and back.ctypes.data == a.ctypes.data


@pytest.mark.parametrize("dtype", [flambeau.bfloat16, flambeau.float8_e4m3fn, flambeau.float8_e5m2])
def test_dtypes_numpy_lacks(dtype):
    x = flambeau.tensor([1.0, 2.0]).to(dtype)
    y = flambeau.from_dlpack(x)
    assert y.dtype is dtype and y.data_ptr() == x.data_ptr()


def test_views_and_odd_layouts():
    a = np.arange(12.0).reshape(3, 4)
    for view in (a[::-1], a[:, ::2], a.T, a[1:2], np.broadcast_to(a[0], (2, 4)), a[:0], np.array(3.0)):
        assert np.array_equal(flambeau.from_dlpack(view).numpy(), view)


def test_read_only_memory_stays_so():
    a = np.arange(3.0)
    a.flags.writeable = False
    t = flambeau.from_dlpack(a)
    assert t.sum() == 3
    with pytest.raises(RuntimeError, match="read-only"):
        t[0] = 1
    with pytest.raises(BufferError, match="read-only"):
        t.__dlpack__()
    assert flambeau.from_dlpack(t).data_ptr() == t.data_ptr()  # version 1 can say it


def test_copies_and_versions():
    x = flambeau.ones(3)
    assert "dltensor_versioned" in repr(x.__dlpack__(max_version=(1, 0)))
    assert '"dltensor"' in repr(x.__dlpack__(max_version=(0, 8)))
    assert '"dltensor"' in repr(x.__dlpack__())
    assert flambeau.from_dlpack(x, copy=True).data_ptr() != x.data_ptr()
    assert flambeau.from_dlpack(x, copy=False).data_ptr() == x.data_ptr()
    assert x.__dlpack_device__() == (1, 0)


def test_capsules_are_used_once():
    capsule = flambeau.to_dlpack(flambeau.ones(2))
    assert flambeau.from_dlpack(capsule).tolist() == [1, 1]
    with pytest.raises(RuntimeError, match="this capsule holds no tensor"):
        flambeau.from_dlpack(capsule)
    del capsule
    unused = flambeau.utils.dlpack.to_dlpack(flambeau.ones(2))
    del unused  # frees what it holds


def test_memory_lives_as_long_as_it_is_used():
    x = flambeau.from_dlpack(np.arange(1000.0))
    a = np.from_dlpack(flambeau.arange(1000.0))
    assert x[-1] == 999 and a[-1] == 999


@pytest.mark.parametrize("call, error", [
    (lambda: flambeau.ones(2, requires_grad=True).__dlpack__(), BufferError),
    (lambda: flambeau.ones(2, device="meta").__dlpack__(), BufferError),
    (lambda: flambeau.ones(2, device="meta").__dlpack_device__(), ValueError),
    (lambda: flambeau.ones(2).__dlpack__(stream=3), AssertionError),
    (lambda: flambeau.ones(2).__dlpack__(dl_device=(2, 0)), BufferError),
    (lambda: flambeau.ones(2).__dlpack__(dl_device=(2, 0), copy=False), ValueError),
    (lambda: flambeau.from_dlpack(3), RuntimeError),
    (lambda: flambeau.from_dlpack(np.ones(2), device="cuda"), ValueError),
    (lambda: flambeau.ones(2).__cuda_array_interface__, AttributeError),
])
def test_refusals(call, error):
    with pytest.raises(error):
        call()


class _OldProducer:
    """An exporter that knows DLPack 0.x only."""

    def __init__(self, x):
        self.x = x

    def __dlpack_device__(self):
        return 1, 0

    def __dlpack__(self, stream=None):
        return flambeau.to_dlpack(self.x)


def test_old_exporters():
    x = flambeau.ones(2)
    assert flambeau.from_dlpack(_OldProducer(x)).data_ptr() == x.data_ptr()
    with pytest.raises(BufferError, match="copy"):
        flambeau.from_dlpack(_OldProducer(x), copy=True)


# --- files and storages --------------------------------------------------------------------------------------------

def test_files(tmp_path):
    path = tmp_path / "numbers.bin"
    x = flambeau.from_file(str(path), shared=True, size=4)
    x.copy_(flambeau.arange(4.0))
    assert flambeau.from_file(str(path), size=4).tolist() == [0, 1, 2, 3]
    private = flambeau.from_file(str(path), shared=False, size=2, dtype=flambeau.float32)
    private.fill_(9)
    assert flambeau.from_file(str(path), size=1).item() == 0
    with pytest.raises(RuntimeError, match="cannot be opened"):
        flambeau.from_file(str(tmp_path / "none"), size=1)
    with pytest.raises(RuntimeError, match="bytes"):
        flambeau.from_file(str(path), size=100)
    storage = flambeau.UntypedStorage.from_file(str(path), shared=True, nbytes=16)
    assert storage.nbytes() == 16 and storage.filename == str(path)


def test_storage_kinds():
    s = flambeau.FloatStorage([1, 2, 3])
    assert isinstance(s, flambeau.FloatStorage) and not isinstance(s, flambeau.LongStorage)
    assert s.type() == "torch.FloatStorage" and s.element_size() == 4 and s.tolist() == [1, 2, 3]
    assert flambeau.Tensor(s).tolist() == [1, 2, 3]
    assert s.long().tolist() == [1, 2, 3] and isinstance(s.long(), flambeau.LongStorage)
    assert s.double().dtype is flambeau.float64
    s[1] = 7
    assert s[1] == 7 and list(s) == [1, 7, 3]
    u = flambeau.UntypedStorage(6)
    assert u.nbytes() == 6 and u.fill_(3).tolist() == [3] * 6
    assert flambeau.UntypedStorage([1, 2, 255])[1:].tolist() == [2, 255]
    x = flambeau.ones(2)
    assert x.storage_type() is flambeau.FloatStorage
    x.untyped_storage().resize_(100)
    assert x.untyped_storage().nbytes() >= 100 and x.tolist() == [1, 1]
    u = flambeau.tensor([1], dtype=flambeau.int16).untyped_storage()
    u.byteswap(flambeau.int16)
    assert u.tolist() == [0, 1]


# --- NumPy's functions on tensors -----------------------------------------------------------------------------------

def test_numpy_functions():
    x = flambeau.tensor([1.0, 2.0])
    assert isinstance(np.sqrt(x), flambeau.Tensor)
    assert isinstance(np.add(x, x), flambeau.Tensor)
    assert isinstance(np.concatenate([x, x]), np.ndarray)
    assert np.asarray(x).dtype == np.float32 and np.array(x, dtype=np.int32).tolist() == [1, 2]
    assert isinstance(np.ones(2) + x, flambeau.Tensor) and isinstance(x + np.ones(2), flambeau.Tensor)
    with pytest.raises(RuntimeError, match="requires grad"):
        np.asarray(flambeau.ones(1, requires_grad=True))


def test_containers_that_are_arrays_are_read_as_such():
    """A data frame's items are columns by name, and those of a series have labels: their arrays say what they hold."""
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    frame = pandas.DataFrame({"a": [1.0, 2.0], "b": [3.0, 4.0]})
    for make in (flambeau.as_tensor, flambeau.tensor, flambeau.asarray):
        assert make(frame).tolist() == [[1, 3], [2, 4]]
        assert make(pandas.Series([5, 6], index=[1, 0])).tolist() == [5, 6]
    assert flambeau.as_tensor(frame["b"][1:], dtype=flambeau.float32).tolist() == [4]
    with pytest.raises(TypeError, match="no dtype corresponds to array elements of format 'O'"):
        flambeau.as_tensor(pandas.DataFrame({"a": ["x"]}))


def test_asarray_of_a_capsule_and_without_a_copy():
    x = flambeau.ones(2)
    assert flambeau.asarray(x.__dlpack__()).data_ptr() == x.data_ptr()
    assert flambeau.asarray(x.__dlpack__(), copy=True).data_ptr() != x.data_ptr()
    assert flambeau.asarray(x, copy=False) is x
    for call in (lambda: flambeau.asarray(x, dtype=flambeau.int64, copy=False),
                 lambda: flambeau.asarray(x.numpy(), dtype=flambeau.int64, copy=False),
                 lambda: flambeau.asarray([1], copy=False), lambda: flambeau.frombuffer([1], dtype=flambeau.int8)):
        with pytest.raises(ValueError):
            call()
    with pytest.raises(TypeError, match="streams"):
        x.__dlpack__(stream=object())


def test_numbers_and_truth_of_python():
    for convert in (int, float, complex):
        with pytest.raises(ValueError, match="one element"):
            convert(flambeau.ones(2))
    assert flambeau.tensor([0j, 1j], dtype=flambeau.bool).tolist() == [False, True]


def test_joining_nothing_along_any_dimension():
    assert flambeau.cat([flambeau.empty(0), flambeau.empty(0)], 1).shape == (0,)


def test_the_quantile_of_nan_has_its_gradient_where_the_nan_is():
    x = flambeau.tensor([1.0, float("nan"), 3.0], requires_grad=True)
    x.quantile(0.5).backward()
    assert x.grad.tolist() == [0, 1, 0]


@pytest.mark.parametrize("name", ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32"])
def test_arrays_have_numpy_s_own_type_of_that_name(name):
    """NumPy has two types of 64 bits, and what asks an element's class knows only one of them as int64."""
    x = flambeau.ones(2, dtype=getattr(flambeau, name))
    for array in (x.numpy(), np.asarray(x), np.asarray(memoryview(x))):
        assert array.dtype.type is getattr(np, name) and type(array[0]) is getattr(np, name)
