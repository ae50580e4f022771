"""Boxes and arrows as SVG: each box below those it depends on, boxes of one row side by side, without any program."""

from dataclasses import dataclass, field
from html import escape

_WIDTH, _LINE, _GAP, _ROW_GAP, _LETTER = 24, 15, 18, 34, 6.7


@dataclass(eq=False)
class Box:
    """Lines of text on a colour; `hint` is shown under the pointer."""

    lines: list
    color: str
    hint: str = ""
    row: int = 0
    x: float = 0.0
    y: float = 0.0
    above: list = field(default_factory=list)

    @property
    def width(self):
        """As wide as its longest line."""
        return _WIDTH + _LETTER * max(map(len, self.lines))

    @property
    def height(self):
        """As high as its lines."""
        return 12 + _LINE * len(self.lines)


def drawn(boxes, edges, title):
    """The SVG text of these boxes and (from, to) or (from, to, label) arrows; boxes come in an order in which arrows
    point forward."""
    below = {}
    for start, end, *_ in edges:
        end.above.append(start)
        below.setdefault(start, []).append(end)
    for box in boxes:
        box.row = max((a.row + 1 for a in box.above), default=0)
    for box, readers in below.items():  # what depends on nothing stands just above what needs it
        if not box.above:
            box.row = min(r.row for r in readers) - 1
    rows = {}
    for box in boxes:
        rows.setdefault(box.row, []).append(box)
    width = max((sum(b.width + _GAP for b in row) for row in rows.values()), default=0) + _GAP
    height = _place(rows, width)
    parts = [_arrow(*e[:2]) for e in edges] + [_label(*e) for e in edges if len(e) > 2] + [_box(b) for b in boxes]
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
            f'viewBox="0 0 {width:.0f} {height:.0f}" font-family="monospace" font-size="11">'
            f'<title>{escape(title)}</title><defs><marker id="a" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="6" '
            'markerHeight="6" orient="auto"><path d="M0 0L8 4L0 8z" fill="#667"/></marker></defs>'
            + f'<text x="{_GAP}" y="18" font-weight="bold">{escape(title)}</text>' + "".join(parts) + "</svg>")


def _place(rows, width):
    """Gives every box its place: near the middle of what it depends on, without overlap; returns the height."""
    y = 32.0
    for number in sorted(rows):
        row = rows[number]
        row.sort(key=lambda b: sum(a.x + a.width / 2 for a in b.above) / len(b.above) if b.above else width / 2)
        free = width - sum(b.width + _GAP for b in row)
        x = _GAP + max(0.0, free) / 2
        for box in row:
            box.x, box.y = x, y
            x += box.width + _GAP
        y += max(b.height for b in row) + _ROW_GAP
    return y


def _box(box):
    texts = "".join(f'<text x="{box.x + 12:.1f}" y="{box.y + 18 + _LINE * k:.1f}"'
                    f'{" font-weight=" + chr(34) + "bold" + chr(34) if k == 0 else ""}>{escape(line)}</text>'
                    for k, line in enumerate(box.lines))
    return (f'<g><title>{escape(box.hint)}</title><rect x="{box.x:.1f}" y="{box.y:.1f}" width="{box.width:.1f}" '
            f'height="{box.height:.1f}" rx="5" fill="{box.color}" stroke="#889"/>{texts}</g>')


def _arrow(start, end):
    x1, y1 = start.x + start.width / 2, start.y + start.height
    x2, y2 = end.x + end.width / 2, end.y
    bend = (y2 - y1) / 2
    return (f'<path d="M{x1:.1f} {y1:.1f}C{x1:.1f} {y1 + bend:.1f} {x2:.1f} {y2 - bend:.1f} {x2:.1f} {y2:.1f}" '
            'fill="none" stroke="#667" marker-end="url(#a)"/>')


def _label(start, end, text):
    x, y = (start.x + start.width / 2 + end.x + end.width / 2) / 2, (start.y + start.height + end.y) / 2 + 3
    return (f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="middle" font-size="9" fill="#446" stroke="#fff" '
            f'stroke-width="3" paint-order="stroke">{escape(text)}</text>')
