"""Writes torch_written.pt with an installed PyTorch: what a file of torch.save holds, for the tests of load."""

import collections
from pathlib import Path

import torch

PATH = Path(__file__).with_name("torch_written.pt")


def content():
    base = torch.arange(12.0).view(3, 4)
    module = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3))
    with torch.no_grad():
        for k, p in enumerate(module.parameters()):
            p.copy_(torch.arange(p.numel()).view(p.shape) + k)
    optimizer = torch.optim.Adam(module.parameters(), lr=0.5)
    for p in module.parameters():
        p.grad = torch.ones_like(p)
    optimizer.step()
    return {
        "base": base,
        "row": base[1],
        "turned": base.t(),
        "every other": base[:, ::2],
        "expanded": base[0, :1].expand(5),
        "parameter": torch.nn.Parameter(torch.ones(2)),
        "frozen": torch.nn.Parameter(torch.ones(2), requires_grad=False),
        "wants grad": torch.ones(2, requires_grad=True),
        "0-d": torch.tensor(2.5),
        "empty": torch.empty(0, 3),
        "dtypes": {
            str(d).split(".")[1]: torch.tensor([0, 1, 2]).to(d)
            for d in (
                torch.bool,
                torch.uint8,
                torch.int8,
                torch.int16,
                torch.int32,
                torch.int64,
                torch.uint16,
                torch.uint32,
                torch.uint64,
                torch.float16,
                torch.bfloat16,
                torch.float32,
                torch.float64,
                torch.complex64,
                torch.complex128,
            )
        },
        "conj": torch.tensor([1 + 2j]).conj(),
        "meta": torch.empty(2, 3, device="meta"),
        "plain": [
            None,
            True,
            3,
            -70000,
            2**70,
            1.5,
            float("inf"),
            1 + 2j,
            "text é",
            b"bytes\xff",
            bytearray(b"x"),
            {1, 2},
            (),
            (1,),
            (1, 2),
            (1, 2, 3),
            (1, 2, 3, 4),
        ],
        "counter": collections.Counter("aab"),
        "ordered": collections.OrderedDict(a=1, b=2),
        "size": base.shape,
        "dtype": torch.float16,
        "device": torch.device("cpu"),
        "module": module.state_dict(),
        "optimizer": optimizer.state_dict(),
        5: "number as key",
        (1, 2): "tuple as key",
    }


if __name__ == "__main__":
    torch.save(content(), PATH)
