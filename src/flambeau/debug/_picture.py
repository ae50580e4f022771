"""Drawing of a model: one box per call, containers around what they call, from top to bottom in the order of calls."""

from pathlib import Path
from xml.sax.saxutils import escape

_WIDTH, _LINE, _GAP, _PAD = 420, 44, 22, 14
_STYLE = ("text{font:12px sans-serif;fill:#222}.t{font-weight:bold}.s{fill:#666;font-size:11px}"
          "rect{stroke:#8a8a8a;stroke-width:1}path{stroke:#666;fill:none;marker-end:url(#a)}")
#: fill of a box, by what a type's name contains
_FILLS = (("Conv", "#dbe9f9"), ("Linear", "#fde8c8"), ("Norm", "#e4f3dc"), ("LSTM", "#f3dff0"), ("GRU", "#f3dff0"),
          ("RNN", "#f3dff0"), ("Attention", "#f9dcdc"), ("Embedding", "#efe9d9"), ("", "#f3f3f3"))


def _height(call, depth):
    if call.depth >= depth or not call.children:
        return _LINE
    return _LINE + sum(_height(c, depth) + _GAP for c in call.children) + _PAD - _GAP


def _box(parts, call, x, y, width, depth, rows):
    """Appends the SVG of a call at (x, y); returns its height."""
    row = rows[id(call)]
    height, inner = _height(call, depth), call.depth < depth and bool(call.children)
    kind = type(call.module).__name__
    fill = "#ffffff" if inner else next(color for name, color in _FILLS if name in kind)
    parts.append(f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="6" fill="{fill}"/>')
    name = call.path.rpartition(".")[2]
    parts.append(f'<text class="t" x="{x + 10}" y="{y + 18}">{escape(f"{name}: {kind}" if name else kind)}</text>')
    facts = ", ".join("×".join(map(str, s)) for s in call.outputs)
    if row.parameters:
        facts += f"   {row.parameters:,} parameters"
    if row.multiply_adds:
        facts += f"   {row.multiply_adds:,} multiply-adds"
    parts.append(f'<text class="s" x="{x + 10}" y="{y + 34}">{escape(facts)}</text>')
    top, before = y + _LINE, None
    for child in call.children if inner else ():
        if before is not None:
            parts.append(f'<path d="M{x + width // 2} {before} V{top - 3}"/>')
        before = top + _box(parts, child, x + _PAD, top, width - 2 * _PAD, depth, rows)
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
    parts = []
    height = _box(parts, summary.call, 10, 34, width, depth, rows) + 44
    shown = ", ".join("×".join(map(str, s)) for s in summary.call.inputs)
    Path(file).write_text(
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width + 20}" height="{height}">\n<style>{_STYLE}</style>\n'
        '<defs><marker id="a" markerWidth="6" markerHeight="6" refX="5" refY="3" orient="auto">'
        '<path d="M0 0 L6 3 L0 6" style="fill:#666;stroke:none;marker-end:none"/></marker></defs>\n'
        f'<text class="s" x="20" y="20">input {escape(shown)}</text>\n' + "\n".join(parts) + "\n</svg>\n",
        encoding="utf-8")
