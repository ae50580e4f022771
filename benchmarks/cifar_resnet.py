"""ResNet-18 on CIFAR-10, written for PyTorch: the same program in both libraries, with the same seed.

    python benchmarks/cifar_resnet.py DIR                               PyTorch and torchvision
    python -m flambeau.as_torch benchmarks/cifar_resnet.py DIR          Flambeau

DIR has the binary batches (data_batch_*.bin and test_batch*.bin, gzipped or not; a part of them will do). The last line
is JSON: the loss of every tenth step, and of each epoch the test accuracy, the seconds, and the processor's seconds.
"""

import argparse
import gzip
import json
import time
from pathlib import Path

import torch
import torch.nn.functional as F
from PIL import Image
from torch.utils.data import DataLoader, Dataset
from torchvision import transforms as T
from torchvision.models import resnet18

#: Flambeau draws a sample's random numbers from the batch's own stream; here they shall be PyTorch's
LOADER = {"seeding": "worker"} if "flambeau" in torch.__version__ else {}
ROW = 1 + 3 * 32 * 32  # a label, then the planes of red, green and blue


class Batches(Dataset):
    """Pictures and labels of the files that fit a pattern."""

    def __init__(self, folder, pattern, transform):
        data = b"".join(gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
                        for path in sorted(Path(folder).glob(pattern)))
        rows = torch.frombuffer(bytearray(data), dtype=torch.uint8).view(-1, ROW)
        self.labels = rows[:, 0].tolist()
        self.pictures = rows[:, 1:].view(-1, 3, 32, 32).permute(0, 2, 3, 1).contiguous().numpy()
        self.transform = transform

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, k):
        return self.transform(Image.fromarray(self.pictures[k])), self.labels[k]


def accuracy(model, loader):
    model.eval()
    with torch.no_grad():
        return sum((model(x).argmax(1) == y).sum().item() for x, y in loader) / len(loader.dataset)


def epoch(model, loader, optimizer, schedule):
    """The loss of each step."""
    model.train()
    losses = []
    for x, y in loader:
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        losses.append(loss.item())
    return losses


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int)
    given = parser.parse_args()
    if given.threads:
        torch.set_num_threads(given.threads)
    torch.manual_seed(given.seed)
    normal = [T.ToTensor(), T.Normalize((0.4914, 0.4822, 0.4465), (0.247, 0.2435, 0.2616))]
    varied = T.Compose([T.RandomCrop(32, padding=4), T.RandomHorizontalFlip(), *normal])
    train = DataLoader(Batches(given.folder, "data_batch_*.bin*", varied), given.batch, shuffle=True, drop_last=True,
                       **LOADER)
    test = DataLoader(Batches(given.folder, "test_batch*.bin*", T.Compose(normal)), 500)
    model = resnet18(num_classes=10)
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9, weight_decay=5e-4, nesterov=True)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=given.epochs * len(train))
    report = {"torch": torch.__version__, "losses": [], "accuracy": [], "seconds": [], "processor": []}
    for _ in range(given.epochs):
        begin, used = time.perf_counter(), time.process_time()
        losses = epoch(model, train, optimizer, schedule)
        report["seconds"].append(round(time.perf_counter() - begin, 2))
        report["processor"].append(round(time.process_time() - used, 2))
        report["losses"] += [round(v, 4) for v in losses[::10]]
        report["accuracy"].append(accuracy(model, test))
    print(json.dumps(report))


if __name__ == "__main__":
    main()
