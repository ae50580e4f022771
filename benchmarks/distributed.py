"""`python -m benchmarks.distributed`: exchange between 2 ranks of this host, against PyTorch's gloo in turns.

Latency of a small all_reduce, throughput of a large one, and what DistributedDataParallel costs over computing alone:
ResNet-18 and a small GPT, one thread per rank. `--torch PYTHON` names an interpreter that has PyTorch.
"""

import argparse
import importlib
import json
import os
import subprocess
import sys
import time
from statistics import median

RANKS = 2


# --- in the ranks -----------------------------------------------------------------------------------------------------

def seconds(dist, call, count):
    dist.barrier()
    start = time.perf_counter()
    for _ in range(count):
        call()
    return (time.perf_counter() - start) / count


def exchanges(torch, dist):
    one, large = torch.ones(1), torch.ones(1 << 24)
    found = {}
    for name, call, count in (("all_reduce 4 B", lambda: dist.all_reduce(one), 500),
                              ("all_reduce 64 MB", lambda: dist.all_reduce(large), 3),
                              ("broadcast 64 MB", lambda: dist.broadcast(large, 0), 3),
                              ("barrier", dist.barrier, 500)):
        seconds(dist, call, max(1, count // 10))
        found[name] = min(seconds(dist, call, count) for _ in range(3))
        large.fill_(1)
    return found


def block(torch, channels, out, stride):
    nn = torch.nn

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = nn.Sequential(
                nn.Conv2d(channels, out, 3, stride, 1, bias=False), nn.BatchNorm2d(out), nn.ReLU(),
                nn.Conv2d(out, out, 3, 1, 1, bias=False), nn.BatchNorm2d(out))
            self.short = nn.Sequential() if stride == 1 and channels == out else nn.Sequential(
                nn.Conv2d(channels, out, 1, stride, bias=False), nn.BatchNorm2d(out))

        def forward(self, x):
            return torch.relu(self.body(x) + self.short(x))

    return Block()


def resnet18(torch):
    nn, layers, channels = torch.nn, [], 64
    for out, stride in ((64, 1), (64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), (512, 1)):
        layers.append(block(torch, channels, out, stride))
        channels = out
    model = nn.Sequential(nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(),
                          nn.MaxPool2d(3, 2, 1), *layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 1000))
    return model, torch.randn(4, 3, 160, 160)


def gpt(torch):
    nn = torch.nn
    layer = nn.TransformerEncoderLayer(256, 4, 1024, 0.0, batch_first=True, norm_first=True)
    model = nn.Sequential(nn.Embedding(5000, 256), nn.TransformerEncoder(layer, 4, enable_nested_tensor=False),
                          nn.Linear(256, 5000))
    return model, torch.randint(0, 5000, (4, 128))


def training(torch, dist, make):
    """(seconds of a step alone, and with DistributedDataParallel), until both ranks are done, in turns."""
    torch.manual_seed(0)
    model, x = make(torch)
    wrapped = torch.nn.parallel.DistributedDataParallel(make(torch)[0])

    def step(model):
        model.zero_grad()
        model(x).square().mean().backward()
        dist.barrier()

    pairs = [(seconds(dist, lambda: step(model), 1), seconds(dist, lambda: step(wrapped), 1)) for _ in range(8)][2:]
    return median(a for a, _ in pairs), median(b for _, b in pairs)


def work(rank, library, port, what):
    torch = importlib.import_module(library)
    dist = importlib.import_module(f"{library}.distributed")
    importlib.import_module(f"{library}.nn.parallel")
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"tcp://localhost:{port}", rank=rank, world_size=RANKS)
    if what == "exchange":
        found = exchanges(torch, dist)
    else:
        alone, with_ddp = training(torch, dist, {"resnet18": resnet18, "gpt": gpt}[what])
        found = {f"{what}: step alone": alone, f"{what}: with DDP": with_ddp}
    if rank == 0:
        print(json.dumps(found), flush=True)
    dist.barrier()
    dist.destroy_process_group()


# --- here -------------------------------------------------------------------------------------------------------------

def measured(python, library, what):
    """What one fresh pair of ranks finds."""
    done = subprocess.run([python, os.path.abspath(__file__), "--work", library, what], text=True, check=True,
                          stdout=subprocess.PIPE, env={**os.environ, "OMP_NUM_THREADS": "1"})
    return json.loads(done.stdout.splitlines()[-1])


def free_port():
    socket = importlib.import_module("socket").create_server(("localhost", 0))
    with socket:
        return socket.getsockname()[1]


def main():
    parser = argparse.ArgumentParser(prog="python -m benchmarks.distributed", description=__doc__.split("\n\n")[0])
    parser.add_argument("--torch", metavar="PYTHON", default=os.environ.get("FLAMBEAU_TORCH_PYTHON"))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--project", action="store_true", help="how efficient 2 to 4,096 workers would be")
    parser.add_argument("--check", action="store_true", help="with --project: the model beside measured steps")
    parser.add_argument("--work", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        library, what = options.work
        mp = importlib.import_module(f"{library}.multiprocessing")
        mp.spawn(work, (library, free_port(), what), RANKS)
        return
    if options.project:
        importlib.import_module("benchmarks.projection").run(options.check, free_port)
        return
    sides = [(sys.executable, "flambeau")] + ([(options.torch, "torch")] if options.torch else [])
    found = {}
    for what in ("exchange", "resnet18", "gpt"):
        for _ in range(options.rounds):
            for python, library in sides:
                for name, value in measured(python, library, what).items():
                    found.setdefault(name, {}).setdefault(library, []).append(value)
    print(f"{'':28} {'flambeau':>12} {'torch':>12}")
    for name, values in found.items():
        mine, other = (median(values[key]) if key in values else None for key in ("flambeau", "torch"))
        ratio = f"{other / mine:8.2f}x" if other else ""
        print(f"{name:28} {mine * 1e3:9.3f} ms {(f'{other * 1e3:9.3f} ms' if other else ''):>12} {ratio}")
    for what in ("resnet18", "gpt"):
        for library in found[f"{what}: with DDP"]:
            alone, whole = (median(found[f"{what}: {part}"][library]) for part in ("step alone", "with DDP"))
            print(f"{what}: overhead of DDP, {library:10} {100 * (whole / alone - 1):6.1f} %")


if __name__ == "__main__":
    main()
