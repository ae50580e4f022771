"""visualize_sharding: which part of a DTensor is on which rank, as a table."""

from ...._shown import shown
from .. import _utils
from .._api import DTensor


def visualize_sharding(dtensor, header="", use_rich=False):
    """Prints on the mesh's first rank which ranks have which rows and columns of a DTensor of one or two dimensions.

    >>> import flambeau
    >>> import flambeau.distributed as dist
    >>> from flambeau.distributed.tensor import Shard, distribute_tensor
    >>> from flambeau.distributed.tensor.debug import visualize_sharding
    >>> dist.init_process_group(store=dist.HashStore(), rank=0, world_size=1)
    >>> x = distribute_tensor(flambeau.ones(4, 3), dist.init_device_mesh("cpu", (1,)), [Shard(0)])
    >>> visualize_sharding(x, header="x")
    x
             Col 0-2
    -------  -------
    Row 0-3  cpu:0
    >>> dist.destroy_process_group()
    """
    if not isinstance(dtensor, DTensor):
        raise TypeError(f"visualize_sharding: expected a DTensor, got {type(dtensor).__name__}")
    if use_rich:
        raise NotImplementedError("visualize_sharding: use_rich=True is not available, tables are plain text; leave it "
                                  "out")
    if dtensor.ndim not in (1, 2):
        raise RuntimeError(f"visualize_sharding: expected one or two dimensions, got {shown(tuple(dtensor.shape))}; "
                           "take a part of the tensor, as x[0]")
    mesh = dtensor.device_mesh
    if dtensor.numel() == 0 or mesh.get_coordinate() is None or any(mesh.get_coordinate()):
        return
    if header:
        print(header)
    print(_table(dtensor, mesh))


def _table(dtensor, mesh):
    cells = {}  # (rows, columns) -> devices
    for place in (mesh.mesh >= 0).nonzero().tolist():
        sizes, offsets = _utils.extent_at(dtensor.shape, mesh.shape, dtensor.placements, place)
        if 0 in sizes:
            continue
        ranges = [(offset, offset + size - 1) for size, offset in zip(sizes, offsets)]
        rows = ranges[0] if len(ranges) == 2 else None
        cells.setdefault((rows, ranges[-1]), []).append(f"{mesh.device_type}:{mesh.mesh[tuple(place)].item()}")
    lines = sorted({rows for rows, _ in cells}, key=lambda rows: rows or ())
    columns = sorted({columns for _, columns in cells})
    table = [["", *(f"Col {a}-{b}" for a, b in columns)]]
    for rows in lines:
        name = "Row 0" if rows is None else f"Row {rows[0]}-{rows[1]}"
        table.append([name, *(", ".join(cells.get((rows, each), ())) for each in columns)])
    widths = [max(map(len, column)) for column in zip(*table)]
    table.insert(1, ["-" * width for width in widths])
    return "\n".join("  ".join(text.ljust(width) for text, width in zip(line, widths)).rstrip() for line in table)
