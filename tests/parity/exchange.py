"""Calls written down so that PyTorch and Flambeau can both make them: programs, their inputs, and their outcomes.

Every function takes the library to use as `lib`; this module imports neither. A program is a list of steps
(path, args, kwargs, seed); arguments are written as tagged tuples: ("t", k) is input tensor k, ("r", k, (i, …)) an
element of the result of step k. An outcome is ("result", tree, gradients, extra) or ("error", type name, text).
"""

import operator
import warnings

import numpy as np

PLAIN = (int, float, complex, bool, str, bytes, type(None))
#: a forward or backward value of a bfloat16 tensor travels as float32
WIDER = {"bfloat16": "float32", "float8_e4m3fn": "float32", "float8_e5m2": "float32"}


class Excluded(Exception):
    """What cannot be written down, and why."""


def dtype_name(dtype):
    return str(dtype).split(".")[1]


def resolve(lib, path):
    """The object at "torch.nn.functional.relu" in that library; AttributeError if it has none."""
    first, *parts = path.split(".")
    if first == "operator":
        return getattr(operator, parts[0])
    found = lib
    if parts[:2] == ["_C", "_nn"] and not hasattr(getattr(lib, "_C", None), "_nn"):
        found, parts = lib.nn.functional, parts[2:]
    for part in parts:
        found = getattr(found, part)
    return found


class Writer:
    """Turns the arguments of one sample into tagged tuples, and its tensors into bytes, shapes and strides."""

    def __init__(self, lib):
        self.lib, self.tensors, self.storages = lib, [], []
        self.seen, self.memory, self.results, self.keep = {}, {}, {}, []

    def tensor(self, x):
        if id(x) in self.results:
            return ("r", *self.results[id(x)])
        if id(x) not in self.seen:
            self.seen[id(x)] = len(self.tensors)
            self.keep.append(x)
            self.tensors.append(self._describe(x))
        return ("t", self.seen[id(x)])

    def _describe(self, x):
        if x.layout != self.lib.strided or x.is_nested or x.is_quantized:
            raise Excluded("a sparse, quantized or nested layout")
        if x.device.type != "cpu":
            raise Excluded(f"a tensor on {x.device.type}")
        storage = x.untyped_storage()
        key = storage.data_ptr() if storage.nbytes() else -1 - len(self.storages)
        if key not in self.memory:
            self.memory[key] = len(self.storages)
            flat = self.lib.empty(0, dtype=self.lib.uint8).set_(storage)
            self.storages.append(flat.numpy().tobytes())
        return (self.memory[key], dtype_name(x.dtype), tuple(x.shape), x.stride(), x.storage_offset(),
                x.requires_grad, x.is_conj(), x.is_neg(), type(x).__name__)

    def result(self, x, step, where=()):
        """Notes the tensors of a step's result, so that later steps can name them."""
        if isinstance(x, self.lib.Tensor):
            self.keep.append(x)
            self.results[id(x)] = (step, where)
        elif isinstance(x, (list, tuple)):
            for k, part in enumerate(x):
                self.result(part, step, (*where, k))

    def value(self, x):
        lib = self.lib
        if isinstance(x, lib.Tensor):
            return self.tensor(x)
        if isinstance(x, lib.Size):
            return ("size", tuple(x))
        if isinstance(x, (list, tuple)):
            return (type(x).__name__ if type(x) in (list, tuple) else "tuple", [self.value(v) for v in x])
        if isinstance(x, dict):
            return ("dict", [(self.value(k), self.value(v)) for k, v in x.items()])
        if isinstance(x, slice):
            return ("slice", *(self.value(v) for v in (x.start, x.stop, x.step)))
        if isinstance(x, np.generic):
            return ("numpy", np.asarray(x), True)
        if isinstance(x, np.ndarray):
            return ("numpy", x, False)
        if x is Ellipsis or type(x) in PLAIN:
            return x
        for tag in ("dtype", "layout", "memory_format"):
            if isinstance(x, getattr(lib, tag)):
                return (tag, str(x).split(".")[1])
        if isinstance(x, lib.device):
            return ("device", str(x))
        if isinstance(x, lib.Generator):
            return ("generator", x.initial_seed())
        if x in (int, float, bool, complex):
            return ("type", x.__name__)
        raise Excluded(f"an argument of type {type(x).__name__}")


def read_tensor(lib, storages, record):
    place, dtype, shape, stride, offset, grad, conj, neg, kind = record
    if len(shape) > 64:
        raise Excluded("more than 64 dimensions, which no tensor here has")
    dtype = getattr(lib, dtype)
    if storages[place]:
        flat = lib.frombuffer(storages[place], dtype=lib.uint8).view(dtype)
        x = flat.as_strided(shape, stride, offset).detach()
    else:
        x = lib.empty_strided(shape, stride, dtype=dtype)
    if conj:
        x = x.conj()
    if neg:
        x = lib._neg_view(x)
    if kind == "Parameter":
        return lib.nn.Parameter(x, requires_grad=grad)
    return x.requires_grad_() if grad else x


def read(lib, x, tensors, results=()):
    if not isinstance(x, tuple):
        return x
    tag, *rest = x
    if tag == "t":
        return tensors[rest[0]]
    if tag == "r":
        found = results[rest[0]]
        for k in rest[1]:
            found = found[k]
        return found
    if tag in ("list", "tuple"):
        return (list if tag == "list" else tuple)(read(lib, v, tensors, results) for v in rest[0])
    if tag == "dict":
        return {read(lib, k, tensors, results): read(lib, v, tensors, results) for k, v in rest[0]}
    if tag == "slice":
        return slice(*(read(lib, v, tensors, results) for v in rest))
    if tag == "numpy":
        return rest[0][()] if rest[1] else rest[0].copy()
    if tag == "size":
        return lib.Size(rest[0])
    if tag == "device":
        return lib.device(rest[0])
    if tag == "generator":
        return lib.Generator().manual_seed(rest[0])
    if tag == "type":
        return {"int": int, "float": float, "bool": bool, "complex": complex}[rest[0]]
    return getattr(lib, rest[0])  # dtype, layout, memory_format


def leaves(x, lib):
    if isinstance(x, lib.Tensor):
        return [x]
    if isinstance(x, dict):
        x = list(x.values())
    return [t for part in x for t in leaves(part, lib)] if isinstance(x, (list, tuple)) else []


def array(lib, x):
    x = x.detach().resolve_conj().resolve_neg()
    name = dtype_name(x.dtype)
    if name in WIDER:
        x = x.to(getattr(lib, WIDER[name]))
    return x.cpu().contiguous().numpy().copy()


def outcome_tensor(lib, x, inputs, values):
    if x.layout != lib.strided:
        raise Excluded("a sparse result")
    if x.device.type == "meta":
        return ("tensor", dtype_name(x.dtype), tuple(x.shape), None, None, None, x.requires_grad)
    same = [k for k, t in enumerate(inputs) if t is x]
    if same:
        alias = (same[0], "itself")
    else:
        key = x.untyped_storage().data_ptr() if x.numel() else 0
        shared = [k for k, t in enumerate(inputs) if key and t.untyped_storage().data_ptr() == key]
        alias = (shared[0], x.storage_offset()) if shared else None
    return ("tensor", dtype_name(x.dtype), tuple(x.shape), x.stride(), array(lib, x) if values else None, alias,
            x.requires_grad)


def outcome_tree(lib, x, inputs, values):
    if isinstance(x, lib.Tensor):
        return outcome_tensor(lib, x, inputs, values)
    if isinstance(x, (list, tuple)):
        kind = "size" if isinstance(x, lib.Size) else "list" if isinstance(x, list) else "tuple"
        parts = [(n, getattr(x, n)) for n in x._fields] if hasattr(x, "_fields") else None
        if parts is None and type(x).__module__ == "torch.return_types":
            names = [n for n in dir(type(x)) if not n.startswith("_") and n not in ("count", "index")
                     and not n.startswith("n_")]
            parts = [(next(n for n in names if getattr(x, n) is v), v) for v in x]
        if parts:
            return ("named", [(n, outcome_tree(lib, v, inputs, values)) for n, v in parts])
        return (kind, [outcome_tree(lib, v, inputs, values) for v in x])
    if isinstance(x, lib.dtype):
        return ("dtype", str(x))
    return x if type(x) in PLAIN else ("other", type(x).__name__)


def cotangent(lib, x):
    """The same gradient on both sides: a wave over the elements."""
    k = np.arange(x.numel(), dtype=np.float64).reshape(tuple(x.shape))
    wave = np.cos(0.7 * k + 0.5)
    if x.is_complex():
        wave = wave + 1j * np.sin(1.3 * k)
    return lib.from_numpy(np.asarray(wave)).to(x.dtype)


def gradients(lib, result, inputs):
    wanted = [t for t in inputs if t.requires_grad]
    found = []
    for t in leaves(result, lib):
        if t.requires_grad and not any(t is o for o in (*found, *wanted)):
            found.append(t)
    if not wanted or not found:
        return None
    given = lib.autograd.grad(found, wanted, [cotangent(lib, t) for t in found], allow_unused=True)
    return [g if g is None else (dtype_name(g.dtype), tuple(g.shape), array(lib, g)) for g in given]


def run(lib, program, storages, records, *, form="function", values=True):
    """The outcome of a program. In the form "inplace" its first tensor is a copy of the leaf; in "out" the keyword
    names of results are filled with new tensors: of the right size, or empty."""
    memory = [bytearray(s) for s in storages]
    tensors = leaf_tensors = [read_tensor(lib, memory, r) for r in records]
    if form == "inplace" and tensors and tensors[0].requires_grad:
        tensors = [tensors[0].clone(), *tensors[1:]]
    results = []
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            lib.manual_seed(0)
            for path, args, kwargs, seed in program:
                args = read(lib, args, tensors, results)
                kwargs = read(lib, kwargs, tensors, results)
                function = resolve(lib, path)
                if seed is not None:
                    lib.manual_seed(seed)
                if path.endswith(".__get__"):
                    args = args[:1]
                result = function(*args, **kwargs)
                if form in ("out", "resized"):
                    made = outs(lib, result, resized=form == "resized")
                    if made is None:
                        raise Excluded("a result that out= cannot take")
                    lib.manual_seed(0)
                    result = function(*args, **kwargs, out=made)
                    tensors = [*tensors, *leaves(made, lib)]
                results.append(result)
            tree = outcome_tree(lib, results[-1], tensors, values)
            try:
                grads = gradients(lib, results[-1], leaf_tensors)
            except Exception as error:
                grads = ("error", type(error).__name__, str(error)[:300])
            return ("result", tree, grads)
    except Excluded:
        raise
    except Exception as error:
        return ("error", type(error).__name__, str(error)[:300])


def outs(lib, result, resized):
    def new(x):
        return lib.empty((0,) if resized else tuple(x.shape), dtype=x.dtype)
    if isinstance(result, lib.Tensor):
        return new(result)
    if isinstance(result, (list, tuple)) and result and all(isinstance(t, lib.Tensor) for t in result):
        return tuple(new(t) for t in result)
    return None
