"""Quantizes a small network that reads handwritten digits: after training, in a graph, and while it trains on.

    python examples/quantize_digits.py
"""

import argparse
import copy
import io

import flambeau
from flambeau import nn
from flambeau.ao import quantization as aoq
from flambeau.ao.quantization.quantize_fx import convert_fx, prepare_fx
from flambeau.cli.digits import read_digits

TEST_PART = 360
FUSED = [["conv1", "bn1", "relu1"], ["conv2", "bn2", "relu2"], ["fc1", "relu3"]]


class Reader(nn.Module):
    """Two convolutions with batch norm, two linear layers. The stubs mark where numbers become codes, and back."""

    def __init__(self):
        super().__init__()
        self.quant, self.dequant = aoq.QuantStub(), aoq.DeQuantStub()
        self.conv1, self.bn1, self.relu1 = nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU()
        self.conv2, self.bn2, self.relu2 = nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU()
        self.pool, self.fc1, self.relu3, self.fc2 = nn.MaxPool2d(2), nn.Linear(512, 64), nn.ReLU(), nn.Linear(64, 10)

    def forward(self, x):
        x = self.relu1(self.bn1(self.conv1(self.quant(x))))
        x = self.pool(self.relu2(self.bn2(self.conv2(x))))
        return self.dequant(self.fc2(self.relu3(self.fc1(x.flatten(1)))))


def digits():
    """((pictures, labels) to train with, (pictures, labels) to test with); pictures [N, 1, 8, 8] from 0 to 1."""
    pictures, labels = (flambeau.from_numpy(part.copy()) for part in read_digits())
    order = flambeau.randperm(len(labels))
    pictures, labels = pictures[order].unsqueeze(1).float() / 16, labels[order].long()
    return (pictures[TEST_PART:], labels[TEST_PART:]), (pictures[:TEST_PART], labels[:TEST_PART])


def train(model, pictures, labels, epochs, lr):
    """Trains in place, 32 pictures at a time."""
    model.train()
    optimizer = flambeau.optim.Adam(model.parameters(), lr=lr)
    for _ in range(epochs):
        for batch in flambeau.randperm(len(labels)).split(32):
            loss = nn.functional.cross_entropy(model(pictures[batch]), labels[batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return model


def told(name, model, pictures, labels):
    """Prints the share of right answers, and the size of the stored weights."""
    model.eval()
    with flambeau.no_grad():
        right = (model(pictures).argmax(1) == labels).float().mean().item()
    file = io.BytesIO()
    flambeau.save(model.state_dict(), file)
    print(f"{name:<32} accuracy {right:.3f}   {len(file.getvalue()) / 1024:6.1f} KB")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=4)
    epochs = parser.parse_args().epochs
    flambeau.manual_seed(0)
    known, unseen = digits()
    model = train(Reader(), *known, epochs, 0.003)
    told("float32", model, *unseen)

    prepared = aoq.fuse_modules(model.eval(), FUSED)
    prepared.qconfig = aoq.get_default_qconfig("x86")
    prepared = aoq.prepare(prepared)
    prepared(known[0][:256])  # calibration: the observers see typical pictures
    told("quantized after training", aoq.convert(prepared), *unseen)

    prepared = prepare_fx(model, aoq.get_default_qconfig_mapping(), (known[0][:1],))
    prepared(known[0][:256])
    told("quantized as a graph", convert_fx(prepared), *unseen)

    prepared = aoq.fuse_modules_qat(copy.deepcopy(model).train(), FUSED)
    prepared.qconfig = aoq.get_default_qat_qconfig("x86")
    prepared = train(aoq.prepare_qat(prepared), *known, max(1, epochs // 2), 0.0005)
    told("quantized while training on", aoq.convert(prepared.eval()), *unseen)


if __name__ == "__main__":
    main()
