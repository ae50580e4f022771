"""flambeau and Tensor, as typed programs use them."""

from collections.abc import Sequence

import flambeau as torch
from flambeau import Tensor


def normalised(x: Tensor, dims: Sequence[int]) -> Tensor:
    mean = x.mean(dims, keepdim=True)
    deviation = x.std(dim=dims, keepdim=True)
    return (x - mean) / (deviation + 1e-6)


def shapes(x: Tensor) -> tuple[int, torch.Size]:
    rows: int = x.size(0)
    sizes: torch.Size = x.size()
    steps: tuple[int, ...] = x.stride()
    return rows * len(steps), sizes


def views(x: Tensor) -> list[Tensor]:
    return [x.view(-1), x.view(2, 3), x.reshape((3, 2)), x.permute(1, 0), x.t(), x[0], x[:, 1:], x[x > 0], x.T, x.mT,
            x.flatten(), x.unsqueeze(0).squeeze(0), x.expand(2, 3), x.contiguous(), x.to(torch.float64), x.double()]


def arithmetic(x: Tensor) -> Tensor:
    y = 2 * x + 1 - x / 3
    y = y ** 2 % 3 // 1
    y += 1
    y = -abs(y) @ y.t()
    y = torch.add(y, 1.5, alpha=2)
    mask = (y > 0) & (y == y) | ~(y < 1)
    return torch.where(mask, y, torch.zeros_like(y)).clamp(min=0).sqrt_()


def reductions(x: Tensor) -> float:
    values, indices = x.max(dim=1)
    best = x.sort(descending=True).values
    top = torch.topk(x, 2)
    total: Tensor = x.sum() + values.sum() + best.mean() + indices.sum() + top.values.sum()
    return float(total.item())


def factories(device: torch.device, dtype: torch.dtype) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(0)
    return {
        "zeros": torch.zeros(2, 3, device=device, dtype=dtype), "ones": torch.ones((2, 3)),
        "full": torch.full((2,), 3.0), "arange": torch.arange(0, 10, 2), "linspace": torch.linspace(0, 1, 5),
        "eye": torch.eye(3), "rand": torch.rand(2, 2, generator=generator), "randn": torch.randn(2, 2),
        "randint": torch.randint(0, 10, (3,)), "tensor": torch.tensor([[1, 2], [3, 4]]), "empty": torch.empty(2),
    }


def joined(parts: list[Tensor]) -> Tensor:
    stacked = torch.stack(parts, dim=0)
    first, second = torch.split(torch.cat([stacked, stacked]), 1)[:2]
    product: Tensor = torch.einsum("ij,jk->ik", first, second.t())
    return product


def gradient(x: Tensor) -> Tensor:
    x = x.detach().clone().requires_grad_()
    (x * x).sum().backward()
    assert x.grad is not None
    return x.grad


torch.manual_seed(0)
data = torch.arange(6.0).reshape(2, 3)
normalised(data, [0, 1])
shapes(data)
views(data)
arithmetic(data)
reductions(data)
factories(torch.device("cpu"), torch.float32)
joined([data[0], data[1]])
assert gradient(data).shape == (2, 3)
with torch.no_grad():
    plain: bool = (data * 2).requires_grad
