"""Named dimensions: reads "batch 3 height width" and annotations, and expresses sizes in terms of the names."""

import inspect
import re
import typing
from dataclasses import dataclass
from itertools import combinations, pairwise
from math import gcd, prod

from .. import _C
from .._shown import shown

#: the kinds of numbers that annotations name; "" stands for the model's own floating point dtype
_KINDS = {"Float": "", "Inexact": "", "Num": "", "Real": "", "Shaped": "", "Int": "int64", "Integer": "int64",
          "UInt": "uint8", "Bool": "bool", "Complex": "complex64", "Half": "float16", "Double": "float64",
          "Long": "int64", "Tensor": ""}
#: a number in a message: not a part of a word or of a decimal fraction, but also one side of "4x5"
_NUMBER = re.compile(r"(?:(?<=\dx)|(?<![\w.]))\d+(?=x\d|(?![\w.])|\.(?!\d))")
_ANNOTATION = re.compile(r"""^(?:[\w.]*\.)?(\w+)\[.*?,\s*(?:dims?=)?["'](.*)["']\s*\]$""", re.DOTALL)


@dataclass
class Spec:
    """One tensor: a dtype's name ("" for the model's) and its dimensions, sizes or names."""

    dtype: str
    dims: tuple

    def names(self):
        return [d for d in self.dims if isinstance(d, str)]

    def shape(self, sizes):
        return tuple(sizes[d] if isinstance(d, str) else d for d in self.dims)

    def __str__(self):
        return (f"{self.dtype}: " if self.dtype else "") + " ".join(map(str, self.dims))


def parse(text, number=0):
    """A Spec from "int64: batch seq". `_` is a name of its own, `*rest` and `...` stand for two dimensions.

    >>> str(parse("int64: batch 3 _"))
    'int64: batch 3 _0_2'
    """
    dtype, _, dims = text.rpartition(":")
    dtype = dtype.strip()
    if dtype and not isinstance(getattr(_C, dtype, None), _C.dtype):
        raise ValueError(f"check: {shown(dtype)} in {shown(text)} is no dtype; write it as in 'int64: batch seq'")
    found = []
    for k, word in enumerate(dims.split()):
        word = word.lstrip("#?")
        value = word.partition("=")[2]
        if value.isdigit():
            word = value
        if word.isdigit():
            found.append(int(word))
        elif word == "_":
            found.append(f"_{number}_{k}")
        elif word == "..." or word.startswith("*"):
            stem = word.lstrip("*.") or f"_{number}_{k}_"
            found += [f"{stem}1", f"{stem}2"]
        elif word.isidentifier():
            found.append(word)
        else:
            raise ValueError(f"check: {shown(word)} in {shown(text)} is neither a size nor a name")
    return Spec(dtype, tuple(found))


def annotation_spec(annotation, number=0):
    """The Spec of an annotation, or None: jaxtyping's types, Annotated[Tensor, "a b"], or either as text."""
    for text in getattr(annotation, "__metadata__", ()):
        if isinstance(text, str):
            return parse(text, number)
    kind, dims = "", getattr(annotation, "dim_str", None)
    if dims is not None:
        kind = annotation.__name__.partition("[")[0]
    elif isinstance(annotation, str):
        match = _ANNOTATION.match(annotation.strip())
        if match is None:
            return None
        kind, dims = match.groups()
    else:
        return None
    name = _KINDS.get(kind, kind.lower())
    spec = parse(dims, number)
    return Spec(name if isinstance(getattr(_C, name or "_", None), _C.dtype) else "", spec.dims)


def forward_specs(module):
    """([(parameter name, Spec or None)], Spec of the result or None) of a module's forward."""
    forward = type(module).forward
    try:
        found = typing.get_type_hints(forward, include_extras=True)
    except Exception:  # names that only a type checker knows
        found = getattr(forward, "__annotations__", {})
    names = list(inspect.signature(forward).parameters)[1:]
    given = [(n, annotation_spec(found.get(n), k)) for k, n in enumerate(names)]
    return given, annotation_spec(found.get("return"), len(names))


# --- saying a size in terms of names ----------------------------------------------------------------------------------

class Speller:
    """Spells sizes of one run: `sizes` maps names to the sizes they had, `constants` are the model's own sizes.

    >>> speller = Speller({"batch": 704, "h": 832}, {8, 10})
    >>> speller.shape((704, 8, 416)), speller.text("got 704x833")
    ('[batch, 8, h//2]', 'got batchx(h+1)')
    """

    def __init__(self, sizes, constants):
        self.constants = constants
        self.terms, self.parts = {}, []
        for name, size in sizes.items():
            if size > 9:  # smaller numbers stand for other things in messages: dimensions, counts
                self.terms.setdefault(size, name)
                self.parts.append((1, size, name))
        for name, size in sizes.items():
            for d in (2, 4, 8, 16, 32):
                if size > 9 * d:
                    self.terms.setdefault(size // d, f"{name}//{d}")
                    self.parts.append((d, size // d, f"({name}//{d})"))
            if size > 32:
                for k in range(1, 9):
                    self.terms.setdefault(size + k, f"({name}+{k})")
                    self.terms.setdefault(size - k, f"({name}-{k})")

    def name(self, size):
        """The expression of a size, or None: then it is a constant."""
        if size < 2 or size in self.constants:
            return None
        if size in self.terms:
            return self.terms[size]
        parts = [part for part in self.parts if size % part[1] == 0]
        pairs = sorted(combinations(parts, 2), key=lambda pair: pair[0][0] != pair[1][0])  # alike divided first
        for (_, n, text), (_, m, other) in pairs:
            rest, none = divmod(size, n * m)
            if not none and (rest == 1 or rest in self.constants):
                return (f"{rest}*" if rest > 1 else "") + f"{text}*{other}"
        for _, n, text in parts:
            if size // n in self.constants or size // n <= 64:
                return f"{size // n}*{text}"
        return None

    def shape(self, shape):
        return "[" + ", ".join(self.name(n) or str(n) for n in shape) + "]"

    def text(self, message):
        """The message with its numbers as names."""
        return _NUMBER.sub(lambda m: self.name(int(m.group())) or m.group(), message)


# --- finding how an output size depends on the names ------------------------------------------------------------------

def _signed(n):
    return f" + {n}" if n > 0 else f" - {-n}" if n else ""


def fit(name, pairs):
    """(expression, function) of a size that depends on one name, from pairs (size of the name, size found)."""
    pairs = sorted(set(pairs))
    (n0, v0), (n1, v1) = pairs[0], pairs[-1]
    slope, rest = divmod(v1 - v0, n1 - n0)
    if not rest and all(v == v0 + slope * (n - n0) for n, v in pairs):
        c = v0 - slope * n0
        return (f"{slope}*{name}" if slope != 1 else name) + _signed(c), lambda n: slope * n + c
    common = gcd(*(v - v0 for _, v in pairs))
    if common > 1:  # a multiple of something simpler
        rest = v0 % common
        inner = fit(name, [(n, (v - rest) // common) for n, v in pairs])
        return inner and (f"{common}*({inner[0]})" + _signed(rest), lambda n: common * inner[1](n) + rest)
    steps = round((n1 - n0) / (v1 - v0)) if v1 != v0 else 0
    for k in range(max(2, steps - 1), steps + 2):
        for off in range(k):
            c = v0 - (n0 + off) // k
            if all(v == (n + off) // k + c for n, v in pairs):
                inner = f"({name}{_signed(off)})" if off else name
                return f"{inner}//{k}" + _signed(c), lambda n, off=off, k=k, c=c: (n + off) // k + c
    for k in range(2, 9):
        for p in range(2, 9):  # p / k sizes for one
            if gcd(p, k) == 1 and all(v == p * n // k for n, v in pairs):
                return f"{p}*{name}//{k}", lambda n, p=p, k=k: p * n // k
    return None


def express(base, value, series):
    """A size in terms of names: `series` maps each name to the pairs (its size, the size found)."""
    moving = {name: pairs for name, pairs in series.items() if any(v != value for _, v in pairs)}
    if not moving:
        return str(value)
    if len(moving) == 1:
        (name, pairs), = moving.items()
        found = fit(name, pairs)
        return found[0] if found else f"?({name})"
    slopes = {name: fit(name, pairs) for name, pairs in moving.items()}
    if all(s and s[1](1) - s[1](0) == 1 for s in slopes.values()):
        return " + ".join(moving) + _signed(value - sum(base[name] for name in moving))
    parts = []
    for name, pairs in moving.items():
        common = gcd(*(v for _, v in pairs))
        parts.append(common and fit(name, [(n, v // common) for n, v in pairs]))
    if all(parts):
        constant, none = divmod(value, prod(f(base[name]) for name, (_, f) in zip(moving, parts, strict=True)))
        if not none:
            texts = [f"({text})" if re.search(r"[-+/]", text) else text for text, _ in parts]
            return "*".join(([str(constant)] if constant != 1 else []) + texts)
    return f"?({', '.join(moving)})"


def requirement(passed, failed):
    """What a name's size must satisfy, from the sizes that passed and those that did not; "" when nothing."""
    if not failed:
        return ""
    least, most = min(passed), max(passed)
    if all(n < least for n in failed):
        return f"at least {least}"
    if all(n > most for n in failed):
        return f"at most {most}"
    step = gcd(*passed)
    if step > 1 and all(n % step for n in failed if n >= least):
        return f"a multiple of {step}" + (f", at least {least}" if least > step else "")
    gaps = [b - a for a, b in pairwise(sorted(passed))]
    if gaps and (step := gcd(*gaps)) > 1 and all((n - least) % step for n in failed if n >= least):
        return f"{least % step} more than a multiple of {step}" + (f", at least {least}" if least > step else "")
    return "one of " + ", ".join(map(str, sorted(passed)[:8])) + ("" if len(passed) <= 8 else ", …")
