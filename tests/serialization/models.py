"""Small models whose state dicts go between PyTorch and Flambeau: built and run in either.

`python models.py write FILE` (with PyTorch) writes {name: state dict, results}; `python models.py check FILE` loads
such a file into PyTorch's modules and compares the results.
"""

import importlib
import sys


def resnet(torch):
    nn = torch.nn

    class Block(nn.Module):
        def __init__(self, inputs, outputs, stride):
            super().__init__()
            self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
            self.bn1 = nn.BatchNorm2d(outputs)
            self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
            self.bn2 = nn.BatchNorm2d(outputs)
            self.relu = nn.ReLU(inplace=True)
            self.downsample = None
            if stride != 1 or inputs != outputs:
                self.downsample = nn.Sequential(
                    nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs)
                )

        def forward(self, x):
            y = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
            return self.relu(y + (x if self.downsample is None else self.downsample(x)))

    class ResNet(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv1 = nn.Conv2d(3, 4, 7, 2, 3, bias=False)
            self.bn1 = nn.BatchNorm2d(4)
            self.relu = nn.ReLU(inplace=True)
            self.maxpool = nn.MaxPool2d(3, 2, 1)
            self.layer1 = nn.Sequential(Block(4, 4, 1), Block(4, 4, 1))
            self.layer2 = nn.Sequential(Block(4, 6, 2), Block(6, 6, 1))
            self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
            self.fc = nn.Linear(6, 5)

        def forward(self, x):
            x = self.layer2(self.layer1(self.maxpool(self.relu(self.bn1(self.conv1(x))))))
            return self.fc(torch.flatten(self.avgpool(x), 1))

    return ResNet(), (wave(torch, 2, 3, 16, 16),)


def lstm(torch):
    return torch.nn.LSTM(3, 4, 2, bidirectional=True, proj_size=2, batch_first=True), (wave(torch, 2, 5, 3),)


def gru(torch):
    return torch.nn.GRU(3, 4, 2), (wave(torch, 5, 2, 3),)


def transformer(torch):
    return torch.nn.Transformer(8, 2, 1, 1, 12), (wave(torch, 4, 2, 8), wave(torch, 3, 2, 8))


def attention(torch):
    return torch.nn.MultiheadAttention(8, 2, kdim=6, vdim=4), tuple(wave(torch, 3, 2, n) for n in (8, 6, 4))


def normalized(torch):
    nn, parametrizations = torch.nn, torch.nn.utils.parametrizations
    model = nn.Sequential(
        parametrizations.weight_norm(nn.Linear(4, 3)), parametrizations.spectral_norm(nn.Linear(3, 3)),
        nn.Embedding(5, 2), nn.GroupNorm(1, 2),
    )  # fmt: skip
    model.forward = lambda x: model[1](model[0](x)).sum(1, keepdim=True) + model[3](model[2](torch.arange(3)))
    return model, (wave(torch, 3, 4),)


MODELS = [resnet, lstm, gru, transformer, attention, normalized]


def wave(torch, *shape):
    count = 1
    for n in shape:
        count *= n
    return (torch.arange(count) * 0.7).sin().reshape(shape)


def flat(x):
    return [t for part in x for t in flat(part)] if isinstance(x, (tuple, list)) else [] if x is None else [x]


def results(torch, build, state=None):
    """(state dict, results in evaluation) of a model; with `state`, of the model that has loaded it."""
    torch.manual_seed(0)
    model, inputs = build(torch)
    if state is None:
        for _ in range(2):  # running statistics and singular vectors move
            model(*inputs)
    else:
        model.load_state_dict(state)
    model.eval()
    with torch.no_grad():
        found = [t.clone() for t in flat(model(*inputs))]
    return model.state_dict(), found


def written(torch):
    return {build.__name__: dict(zip(("state", "results"), results(torch, build), strict=True)) for build in MODELS}


def compare(torch, content):
    """Load every state dict of `content` and compare what the models give."""
    for build in MODELS:
        entry = content[build.__name__]
        state, found = results(torch, build, entry["state"])
        assert list(state) == list(entry["state"]), build.__name__
        assert len(found) == len(entry["results"]), build.__name__
        for a, b in zip(found, entry["results"], strict=True):
            assert torch.allclose(a, b, rtol=1e-4, atol=1e-5), build.__name__


if __name__ == "__main__":
    torch = importlib.import_module("torch")
    if sys.argv[1] == "write":
        torch.save(written(torch), sys.argv[2])
    else:
        compare(torch, torch.load(sys.argv[2], weights_only=True))
