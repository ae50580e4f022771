"""Trains a classifier on a folder of images, DIR/train/CLASS/… and DIR/val/CLASS/…

    python examples/vision_classification.py DIR --model resnet18 --epochs 5
"""

import argparse

import flambeau
import flambeau.nn.functional as F
from flambeau.utils.data import DataLoader
from flambeau.vision import datasets, models
from flambeau.vision import transforms as T

normalize = T.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))


def load(folder, size, batch):
    """(batches for training, varied in each epoch; batches for the test; names of the classes)."""
    varied = T.Compose([T.RandomResizedCrop(size, scale=(0.5, 1)), T.RandomHorizontalFlip(), T.ToTensor(), normalize])
    plain = T.Compose([T.Resize(size), T.CenterCrop(size), T.ToTensor(), normalize])
    train = datasets.ImageFolder(f"{folder}/train", varied)
    val = datasets.ImageFolder(f"{folder}/val", plain)
    return DataLoader(train, batch, shuffle=True), DataLoader(val, batch), train.classes


def accuracy(model, loader):
    model.eval()
    with flambeau.no_grad():
        right = sum((model(images).argmax(1) == labels).sum().item() for images, labels in loader)
    return right / len(loader.dataset)


def run(folder, model="resnet18", size=224, epochs=5, batch=32, lr=1e-3):
    """The test accuracy after each epoch."""
    train, val, classes = load(folder, size, batch)
    network = models.get_model(model, num_classes=len(classes))
    optimizer = flambeau.optim.AdamW(network.parameters(), lr)
    schedule = flambeau.optim.lr_scheduler.OneCycleLR(optimizer, lr, total_steps=epochs * len(train))
    reached = []
    for epoch in range(1, epochs + 1):
        network.train()
        for images, labels in train:
            loss = F.cross_entropy(network(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
        reached.append(accuracy(network, val))
        print(f"epoch {epoch}: test accuracy {100 * reached[-1]:.1f} %")
    return reached


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--model", default="resnet18")
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--epochs", type=int, default=5)
    flambeau.manual_seed(0)
    run(**vars(parser.parse_args()))
