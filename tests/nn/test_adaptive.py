"""AdaptiveLogSoftmaxWithLoss: probabilities that sum to one, and what its two ways of computing them agree on."""

import pytest

import flambeau
from flambeau import nn


def layer(**options):
    flambeau.manual_seed(0)
    return nn.AdaptiveLogSoftmaxWithLoss(16, 20, [5, 10, 15], div_value=2.0, **options)


def test_forward_gives_what_log_prob_gives():
    m, x = layer(head_bias=True), flambeau.randn(20, 16)
    target = flambeau.arange(20)
    output, loss = m(x, target)
    every = m.log_prob(x)
    assert flambeau.allclose(every.exp().sum(1), flambeau.ones(20), atol=1e-5)
    assert flambeau.allclose(output, every.gather(1, target.unsqueeze(1)).squeeze(1), atol=1e-5)
    assert flambeau.allclose(loss, -output.mean())


def test_predict_is_the_likeliest_class():
    m, x = layer(), flambeau.randn(40, 16) * 5
    assert flambeau.equal(m.predict(x), m.log_prob(x).argmax(1))


def test_state_and_one_row():
    m = layer()
    assert list(m.state_dict()) == ["head.weight", *[f"tail.{k}.{i}.weight" for k in range(3) for i in range(2)]]
    assert [tuple(p.shape) for p in m.parameters()] == [(8, 16), (8, 16), (5, 8), (4, 16), (5, 4), (2, 16), (5, 2)]
    x = flambeau.randn(16)
    assert m(x, flambeau.tensor(11)).output.shape == ()
    assert flambeau.allclose(m(x, flambeau.tensor(11)).output, m(x[None], flambeau.tensor([11])).output[0])


@pytest.mark.parametrize("cutoffs", [[], [5, 5], [0, 5], [5, 20], [10, 5], [2.5]])
def test_wrong_cutoffs(cutoffs):
    with pytest.raises(ValueError, match="cutoffs"):
        nn.AdaptiveLogSoftmaxWithLoss(16, 20, cutoffs)


def test_wrong_targets():
    m = layer()
    for x, y, text in ((flambeau.zeros(2, 16), flambeau.tensor([1, 20]), "target holds classes"),
                       (flambeau.zeros(2, 16), flambeau.tensor([1]), "samples and target"),
                       (flambeau.zeros(16), flambeau.tensor([1]), "goes with input of 2"),
                       (flambeau.zeros(2, 16), flambeau.zeros(2, 2).long(), "one class per sample")):  # fmt: skip
        with pytest.raises(RuntimeError, match=text):
            m(x, y)
