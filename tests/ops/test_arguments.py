"""Every argument of an operator counts: with another value, the result is another one or the call is refused.

Each argument that is no tensor is changed in the operator's samples, one at a time. If no sample answers differently,
the operator ignores the argument, unless UNSEEN says why a change cannot be seen.
"""

import re

import pytest

import flambeau
from flambeau.ops.kinds import OPS

from . import battery
from .samples import Sample

#: arguments that change no result by their nature
UNSEEN = {
    **{key: {"stable"} for key in ("argsort", "sort")},  # every sort is stable
    **{key: {"sorted"} for key in ("topk", "unique")},  # and these are always sorted
    **{key: {"implicit"} for key in ("expand", "expand_copy")},  # a note for tracing
    "copy_": {"non_blocking"}, "_to_copy": {"non_blocking"},  # for copies between devices
    "group_norm": {"cudnn_enabled"}, "layer_norm": {"cudnn_enable"},  # which library computes it
    # a layer of a stack is given alone: what is dropped between layers is tested with the modules
    **{f"{cell}.{form}": {"dropout", "train"} for cell in ("lstm", "gru", "rnn_tanh", "rnn_relu")
       for form in ("input", "data")},
}


def telling_samples():
    """{operator: a call in which arguments count that do not in its ordinary samples}."""
    f = flambeau.tensor
    odd, zeros, one = f([1.0, float("nan"), float("inf"), -float("inf")]), flambeau.zeros(2, 2), flambeau.ones(2)
    whole, statistics = flambeau.ones(2, 3, 4), (flambeau.zeros(3), flambeau.ones(3))
    singular = Sample((zeros,), {})
    return {
        **{f"{k}dropout": Sample((flambeau.ones(*(4,) * n), 0.5, True), {})
           for k, n in (("", 1), ("alpha_", 3), ("feature_alpha_", 3))},
        **{f"dropout{n}d": Sample((flambeau.ones(*(4,) * (n + 2)), 0.5, True), {}) for n in (1, 2, 3)},
        **{f"lp_pool{n}d": Sample((flambeau.ones(1, 1, *(5,) * n), 2.0, 2), {}) for n in (1, 2, 3)},
        **{f"linalg_{k}_ex": singular for k in ("cholesky", "inv", "ldl_factor", "lu_factor")},
        "batch_norm": Sample((whole, *statistics, None, None, True), {}),
        "embedding": Sample((f([0, 0]), flambeau.ones(2, 2, requires_grad=True), None, 1.0), {}),
        "gather": Sample((flambeau.ones(2, requires_grad=True), 0, f([0, 0])), {}),
        "hinge_embedding_loss": Sample((one / 2, -one), {}),
        "instance_norm": Sample((whole, *statistics), {}),
        "isclose": Sample((odd, odd), {}),
        "linalg_solve_ex": Sample((zeros, flambeau.ones(2, 2)), {}),
        "margin_ranking_loss": Sample((one, one, one, 0.5), {}),
        "nan_to_num": Sample((odd,), {}),
        "native_dropout": Sample((flambeau.ones(8), 0.5, True), {}),
        "poisson_nll_loss": Sample((one, one, False), {}),
        "scaled_dot_product_attention": Sample((flambeau.ones(1, 4, 3, 2), *(flambeau.ones(1, 2, 3, 2),) * 2), {}),
    }


def shifted(old, by):
    if isinstance(old, list | tuple):
        return [x + by if isinstance(x, int | float) and not isinstance(x, bool) else x for x in old]
    return [by] if old is None else [old + by]


#: by type in schemas: values that an argument is changed to, made from the one it has
OTHERS = {
    "bool": lambda old: [not old],
    "int": lambda old: [x for k in (1, -1, 2) for x in [(old or 0) + k]] + [0, 1, 10 ** 6],
    "float": lambda old: [(old or 0.0) * 0.5 + 0.25, (old or 0.0) + 1.0, 100.0, -1.0],
    "int[]": lambda old: [shifted(old, 1), shifted(old, -1), [0], [1], [1, 1], [0, 1]],
    "float[]": lambda old: [[1.5], [1.5, 1.5], shifted(old, 0.5)],
    "str": lambda old: ["no such word"],
    "dtype": lambda old: [flambeau.float16, flambeau.float32, flambeau.int64],
    "memory_format": lambda old: [flambeau.channels_last, flambeau.contiguous_format],
    "device": lambda old: [flambeau.device("meta")],
    "layout": lambda old: [flambeau.sparse_coo],
    "Generator": lambda old: [flambeau.Generator().manual_seed(7)],
}
OTHERS["any"] = lambda old: (
    OTHERS[type(old).__name__](old) if type(old).__name__ in ("bool", "int", "float", "str")
    else [shifted(old, 1)] if isinstance(old, tuple | list)
    else [False, True, 1, 0.5, "no such word", (3, 3), flambeau.float16])
OTHERS["Scalar"] = lambda old: [not old] if isinstance(old, bool) else OTHERS["float"](old)


def others(kind, old):
    made = OTHERS[re.sub(r"\[\d*\]", "[]", kind)](old) if old is None or not isinstance(old, flambeau.Tensor) else []
    return [x for x in made if type(x) is not type(old) or x != old]


def types(schema):
    """{argument: its type, without "?"} as the schema says."""
    found = re.findall(r"([\w.]+(?:\([^)]*\))?(?:\[\d*\])?)\??(?:\([a-z]!?\))? (\w+)(?:=[^,]*|[,)])", schema)
    return {name: kind for kind, name in found}


def arguments(name):
    """(argument, type, position or None) of those that are no tensors."""
    kinds = types(OPS[name].schema)
    for position, (argument, keyword_only, _, default) in enumerate(OPS[name].arguments):
        if "Tensor" not in kinds.get(argument, "Tensor"):
            yield argument, kinds[argument], None if keyword_only else position, default


def replaced(sample, argument, position, default, kind):
    """The sample again and again, each time with another value of `argument`."""
    if position is not None and position < len(sample.args):
        for value in others(kind, sample.args[position]):
            yield Sample((*sample.args[:position], value, *sample.args[position + 1:]), sample.kwargs)
    else:
        for value in others(kind, sample.kwargs.get(argument, default)):
            yield Sample(sample.args, {**sample.kwargs, argument: value})


def shown(t):
    values = repr(t.tolist()) if t.device.type == "cpu" else ""
    return t.dtype, t.device, t.shape, t.stride(), t.requires_grad, values, t.is_leaf and t.grad


def answer(name, sample):
    """What can be seen of a call: the results, what became of the arguments; or the exception's type."""
    flambeau.manual_seed(0)
    given = []

    def copy(t):
        given.append(t.detach().clone().requires_grad_(t.requires_grad))
        return given[-1]
    copied = battery.map_tensors(copy, sample)
    try:
        result = OPS[name](*copied.args, **copied.kwargs)
        made = battery.tensors(result)
        if name in telling_samples() and made and made[0].requires_grad:
            made[0].sum().backward()
        return repr([shown(t) for t in (*made, *given)] or result)
    except (*battery.REFUSALS, AssertionError) as refusal:
        return type(refusal).__name__


def is_ignored(name, argument, kind, position, default):
    """Whether it could be changed, and nothing came of it."""
    tried, telling = False, telling_samples()
    for dtype in (flambeau.float64, flambeau.complex128, flambeau.int64):
        for sample in [*battery.samples(name, dtype), *([telling[name]] if name in telling else [])]:
            before = answer(name, sample)
            for other in replaced(sample, argument, position, default, kind):
                tried = True
                if answer(name, other) != before:
                    return False
    return tried


@pytest.mark.parametrize("name", [n for n in battery.with_samples("arguments") if OPS[n].alternatives is None])
def test_every_argument_counts(name):
    ignored = {argument for argument, *rest in arguments(name) if is_ignored(name, argument, *rest)}
    assert ignored == UNSEEN.get(name, set())
