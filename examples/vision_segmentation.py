"""Learns to which class each pixel belongs, from DIR/images/NAME.* and DIR/masks/NAME.png (gray: 0, 1, 2 …; 255: any).

    python examples/vision_segmentation.py DIR --classes 21 --model deeplabv3_resnet50
"""

import argparse
from pathlib import Path

import flambeau
import flambeau.nn.functional as F
from flambeau.utils.data import DataLoader, Dataset, random_split
from flambeau.vision import io, models, tv_tensors
from flambeau.vision.transforms import v2

ANY = 255  # pixels of this number cost nothing, as in VOC


class Masked(Dataset):
    """(image, mask) pairs of a folder, which the transforms change together."""

    def __init__(self, folder, size):
        self.images = sorted(Path(folder, "images").iterdir())
        self.change = v2.Compose([
            v2.RandomResizedCrop(size, scale=(0.5, 1), antialias=True), v2.RandomHorizontalFlip(),
            v2.ToDtype({tv_tensors.Image: flambeau.float32, tv_tensors.Mask: flambeau.int64}, scale=True),
            v2.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))])

    def __len__(self):
        return len(self.images)

    def __getitem__(self, k):
        path = self.images[k]
        image = tv_tensors.Image(io.decode_image(str(path), "RGB"))
        mask = tv_tensors.Mask(io.decode_image(str(path.parent.parent / "masks" / f"{path.stem}.png"), "GRAY")[0])
        return self.change(image, mask)


def overlaps(model, loader, classes):
    """The mean over the classes of intersection / union (Everingham and others 2010)."""
    table = flambeau.zeros(classes, classes, dtype=flambeau.int64)  # [true class, found class]: how many pixels
    model.eval()
    with flambeau.no_grad():
        for images, masks in loader:
            found, known = model(images)["out"].argmax(1), masks != ANY
            table += flambeau.bincount(masks[known] * classes + found[known], minlength=classes ** 2).view(table.shape)
    union = table.sum(0) + table.sum(1) - table.diag()
    return (table.diag()[union > 0] / union[union > 0]).mean().item()


def run(folder, classes=21, model="lraspp_mobilenet_v3_large", size=224, epochs=10, batch=8, lr=1e-3):
    """[(mean loss, mean overlap on the fifth of the images that is not learned from) of each epoch]."""
    dataset = Masked(folder, size)
    test, train = random_split(dataset, [len(dataset) // 5, len(dataset) - len(dataset) // 5])
    train, test = DataLoader(train, batch, shuffle=True, drop_last=True), DataLoader(test, batch)
    network = models.get_model(model, num_classes=classes, weights_backbone=None)
    optimizer = flambeau.optim.AdamW(network.parameters(), lr)
    reached = []
    for epoch in range(1, epochs + 1):
        network.train()
        total = 0.0
        for images, masks in train:
            loss = F.cross_entropy(network(images)["out"], masks, ignore_index=ANY)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
        reached.append((total / len(train), overlaps(network, test, classes)))
        print(f"epoch {epoch}: loss {reached[-1][0]:.3f}, overlap {100 * reached[-1][1]:.1f} %")
    return reached


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--classes", type=int, default=21)
    parser.add_argument("--model", default="lraspp_mobilenet_v3_large")
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--epochs", type=int, default=10)
    flambeau.manual_seed(0)
    run(**vars(parser.parse_args()))
