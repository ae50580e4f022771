"""Trains a small network on a folder of images, one folder per class, loaded by worker processes.

    python examples/image_folder.py FOLDER --workers 2

Images are read with Pillow; PPM files need no library. Each is resized, cropped at random and flipped every other time.
By default the losses are the same for any number of workers. `--seeding worker` draws the augmentation as PyTorch's
workers do: then the program gives PyTorch's losses. It runs under PyTorch with `import torch` and
`import torch.utils.data as data` in place of the imports below.
"""

import argparse
import json
import time
from pathlib import Path

import flambeau as torch
import flambeau.utils.data as data

nn, F = torch.nn, torch.nn.functional
SIZE = 32  # of a side of what the network sees


def read(path):
    """An image as uint8 values [height, width, 3]."""
    if path.suffix != ".ppm":
        from PIL import Image
        with Image.open(path) as image:
            image = image.convert("RGB")
            return torch.frombuffer(bytearray(image.tobytes()), dtype=torch.uint8).view(image.height, image.width, 3)
    with open(path, "rb") as file:
        _, (width, height), _ = file.readline(), map(int, file.readline().split()), file.readline()
        return torch.frombuffer(bytearray(file.read()), dtype=torch.uint8).view(height, width, 3)


class ImageFolder(data.Dataset):
    """(image, class) of all files below the folder's folders; `classes` are their names."""

    def __init__(self, root):
        self.classes = sorted(path.name for path in Path(root).iterdir() if path.is_dir())
        self.samples = [(path, k) for k, name in enumerate(self.classes) for path in sorted(Path(root, name).iterdir())]

    def __len__(self):
        return len(self.samples)

    def __getitem__(self, index):
        path, label = self.samples[index]
        x = read(path).permute(2, 0, 1).float().div(255).sub(0.5).div(0.25)
        x = F.interpolate(x[None], (SIZE + 4, SIZE + 4), mode="bilinear", antialias=True, align_corners=False)[0]
        top, left = torch.randint(0, 5, (2,)).tolist()
        x = x[:, top:top + SIZE, left:left + SIZE]
        return (x.flip(2) if torch.rand(1).item() < 0.5 else x), label


def network(classes):
    return nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
                         nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(4), nn.Flatten(),
                         nn.Linear(32 * (SIZE // 8) ** 2, classes))


def train(folder, workers, epochs, batch, more):
    """The loss of each step."""
    torch.manual_seed(0)
    dataset = ImageFolder(folder)
    model = network(len(dataset.classes))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    loader = data.DataLoader(dataset, batch, shuffle=True, num_workers=workers, persistent_workers=workers > 0, **more)
    losses = []
    for _ in range(epochs):
        for images, labels in loader:
            loss = F.cross_entropy(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    return losses


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("folder")
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--seeding", help="batch or worker, see docs/data.md; leave it out under PyTorch")
    parser.add_argument("--losses", help="a file for the losses, as JSON")
    options = parser.parse_args()
    if options.threads:
        torch.set_num_threads(options.threads)
    start = time.perf_counter()
    losses = train(options.folder, options.workers, options.epochs, options.batch,
                   {"seeding": options.seeding} if options.seeding else {})
    print(f"loss {losses[0]:.3f} -> {losses[-1]:.3f} after {len(losses)} steps, {time.perf_counter() - start:.1f} s")
    if options.losses:
        Path(options.losses).write_text(json.dumps(losses))


if __name__ == "__main__":
    main()
