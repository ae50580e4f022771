"""Hogwild training (Niu and others 2011): several processes train one model in shared memory, without a lock.

    python examples/hogwild.py --processes 2

Each process draws its own batches, computes its own gradients and writes its steps into the shared weights. Steps of
two processes sometimes overlap, which costs little. The data are digits of 8x8 points with noise, made here. The
program runs under PyTorch with `import torch` and `import torch.multiprocessing as mp` in place of the imports below.
"""

import argparse
import time

import flambeau as torch
import flambeau.multiprocessing as mp

nn, F = torch.nn, torch.nn.functional


class Net(nn.Module):
    def __init__(self, width=64):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(64, width), nn.ReLU(), nn.Dropout(0.2), nn.Linear(width, 10))

    def forward(self, x):
        return self.layers(x)


def digits(n, seed):
    """n noisy images of ten patterns, with their labels."""
    patterns = torch.rand(10, 64, generator=torch.Generator().manual_seed(0)).round()
    stream = torch.Generator().manual_seed(seed)
    labels = torch.randint(0, 10, (n,), generator=stream)
    return patterns[labels] + 0.8 * torch.randn(n, 64, generator=stream), labels


def train(rank, model, images, labels, steps, losses):
    """One process: its losses go into its row of a shared tensor."""
    torch.set_num_threads(1)  # the processes share the cores
    torch.manual_seed(1 + rank)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.5)
    model.train()
    for step in range(steps):
        chosen = torch.randint(0, len(images), (64,))
        optimizer.zero_grad()  # gradients are private to the process; only the weights are shared
        loss = F.cross_entropy(model(images[chosen]), labels[chosen])
        loss.backward()
        optimizer.step()
        losses[rank, step] = loss.detach()


def run(processes, steps, start_method="spawn"):
    """Trains; returns (losses [process, step], accuracy on new images)."""
    torch.manual_seed(0)
    model = Net().share_memory()
    images, labels = (t.share_memory_() for t in digits(4000, seed=1))
    losses = torch.zeros(processes, steps).share_memory_()
    mp.start_processes(train, args=(model, images, labels, steps, losses), nprocs=processes, start_method=start_method)
    model.eval()
    images, labels = digits(1000, seed=2)
    with torch.no_grad():
        return losses, (model(images).argmax(1) == labels).float().mean().item()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--steps", type=int, default=400, help="of each process")
    parser.add_argument("--start-method", default="spawn", choices=("spawn", "fork", "forkserver"))
    options = parser.parse_args()
    start = time.perf_counter()
    losses, accuracy = run(options.processes, options.steps, options.start_method)
    for rank, row in enumerate(losses):
        print(f"process {rank}: loss {row[0]:.3f} -> {row[-20:].mean():.3f}")
    print(f"accuracy {accuracy:.3f} after {time.perf_counter() - start:.1f} s")


if __name__ == "__main__":
    main()
