"""vmap of every operator equals the loop, forward and through its derivative rules; generated over the op table."""

import pytest

import flambeau
from flambeau.func import vjp, vmap

from ..ops import battery
from ..ops.battery import OPS, tensors

#: what vmap cannot express: shapes that depend on values, memory that is nobody's, numbers read from tensors
NO_BATCH = {
    "nonzero", "nonzero_rows", "nonzero_numpy", "argwhere", "masked_select", "unique", "_unique", "unique_consecutive",
    "bincount", "repeat_interleave", "empty_like", "new_empty", "new_empty_strided", "histc", "one_hot", "combinations",
    "gru.data", "lstm.data", "rnn_relu.data", "rnn_tanh.data",
    "cartesian_prod", "histogram", "is_nonzero", "item", "equal", "allclose", "is_same_size",
}
FEW = 3  # samples of each operator in the default run
LARGEST = 2000


def pairs(name, seeds=(0, 1)):
    """Samples of the same call with other numbers: the elements of a batch."""
    columns = [battery.samples(name, flambeau.float64, seed=s) for s in seeds]
    for row in zip(*columns, strict=True):
        leaves = [leaves_of(s) for s in row]
        if not leaves[0] or sum(t.numel() for t in leaves[0]) > LARGEST:
            continue
        if all([(t.shape, t.dtype) for t in one] == [(t.shape, t.dtype) for t in leaves[0]] for one in leaves):
            yield row[0], leaves


def leaves_of(sample):
    found = []
    battery.map_tensors(found.append, sample)
    return found


def function_of(name, sample):
    """The call as a function of its tensors."""
    def call(*values):
        given = iter(values)
        replaced = battery.map_tensors(lambda t: next(given), sample)
        if name.endswith("_"):
            replaced = battery.map_tensors(lambda t: t.clone(), replaced)
        return tuple(tensors(OPS[name](*replaced.args, **replaced.kwargs)))
    return call


def loop(call, columns, in_dims):
    """The stacked results of one call per element."""
    rows = []
    for k in range(2):
        rows.append(call(*[c[k].clone() if d == 0 else c for c, d in zip(columns, in_dims, strict=True)]))
    return tuple(flambeau.stack(list(each)) for each in zip(*rows, strict=True))


def batches(leaves):
    """The ways to batch: all tensors, and (of several) each alone."""
    count = len(leaves[0])
    stacked = [flambeau.stack(list(each)) for each in zip(*leaves, strict=True)]
    yield stacked, (0,) * count
    if 1 < count <= 4:
        for k in range(count):
            yield [s if j == k else leaves[0][j] for j, s in enumerate(stacked)], tuple(
                0 if j == k else None for j in range(count))


def close(a, b):
    flambeau.testing.assert_close(a, b, rtol=1e-9, atol=1e-10, equal_nan=True)


def names(law):
    return [n for n in battery.with_samples(law) if n.rstrip("_") not in NO_BATCH and not battery.is_random(n)]


def check(name, few=None):
    checked = 0
    for sample, leaves in list(pairs(name))[:few]:
        call = function_of(name, sample)
        for columns, in_dims in batches(leaves):
            if name.endswith("_") and in_dims[0] is None:
                continue
            expected = loop(call, columns, in_dims)
            if not expected:
                continue
            close(vmap(call, in_dims=in_dims)(*columns), expected)
            checked += 1
    battery.compared(checked, "no sample that can be batched")


def floating(t):
    return t.is_floating_point() or t.is_complex()


def check_backward(name, few=None):
    """vmap over the pull-back: per-sample gradients, by the batched rules."""
    checked = 0
    for sample, leaves in list(pairs(name))[:few]:
        call = function_of(name, sample)
        wanted = [k for k, t in enumerate(leaves[0]) if floating(t)]
        if not wanted or not any(map(floating, call(*leaves[0]))):
            continue

        def gradients(*values, call=call, wanted=wanted):
            def of(*inputs):
                full = list(values)
                for k, x in zip(wanted, inputs, strict=True):
                    full[k] = x
                return tuple(filter(floating, call(*full)))
            outputs, pull = vjp(of, *[values[k] for k in wanted])
            return pull(tuple((y.detach() * 0.5 + 1) for y in outputs))

        columns, in_dims = next(batches(leaves))
        expected = loop(gradients, columns, in_dims)
        close(vmap(gradients, in_dims=in_dims)(*columns), expected)
        checked += 1
    battery.compared(checked, "nothing to differentiate")


@pytest.mark.parametrize("name", names("vmap"))
def test_vmap_equals_the_loop(name):
    check(name, FEW)


#: derivatives that nobody defines, by one of the arguments
UNDEFINED = ("igamma", "igammac", "special_zeta")


def differentiated():
    return [n for n in names("gradcheck") if battery.skip_reason(n, "vmap") is None and n not in UNDEFINED]


@pytest.mark.parametrize("name", differentiated())
def test_vmap_of_backward(name):
    check_backward(name, FEW)


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", names("vmap"))
def test_vmap_of_every_sample(name):
    check(name)


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", differentiated())
def test_vmap_of_backward_of_every_sample(name):
    check_backward(name)
