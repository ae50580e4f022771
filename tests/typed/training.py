"""optim, optim.lr_scheduler, utils.data, amp: a training loop."""

from collections.abc import Iterator

import flambeau as torch
from flambeau import Tensor, nn, optim
from flambeau.amp import GradScaler, autocast
from flambeau.optim.lr_scheduler import CosineAnnealingLR, LambdaLR, LRScheduler, ReduceLROnPlateau, StepLR
from flambeau.utils.data import DataLoader, Dataset, IterableDataset, Subset, TensorDataset, random_split


class Squares(Dataset[tuple[Tensor, int]]):
    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return torch.tensor([float(index)]), index ** 2


class Stream(IterableDataset[Tensor]):
    def __iter__(self) -> Iterator[Tensor]:
        yield from torch.arange(4.0)


def optimizers(model: nn.Module) -> list[optim.Optimizer]:
    parameters = list(model.parameters())
    return [optim.SGD(parameters, lr=0.1, momentum=0.9, nesterov=True),
            optim.Adam(model.parameters(), betas=(0.9, 0.99)),
            optim.AdamW([{"params": parameters, "lr": 1e-3}], weight_decay=0.01), optim.RMSprop(parameters),
            optim.Adagrad(parameters), optim.LBFGS(parameters, lr=1.0)]


def schedules(optimizer: optim.Optimizer) -> list[LRScheduler]:
    return [StepLR(optimizer, step_size=2, gamma=0.5), CosineAnnealingLR(optimizer, T_max=10),
            LambdaLR(optimizer, lambda epoch: 0.95 ** epoch)]


def train(model: nn.Module, loader: DataLoader[tuple[Tensor, int]]) -> float:
    optimizer, scaler = optim.SGD(model.parameters(), lr=0.01), GradScaler("cpu", enabled=False)
    scheduler, plateau = StepLR(optimizer, 1), ReduceLROnPlateau(optimizer, patience=1)
    total = 0.0
    for x, y in loader:
        optimizer.zero_grad()
        with autocast("cpu", dtype=torch.bfloat16):
            loss = nn.functional.mse_loss(model(x), y.float().reshape(-1, 1))
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        total += loss.item()
    scheduler.step()
    plateau.step(total)
    for group in optimizer.param_groups:
        assert group["lr"] > 0
    return total


@torch.no_grad()
def evaluate(model: nn.Module, x: Tensor) -> Tensor:
    result: Tensor = model(x)
    return result


@torch.inference_mode()
def predict(model: nn.Module, x: Tensor) -> Tensor:
    result: Tensor = model(x)
    return result


net = nn.Linear(1, 1)
train(net, DataLoader(Squares(), batch_size=2, shuffle=True, num_workers=0))
parts = random_split(Squares(), [6, 2])
subset: Subset[tuple[Tensor, int]] = parts[0]
for (row,) in DataLoader(TensorDataset(torch.ones(4, 1)), batch_size=2):
    evaluate(net, row)
    predict(net, row)
for number in DataLoader(Stream(), batch_size=None):
    print(number, end=" ")
for each in optimizers(net)[:2]:
    schedules(each)
torch.optim.swa_utils.AveragedModel(net)
