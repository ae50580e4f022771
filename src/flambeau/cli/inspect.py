"""`flambeau inspect` and `flambeau diff`: what is in checkpoints, without loading them."""

import flambeau

from .._files.listing import Listing
from .errors import UserError, reason

COLUMNS = ("name", "shape", "dtype", "bytes", "crc-32")
DIFFERENT = 1


def listing(path):
    """The contents of a file; a UserError says why it cannot be read."""
    try:
        return Listing(str(path))
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {reason(error)}") from error
    except (RuntimeError, ImportError) as error:
        raise UserError(f"{path}: {reason(error).removeprefix('load: ').removeprefix(f'{path}: ')}") from error


def inspect(options):
    found = listing(options.file)
    print(f"{found.path}: {found.kind}, {found.bytes:,} bytes")
    rows = [(row.name, shape(row.shape), row.dtype, f"{row.bytes:,}", checksum(row)) for row in found.rows]
    table([COLUMNS, *rows])
    more = "" if options.values or not found.values else " (--values shows them)"
    print(f"{len(rows)} tensors, {sum(row.bytes for row in found.rows):,} bytes{shared(found.rows)}; "
          f"{len(found.values)} other values{more}")
    if options.values:
        table(list(found.values.items()))
    if found.classes:
        print("needs weights_only=False or safe_globals: " + ", ".join(found.classes))
    return 0


def shape(sizes):
    return "[" + ", ".join(map(str, sizes)) + "]"


def checksum(row):
    found = row.checksum()
    return "-" if found is None else f"{found:08x}"


def shared(rows):
    """How many tensors lie in the memory of others."""
    places = [row.where for row in rows if row.where not in (None, "meta")]
    count = len(places) - len(set(places))
    return f" ({count} in memory that another one has too)" if count else ""


def table(rows):
    """Columns as wide as their widest text; numbers of bytes to the right."""
    widths = [max(map(len, column)) for column in zip(*rows)]
    for row in rows:
        cells = [text.rjust(width) if k == 3 else text.ljust(width) for k, (text, width) in enumerate(zip(row, widths))]
        print("  ".join(cells).rstrip())


def diff(options):
    """Prints what differs; the exit code is 0 where nothing does, else 1."""
    a, b = listing(options.a), listing(options.b)
    lines = [*tensors(a, b), *values(a, b)]
    table([(mark, name, text) for mark, name, text in lines])
    same = sum(row.name in {r.name for r in b.rows} for row in a.rows) if not lines else None
    print(f"{len(lines)} differences" if lines else f"no difference in {same} tensors and {len(a.values)} values")
    return DIFFERENT if lines else 0


def tensors(a, b):
    """(mark, name, what) of every tensor that is not the same."""
    mine, theirs = ({row.name: row for row in found.rows} for found in (a, b))
    for name in [*mine, *(name for name in theirs if name not in mine)]:
        x, y = mine.get(name), theirs.get(name)
        if x is None or y is None:
            row = x or y
            yield "-" if y is None else "+", name, f"{row.dtype} {shape(row.shape)}"
        elif (x.shape, x.dtype) != (y.shape, y.dtype):
            yield "~", name, f"{x.dtype} {shape(x.shape)} -> {y.dtype} {shape(y.shape)}"
        elif x.checksum() != y.checksum():
            yield "~", name, f"{x.dtype} {shape(x.shape)}: values differ{distance(x, y)}"


def distance(x, y):
    """By how much the elements differ at most, where they are numbers that can be subtracted."""
    dtype = getattr(flambeau, x.dtype, None)
    if x.view is None or y.view is None or not isinstance(dtype, flambeau.dtype) or dtype is flambeau.bool:
        return ""
    first, second = (flambeau.frombuffer(bytearray(row.view()), dtype=dtype) for row in (x, y))
    wide = flambeau.complex128 if dtype.is_complex else flambeau.float64
    first, second = first.to(wide), second.to(wide)
    count, most = int((first != second).sum()), (first - second).abs().max().item()
    return f" in {count:,} of {first.numel():,} elements, by {most:.3g} at most"


def values(a, b):
    for name in [*a.values, *(name for name in b.values if name not in a.values)]:
        x, y = a.values.get(name), b.values.get(name)
        if x != y:
            mark = "-" if y is None else "+" if x is None else "~"
            yield mark, name, " -> ".join(text for text in (x, y) if text is not None)
