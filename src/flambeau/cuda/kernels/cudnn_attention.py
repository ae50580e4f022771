"""Attention by cuDNN: how operands are described to it, and what is done about queries that may see nothing."""

import math

from .attention import mask_strides
from .cudnn import usable
from .launches import Build, Parameter, layout, numel, row_major, sizes, tensor
from .libraries import NULL, deterministic, run
from .plans import Number

_FILES = ("masks.cuh",)
_TYPES = ("float16", "bfloat16")
_LARGEST_HEAD = 256


def _merged(shape, strides):
    """Dimensions as one: (size, stride), or None where they do not lie at one distance."""
    size, step = 1, 0
    for n, stride in zip(reversed(shape), reversed(strides), strict=True):
        if n == 1:
            continue
        if size > 1 and stride != size * step:
            return None
        step = stride if size == 1 else step
        size *= n
    return size, step


def _in_place(info, grouped=False):
    """Sizes [batch, heads, rows, columns] and strides of a tensor as it lies, or None where the library needs it
    otherwise. `grouped`: heads that are one in memory, for several of the queries', are described as one."""
    lead = len(info.shape) - 2
    inner, steps = list(info.shape[1:lead]), list(info.strides[1:lead])
    while grouped and inner and (inner[-1] == 1 or steps[-1] == 0):
        inner.pop(), steps.pop()
    heads = _merged(inner, steps)
    if heads is None or not info.aligned or info.strides[-1] != 1:
        return None
    batch = (info.shape[0], info.strides[0]) if lead else (1, 0)
    found = [batch, heads, (info.shape[-2], info.strides[-2]), (info.shape[-1], 1)]
    if any(n > 1 and (step % 8 or not step) for n, step in found[:3]):
        return None
    return tuple(n for n, _ in found), _steps(found)


def _steps(found):
    """Strides, where those of size 1 are such as lie without gaps."""
    step, made = 1, []
    for n, stride in reversed(found):
        made.append(stride if n > 1 else step)
        step = max(step, made[-1] * n)
    return tuple(reversed(made))


def _by_rows(shape):
    lead = len(shape) - 2
    folded = (shape[0] if lead else 1, math.prod(shape[1:lead]), *shape[-2:])
    return folded, tuple(row_major(folded))


class _Call:
    """The operands of one call in the library's order, and the constants that describe them."""

    def __init__(self, call):
        self.build, self.operands, self.told = Build(call), [], {}

    def give(self, name, info, written=False, grouped=False):
        place = _in_place(info, grouped)
        if place is not None:
            parameter = tensor(name, info, self.build.call.name, written)
        elif written:
            place, parameter = _by_rows(info.shape), self.build.output_as(name, info, row_major(info.shape))
        else:
            place, parameter = _by_rows(info.shape), self.build.packed(name, info)
        self.tell(name, *place, parameter)

    def tell(self, name, shape, strides, parameter, alignment=16):
        self.told |= {name: tuple(shape), f"{name}_strides": tuple(strides), f"{name}_alignment": alignment}
        self.operands.append(parameter)

    def give_logarithms(self, parameter, query):
        batch, heads, rows, _ = _by_rows(query.shape)[0]
        self.tell("lse", (batch, heads, rows, 1), (heads * rows, rows, 1, 1), parameter, 4)

    def give_bias(self, mask, query, keys):
        """Gives the mask as numbers of the query's dtype. Returns where each of its rows says whether it lets a key be
        seen, and which row is that of a query: (parameter, layout); None without a mask."""
        if mask is None:
            self.operands.append(NULL)
            return None
        build, shape = self.build, (*query.shape[:-1], keys)
        fill = len(shape) - len(mask.shape)
        whole = mask._replace(shape=(1,) * fill + tuple(mask.shape), strides=(0,) * fill + tuple(mask.strides))
        heads = whole.shape[1:-2] if set(whole.shape[1:-2]) == {1} else shape[1:-2]
        own = (*whole.shape[:len(shape) > 2], *heads, *shape[-2:])
        place = _in_place(whole) if mask.dtype == query.dtype and whole.shape == own else None
        count = math.prod(own[:-1])
        seen = build.room("seen", "uint8_t", count, 1)
        if place:
            bias, step = Parameter(f"{build.type(mask)}* bias", Number(bytes(8))), 0
            self.tell("bias", *place, tensor("bias", mask, build.call.name))
        else:
            step = -(-keys // 8) * 8
            batch, many, queries, _ = folded = _by_rows(own)[0]
            bias = build.room("bias", build.type(query), count * step, build.size(query))
            self.tell("bias", folded, _steps([(batch, many * queries * step), (many, queries * step), (queries, step),
                                                   (keys, 1)]), bias)
        build.zeros(seen, count)
        build.run("  look(mask, places, seen, bias, keys, step);\n",
                  [build.input("mask", mask), layout("places", own, mask_strides(mask, len(own))), seen, bias,
                   *sizes(keys=keys, step=step)], count, 128, _FILES)
        rows = [0 if n == 1 else s for n, s in zip(own[:-1], row_major(own[:-1]), strict=True)]
        return seen, layout("rows", shape[:-1], rows)

    def run(self, **constants):
        run(self.build, "cudnn.attention", self.operands, **self.told, **constants)


def _fits(call, query, key, value, mask, causal, out):
    heads = query.shape[-1], value.shape[-1]
    if mask and (causal or mask.dtype not in ("bool", query.dtype)):
        return False
    return (query.dtype in _TYPES and usable(call, query, key, value, out)
            and all(n % 8 == 0 and n <= _LARGEST_HEAD for n in heads))


def _forward(call):
    query, key, value, mask, causal, scale, allowed = call.args
    out, lse = call.results
    if not allowed or not _fits(call, query, key, value, mask, causal, out):
        return None
    given = _Call(call)
    build = given.build
    given.give("q", query)
    given.give("k", key, grouped=True)
    given.give("v", value, grouped=True)
    looked = given.give_bias(mask, query, key.shape[-2])
    given.give("out", out, written=True)
    made = given.operands[-1]
    logarithms = build.output("lse", lse)
    given.give_logarithms(logarithms, query)
    given.run(dtype=query.dtype, back=False, causal=causal, scale=float(scale))
    if looked:
        build.each(numel(lse), "  blank(i_, seen, rows, out, places, width, lse);\n",
                   [*looked, Parameter(f"{build.type(out)}* out", made.value),
                    layout("places", given.told["out"][:3], given.told["out_strides"][:3]),
                    *sizes(width=out.shape[-1]), logarithms], index="int64_t", files=_FILES)
    return build.plan()


def _backward(call):
    grad, query, key, value, mask, out, lse, causal, scale, allowed = call.args
    to_query, to_key, to_value = call.results
    if not allowed or deterministic() or not _fits(call, query, key, value, mask, causal, out) \
            or not usable(call, query, grad) or query.shape[-2] == key.shape[-2] == 1:
        return None
    given = _Call(call)
    build = given.build
    for name, info in (("q", query), ("k", key), ("v", value)):
        given.give(name, info)
    given.give_bias(mask, query, key.shape[-2])
    given.give("out", out)
    given.give_logarithms(_for_the_way_back(build, lse) if mask else build.input("lse", lse), query)
    given.give("grad", grad)
    for name, info in (("to_q", to_query), ("to_k", to_key), ("to_v", to_value)):
        given.give(name, info, written=True)
    given.run(dtype=query.dtype, back=True, causal=causal, scale=float(scale))
    return build.plan()


def _for_the_way_back(build, lse):
    """The logarithms, with infinity for queries that see nothing: then their weights are 0."""
    made = build.room("lse", "float", numel(lse), 4)
    build.each(numel(lse), "  made[i_] = lse[i_] == -infinity<float>() ? infinity<float>() : lse[i_];\n",
               [build.input("lse", lse), Parameter("float* made", made.value)])
    return made


RULES = {"fused_attention": _forward, "fused_attention_backward": _backward}
