"""A table of a model's layers with shapes, parameters, multiply-adds and memory, computed without data."""

from dataclasses import dataclass

from .. import Tensor, empty, float32
from ._picture import draw
from ._trace import on_meta, trace


@dataclass
class Row:
    """One call of a layer. What its shown children do is theirs; what lies deeper than the table is counted here."""

    path: str
    type: str
    depth: int
    inputs: list
    outputs: list
    parameters: int
    trainable: int
    multiply_adds: int
    activation_bytes: int
    parameter_bytes: int


class Summary:
    """`rows` and totals of a model; prints as a table, and draws itself."""

    def __init__(self, model, call, depth):
        self.model, self.call = type(model).__name__, call
        self.rows = []
        self._add_rows(call, depth, set())
        parameters = list(model.parameters())
        self.total_parameters = sum(p.numel() for p in parameters)
        self.trainable_parameters = sum(p.numel() for p in parameters if p.requires_grad)
        self.parameter_bytes = sum(p.nbytes for p in parameters)
        self.buffer_bytes = sum(b.nbytes for b in model.buffers())
        self.multiply_adds = sum(row.multiply_adds for row in self.rows)
        self.activation_bytes = sum(row.activation_bytes for row in self.rows)

    def _add_rows(self, call, depth, seen):
        """Rows of a call and its children; parameters count at the first call that has them."""
        deeper = call.depth >= depth
        module = call.module
        fresh = [p for p in module.parameters(recurse=deeper) if id(p) not in seen]
        seen.update(id(p) for p in fresh)
        done = list(_all_calls(call)) if deeper else [call]
        self.rows.append(Row(
            call.path, type(module).__name__, call.depth, call.inputs, call.outputs, sum(p.numel() for p in fresh),
            sum(p.numel() for p in fresh if p.requires_grad), sum(c.multiply_adds for c in done),
            sum(c.activation_bytes for c in done), sum(p.nbytes for p in fresh)))
        if not deeper:
            for child in call.children:
                self._add_rows(child, depth, seen)

    def draw(self, file):
        """Write a drawing of the calls as SVG: boxes inside boxes, in the order of the forward pass."""
        draw(self, file)

    def __str__(self):
        lines = [("Layer", "Output shape", "Parameters", "Multiply-adds", "Activations")]
        for row in self.rows:
            name = row.path.rpartition(".")[2] or self.model
            shown = f"{'  ' * row.depth}{name}" + (f": {row.type}" if row.path else "")
            lines.append((shown, shapes_text(row.outputs), count_text(row.parameters, row.trainable),
                          f"{row.multiply_adds:,}" if row.multiply_adds else "-", bytes_text(row.activation_bytes)))
        widths = [max(len(line[k]) for line in lines) for k in range(5)]
        table = ["  ".join(text.ljust(w) if k < 2 else text.rjust(w) for k, (text, w) in
                           enumerate(zip(line, widths, strict=True))).rstrip() for line in lines]
        rule = "-" * max(len(line) for line in table)
        frozen = self.total_parameters - self.trainable_parameters
        return "\n".join([
            table[0], rule, *table[1:], rule,
            f"Parameters: {self.total_parameters:,} ({self.trainable_parameters:,} trainable, {frozen:,} not)",
            f"Multiply-adds: {self.multiply_adds:,} (FLOPs: {2 * self.multiply_adds:,})",
            f"Memory: parameters {bytes_text(self.parameter_bytes)}, buffers {bytes_text(self.buffer_bytes)}, "
            f"activations {bytes_text(self.activation_bytes)}"])

    __repr__ = __str__


def _all_calls(call):
    yield call
    for child in call.children:
        yield from _all_calls(child)


def shapes_text(shapes):
    return ", ".join(str(list(s)) for s in shapes) or "-"


def count_text(parameters, trainable):
    if not parameters:
        return "-"
    return f"{parameters:,}" if trainable == parameters else f"{parameters:,} ({parameters - trainable:,} frozen)"


def bytes_text(n):
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if n >= size:
            return f"{n / size:.1f} {unit}"
    return f"{n} B" if n else "-"


def _is_shape(x):
    return isinstance(x, (list, tuple)) and len(x) > 0 and all(type(n) is int for n in x)


def _inputs(given, dtypes):
    """(positional, keyword) meta tensors of a shape, a tensor, or several of them."""
    if isinstance(given, Tensor) or _is_shape(given):
        given = [given]
    if isinstance(given, dict):
        names, values = list(given), list(given.values())
    elif isinstance(given, (list, tuple)):
        names, values = None, list(given)
    else:
        raise TypeError("summary: expected the input as a shape, a tensor, a list of these or a dict of arguments, got "
                        f"{type(given).__name__}")
    dtypes = dtypes if isinstance(dtypes, (list, tuple)) else [dtypes] * len(values)
    if len(dtypes) != len(values):
        raise ValueError(f"summary: got {len(values)} inputs and {len(dtypes)} dtypes")
    made = []
    for value, dtype in zip(values, dtypes, strict=True):
        if _is_shape(value):
            made.append(empty(value, dtype=dtype or float32, device="meta"))
        else:
            made.append(value.to("meta", dtype or value.dtype) if isinstance(value, Tensor) else value)
    return ([], dict(zip(names, made, strict=True))) if names is not None else (made, {})


def summary(model, input, *, depth=3, dtypes=None):
    """A table of the model's layers: output shapes, parameters, multiply-adds, memory of parameters and activations.

    `input` is a shape, a tensor, a list of these (several arguments) or a dict of keyword arguments; `dtypes` are those
    of the shapes (float32). Nothing is computed: the forward pass runs on the meta device, in evaluation mode, and the
    model stays as it was. A multiply-add is counted as one; FLOPs are twice that. Activations are the results of all
    operators but views. Layers deeper than `depth` count at the layer that holds them.

    >>> import flambeau
    >>> model = flambeau.nn.Sequential(flambeau.nn.Linear(4, 8), flambeau.nn.ReLU(), flambeau.nn.Linear(8, 2))
    >>> found = flambeau.summary(model, (16, 4))
    >>> found
    Layer        Output shape  Parameters  Multiply-adds  Activations
    -----------------------------------------------------------------
    Sequential   [16, 2]                -              -            -
      0: Linear  [16, 8]               40            512        512 B
      1: ReLU    [16, 8]                -              -        512 B
      2: Linear  [16, 2]               18            256        128 B
    -----------------------------------------------------------------
    Parameters: 58 (58 trainable, 0 not)
    Multiply-adds: 768 (FLOPs: 1,536)
    Memory: parameters 232 B, buffers -, activations 1.2 kB
    >>> found.rows[1].multiply_adds
    512
    """
    args, kwargs = _inputs(input, dtypes)
    with on_meta(model):
        record, _, error = trace(model, args, kwargs)
    if error is not None:
        raise error
    return Summary(model, record.root.children[0], depth)
