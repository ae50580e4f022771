"""A compiled function's call as a picture: a box per step with its share of the time, an arrow per value."""

from ..fx.node import value_text
from ..fx.passes._layout import Box, drawn
from ._report import amount, computed_text, duration
from ._watch import watched

_INPUT, _RESULT = "#fff3d6", "#eef0f3"
#: colours of steps, by their share of the time
_SHARES = ((0.3, "#f6b8a8"), (0.1, "#fbdcc4"), (0.03, "#e4ecf7"), (0.0, "#f2f5fa"))
_LINE = 44  # letters in a line of a box
_MOST = 5   # lines for the inputs that the same steps read


def picture(fn, *args, **kwargs):
    """Calls what `compile` (or `Module.compile`) has made, and draws what the call did: the text of an SVG picture.

    A box is a step with its time and its share of the time of all, darker where it is larger; an arrow is a value with
    its dtype and shape. The picture needs nothing but itself.

    >>> import flambeau
    >>> f = flambeau.compile(lambda x: (x * 2 + 1).sum())
    >>> flambeau.compiler.picture(f, flambeau.ones(3))[:4]
    '<svg'
    """
    runs, _ = watched("picture", fn, args, kwargs)
    total = sum(step.seconds for run in runs for step in run.steps) or 1e-9
    boxes, edges = [], []
    for run in runs:
        _draw(run, total, boxes, edges)
    name = getattr(fn, "__name__", None) or type(fn).__name__
    return drawn(boxes, edges, f"{name}: {duration(total)} in {sum(len(run.steps) for run in runs)} steps")


def _draw(run, total, boxes, edges):
    made = {}  # a value's number -> the box of its step
    steps = [(step, _box(step, total)) for step in run.steps]
    inputs = _inputs(steps)
    boxes += [box for box, _ in inputs] + [box for _, box in steps]
    edges += [(box, reader) for box, readers in inputs for reader in readers]
    read = set()
    for step, box in steps:
        values = [value for value in step.reads if value.kind == "value"]
        read.update(value.number for value in values)
        edges += dict.fromkeys((made[value.number], box, value_text(value)) for value in values)
        made.update((value.number, box) for value in step.makes)
    for step, box in steps:
        for value in step.makes:
            if value.number not in read:
                boxes.append(Box(["result", value_text(value)], _RESULT))
                edges.append((box, boxes[-1]))


def _box(step, total):
    share = step.seconds / total
    color = next(color for least, color in _SHARES if share >= least)
    hint = "\n".join(dict.fromkeys(f"{call.name}  {call.line}" for call in step.calls))
    flops = [f"{amount(step.flops)} flops"] if step.flops else []
    numbers = [duration(step.seconds), amount(step.bytes, "B"), *flops]
    return Box([f"{share:.0%}", *_wrapped(computed_text(step)), ", ".join(numbers)], color, hint)


def _inputs(steps):
    """[(box, [boxes of the steps that read it])]: what comes from outside; inputs with the same readers share a box."""
    readers, shown = {}, {}
    for step, box in steps:
        for value in step.reads:
            if value.kind == "input":
                readers.setdefault(value.number, {})[id(box)] = box
                shown.setdefault(value.number, value)
    together = {}
    for number, by in readers.items():
        together.setdefault(tuple(by), (list(by.values()), []))[1].append(value_text(shown[number]))
    found = []
    for by, texts in together.values():
        lines = texts if len(texts) <= _MOST else [*texts[:_MOST - 1], f"and {len(texts) - _MOST + 1} more"]
        found.append((Box(["input" if len(texts) == 1 else f"{len(texts)} inputs", *lines], _INPUT), by))
    return found


def _wrapped(text):
    lines = [""]
    for word in text.split():
        if lines[-1] and len(lines[-1]) + 1 + len(word) > _LINE:
            lines.append(word)
        else:
            lines[-1] = f"{lines[-1]} {word}".strip()
    return lines
