"""`python -m benchmarks.deployment`: exported programs run by the C library, beside the same networks called from
Python, here and as PyTorch's frozen TorchScript.

`--torch PYTHON` names an interpreter that has PyTorch. Needs gcc. All run in turns, with `--threads` threads.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from .worker import build, measure

NETWORKS = """\
class Block(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.heads, self.first, self.second = heads, nn.LayerNorm(d), nn.LayerNorm(d)
        self.qkv, self.out = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.up, self.down = nn.Linear(d, 4 * d), nn.Linear(4 * d, d)
    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(self.first(x)).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, t, d)
        x = x + self.out(y)
        return x + self.down(F.gelu(self.up(self.second(x))))
class Last(nn.Module):
    def forward(self, x):
        return x[0][:, -1]
class Residual(nn.Module):
    def __init__(self, i, o, step):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(i, o, 3, step, 1, bias=False), nn.BatchNorm2d(o), nn.ReLU(),
                                  nn.Conv2d(o, o, 3, 1, 1, bias=False), nn.BatchNorm2d(o))
        self.short = nn.Sequential(nn.Conv2d(i, o, 1, step, bias=False), nn.BatchNorm2d(o)) if i != o else nn.Identity()
    def forward(self, x):
        return F.relu(self.body(x) + self.short(x))
def resnet18():
    parts, i = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1)], 64
    for o, step in ((64, 1), (128, 2), (256, 2), (512, 2)):
        parts += [Residual(i, o, step), Residual(o, o, 1)]
        i = o
    return nn.Sequential(*parts, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 1000))
torch.manual_seed(0)
torch.set_grad_enabled(False)
net = {network}.eval()
x = {example}
"""
#: (name, network, example, the same for the C program)
ROWS = [
    ("MLP 8-32-32-2, batch 16", "nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), "
     "nn.Linear(32, 2))", "torch.rand(16, 8)", "16,8"),
    ("LSTM 64-128 x 2, 4 x 20", "nn.Sequential(nn.LSTM(64, 128, 2, batch_first=True), Last(), nn.Linear(128, 10))",
     "torch.rand(4, 20, 64)", "4,20,64"),
    ("GPT 256 x 4, 2 x 100", "nn.Sequential(nn.Embedding(1000, 256), *[Block(256, 4) for _ in range(4)], "
     "nn.LayerNorm(256), nn.Linear(256, 1000))", "torch.randint(0, 100, (2, 100))", "i2,100"),
    ("ResNet-18, 1 image", "resnet18()", "torch.rand(1, 3, 224, 224)", "1,3,224,224"),
]
SAVED = NETWORKS + "net(x)\ntorch.export.save(torch.export.export(net, (x,)), {file!r})\n"
FROZEN = NETWORKS + "p = torch.jit.freeze(torch.jit.trace(net, x))\nfor _ in range(3): p(x)\n"


def compiled(folder):
    """The path of the C program."""
    import flambeau
    from flambeau.utils.cpp_extension import include_paths
    library, program = Path(flambeau._C.__file__).parent / "lib", Path(folder, "deployment")
    subprocess.run(["gcc", "-O2", Path(__file__).with_suffix(".c"), f"-I{include_paths()[0]}", f"-L{library}",
                    "-lflambeau", f"-Wl,-rpath,{library}", "-o", program], check=True)
    return program


def seconds(library, threads, setup, statement, budget):
    """The fastest run in this process."""
    library.set_num_threads(threads)
    return min(measure(build(library, setup, statement), 0.0, 0.01, budget))


def in_python(python, name, threads, setup, statement, budget):
    """The same in a process of its own."""
    call = f"import {name}; from benchmarks.deployment import seconds; " \
           f"print(seconds({name}, {threads}, {setup!r}, {statement!r}, {budget}))"
    done = subprocess.run([python, "-c", call], capture_output=True, text=True, check=False,
                          cwd=Path(__file__).resolve().parents[1])
    return float(done.stdout) if not done.returncode else float("nan")


def main():
    parser = argparse.ArgumentParser(prog="python -m benchmarks.deployment", description=__doc__.split("\n\n")[0])
    parser.add_argument("--torch", metavar="PYTHON", default=os.environ.get("FLAMBEAU_TORCH_PYTHON"))
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--budget", type=float, default=2.0, help="seconds for each measurement")
    options = parser.parse_args()
    print(f"{'ms':26} {'load':>8} {'first':>8} {'C':>8} {'Python':>8} {'PyTorch':>8} {'memory':>8}")
    with tempfile.TemporaryDirectory() as folder:
        program = compiled(folder)
        for name, network, example, shape in ROWS:
            file = str(Path(folder, "net.pt2"))

            def setup(text, network=network, example=example, file=file):
                return text.replace("{network}", network).replace("{example}", example).replace("{file!r}", repr(file))

            python = in_python(sys.executable, "flambeau", options.threads, setup(SAVED), "net(x)", options.budget)
            torch = in_python(options.torch, "torch", options.threads, setup(FROZEN), "p(x)", options.budget) \
                if options.torch else float("nan")
            done = subprocess.run([program, file, str(options.threads), str(options.budget), shape], text=True,
                                  capture_output=True, check=True)
            *times, memory = map(float, done.stdout.split())
            cells = "".join(f" {1e3 * t:8.4g}" for t in (*times, python, torch))
            print(f"{name:26}{cells} {memory / 1e6:5.0f} MB", flush=True)


if __name__ == "__main__":
    main()
