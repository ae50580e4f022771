"""Sample calls for every operator: what the generated tests, the fuzz test and the reference pages call it with.

A record names its generator as plain data: `samples="pairs"` or `samples=("reals", -3, 3)`. A record that names none
gets the generator called like itself (`gather` has its own argument form), else what its kind and schema suggest.
Nothing here makes tensors: a generator asks its `Maker` (f: floating numbers, i: integers, b: bools, as nested shapes)
so that one sample serves every dtype, layout and device. The installed package does not contain them.
"""

from random import Random

from . import forms
from .calls import Sample as Sample
from .calls import call as call


class Maker:
    """Makes the tensors of samples, seeded. `tensor(values, shape, dtype)` is the library's own constructor."""

    def __init__(self, tensor, dtype, int_dtype, bool_dtype, requires_grad=False, seed=0):
        self.tensor, self.dtype, self.int_dtype, self.bool_dtype = tensor, dtype, int_dtype, bool_dtype
        self.requires_grad, self.random = requires_grad, Random(seed)

    def _shape(self, shape):
        count = 1
        for n in shape:
            count *= n
        return count

    def f(self, *shape, low=-2.0, high=2.0, grad=True):
        """Numbers of the dtype under test: reals in [low, high), or their whole parts, or complex ones."""
        name, random = str(self.dtype), self.random
        values = [random.uniform(low, high) for _ in range(self._shape(shape))]
        if "bool" in name:
            values = [v > (low + high) / 2 for v in values]
        elif "complex" in name:
            values = [complex(v, random.uniform(-1, 1)) for v in values]
        elif "int" in name:
            values = [max(0, round(v)) if "uint" in name else round(v) for v in values]
        made = self.tensor(values, shape, self.dtype)
        if grad and self.requires_grad and ("float" in name or "complex" in name):
            made.requires_grad_()
        return made

    def distinct(self, *shape, low=-2.0, high=2.0):
        """Reals no two of which are close: for operators that compare (max, sort), whose derivative jumps at ties."""
        count = self._shape(shape)
        step = (high - low) / max(count, 1)
        values = [low + step * (k + 0.25 + 0.5 * self.random.random()) for k in range(count)]
        self.random.shuffle(values)
        name = str(self.dtype)
        if "int" in name or "bool" in name:
            values = [abs(round(v)) for v in values]
        made = self.tensor(values, shape, self.dtype)
        if self.requires_grad and ("float" in name or "complex" in name):
            made.requires_grad_()
        return made

    def rising(self, n, low=-2.0, high=2.0):
        """n reals in rising order, for operators that search."""
        step = (high - low) / n
        return self.tensor([low + step * k for k in range(n)], (n,), self.dtype)

    def i(self, *shape, low=0, high=3):
        """int64 numbers in [low, high): indices, labels, counts."""
        return self.tensor([self.random.randrange(low, high) for _ in range(self._shape(shape))], shape,
                           self.int_dtype)

    def perm(self, n):
        """0 … n-1 in some order: indices without repetition."""
        values = list(range(n))
        self.random.shuffle(values)
        return self.tensor(values, (n,), self.int_dtype)

    def b(self, *shape):
        """Bools, both kinds present."""
        count = self._shape(shape)
        values = [k % 2 == 0 for k in range(count)]
        self.random.shuffle(values)
        return self.tensor(values, shape, self.bool_dtype)


def resolve(name, kind, schema, spec):
    """The generator of an operator and its parameters: (function, parameters), or None where nothing fits."""
    generators = forms.GENERATORS
    if callable(spec):
        return spec, ()
    if isinstance(spec, str) and spec in generators:
        return generators[spec], ()
    if isinstance(spec, (tuple, list)) and spec and isinstance(spec[0], str) and spec[0] in generators:
        return generators[spec[0]], tuple(spec[1:])
    base = name.split(".")[0]
    for candidate in (name, base, base.removesuffix("_")):
        if candidate in generators:
            return generators[candidate], ()
    form = _form_of(kind, schema)
    return None if form is None else (generators[form], ())


def samples(name, kind, schema, spec, maker):
    """The sample calls of an operator as a list; None where there is no generator."""
    found = resolve(name, kind, schema, spec)
    if found is None:
        return None
    generator, parameters = found
    return list(generator(maker, *parameters))


def _form_of(kind, schema):
    """The generator a kind and a schema suggest: by the number of tensors that must be given."""
    arguments = [a.strip() for a in schema[schema.index("(") + 1:schema.rindex("->")].rstrip(" )").split(",")]
    needed = [a for a in arguments if a and a != "*" and "=" not in a]
    tensors = [a for a in needed if a.startswith("Tensor ")]
    if len(needed) > len(tensors):
        return None
    if kind == "reduction" and len(tensors) == 1:
        return "reduce"
    return {1: "reals", 2: "pairs", 3: "triples"}.get(len(tensors)) if kind != "primitive" or tensors else None
