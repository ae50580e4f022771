"""Measurements side by side: a table for each label, with rows by sub-label and columns by description."""

from enum import Enum

from ._measurement import Measurement, ordered_unique, select_unit, trim_sigfig, unit_to_english

_BEST, _GOOD, _BAD, _WORST, _OFF = "\033[92m\033[1m", "\033[92m", "\033[93m", "\033[91m\033[1m", "\033[0m"


class Colorize(Enum):
    """What the colours of a table compare: nothing, the cells of a column, or of a row."""

    NONE = "none"
    COLUMNWISE = "columnwise"
    ROWWISE = "rowwise"


class Compare:
    """A table of measurements: str(compare), or compare.print().

    >>> from flambeau.utils.benchmark import Compare, Measurement, TaskSpec
    >>> def timed(seconds, shape, way):
    ...     return Measurement(1, [seconds], TaskSpec("f()", "", label="sum", sub_label=shape, description=way))
    >>> Compare([timed(2e-6, "small", "loop"), timed(1e-6, "small", "vector"), timed(4e-6, "large", "loop")]).print()
    [------------ sum ------------]
                 |  loop  |  vector
    1 threads: --------------------
          small  |   2.0  |     1.0
          large  |   4.0  |
    <BLANKLINE>
    Times are in microseconds (us).
    <BLANKLINE>
    """

    def __init__(self, results):
        self._results = []
        self._trim, self._warn, self._colorize = False, False, Colorize.NONE
        self.extend_results(results)

    def __str__(self):
        groups = {}
        for m in Measurement.merge(self._results):
            groups.setdefault(m.label, []).append(m)
        return "\n".join(self._table(label, group) for label, group in groups.items())

    def extend_results(self, results):
        """Adds measurements."""
        for m in results:
            if not isinstance(m, Measurement):
                raise ValueError(f"Compare: expected Measurements (what Timer returns), got {type(m).__name__}")
        self._results += results

    def trim_significant_figures(self):
        """Shows only the digits that the spread of the times allows."""
        self._trim = True

    def colorize(self, rowwise=False):
        """Colours the times: the best green, the worst red, in each column, or in each row."""
        self._colorize = Colorize.ROWWISE if rowwise else Colorize.COLUMNWISE

    def highlight_warnings(self):
        """Marks times whose quartiles are far apart."""
        self._warn = True

    def print(self):
        """Prints the tables."""
        print(str(self))

    # ---- one table

    def _table(self, label, group):
        columns = ordered_unique(m.description for m in group)
        rows = ordered_unique((m.num_threads, m.env, m.as_row_name) for m in group)
        rows.sort(key=lambda row: row[0])  # stable: what was given first stays first
        cells = {((m.num_threads, m.env, m.as_row_name), m.description): m for m in group}
        unit, scale = select_unit(min(m.median for m in group))
        digits = self._digits(group, scale)
        texts = {key: self._text(m, scale, digits[key[1]]) for key, m in cells.items()}
        names = {row: "      " + (f"({row[1]})  " if row[1] else "") + row[2] for row in rows}
        left = max(map(len, [*names.values(), f"{max(row[0] for row in rows)} threads: "]))
        heads = {c: c or "" for c in columns}
        widths = {c: max(len(t) for t in [heads[c], *(t for (_, column), t in texts.items() if column == c)])
                  for c in columns}
        lines = ["".join([" " * left, *(f"  |  {heads[c]:^{widths[c]}}" for c in columns)])]
        whole, threads = len(lines[0]), None
        for row in rows:
            if row[0] != threads:
                threads = row[0]
                lines.append(f"{threads} threads: ".ljust(whole, "-"))
            line = [f"{names[row]:<{left}}"]
            for c in columns:
                text = f"{texts.get((row, c), ''):>{widths[c]}}"
                line.append("  |  " + (self._coloured(text, cells, row, c) if (row, c) in cells else text))
            lines.append("".join(line).rstrip())
        title = f" {label} " if label else ""
        foot = ["", f"Times are in {unit_to_english(unit)}s ({unit})."]
        if self._warn and any(m.has_warnings for m in group):
            foot.append("(! XX%) the quartiles of the times are XX % of the median apart.")
        return "\n".join([f"[{title:-^{whole - 2}}]", *(line.rstrip() for line in lines), *foot, ""])

    def _digits(self, group, scale):
        """{column: digits after the point}."""
        found = {}
        for m in group:
            t = m.median / scale
            shown = max(1, m.significant_figures) if self._trim else len(f"{t:.0f}") + 1
            found[m.description] = max(found.get(m.description, 0), shown - len(f"{t:.0f}"))
        return found

    def _text(self, m, scale, digits):
        t = m.median / scale
        text = f"{trim_sigfig(t, m.significant_figures) if self._trim else t:.{digits}f}"
        return text + (f" (! {m.iqr / m.median:.0%})" if self._warn and m.has_warnings else "")

    def _coloured(self, text, cells, row, column):
        if self._colorize is Colorize.NONE:
            return text
        same = [m.median for (r, c), m in cells.items()
                if (r == row if self._colorize is Colorize.ROWWISE else c == column)]
        best, own = min(same), cells[row, column].median
        colour = _BEST if own <= best * 1.001 else _GOOD if own <= best * 1.2 else _BAD if own <= best * 3 else _WORST
        return f"{colour}{text}{_OFF}" if len(same) > 1 else text
