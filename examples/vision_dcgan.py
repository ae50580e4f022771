"""Two networks that compete: one draws images, one tells them from real ones (Radford, Metz and Chintala 2015).

    python examples/vision_dcgan.py DIR --epochs 50 --output drawn.png      DIR/ANY/…: any images
"""

import argparse

import flambeau
import flambeau.nn.functional as F
from flambeau import nn
from flambeau.utils.data import DataLoader
from flambeau.vision import datasets, utils
from flambeau.vision import transforms as T

SIZE, CODE = 32, 64


def generator(width):
    """Numbers [batch, CODE, 1, 1] to images [batch, 3, 32, 32] in -1..1: each step doubles the side."""
    layers = [nn.ConvTranspose2d(CODE, 4 * width, 4, bias=False), nn.BatchNorm2d(4 * width), nn.ReLU(True)]
    for channels in (4 * width, 2 * width):
        layers += [nn.ConvTranspose2d(channels, channels // 2, 4, stride=2, padding=1, bias=False),
                   nn.BatchNorm2d(channels // 2), nn.ReLU(True)]
    return nn.Sequential(*layers, nn.ConvTranspose2d(width, 3, 4, stride=2, padding=1), nn.Tanh())


def discriminator(width):
    """Images to one number each, large if it takes them for real: each step halves the side."""
    layers = [nn.Conv2d(3, width, 4, stride=2, padding=1), nn.LeakyReLU(0.2, True)]
    for channels in (width, 2 * width):
        layers += [nn.Conv2d(channels, 2 * channels, 4, stride=2, padding=1, bias=False),
                   nn.BatchNorm2d(2 * channels), nn.LeakyReLU(0.2, True)]
    return nn.Sequential(*layers, nn.Conv2d(4 * width, 1, 4), nn.Flatten(0))


def begin(layer):
    """The paper's initial values."""
    if isinstance(layer, (nn.Conv2d, nn.ConvTranspose2d)):
        nn.init.normal_(layer.weight, 0.0, 0.02)
    elif isinstance(layer, nn.BatchNorm2d):
        nn.init.normal_(layer.weight, 1.0, 0.02)


def cost(answers, real):
    return F.binary_cross_entropy_with_logits(answers, flambeau.full_like(answers, float(real)))


def step(optimizer, loss):
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


def run(folder, epochs=50, output="drawn.png", width=32, batch=32, lr=2e-4):
    """[(mean cost of telling apart, mean cost of drawing) of each epoch], and the images that were drawn at the end."""
    change = T.Compose([T.Resize(SIZE), T.CenterCrop(SIZE), T.RandomHorizontalFlip(), T.ToTensor(),
                        T.Normalize([0.5] * 3, [0.5] * 3)])
    loader = DataLoader(datasets.ImageFolder(folder, change), batch, shuffle=True, drop_last=True)
    draw, judge = generator(width).apply(begin), discriminator(width).apply(begin)
    drawing, judging = (flambeau.optim.Adam(net.parameters(), lr, betas=(0.5, 0.999)) for net in (draw, judge))
    fixed = flambeau.randn(64, CODE, 1, 1)  # the same numbers at the end of every run show what was learned
    costs = []
    for epoch in range(1, epochs + 1):
        sums = flambeau.zeros(2)
        for real, _ in loader:
            drawn = draw(flambeau.randn(len(real), CODE, 1, 1))
            telling = cost(judge(real), True) + cost(judge(drawn.detach()), False)
            step(judging, telling)
            fooling = cost(judge(drawn), True)
            step(drawing, fooling)
            sums += flambeau.stack([telling.detach(), fooling.detach()])
        costs.append(tuple((sums / len(loader)).tolist()))
        print(f"epoch {epoch}: telling apart {costs[-1][0]:.2f}, drawing {costs[-1][1]:.2f}")
    with flambeau.no_grad():
        images = (draw.eval()(fixed) + 1) / 2
    utils.save_image(images, output)
    return costs, images


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--epochs", type=int, default=50)
    parser.add_argument("--output", default="drawn.png")
    flambeau.manual_seed(0)
    run(**vars(parser.parse_args()))
