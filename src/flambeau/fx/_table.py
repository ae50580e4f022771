"""A text table: columns as wide as their longest cell, as graphs and plans print themselves."""


def table(heads, rows):
    """Lines of `heads`, dashes and `rows`, all cells as text.

    >>> from flambeau.fx._table import table
    >>> print(table(["op", "name"], [["add", "x"]]))
    op    name
    ----  ------
    add   x
    """
    texts = [[str(cell) for cell in row] for row in rows]
    widths = [max([len(head) + 2, *(len(row[k]) for row in texts)]) for k, head in enumerate(heads)]
    lines = [heads, ["-" * width for width in widths], *texts]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
                     for line in lines)
