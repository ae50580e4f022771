"""The model of benchmarks/projection.py: what must come out where exchanging costs nothing, and where it does."""

import pytest
from benchmarks.projection import (
    MICROBATCHES,
    SIZES,
    Cluster,
    Layer,
    ddp,
    efficiencies,
    fsdp,
    one_forward_one_backward,
)

LAYERS = [Layer(0.01, 0.02, 20 << 20, 1 << 20) for _ in range(8)]
FREE = Cluster(0.0, 0.0, alpha_across=0.0, beta_across=0.0)


def test_free_exchange_costs_nothing():
    assert ddp(LAYERS, FREE, 4096) == fsdp(LAYERS, FREE, 4096) == pytest.approx(0.24)
    shares = efficiencies(LAYERS, FREE, 64, 0.0)
    assert shares["DDP"] == shares["FSDP"] == pytest.approx(1) and shares["pipeline"] == pytest.approx(
        MICROBATCHES / (MICROBATCHES + 7))
    assert one_forward_one_backward([(1.0, 2.0)] * 4, 0.0, 6) == 3 * (6 + 3)
    assert one_forward_one_backward([(1.0, 2.0)] * 4, 0.0, 6, cores=1) == 3 * 6 * 4


def test_what_cannot_be_hidden_is_paid():
    slow = Cluster(0.0, 1e-6)  # a bucket takes longer than all of backward
    assert ddp(LAYERS, slow, 2) == pytest.approx(0.08 + 2 * 0.02 + 8 * 20 * 1.048576)
    found = [efficiencies(LAYERS, Cluster(5e-6, 1e-10), ranks, 0.02) for ranks in SIZES]
    for kind in found[0]:
        shares = [each[kind] for each in found]
        assert shares == sorted(shares, reverse=True) and 0.3 < shares[-1] < shares[0] < 1
