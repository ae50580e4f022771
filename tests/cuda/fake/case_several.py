"""Several devices in one process: DataParallel and what it is made of, cuda.comm; types and names of old programs."""

import warnings

import pytest

import flambeau as fb
from flambeau import nn
from flambeau.cuda import comm
from flambeau.nn import parallel

pytestmark = pytest.mark.usefixtures("own_kernels")


@pytest.mark.parametrize("ids", (None, [0], [0, 1]), ids=str)
def test_data_parallel_trains_as_one_device(ids):
    """A batch of the CPU is cut among the devices; gradients come together in the module's parameters."""
    x = fb.arange(12.0).view(4, 3) / 10
    plain, spread = nn.Linear(3, 2), nn.Linear(3, 2)
    spread.load_state_dict(plain.state_dict())
    spread = nn.DataParallel(spread.cuda(), ids)
    assert spread.device_ids == ([0, 1] if ids is None else ids) and spread.output_device == fb.device("cuda:0")
    out = spread(x)
    assert out.device == fb.device("cuda:0") and fb.allclose(out.cpu(), plain(x), atol=1e-6)
    for y in (out, plain(x)):
        (y * y).sum().backward()
    for mine, theirs in zip(spread.parameters(), plain.parameters(), strict=True):
        assert mine.grad.device == fb.device("cuda:0") and fb.allclose(mine.grad.cpu(), theirs.grad, atol=1e-5)


def test_data_parallel_of_fewer_rows_than_devices_and_of_keywords():
    class Both(nn.Module):
        def forward(self, x, *, scale):
            return {"y": x * scale, "device": fb.full((1,), float(x.device.index))}
    spread = nn.DataParallel(Both())
    found = spread(fb.ones(1, 2), scale=3.0)
    assert found["y"].tolist() == [[3, 3]] and found["device"].tolist() == [0]
    found = spread(fb.ones(3, 2), scale=fb.ones(3, 2) * 2)
    assert found["y"].sum() == 12 and found["device"].tolist() == [0, 1]
    found = parallel.data_parallel(nn.ReLU(), fb.tensor([-1.0, 1.0]), [0, 1], output_device=1)
    assert found.device == fb.device("cuda:1") and found.tolist() == [0, 1]


def test_where_a_module_must_be():
    with pytest.raises(RuntimeError, match=r"begins on cuda:0, .* a parameter or buffer is on cpu"):
        nn.DataParallel(nn.Linear(2, 2))(fb.ones(2, 2))
    with pytest.raises(RuntimeError, match="DataParallel: no device cuda:7: this machine has 2 GPUs"):
        nn.DataParallel(nn.ReLU(), [0, 7])


def test_replicas_leave_the_module_where_it_is():
    m = nn.Linear(2, 2).cuda()
    here, there = parallel.replicate(m, [0, 1])
    assert m.weight.device == fb.device("cuda:0") and there.weight.device == fb.device("cuda:1")
    assert here.weight.data_ptr() == m.weight.data_ptr()
    there(fb.ones(1, 2, device="cuda:1")).sum().backward()
    assert m.bias.grad.tolist() == [1, 1]
    assert not parallel.replicate(m, [1], detach=True)[0].weight.requires_grad


def test_comm():
    x = fb.arange(6.0).cuda()
    a, b = comm.broadcast(x, [0, 1])
    assert a.data_ptr() == x.data_ptr() and b.device == fb.device("cuda:1") and b.tolist() == x.tolist()
    out = [fb.zeros(6), fb.zeros(6, device="cuda:1")]
    assert comm.broadcast(x, out=out)[1] is out[1] and out[0].tolist() == out[1].tolist() == x.tolist()
    assert [t.device.index for part in comm.broadcast_coalesced([x, x[:2]], [0, 1]) for t in part] == [0, 0, 1, 1]
    assert comm.reduce_add([a, b], 1).tolist() == (x * 2).tolist()
    assert [t.tolist() for t in comm.reduce_add_coalesced([[a, a[:1]], [b, b[:1]]])] == [(x * 2).tolist(), [0]]
    first, second = comm.scatter(x, [0, 1], [2, 4], streams=[fb.cuda.Stream(), None])
    fb.cuda.synchronize()
    assert first.tolist() == [0, 1] and second.tolist() == [2, 3, 4, 5] and second.device.index == 1
    assert comm.gather([first, second]).tolist() == x.tolist()
    assert comm.gather([first, second], destination=-1).device.type == "cpu"
    assert comm.scatter(x, out=[fb.zeros(3), fb.zeros(3).cuda()])[1].tolist() == [3, 4, 5]
    for wrong in (lambda: comm.broadcast(x), lambda: comm.scatter(x, [0], out=[x]), lambda: comm.reduce_add([])):
        with pytest.raises(RuntimeError, match="expected"):
            wrong()
    with pytest.raises(ValueError, match="of one shape"):
        comm.reduce_add([a, first])


def test_types_of_old_programs():
    kind = fb.cuda.FloatTensor
    x = kind([1, 2])
    assert x.device == fb.device("cuda:0") and isinstance(x, kind) and not isinstance(x, fb.FloatTensor)
    assert not isinstance(x.cpu(), kind) and kind(2, 3).shape == (2, 3) and kind(x).tolist() == [1, 2]
    assert fb.ones(2).type(kind).is_cuda
    assert fb.ones(2).type("torch.cuda.DoubleTensor").type() == "torch.cuda.DoubleTensor"
    assert not x.type(fb.FloatTensor).is_cuda and x.type(fb.float64).is_cuda and x.type("torch.IntTensor").is_cpu
    fb.set_default_tensor_type("torch.cuda.FloatTensor")
    assert fb.ones(1).is_cuda
    fb.set_default_tensor_type(fb.FloatTensor)
    assert not fb.ones(1).is_cuda


def test_older_names_of_mixed_precision():
    from flambeau.cuda.amp import GradScaler, autocast
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with autocast():
            assert (fb.ones(2, 2).cuda() @ fb.ones(2, 2).cuda()).dtype == fb.float16
        assert GradScaler().is_enabled()


def test_files_whatever_the_default_device_is(tmp_path):
    x = fb.arange(6.0)
    fb.save({"here": x, "there": x.cuda()}, tmp_path / "x.pt")
    with fb.device("cuda:1"):
        found = fb.load(tmp_path / "x.pt")
        fb.save(found, tmp_path / "y.pt")
    assert found["here"].device.type == "cpu" and found["there"].device == fb.device("cuda:0")
    assert fb.load(tmp_path / "y.pt", map_location="cpu")["there"].tolist() == x.tolist()


def test_small_questions():
    x = fb.ones(2).cuda()
    assert fb.backends.cuda.cufft_plan_cache[0].size == 0 and not fb.backends.cudnn.is_acceptable(x)
    assert not fb.cuda.nccl.is_available([x, x])
    with pytest.raises(fb.cuda.CudaError, match="CUDA error 2"):
        fb.cuda.check_error(2)
