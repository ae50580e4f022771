"""Schedules: PyTorch's rates and momenta, resuming, order of calls, errors."""

import copy
import json
import warnings

import pytest

import flambeau
from flambeau.optim import lr_scheduler

from .scenarios import GOLDEN, SCHEDULES, plateau_run, schedule_run

EXPECTED = json.loads(GOLDEN.read_text())


def optimizer(lr=0.1, **options):
    return flambeau.optim.SGD([flambeau.zeros(1, requires_grad=True)], lr=lr, momentum=0.9, **options)


@pytest.mark.parametrize("name", SCHEDULES)
def test_golden_rates_of_pytorch(name):
    assert schedule_run(flambeau, name) == EXPECTED["schedules"][name]


def test_plateau():
    assert plateau_run(flambeau) == EXPECTED["plateau"]


@pytest.mark.parametrize("name", [n for n in SCHEDULES if not n.startswith(("LambdaLR", "Multiplicative"))])
def test_resuming_continues_exactly(name):
    def make():
        opt = flambeau.optim.SGD([{"params": [flambeau.zeros(1, requires_grad=True)], "lr": 0.1},
                                  {"params": [flambeau.zeros(1, requires_grad=True)], "lr": 0.5}], momentum=0.9)
        return opt, SCHEDULES[name](opt, lr_scheduler)

    opt, schedule = make()
    rates, saved = [], None
    for k in range(14):
        if k == 6:
            saved = copy.deepcopy((opt.state_dict(), schedule.state_dict()))
        opt.step()
        schedule.step()
        rates.append(schedule.get_last_lr())
    opt, schedule = make()
    opt.load_state_dict(saved[0])
    schedule.load_state_dict(saved[1])
    for k in range(6, 14):
        opt.step()
        schedule.step()
        assert schedule.get_last_lr() == rates[k]


@pytest.mark.parametrize("name", ["StepLR", "MultiStepLR", "ExponentialLR", "LinearLR", "PolynomialLR", "ConstantLR",
                                  "CosineAnnealingLR"])
def test_closed_form_agrees(name):
    opt, other = optimizer(), optimizer()
    schedule = SCHEDULES[name](opt, lr_scheduler)
    closed = SCHEDULES[name](other, lr_scheduler)
    for k in range(1, 12):
        opt.step()
        other.step()
        schedule.step()
        with pytest.warns(UserWarning, match="epoch parameter"):
            closed.step(k)
        assert closed.get_last_lr() == pytest.approx(schedule.get_last_lr(), rel=1e-9, abs=1e-12)


def test_warm_restarts_begun_at_a_later_epoch():
    opt = optimizer()
    for group in opt.param_groups:
        group["initial_lr"] = group["lr"]
    schedule = lr_scheduler.CosineAnnealingWarmRestarts(opt, 3, 2, last_epoch=7)
    assert (schedule.T_cur, schedule.T_i) == (2, 6)  # PyTorch's: one restart at most


def test_wrong_order_warns():
    opt = optimizer()
    schedule = lr_scheduler.StepLR(opt, 3)
    with pytest.warns(UserWarning, match="before `optimizer.step"):
        schedule.step()
    opt = optimizer()
    schedule = lr_scheduler.StepLR(opt, 3)
    opt.step()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        schedule.step()
    with pytest.warns(UserWarning, match="get_last_lr"):
        schedule.get_lr()


def test_adam_betas_cycle():
    opt = flambeau.optim.Adam([flambeau.zeros(1, requires_grad=True)], lr=0.1)
    schedule = lr_scheduler.OneCycleLR(opt, 0.1, 10)
    assert opt.param_groups[0]["betas"] == (0.95, 0.999)
    opt.step()
    schedule.step()
    opt.step()
    schedule.step()
    assert opt.param_groups[0]["betas"] == (0.85, 0.999)


@pytest.mark.parametrize(("make", "error", "text"), [
    (lambda o: lr_scheduler.StepLR("no", 3), TypeError, "Optimizer"),
    (lambda o: lr_scheduler.StepLR(o, 3, last_epoch=4), KeyError, "initial_lr"),
    (lambda o: lr_scheduler.LambdaLR(o, [abs, abs]), ValueError, "2 lr_lambdas were given for 1"),
    (lambda o: lr_scheduler.OneCycleLR(o, 0.1), ValueError, "total_steps"),
    (lambda o: lr_scheduler.OneCycleLR(o, 0.1, 10, pct_start=2.0), ValueError, "pct_start"),
    (lambda o: lr_scheduler.OneCycleLR(o, [0.1, 0.2], 10), ValueError, "one value per parameter group is expected"),
    (lambda o: lr_scheduler.OneCycleLR(o, 0.1, 10, anneal_strategy="x"), ValueError, "anneal_strategy"),
    (lambda o: lr_scheduler.CosineAnnealingWarmRestarts(o, 0), ValueError, "T_0"),
    (lambda o: lr_scheduler.CyclicLR(o, 0.1, 0.2, mode="x"), ValueError, "mode"),
    (lambda o: lr_scheduler.ReduceLROnPlateau(o, factor=1.5), ValueError, "factor must be below"),
    (lambda o: lr_scheduler.SequentialLR(o, [lr_scheduler.StepLR(o, 1)], [1]), ValueError, "milestone"),
    (lambda o: lr_scheduler.ChainedScheduler([]), ValueError, "no scheduler is given to chain"),
    (lambda o: lr_scheduler.LinearLR(o, start_factor=0), ValueError, "start_factor must be above"),
])
def test_bad_arguments(make, error, text):
    with pytest.raises(error, match=text):
        make(optimizer())


def test_too_many_steps_of_one_cycle():
    opt = optimizer()
    schedule = lr_scheduler.OneCycleLR(opt, 0.1, 3)
    for _ in range(3):
        opt.step()
        schedule.step()
    opt.step()
    with pytest.raises(ValueError, match="lies past the end of the schedule,"):
        schedule.step()


@pytest.mark.parity
def test_parity():
    torch = pytest.importorskip("torch")
    for name in SCHEDULES:
        assert schedule_run(flambeau, name) == schedule_run(torch, name)
