"""Averaged weights, SWALR, Adafactor and Muon: numbers of PyTorch 2.13."""

import pytest

import flambeau
from flambeau.optim import swa_utils


def _after(make, steps=6):
    a = (flambeau.arange(6.0).reshape(2, 3) / 5 - 0.4).requires_grad_()
    b = (flambeau.arange(3.0) / 4 + 0.1).requires_grad_()
    optimizer = make([a, b])
    for k in range(steps):
        optimizer.zero_grad()
        ((a * a * (k + 1)).sum() + (a.sum(0) * b).sum() + (b**3).sum()).backward()
        optimizer.step()
    return [round(v, 5) for v in (*a.flatten().tolist(), *b.tolist())]


@pytest.mark.parametrize("options, expected", [
    ({}, [-0.36146, -0.1882, -0.00675, 0.18927, 0.38029, 0.57991, 0.12274, 0.32653, 0.57638]),
    ({"lr": 0.1}, [-0.08039, -0.08509, -0.0441, 0.10102, 0.24501, 0.44014, 0.12413, 0.17387, 0.4143]),
    ({"lr": 0.1, "weight_decay": 0.1}, [-0.07366, -0.07905, -0.04175, 0.09412, 0.22927, 0.4129, 0.11914,
     0.16485, 0.39134]),
    ({"eps": (0.001, 0.01)}, [-0.36146, -0.1882, -0.00675, 0.18927, 0.38029, 0.57991, 0.12274, 0.32653,
     0.57638]),
    ({"d": 2.0, "beta2_decay": -0.5}, [-0.35186, -0.1849, -0.00826, 0.18652, 0.37513, 0.57449, 0.12302,
     0.32638, 0.57629]),
    ({"maximize": True}, [-0.44004, -0.21195, 0.00735, 0.21098, 0.42104, 0.62136, 0.07488, 0.37463, 0.62448]),
])
def test_adafactor(options, expected):
    assert _after(lambda params: flambeau.optim.Adafactor(params, **options)) == pytest.approx(expected, abs=2e-5)


@pytest.mark.parametrize("options, expected", [
    ({}, [-0.4, -0.2, -0.0, 0.2, 0.4, 0.6, -0.4, -0.2, 0.0, 0.2, 0.4, 0.6, 0.8, 1.0]),
    ({"lr": 0.1}, [-0.07, -0.1, -0.12, 0.19, 0.25, 0.31, -0.74, -0.02, 0.03, 0.16, 0.39, 0.42, 0.58, 0.63]),
    ({"lr": 0.1, "nesterov": False, "weight_decay": 0.0}, [-0.05, -0.1, -0.14, 0.2, 0.26, 0.32, -0.79, -0.0,
     0.04, 0.16, 0.41, 0.43, 0.61, 0.67]),
    ({"lr": 0.1, "adjust_lr_fn": "match_rms_adamw"}, [-0.26, -0.16, -0.05, 0.2, 0.34, 0.48, -0.48, -0.15,
     0.01, 0.18, 0.4, 0.53, 0.71, 0.87]),
])
def test_muon(options, expected):
    a = (flambeau.arange(6.0).reshape(2, 3) / 5 - 0.4).requires_grad_()
    c = (flambeau.arange(8.0).reshape(4, 2) / 5 - 0.4).requires_grad_()
    optimizer = flambeau.optim.Muon([a, c], **options)
    for k in range(4):
        optimizer.zero_grad()
        ((a * a * (k + 1)).sum() + (c**3).sum()).backward()
        optimizer.step()
    found = [*a.flatten().tolist(), *c.flatten().tolist()]
    assert found == pytest.approx(expected, abs=0.03)  # its products are bfloat16


def test_muon_refuses_vectors():
    with pytest.raises(ValueError, match="parameters must have 2 dimensions"):
        flambeau.optim.Muon([flambeau.ones(2, requires_grad=True)])


@pytest.mark.parametrize("strategy, epochs, expected", [
    ("cos", 0, [0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1]),
    ("cos", 4, [0.868198, 0.55, 0.231802, 0.1, 0.1, 0.1, 0.1]),
    ("linear", 0, [0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1]),
    ("linear", 4, [0.775, 0.55, 0.325, 0.1, 0.1, 0.1, 0.1]),
])
def test_swalr(strategy, epochs, expected):
    optimizer = flambeau.optim.SGD([flambeau.zeros(1, requires_grad=True)], lr=1.0)
    schedule = swa_utils.SWALR(optimizer, 0.1, anneal_epochs=epochs, anneal_strategy=strategy)
    rates = []
    for _ in range(7):
        optimizer.step()
        schedule.step()
        rates.append(round(schedule.get_last_lr()[0], 6))
    assert rates == expected


@pytest.mark.parametrize("use_buffers", [False, True])
def test_averaged_model(use_buffers):
    model = flambeau.nn.Sequential(flambeau.nn.Linear(2, 2), flambeau.nn.BatchNorm1d(2))
    for p in model.parameters():
        flambeau.nn.init.constant_(p, 0.5)
    mean = swa_utils.AveragedModel(model, use_buffers=use_buffers)
    counts = []
    for k in range(3):
        model(flambeau.arange(6.0).reshape(3, 2) * k)
        mean.update_parameters(model)
        counts.append(model[1].num_batches_tracked.item())
        model[0].weight.data.add_(1)
    assert flambeau.allclose(mean.module[0].weight, flambeau.full((2, 2), 1.5))
    assert mean.n_averaged.item() == 3 and mean.module[1].num_batches_tracked.item() == (1 if use_buffers else 3)
    assert mean(flambeau.ones(3, 2)).shape == (3, 2)
    ema = swa_utils.AveragedModel(model, multi_avg_fn=swa_utils.get_ema_multi_avg_fn(0.9))
    ema.update_parameters(model)
    before = ema.module[0].weight.clone()
    model[0].weight.data.add_(1)
    ema.update_parameters(model)
    assert flambeau.allclose(ema.module[0].weight, before + 0.1)
    with pytest.raises(ValueError):
        swa_utils.get_ema_avg_fn(2.0)


def test_update_bn():
    layer = flambeau.nn.BatchNorm1d(2)
    swa_utils.update_bn([flambeau.arange(6.0).reshape(3, 2), (flambeau.full((3, 2), 2.0), 0)], layer)
    assert layer.running_mean.tolist() == [2, 2.5] and layer.momentum == 0.1
    assert flambeau.allclose(layer.running_var, flambeau.tensor([2.0, 2.0]))
