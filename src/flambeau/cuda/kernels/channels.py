"""Sums over channels and passes over their elements, channels last or in planes; batch norm. See channels.cuh."""

import math

from .launches import Build, Parameter, begin_aligned, blocks, contiguous, flag, nothing, number, numel, refuse, sizes
from .layouts import Placed, channels_last
from .plans import Number

_FILES = ("reduce.cuh", "channels.cuh")
#: about how many blocks there are; fixed, so that sums are cut in the same way on every GPU
_BLOCKS = 1024


class Channels:
    """[batch, channels, inner]; where inner is 1 channels lie last. Elements are read `wide` at once, as many as whole
    accesses of 16 bytes to all operands allow; blocks of 256 threads take some channels and one of `chunks` parts."""

    def __init__(self, build, batch, channels, inner, *infos, aligned=None):
        self.build, self.channels, self.rows, self.inner = build, channels, batch, inner
        self.wide = 16 // max(build.size(info) for info in infos)
        if aligned is None:
            aligned = begin_aligned(*infos)
        last = inner == 1
        while (not aligned and self.wide > 1) or (channels if last else inner) % self.wide:
            self.wide //= 2
        if last:
            lanes = min(32, 1 << max(0, math.ceil(math.log2(max(channels // self.wide, 1)))))
            self.across = blocks(channels, lanes * self.wide)
            self.each, self.chunks = _cut(batch, 256 // lanes * 8, self.across)
            self.kind = f"ChannelsLast<{self.wide}, {lanes}, "
        else:
            self.across = channels
            self.each, self.chunks = _cut(batch, math.ceil(4096 / inner), channels)
            self.kind = f"Planes<{self.wide}, "
        self.index = "int32_t" if batch * channels * inner < 2**30 else "int64_t"
        self.given = sizes(rows_=batch, channels_=channels, inner_=inner, each_=self.each)

    def run(self, statement, parameters, again=False):
        """A launch over all elements, which are read `again` or for the first time; the statement knows `walk` and, as
        V, how many are read at once."""
        body = (f"  typedef {self.index} Index;\n  constexpr int V = {self.wide};\n"
                f"  const {self.kind}{flag(again)}, Index> walk(rows_, channels_, inner_, each_);\n  {statement}\n")
        self.build.run(body, [*parameters, *self.given], (self.across, self.chunks), 256, _FILES)

    def sum(self, term, operands, parameters, wide, finish, to):
        """Each channel's sum. term: what is added, "SumOfChannel<float, float>"; operands: what it is made of; finish:
        statements that know the channel c and its sum v; wide: bytes of a sum; to: what they write to."""
        if not self.rows * self.inner * self.channels:
            return
        done = f"[&](Index c, const Join::Acc& v) {{ {finish} }}"
        types = f"  typedef {term} Term;\n  typedef Term::Join Join;\n"
        if self.chunks == 1:
            self.run(f"{types.lstrip()}  sum_channels<V>(walk, Term{{{operands}}}, {done});", [*parameters, *to])
            return
        partial = self.build.scratch(self.chunks * self.channels * wide)
        held = Parameter(f"{term}::Join::Acc* partial", partial)
        self.run(f"{types.lstrip()}  sum_channels<V>(walk, Term{{{operands}}}, [&](Index c, const Join::Acc& v) {{ "
                 "partial[Index(blockIdx.y) * Index(channels_) + c] = v; });", [*parameters, held])
        join_chunks(self.build, f"{term}::Join", held, self.channels, self.chunks, finish, to)


def join_chunks(build, join, partial, channels, chunks, finish, to):
    """The sums of each channel's `chunks` parts, which lie as [chunks, channels]: see Channels.sum."""
    build.run(f"  typedef int32_t Index;\n  typedef {join} Join;\n  join_channels<Join>(partial, Index(channels_), "
              f"Index(chunks_), [&](Index c, const Join::Acc& v) {{ {finish} }});\n",
              [partial, *sizes(channels_=channels, chunks_=chunks), *to], blocks(channels, 8), 256, _FILES)


def _cut(n, least, across):
    """(length, number) of the parts that n rows are cut into: not too many blocks, not too few rows for each."""
    parts = max(1, min(math.ceil(n / least), _BLOCKS // across))
    each = math.ceil(n / parts) if n else 1
    return each, max(1, math.ceil(n / each))


def channel_sums(build, grad, out, info, batch, channels, inner, wide, aligned=False):
    """A bias's gradient: the sums of each channel's elements. grad: [batch, channels, inner] of the dtype of info."""
    kind = grad.declaration.split("*")[0].removeprefix("const ")
    way = Channels(build, batch, channels, inner, info, aligned=aligned)
    if not batch * inner:
        build.zeros(out, channels * build.size(info))
    way.sum(f"SumOfChannel<{wide}, {kind}>", "grad", [Parameter(f"const {kind}* grad", grad.value)], 16,
            f"out[c] = cast<{build.type(info)}>(v);", [Parameter(f"{build.type(info)}* out", out.value)])


# --- batch norm -------------------------------------------------------------------------------------------------------

class _Batch:
    """A tensor in the order that it has, and what each channel is computed with."""

    def __init__(self, call, x, *others):
        self.build, self.x, self.others = Build(call), x, others
        self.last = len(x.shape) > 2 and channels_last(x)
        self.wide = self.build.wide(x)
        self.bytes = 8 if self.wide == "double" else 4
        self.n = numel(x) // max(x.shape[1], 1)
        self.placed = {}

    def place(self, name, info, written=False):
        placed = Placed(self.build, name, info, self.last, written)
        self.placed[name] = placed
        return placed.parameter

    def channels(self):
        """How to go through what was placed."""
        x, inner = self.x, math.prod(self.x.shape[2:])
        batch, inner = (x.shape[0] * inner, 1) if self.last else (x.shape[0], inner)
        aligned = all(placed.alignment == 16 for placed in self.placed.values())
        return Channels(self.build, batch, x.shape[1], inner, *(p.info for p in self.placed.values()), aligned=aligned)

    def room(self, name):
        return self.build.room(name, self.wide, self.x.shape[1], self.bytes)


def _reading(*names):
    """The values of tensors that may be absent, for channel c."""
    return " ".join(f"const A {name}_c = {name} ? cast<A>({name}[c]) : A({one});" for name, one in names)


def _kept(batch, call, running, saved):
    """Parameters of what the statistics are written to; any may be absent."""
    build = batch.build
    if not all(r is None or contiguous(r) for r in running):
        refuse(call, "for running statistics that are not contiguous")
    like = next((r for r in running if r is not None), None)
    kind = build.type(like) if like else batch.wide
    moved = [build.output(name, r) if r else Parameter(f"{kind}* {name}", Number(bytes(8)))
             for name, r in zip(("running_mean", "running_var"), running, strict=True)]
    kept = [build.output(name, s) if s else Parameter(f"{batch.wide}* {name}", Number(bytes(8)))
            for name, s in zip(("save_mean", "save_scale"), saved, strict=True)]
    return [*moved, *kept], kind


_STATISTICS = """typedef {wide} A;
    const A mean = v.origin, squares = v.squares, scale = rsqrt(squares / A(n) + A(eps));
    means[c] = mean; scales[c] = scale;
    if (save_mean) save_mean[c] = mean;
    if (save_scale) save_scale[c] = scale;
    if (running_mean) running_mean[c] = cast<{kind}>(cast<A>(running_mean[c]) * A(1 - momentum) + mean * A(momentum));
    if (running_var) running_var[c] = cast<{kind}>(
        cast<A>(running_var[c]) * A(1 - momentum) + squares / A(n - 1) * A(momentum));
    """


def _statistics(batch, call, x, running, saved, eps, momentum, more="", to=()):
    """(means, 1 / deviations) of the batch; `more` is done for each channel then, and writes to `to`."""
    means, scales = batch.room("means"), batch.room("scales")
    kept, kind = _kept(batch, call, running, saved)
    way = batch.channels()
    way.sum(f"SpreadOf<{batch.wide}, {batch.build.type(batch.x)}>", "x", [x], 4 * batch.bytes,
            _STATISTICS.format(wide=batch.wide, kind=kind) + more,
            [means, scales, *kept, number("int64_t", "n", batch.n), number("double", "eps", eps),
             number("double", "momentum", momentum), *to])
    return means, scales


def _of_running(batch, mean, var, eps, more="", to=()):
    """The same of running statistics."""
    means, scales = batch.room("means"), batch.room("scales")
    build = batch.build
    build.each(batch.x.shape[1], f"""  typedef {batch.wide} A;
  const Index c = i_;
  const A scale = rsqrt(cast<A>(var[c]) + A(eps));
  means[c] = cast<A>(mean[c]);
  scales[c] = scale;
  {more}
""", [means, scales, build.input("mean", mean), build.input("var", var), number("double", "eps", eps), *to])
    return means, scales


def _batch_norm(call):
    x, weight, bias, mean, var, training, momentum, eps = call.args
    if numel(x) == 0:
        return nothing()
    out = call.results[0]
    batch = _Batch(call, x)
    build, data, made = batch.build, batch.place("x", x), batch.place("out", out, True)
    like = weight or bias or x
    factors, shifts = batch.room("factors"), batch.room("shifts")
    given = [build.optional("weight", weight, like), build.optional("bias", bias, like), factors, shifts]
    coefficients = _reading(("weight", 1), ("bias", 0)) + " factors[c] = scale * weight_c; shifts[c] = bias_c;"
    if training:
        means, _ = _statistics(batch, call, data, (mean, var), call.results[1:], eps, momentum, coefficients, given)
    else:
        means, _ = _of_running(batch, mean, var, eps, coefficients, given)
    batch.channels().run("normalize_channels<V>(walk, x, out, means, factors, shifts);",
                         [data, made, *map(_read, (means, factors, shifts))], training)
    return build.plan()


def _read(room):
    return Parameter("const " + room.declaration, room.value)


def _batch_norm_backward(call):
    grad, x, weight, mean, var, saved_mean, saved_scale, training, eps = call.args
    to_x, to_weight, to_bias = call.results
    if numel(x) == 0:
        build = Build(call)
        for info in (to_weight, to_bias):
            build.zeros(build.output("out", info), numel(info) * build.size(info))
        return build.plan()
    batch = _Batch(call, x)
    build, data = batch.build, batch.place("x", x)
    if not training:
        means, scales = _of_running(batch, mean, var, eps)
    elif saved_mean and numel(saved_mean):
        means, scales = build.input("means", saved_mean), build.input("scales", saved_scale)
    else:
        means, scales = _statistics(batch, call, data, (None, None), (None, None), eps, 0.0)
    g, made = batch.place("grad", grad), batch.place("out", to_x, True)
    names = "factors", "constants", "linears"
    rooms = [batch.room(name) for name in names]
    sums = [build.output(name, info) if numel(info) else Parameter(f"{batch.wide}* {name}", Number(bytes(8)))
            for name, info in (("to_weight", to_weight), ("to_bias", to_bias))]
    share = "A(1) / A(n)" if training else "A(0)"
    kinds = [build.type(info) if numel(info) else batch.wide for info in (to_weight, to_bias)]
    finish = (f"typedef {batch.wide} A; {_reading(('weight', 1))} const A share = {share}; "
              "factors[c] = scales[c] * weight_c; constants[c] = v.first * share; "
              "linears[c] = scales[c] * v.second * share; "
              f"if (to_weight) to_weight[c] = cast<{kinds[0]}>(v.second); "
              f"if (to_bias) to_bias[c] = cast<{kinds[1]}>(v.first);")
    statistics = [Parameter(f"const {batch.wide}* {name}", p.value) for name, p in
                  (("means", means), ("scales", scales))]
    way = batch.channels()
    # without `means`, which only the sums need, where blocks are joined
    more = [statistics[1]] if way.chunks > 1 else []
    way.sum(f"SlopesOf<{batch.wide}, {build.type(x)}, {build.type(grad)}, 'c'>", "grad, x, means, scales, 0, 0",
            [g, data, *statistics], 2 * batch.bytes, finish,
            [*more, build.optional("weight", weight, weight or x), number("int64_t", "n", batch.n), *rooms, *sums])
    way.run("normalize_backward<V>(walk, grad, x, out, means, factors, constants, linears);",
            [g, data, made, statistics[0], *map(_read, rooms)], True)
    return build.plan()


RULES = {"native_batch_norm": _batch_norm, "_batch_norm_backward": _batch_norm_backward}
