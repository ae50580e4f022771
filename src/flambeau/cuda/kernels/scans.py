"""Running sums, products, extrema along a dimension. See scan.cuh."""

import math

from .launches import Build, blocks, nothing, numel, sizes
from .rows import Rows


def _scan(operation):
    def rule(call):
        x, dim, out = call.args[0], call.args[1], call.results[0]
        if numel(x) == 0:
            return nothing()
        build, places = Build(call), call.results[-1]
        rows = Rows(build, dim, x)
        wide = build.wide(out)
        if wide in ("uint8_t", "int8_t", "int16_t", "bool") and operation in ("RunningSum", "RunningProduct"):
            wide = "int64_t"
        index = "int64_t" if math.prod(x.shape) >= 2**30 else "int32_t"
        way, grid, more = ("scan_columns", blocks(rows.rows, 256), ", Index(rows)") if rows.columns else (
            "scan_rows", rows.rows, "")
        kinds = f"{operation}<{build.type(x)}, {wide}>"
        second = build.output("places", places) if len(call.results) > 1 else build.output("places", out)
        build.run(f"  typedef {index} Index;\n  {way}<{kinds}>(x, out, places, Index(n), Index(inner){more});\n",
                  [build.input("x", x), build.output("out", out), second,
                   *sizes(n=rows.n, inner=rows.inner, rows=rows.rows)], grid, 256, ("scan.cuh",))
        return build.plan()
    return rule


RULES = {
    "cumsum": _scan("RunningSum"), "cumprod": _scan("RunningProduct"), "cummax": _scan("RunningMax"),
    "cummin": _scan("RunningMin"), "logcumsumexp": _scan("RunningLogSum"),
}
