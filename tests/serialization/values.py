"""What checkpoints hold besides tensors, and whole modules: built and compared in PyTorch or in Flambeau.

With PyTorch: `python -c 'import values; values.main()' write FILE [legacy]` writes them, `… check FILE` loads such a
With PyTorch: `python -c "import values; values.main()" write FILE [legacy]` writes them, `… check FILE` loads such a
name the same classes on both sides.
"""

import argparse
import collections
import dataclasses
import datetime
import decimal
import enum
import fractions
import importlib
import pathlib
import random
import sys
import types
import uuid

import numpy

if "torch" not in globals():  # set before by the tests
    torch = importlib.import_module("torch")
nn = torch.nn


class Color(enum.Enum):
    RED = 1
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Rights(enum.Flag):
    READ = 1
    WRITE = 2


@dataclasses.dataclass
class Config:
    lr: float
    layers: list
    color: Color = Color.RED


@dataclasses.dataclass(frozen=True)
class Frozen:
    name: str


@dataclasses.dataclass(slots=True)
class Slotted:
    name: str
    size: int


class Plain:
    def __init__(self, value):
        self.value = value
        self.me = self


class Options(dict):
    pass


Point = collections.namedtuple("Point", "x y")


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 3, 3, padding=1, padding_mode="reflect")
        self.norm = nn.BatchNorm2d(3)
        self.rnn = nn.LSTM(12, 5, batch_first=True, bidirectional=True)
        self.encoder = nn.TransformerEncoderLayer(10, 2, 8, dropout=0.0, batch_first=True)
        self.head = nn.Sequential(nn.LayerNorm(10), nn.Linear(10, 2), nn.Softmax(dim=-1))
        self.act = nn.functional.relu
        self.register_buffer("scale", torch.ones(1) * 2, persistent=False)
        self.sizes = {"in": (4, 4)}

    def forward(self, x):
        y = self.act(self.norm(self.conv(x))).flatten(2)  # [n, 3, 12]
        y, _ = self.rnn(y)
        return self.head(self.encoder(y)) * self.scale


def values():
    """{what: value}; equal on both sides."""
    moment = datetime.datetime(2024, 2, 29, 12, 30, 5, 7, tzinfo=datetime.timezone(datetime.timedelta(hours=2), "X"))
    found = {
        "float array": numpy.arange(6.0).reshape(2, 3), "fortran": numpy.asfortranarray(numpy.arange(6).reshape(2, 3)),
        "empty array": numpy.zeros((0, 3), "f4"), "0-d": numpy.array(2.5),
        "texts": numpy.array(["a", "bcd"]), "bytes": numpy.array([b"x", b"yz"]), "bools": numpy.array([True, False]),
        "complex": numpy.array([1 + 2j]), "half": numpy.array([1.5], "f2"),
        "objects": numpy.array([1, "x", None], object),
        "records": numpy.array([(1, 2.0)], dtype=[("a", "i4"), ("b", "f8")]),
        "aligned": numpy.zeros(2, numpy.dtype([("a", "i1"), ("b", "f8")], align=True)),
        "dates": numpy.array(["2024-02-29"], "M8[D]"), "steps": numpy.array([3], "m8[us]"),
        "float32": numpy.float32(1.5), "float64": numpy.float64(2.5), "int64": numpy.int64(-3),
        "bool_": numpy.bool_(True),
        "datetime64": numpy.datetime64("2024-02-29"), "str_": numpy.str_("text"), "dtype": numpy.dtype("f4"),
        "dtypes": [numpy.dtype(">i2"), numpy.dtype([("a", "i4")])], "scalar type": numpy.float32,
        "random state": numpy.random.RandomState(0).get_state(), "python random": random.Random(0).getstate(),
        "namespace": argparse.Namespace(lr=0.1, name="x", path=pathlib.PurePosixPath("a")),
        "simple": types.SimpleNamespace(a=1, b=[2]), "path": pathlib.Path("a") / "b",
        "pure": pathlib.PureWindowsPath("c:/x"),
        "date": moment.date(), "datetime": moment, "naive": moment.replace(tzinfo=None), "time": moment.time(),
        "timedelta": datetime.timedelta(1, 2, 3), "timezone": datetime.UTC,
        "decimal": decimal.Decimal("1.50"), "fraction": fractions.Fraction(1, 3),
        "uuid": uuid.UUID(int=77), "range": range(1, 10, 2), "slice": slice(1, None, 2), "ellipsis": ...,
        "deque": collections.deque([1, 2], 5), "set": {1, 2}, "frozenset": frozenset([(1, 2)]),
        "complex number": 1 - 2j,
        "counter": collections.Counter("aab"), "ordered": collections.OrderedDict(b=1, a=2),
        "default": collections.defaultdict(list, a=[1]), "bytes object": b"\x00\xff", "bytearray": bytearray(b"ab"),
        "classes": [int, str, float], "layout": torch.strided,
        "keys": {datetime.date(2024, 1, 1): 1, pathlib.PurePosixPath("x"): 2, fractions.Fraction(1, 2): 3},
    }
    tagged = torch.ones(2)
    tagged.tag = "text"
    return found | {"tagged": tagged, "buffer": nn.Buffer(torch.ones(2), persistent=False)}


def of_classes():
    """{what: value} that belongs to classes of this module."""
    return {
        "enum": [Color.RED, Color.BLUE, Level.HIGH, Rights.READ | Rights.WRITE], "config": Config(0.1, [1], Color.BLUE),
        "frozen": Frozen("x"), "slotted": Slotted("x", 2), "plain": Plain(3), "options": Options(a=1),
        "point": Point(1, 2), "class": Config, "keys": {Color.RED: 1, Frozen: 2},
        "functions": [nn.functional.relu, nn.functional.gelu, torch.tanh, nn.ReLU],
    }


def net():
    torch.manual_seed(0)
    model = Net()
    with torch.no_grad():
        for k, p in enumerate(model.parameters()):
            p.copy_((torch.arange(p.numel()) * 0.37 + k).sin().reshape(p.shape) * 0.3)
    return model.eval()


def result(model):
    with torch.no_grad():
        return model((torch.arange(24) * 0.7).sin().reshape(2, 1, 3, 4))


def same(a, b):
    """Whether both are equal, types and order included."""
    if type(a) is not type(b):
        return False
    if isinstance(a, torch.Tensor):
        return a.dtype == b.dtype and torch.equal(a, b) and vars(a) == vars(b)
    if isinstance(a, numpy.ndarray):
        return a.dtype == b.dtype and (a.size == 0 or a.strides == b.strides) and numpy.array_equal(a, b)
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[k], b[k]) for k in a)
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, Plain):
        return a.value == b.value and b.me is b
    return a == b


def content():
    model = net()
    return {"values": values(), "classes": of_classes(), "net": model, "result": result(model)}


def compare(found):
    """Fails with the names of what differs."""
    parts = {"values": values(), "classes": of_classes()}
    wrong = [name for part, wanted in parts.items() for name, value in wanted.items()
             if not same(value, found[part][name])]
    assert not wrong, wrong
    assert isinstance(found["net"], Net) and found["net"].sizes == {"in": (4, 4)}
    assert list(found["net"].state_dict()) == list(net().state_dict())
    assert torch.allclose(result(found["net"]), found["result"], rtol=1e-4, atol=1e-5)
    found["net"].train()
    result(found["net"])
    found["net"].register_forward_hook(lambda *_: None)
    found["net"].head.append(nn.Identity())


def main():
    if sys.argv[1] == "write":
        torch.save(content(), sys.argv[2], _use_new_zipfile_serialization="legacy" not in sys.argv)
    else:
        compare(torch.load(sys.argv[2], weights_only=False))
