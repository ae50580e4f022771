"""Storages, resizing, and what programs ask about devices that are not there."""

import mmap
from pathlib import Path

import pytest

import flambeau
from flambeau.cuda.kernels import nvrtc


def test_storages():
    x = flambeau.arange(6.0)
    s = x[2:].untyped_storage()
    assert s.nbytes() == len(s) == 24
    assert s.data_ptr() == x.data_ptr() == x[2:].storage().data_ptr()
    assert x.storage().tolist() == [0, 1, 2, 3, 4, 5]
    assert x[2:].storage().size() == 6
    assert flambeau.is_storage(s)
    copy = s.clone()
    s.fill_(0)
    assert x.tolist() == [0.0] * 6
    s.copy_(copy)
    assert x.tolist() == [0, 1, 2, 3, 4, 5]
    assert flambeau.ones(3, device="meta").untyped_storage().nbytes() == 12


def test_resize_leaves_other_tensors_their_memory():
    x = flambeau.arange(3.0)
    view = x[1:]
    assert x.resize_(100000).shape == (100000,)
    assert x[:3].tolist() == [0, 1, 2]
    x.fill_(5)
    assert view.tolist() == [1, 2]
    out = flambeau.zeros(2)
    view = out[:1]
    with pytest.warns(UserWarning, match="resized"):
        flambeau.add(flambeau.ones(100000), 1, out=out)
    assert out.shape == (100000,)
    assert view.tolist() in ([0.0], [2.0])


def test_memory_whose_address_was_given_away_stays():
    x = flambeau.zeros(3)
    array = x.numpy()
    with pytest.raises(RuntimeError, match="keeps its size"):
        x.resize_(1000)
    array[0] = 1
    assert x.tolist() == [1, 0, 0]


@pytest.mark.parametrize("call", [
    lambda: flambeau.ones(2).resize_(-1), lambda: flambeau.ones(2).resize_(2**62, 4),
    lambda: flambeau.ones(2, requires_grad=True).resize_(3), lambda: flambeau.ones(2, requires_grad=True).apply_(abs),
    lambda: flambeau.ones(2).set_(flambeau.ones(2), 1, (2,), (1,)), lambda: flambeau.ones(2).set_(flambeau.arange(2)),
    lambda: flambeau.ones(2).pin_memory(),
])
def test_bad_requests(call):
    with pytest.raises(RuntimeError):
        call()


def test_set_and_visits():
    x = flambeau.empty(0).set_(flambeau.arange(6.0).reshape(2, 3).t())
    assert x.tolist() == [[0, 3], [1, 4], [2, 5]]
    assert flambeau.empty(0).set_(flambeau.arange(6.0).untyped_storage(), 1, (2,), (2,)).tolist() == [1, 3]
    small = flambeau.ones(1)  # whose memory grows
    assert flambeau.empty(0).set_(small, 1, (2, 2)).stride() == (2, 1) and small.untyped_storage().nbytes() == 20
    assert flambeau.ones(3).apply_(lambda v: v + 1).tolist() == [2, 2, 2]
    assert flambeau.ones(2).map_(flambeau.tensor([1.0, 2.0]), lambda a, b: a + b).tolist() == [2, 3]
    three = flambeau.arange(3.0)
    assert three.map2_(flambeau.full((1,), 2.0), three, lambda a, b, c: a + b * c) is three
    assert three.tolist() == [0, 3, 6]
    for error, call in ((TypeError, lambda: three.map_(three.double(), max)),
                        (TypeError, lambda: three.map2_(3, 4, max)), (TypeError, lambda: three.apply_(str)),
                        (RuntimeError, lambda: three.map_(flambeau.ones(3, requires_grad=True), max))):
        with pytest.raises(error):
            call()
    assert flambeau.ones(2, 3).t().dim_order() == (1, 0)


@pytest.mark.parametrize("make", [
    lambda d: flambeau.zeros(1, device=d), lambda d: flambeau.empty(0, device=d), lambda d: flambeau.ones(2).to(d),
    lambda d: flambeau.randn(2, device=d), lambda d: flambeau.tensor([1.0], device=d),
    lambda d: flambeau.empty_like(flambeau.ones(2), device=d), lambda d: flambeau.nn.Linear(2, 2, device=d),
    lambda d: flambeau.nn.Linear(2, 2).to(d), lambda d: flambeau.arange(3, device=d),
    lambda d: flambeau.zeros(2, device="meta").to(d), lambda d: flambeau.ones(2, device="meta").cuda(),
])
@pytest.mark.parametrize("device", ["cuda", "cuda:1"])
def test_devices_that_are_not_there(make, device):
    with pytest.raises(RuntimeError, match=r"cuda|CUDA"):
        make(device)


def test_questions_about_devices():
    assert not flambeau.cuda.is_available()
    assert flambeau.cuda.device_count() == 0
    with pytest.raises(RuntimeError, match="without CUDA"):
        flambeau.cuda.synchronize()
    assert not flambeau.backends.mps.is_available()
    assert not flambeau.backends.cudnn.is_available()
    assert flambeau.backends.cpu.get_cpu_capability() in ("AVX2", "AVX512")
    assert flambeau.version.cuda == ("{}.{}".format(*nvrtc.version()) if nvrtc.found() else None)
    flambeau.use_deterministic_algorithms(True)
    assert flambeau.are_deterministic_algorithms_enabled()
    with pytest.raises(TypeError, match="bool"):
        flambeau.use_deterministic_algorithms("yes")
    assert flambeau.version.__version__ == flambeau.__version__


def test_slices_of_bytes_share_the_memory():
    storage = flambeau.arange(10, dtype=flambeau.uint8).untyped_storage()
    part = storage[2:5]
    assert isinstance(part, flambeau.UntypedStorage) and part.nbytes() == 3
    assert part.data_ptr() == storage.data_ptr() + 2
    part[0] = 99
    assert storage[2] == 99 and storage[-3:].tolist() == [7, 8, 9] and storage[5:100].nbytes() == 5
    assert storage[8:3].nbytes() == 0
    with pytest.raises(RuntimeError, match="every byte between its ends, got step 2"):
        storage[::2]
    del storage
    assert part.tolist() == [99, 3, 4]


@pytest.mark.parametrize("make", [flambeau.as_tensor, flambeau.asarray])
def test_a_storage_is_a_tensor_over_its_bytes(make):
    storage = flambeau.arange(16, dtype=flambeau.uint8).untyped_storage()
    x = make(storage[4:8], dtype=flambeau.uint8)
    assert x.tolist() == [4, 5, 6, 7] and x.data_ptr() == storage.data_ptr() + 4
    assert make(storage, dtype=flambeau.int32).tolist() == [0x03020100, 0x07060504, 0x0b0a0908, 0x0f0e0d0c]
    assert make(storage).dtype is flambeau.int64
    floats = flambeau.FloatStorage([1, 2])
    assert make(floats).tolist() == [1, 2] and make(floats).data_ptr() == floats.data_ptr()
    with pytest.raises(RuntimeError, match="is no tensor of"):
        make(floats, dtype=flambeau.int64)


def test_a_copy_of_a_storage():
    storage = flambeau.arange(4, dtype=flambeau.uint8).untyped_storage()
    copy = flambeau.asarray(storage, dtype=flambeau.uint8, copy=True)
    assert copy.tolist() == [0, 1, 2, 3] and copy.data_ptr() != storage.data_ptr()


def test_resize_in_a_memory_format():
    x = flambeau.arange(24.0)
    x.resize_(1, 2, 3, 4, memory_format=flambeau.channels_last)
    assert x.is_contiguous(memory_format=flambeau.channels_last) and x.stride() == (24, 1, 8, 2)
    y = flambeau.empty(24).resize_as_(x, memory_format=flambeau.preserve_format)
    assert y.stride() == x.stride() and y.resize_as_(y).stride() == x.stride()
    with pytest.raises(RuntimeError, match="resize_as_"):
        y.resize_(2, memory_format=flambeau.preserve_format)
    assert y.shape == x.shape


def test_typed_storages_from_buffers():
    numbers = flambeau.ShortStorage.from_buffer(bytes([1, 0, 0, 2]), "little")
    assert numbers.tolist() == [1, 512] and numbers.dtype is flambeau.int16
    assert flambeau.ShortStorage.from_buffer(bytes([1, 0, 0, 2]), "big").tolist() == [256, 2]
    with pytest.raises(RuntimeError, match="byte_order"):
        flambeau.ShortStorage.from_buffer(bytes(4))


def test_a_typed_storage_is_of_its_dtype_and_bytes_are_of_any():
    x = flambeau.arange(3.0)
    bytes_of = x.untyped_storage()
    for make in (lambda s: flambeau.tensor(s, dtype=flambeau.float32), flambeau.FloatTensor, flambeau.ones(1).new,
                 lambda s: flambeau.empty(0).set_(s)):
        assert make(x.storage()).tolist() == make(bytes_of).tolist() == [0, 1, 2]
        with pytest.raises(RuntimeError, match=r"a storage of torch\.int64 is no tensor of torch\.float32"):
            make(flambeau.arange(3).storage())
    assert flambeau.tensor(x.storage()).dtype is flambeau.float32 and flambeau.tensor(bytes_of).dtype is flambeau.int64


def test_what_programs_ask_storages():
    x = flambeau.arange(6.0)
    assert x.storage().__sizeof__() - flambeau.empty(0).storage().__sizeof__() == 24
    assert x.storage()._untyped_storage == x.untyped_storage()
    assert x[1:].storage()._cdata == x.untyped_storage()._cdata != x.clone().storage()._cdata
    assert flambeau.UntypedStorage([1, 2], device="meta").device.type == "meta"
    with pytest.raises(NotImplementedError, match="no values to copy"):
        flambeau.TypedStorage(4, device="meta", dtype=flambeau.float32).cpu()


def test_memory_that_a_storage_gives_up_goes_back_to_the_system():
    x = flambeau.ones(16 << 20)
    view, storage = x.reshape(-1, 2)[1:], x.untyped_storage()

    def resident():
        return int(Path("/proc/self/statm").read_text().split()[1]) * mmap.PAGESIZE

    before = resident()
    assert storage.resize_(10) is storage and storage.nbytes() == 10
    assert before - resident() > 60 << 20
    assert x[:3].tolist() == [1, 1, 0] and view.sum() == 0  # no view reaches memory of others
    storage.resize_(x.nbytes)
    x.fill_(2)
    assert view[-1, 1] == 2 and x.untyped_storage().nbytes() == x.nbytes and before - resident() < 4 << 20


def test_what_reaches_past_a_smaller_storage_is_refused():
    x = flambeau.arange(10.0)
    x.storage().resize_(2)
    assert x.tolist() == [0, 1] + [0] * 8 and x.untyped_storage().nbytes() == 8
    with pytest.raises(RuntimeError, match="reaches outside the storage"):
        x.share_memory_()
    with pytest.raises(RuntimeError, match="at least 0"):
        x.untyped_storage().resize_(-1)
    with pytest.raises(NotImplementedError, match="another library"):
        flambeau.frombuffer(bytearray(16), dtype=flambeau.float32).untyped_storage().resize_(4)
