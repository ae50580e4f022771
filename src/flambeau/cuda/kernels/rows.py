"""Softmax, norms and losses over rows. See rows.cuh."""

import math

from ...ops.dims import wrap_dim
from . import group_norm
from .channels import Channels, join_chunks
from .launches import Build, Parameter, begin_aligned, blocks, flag, nothing, number, numel, power_of_two, sizes
from .plans import Number

_FILES = ("reduce.cuh", "rows.cuh")


class Packs:
    """How a block goes through a row of n elements: `wide` of them at once, as many as whole accesses of 16 bytes to
    all operands allow, and `kept` such packs in the registers of each thread (0: more than `most`, none is kept)."""

    def __init__(self, build, n, *infos, most=8, divides=None, each=4):
        self.wide = 16 // max(build.size(info) for info in infos)
        if not begin_aligned(*infos):
            self.wide = 1
        while (divides or n) % self.wide:
            self.wide //= 2
        packs = n // self.wide
        self.threads = min(1024, max(32, power_of_two(packs / each)))
        kept = power_of_two(packs / self.threads)
        self.kept = kept if kept <= most else 0
        if not self.kept:  # smaller blocks: one of them reads while another joins its sums
            self.threads = min(512, self.threads)

    def __str__(self):
        return f"{self.wide}, {self.kept}"


class Rows:
    """[outer, n, inner] around dimension `dim`: a block for each row, or a thread for each column."""

    def __init__(self, build, dim, *infos, most=8):
        shape = list(infos[0].shape) or [1]
        dim = wrap_dim(dim, len(shape), build.call.name)
        self.build, self.n, self.inner = build, shape[dim], math.prod(shape[dim + 1:])
        self.rows = math.prod(shape) // max(self.n, 1)
        self.columns = self.inner > 1
        self.packs = Packs(build, max(self.n, 1), *infos, most=most)
        self.wide = 1 if self.columns else self.packs.wide
        self.threads = 256 if self.columns else self.packs.threads
        self.grid = blocks(self.rows, self.threads) if self.columns else self.rows

    def run(self, statement, parameters):
        """A launch for all rows. `statement` is called with Index, rows, n and inner at hand."""
        far = self.rows * self.n >= 2**30
        body = f"  typedef int{64 if far else 32}_t Index;\n  {statement}\n"
        self.build.run(body, [*parameters, *sizes(rows=self.rows, n=self.n, inner=self.inner)], self.grid,
                       self.threads, _FILES)

    def call(self, name, types, operands):
        """The statement that calls `name_row` or `name_column`."""
        if self.columns:
            return f"{name}_column<{types}>({operands}, Index(rows), Index(n), Index(inner));"
        return f"{name}_row<{types}, {self.packs}>({operands}, Index(n));"


def _softmax(log):
    def rule(call):
        x, dim, result = call.args[0], call.args[1], call.results[0]
        if numel(x) == 0:
            return nothing()
        build = Build(call)
        rows = Rows(build, dim or 0, x, result, most=8 if max(build.size(x), build.size(result)) > 2 else 4)
        rows.run(rows.call("softmax", f"{build.wide(result)}, {flag(log)}", "x, out"),
                 [build.input("x", x), build.output("out", result)])
        return build.plan()
    return rule


def _softmax_backward(log):
    def rule(call):
        grad, y, dim = call.args[:3]
        if numel(y) == 0:
            return nothing()
        build = Build(call)
        rows = Rows(build, dim, y, grad, call.results[0], most=4)
        rows.run(rows.call("softmax_backward", f"{build.wide(y)}, {flag(log)}", "grad, y, out"),
                 [build.input("grad", grad), build.input("y", y), build.output("out", call.results[0])])
        return build.plan()
    return rule


# --- layer, rms and group norm ----------------------------------------------------------------------------------------

#: blocks that sum weights' gradients over their rows: packs of a thread; how many such threads run at once on an H100,
#: and its multiprocessors, each of which should have a row; rows of a block where there are more
_EACH, _AT_ONCE, _MULTIPROCESSORS, _LEAST_ROWS = 2, 132 * 768, 132, 4


class _Norm:
    """Rows of n elements, each normalized; element i of row r has weight (r % groups * (n / inner) + i / inner)."""

    def __init__(self, call, x, n, inner, groups, weights, eps):
        self.build = Build(call)
        self.call, self.x, self.n, self.inner, self.groups, self.weights = call, x, n, inner, groups, weights
        self.rows = numel(x) // max(n, 1)
        self.plain = inner == 1 and groups == 1
        self.index = f"  typedef int{64 if numel(x) >= 2**30 else 32}_t Index;\n"
        self.eps = (2.0**-52 if x.dtype == "float64" else 2.0**-23) if eps is None else eps  # of the type computed in
        self.shape = sizes(n=n, inner=inner, groups=groups, weights=weights)
        self.given = "Index(n), Index(inner), Index(groups), Index(weights)"

    def packs(self, infos, **how):
        """How blocks go through rows of these tensors, absent ones left out."""
        infos = [info for info in infos if info is not None]
        return Packs(self.build, self.n, *infos, divides=None if self.plain else self.inner, **how)

    def run(self, statement, parameters, packs, grid):
        """`grid` blocks of as many threads as a row's packs want."""
        self.build.run(f"{self.index}  {statement}", [*parameters, *self.shape, number("double", "eps", self.eps)],
                       grid, packs.threads, _FILES)

    def forward(self, weight, bias, centred):
        if numel(self.x) == 0:
            return nothing()
        build, out = self.build, self.call.results[0]
        like = weight or bias or self.x
        packs = self.packs((self.x, weight, bias, out), most=8)
        self.run(f"norm_forward<{build.wide(self.x)}, {flag(centred)}, {flag(self.plain)}, {packs}>"
                 f"(x, weight, bias, out, {self.given}, eps);\n",
                 [build.input("x", self.x), build.optional("weight", weight, like),
                  build.optional("bias", bias, like), build.output("out", out)], packs, self.rows)
        return build.plan()

    def backward(self, grad, weight, centred, sums=True):
        build, results = self.build, self.call.results
        if numel(self.x) == 0 or not sums:
            for info in results[1:]:
                build.zeros(build.output("out", info), numel(info) * build.size(info))
        if numel(self.x) == 0:
            return build.plan()
        operands = [build.input("grad", grad), build.input("x", self.x),
                    build.optional("weight", weight, weight or self.x), build.output("out", results[0])]
        infos = grad, self.x, weight, results[0]
        packs = self.packs(infos, most=4, each=_EACH)
        if sums and self.plain and packs.kept:
            self._summed(operands, packs, centred)
        else:
            self._apart(grad, operands, self.packs(infos, most=4), centred, sums)
        return build.plan()

    def _slopes(self, packs, centred, summed, sums, operands, grid):
        """The launch that makes the gradient of x; `sums` are what else it writes."""
        types = f"{self.build.wide(self.x)}, {flag(centred)}, {flag(self.plain)}, {flag(summed)}, {packs}"
        to = ", ".join(p.declaration.split()[-1] if p else "nullptr" for p in sums)
        self.run(f"const NormSums<{self.build.wide(self.x)}> to{{{to}}};\n  norm_backward<{types}>"
                 f"(grad, x, weight, out, to, Index(rows), {self.given}, eps);\n",
                 [*operands, *(p for p in sums if p), *sizes(rows=self.rows)], packs, grid)

    def _finish(self):
        """What is done with the two sums of a weight and a bias, and the parameters for it."""
        _, *results = self.call.results
        kind = self.build.type(results[0])
        return (f"if (grad_weight) grad_weight[c] = cast<{kind}>(v.second); "
                f"if (grad_bias) grad_bias[c] = cast<{kind}>(v.first);",
                [self.build.output(name, info) for name, info in zip(("grad_weight", "grad_bias"), results,
                                                                     strict=True)])

    def _summed(self, operands, packs, centred):
        """Blocks go through many rows each, and a second launch joins their sums."""
        build, wide = self.build, self.build.wide(self.x)
        grid = max(min(self.rows, _MULTIPROCESSORS), min(self.rows // _LEAST_ROWS, _AT_ONCE // packs.threads))
        partial = build.room("partial", f"Two<{wide}>", grid * self.n, 16 if wide == "double" else 8)
        self._slopes(packs, centred, True, (None, None, partial), operands, grid)
        finish, to = self._finish()
        join_chunks(build, f"JoinTwo<{wide}>", partial, self.n, grid, finish, to)

    def _apart(self, grad, operands, packs, centred, sums):
        """A block for each row; another launch sums over rows."""
        build, wide = self.build, self.build.wide(self.x)
        size = 8 if wide == "double" else 4
        means, scales = build.room("means", wide, self.rows, size), build.room("scales", wide, self.rows, size)
        self._slopes(packs, centred, False, (means, scales, None), operands, self.rows)
        if not sums:
            return
        many = self.rows // self.groups
        shape = (self.rows, self.n, 1) if self.plain else (many, self.weights, self.inner)
        finish, to = self._finish()
        Channels(build, *shape, grad, self.x).sum(
            f"SlopesOf<{wide}, {build.type(self.x)}, {build.type(grad)}, '{'r' if self.groups == 1 else 'g'}'>",
            "grad, x, means, scales, Index(groups), Index(of_group)",
            [*operands[:2], means, scales, *sizes(groups=self.groups, of_group=shape[1] // self.groups)], 2 * size,
            finish, to)


def _layer(call, x, shape, eps):
    n = math.prod(shape)
    return _Norm(call, x, n, 1, 1, n, eps)


def _group(call, x, groups, eps):
    inner = math.prod(x.shape[2:])
    return _Norm(call, x, x.shape[1] // groups * inner, inner, groups, x.shape[1], eps)


def _layer_norm(call):
    x, shape, weight, bias, eps, _ = call.args
    return _layer(call, x, shape, eps).forward(weight, bias, True)


def _rms_norm(call):
    x, shape, weight, eps = call.args
    return _layer(call, x, shape, eps).forward(weight, None, False)


def _layer_norm_backward(call):
    grad, x, shape, weight, eps, centred, sums = call.args
    return _layer(call, x, shape, eps).backward(grad, weight, centred, sums)


def _group_norm(call):
    x, groups, weight, bias, eps, _ = call.args
    if group_norm.cut_in_planes(x, groups, 8 * 1024):
        return group_norm.forward(call)
    return _group(call, x, groups, eps).forward(weight, bias, True)


def _group_norm_backward(call):
    grad, x, groups, weight, eps = call.args
    if group_norm.cut_in_planes(x, groups, 4 * 1024):
        return group_norm.backward(call)
    return _group(call, x, groups, eps).backward(grad, weight, True)


# --- losses -----------------------------------------------------------------------------------------------------------

def _reading(build, x, target, weight, ignored):
    """(rows, the statement that makes `labels`, its parameters)."""
    rows = Rows(build, 0 if len(x.shape) == 1 else 1, x)
    wide = build.wide(x)
    kinds = f"{wide}, {build.type(weight or x)}, {build.type(target)}"
    return rows, f"const Labels<{kinds}> labels{{label, weight, ignored, n_classes}};\n  ", [
        build.input("label", target), build.optional("weight", weight, x), number("int64_t", "ignored", ignored),
        number("int64_t", "n_classes", rows.n)]


def _deliver(build, rows, labels, parameters, losses, out, total, reduction):
    """One block: the sum or mean of losses into `out`, the weights' sum into `total`; either may be absent."""
    wide = losses.declaration.split("*")[0] if losses else total.declaration.split("*")[0]
    wide = wide.removeprefix("const ")
    given = [losses or Parameter(f"const {wide}* losses", Number(bytes(8))),
             out or Parameter(f"{wide}* out", Number(bytes(8))),
             total or Parameter(f"{wide}* total", Number(bytes(8)))]
    build.run(f"  typedef int64_t Index;\n  {labels}deliver_losses(losses, labels, out, total, Index(rows), "
              f"{flag(reduction == 'mean')});\n", [*given, *parameters, *sizes(rows=rows.rows)], 1, 1024, _FILES)


def _losses(call, weight, ignored, reduction, body):
    """Each row's loss by `body(rows, wide)`, then the reduction."""
    x, target = call.args[:2]
    build = Build(call)
    rows, labels, parameters = _reading(build, x, target, weight, ignored)
    wide = build.wide(x)
    losses = build.room("losses", wide, rows.rows, 8 if wide == "double" else 4)
    out = build.output("out", call.results[0])
    if rows.rows:
        body(build, rows, labels, [build.input("x", x), *parameters, losses])
    if reduction == "none":
        build.each(rows.rows, f"  out[i_] = cast<{build.type(call.results[0])}>(losses[i_]);\n", [out, losses])
    else:
        _deliver(build, rows, labels, parameters, losses, out, None, reduction)
    return build.plan()


def _cross_entropy(call):
    x, _, weight, ignored, reduction, smoothing, _ = call.args

    def body(build, rows, labels, parameters):
        rows.run(f"{labels}cross_entropy<{build.wide(x)}, {flag(rows.columns)}, {rows.wide}>"
                 "(x, labels, losses, Index(rows), Index(n), Index(inner), smoothing);",
                 [*parameters, number("double", "smoothing", smoothing)])
    return _losses(call, weight, ignored, reduction, body)


def _nll(call):
    x, _, weight, ignored, reduction = call.args

    def body(build, rows, labels, parameters):
        wide = build.wide(x)
        build.each(rows.rows, f"""  {labels}typedef {wide} A;
  const A w = labels.counts(i_) ? labels.weight_of(i_) : A(0);
  const int64_t c = labels.counts(i_) && w == w ? int64_t(label[i_]) : 0;
  losses[i_] = labels.counts(i_) ? -w * cast<A>(x[(i_ / inner * n + c) * inner + i_ % inner]) : A(0);
""", [*parameters, *sizes(n=rows.n, inner=rows.inner)], files=_FILES, index="int64_t")
    return _losses(call, weight, ignored, reduction, body)


def _upstream(call, weight, ignored, reduction):
    """What both backward rules begin with: (build, rows, labels' statement, parameters)."""
    grad, x, target = call.args[:3]
    build = Build(call)
    rows, labels, parameters = _reading(build, x, target, weight, ignored)
    wide = build.wide(x)
    total = build.room("total", wide, 1, 8 if wide == "double" else 4)
    if numel(x):
        _deliver(build, rows, labels, parameters, None, None, total, reduction)
    given = [build.input("grad", grad), build.input("x", x), *parameters, total, build.output("out", call.results[0])]
    return build, rows, labels, given


def _cross_entropy_backward(call):
    x, weight, ignored, reduction, smoothing = call.args[1], *call.args[3:]
    build, rows, labels, given = _upstream(call, weight, ignored, reduction)
    if numel(x):
        rows.run(f"{labels}cross_entropy_backward<{build.wide(x)}, {flag(rows.columns)}, {rows.wide}>(grad, x, labels, "
                 f"total, out, Index(rows), Index(n), Index(inner), smoothing, {flag(reduction == 'none')});",
                 [*given, number("double", "smoothing", smoothing)])
    return build.plan()


def _nll_backward(call):
    x, weight, ignored, reduction = call.args[1], *call.args[3:]
    build, rows, labels, given = _upstream(call, weight, ignored, reduction)
    wide = build.wide(x)
    at = "r" if reduction == "none" else "0"
    build.each(numel(x), f"""  {labels}typedef {wide} A;
  const Index c = i_ / inner % n, r = i_ / (n * inner) * inner + i_ % inner;
  const bool hit = labels.counts(r) && int64_t(label[r]) == c;
  out[i_] = cast<{build.type(call.results[0])}>(hit ? -labels.weight_of(r) * cast<A>(grad[{at}]) / *total : A(0));
""", [*given, *sizes(n=rows.n, inner=rows.inner)], files=_FILES)
    return build.plan()


RULES = {
    "softmax": _softmax(False), "log_softmax": _softmax(True),
    "_softmax_backward_data": _softmax_backward(False), "_log_softmax_backward_data": _softmax_backward(True),
    "layer_norm": _layer_norm, "_layer_norm_to": _layer_norm, "rms_norm": _rms_norm,
    "_layer_norm_backward": _layer_norm_backward,
    "group_norm": _group_norm, "_group_norm_backward": _group_norm_backward,
    "_cross_entropy": _cross_entropy, "_cross_entropy_backward": _cross_entropy_backward,
    "_nll_loss": _nll, "_nll_loss_backward": _nll_backward,
}
