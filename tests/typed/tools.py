"""testing, library, profiler, serialization, utils.checkpoint, storage, finfo, backends, overrides, multiprocessing."""

import io

import flambeau as torch
from flambeau import Tensor
from flambeau.profiler import ProfilerActivity, profile, record_function, schedule
from flambeau.utils.checkpoint import checkpoint


def profiled(x: Tensor) -> str:
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as prof:
        with record_function("sum"):
            x.sum()
        prof.step()
    return str(prof.key_averages().table(sort_by="cpu_time_total", row_limit=3))


def saved(values: dict[str, Tensor]) -> object:
    file = io.BytesIO()
    torch.save(values, file)
    file.seek(0)
    return torch.load(file, map_location="cpu", weights_only=True)


@torch.library.custom_op("typed::twice", mutates_args=())
def twice(x: Tensor) -> Tensor:
    return x * 2


@twice.register_fake
def fake(x: Tensor) -> Tensor:
    return torch.empty_like(x)


def compared(a: Tensor, b: Tensor) -> None:
    torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-8)
    made: Tensor = torch.testing.make_tensor((2, 3), dtype=torch.float32, device="cpu")
    assert torch.allclose(a, b) and torch.equal(a, b) and torch.is_tensor(made)


def recomputed(x: Tensor) -> Tensor:
    result: Tensor = checkpoint(lambda t: t.sin().exp(), x, use_reentrant=False)
    return result


profiled(torch.ones(3))
plan = schedule(wait=1, warmup=1, active=2)
saved({"x": torch.ones(2)})
twice(torch.ones(2))
compared(torch.ones(2), torch.ones(2))
recomputed(torch.ones(2, requires_grad=True))
smallest: float = torch.finfo(torch.float32).eps
largest: int = torch.iinfo(torch.int32).max
kind: torch.dtype = torch.promote_types(torch.int32, torch.float32)
default: torch.dtype = torch.get_default_dtype()
shape: torch.Size = torch.broadcast_shapes((2, 1), (3,))
available: bool = torch.cuda.is_available()
torch.set_num_threads(torch.get_num_threads())
device: torch.device = torch.get_default_device()
with torch.device("cpu"):
    torch.ones(1)
version: str = torch.__version__
x = torch.ones(2, 2, memory_format=torch.contiguous_format) if False else torch.empty(2, dtype=torch.bfloat16)
torch.backends.cudnn.benchmark = False
size: int = x.untyped_storage().nbytes()
