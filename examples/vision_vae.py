"""A variational autoencoder (Kingma and Welling 2013) on a folder of images, DIR/ANY/…; writes new images it draws.

    python examples/vision_vae.py DIR --epochs 20 --output samples.png
"""

import argparse

import flambeau
import flambeau.nn.functional as F
from flambeau import nn
from flambeau.utils.data import DataLoader
from flambeau.vision import datasets, utils
from flambeau.vision import transforms as T

SIZE, CODE = 32, 16


class VAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Flatten(), nn.Linear(SIZE * SIZE, 256), nn.ReLU(), nn.Linear(256, 2 * CODE))
        self.decoder = nn.Sequential(nn.Linear(CODE, 256), nn.ReLU(), nn.Linear(256, SIZE * SIZE))

    def decode(self, code):
        """Logits of the brightness of each pixel."""
        return self.decoder(code).view(-1, 1, SIZE, SIZE)

    def forward(self, images):
        mean, log_variance = self.encoder(images).chunk(2, 1)
        code = mean + (log_variance / 2).exp() * flambeau.randn_like(mean)
        return self.decode(code), mean, log_variance


def negative_bound(images, logits, mean, log_variance):
    """What the images cost under the model, at most: reconstruction, and the code's distance to a standard normal."""
    reconstruction = F.binary_cross_entropy_with_logits(logits, images, reduction="sum")
    distance = -0.5 * (1 + log_variance - mean ** 2 - log_variance.exp()).sum()
    return (reconstruction + distance) / len(images)


def run(folder, epochs=20, output="samples.png", batch=32, lr=2e-3):
    """The mean cost of an image in each epoch."""
    change = T.Compose([T.Grayscale(), T.Resize((SIZE, SIZE)), T.ToTensor()])
    loader = DataLoader(datasets.ImageFolder(folder, change), batch, shuffle=True)
    model = VAE()
    optimizer = flambeau.optim.Adam(model.parameters(), lr)
    costs = []
    for epoch in range(1, epochs + 1):
        total = 0.0
        for images, _ in loader:
            loss = negative_bound(images, *model(images))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item() * len(images)
        costs.append(total / len(loader.dataset))
        print(f"epoch {epoch}: {costs[-1]:.1f} nats an image")
    with flambeau.no_grad():
        utils.save_image(model.decode(flambeau.randn(64, CODE)).sigmoid(), output)
    return costs


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--output", default="samples.png")
    flambeau.manual_seed(0)
    run(**vars(parser.parse_args()))
