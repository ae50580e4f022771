"""Recurrent layers by cuDNN: what it is told about the operands."""

from ...backends import _switches
from .cudnn import usable
from .launches import Build, Parameter, numel, sizes
from .libraries import deterministic, run
from .sequences import STEPS_TEXT, steps_of

_ELEMENT = {"float32": 4, "float64": 8, "float16": 2}
_GATES = {"lstm": 4, "gru": 3}


def _lengths(build, batch_sizes):
    """How long each sequence is: numbers, and a parameter of where they lie on the device."""
    batch = batch_sizes[0]
    room = build.room("lengths", "int32_t", batch, 4)
    build.zeros(room, batch * 4)
    for _, many, table in steps_of(batch_sizes):
        build.each(batch, """  for (int t = 0; t < many; ++t)
    if (i_ < steps.of[t].count) ++lengths[i_];
""", [room, table, *sizes(many=many)], index="int64_t", before=STEPS_TEXT)
    return tuple(sum(n > k for n in batch_sizes) for k in range(batch)), room


def _layer(call, given, weights, batch_sizes, mode, back, more):
    """The plan of one call, or None where the library is not there or does not take it. `more(build)`: the operands
    behind the weights."""
    x = given[0]
    if x.dtype not in _ELEMENT or not usable(call, x) or deterministic() or not batch_sizes[-1]:
        return None
    build = Build(call)
    lengths, there = _lengths(build, batch_sizes)
    operands = [build.input("given", t) if t is not None and numel(t) else None for t in (*given, *weights)]
    gates = _GATES.get(mode, 1)
    run(build, "cudnn.recurrent", (*operands[:3], there, *operands[3:], *more(build)), dtype=x.dtype,
        element=_ELEMENT[x.dtype], mode=mode, inputs=x.shape[1], hidden=weights[0].shape[0] // gates, gates=gates,
        directions=2 if weights[4] is not None else 1, bias=weights[2] is not None, lengths=lengths, back=back,
        tf32=_switches.get("rnn_tf32"))
    return build.plan()


def _forward(call):
    *given, batch_sizes, mode = call.args
    return _layer(call, given[:3], given[3:], batch_sizes, mode, False, lambda build: _places(build, call.results))


def _places(build, results):
    return [build.output("made", r) if numel(r) else None for r in results]


def _backward(call):
    grads, given, (batch_sizes, mode) = call.args[:3], call.args[3:14], call.args[14:]

    def more(build):
        out = grads[0]
        if out is None:
            x, directions = given[0], 2 if given[7] is not None else 1
            count = x.shape[0] * directions * given[4].shape[1]
            first = build.room("zeros", build.type(x), count, build.size(x))
            build.zeros(first, count * build.size(x))
        else:
            first = build.input("grad", out)
        states = [build.input("grad", g) if g is not None and numel(g) else None for g in grads[1:]]
        return [Parameter(first.declaration, first.value), *states, *_places(build, call.results)]
    return _layer(call, given[:3], given[3:], batch_sizes, mode, True, more)


RULES = {"_recurrent_both": _forward, "_recurrent_both_backward": _backward}
