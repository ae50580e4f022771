"""Reading and writing along one dimension by an index: gather, scatter, index_select, index_add and their kin."""

import math

from ...ops.dims import wrap_dim
from .launches import Build, index_type, numel, tensor
from .places import FILES, Index, Places, as_result, begin_with, reach, read, write, written

_WORDS = {"add": "a", "sum": "a", "mean": "a", "multiply": "m", "prod": "m", "amax": "u", "amin": "d"}


def _along(call, target):
    """(dimension, sizes, strides) of a tensor indexed along the call's dimension; one without dimensions has one."""
    of = list(target.shape) or [1]
    return wrap_dim(call.args[1], len(of), call.name), of, list(target.strides) or [1]


def _full(call, target, index_info):
    """Places of gather and scatter: the index has the places' shape."""
    dim, of, steps = _along(call, target)
    shape = list(index_info.shape) or [1]
    strides = list(index_info.strides) or [1]
    base = [0 if d == dim else s for d, s in enumerate(steps)]
    pointer = tensor("index", index_info, call.name)
    return Places(shape, base, [dim], [Index(pointer, tuple(strides), of[dim], steps[dim])], False)


def _vector(call, target, index_info, source_shape):
    """Places of index_select and its kin: one row of positions along dimension `dim`."""
    dim, of, steps = _along(call, target)
    shape = list(source_shape) or [1]
    base = [0 if d == dim else s for d, s in enumerate(steps)]
    stride = index_info.strides[0] if index_info.shape else 1
    strides = tuple(stride if d == dim else 0 for d in range(len(shape)))
    return Places(shape, base, [dim], [Index(tensor("index", index_info, call.name), strides, of[dim], steps[dim])],
                  False)


def _gather(call):
    x, _, index = call.args[:3]
    build = Build(call)
    if not numel(index):  # which may have other dimensions then
        return build.plan()
    places = _full(call, x, index)
    read(build, places, x, as_result(call.results[0]), index_type(x, call.results[0]))
    return build.plan()


def _index_select(call):
    x, _, index = call.args
    build, out = Build(call), as_result(call.results[0])
    if numel(out):
        read(build, _vector(call, x, index, out.shape), x, out, index_type(x, out))
    return build.plan()


def _number(value, kind):
    """A number of the call, as an element of a C++ type."""
    if isinstance(value, complex):
        return f"cast<{kind}>(complex128({value.real!r}, {value.imag!r}))"
    if isinstance(value, float) and not math.isfinite(value):
        value = "not_a_number<double>()" if math.isnan(value) else f"{'-' if value < 0 else ''}infinity<double>()"
    return f"cast<{kind}>({value if not isinstance(value, bool) else int(value)})"


def _scatter(how=None, number_given=False, reduce=False):
    def rule(call):
        x, _, index, source = call.args[:4]
        build, out = Build(call), call.results[0]
        word = how or _WORDS.get(call.args[4] if len(call.args) > 4 else None, "r")
        begin_with(build, out, x)
        if numel(index) == 0:
            return build.plan()
        places, kind = _full(call, out, index), build.type(out)
        if number_given:
            given = [], _number(source, kind)
        else:
            beside, at = places.other("source", list(source.strides) or [1])
            given = [tensor("source", source, call.name), *beside], f"cast<{kind}>(source[{at}])"
        far = index_type(out, index, *([] if number_given else [source]))
        if reduce and not call.args[5]:  # places that something goes to begin anew
            begin = given if word in "ud" else ([], f"cast<{kind}>({int(word == 'm')})")
            write(build, places, out, "r", begin, far)
        write(build, places, out, word, given, far)
        if reduce and call.args[4] == "mean":
            _divide(build, places, out, call.args[5], far)
        return build.plan()
    return rule


def _divide(build, places, out, include, far):
    """Sums by how many went to each place."""
    kind, n = build.type(out), reach(out)
    counts = build.room("counts", "int32_t", n, 4)
    build.zeros(counts, n * 4)
    build.each(places.many * places.length, "  const Index line = i_ / Index(length), place = i_ - line * "
               f"Index(length);\n{places.text()}  if (inside) atomicAdd(counts + at, 1);\n",
               [counts, *places.parameters()], places.offsets(far), FILES)
    build.each(n, f"""  const int32_t many = counts[i_] + {int(include)};
  typedef Wide<{kind}>::type W;
  if (counts[i_] > 0) {{
    if constexpr (IsWhole<W>::value) out[i_] = cast<{kind}>(floor_div(cast<int64_t>(out[i_]), int64_t(many)));
    else out[i_] = cast<{kind}>(widen(out[i_]) / W(many));
  }}
""", [tensor("out", out, build.call.name, True), counts])


def _along_index(how, number_given=False):
    def rule(call):
        x, _, index, source = call.args[:4]
        build, out = Build(call), call.results[0]
        begin_with(build, out, x)
        kind = build.type(out)
        shape = list(x.shape) or [1]
        shape[wrap_dim(call.args[1], len(shape), call.name)] = numel(index)
        if math.prod(shape) == 0:
            return build.plan()
        places = _vector(call, out, index, shape)
        if number_given:
            given = [], _number(source, kind)
        else:
            parameters, value = written(build, places, source, kind, shape)
            scale = call.args[4] if len(call.args) > 4 else 1
            wide = f"Wide<{kind}>::type"
            value = value if scale == 1 else f"cast<{kind}>(widen({value}) * {_number(scale, wide)})"
            given = parameters, value
        write(build, places, out, how, given, index_type(out, index, *([] if number_given else [source])))
        return build.plan()
    return rule


RULES = {
    "gather": _gather, "index_select": _index_select, "scatter_src": _scatter(), "scatter_add": _scatter("a"),
    "scatter_value": _scatter(number_given=True), "scatter_reduce": _scatter(reduce=True),
    "index_add": _along_index("a"), "index_copy": _along_index("r"), "index_fill_number": _along_index("r", True),
    "index_fill_tensor": _along_index("r"),
}
