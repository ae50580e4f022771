"""Flambeau against PyTorch on one GPU: microseconds of single operators, what they move, and the ratio.

    python benchmarks/cuda.py [--torch PYTHON] [--only RE] [--turns N]

PYTHON: an interpreter whose PyTorch was built for CUDA. Each side runs in a process of its own (`--side`), in turn; the
medians of the turns are shown. Times are the device's, between two events around many calls, but for "4 floats", where
the processor is what takes time.
"""

import argparse
import importlib
import json
import re
import statistics
import subprocess
import sys
import time


def both_ways(lib, call, *leaves):
    """The call and its gradients."""
    upstream = lib.randn_like(call())
    return lambda: lib.autograd.grad(call(), leaves, upstream)


def pointwise_rows(lib, x, kind):
    """{name: (function, bytes it must read and write)} of elements, layouts and copies of a matrix."""
    f, n = lib.nn.functional, x.numel() * x.element_size()
    leaf, mask = x.detach().requires_grad_(), x > 0
    other = lib.float32 if x.dtype == lib.bfloat16 else lib.bfloat16
    order = lib.randperm(len(x), device="cuda")
    return {f"{name}, {kind}": row for name, row in {
        "add": (lambda: x + x, 2 * n), "exp": (lambda: x.exp(), 2 * n),
        "gelu and back": (both_ways(lib, lambda: f.gelu(leaf, approximate="tanh"), leaf), 5 * n),
        "masked_fill": (lambda: x.masked_fill(mask, 0.0), 2 * n + x.numel()),
        "dropout": (lambda: f.dropout(x), 2 * n + x.numel()),
        "to another dtype": (lambda: x.to(other), 6 * x.numel()), "a row added": (lambda: x + x[0], 2 * n),
        "a column multiplied": (lambda: x * x[:, :1], 2 * n), "a slice copied": (lambda: x[:, 1:].contiguous(), 2 * n),
        "transposed": (lambda: x.t().contiguous(), 2 * n),
        "x + x.t()": (lambda: x[:4096] + x[:4096].t(), 3 * n * 4096 // len(x)),
        "cat": (lambda: lib.cat([x, x], 1), 4 * n), "rows by index": (lambda: x[order], 2 * n),
    }.items()}


def row_rows(lib, x, kind):
    """… of sums, extrema, norms and sorts of rows."""
    f, n, width = lib.nn.functional, x.numel() * x.element_size(), x.shape[1]
    leaf = x.detach().requires_grad_()
    weight, bias = (lib.ones(width, device="cuda", dtype=x.dtype, requires_grad=True) for _ in range(2))

    def norm():
        return f.layer_norm(leaf, (width,), weight, bias)
    return {f"{name}, {kind}": row for name, row in {
        "sum": (lambda: x.sum(), n), "sum of rows": (lambda: x.sum(1), n), "sum of columns": (lambda: x.sum(0), n),
        "amax": (lambda: x.amax(1), n), "argmax": (lambda: x.argmax(1), n), "var": (lambda: x.var(1), n),
        "norm": (lambda: x.norm(), n), "cumsum": (lambda: x.cumsum(1), 2 * n), "topk": (lambda: x.topk(10, 1), n),
        "softmax": (lambda: x.softmax(1), 2 * n),
        "softmax and back": (both_ways(lib, lambda: leaf.softmax(1), leaf), 5 * n),
        "layer_norm": (norm, 2 * n), "layer_norm and back": (both_ways(lib, norm, leaf, weight, bias), 7 * n),
    }.items()}


def batch_norm_rows(lib):
    """… of batch norm, there and back: five tensors are read and written, and three of them once more."""
    found = {}
    for channels, side in ((64, 112), (256, 56), (1024, 14), (2048, 7)):
        for dtype in (lib.float32, lib.bfloat16):
            for order in (lib.contiguous_format, lib.channels_last):
                x = lib.randn(64, channels, side, side, device="cuda", dtype=dtype)
                x = x.contiguous(memory_format=order).requires_grad_()
                weight, bias = (lib.ones(channels, device="cuda", requires_grad=True) for _ in range(2))

                def call(x=x, weight=weight, bias=bias):
                    return lib.nn.functional.batch_norm(x, None, None, weight, bias, True)
                kind = "float32" if dtype == lib.float32 else "bf16"
                last = ", last" if order == lib.channels_last else ""
                found[f"batch norm {channels}x{side} and back, {kind}{last}"] = (
                    both_ways(lib, call, x, weight, bias), 8 * x.numel() * x.element_size())
    return found


def image_rows(lib, x, kind):
    """… of pools, group norm and resizing of images."""
    f, n, plain = lib.nn.functional, x.numel() * x.element_size(), x.detach()
    return {f"{name}, {kind}": row for name, row in {
        "max_pool": (lambda: f.max_pool2d(plain, 3, 2, 1), n * 5 // 4),
        "max_pool and back": (both_ways(lib, lambda: f.max_pool2d(x, 3, 2, 1), x), n * 5 // 2),
        "avg_pool and back": (both_ways(lib, lambda: f.avg_pool2d(x, 2), x), n * 5 // 2),
        "pool to 1 and back": (both_ways(lib, lambda: f.adaptive_avg_pool2d(x, 1), x), 2 * n),
        "group_norm and back": (both_ways(lib, lambda: f.group_norm(x, 8), x), 7 * n),
        "resized twofold": (lambda: f.interpolate(plain, scale_factor=2, mode="bilinear"), 5 * n),
    }.items()}


def model_rows(lib):
    """… of losses, embeddings, optimizers, sorting and random numbers."""
    f = lib.nn.functional
    logits = lib.randn(8192, 50304, device="cuda", requires_grad=True)
    labels = lib.randint(0, 50304, (8192,), device="cuda")
    table = lib.randn(50304, 768, device="cuda", requires_grad=True)
    words = lib.randint(0, 50304, (8, 1024), device="cuda")
    shapes = ((50304, 768), *[(3072, 768), (768, 3072), (2304, 768), (768, 768), (768,), (3072,)] * 12)
    parameters = [lib.randn(shape, device="cuda", requires_grad=True) for shape in shapes]
    for p in parameters:
        p.grad = lib.randn_like(p)
    total = sum(p.numel() for p in parameters)
    norm = lib.tensor(2.0, device="cuda")
    numbers = lib.randn(1 << 22, device="cuda")
    whole = lib.randint(0, 1 << 20, (1 << 22,), device="cuda")
    return {
        "cross_entropy and back": (lambda: lib.autograd.grad(f.cross_entropy(logits, labels), logits),
                                   12 * logits.numel()),
        "embedding and back": (both_ways(lib, lambda: f.embedding(words, table), table), 0),
        "AdamW of 124 M": (lib.optim.AdamW(parameters, fused=True).step, 28 * total),
        "SGD of 124 M": (lib.optim.SGD(parameters, 0.1, momentum=0.9).step, 20 * total),
        "norm of 124 M gradients": (lambda: lib.nn.utils.get_total_norm([p.grad for p in parameters]), 4 * total),
        "clipping of 124 M": (lambda: lib.nn.utils.clip_grads_with_norm_(parameters, 1.9999, norm), 8 * total),
        "sort of 4 M": (lambda: numbers.sort(), 0), "unique of 4 M": (lambda: lib.unique(whole), 0),
        "nonzero of 4 M": (lambda: (numbers > 0).nonzero(), 0), "mask of 4 M": (lambda: numbers[numbers > 0], 0),
        "gather of 4 M": (lambda: numbers[whole], 0), "bincount of 4 M": (lambda: lib.bincount(whole), 0),
        "randperm of 4 M": (lambda: lib.randperm(1 << 22, device="cuda"), 0),
        "randn of 64 M": (lambda: lib.randn(1 << 26, device="cuda"), 4 << 26),
    }


def rows(lib):
    """All of them."""
    small = lib.randn(4, device="cuda")
    found = {"add of 4 floats": (lambda: small + small, 0)}
    for kind, dtype in (("float32", lib.float32), ("bf16", lib.bfloat16)):
        x = lib.randn(16384, 4096, device="cuda").to(dtype)
        found |= pointwise_rows(lib, x, kind) | row_rows(lib, x, kind)
    found |= batch_norm_rows(lib)
    image = lib.randn(64, 64, 112, 112, device="cuda")
    last = image.to(lib.bfloat16).contiguous(memory_format=lib.channels_last)
    found |= image_rows(lib, image.requires_grad_(), "float32") | image_rows(lib, last.requires_grad_(), "bf16, last")
    return found | model_rows(lib) | library_rows(lib)


def library_rows(lib):
    """What NVIDIA's libraries compute; of attention and convolution the gradients too."""
    f, bf16 = lib.nn.functional, {"device": "cuda", "dtype": lib.bfloat16}
    heads = [lib.randn(8, 12, 1024, 64, **bf16, requires_grad=True) for _ in range(3)]
    last = lib.randn(64, 64, 56, 56, **bf16).contiguous(memory_format=lib.channels_last).requires_grad_()
    image, weight = lib.randn(64, 64, 56, 56, device="cuda"), lib.randn(64, 64, 3, 3, device="cuda")
    weight16 = weight.to(lib.bfloat16).contiguous(memory_format=lib.channels_last).requires_grad_()
    layer, words = lib.nn.LSTM(1024, 1024).cuda(), lib.randn(128, 64, 1024, device="cuda")
    square = lib.randn(1024, 1024, device="cuda")
    big = lib.randn(4096, 4096, device="cuda")
    half = big.to(lib.bfloat16)

    def attention():
        return f.scaled_dot_product_attention(*heads, is_causal=True)

    def convolution():
        return f.conv2d(last, weight16, padding=1)

    return {
        "product of 4,096, float32": (lambda: big @ big, 0), "product of 4,096, bf16": (lambda: half @ half, 0),
        "attention, bf16": (attention, 0), "attention and back": (both_ways(lib, attention, *heads), 0),
        "conv 3x3, float32": (lambda: f.conv2d(image, weight, padding=1), 0),
        "conv 3x3, bf16, last": (convolution, 0),
        "conv 3x3 and back": (both_ways(lib, convolution, last, weight16), 0),
        "LSTM, 128 steps": (lambda: layer(words), 0), "fft2 of 64 planes": (lambda: lib.fft.fft2(image[0]), 0),
        "solve, 1,024": (lambda: lib.linalg.solve(square, square), 0),
    }


def measure(lib, call):
    """Seconds of one call once its kernels are made."""
    for _ in range(2):
        call()
    start, end = (lib.cuda.Event(enable_timing=True) for _ in range(2))

    def seconds(count):
        start.record()
        for _ in range(count):
            call()
        end.record()
        end.synchronize()
        return start.elapsed_time(end) / count / 1e3
    return seconds(max(5, min(1000, int(0.02 / max(seconds(2), 1e-6)))))


def small(lib, call):
    """Seconds that the processor takes for a call."""
    for _ in range(3000):
        call()
    best = 1.0
    for _ in range(20):
        lib.cuda.synchronize()
        begin = time.perf_counter()
        for _ in range(300):
            call()
        best = min(best, (time.perf_counter() - begin) / 300)
    return best


def side(name, only):
    lib = importlib.import_module(name)
    if not lib.cuda.is_available():
        raise SystemExit(f"{name}: no GPU is here")
    lib.manual_seed(0)
    for row, (call, moved) in rows(lib).items():
        if not re.search(only, row):
            continue
        try:
            seconds = (small if "4 floats" in row else measure)(lib, call)
        except NotImplementedError as missing:
            print(f"{row}: {missing}", file=sys.stderr)
        else:
            print(json.dumps({row: (seconds, moved)}), flush=True)


def run(python, name, only):
    out = subprocess.run([python, __file__, "--side", name, "--only", only], check=True, capture_output=True,
                         text=True).stdout
    return {row: found for line in out.splitlines() for row, found in json.loads(line).items()}


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--torch", metavar="PYTHON", help="also run PyTorch by this interpreter")
    options.add_argument("--only", metavar="RE", default="", help="rows that this expression finds")
    options.add_argument("--turns", type=int, default=3, metavar="N", help="of each side (default: 3)")
    options.add_argument("--side", metavar="NAME", help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.side:
        return side(given.side, given.only)
    sides = {"flambeau": sys.executable} | ({"torch": given.torch} if given.torch else {})
    turns = {name: [] for name in sides}
    for _ in range(given.turns):
        for name, python in sides.items():
            turns[name].append(run(python, name, given.only))
    for row, (_, moved) in turns["flambeau"][0].items():
        times = {name: statistics.median(t[row][0] for t in found) for name, found in turns.items()}
        own = times["flambeau"]
        rate = f"{moved / own / 1e9:8.0f} GB/s" if moved else " " * 13
        ratio = f"{times['torch'] / own:6.2f}x PyTorch" if "torch" in times else ""
        print(f"{row:44} {own * 1e6:10.1f} us {rate} {ratio}")


if __name__ == "__main__":
    main()
