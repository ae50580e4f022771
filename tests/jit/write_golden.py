# ruff: noqa: UP006, UP031, UP045 (as programs for PyTorch write types)
"""Writes torch_scripts.zip with an installed PyTorch: programs of jit.script and jit.trace, inputs and results, for the
tests of jit.load."""

import enum
import io
import typing
import zipfile
from pathlib import Path

import torch
from torch import nn

PATH = Path(__file__).with_name("torch_scripts.zip")


class Point(typing.NamedTuple):
    """A named tuple of the program."""

    place: torch.Tensor
    count: int


class Colour(enum.Enum):
    """An enumeration of the program."""

    RED = 1
    BLUE = 2


@torch.jit.script
class Counter:
    """A class of the program."""

    def __init__(self, n: int):
        self.n = n
        self.seen: typing.List[torch.Tensor] = []

    def add(self, x: torch.Tensor) -> None:
        """Counts x."""
        self.seen.append(x)
        self.n += 1


def scaled(x: torch.Tensor, k: int) -> torch.Tensor:
    """A function of the program."""
    if k > 100:
        raise ValueError("k is too large: é\n")
    return x * k


class Network(nn.Module):
    """Branches, loops and containers."""

    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)
        self.head, self.drop = nn.Linear(4, 2), nn.Dropout(0.1)
        self.register_buffer("scale", torch.tensor(2.0))
        self.eps = 1e-5

    def forward(self, x, n: int = 3):
        """Grows a list in a loop, counts in another, writes to a part."""
        y = torch.relu(self.norm(self.conv(x))).mean([2, 3])
        y = y * self.scale if n > 2 else y / self.eps
        out: typing.List[torch.Tensor] = []
        for i in range(n):
            out.append(self.head(self.drop(y)) + i)
        k = 0
        while k < 3 and bool(y.sum() > 0):
            k += 1
        found = {"first": out[0], "all": torch.cat(out, 0)}
        part = x[:, 1:, ::2].clone()
        part[0] = 1.0
        return found["all"], f"{k}", part.to(torch.float16), torch.zeros(2, dtype=torch.float64, device=x.device)


class Objects(nn.Module):
    """Objects of classes, texts, exceptions, and what TorchScript knows of Python."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Sequential(nn.Linear(3, 3)))
        self.list = nn.ModuleList([nn.Linear(3, 3) for _ in range(2)])
        self.table, self.colour, self.calls = {"a": 1, "b": 2}, Colour.RED, 0

    def forward(self, x):
        """A little of everything."""
        y = self.layers(x)
        for layer in self.list:
            y = layer(y)
        counter = Counter(2)
        counter.add(y)
        if self.colour == Colour.RED:
            y = y + 1
        self.calls += 1
        with torch.no_grad():
            z = y * float("inf")
        doubled = [v * 2 for v in self.table.values()]
        w, left = doubled[0], 5
        while True:
            left = left - 1
            if left < 0:
                break
        later = torch.jit.fork(scaled, x, 3)
        x2 = x.clone()
        x2[x2 > 0] = 0.5
        for i, (key, value) in enumerate(self.table.items()):
            w = w + value * i + len(key)
        top, place = torch.max(x, dim=1)
        text = f"hé {w}" if w > 100 else "%d" % w
        numbers = (max(3, left), x.shape[0] // 2 + x.shape[-1] ** 2, -1e-30, 3j, 2.0 ** w, 7 % 3, -7 // 2)
        return (Point(y, 4), z, doubled, text, x2, numbers, top, place, scaled(x, 3), counter.n, y.dtype, x.device,
                torch.jit.wait(later), x[None, ..., 0], torch.tensor([[1, 2], [3, 4]]))

    @torch.jit.export
    def other(self, x: typing.Tuple[torch.Tensor, int], d: typing.Dict[str, int]):
        """A method besides forward."""
        a, k = x
        total = a.to(torch.float64).sum(dim=0, keepdim=True)
        return total.type_as(a), k, d["a"], a.size(), a.softmax(-1, torch.float64)


class Traced(nn.Module):
    """Layers whose trace reads sizes."""

    def __init__(self):
        super().__init__()
        self.conv, self.norm, self.head = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Linear(4, 2)
        self.attention, self.recurrent = nn.MultiheadAttention(4, 2, batch_first=True), nn.LSTM(4, 4)

    def forward(self, x):
        """Attention over pixels, then time."""
        y = torch.relu(self.norm(self.conv(x)))
        z = y.view(y.size(0), 4, -1).transpose(1, 2)
        z, _ = self.attention(z, z, z)
        z, _ = self.recurrent(z)
        z += 1
        return {"out": self.head(z.mean(1)) * torch.tensor([1.0, 2.0]), "mean": z.mean(1, keepdim=True)}


@torch.jit.script
def chosen(x, y: typing.Optional[torch.Tensor] = None):
    """A function with an argument that may be left out."""
    assert x.dim() == 2, "expected a matrix"
    return x if y is None else x + y


def plain(x):
    """Results as save keeps them."""
    if isinstance(x, Point):
        return [x.place, x.count]
    return [plain(v) for v in x] if isinstance(x, (list, tuple)) else str(x) if isinstance(x, torch.device) else x


def main():
    """Writes the archive: NAME.pt is a program, NAME.ref its inputs and results."""
    torch.manual_seed(0)
    image, matrix = torch.rand(2, 3, 8, 8), torch.arange(9.0).reshape(3, 3) - 3
    programs = {
        "network": (torch.jit.script(Network().eval()), [(image,), (image, 2)]),
        "objects": (torch.jit.script(Objects()), [(matrix,), (matrix,)]),
        "traced": (torch.jit.trace(Traced().eval(), image, strict=False, check_trace=False), [(image,)]),
        "function": (chosen, [(matrix, None), (matrix, matrix)]),
    }
    with zipfile.ZipFile(PATH, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, (program, inputs) in programs.items():
            with torch.no_grad():
                results = [plain(program(*given)) for given in inputs]
            file = io.BytesIO()
            torch.save({"inputs": inputs, "results": results}, file)
            archive.writestr(f"{name}.ref", file.getvalue())
            file = io.BytesIO()
            torch.jit.save(program, file, _extra_files={"note.txt": "from there"})
            archive.writestr(f"{name}.pt", file.getvalue())


if __name__ == "__main__":
    main()
