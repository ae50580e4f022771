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


def _told(tf32, dtype, inputs, hidden, mode, layers, both, bias, batch_sizes):
    """What the library is told about the layers."""
    lengths = tuple(sum(n > k for n in batch_sizes) for k in range(batch_sizes[0]))
    return {"dtype": dtype, "element": _ELEMENT[dtype], "mode": mode, "inputs": inputs, "hidden": hidden,
            "gates": _GATES.get(mode, 1), "layers": layers, "directions": 2 if both else 1, "bias": bias,
            "lengths": lengths, "tf32": tf32}


def kept_by_layers(device, *layers):
    """How many bytes the library keeps of recurrent layers (what _told takes) for the way back."""
    return _kept(device, _switches.get("rnn_tf32"), *layers)


@lru_cache(4096)
def _kept(device, *layers):
    return _C._cuda.kept_by_library("cudnn.recurrent", path_of("cudnn"), device,
                                    {**_told(*layers), "back": False, "keeps": True})


def _layers(call, operands, bias, both, batch_sizes, mode, way, more):
    """The plan of one call, or None where the library is not there or does not take it. `more(build)`: what follows
    behind the weights."""
    x, weights = operands[0], operands[3:]
    if x.dtype not in _ELEMENT or not usable(call, x) or deterministic() or not batch_sizes[-1]:
        return None
    build = Build(call)
    there = _lengths(build, batch_sizes)
    given = [build.input("given", t) if t is not None and numel(t) else None for t in operands]
    count = len(weights) // ((4 if bias else 2) * (2 if both else 1))
    told = _told(_switches.get("rnn_tf32"), x.dtype, x.shape[1], weights[1].shape[1], mode, count, both, bias,
                 batch_sizes)
    run(build, "cudnn.recurrent", (*given[:3], there, *given[3:], *more(build)), **told, **way)
    return build.plan()


def _forward(call):
    *layers, kept = call.args
    return _layers(call, *layers, {"back": False, "keeps": kept > 0}, lambda build: _places(build, call.results))


def _places(build, results):
    return [build.output("made", r) if numel(r) else None for r in results]


def _backward(call):
    out, *states = call.args[:3]
    operands, bias, both, batch_sizes, mode, made, reserve = call.args[3:]

    def more(build):
        if out is None:
            count, size = numel(made), build.size(made)
            first = build.room("zeros", build.type(made), count, size)
            build.zeros(first, count * size)
        else:
            first = build.input("grad", out)
        given = [build.input("grad", g) if g is not None and numel(g) else None for g in states]
        kept = [build.input("made", made), build.input("reserve", reserve)]
        return [*kept, Parameter(first.declaration, first.value), *given, *_places(build, call.results)]
    return _layers(call, operands, bias, both, batch_sizes, mode, {"back": True, "keeps": False}, more)


RULES = {"_recurrent_stack": _forward, "_recurrent_stack_backward": _backward}
