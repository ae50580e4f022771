"""Attention as one operator, without the matrix of scores. See attention.cuh."""

import math
import struct

from .launches import Build, Parameter, layout, nothing, numel, refuse, row_major
from .plans import Number

_FILES = ("reduce.cuh", "attention.cuh")


def mask_strides(mask, rank):
    """Strides of a mask in row-major order, which is repeated where a size is 1; without a mask, zeros."""
    own = mask.shape if mask else ()
    strides = [0 if size == 1 else step for size, step in zip(own, row_major(own), strict=True)]
    return [0] * (rank - len(own)) + strides


class _Attention:
    """What the kernels of one call share: sizes, the mask and where its elements are."""

    def __init__(self, build, query, key, value, mask, causal, scale):
        self.build, self.batch = build, math.prod(query.shape[:-2])
        self.queries, self.keys, self.values = query.shape[-2], key.shape[-2], value.shape[-1]
        if max(query.shape[-1], self.values) > 512:
            refuse(build.call, "for heads of more than 512 columns")
        data = struct.pack("<5qf4x", self.queries, self.keys, query.shape[-1], self.values, causal, scale)
        shape = (*query.shape[:-1], self.keys)
        kind = build.type(mask) if mask else "float"
        pointer = build.input("mask", mask) if mask else Parameter("const float* mask", Number(bytes(8)))
        self.parameters = [Parameter(f"const {kind}* mask", pointer.value),
                           Parameter("const Attention a", Number(data)),
                           layout("places", shape, mask_strides(mask, len(shape)))]

    def inputs(self, **infos):
        return [self.build.input(name, info) for name, info in infos.items()]


def _forward(call):
    query, key, value, mask, causal, scale, _ = call.args
    build, (out, lse) = Build(call), call.results
    if numel(out) == 0 and numel(lse) == 0:
        return nothing()
    attention = _Attention(build, query, key, value, mask, causal, scale)
    build.run("  attend(query, key, value, mask, places, out, lse, a);\n",
              [*attention.inputs(query=query, key=key, value=value), build.output("out", out),
               build.output("lse", lse), *attention.parameters], attention.batch * attention.queries, 128, _FILES)
    return build.plan()


def _backward(call):
    grad, query, key, value, mask, out, lse, causal, scale, _ = call.args
    build, (to_query, to_key, to_value) = Build(call), call.results
    attention = _Attention(build, query, key, value, mask, causal, scale)
    given = attention.inputs(grad=grad, query=query, key=key, value=value, out=out, lse=lse)
    none = Parameter(f"{build.type(query)}* to_value", Number(bytes(8)))
    statement = "(grad, query, key, value, mask, places, out, lse, to, to_value, a);\n"
    if numel(to_query):
        build.run(f"  attend_backward<true>{statement}",
                  [*given, build.output("to", to_query), none, *attention.parameters],
                  attention.batch * attention.queries, 128, _FILES)
    if attention.batch * attention.keys:
        build.run(f"  attend_backward<false>{statement}",
                  [*given, build.output("to", to_key), build.output("to_value", to_value), *attention.parameters],
                  attention.batch * attention.keys, 128, _FILES)
    return build.plan()


RULES = {"fused_attention": _forward, "fused_attention_backward": _backward}
