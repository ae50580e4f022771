"""Files, storages, DLPack, arrays of other libraries, loaders: they know tensors of CUDA devices."""

import io

import numpy as np
import pytest

import flambeau as fb
from flambeau import cuda
from flambeau.utils import data

X = fb.arange(24.0).view(4, 6)


def test_files():
    file = io.BytesIO()
    x = X.cuda()
    fb.save({"x": x, "row": x[1], "cpu": X}, file)

    def loaded(**options):
        file.seek(0)
        return fb.load(file, **options)

    found = loaded()
    assert found["x"].device == fb.device("cuda:0") and found["cpu"].device == fb.device("cpu")
    assert found["x"].cpu().equal(X) and found["row"].data_ptr() == found["x"][1].data_ptr()
    assert loaded(map_location="cpu")["x"].device.type == "cpu"
    assert loaded(map_location={"cuda:0": "cuda:1"})["x"].device == fb.device("cuda:1")
    assert loaded(map_location="cuda:1")["cpu"].is_cuda


def test_storages():
    x = X.cuda()
    s = x.untyped_storage()
    assert s.device == x.device and s.is_cuda and s.nbytes() == 96 and s.data_ptr() == x.data_ptr()
    assert not s.cpu().is_cuda and s.cuda() is s and X.untyped_storage().cuda("cuda:1").device == fb.device("cuda:1")
    assert X.untyped_storage().pin_memory().is_pinned()


def test_dlpack():
    x = X.cuda()
    y = fb.from_dlpack(x)
    assert y.device == x.device and y.data_ptr() == x.data_ptr() and x.__dlpack_device__() == (2, 0)
    y.fill_(7)
    assert x.cpu().eq(7).all()
    z = fb.from_dlpack(X.to("cuda:1")[:, 1::2])
    assert z.device == fb.device("cuda:1") and z.cpu().equal(X[:, 1::2])
    assert fb.from_dlpack(x, device="cpu").device.type == "cpu"
    address = x.data_ptr()
    del x
    assert fb.empty(4, 6, device="cuda").data_ptr() != address  # y keeps the memory
    with pytest.raises(ValueError, match="copying"):
        y.__dlpack__(dl_device=(1, 0), copy=False)


class Array:
    """What another library's array on a device shows of itself."""

    def __init__(self, t):
        self.t = t

    @property
    def __cuda_array_interface__(self):
        return self.t.__cuda_array_interface__


def test_arrays_of_other_libraries():
    for t in (X.cuda(), X.cuda().t(), X.to("cuda:1")[:, ::2], fb.zeros(0, 3, device="cuda")):
        found = fb.as_tensor(Array(t))
        assert found.device == t.device and found.shape == t.shape
        assert found.data_ptr() == t.data_ptr() or t.numel() == 0
        assert found.cpu().equal(t.cpu())
        copied = fb.tensor(Array(t))
        assert copied.device == t.device and (copied.data_ptr() != t.data_ptr() or t.numel() == 0)
    kept = fb.as_tensor(Array(X.cuda()))
    assert kept.cpu().equal(X)
    shown = X.cuda().__cuda_array_interface__
    assert shown["typestr"] == "<f4" and shown["shape"] == (4, 6) and shown["strides"] is None
    with pytest.raises(AttributeError):
        _ = X.__cuda_array_interface__
    with pytest.raises(TypeError, match="float8"):
        _ = fb.zeros(3, dtype=fb.uint8, device="cuda").view(fb.float8_e4m3fn).__cuda_array_interface__


def test_loaders_pin_their_batches():
    samples = data.TensorDataset(fb.arange(10), fb.arange(10.0))
    for batch in data.DataLoader(samples, 5, pin_memory=True):
        assert all(t.is_pinned() for t in batch)
        assert all(t.to("cuda", non_blocking=True).is_cuda for t in batch)
    loader = data.DataLoader([{"a": np.ones(2), "b": "text"}] * 4, 2, pin_memory=True)
    batch = next(iter(loader))
    assert batch["a"].is_pinned() and batch["b"] == ["text", "text"]


def test_saved_for_backward_on_the_cpu():
    x = fb.ones(3, device="cuda", requires_grad=True)
    with fb.autograd.graph.save_on_cpu(pin_memory=True):
        y = x * x
    y.backward(fb.ones(3, device="cuda"))
    assert x.grad.tolist() == [2, 2, 2] and x.grad.is_cuda


def test_sharing_leaves_memory_of_the_device_where_it_is():
    """It can be sent as it is (case_sharing.py)."""
    x = X.cuda()
    address = x.data_ptr()
    assert x.share_memory_() is x and x.is_shared() and x.is_cuda and x.data_ptr() == address
    fb.nn.Linear(2, 2).cuda().share_memory()
    assert fb.equal(x.cpu(), X)


def test_names_and_types():
    x = X.cuda()
    assert x.type() == "torch.cuda.FloatTensor" and x.get_device() == 0 and X.get_device() == -1
    assert x.new_ones(2).is_cuda and fb.ones_like(x).is_cuda and x.new_tensor([1]).is_cuda
    with fb.device("cuda:1"):
        assert fb.ones(2).device == fb.device("cuda:1")
    assert cuda.is_bf16_supported() and cuda.is_tf32_supported() and cuda.get_sync_debug_mode() == 0
    for name in ("current_blas_handle", "export_dot", "change_current_allocator"):
        with pytest.raises(NotImplementedError, match="not available"):
            getattr(cuda, name)()
