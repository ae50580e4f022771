"""Runs of optimizers, schedules and loaders that any implementation of PyTorch's API can do.

`python tests/optim/scenarios.py` writes golden.json with the installed PyTorch; the tests do the same runs here.
"""

import json
import warnings
from math import sin
from pathlib import Path

GOLDEN = Path(__file__).with_name("golden.json")

OPTIMIZERS = [
    ("SGD", {"lr": 0.1}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.01}),
    ("SGD", {"lr": 0.01, "momentum": 0.9, "dampening": 0.3, "maximize": True}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True}),
    ("Adam", {"lr": 0.1}),
    ("Adam", {"betas": [0.3, 0.8], "weight_decay": 0.1}),
    ("Adam", {"amsgrad": True, "maximize": True}),
    ("AdamW", {"weight_decay": 0.3}),
    ("AdamW", {"amsgrad": True}),
    ("RMSprop", {}),
    ("RMSprop", {"momentum": 0.9, "weight_decay": 0.1}),
    ("RMSprop", {"centered": True, "momentum": 0.5, "maximize": True}),
    ("Adadelta", {"weight_decay": 0.1, "lr": 0.5}),
    ("Adagrad", {"lr_decay": 0.1, "weight_decay": 0.1, "initial_accumulator_value": 0.2}),
    ("Adamax", {"weight_decay": 0.1}),
    ("NAdam", {}),
    ("NAdam", {"weight_decay": 0.1, "decoupled_weight_decay": True}),
    ("RAdam", {"weight_decay": 0.1}),
    ("ASGD", {"t0": 3, "weight_decay": 0.1}),
    ("Rprop", {}),
]

#: every argument of every optimizer away from its default, one at a time
ARGUMENTS = {
    "SGD": {"lr": 0.2, "momentum": 0.5, "weight_decay": 0.2, "maximize": True, "foreach": [True, False],
            "fused": [True, False]},
    "Adam": {"lr": 0.2, "betas": [(0.5, 0.7)], "eps": 0.1, "weight_decay": 0.2, "amsgrad": True,
             "foreach": [True, False], "maximize": True, "fused": [True, False], "decoupled_weight_decay": True},
    "AdamW": {"lr": 0.2, "betas": [(0.5, 0.7)], "eps": 0.1, "weight_decay": 0.2, "amsgrad": True,
              "foreach": [True, False], "maximize": True, "fused": [True, False]},
    "RMSprop": {"lr": 0.2, "alpha": 0.3, "eps": 0.1, "weight_decay": 0.2, "momentum": 0.5, "centered": True,
                "foreach": [True, False], "maximize": True},
    "Adadelta": {"lr": 0.2, "rho": 0.3, "eps": 0.1, "weight_decay": 0.2, "foreach": [True, False], "maximize": True},
    "Adagrad": {"lr": 0.2, "lr_decay": 0.5, "weight_decay": 0.2, "initial_accumulator_value": 0.5, "eps": 0.1,
                "foreach": [True, False], "maximize": True, "fused": [True, False]},
    "Adamax": {"lr": 0.2, "betas": [(0.5, 0.7)], "eps": 0.1, "weight_decay": 0.2, "foreach": [True, False],
               "maximize": True},
    "NAdam": {"lr": 0.2, "betas": [(0.5, 0.7)], "eps": 0.1, "weight_decay": 0.2, "momentum_decay": 0.3,
              "decoupled_weight_decay": True, "foreach": [True, False], "maximize": True},
    "RAdam": {"lr": 0.2, "betas": [(0.5, 0.7)], "eps": 0.1, "weight_decay": 0.2, "decoupled_weight_decay": True,
              "foreach": [True, False], "maximize": True},
    "ASGD": {"lr": 0.2, "lambd": 0.1, "alpha": 0.3, "t0": 2.0, "weight_decay": 0.2, "foreach": [True, False],
             "maximize": True},
    "Rprop": {"lr": 0.2, "etas": [(0.3, 1.5)], "step_sizes": [(0.01, 0.1)], "foreach": [True, False],
              "maximize": True},
    "Adafactor": {"lr": 0.2, "beta2_decay": -0.3, "eps": [(1e-3, 1e-2)], "d": 2.0, "weight_decay": 0.2,
                  "foreach": [True, False], "maximize": True},
}
MUON = {"lr": 0.2, "weight_decay": 0.0, "momentum": 0.5, "nesterov": False, "ns_coefficients": [(2.0, -1.5, 0.5)],
        "eps": 1e-3, "ns_steps": 3, "adjust_lr_fn": ["original", "match_rms_adamw"]}


def single_arguments(torch, table=ARGUMENTS):
    """(optimizer, {argument: value}) for each entry of the table, and a learning rate that is a tensor."""
    cases = []
    for name, arguments in table.items():
        for argument, values in arguments.items():
            for value in values if isinstance(values, list) else [values]:
                cases.append((name, {argument: value}))
        cases.append((name, {"lr": torch.tensor(0.0625)}))
    return [case for case in cases if case[0] != "Muon" or not hasattr(case[1].get("lr"), "dtype")]


def arguments_run(torch):
    return [optimizer_run(torch, name, options, steps=5) for name, options in single_arguments(torch)]


def muon_run(torch):
    """Two matrices, one tall and one wide; the orthogonal factor is computed in bfloat16."""
    runs = []
    for _, options in single_arguments(torch, {"Muon": MUON}):
        params = [torch.tensor([[sin(i * 3.0 + j * j) for j in range(columns)] for i in range(rows)],
                               requires_grad=True) for rows, columns in ((2, 5), (6, 2))]
        optimizer = torch.optim.Muon(params, **options)
        for t in range(3):
            for p in params:
                p.grad = p.detach() * 0.3 + (p.detach() * (t + 2)).sin()
            optimizer.step()
        runs.append([p.detach().reshape(-1).tolist() for p in params])
    return runs


#: (optimizer, options, whether PyTorch can differentiate several steps in a row and with respect to the rate)
DIFFERENTIABLE = [
    ("SGD", {"lr": 0.1}, True, True),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.1}, False, False),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True, "maximize": True}, False, False),
    ("Adam", {"lr": 0.1}, True, True),
    ("Adam", {"lr": 0.1, "amsgrad": True, "weight_decay": 0.1}, False, False),
    ("AdamW", {"lr": 0.1, "maximize": True}, True, True),
    ("RMSprop", {"lr": 0.1}, True, False),
    ("RMSprop", {"lr": 0.1, "momentum": 0.5, "centered": True, "weight_decay": 0.1}, False, False),
    ("Adadelta", {"lr": 0.5, "weight_decay": 0.1}, True, False),
    ("Adagrad", {"lr": 0.1, "lr_decay": 0.1, "weight_decay": 0.1, "initial_accumulator_value": 0.2}, True, False),
    ("Adamax", {"lr": 0.1, "weight_decay": 0.1}, False, False),
    ("NAdam", {"lr": 0.1, "weight_decay": 0.1}, True, False),
    ("NAdam", {"lr": 0.1, "weight_decay": 0.1, "decoupled_weight_decay": True}, True, False),
    ("RAdam", {"lr": 0.1, "weight_decay": 0.1}, True, True),
    ("RAdam", {"lr": 0.1, "weight_decay": 0.1, "decoupled_weight_decay": True, "betas": (0.5, 0.6)}, True, True),
    ("ASGD", {"t0": 2, "weight_decay": 0.1, "lr": 0.1}, True, False),
    ("Rprop", {"lr": 0.1}, False, False),
]


def unrolled(torch, name, options, start, gain, steps=4):
    """The parameters after some steps whose gradients depend on `start` and `gain`, with all of their history."""
    p = start.clone()
    optimizer = getattr(torch.optim, name)([p], differentiable=True, **options)
    for t in range(steps):
        p.grad = p.clone() * gain * 0.5 + (start * gain).sin() * (1 + t)
        optimizer.step()
    return p


def differentiable_run(torch, name, options, rate):
    """The loss after four steps, and its gradients with respect to start, gain and, where `rate`, the rate."""
    start = torch.tensor([[0.5, -1.0, 2.0], [3.0, 0.25, -0.75]], dtype=torch.float64, requires_grad=True)
    gain = torch.tensor(0.3, dtype=torch.float64, requires_grad=True)
    learned = [start, gain]
    if rate:
        options = {**options, "lr": torch.tensor(options["lr"], dtype=torch.float64, requires_grad=True)}
        learned.append(options["lr"])
    loss = (unrolled(torch, name, options, start, gain) ** 2).sum()
    return [x.detach().reshape(-1).tolist() for x in (loss, *torch.autograd.grad(loss, learned))]


def differentiable_runs(torch):
    return [differentiable_run(torch, name, options, rate) for name, options, chain, rate in DIFFERENTIABLE if chain]

SCHEDULES = {
    "LambdaLR": lambda o, s: s.LambdaLR(o, lambda epoch: 0.9**epoch),
    "MultiplicativeLR": lambda o, s: s.MultiplicativeLR(o, lambda epoch: 0.9),
    "StepLR": lambda o, s: s.StepLR(o, 3),
    "MultiStepLR": lambda o, s: s.MultiStepLR(o, [2, 5, 5]),
    "ConstantLR": lambda o, s: s.ConstantLR(o),
    "LinearLR": lambda o, s: s.LinearLR(o, 0.1, 0.7, 4),
    "ExponentialLR": lambda o, s: s.ExponentialLR(o, 0.9),
    "PolynomialLR": lambda o, s: s.PolynomialLR(o, 7, 1.7),
    "CosineAnnealingLR": lambda o, s: s.CosineAnnealingLR(o, 5, 0.001),
    "SequentialLR": lambda o, s: s.SequentialLR(
        o, [s.ConstantLR(o), s.StepLR(o, 2), s.CosineAnnealingLR(o, 3)], [4, 8]),
    "ChainedScheduler": lambda o, s: s.ChainedScheduler([s.ConstantLR(o), s.StepLR(o, 2), s.PolynomialLR(o)]),
    "CyclicLR": lambda o, s: s.CyclicLR(o, 0.01, 0.1, step_size_up=4),
    "CyclicLR triangular2": lambda o, s: s.CyclicLR(
        o, [0.01, 0.02], 0.1, step_size_up=2, step_size_down=3, mode="triangular2"),
    "CyclicLR exp_range": lambda o, s: s.CyclicLR(o, 0.01, 0.1, step_size_up=2, mode="exp_range", gamma=0.9),
    "CosineAnnealingWarmRestarts": lambda o, s: s.CosineAnnealingWarmRestarts(o, 3, 2, 0.001),
    "OneCycleLR": lambda o, s: s.OneCycleLR(o, 0.1, 25),
    "OneCycleLR linear": lambda o, s: s.OneCycleLR(
        o, [0.1, 0.3], epochs=5, steps_per_epoch=5, three_phase=True, anneal_strategy="linear"),
}


def optimizer_run(torch, name, options, dtype="float64", steps=8):
    """The parameters after each step; gradients are a fixed function of parameter and step."""
    dtype = getattr(torch, dtype)
    params = [torch.tensor(values, dtype=dtype, requires_grad=True)
              for values in ([[0.5, -1.0, 2.0], [3.0, 0.25, -0.75]], [1.5], [-2.0, 0.125])]
    params.append(torch.tensor(0.75, dtype=dtype, requires_grad=True))
    options = {k: tuple(v) if isinstance(v, list) else v for k, v in options.items()}
    optimizer = getattr(torch.optim, name)([{"params": params[:2]}, {"params": params[2:], "lr": 0.03}], **options)
    seen = []
    for t in range(steps):
        for k, p in enumerate(params):
            if k == 2 and t == 0:
                continue  # a parameter that joins later counts its own steps
            p.grad = (p.detach() * 0.3 + sin(1.0 + t * (k + 1))).to(dtype)
        optimizer.step()
        if t == 3:
            optimizer.load_state_dict(optimizer.state_dict())
        seen.append([p.detach().reshape(-1).tolist() for p in params])
    return seen


def schedule_run(torch, name, steps=20):
    """The rates, and the momentum of the first group, after each step."""
    params = [torch.zeros(1, requires_grad=True), torch.zeros(2, requires_grad=True)]
    optimizer = torch.optim.SGD([{"params": params[:1], "lr": 0.1}, {"params": params[1:], "lr": 0.5}], momentum=0.9)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        schedule = SCHEDULES[name](optimizer, torch.optim.lr_scheduler)
        seen = [[*schedule.get_last_lr(), optimizer.param_groups[0]["momentum"]]]
        for _ in range(steps):
            optimizer.step()
            schedule.step()
            seen.append([*schedule.get_last_lr(), optimizer.param_groups[0]["momentum"]])
    return seen


def plateau_run(torch):
    params = [torch.zeros(1, requires_grad=True)]
    seen = []
    for options in ({"patience": 1}, {"mode": "max", "threshold_mode": "abs", "patience": 2},
                    {"cooldown": 2, "patience": 1, "min_lr": [0.01]}):
        optimizer = torch.optim.SGD(params, lr=0.1)
        schedule = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, **options)
        for t in range(30):
            schedule.step(sin(t * t))
            seen.append(schedule.get_last_lr()[0])
    return seen


def orders(torch):
    """The order of samples in every random way to visit a dataset, and what the default stream gives afterwards."""
    data = torch.utils.data
    samples = data.TensorDataset(torch.arange(37))

    def visited(**options):
        loader = data.DataLoader(samples, **options)
        return [batch.tolist() for _ in range(2) for batch, in loader]

    torch.manual_seed(5)
    found = {
        "shuffle": visited(batch_size=4, shuffle=True),
        "drop_last": visited(batch_size=5, shuffle=True, drop_last=True),
        "replacement": visited(batch_size=10, sampler=data.RandomSampler(samples, replacement=True, num_samples=70)),
        "more": visited(batch_size=20, sampler=data.RandomSampler(samples, num_samples=80)),
        "subset": visited(batch_size=2, sampler=data.SubsetRandomSampler([3, 5, 7, 9])),
        "generator": visited(batch_size=9, shuffle=True, generator=torch.Generator().manual_seed(9)),
        "after": torch.rand(3).tolist(),
        "split": [part.indices for part in data.random_split(samples, [30, 7])],
        "fractions": [part.indices for part in data.random_split(
            samples, [0.33, 0.33, 0.34], generator=torch.Generator().manual_seed(3))],
    }
    return found


def weighted(torch):
    """Draws by weight; apart, since they need multinomial."""
    data = torch.utils.data
    torch.manual_seed(5)
    return [list(data.WeightedRandomSampler([0.1] * 36 + [3.0], 20)),
            list(data.WeightedRandomSampler(list(range(1, 38)), 20, replacement=False))]


def all_runs(torch):
    return {
        "optimizers": [optimizer_run(torch, name, options) for name, options in OPTIMIZERS],
        "arguments": arguments_run(torch),
        "muon": muon_run(torch),
        "differentiable": differentiable_runs(torch),
        "schedules": {name: schedule_run(torch, name) for name in SCHEDULES},
        "plateau": plateau_run(torch),
        "orders": orders(torch),
        "weighted": weighted(torch),
    }


if __name__ == "__main__":
    import torch

    GOLDEN.write_text(json.dumps(all_runs(torch), separators=(",", ":")) + "\n")
