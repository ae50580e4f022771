"""Training from a folder of images with two workers gives the losses that it gives without."""

import random
import subprocess
import sys

import pytest

PROGRAM = """
import sys
import flambeau as torch
from flambeau import nn
from flambeau.utils.data import DataLoader, Dataset
import os

class Folder(Dataset):
    # a folder per class, as torchvision's ImageFolder; the images are PPM, which needs no library
    def __init__(self, root):
        self.classes = sorted(os.listdir(root))
        self.samples = [(os.path.join(root, name, file), k) for k, name in enumerate(self.classes)
                        for file in sorted(os.listdir(os.path.join(root, name)))]
    def __len__(self):
        return len(self.samples)
    def __getitem__(self, index):
        path, label = self.samples[index]
        with open(path, "rb") as file:
            magic, width, height, _ = file.readline(), *map(int, file.readline().split()), file.readline()
            pixels = torch.frombuffer(bytearray(file.read()), dtype=torch.uint8).view(height, width, 3)
        x = pixels.permute(2, 0, 1).float().div(255).sub(0.5)
        return (x.flip(2) if torch.rand(1).item() < 0.5 else x), label

if __name__ == "__main__":
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(8 * 49, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    loader = DataLoader(Folder(sys.argv[1]), 8, shuffle=True, num_workers=int(sys.argv[2]))
    for epoch in range(3):
        for images, labels in loader:
            loss = nn.functional.cross_entropy(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            print(f"{loss.item():.6f}")
"""


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    root = tmp_path_factory.mktemp("images")
    draw = random.Random(0)
    for k, name in enumerate(("blue", "green", "red")):
        (root / name).mkdir()
        for n in range(14):
            pixels = bytes(min(255, draw.randrange(120) + 100 * (c == k)) for _ in range(256) for c in range(3))
            (root / name / f"{n}.ppm").write_bytes(b"P6\n16 16\n255\n" + pixels)
    return root


def losses(images, workers):
    done = subprocess.run([sys.executable, "-c", PROGRAM, str(images), str(workers)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return [float(line) for line in done.stdout.split()]


def test_losses_do_not_depend_on_the_workers(images):
    found = losses(images, 0)
    assert len(found) == 18 and found[-1] < 0.1 * found[0]
    assert losses(images, 2) == found
