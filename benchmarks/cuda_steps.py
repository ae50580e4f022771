"""Training steps on one GPU, eager and compiled: milliseconds, peak memory and what the first compiled step takes.

    python benchmarks/cuda_steps.py [--torch PYTHON] [--only NAME …] [--small]

PYTHON: an interpreter whose PyTorch was built for CUDA. Every network is made of `nn` alone, so that both sides run the
same text. Each (side, network, way) runs in a process of its own, in turn, three times; the median is shown. `--small`
makes all sizes small, to see that everything runs.
"""

import argparse
import importlib
import json
import statistics
import subprocess
import sys
import time

TURNS = 3
WAYS = ("eager", "compile", "reduce-overhead")


def resnet50(lib, small):
    """He et al. 2016, with its blocks of 1x1, 3x3, 1x1."""
    nn = lib.nn

    class Block(nn.Module):
        def __init__(self, inputs, width, stride):
            super().__init__()
            self.body = nn.Sequential(
                nn.Conv2d(inputs, width, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True),
                nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True),
                nn.Conv2d(width, 4 * width, 1, bias=False), nn.BatchNorm2d(4 * width))
            self.past = nn.Identity() if stride == 1 and inputs == 4 * width else nn.Sequential(
                nn.Conv2d(inputs, 4 * width, 1, stride, bias=False), nn.BatchNorm2d(4 * width))

        def forward(self, x):
            return (self.body(x) + self.past(x)).relu()

    layers = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)]
    inputs = 64
    for stage, blocks in enumerate((1,) if small else (3, 4, 6, 3)):
        for k in range(blocks):
            layers.append(Block(inputs, 64 << stage, 2 if stage and not k else 1))
            inputs = 4 * (64 << stage)
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, 1000)]
    n, size = (2, 32) if small else (64, 224)
    return nn.Sequential(*layers), lambda: (lib.randn(n, 3, size, size), lib.randint(0, 1000, (n,)))


def transformer(lib, small, causal):
    """GPT-2 small (causal) or BERT-base: 12 layers of 768 columns and 12 heads."""
    nn, f = lib.nn, lib.nn.functional
    depth, width, heads, words = (2, 16, 2, 50) if small else (12, 768, 12, 50304 if causal else 30522)
    n, length = (2, 8) if small else ((8, 1024) if causal else (32, 512))

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.before, self.after = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x):
            b, t, _ = x.shape
            q, k, v = (y.view(b, t, heads, -1).transpose(1, 2) for y in self.qkv(self.before(x)).chunk(3, -1))
            y = f.scaled_dot_product_attention(q, k, v, is_causal=causal)
            x = x + self.out(y.transpose(1, 2).reshape(b, t, width))
            return x + self.narrow(f.gelu(self.wide(self.after(x)), approximate="tanh"))

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.words, self.places = nn.Embedding(words, width), nn.Embedding(length, width)
            self.layers, self.norm = nn.Sequential(*(Layer() for _ in range(depth))), nn.LayerNorm(width)
            self.head = nn.Linear(width, words, bias=False)

        def forward(self, x):
            x = self.words(x) + self.places.weight[:x.shape[1]]
            return self.head(self.norm(self.layers(x))).flatten(0, 1)

    return Model(), lambda: (lib.randint(0, words, (n, length)), lib.randint(0, words, (n * length,)))


def lstm(lib, small):
    """Two layers of 1,024 units over 128 words."""
    nn = lib.nn
    width, words, n, length = (8, 20, 2, 4) if small else (1024, 10000, 64, 128)

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.words, self.layers = nn.Embedding(words, width), nn.LSTM(width, width, 2, batch_first=True)
            self.head = nn.Linear(width, words)

        def forward(self, x):
            return self.head(self.layers(self.words(x))[0]).flatten(0, 1)

    return Model(), lambda: (lib.randint(0, words, (n, length)), lib.randint(0, words, (n * length,)))


#: network -> (what makes it, whether products are of bfloat16, whether images lie channels last)
NETWORKS = {
    "ResNet-50, TF32": (resnet50, False, False), "ResNet-50, bf16, channels last": (resnet50, True, True),
    "GPT-2 small, bf16": (lambda lib, small: transformer(lib, small, True), True, False),
    "BERT-base, bf16": (lambda lib, small: transformer(lib, small, False), True, False),
    "LSTM, TF32": (lstm, False, False),
}


def training(lib, network, way, small):
    """The function of one step."""
    make, half, last = NETWORKS[network]
    model, batch = make(lib, small)
    model = model.cuda()
    x, target = (t.cuda() for t in batch())
    if last:
        model, x = model.to(memory_format=lib.channels_last), x.to(memory_format=lib.channels_last)
    optimizer = lib.optim.AdamW(model.parameters(), lr=1e-4, capturable=True)

    def step():
        optimizer.zero_grad()
        with lib.autocast("cuda", dtype=lib.bfloat16, enabled=half):
            loss = lib.nn.functional.cross_entropy(model(x), target)
        loss.backward()
        optimizer.step()
        return loss

    if way == "eager":
        return step
    if lib.__name__ == "torch":  # there the backward pass and the optimizer stay outside
        model.compile(mode=None if way == "compile" else way)
        return step
    return lib.compile(step, mode="default" if way == "compile" else way)


def side(name, network, way, small):
    lib = importlib.import_module(name)
    if not lib.cuda.is_available():
        raise SystemExit(f"{name}: no GPU is here")
    lib.manual_seed(0)
    lib.backends.cuda.matmul.allow_tf32 = lib.backends.cudnn.allow_tf32 = True
    step = training(lib, network, way, small)
    begin = time.perf_counter()
    step()
    lib.cuda.synchronize()
    first = time.perf_counter() - begin
    for _ in range(1 if small else 10):
        loss = step()
    lib.cuda.synchronize()
    count, begin = 2 if small else 30, time.perf_counter()
    for _ in range(count):
        loss = step()
    lib.cuda.synchronize()
    took = (time.perf_counter() - begin) / count
    print(json.dumps([took, lib.cuda.max_memory_allocated() / 2**20, first, float(loss)]))


def run(python, *options):
    done = subprocess.run([python, __file__, "--side", *options], capture_output=True, text=True)
    return json.loads(done.stdout.splitlines()[-1]) if done.returncode == 0 else done.stderr.strip()[-300:]


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--torch", metavar="PYTHON", help="also run PyTorch by this interpreter")
    options.add_argument("--only", nargs="*", metavar="NAME", help="networks whose names contain one of these")
    options.add_argument("--small", action="store_true", help="small sizes: whether everything runs")
    options.add_argument("--side", nargs=3, help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.side:
        return side(*given.side, given.small)
    sides = {"flambeau": sys.executable} | ({"torch": given.torch} if given.torch else {})
    print(f"{'':32} {'':16} {'':10} {'ms a step':>10} {'MiB':>8} {'first, s':>9} {'loss':>8}")
    for network in NETWORKS:
        if given.only and not any(part in network for part in given.only):
            continue
        for way in WAYS:
            found = {name: [] for name in sides}
            for _ in range(1 if given.small else TURNS):
                for name, python in sides.items():
                    found[name].append(run(python, name, network, way, *(["--small"] if given.small else [])))
            for name, turns in found.items():
                numbers = [turn for turn in turns if isinstance(turn, list)]
                if not numbers:
                    print(f"{network:32} {way:16} {name:10} failed: {turns[0]}")
                    continue
                took, peak, first, loss = map(statistics.median, zip(*numbers, strict=True))
                print(f"{network:32} {way:16} {name:10} {took * 1e3:10.2f} {peak:8.0f} {first:9.2f} {loss:8.4f}")


if __name__ == "__main__":
    main()
