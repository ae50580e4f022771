"""Softmax, norms and losses over rows. See rows.cuh."""

import math

from ...ops.dims import wrap_dim
from .launches import Build, Parameter, blocks, contiguous, nothing, number, numel, refuse, sizes
from .plans import Number

_FILES = ("reduce.cuh", "rows.cuh")


class Rows:
    """[outer, n, inner] around dimension `dim`: a block for each row, or a thread for each column."""

    def __init__(self, shape, dim, name):
        shape = list(shape) or [1]
        dim = wrap_dim(dim, len(shape), name)
        self.n, self.inner = shape[dim], math.prod(shape[dim + 1:])
        self.rows = math.prod(shape) // max(self.n, 1)
        self.columns = self.inner > 1
        self.threads = 256 if self.columns or self.n > 1024 else 128 if self.n > 128 else 32
        self.grid = blocks(self.rows, self.threads) if self.columns else self.rows

    def run(self, build, statement, parameters):
        far = self.rows * self.n >= 2**30
        body = f"  typedef int{64 if far else 32}_t Index;\n  {statement}\n"
        build.run(body, [*parameters, *sizes(rows=self.rows, n=self.n, inner=self.inner)], self.grid, self.threads,
                  _FILES)


def _flag(value):
    return "true" if value else "false"


def _softmax(log):
    def rule(call):
        x, dim, result = call.args[0], call.args[1], call.results[0]
        if numel(x) == 0:
            return nothing()
        build, rows = Build(call), Rows(x.shape, dim or 0, call.name)
        rows.run(build, f"softmax<{build.wide(result)}, {_flag(log)}, {_flag(rows.columns)}>"
                        "(x, out, Index(rows), Index(n), Index(inner));",
                 [build.input("x", x), build.output("out", result)])
        return build.plan()
    return rule


def _softmax_backward(log):
    def rule(call):
        grad, y, dim = call.args[:3]
        if numel(y) == 0:
            return nothing()
        build, rows = Build(call), Rows(y.shape, dim, call.name)
        rows.run(build, f"softmax_backward<{build.wide(y)}, {_flag(log)}, {_flag(rows.columns)}>"
                        "(grad, y, out, Index(rows), Index(n), Index(inner));",
                 [build.input("grad", grad), build.input("y", y), build.output("out", call.results[0])])
        return build.plan()
    return rule


# --- layer, rms and group norm ----------------------------------------------------------------------------------------

class _Norm:
    """Rows of n elements, each normalized; element i of row r has weight (r % groups * (n / inner) + i / inner)."""

    def __init__(self, call, x, n, inner, groups, weights, eps):
        self.call, self.x, self.n, self.groups, self.weights = call, x, n, groups, weights
        self.rows = numel(x) // max(n, 1)
        self.threads = 512 if n > 4096 else 256 if n > 1024 else 128 if n > 128 else 32
        self.index = f"  typedef int{64 if numel(x) >= 2**30 else 32}_t Index;\n"
        self.eps = (2.0**-52 if x.dtype == "float64" else 2.0**-23) if eps is None else eps  # of the type computed in
        self.shape = sizes(n=n, inner=inner, groups=groups, weights=weights)
        self.given = "Index(n), Index(inner), Index(groups), Index(weights)"

    def forward(self, weight, bias, centred):
        if numel(self.x) == 0:
            return nothing()
        build = Build(self.call)
        like = weight or bias or self.x
        body = (f"{self.index}  norm_forward<{build.wide(self.x)}, {_flag(centred)}>(x, weight, bias, out, "
                f"{self.given}, eps);\n")
        build.run(body, [build.input("x", self.x), build.optional("weight", weight, like),
                         build.optional("bias", bias, like), build.output("out", self.call.results[0]), *self.shape,
                         number("double", "eps", self.eps)], self.rows, self.threads, _FILES)
        return build.plan()

    def backward(self, grad, weight, centred, sums=True):
        build, results = Build(self.call), self.call.results
        if numel(self.x) == 0 or not sums:
            for info in results[1:]:
                build.zeros(build.output("out", info), numel(info) * build.size(info))
        if numel(self.x) == 0:
            return build.plan()
        wide, size = build.wide(self.x), 8 if build.wide(self.x) == "double" else 4
        means = build.room("means", wide, self.rows, size)
        scales = build.room("scales", wide, self.rows, size)
        g, x = build.input("grad", grad), build.input("x", self.x)
        body = (f"{self.index}  norm_backward<{wide}, {_flag(centred)}>(grad, x, weight, out, means, scales, "
                f"{self.given}, eps);\n")
        build.run(body, [g, x, build.optional("weight", weight, weight or self.x), build.output("out", results[0]),
                         means, scales, *self.shape, number("double", "eps", self.eps)], self.rows, self.threads,
                  _FILES)
        if not sums:
            return build.plan()
        body = (f"{self.index}  norm_weights<{wide}>(grad, x, means, scales, grad_weight, grad_bias, Index(rows), "
                f"{self.given});\n")
        build.run(body, [g, x, means, scales, build.output("grad_weight", results[1]),
                         build.output("grad_bias", results[2]), *sizes(rows=self.rows), *self.shape], self.weights,
                  256, _FILES)
        return build.plan()


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
    return _group(call, x, groups, eps).forward(weight, bias, True)


def _group_norm_backward(call):
    grad, x, groups, weight, eps = call.args
    return _group(call, x, groups, eps).backward(grad, weight, True)


# --- batch norm -------------------------------------------------------------------------------------------------------

class _Batch:
    """[batch, channels, inner], and what kernels of a channel are given."""

    def __init__(self, build, x):
        self.build, self.channels, self.inner = build, x.shape[1], math.prod(x.shape[2:])
        self.shape = sizes(batch=x.shape[0], channels=self.channels, inner=self.inner)
        self.given = "Index(batch), Index(channels), Index(inner)"
        self.n = numel(x)
        self.index = f"  typedef int{64 if self.n >= 2**30 else 32}_t Index;\n"
        self.wide = build.wide(x)
        self.bytes = 8 if self.wide == "double" else 4

    def room(self, name):
        return self.build.room(name, self.wide, self.channels, self.bytes)

    def statistics(self, x, saved, running, eps, momentum):
        """(means, 1 / deviations) of the batch; `saved` and `running` are written where they are given."""
        build, means, scales = self.build, self.room("means"), self.room("scales")
        if not all(r is None or contiguous(r) for r in running):
            refuse(build.call, "for running statistics that are not contiguous")
        like = next((r for r in running if r is not None), None)
        kind = build.type(like) if like else self.wide
        moved = [build.output(name, r) if r else Parameter(f"{kind}* {name}", Number(bytes(8)))
                 for name, r in zip(("running_mean", "running_var"), running, strict=True)]
        kept = [build.output(name, s) if s else Parameter(f"{self.wide}* {name}", Number(bytes(8)))
                for name, s in zip(("save_mean", "save_scale"), saved, strict=True)]
        build.run(f"{self.index}  batch_statistics<{self.wide}>(x, means, scales, save_mean, save_scale, running_mean, "
                  f"running_var, {self.given}, eps, momentum);\n",
                  [x, means, scales, *kept, *moved, *self.shape, number("double", "eps", eps),
                   number("double", "momentum", momentum)], self.channels, 512, _FILES)
        return means, scales

    def of_running(self, mean, var, eps):
        """The same from running statistics."""
        means, scales = self.room("means"), self.room("scales")
        self.build.each(self.channels, f"  means[i_] = cast<{self.wide}>(mean[i_]);\n"
                        f"  scales[i_] = rsqrt(cast<{self.wide}>(var[i_]) + {self.wide}(eps));\n",
                        [means, scales, self.build.input("mean", mean), self.build.input("var", var),
                         number("double", "eps", eps)])
        return means, scales


def _batch_norm(call):
    x, weight, bias, mean, var, training, momentum, eps = call.args
    build = Build(call)
    if numel(x) == 0:
        return nothing()
    batch, data = _Batch(build, x), build.input("x", x)
    if training:
        means, scales = batch.statistics(data, call.results[1:], (mean, var), eps, momentum)
    else:
        means, scales = batch.of_running(mean, var, eps)
    like = weight or bias or x
    build.each(numel(x), f"""  typedef {batch.wide} A;
  const Index c = i_ / Index(inner) % Index(channels);
  A v = (cast<A>(x[i_]) - means[c]) * scales[c];
  if (weight) v = v * cast<A>(weight[c]);
  if (bias) v = v + cast<A>(bias[c]);
  out[i_] = cast<{build.type(call.results[0])}>(v);
""", [data, means, scales, build.optional("weight", weight, like), build.optional("bias", bias, like),
      build.output("out", call.results[0]), *batch.shape])
    return build.plan()


def _batch_norm_backward(call):
    grad, x, weight, mean, var, saved_mean, saved_scale, training, eps = call.args
    build = Build(call)
    if numel(x) == 0:
        for info in call.results[1:]:
            build.zeros(build.output("out", info), numel(info) * build.size(info))
        return build.plan()
    batch, g, data = _Batch(build, x), build.input("grad", grad), build.input("x", x)
    if not training:
        means, scales = batch.of_running(mean, var, eps)
    elif saved_mean and numel(saved_mean):
        means, scales = build.input("means", saved_mean), build.input("scales", saved_scale)
    else:
        means, scales = batch.statistics(data, (None, None), (None, None), eps, 0.0)
    sums, withs = batch.room("sums"), batch.room("withs")
    build.run(f"{batch.index}  batch_sums<{batch.wide}>(grad, x, means, scales, sums, withs, {batch.given});\n",
              [g, data, means, scales, sums, withs, *batch.shape], batch.channels, 512, _FILES)
    share = "A(batch * inner)" if training else "A(1)"
    lost = f"(sums[c] + xhat * withs[c]) / {share}" if training else "A(0)"
    build.each(numel(x), f"""  typedef {batch.wide} A;
  const Index c = i_ / Index(inner) % Index(channels);
  const A xhat = (cast<A>(x[i_]) - means[c]) * scales[c], w = weight ? cast<A>(weight[c]) : A(1);
  out[i_] = cast<{build.type(call.results[0])}>(w * scales[c] * (cast<A>(grad[i_]) - {lost}));
""", [g, data, means, scales, sums, withs, build.optional("weight", weight, weight or x),
      build.output("out", call.results[0]), *batch.shape])
    for info, source in ((call.results[1], withs), (call.results[2], sums)):
        if numel(info):
            build.each(numel(info), f"  out[i_] = cast<{build.type(info)}>({source.declaration.split()[-1]}[i_]);\n",
                       [build.output("out", info), source])
    return build.plan()


# --- losses -----------------------------------------------------------------------------------------------------------

def _reading(build, x, target, weight, ignored):
    """(rows, the statement that makes `labels`, its parameters)."""
    rows = Rows(x.shape, 0 if len(x.shape) == 1 else 1, build.call.name)
    wide = build.wide(x)
    kinds = f"{wide}, {build.type(x)}, {build.type(target)}"
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
              f"{_flag(reduction == 'mean')});\n", [*given, *parameters, *sizes(rows=rows.rows)], 1, 1024, _FILES)


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
    x, _, weight, ignored, reduction, smoothing = call.args

    def body(build, rows, labels, parameters):
        rows.run(build, f"{labels}cross_entropy<{build.wide(x)}, {_flag(rows.columns)}>"
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
        rows.run(build, f"{labels}cross_entropy_backward<{build.wide(x)}, {_flag(rows.columns)}>(grad, x, labels, "
                        f"total, out, Index(rows), Index(n), Index(inner), smoothing, {_flag(reduction == 'none')});",
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
    "layer_norm": _layer_norm, "rms_norm": _rms_norm, "_layer_norm_backward": _layer_norm_backward,
    "group_norm": _group_norm, "_group_norm_backward": _group_norm_backward,
    "native_batch_norm": _batch_norm, "_batch_norm_backward": _batch_norm_backward,
    "_cross_entropy": _cross_entropy, "_cross_entropy_backward": _cross_entropy_backward,
    "_nll_loss": _nll, "_nll_loss_backward": _nll_backward,
}
