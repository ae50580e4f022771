"""The pieces of every drawing, as SVG text: boxes with a title and a line of facts, arrows, the page around them."""

from html import escape

_STYLE = ("text{font:12px sans-serif;fill:#222}.title{font-weight:bold}.facts{font-size:11px;fill:#666}"
          "rect{stroke:#8a8a8a}.arrow{stroke:#666;fill:none;marker-end:url(#a)}")
_HEAD = ('<defs><marker id="a" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
         '<path d="M0,0 L8,4 L0,8 z" fill="#666"/></marker></defs>')


def page(width, height, parts):
    """The whole file."""
    return "\n".join([f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:g}" height="{height:g}">',
                      f"<style>{_STYLE}</style>", _HEAD, *parts, "</svg>", ""])


def text(x, y, content, kind, anchor="start"):
    """A line of text; `kind` is "title" or "facts"."""
    return f'<text class="{kind}" x="{x:g}" y="{y:g}" text-anchor="{anchor}">{escape(content)}</text>'


def box(x, y, width, height, fill, title, facts, *, note="", centred=False):
    """A box with two lines at its top; `note` shows where the pointer rests."""
    at, anchor = (x + width / 2, "middle") if centred else (x + 10, "start")
    return (f"<g><title>{escape(note)}</title>" if note else "<g>") + (
        f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="6" fill="{fill}"/>'
        f'{text(at, y + 17, title, "title", anchor)}{text(at, y + 33, facts, "facts", anchor)}</g>')


def arrow(path):
    """An arrow along an SVG path."""
    return f'<path class="arrow" d="{path}"/>'
