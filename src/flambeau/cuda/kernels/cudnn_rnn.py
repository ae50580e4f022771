"""Recurrent layers by cuDNN: what it is told about the operands."""

from functools import lru_cache

from ... import _C
from ...backends import _switches
from .cudnn import usable
from .launches import Build, Parameter, numel, sizes
from .libraries import deterministic, path_of, run
from .sequences import STEPS_TEXT, steps_of

_ELEMENT = {"float32": 4, "float64": 8, "float16": 2}
_GATES = {"lstm": 4, "gru": 3}


def _lengths(build, batch_sizes):
    """How long each sequence is: where these numbers lie on the device."""
    batch = batch_sizes[0]
    room = build.room("lengths", "int32_t", batch, 4)
    build.zeros(room, batch * 4)
    for _, many, table in steps_of(batch_sizes):
        build.each(batch, """  for (int t = 0; t < many; ++t)
    if (i_ < steps.of[t].count) ++lengths[i_];
""", [room, table, *sizes(many=many)], index="int64_t", before=STEPS_TEXT)
    return room


def _told(tf32, dtype, inputs, hidden, mode, both, bias, batch_sizes):
    """What the library is told about a layer."""
    lengths = tuple(sum(n > k for n in batch_sizes) for k in range(batch_sizes[0]))
    return {"dtype": dtype, "element": _ELEMENT[dtype], "mode": mode, "inputs": inputs, "hidden": hidden,
            "gates": _GATES.get(mode, 1), "directions": 2 if both else 1, "bias": bias, "lengths": lengths,
            "tf32": tf32}


def kept_by_layer(device, *layer):
    """How many bytes the library keeps of a layer (what _told takes) for the way back."""
    return _kept(device, _switches.get("rnn_tf32"), *layer)


@lru_cache(4096)
def _kept(device, *layer):
    return _C._cuda.kept_by_library("cudnn.recurrent", path_of("cudnn"), device,
                                    {**_told(*layer), "back": False, "keeps": True})


def _layer(call, given, weights, batch_sizes, mode, way, more):
    """The plan of one call, or None where the library is not there or does not take it. `more(build)`: the operands
    behind the weights."""
    x = given[0]
    if x.dtype not in _ELEMENT or not usable(call, x) or deterministic() or not batch_sizes[-1]:
        return None
    build = Build(call)
    there = _lengths(build, batch_sizes)
    operands = [build.input("given", t) if t is not None and numel(t) else None for t in (*given, *weights)]
    told = _told(_switches.get("rnn_tf32"), x.dtype, x.shape[1], weights[1].shape[1], mode, weights[4] is not None,
                 weights[2] is not None, batch_sizes)
    run(build, "cudnn.recurrent", (*operands[:3], there, *operands[3:], *more(build)), **told, **way)
    return build.plan()


def _forward(call):
    *given, batch_sizes, mode, kept = call.args
    return _layer(call, given[:3], given[3:], batch_sizes, mode, {"back": False, "keeps": kept > 0},
                  lambda build: _places(build, call.results))


def _places(build, results):
    return [build.output("made", r) if numel(r) else None for r in results]


def _backward(call):
    grads, given, (batch_sizes, mode, made, reserve) = call.args[:3], call.args[3:14], call.args[14:]

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
        kept = [build.input("made", made), build.input("reserve", reserve)]
        return [*kept, Parameter(first.declaration, first.value), *states, *_places(build, call.results)]
    return _layer(call, given[:3], given[3:], batch_sizes, mode, {"back": True, "keeps": False}, more)


RULES = {"_recurrent_both": _forward, "_recurrent_both_backward": _backward}
