"""What compiled programs need of memory: a training step's peak against eager's, and the process after many traces.

    python -m benchmarks.plans [resnet50] [gpt] [traces]     (nothing: all three)
"""

import resource
import sys
from pathlib import Path

import flambeau
from flambeau import nn, optim
from flambeau.nn import functional as F


class Layer(nn.Module):
    """Attention and a two-layer network, each normalised before and added after."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.one, self.two = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        n, length, width = x.shape
        parts = self.qkv(self.one(x)).view(n, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        seen = F.scaled_dot_product_attention(*parts.unbind(0), is_causal=True)
        x = x + self.out(seen.transpose(1, 2).reshape(n, length, width))
        return x + self.narrow(F.gelu(self.wide(self.two(x))))


class GPT(nn.Module):
    """Four layers of width 256 over 256 characters, in 128 places."""

    def __init__(self, tokens=256, places=128, width=256, layers=4, heads=8):
        super().__init__()
        self.tokens, self.places = nn.Embedding(tokens, width), nn.Parameter(flambeau.zeros(places, width))
        self.layers = nn.Sequential(*[Layer(width, heads) for _ in range(layers)])
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, tokens)

    def forward(self, tokens):
        return self.head(self.norm(self.layers(self.tokens(tokens) + self.places[:tokens.shape[1]])))


def resnet50():
    """A step of ResNet-50: batch 8, 128 pixels."""
    model = flambeau.vision.models.resnet50()
    return model, (flambeau.randn(8, 3, 128, 128),), flambeau.randint(1000, (8,))


def gpt():
    """A step of the GPT: batch 8, 128 places."""
    return GPT(), (flambeau.randint(256, (8, 128)),), flambeau.randint(256, (8, 128))


def peak(make, compiled):
    """The most bytes that tensors held during a step, beyond what the model, its gradients and its moments hold."""
    flambeau.manual_seed(0)
    model, inputs, target = make()
    optimizer = optim.AdamW(model.parameters(), 1e-4)

    def step():
        optimizer.zero_grad()
        F.cross_entropy(model(*inputs).flatten(0, -2), target.flatten()).backward()
        optimizer.step()
    run = flambeau.compile(step) if compiled else step
    for _ in range(2):
        run()
    held = flambeau.memory.stats()["allocated"]
    flambeau.memory.reset_peak()
    run()
    return flambeau.memory.stats()["peak"] - held, held


def traces(many=10_000):
    """(plans kept, most memory of the process in MB) after each quarter of as many different programs."""
    rows = []
    for number in range(1, many + 1):
        digits = [int(d) for d in f"{number:04d}"]

        def different(x, digits=digits, number=number):
            for d in digits:
                x = (x.sin(), x.cos(), x.exp(), x.tanh(), x.abs(), x.neg(), x.square(), x.relu(), x.sigmoid(),
                     x.floor())[d]
            return x * number
        flambeau.compile(different)(flambeau.ones(3))
        if number % (many // 4) == 0:
            rows.append((number, flambeau._C.graph_counts()["plans"], resident()))
    return rows


def resident():
    """Memory of this process in MB: now, where the system tells, else at most so far."""
    status = Path("/proc/self/status")
    if status.exists():
        line, = (line for line in status.read_text().splitlines() if line.startswith("VmRSS"))
        return int(line.split()[1]) // 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def main(names):
    """Prints the chosen ones."""
    for make in (resnet50, gpt):
        if not names or make.__name__ in names:
            eager, held = peak(make, False)
            compiled, _ = peak(make, True)
            print(f"{make.__name__}: peak of a step over {held / 1e6:.1f} MB that are always held: "
                  f"eager {eager / 1e6:.1f} MB, compiled {compiled / 1e6:.1f} MB, {compiled / eager:.2f}x")
    if not names or "traces" in names:
        for number, plans, megabytes in traces():
            print(f"{number} traces: {plans} plans kept, {megabytes} MB resident")


if __name__ == "__main__":
    main(sys.argv[1:])
