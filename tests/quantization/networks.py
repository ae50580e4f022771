"""Small networks for quantization, and the same numbers for each of them in any implementation of PyTorch's API."""

from math import sin


def numbers(torch, *shape, scale=1.0, start=0):
    """The same float32 numbers everywhere."""
    count = 1
    for n in shape:
        count *= n
    values = [scale * sin(12.9898 * (k + start) + 0.3 * (k + start) ** 2) for k in range(count)]
    return torch.tensor(values, dtype=torch.float32).reshape(shape)


def filled(torch, model):
    """The model with known parameters and statistics; what observers have seen stays."""
    start = 0
    with torch.no_grad():
        for name, value in [*model.named_parameters(), *model.named_buffers()]:
            if value.dtype != torch.float32 or not value.ndim or "post_process" in name or "fake_quant" in name:
                continue
            width = 0.5 if value.ndim < 2 else value[0].numel() ** -0.5
            new = numbers(torch, *value.shape, scale=width, start=start)
            value.copy_(new.abs() + 0.5 if "running_var" in name or ("bn" in name and "weight" in name) else new)
            start += value.numel()
    return model


def eager(torch):
    """{name: (model with stubs, layers to fuse, input shape)}."""
    nn, aoq = torch.nn, torch.ao.quantization
    FloatFunctional = torch.ao.nn.quantized.FloatFunctional

    class Residual(nn.Module):
        def __init__(self):
            super().__init__()
            self.quant, self.dequant = aoq.QuantStub(), aoq.DeQuantStub()
            self.conv, self.bn, self.relu = nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU()
            self.conv2, self.bn2 = nn.Conv2d(4, 4, 3, padding=1), nn.BatchNorm2d(4)
            self.sum, self.fc = FloatFunctional(), nn.Linear(4, 3)

        def forward(self, x):
            x = self.relu(self.bn(self.conv(self.quant(x))))
            x = self.sum.add_relu(x, self.bn2(self.conv2(x)))
            return self.dequant(self.fc(x.mean([2, 3])))

    class Perceptron(nn.Module):
        def __init__(self):
            super().__init__()
            self.quant, self.dequant = aoq.QuantStub(), aoq.DeQuantStub()
            self.a, self.relu, self.b, self.bn = nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 16), nn.BatchNorm1d(16)
            self.act, self.c = nn.LeakyReLU(), nn.Linear(16, 4)

        def forward(self, x):
            return self.dequant(self.c(self.act(self.bn(self.b(self.relu(self.a(self.quant(x))))))))

    class Recurrent(nn.Module):
        def __init__(self):
            super().__init__()
            self.quant, self.dequant = aoq.QuantStub(), aoq.DeQuantStub()
            self.lstm, self.attention = nn.LSTM(3, 4, bidirectional=True), nn.MultiheadAttention(8, 2)

        def forward(self, x):
            y, _ = self.lstm(self.quant(x))
            return self.dequant(self.attention(y, y, y)[0])

    return {"residual": (Residual, [["conv", "bn", "relu"], ["conv2", "bn2"]], (4, 1, 6, 6)),
            "perceptron": (Perceptron, [["a", "relu"], ["b", "bn"]], (6, 8)),
            "recurrent": (Recurrent, [], (5, 2, 3))}


def graphs(torch):
    """{name: (model, input shape)} for FX mode."""
    nn = torch.nn
    F = nn.functional

    class Convolutions(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.bn, self.relu = nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU()
            self.conv2, self.pool, self.fc = nn.Conv2d(4, 4, 3, padding=1), nn.AdaptiveAvgPool2d(1), nn.Linear(4, 3)

        def forward(self, x):
            x = self.relu(self.bn(self.conv(x)))
            x = F.relu(x + self.conv2(x))
            return self.fc(torch.flatten(self.pool(x), 1))

    class Mobile(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = nn.Sequential(nn.Conv2d(2, 8, 1, bias=False), nn.BatchNorm2d(8), nn.ReLU6())
            self.b = nn.Sequential(nn.Conv2d(8, 8, 3, padding=1, groups=8), nn.BatchNorm2d(8), nn.Hardswish())
            self.c = nn.Sequential(nn.Conv2d(8, 2, 1), nn.BatchNorm2d(2))
            self.gate = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(2, 2, 1), nn.Hardsigmoid())
            self.up = nn.ConvTranspose2d(2, 3, 2, stride=2)

        def forward(self, x):
            y = self.c(self.b(self.a(x)))
            return self.up(x + y * self.gate(y))

    class Transformer(nn.Module):
        def __init__(self):
            super().__init__()
            self.q, self.k, self.v, self.o = (nn.Linear(8, 8) for _ in range(4))
            self.n1, self.n2, self.softmax = nn.LayerNorm(8), nn.LayerNorm(8), nn.Softmax(-1)
            self.f1, self.relu, self.f2 = nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 8)

        def forward(self, x):
            b, t = x.size(0), x.size(1)
            q, k, v = (f(x).view(b, t, 2, 4).permute(0, 2, 1, 3) for f in (self.q, self.k, self.v))
            w = self.softmax(torch.matmul(q, k.transpose(2, 3)) * 0.5)
            x = self.n1(x + self.o(torch.matmul(w, v).permute(0, 2, 1, 3).reshape(b, t, 8)))
            return self.n2(x + self.f2(self.relu(self.f1(x))))

    return {"convolutions": (Convolutions, (2, 1, 6, 6)), "mobile": (Mobile, (2, 2, 5, 5)),
            "transformer": (Transformer, (2, 3, 8))}
