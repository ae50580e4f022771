"""Tensors to print, for any implementation of PyTorch's API: `python tests/printed.py` writes
printed.json with PyTorch."""

import json
import math
import random
from pathlib import Path

OPTIONS = [
    {},
    {"precision": 2},
    {"profile": "short"},
    {"profile": "full", "linewidth": 120},
    {"sci_mode": True},
    {"sci_mode": False},
    {"edgeitems": 1, "threshold": 5},
    {"linewidth": 40},
    {"threshold": 10, "edgeitems": 0},
]
NAN, INF = float("nan"), float("inf")
LISTS = [
    1.0,
    3,
    [1.5, -2.25, 1 / 3],
    [1.0, 2.0, 3.0],
    [1e9, 1.0],
    [1e-5, 1.0],
    [1000.0, 1.0],
    [1001.0, 1.0],
    [NAN, INF, -INF, 1.0],
    [NAN],
    [INF, 0.0],
    [NAN, 1.5, INF],
    [True, False],
    [1 + 1j, 2 - 3j],
    [0.5 - 0.25j],
    1e-10,
    123456789.0,
    [0.1, 1000.5],
    [3e38, -3e38],
    [-1.0, -20.0],
    [[]],
    [0.0, -0.0],
    [1e-5, 0, 2e-5],
    [100000.0, 5.0],
    [1, -200, 3],
    [],
]


def tensors(torch):
    steps = torch.arange(2400, dtype=torch.float64) * 0.37 - 100.5
    found = [torch.tensor(values) for values in LISTS]
    found += [
        steps[:20],
        steps[:1200].float(),
        steps[:2000].reshape(40, 50),
        steps[:2000].reshape(10, 10, 20).float(),
        steps[:1200].reshape(2, 600),
        torch.arange(2000),
        torch.arange(12).reshape(3, 4),
        torch.arange(48).reshape(2, 2, 3, 4),
        torch.zeros(7, 500),
        torch.zeros(500, 7).bool(),
    ]
    found += [steps[:6].to(dtype) for dtype in (torch.float16, torch.bfloat16, torch.int8, torch.int16, torch.int32)]
    found += [
        torch.zeros(0),
        torch.zeros(0, 3),
        torch.zeros(0, dtype=torch.int64),
        torch.zeros(2, 0).double(),
        torch.arange(9.0).reshape(3, 3).t(),
        torch.full((5,), 2**62),
        torch.tensor([2**63], dtype=torch.uint64),
        torch.arange(300).to(torch.uint8),
        torch.empty(3, dtype=torch.int32, device="meta"),
    ]
    return found


DRAWN_OPTIONS = [{}, {"precision": 2}, {"precision": 7}, {"sci_mode": True}, {"sci_mode": False}, {"linewidth": 40},
                 {"edgeitems": 1, "threshold": 3}, {"precision": 0}, {"edgeitems": 2, "threshold": 10, "linewidth": 60},
                 {"profile": "short"}, {"profile": "full"}]
SHAPES = [(), (1,), (5,), (3, 4), (2, 3, 4), (0,), (2, 0, 3), (1, 1, 1), (40,), (12, 13), (2, 2, 2, 2)]
DTYPES = ["float32", "float64", "float16", "bfloat16", "int64", "int32", "uint8", "bool", "complex64",
          "complex128", "int8", "float8_e4m3fn", "float8_e5m2"]


def _numbers(r, n):
    kind = r.randint(0, 5)
    odd = [NAN, INF, -INF, 0.0, -0.0, 1.0, 1e-8, 1e8]
    draw = [lambda: r.uniform(-1, 1), lambda: r.uniform(-1, 1) * 10 ** r.randint(-6, 6),
            lambda: float(r.randint(-1000, 1000)), lambda: r.choice([*odd, r.uniform(-9, 9)]),
            lambda: r.uniform(0, 1) * 1e-5, lambda: 10.0 ** r.randint(-3, 9)][kind]
    return [draw() for _ in range(n)]


def drawn(torch, count=250):
    """(options, tensor) pairs: the same for every implementation."""
    r = random.Random(7)
    for _ in range(count):
        options, shape, dtype = r.choice(DRAWN_OPTIONS), r.choice(SHAPES), getattr(torch, r.choice(DTYPES))
        values = _numbers(r, math.prod(shape))
        if dtype.is_complex:
            t = torch.complex(torch.tensor(values, dtype=torch.float64),
                              torch.tensor(_numbers(r, len(values)), dtype=torch.float64)).to(dtype)
        elif dtype is torch.bool:
            t = torch.tensor([value > 0 for value in values], dtype=dtype)
        elif dtype.is_floating_point:
            t = torch.tensor(values, dtype=torch.float64).to(dtype)
        else:
            t = torch.tensor([int(value) % 100 if math.isfinite(value) else 0 for value in values], dtype=dtype)
        t = t.reshape(shape)
        mode = r.randint(0, 4)
        if mode < 3 and t.is_floating_point() and t.element_size() > 1:
            t = [t.requires_grad_, lambda t=t: t.requires_grad_() * 1, lambda t=t: torch.nn.Parameter(t)][mode]()
        elif mode == 3 and t.dim() > 1:
            t = t.transpose(0, 1)
        yield options, t


def drawn_texts(torch):
    texts = []
    for options, t in drawn(torch):
        torch.set_printoptions(profile="default")
        torch.set_printoptions(**options)
        texts.append(repr(t))
    torch.set_printoptions(profile="default")
    return texts


if __name__ == "__main__":
    import torch

    texts = []
    for options in OPTIONS:
        torch.set_printoptions(**options)
        texts.append([repr(t) for t in tensors(torch)])
        torch.set_printoptions(profile="default")
    texts.append(drawn_texts(torch))
    Path(__file__).with_name("printed.json").write_text(json.dumps(texts, indent=0) + "\n")
