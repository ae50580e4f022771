"""Calls that are put off: described without memory, kept with their arguments, run when somebody looks; and the same
gate before a layout of its own."""

import copy
import gc
import pickle

import pytest

import flambeau

from ..ops import battery
from . import seams

pytestmark = pytest.mark.skipif(seams.COMPILER is None, reason="no C++ compiler")


@pytest.fixture
def recorder():
    return seams.load()


def made(recorder, f):
    """f()'s result, recorded."""
    with recorder.recording():
        return f()


# --- describing --------------------------------------------------------------------------------------------------

def test_describing_allocates_nothing(recorder):
    a, b = flambeau.randn(3, 4), flambeau.randn(4)
    calls = [lambda: a + b, lambda: a.exp(), lambda: a @ b, lambda: a.sum(1), lambda: a.sort(), lambda: a.t().clone(),
             lambda: flambeau.cat([a, a]), lambda: flambeau.softmax(a, 0), lambda: flambeau.zeros(1000)]
    with recorder.recording():
        for k, f in enumerate(calls):
            before = flambeau.memory.stats()["allocations"]
            result = f()
            assert flambeau.memory.stats()["allocations"] == before, k
            assert all(recorder.pending(t) for t in battery.tensors(result)), k


@pytest.mark.parametrize("name", battery.with_samples("seams"))
def test_a_description_is_what_the_call_makes(recorder, name):
    """Shapes, dtypes and strides of every sample, before anything runs."""
    for sample in battery.samples(name, flambeau.float32):
        expected = seams.outcome(lambda s=sample: battery.tensors(battery.run(name, s)))
        with recorder.recording():
            found = seams.outcome(lambda s=sample: battery.tensors(battery.run(name, s)))
            if expected[0] == "error":
                continue
            described = [(t.shape, t.dtype, t.stride(), t.storage_offset()) for t in found[1]]
        assert described == [(t.shape, t.dtype, t.stride(), t.storage_offset()) for t in expected[1]], sample


def test_errors_of_shapes_come_at_once_and_those_of_values_when_looked_at(recorder):
    with recorder.recording():
        with pytest.raises(RuntimeError, match="broadcast"):
            flambeau.ones(2) + flambeau.ones(3)
        with pytest.raises(flambeau.linalg.LinAlgError):
            flambeau.linalg.cholesky(-flambeau.eye(2))  # it asks for what its decomposition reports
        x = flambeau.ones(2, dtype=flambeau.int64) // flambeau.zeros(2, dtype=flambeau.int64)
    for _ in range(2):  # and they stay
        with pytest.raises(RuntimeError, match="ZeroDivisionError"):
            x.tolist()


# --- the gate ----------------------------------------------------------------------------------------------------

LOOKS = {
    "item": lambda t: t[0, 0].item(), "tolist": lambda t: t.tolist(), "numpy": lambda t: t.detach().numpy(),
    "repr": repr, "float": lambda t: float(t[0, 0]), "bool": lambda t: bool(t[0, 0] > 0),
    "data_ptr": lambda t: t.data_ptr(), "storage": lambda t: t.untyped_storage().data_ptr(),
    "storage bytes": lambda t: list(t.untyped_storage())[:1], "dlpack": flambeau.utils.dlpack.to_dlpack,
    "memoryview": memoryview, "data": lambda t: t.data, "deepcopy": copy.deepcopy, "pickle": pickle.dumps,
    "index": lambda t: [1, 2, 3][(t[0, 0] * 0).int()], "iterate": lambda t: [float(x) for x in t[0]],
    "resize": lambda t: t.resize_(1), "write": lambda t: t.fill_(2), "write a row": lambda t: t[0].zero_(),
    "equal": lambda t: flambeau.equal(t, t), "nonzero": lambda t: t.nonzero(),
    "tensor": lambda t: flambeau.tensor([t[0, 0]]),
    "an operator": lambda t: t + 1, "set": lambda t: flambeau.empty(0).set_(t), "data of another":
    lambda t: setattr(flambeau.empty(2, 2), "data", t), "an index": lambda t: flambeau.arange(4)[t[0].long()],
    "a kept view": lambda t: t.t().tolist(), "out=": lambda t: flambeau.add(flambeau.ones(2, 2), 1, out=t),
    "numpy function": lambda t: __import__("numpy").asarray(t).sum(),
}


@pytest.mark.parametrize("look", LOOKS)
def test_whoever_looks_finds_values(recorder, look):
    t = made(recorder, lambda: flambeau.ones(2, 2) * 3)
    plain = flambeau.ones(2, 2) * 3
    assert recorder.pending(t)
    found, expected = LOOKS[look](t), LOOKS[look](plain)
    assert not recorder.pending(t)
    assert t.tolist() == plain.tolist()
    if look in ("item", "tolist", "repr", "float", "bool", "index", "iterate", "nonzero", "an operator"):
        assert str(found) == str(expected)


def test_metadata_is_no_look(recorder):
    t = made(recorder, lambda: flambeau.ones(2, 3) * 3)
    view = t.t()[1:]
    assert (t.shape, t.stride(), t.dtype, t.device.type, t.numel(), view.shape, view.storage_offset(), view.stride(),
            t.is_contiguous(), view._base is t, t.requires_grad) == \
        ((2, 3), (3, 1), flambeau.float32, "cpu", 6, (2, 2), 1, (1, 3), True, True, False)
    assert recorder.pending(t) and recorder.pending(view)


def test_views_share_what_is_made(recorder):
    t = made(recorder, lambda: flambeau.arange(6.0) + 1)
    views = [t[2:], t.reshape(2, 3), t.view(3, 2)[1], t.detach(), t.unfold(0, 2, 2)]
    assert views[0].tolist() == [3, 4, 5, 6]
    t[3] = 0
    assert views[1].tolist() == [[1, 2, 3], [0, 5, 6]] and views[2].tolist() == [3, 0]
    assert views[3].tolist() == [1, 2, 3, 0, 5, 6] and views[4].tolist() == [[1, 2], [3, 0], [5, 6]]
    assert {v.data_ptr() - 4 * v.storage_offset() for v in views} == {t.data_ptr()}


# --- recording ---------------------------------------------------------------------------------------------------

def test_arguments_outlive_the_frame(recorder):
    def call():
        a, sizes = flambeau.full((2, 2), 3.0), [4, 1]
        return flambeau.cat([a, a], 0).reshape(2, 2, 2).sum([0, 2]).reshape(sizes[1], 2), a.float().quantile(0.5)

    total, middle = made(recorder, call)
    gc.collect()
    junk = [flambeau.zeros(2, 2) for _ in range(50)]  # takes the memory that is free
    assert (total.tolist(), middle.item(), len(junk)) == ([[12, 12]], 3, 50)


def test_what_nobody_keeps_never_runs(recorder):
    before = recorder.book()
    t = made(recorder, lambda: (flambeau.ones(3).exp(), flambeau.ones(3) * 2)[1])
    assert t.tolist() == [2, 2, 2]
    after = recorder.book()
    assert after["dropped"] - before["dropped"] >= 1
    assert after["recorded"] - before["recorded"] == 4


def test_writes_come_after_the_reads_recorded_before_them(recorder):
    x = flambeau.ones(3)
    with recorder.recording():
        y = x * 2
        x.add_(10)
        z = x * 2
        flambeau.mul(x, 3, out=x)
        w = x[1:] + 0
        x[0] = -1
    assert (y.tolist(), z.tolist(), w.tolist(), x.tolist()) == ([2] * 3, [22] * 3, [33] * 2, [-1, 33, 33])


def test_an_argument_written_behind_the_recorders_back_is_an_error(recorder):
    x = flambeau.ones(3)
    y = made(recorder, lambda: x * 2)
    x.add_(1)
    with pytest.raises(RuntimeError, match="written to after the call was recorded"):
        y.tolist()


def test_draws_keep_their_order(recorder):
    def program():
        flambeau.manual_seed(7)
        a = flambeau.randn(3)
        b = a * 2
        return b + flambeau.rand(3), flambeau.nn.functional.dropout(a, 0.5)

    expected = program()
    for found, value in zip(made(recorder, program), expected, strict=True):
        assert flambeau.equal(found, value)


def test_a_training_step_is_the_same(recorder):
    def train():
        flambeau.manual_seed(0)
        net = flambeau.nn.Sequential(flambeau.nn.Linear(4, 8), flambeau.nn.BatchNorm1d(8), flambeau.nn.GELU(),
                                     flambeau.nn.Linear(8, 2))
        step = flambeau.optim.Adam(net.parameters(), lr=0.1)
        for _ in range(3):
            step.zero_grad()
            loss = flambeau.nn.functional.cross_entropy(net(flambeau.randn(5, 4)), flambeau.tensor([0, 1, 0, 1, 1]))
            loss.backward()
            step.step()
        return [loss, *net.parameters(), *net.buffers()]

    for found, value in zip(made(recorder, train), train(), strict=True):
        assert flambeau.equal(found, value)


def test_transforms_and_tensor_subclasses_see_the_call_first(recorder):
    x = flambeau.randn(3, 4)
    with recorder.recording():
        batched = flambeau.func.vmap(lambda r: (r * 2).sum())(x)
        slope = flambeau.func.grad(lambda t: (t ** 2).sum())(x)
    assert recorder.pending(batched)
    assert flambeau.allclose(batched, (x * 2).sum(1)) and flambeau.allclose(slope, 2 * x)


def test_samples_give_recorded_what_they_give_at_once():
    tally = seams.own_samples(modes=("recorder",))
    assert tally.total["recorder"] > 2300
    assert tally.share("recorder") >= 0.99, f"{tally}\n{tally.differ[:20]}"


@pytest.mark.parity
def test_pytorchs_samples_give_recorded_what_they_give_at_once():
    tally = seams.torch_samples(seams.torch_python(), modes=("recorder",))
    assert tally.total["recorder"] > 21_000
    assert tally.share("recorder") >= 0.99, f"{tally}\n{tally.differ[:50]}"


# --- an opaque layout --------------------------------------------------------------------------------------------

@pytest.fixture
def blocked_mv(recorder):
    """An operator that reads blocked weights as they are."""
    from flambeau.ops import kinds
    name = "seams_blocked_mv"
    if name not in kinds.OPS:
        kinds.primitive(f"{name}(Tensor weight, Tensor vector) -> Tensor", doc="A product with a blocked weight.",
                        namespace="seams")
    yield kinds.OPS[name]
    kinds.OPS.pop(name, None)
    kinds.FACTS.pop(name, None)


def counted(recorder):
    return recorder.library.seams_read_blocked(), recorder.library.seams_restored()


def test_an_operator_that_knows_the_layout_reads_it_as_it_is(recorder, blocked_mv):
    plain, x = flambeau.randn(8, 5), flambeau.randn(5)
    weight = recorder.library.seams_block(plain)
    assert recorder.pending(weight) and (weight.shape, weight.stride()) == ((8, 5), (5, 1))
    read, restored = counted(recorder)
    for _ in range(3):
        assert flambeau.allclose(blocked_mv(weight, x), plain @ x)
    assert recorder.pending(weight)
    assert counted(recorder) == (read + 3, restored)


def test_everybody_else_gets_the_plain_form(recorder, blocked_mv):
    plain, x = flambeau.randn(8, 5), flambeau.randn(5)
    weight = recorder.library.seams_block(plain)
    view = weight.t()[1:]
    read, restored = counted(recorder)
    assert flambeau.equal(weight + 0, plain)
    assert not recorder.pending(weight)
    assert flambeau.equal(view, plain.t()[1:])
    assert flambeau.allclose(blocked_mv(weight, x), plain @ x)
    assert counted(recorder) == (read, restored + 1)


def test_a_view_of_a_blocked_weight_is_not_taken_for_it(recorder, blocked_mv):
    plain, x = flambeau.randn(8, 8), flambeau.randn(8)
    weight = recorder.library.seams_block(plain)
    assert flambeau.allclose(blocked_mv(weight.t().contiguous(), x), plain.t() @ x)


@pytest.mark.parametrize("look", [k for k in LOOKS if k not in ("index",)])
def test_whoever_looks_at_a_blocked_weight_finds_values(recorder, look):
    plain = flambeau.full((2, 2), 3.0)
    weight = recorder.library.seams_block(plain.clone())
    LOOKS[look](weight), LOOKS[look](plain)
    assert not recorder.pending(weight) and weight.tolist() == plain.tolist()
