"""What operators and modules make on the way lies on their tensors' device, whatever the default device is."""

import pytest

import flambeau as fb
from flambeau import nn
from flambeau.nn import functional as F

from . import numbers

pytestmark = pytest.mark.usefixtures("own_kernels")

TABLE = fb.arange(15.0).view(5, 3)
#: calls that make tensors of their own
CALLS = {
    "rows of bags": lambda on: F.embedding_bag(on(fb.tensor([[0, 1], [2, 2]])), on(TABLE), mode="max"),
    "bags": lambda on: F.embedding_bag(on(fb.tensor([0, 1, 2])), on(TABLE), on(fb.tensor([0, 2])), mode="mean"),
    "bags by weight": lambda on: fb.embedding_bag(on(TABLE), on(fb.tensor([0, 1, 2])), on(fb.tensor([0, 2]))),
    "segments": lambda on: fb.segment_reduce(on(TABLE), "max", lengths=on(fb.tensor([2, 0, 3])), initial=1),
    "sums of segments": lambda on: fb.segment_reduce(on(TABLE), "sum", lengths=on(fb.tensor([2, 0, 3]))),
    "the bucket of a number": lambda on: fb.bucketize(4, on(fb.tensor([1, 3, 5]))),
    "the place of a number": lambda on: fb.searchsorted(on(fb.tensor([1, 3, 5])), 4),
}


@pytest.mark.parametrize("name", CALLS)
def test_calls(name):
    found, expected = (CALLS[name](on) for on in (lambda t: t.cuda(), lambda t: t))
    for mine, cpu in zip(*(r if isinstance(r, tuple) else (r,) for r in (found, expected)), strict=True):
        assert mine.is_cuda and mine.dtype == cpu.dtype and numbers.same(mine, cpu, 1e-6)


@pytest.mark.parametrize("sorted_", (False, True))
def test_sequences_are_packed_on_their_device(sorted_):
    x, lengths = fb.randn(4, 3, 2), fb.tensor([4, 3, 1] if sorted_ else [1, 4, 3])
    packed = nn.utils.rnn.pack_padded_sequence(x.cuda(), lengths, enforce_sorted=sorted_)
    assert packed.data.is_cuda and packed.batch_sizes.device.type == "cpu"
    back, found = nn.utils.rnn.pad_packed_sequence(nn.GRU(2, 2, device="cuda")(packed)[0])
    assert back.is_cuda and found.device.type == "cpu" and found.equal(lengths) and back.shape == (4, 3, 2)
    moved = nn.utils.rnn.pack_padded_sequence(x, lengths, enforce_sorted=sorted_).to("cuda")
    assert moved.data.equal(packed.data)
    assert numbers.same(nn.utils.rnn.pad_packed_sequence(moved)[0],
                        nn.utils.rnn.pad_packed_sequence(moved.cpu())[0], 0)


def test_labels_of_ctc_loss_may_lie_on_the_cpu():
    x, labels = fb.randn(4, 1, 6).log_softmax(2), fb.tensor([[1, 2]], dtype=fb.int32)
    assert numbers.same(F.ctc_loss(x.cuda(), labels, [4], [2]), F.ctc_loss(x, labels, [4], [2]), 1e-5)


@pytest.mark.parametrize("cell", (nn.RNNCell, nn.GRUCell, nn.LSTMCell))
def test_cells_of_one_sample_without_a_state(cell):
    one = cell(3, 4)
    x = fb.ones(3)
    expected = one(x)
    found = one.to("cuda")(x.cuda())
    for mine, cpu in zip(*(r if isinstance(r, tuple) else (r,) for r in (found, expected)), strict=True):
        assert mine.is_cuda and numbers.same(mine, cpu, 1e-5)


def test_a_layer_to_no_features_passes_zeros_back():
    fb.full((64,), 7.0, device="cuda")  # what the result's memory holds otherwise
    x = fb.ones(8, 8, device="cuda", requires_grad=True)
    F.linear(x, fb.ones(0, 8, device="cuda")).sum().backward()
    assert not x.grad.any()


def test_wishart_is_drawn_on_its_parameters_device():
    drawn = fb.distributions.Wishart(fb.tensor(4.0, device="cuda"), fb.eye(3, device="cuda")).rsample((2,))
    assert drawn.is_cuda and drawn.shape == (2, 3, 3)
