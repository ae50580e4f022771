"""Flambeau against PyTorch on one GPU: seconds per call of single operators, medians of turns.

    python benchmarks/cuda.py [--torch PYTHON]     PYTHON: an interpreter whose PyTorch was built for CUDA

Each side runs in a process of its own (`--side`), in turn, five times. Not run yet: no GPU was at hand when this was
written.
"""

import argparse
import importlib
import json
import statistics
import subprocess
import sys
import time

TURNS = 5


def rows(lib):
    """{name: (function of no arguments, bytes it must read and write)}."""
    f = lib.nn.functional
    small, big = lib.randn(4, device="cuda"), lib.randn(4096, 4096, device="cuda")
    half = big.to(lib.bfloat16)
    wide = lib.randn(64, 1 << 20, device="cuda")
    labels = lib.randint(0, 4096, (4096,), device="cuda")
    index = lib.randint(0, 4096, (4096,), device="cuda")
    weight = lib.ones(4096, device="cuda")
    n = big.numel() * 4
    return library_rows(lib) | {
        "add, 4 floats": (lambda: small + small, 0), "add, 64 MB": (lambda: big + big, 3 * n),
        "exp, 64 MB": (lambda: big.exp(), 2 * n), "gelu, 32 MB bf16": (lambda: f.gelu(half), n),
        "add of a transposed": (lambda: big + big.t(), 3 * n), "broadcast": (lambda: big * weight, 2 * n),
        "to bf16": (lambda: big.to(lib.bfloat16), 3 * n // 2), "sum, 256 MB": (lambda: wide.sum(), wide.numel() * 4),
        "sum of rows": (lambda: big.sum(1), n), "sum of columns": (lambda: big.sum(0), n),
        "argmax": (lambda: big.argmax(1), n), "cumsum": (lambda: big.cumsum(1), 2 * n),
        "softmax": (lambda: big.softmax(1), 2 * n), "layer_norm": (lambda: f.layer_norm(big, (4096,), weight), 2 * n),
        "cross_entropy": (lambda: f.cross_entropy(big, labels), n), "index_select": (lambda: big[index], 2 * n),
        "sort, 4 M": (lambda: wide[:4].sort(), 0), "randn, 64 MB": (lambda: lib.randn(4096, 4096, device="cuda"), n),
        "matmul, float32": (lambda: big @ big, 0), "matmul, bf16": (lambda: half @ half, 0),
    }


def library_rows(lib):
    """What NVIDIA's libraries compute; of attention and convolution the gradients too."""
    f, bf16 = lib.nn.functional, {"device": "cuda", "dtype": lib.bfloat16}
    heads = [lib.randn(8, 12, 1024, 64, **bf16, requires_grad=True) for _ in range(3)]
    last = lib.randn(64, 64, 56, 56, **bf16).contiguous(memory_format=lib.channels_last).requires_grad_()
    image, weight = lib.randn(64, 64, 56, 56, device="cuda"), lib.randn(64, 64, 3, 3, device="cuda")
    weight16 = weight.to(lib.bfloat16).contiguous(memory_format=lib.channels_last).requires_grad_()
    layer, words = lib.nn.LSTM(1024, 1024).cuda(), lib.randn(128, 64, 1024, device="cuda")
    square = lib.randn(1024, 1024, device="cuda")

    def both_ways(call, *leaves):
        def step():
            out = call()
            lib.autograd.grad(out, leaves, out.detach())
        return step

    def attention():
        return f.scaled_dot_product_attention(*heads, is_causal=True)

    def convolution():
        return f.conv2d(last, weight16, padding=1)

    return {
        "attention, bf16": (attention, 0), "attention and back": (both_ways(attention, *heads), 0),
        "conv 3x3, float32": (lambda: f.conv2d(image, weight, padding=1), 0),
        "conv 3x3, bf16, last": (convolution, 0),
        "conv 3x3 and back": (both_ways(convolution, last, weight16), 0),
        "LSTM, 128 steps": (lambda: layer(words), 0), "fft2 of 64 planes": (lambda: lib.fft.fft2(image[0]), 0),
        "solve, 1,024": (lambda: lib.linalg.solve(square, square), 0),
    }


def measure(lib, call):
    """Seconds of one call once its kernels are made: the device's time, or the processor's where that is more."""
    for _ in range(3):
        call()
    lib.cuda.synchronize()
    start, count = time.perf_counter(), 0
    while count < 10 or time.perf_counter() - start < 0.2:
        call()
        count += 1
    lib.cuda.synchronize()
    return (time.perf_counter() - start) / count


def side(name):
    lib = importlib.import_module(name)
    if not lib.cuda.is_available():
        raise SystemExit(f"{name}: no GPU is here")
    lib.manual_seed(0)
    found = {}
    for row, (call, moved) in rows(lib).items():
        try:
            found[row] = (measure(lib, call), moved)
        except NotImplementedError as missing:
            print(f"{row}: {missing}", file=sys.stderr)
    print(json.dumps(found))


def run(python, name):
    out = subprocess.run([python, __file__, "--side", name], check=True, capture_output=True, text=True).stdout
    return json.loads(out.splitlines()[-1])


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--torch", metavar="PYTHON", help="also run PyTorch by this interpreter")
    options.add_argument("--side", metavar="NAME", help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.side:
        return side(given.side)
    sides = {"flambeau": sys.executable} | ({"torch": given.torch} if given.torch else {})
    turns = {name: [] for name in sides}
    for _ in range(TURNS):
        for name, python in sides.items():
            turns[name].append(run(python, name))
    for row, (_, moved) in turns["flambeau"][0].items():
        times = {name: statistics.median(t[row][0] for t in found) for name, found in turns.items()}
        own = times["flambeau"]
        rate = f"{moved / own / 1e9:8.0f} GB/s" if moved else " " * 13
        ratio = f"{times['torch'] / own:6.2f}x PyTorch" if "torch" in times else ""
        print(f"{row:24} {own * 1e6:10.1f} us {rate} {ratio}")


if __name__ == "__main__":
    main()
