"""The first losses of training runs with seed 0, to be held against those of PyTorch 2.13 (golden_losses.json).

`python -m tests.cli.curves DIR` writes that file, from the package that `flambeau` is then (a stand-in for PyTorch).
"""

import dataclasses
import itertools
import json
import sys
from pathlib import Path

import flambeau
from flambeau import nn
from flambeau.cli.digits import digits_task
from flambeau.cli.mnist import mnist_task
from flambeau.cli.networks import NETWORKS
from flambeau.cli.training import Training

GOLDEN = Path(__file__).with_name("golden_losses.json")
STEPS = 50


def mlp(inputs, hidden):
    return nn.Sequential(nn.Flatten(), nn.Linear(inputs, hidden), nn.SiLU(), nn.Dropout(0.1), nn.Linear(hidden, hidden),
                         nn.Tanh(), nn.Linear(hidden, 10))


def losses(task, network=None):
    """Of the first 50 steps of the command's training, with its network or another."""
    settings = dataclasses.replace(task.defaults, seed=0, epochs=task.defaults.epochs)
    usual = NETWORKS[task.name]
    try:
        NETWORKS[task.name] = network or usual
        training = Training(task, settings)
    finally:
        NETWORKS[task.name] = usual
    rows = []
    while len(rows) < STEPS:
        for images, labels in itertools.islice(training.epoch_batches(), STEPS - len(rows)):
            rows.append(training.step(images, labels)["loss"])
        training.epoch, training.batch = training.epoch + 1, 0
    return rows


def digits_runs():
    task = digits_task()
    return {"digits convolutions": losses(task), "digits perceptron": losses(task, lambda: mlp(64, 64))}


def mnist_runs(folder):
    task = mnist_task(folder)
    return {"mnist convolutions": losses(task), "mnist perceptron": losses(task, lambda: mlp(784, 128))}


if __name__ == "__main__":
    flambeau.set_num_threads(1)
    GOLDEN.write_text(json.dumps(digits_runs() | mnist_runs(sys.argv[1]), indent=0))
