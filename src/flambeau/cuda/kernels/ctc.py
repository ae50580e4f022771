"""The CTC loss and its gradient: a block for each sequence. See ctc.cuh."""

import struct

from .launches import Build, Parameter, number, numel
from .plans import Number

_FILES = ("ctc.cuh",)
_MANY = 100  # sequences of one launch: their lengths are parameters, of which there are 4 KB


class _Alignment:
    """The sequences of a call, and what all of them share."""

    def __init__(self, build, x, starts, steps, labels, blank, width):
        self.build, self.all = build, list(zip(starts, steps, labels, strict=True))
        self.shared = Parameter("const Alignment a", Number(struct.pack("<5q", x.shape[1], x.shape[2], blank,
                                                                        x.shape[0], width)))

    def run(self, statement, parameters):
        """A block for each sequence q, whose number is n."""
        for first in range(0, len(self.all), _MANY):
            part = self.all[first:first + _MANY]
            data = [v for q in part + [(0, 0, 0)] * (_MANY - len(part)) for v in q]
            given = Parameter(f"const __grid_constant__ Sequences<{_MANY}> given",
                              Number(struct.pack(f"<{len(data)}q", *data)))
            self.build.run(f"  const int64_t n = first + blockIdx.x;\n  const Sequence q = given.of[blockIdx.x];\n"
                           f"  {statement}\n", [*parameters, self.shared, given, number("int64_t", "first", first)],
                           len(part), 256, _FILES)


def _forward(call):
    x, labels, starts, steps, counts, blank, _ = call.args
    build, (loss, alpha) = Build(call), call.results
    _Alignment(build, x, starts, steps, counts, blank, alpha.shape[2]).run(
        "ctc_forward(x, labels, loss, alpha, q, n, a);",
        [build.input("x", x), build.input("labels", labels), build.output("loss", loss),
         build.output("alpha", alpha)])
    return build.plan()


def _backward(call):
    grad, x, labels, starts, steps, counts, blank, loss, alpha, zero_infinity = call.args
    build, out = Build(call), call.results[0]
    if numel(out) == 0:
        return build.plan()
    kind, width = build.type(x), alpha.shape[2]
    beta = build.room("beta", kind, 2 * x.shape[1] * width, build.size(x))
    following = build.room("following", "int64_t", x.shape[1] * width, 8)
    _Alignment(build, x, starts, steps, counts, blank, width).run(
        f"ctc_backward(grad, x, labels, loss, alpha, out, beta, following, "
        f"{'true' if zero_infinity else 'false'}, q, n, a);",
        [build.input("grad", grad), build.input("x", x), build.input("labels", labels), build.input("loss", loss),
         build.input("alpha", alpha), build.output("out", out), beta, following])
    return build.plan()


RULES = {"_ctc_loss": _forward, "_ctc_loss_backward": _backward}
