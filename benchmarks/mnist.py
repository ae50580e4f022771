"""One epoch of a small convolutional network over MNIST: images per second, and the losses of the first steps.

The same program text runs under both libraries; each gets a process of its own, one after the other.
"""

import json
import subprocess

PROGRAM = """\
import gzip, importlib, json, os, sys, time
folder, threads = sys.argv[1], int(sys.argv[2])
torch = importlib.import_module({library!r})
nn = importlib.import_module({library!r} + ".nn")
F = importlib.import_module({library!r} + ".nn.functional")
optim = importlib.import_module({library!r} + ".optim")
import numpy
if threads:
    torch.set_num_threads(threads)

def read(name, header):
    path = os.path.join(folder, name)
    opened = gzip.open(path + ".gz") if os.path.exists(path + ".gz") else open(path, "rb")
    with opened as file:
        return numpy.frombuffer(file.read(), dtype=numpy.uint8, offset=header)

images = torch.from_numpy(read("train-images-idx3-ubyte", 16).copy()).view(-1, 1, 28, 28).float() / 255
labels = torch.from_numpy(read("train-labels-idx1-ubyte", 8).copy()).long()
torch.manual_seed(0)
model = nn.Sequential(nn.Conv2d(1, 32, 3), nn.ReLU(), nn.Conv2d(32, 64, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
                      nn.Linear(9216, 128), nn.ReLU(), nn.Linear(128, 10))
optimizer = optim.Adam(model.parameters(), lr=1e-3)
order = torch.randperm(len(images))
losses, count = [], len(images) // 64
start = time.perf_counter()
for k in range(count):
    batch = order[64 * k:64 * (k + 1)]
    optimizer.zero_grad()
    loss = F.cross_entropy(model(images[batch]), labels[batch])
    loss.backward()
    optimizer.step()
    if k < 50:
        losses.append(loss.item())
seconds = time.perf_counter() - start
print(json.dumps({{"images per second": 64 * count / seconds, "losses": losses}}))
"""


def train(python, library, folder, threads):
    found = subprocess.run([python, "-c", PROGRAM.format(library=library), str(folder), str(threads)], text=True,
                           capture_output=True, check=False)
    return json.loads(found.stdout) if found.returncode == 0 else {"error": found.stderr[-800:]}


def race(workers, folder, threads):
    """One epoch under each worker's library; prints the throughputs and how far the losses are apart."""
    found = {w.library: train(w.python, w.library, folder, threads) for w in workers}
    print("-- MNIST, one epoch of the convolutional network, batch 64")
    for library, result in found.items():
        print(f"{library:44} " + (f"{result['images per second']:8.0f} images/s" if "losses" in result
                                  else f"failed: {result['error']}"))
    losses = [r["losses"] for r in found.values() if "losses" in r]
    if len(losses) == 2:
        apart = max(abs(a - b) for a, b in zip(*losses, strict=True))
        print(f"{'largest difference of the first 50 losses':44} {apart:.2g}")
    return found
