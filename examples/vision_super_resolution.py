"""Doubles the size of images: a small network learns what bicubic interpolation misses (Shi and others 2016).

    python examples/vision_super_resolution.py DIR --epochs 20      DIR/ANY/…: any images
"""

import argparse

import flambeau
import flambeau.nn.functional as F
from flambeau import nn
from flambeau.utils.data import DataLoader
from flambeau.vision import datasets
from flambeau.vision import transforms as T


def enlarge(images):
    return F.interpolate(images, scale_factor=2, mode="bicubic")


class Upscaler(nn.Module):
    """Adds to the interpolated image four values for each small pixel, put side by side by PixelShuffle."""

    def __init__(self, width=32):
        super().__init__()
        self.detail = nn.Sequential(nn.Conv2d(3, width, 5, padding=2), nn.ReLU(), nn.Conv2d(width, width, 3, padding=1),
                                    nn.ReLU(), nn.Conv2d(width, 12, 3, padding=1), nn.PixelShuffle(2))
        nn.init.zeros_(self.detail[-2].weight)  # it begins as the interpolation
        nn.init.zeros_(self.detail[-2].bias)

    def forward(self, small):
        return enlarge(small) + self.detail(small)


def decibels(found, wanted):
    """Peak signal-to-noise ratio of values in 0..1."""
    return -10 * F.mse_loss(found, wanted).log10().item()


def run(folder, epochs=20, size=64, batch=16, lr=2e-3):
    """PSNR of the interpolation, and of the network, on the images it has learned from."""
    change = T.Compose([T.Resize(size), T.CenterCrop(size), T.ToTensor()])
    dataset = datasets.ImageFolder(folder, change)
    model = Upscaler()
    optimizer = flambeau.optim.Adam(model.parameters(), lr)
    for _ in range(epochs):
        for large, _ in DataLoader(dataset, batch, shuffle=True):
            loss = F.mse_loss(model(F.avg_pool2d(large, 2)), large)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    large = next(iter(DataLoader(dataset, 64)))[0]
    small = F.avg_pool2d(large, 2)
    with flambeau.no_grad():
        before, after = decibels(enlarge(small), large), decibels(model(small), large)
    print(f"bicubic {before:.2f} dB, network {after:.2f} dB")
    return before, after


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--epochs", type=int, default=20)
    flambeau.manual_seed(0)
    run(**vars(parser.parse_args()))
