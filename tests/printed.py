"""Tensors to print, for any implementation of PyTorch's API: `python tests/printed.py` writes
printed.json with PyTorch."""

import json
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


if __name__ == "__main__":
    import torch

    texts = []
    for options in OPTIONS:
        torch.set_printoptions(**options)
        texts.append([repr(t) for t in tensors(torch)])
        torch.set_printoptions(profile="default")
    Path(__file__).with_name("printed.json").write_text(json.dumps(texts, indent=0) + "\n")
