"""The hostile values: numbers at the edges of their types, tensors of every layout, and objects that raise, lie or
change.

One `Values` serves a block of calls. It draws from one random stream, so that the same block makes the same values
again.
"""

import collections

import numpy as np

import flambeau

from ..ops import battery

HUGE = (2 ** 31, 2 ** 40, 2 ** 62, 2 ** 63 - 1, -2 ** 63, 10 ** 30)
SMALL = (0, 1, -1, 2, 3, 5, -2, -7, 4, 64)
NUMBERS = (*SMALL, *SMALL, 127, 1000, *HUGE)
FLOATS = (0.0, -0.0, 0.5, 1.5, -1.0, 2.0, 1e300, -1e300, 1e-40, float("inf"), -float("inf"), float("nan"))
STRINGS = ("", "mean", "sum", "none", "same", "valid", "reflect", "replicate", "circular", "constant", "bilinear",
           "area",
           "nearest", "bicubic", "floor", "trunc", "ij,jk->ik", "i->", "...i,i", "no such", "\0", "é" * 20, "\ud800",
           "cpu",
           "meta", "cpu:-3", "fro", "nuc", "L", "complete", "tanh", "linear", "lower", "ij", "xy", "backward", "ortho")
SHAPES = ((), (0,), (1,), (3,), (2, 3), (3, 2), (3, 3), (0, 3), (2, 0, 3), (1, 1, 1), (2, 3, 4), (2, 2, 3, 3),
          (1, 2, 2, 3, 3), (1,) * 7, (4, 1), (1, 4), (2, 3, 3), (17,), (300,), (0, 0))
DTYPES = battery.ALL_DTYPES
WIDE = tuple(getattr(flambeau, n) for n in ("uint16", "uint32", "uint64", "float8_e4m3fn", "float8_e5m2"))


class Hostile:
    """Raises whenever it is asked anything."""

    def _refuse(self, *args):
        raise KeyError("hostile")

    __index__ = __float__ = __int__ = __bool__ = __len__ = __getitem__ = __iter__ = __complex__ = _refuse
    __eq__ = __hash__ = __repr__ = __str__ = __call__ = __enter__ = __setitem__ = __contains__ = __array__ = _refuse

    def __getattr__(self, name):
        raise KeyError(name)


class Liar:
    """Answers, and the answers do not fit together."""

    def __init__(self, length, item):
        self.length, self.item = length, item

    def __len__(self):
        return self.length

    def __getitem__(self, k):
        if isinstance(k, int) and k > 200:
            raise IndexError(k)
        return self if self.item is None else self.item

    def __index__(self):
        return self.length

    def __float__(self):
        return float(self.length)


class Thief:
    """Asked for its number, it empties the list that it is in."""

    def __init__(self, home):
        self.home = home

    def __index__(self):
        self.home.clear()
        return 1

    def __float__(self):
        return float(self.__index__())

    __int__ = __len__ = __index__

    def __getitem__(self, k):
        self.home.extend([1.0] * 3)
        return 1


class Array:
    """Something with `__array__`, of any contents."""

    def __init__(self, contents):
        self.contents = contents

    def __array__(self, dtype=None, copy=None):
        return self.contents


class Foreign:
    """Overrides every operator: with an answer of its own, or with an exception."""

    answer = 3

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        if cls.answer is None:
            raise KeyError("foreign")
        return cls.answer


class Refusing(Foreign):
    answer = None


class Subclass(flambeau.Tensor):
    pass


class Empty(flambeau.Tensor):
    """A wrapper: sizes and a dtype, no memory."""

    @staticmethod
    def __new__(cls, shape, dtype):
        return flambeau.Tensor._make_wrapper_subclass(cls, shape, dtype=dtype)

    def __init__(self, shape, dtype):
        pass

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        raise KeyError("no values")

    def __repr__(self):
        return "Empty()"


class OwnInt(int):
    def __index__(self):
        raise KeyError("int")


class OwnFloat(float):
    def __float__(self):
        raise KeyError("float")


class OwnStr(str):
    def __eq__(self, other):
        raise KeyError("str")

    __hash__ = str.__hash__


class OwnList(list):
    def __len__(self):
        return 5

    def __iter__(self):
        raise KeyError("list")


class Values:
    def __init__(self, random):
        self.random = random
        self.uniform = random.random
        self.tensors = [self.make_tensor() for _ in range(20)]

    def pick(self, options):
        return options[int(self.uniform() * len(options))]

    def below(self, n):
        return int(self.uniform() * n)

    def make_tensor(self):
        """A new tensor: any shape, dtype, layout, sometimes without memory, sometimes wanting a gradient."""
        shape, kind = self.pick(SHAPES), self.uniform()
        dtypes = DTYPES if self.uniform() < 0.4 else WIDE if self.uniform() < 0.05 else (flambeau.float32,)
        dtype = self.pick(dtypes)
        if kind < 0.06:
            return flambeau.empty(shape, dtype=dtype, device="meta")
        if kind < 0.1:
            return flambeau.ones(1, dtype=dtype).expand(self.pick((2, 3, 0)))
        if kind < 0.14:
            return flambeau.ones(*[n + 1 for n in shape], 2, dtype=dtype)[..., 0]
        if kind < 0.16:
            return Empty(shape, dtype)
        if kind < 0.5 and (dtype.is_floating_point or dtype.is_complex):
            t = flambeau.rand(shape).to(dtype)
        else:
            t = flambeau.randint(0, 5, shape).to(dtype)
        if kind > 0.9 and t.numel() and dtype in DTYPES and dtype.is_floating_point:
            t.view(-1)[0] = self.pick((0.0, -0.0, 1e4, *FLOATS[-3:]))
        if kind > 0.95 and t.ndim > 1:
            t = t.transpose(0, -1)
        if 0.8 < kind < 0.83:
            t = t.as_subclass(Subclass)
        if 0.5 < kind < 0.65 and (dtype.is_floating_point or dtype.is_complex):
            t.requires_grad_()
        return t

    def tensor(self):
        return self.pick(self.tensors) if self.uniform() < 0.9 else self.make_tensor()

    def ints(self):
        options = SMALL[:9] if self.uniform() < 0.85 else NUMBERS
        found = [self.pick(options) for _ in range(self.below(5))]
        return found if self.uniform() < 0.5 else tuple(found)

    def thief(self):
        home = [self.pick(SMALL) for _ in range(self.below(4))]
        home.insert(self.below(len(home) + 1), Thief(home))
        if self.uniform() < 0.5:
            home.append(self.pick((1, 1.5, self.tensor())))
        return home

    def looped(self):
        data = [self.pick((1, 1.5, self.tensor()))]
        data.insert(self.below(2), data)
        return data

    def array(self):
        kind = self.below(8)
        if kind == 0:
            return np.zeros(2, self.pick(("M8[s]", "m8[s]", "U3", "S2", "V3", ">f4", "f2,i4", object)))
        if kind == 1:
            return np.ones((3, 4), self.pick((np.float32, np.int64, np.complex64)))[::self.pick((-1, 2)), ::-1]
        if kind == 2:
            return np.frombuffer(b"12345678901234567", np.float32, 2, self.below(8))
        return np.ones(self.pick(SHAPES), self.pick((np.float64, np.float32, np.int32, np.uint8, np.bool_,
                                                     np.longdouble)))

    def numpy_scalar(self):
        return self.pick((np.float64(1.5), np.int8(3), np.bool_(True), np.uint64(2 ** 63), np.float16("nan"),
                          np.datetime64(3, "s"),
                          np.timedelta64(3, "ns"), np.str_("a"), np.void(b"abc"), np.longdouble(1), np.complex64(1j)))

    def slice(self):
        ends = (None, None, *NUMBERS, Hostile(), 1.5, flambeau.tensor(1))
        return slice(self.pick(ends), self.pick(ends), self.pick(ends))

    def key(self):
        """What a tensor may be indexed with."""
        def part():
            kind = self.below(10)
            if kind < 3:
                return self.pick(NUMBERS)
            if kind < 5:
                return self.slice()
            if kind == 5:
                return self.pick((None, Ellipsis, True, False))
            if kind == 6:
                return flambeau.randint(-3, 3, self.pick(((), (2,), (0,), (2, 2)))).to(self.pick((flambeau.int64,
                                                                                                  flambeau.bool)))
            if kind == 7:
                return self.pick(self.tensors)
            return self.anything()
        return part() if self.uniform() < 0.5 else tuple(part() for _ in range(self.below(5)))

    def function(self):
        return self.pick((lambda *a: a, lambda x: x.sum(), lambda x, *a: x * x, lambda *a: None, lambda x: 1,
                          flambeau.sum,
                          lambda x: x.add_(1), lambda *a: {"a": a}, flambeau.mul, lambda x: x.numpy(), len, Hostile(),
                          lambda x: x.backward(), lambda x: [x, (x, x.sin())], lambda x: x.reshape(-1)[0].item()))

    def anything(self):
        return self.pick(_ANYTHING)(self)

    def value(self, type_name):
        """A plausible value for a type that a schema names; now and then anything."""
        if self.uniform() < 0.12:
            return self.anything()
        if type_name.endswith("?") and self.uniform() < 0.4:
            return None
        return _kind_of(type_name)(self)


#: what stands where nothing fits
_ANYTHING = (
    Values.tensor, Values.tensor, lambda v: v.pick(NUMBERS), lambda v: v.pick(FLOATS), lambda v: v.pick(STRINGS),
    lambda v: None,
    lambda v: [], lambda v: (), lambda v: {}, lambda v: object(), lambda v: Hostile(), lambda v: True, lambda v: 1j,
    Values.ints,
    lambda v: [v.tensor() for _ in range(v.below(4))], lambda v: [None, v.tensor()], lambda v: v.pick(DTYPES),
    lambda v: [[1, 2], [3]], lambda v: flambeau.Tensor, lambda v: b"bytes",
    lambda v: range(v.pick(HUGE[:3]) if v.uniform() < 0.05 else 3),
    lambda v: Liar(v.pick((0, 1, 3, -1, 2 ** 62, 2 ** 31, 2 ** 70)), v.pick((None, 1, 1.5, "a", v.tensor()))),
    Values.thief,
    Values.looped, Values.array, Values.numpy_scalar, lambda v: [v.numpy_scalar(), v.array()], Values.slice,
    Values.function,
    lambda v: Array(v.pick((v.array(), None, 3, [1], v.tensor()))), lambda v: Foreign(), lambda v: Refusing(),
    lambda v: [Foreign()],
    lambda v: OwnInt(v.pick(SMALL)), lambda v: OwnFloat(1.5), lambda v: OwnStr("mean"), lambda v: OwnList([1, 2]),
    lambda v: collections.deque([1, 2]), lambda v: {"a": v.tensor()}, lambda v: flambeau.Generator(),
    lambda v: flambeau.Size((2, 3)),
    lambda v: flambeau.device(v.pick(("cpu", "meta"))), lambda v: flambeau.channels_last, lambda v: flambeau.strided,
    lambda v: flambeau.preserve_format, lambda v: iter([1, 2]), lambda v: (x for x in (1, 2)), lambda v: NotImplemented,
    lambda v: type("Odd", (), {"__len__": lambda self: "x"})(), lambda v: memoryview(b"abcd"), lambda v: bytearray(8),
    lambda v: [1] * 3000, lambda v: "x" * 3000, lambda v: {k: k for k in range(100)}, lambda v: 10 ** 400,
)

_KINDS = {
    "Tensor": Values.tensor, "Tensor[]": lambda v: [v.tensor() for _ in range(v.below(4))],
    "Tensor?[]": lambda v: [v.pick((None, v.tensor())) for _ in range(v.below(4))],
    "Scalar": lambda v: v.pick(v.pick((NUMBERS, FLOATS, (1j, True, 2)))), "int": lambda v: v.pick(NUMBERS),
    "int[]": Values.ints,
    "float": lambda v: v.pick(FLOATS), "float[]": lambda v: [v.pick(FLOATS) for _ in range(v.below(4))],
    "bool": lambda v: v.uniform() < 0.5, "str": lambda v: v.pick(STRINGS), "dtype": lambda v: v.pick(DTYPES),
    "device": lambda v: v.pick(("cpu", "meta", "cuda", "no such", "cpu:-3", 0, -1)),
    "Generator": lambda v: flambeau.Generator(), "MemoryFormat": lambda v: v.pick((flambeau.channels_last,
                                                                                   flambeau.contiguous_format)),
}


def _kind_of(type_name):
    base = type_name if type_name.endswith("?[]") else type_name.rstrip("?")
    if base not in _KINDS and "[" in base:
        base = base.split("[")[0] + "[]"
    return _KINDS.get(base, Values.anything)


def asks_for_much(x, depth=0):
    """Whether numbers in it ask for memory that a machine could just serve: such calls are slow, and prove nothing."""
    if type(x) is int:
        return 10 ** 6 < abs(x) < 10 ** 11
    if type(x) in (list, tuple) and depth < 3:
        product = 1
        for item in x[:20]:
            if type(item) is int:
                product *= abs(item)
            elif asks_for_much(item, depth + 1):
                return True
        return 10 ** 6 < product < 10 ** 11
    return False


def numpy_dies_of(arguments):
    """A list that changes while it is read, beside a NumPy number: `list % number` is NumPy's, and ends the process."""
    def steals(x):
        return type(x) is Thief or (type(x) in (list, tuple) and any(type(y) is Thief for y in x))
    return any(isinstance(x, np.generic | np.ndarray) for x in arguments) and any(map(steals, arguments))


def described(x, depth=0):
    """A short text for any value; asks hostile objects nothing."""
    kind = type(x)
    if isinstance(x, flambeau.Tensor):
        if kind is Empty:
            return f"Empty({list(x.shape)}, {x.dtype})"
        marks = "" if x.device.type == "cpu" else "@meta"
        marks += " requires_grad" if x.requires_grad else ""
        return f"{'Subclass:' if kind is Subclass else ''}{x.dtype}{list(x.shape)}{marks} stride {list(x.stride())}"
    if kind in (list, tuple) and depth < 4:
        return "[" + ", ".join(described(v, depth + 1) for v in x[:6]) + (", …]" if len(x) > 6 else "]")
    if kind is dict and depth < 4:
        return "{" + ", ".join(f"{k}: {described(v, depth + 1)}" for k, v in list(x.items())[:6]) + "}"
    if kind is slice:
        return f"slice({described(x.start)}, {described(x.stop)}, {described(x.step)})"
    if kind is Liar:
        return f"Liar({x.length}, {described(x.item)})"
    if kind is np.ndarray:
        return f"array({x.dtype}, {x.shape}, strides {x.strides})"
    if kind.__module__ == __name__ or depth >= 4:
        return f"{kind.__name__}(…)"
    return repr(x)[:80]
