# ruff: noqa (as programs for PyTorch are written)
"""Tensors: indexing, methods, attributes, functions of networks, contexts, and what `torch.jit` adds."""

import warnings
from typing import Any, List, Optional, Tuple

from .registry import given, matrix, torch, vector

F = torch.nn.functional


@given(matrix)
def indexing(x):
    return x[0], x[1, 2], x[:, 1], x[..., 0], x[None], x[1:, ::2], x[-1], x[[0, 2]], x[:, None, :2]


@given(matrix)
def masks(x):
    y = x.clone()
    y[y < 0] = 0.0
    y[0] = 7
    y[1, 1:3] = y[2, 1:3]
    return y, x[x > 0], torch.where(x > 0, x, -x)


@given(matrix)
def index_by_tensors(x):
    rows = torch.tensor([0, 2])
    return x[rows], x[rows, rows], x[:, rows]


@given(matrix)
def shapes(x):
    b, c = x.shape
    n = x.shape[0]
    m, k = x.size()
    return x.view(c, b), x.reshape(-1, n), x.view(x.size(0), -1), m * k, list(x.shape), x.numel(), x.dim(), len(x)


@given(matrix)
def attributes(x):
    y = torch.zeros(x.shape, dtype=x.dtype, device=x.device)
    return y, x.dtype == torch.float32, x.device.type, x.is_cuda, x.requires_grad, x.ndim, x.T, x.mT, x.itemsize


@given(matrix)
def dtypes(x):
    y = x.to(torch.float64)
    z = x.to(torch.int64).float()
    w = x.type_as(y)
    return y, z, w, x.double(), x.long(), torch.ones(2, dtype=torch.int32), x.to(y)


@given(matrix)
def making(x):
    return (torch.zeros(2, 3), torch.ones([2, 3]), torch.full((2,), 1.5), torch.arange(5), torch.arange(1, 9, 2),
            torch.eye(2), torch.linspace(0, 1, 5), torch.zeros_like(x), torch.ones_like(x, dtype=torch.int64),
            torch.tensor([1, 2]), torch.tensor(3.5), torch.tensor([[1.0], [2.0]]), x.new_zeros(2, 2), torch.empty(0))


@given(matrix)
def reductions(x):
    values, places = x.max(1)
    low = x.min(dim=0)
    return (x.sum(), x.sum(1), x.sum(dim=[0, 1]), x.mean(dim=1, keepdim=True), values, places, low[0], low.values,
            x.std(), x.prod(), x.amax(0), x.argmax(1), x.norm(), x.var(dim=1, unbiased=False), x.cumsum(0))


@given(matrix)
def named_results(x):
    found = torch.topk(x, 2, dim=1)
    ordered = x.sort(1, descending=True)
    return found.values, found.indices, ordered[0], torch.median(x, 1).values


@given(matrix)
def lists_of_parts(x):
    a, b = x.chunk(2, dim=1)
    parts = torch.split(x, [1, 2], dim=0)
    rows = torch.unbind(x)
    return a + b, parts[1], rows[2], torch.cat([a, b], dim=1), torch.stack([a, b]), torch.cat((a, b))


@given(matrix)
def numbers_of_tensors(x):
    a = x.sum().item()
    b = int(x[0, 0])
    c = float(x[1, 1])
    d = bool(x[0, 1] > 0)
    if x.sum() > 0:
        return float(a), b, c, d
    return 0.0, b, c, d


@given(matrix)
def tensor_conditions(x):
    while bool(x.abs().max() > 0.5):
        x = x / 2
    if (x > 0).any():
        x = x + 1
    return x


@given(vector)
def iterating(x):
    total = torch.zeros(())
    for row in x:
        total = total + row
    return total


@given(matrix)
def operators(x):
    w = torch.ones(4, 3)
    return x @ w, x ** 2, 2 ** x, 1 - x, -x, x // 2, x % 2, x > 1, (x > 0) & (x < 1), ~(x > 0), x == x, 3 / (x + 9)


@given(matrix)
def functional(x):
    w = torch.ones(2, 4)
    return (F.relu(x), F.linear(x, w), F.softmax(x, dim=-1), F.gelu(x), F.log_softmax(x, 1), F.layer_norm(x, [4]),
            F.normalize(x), F.pad(x, [1, 1]), F.leaky_relu(x, 0.2), F.dropout(x, 0.5, False), F.elu(x), F.silu(x))


@given(matrix)
def losses(x):
    target = torch.tensor([0, 1, 2])
    return (F.cross_entropy(x, target), F.mse_loss(x, x * 2), F.l1_loss(x, x + 1, reduction="sum"),
            F.nll_loss(F.log_softmax(x, 1), target), F.smooth_l1_loss(x, -x), F.kl_div(x, x.exp()),
            F.binary_cross_entropy_with_logits(x, torch.ones_like(x)))


@given(lambda: torch.rand(1, 2, 8, 8))
def pictures(x):
    w = torch.ones(3, 2, 3, 3)
    return (F.conv2d(x, w, padding=1), F.max_pool2d(x, 2), F.avg_pool2d(x, 2), F.adaptive_avg_pool2d(x, 1),
            F.interpolate(x, scale_factor=2.0, mode="nearest"), F.interpolate(x, size=[4, 4], mode="bilinear"),
            F.adaptive_max_pool2d(x, (2, 2)), F.unfold(x, 3), F.pixel_shuffle(x.repeat(1, 2, 1, 1), 2))


@given(matrix)
def in_place(x):
    y = x.clone()
    y.add_(1).mul_(2)
    y.clamp_(min=0.0)
    y.fill_(3) if y.dim() == 5 else y.neg_()
    F.relu(y, inplace=True)
    return y


@given(matrix)
def keywords(x):
    return (x.sum(dim=1, keepdim=True), torch.add(x, x, alpha=2), torch.clamp(x, min=0.0, max=1.0), x.transpose(0, 1),
            torch.einsum("ij,kj->ik", x, x), torch.flatten(x, start_dim=0), x.permute(1, 0), x.permute([1, 0]),
            x.expand(2, 3, 4), x.repeat(2, 1), torch.addmm(torch.zeros(3, 3), x, x.t(), beta=0.5), x.unsqueeze(-1))


@given(matrix)
def without_gradients(x):
    w = torch.ones(4).requires_grad_()
    with torch.no_grad():
        y = x * w
    z = x * w
    return y, y.requires_grad, z.requires_grad, z.detach().requires_grad


@given(matrix)
def gradients_within(x):
    w = torch.ones(4).requires_grad_()
    with torch.no_grad():
        for _ in range(2):
            if x.dim() == 2:
                x = x * w
    return x, (x * w).requires_grad


@given(matrix)
def recorded(x):
    with torch.autograd.profiler.record_function("part"):
        y = x * 2
    return y


@given(matrix)
def mixed_precision(x):
    with torch.autocast("cpu", enabled=False):
        y = x @ x.t()
    return y


@given(matrix)
def half_products(x):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = x @ x.t()
    return y.float()


@given(matrix)
def set_of_modes(x):
    with torch.no_grad(), torch.autograd.profiler.record_function("two"):
        y = x + 1
    return y


@given(matrix)
def forked(x):
    future = torch.jit.fork(double, x)
    y = x + 1
    return torch.jit.wait(future) + y


def double(x):
    return x * 2


@given(matrix)
def scripting_or_not(x):
    if torch.jit.is_scripting():
        return x + 1
    return x + 1


@given(matrix)
def ignored_function(x):
    if x.dim() > 5:
        x = shown(x)
    return x


@torch.jit.unused
def shown(x):
    raise RuntimeError("not for programs")


@given(matrix)
def anything(x: Any):
    if isinstance(x, torch.Tensor):
        return x + 1
    return torch.zeros(1)


@given(lambda: [torch.ones(2), torch.zeros(2)])
def lists_given(xs: List[torch.Tensor]):
    total = torch.zeros(2)
    for x in xs:
        total += x
    return torch.stack(xs), total, len(xs)


@given(lambda: (torch.ones(2), 3))
def tuple_given(pair: Tuple[torch.Tensor, int]):
    x, n = pair
    return x * n


@given(lambda: {"a": torch.ones(2)})
def dict_given(d: dict[str, torch.Tensor]):
    return {k: v + 1 for k, v in d.items()}


@given(lambda: [torch.ones(2), None])
def optional_items(xs: List[Optional[torch.Tensor]]):
    out = torch.zeros(2)
    for x in xs:
        if x is not None:
            out = out + x
    return out


@given(matrix)
def complex_numbers(x):
    z = torch.complex(x, x)
    return z.real, z.imag, torch.view_as_real(z), z.abs(), z.conj().imag


@given(lambda: torch.rand(5, 5))
def linear_algebra(x):
    s = x @ x.t() + torch.eye(5)
    values, _ = torch.linalg.eigh(s)
    return torch.linalg.det(s), torch.linalg.inv(s), values, torch.linalg.norm(s), torch.linalg.solve(s, x)


@given(lambda: torch.rand(8))
def transforms_of_fourier(x):
    z = torch.fft.rfft(x)
    return z.abs(), torch.fft.irfft(z, n=8), torch.special.erf(x)


@given(matrix)
def device_objects(x):
    device = torch.device("cpu")
    y = torch.ones(2, device=device)
    return y.to(device), str(device), x.to("cpu"), device.type == "cpu", x.cpu()


@given(matrix)
def types_as_values(x):
    dtype = torch.float64
    y = x.to(dtype=dtype)
    if y.dtype == torch.float64:
        y = y + 1
    return y


@given(matrix)
def lists_from_tensors(x):
    rows: List[List[float]] = x.tolist()
    return rows[1], len(rows)


@given(lambda: torch.tensor([3, 1, 2]))
def typed_tolist(x):
    v = torch.jit.annotate(List[int], x.tolist())
    return v


@given(matrix)
def random_numbers(x):
    torch.manual_seed(0)
    return torch.rand(2, 3), torch.randn(2), torch.randint(0, 5, (3,)), torch.rand_like(x), torch.randperm(4)


@given(matrix)
def warnings_given(x):
    warnings.warn("once")
    return x
