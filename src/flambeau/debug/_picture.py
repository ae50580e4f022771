"""Drawing of a model: one box per call, containers around what they call, from top to bottom in the order of calls."""

from pathlib import Path

from ._svg import arrow, box, page, text

_WIDTH, _LINE, _GAP, _PAD = 420, 44, 22, 14
#: fill of a box, by what a type's name contains
_FILLS = (("Conv", "#dbe9f9"), ("Linear", "#fde8c8"), ("Norm", "#e4f3dc"), ("LSTM", "#f3dff0"), ("GRU", "#f3dff0"),
          ("RNN", "#f3dff0"), ("Attention", "#f9dcdc"), ("Embedding", "#efe9d9"), ("", "#f3f3f3"))


def _height(call, depth):
    if call.depth >= depth or not call.children:
        return _LINE
    return _LINE + sum(_height(c, depth) + _GAP for c in call.children) + _PAD - _GAP


def _boxes(parts, call, x, y, width, depth, rows):
    """Appends the SVG of a call at (x, y); returns its height."""
    row = rows[id(call)]
    height, inner = _height(call, depth), call.depth < depth and bool(call.children)
    kind = type(call.module).__name__
    fill = "#ffffff" if inner else next(color for name, color in _FILLS if name in kind)
    name = call.path.rpartition(".")[2]
    facts = ", ".join("×".join(map(str, s)) for s in call.outputs)
    if row.parameters:
        facts += f"   {row.parameters:,} parameters"
    if row.multiply_adds:
        facts += f"   {row.multiply_adds:,} multiply-adds"
    parts.append(box(x, y, width, height, fill, f"{name}: {kind}" if name else kind, facts))
    top, before = y + _LINE, None
    for child in call.children if inner else ():
        if before is not None:
            parts.append(arrow(f"M{x + width // 2} {before} V{top}"))
        before = top + _boxes(parts, child, x + _PAD, top, width - 2 * _PAD, depth, rows)
        top = before + _GAP
    return height


def _calls(call, depth):
    yield call
    if call.depth < depth:
        for child in call.children:
            yield from _calls(child, depth)


def draw(summary, file):
    """Write the summary's calls to `file` as SVG."""
    depth = max(row.depth for row in summary.rows)
    rows = dict(zip((id(c) for c in _calls(summary.call, depth)), summary.rows, strict=True))
    width = _WIDTH + 2 * _PAD * depth
    shown = ", ".join("×".join(map(str, s)) for s in summary.call.inputs)
    parts = [text(20, 20, f"input {shown}", "facts")]
    height = _boxes(parts, summary.call, 10, 34, width, depth, rows) + 44
    Path(file).write_text(page(width + 20, height, parts), encoding="utf-8")
