"""`python -m benchmarks.programs FOLDER`: public programs, unmodified, on this library and on PyTorch.

FOLDER holds checkouts: examples (github.com/pytorch/examples), nanoGPT and minGPT (github.com/karpathy), with the data
that each of them asks for. What is not there is left out. Every program runs in its own folder, once for each library;
the table shows how it ended, its last metric, seconds and peak memory.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections import namedtuple
from pathlib import Path

Program = namedtuple("Program", "name file arguments metric first", defaults=[None])
Run = namedtuple("Run", "ended metric seconds megabytes text")

_AVERAGE = r"Average loss: (\d+\.\d+)"
#: at the program's own learning rate of 20, the loss grows at first, and what differs by rounding soon differs by much
_WORDS = ["--epochs", "1", "--emsize", "100", "--nhid", "100", "--batch_size", "20", "--lr", "2"]
_CHARACTERS = ["config/train_shakespeare_char.py", "--device=cpu", "--compile=False", "--block_size=64",
               "--batch_size=12", "--n_layer=4", "--n_head=4", "--n_embd=128", "--dropout=0.0",
               "--eval_iters=5", "--log_interval=1"]

#: name, what it needs in the folder, its arguments, what to read in its output, what runs before
PROGRAMS = [
    Program("mnist", "examples/mnist/main.py", ["--epochs", "1"], _AVERAGE),
    Program("mnist_rnn", "examples/mnist_rnn/main.py", ["--epochs", "1", "--dry-run"], _AVERAGE),
    Program("mnist_hogwild", "examples/mnist_hogwild/main.py", ["--epochs", "1", "--dry-run"], _AVERAGE),
    Program("mnist_forward_forward", "examples/mnist_forward_forward/main.py",
            ["--epochs", "2", "--train_size", "2000", "--test_size", "500"], r"(?:error|loss):? *(\d+\.\d+)"),
    Program("siamese_network", "examples/siamese_network/main.py", ["--epochs", "1", "--dry-run"],
            _AVERAGE),
    Program("vae", "examples/vae/main.py", ["--epochs", "1"], r"Test set loss: (\d+\.\d+)"),
    Program("dcgan", "examples/dcgan/main.py",
            ["--dataset", "mnist", "--dataroot", "../data", "--dry-run", "--manualSeed", "1", "--niter", "1",
             "--workers", "0", "--outf", "/tmp"], r"Loss_D: (\d+\.\d+)"),
    *(Program(f"word_language_model {kind}", "examples/word_language_model/main.py", ["--model", kind, *_WORDS],
              r"test loss +(\d+\.\d+)") for kind in ("LSTM", "GRU", "RNN_TANH", "Transformer")),
    Program("time_sequence_prediction", "examples/time_sequence_prediction/train.py", ["--steps", "1"],
            r"test loss: (\d+\.\d+)", ["generate_sine_wave.py"]),
    Program("regression", "examples/regression/main.py", [], r"Loss: (\d+\.\d+)"),
    Program("reinforce", "examples/reinforcement_learning/reinforce.py", [], r"reward is now (\d+\.\d+)"),
    Program("actor_critic", "examples/reinforcement_learning/actor_critic.py", [], r"reward is now (\d+\.\d+)"),
    Program("super_resolution", "examples/super_resolution/main.py",
            ["--upscale_factor", "3", "--batchSize", "4", "--testBatchSize", "4", "--nEpochs", "2", "--lr", "0.001"],
            r"Avg. PSNR: (\d+\.\d+)"),
    Program("vision_transformer", "examples/vision_transformer/main.py",
            ["--dry-run", "--epochs", "1", "--img-size", "64", "--num-encoders", "4"], r"Valid Loss : (\d+\.\d+)"),
    Program("nanoGPT train", "nanoGPT/train.py", [*_CHARACTERS, "--max_iters=100", "--eval_interval=100"],
            r"iter \d+: loss (\d+\.\d+)"),
    Program("nanoGPT sample", "nanoGPT/sample.py",
            ["--out_dir=out-shakespeare-char", "--device=cpu", "--num_samples=2", "--max_new_tokens=200"],
            r"(\w+)\W*\n-+\n"),
    Program("minGPT adder", "minGPT/projects/adder/adder.py",
            ["--trainer.max_iters=100"], r"iter \d+: train loss (\d+\.\d+)"),
    Program("minGPT chargpt", "minGPT/projects/chargpt/chargpt.py",
            ["--trainer.max_iters=20", "--trainer.batch_size=4"], r"iter \d+: train loss (\d+\.\d+)"),
]


def run(command, folder, metric, limit):
    """One run of a command: how it ended, the last thing in its output that `metric` finds, and what it took."""
    path = os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])  # a package beside the program
    environment = {**os.environ, "PYTHONPATH": path, "PYTHONUNBUFFERED": "1", "MPLBACKEND": "agg"}
    with tempfile.TemporaryFile() as output:
        start = time.perf_counter()
        child = subprocess.Popen(command, cwd=folder, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
                                 env=environment)
        watch = threading.Timer(limit, child.kill)
        watch.start()
        _, status, used = os.wait4(child.pid, 0)
        seconds = time.perf_counter() - start
        watch.cancel()
        child.returncode = os.waitstatus_to_exitcode(status)  # it has been waited for
        output.seek(0)
        text = output.read().decode(errors="replace")
    found = re.findall(metric, text)
    ended = "ok" if not child.returncode else f"over {limit} s" if seconds >= limit else _last_line(text)
    return Run(ended, found[-1] if found else "", seconds, used.ru_maxrss / 1024, text)


def _last_line(text):
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:60] if lines else "failed"


def libraries(python, torch):
    """{library: how its Python is started}."""
    commands = {"flambeau": [python, "-m", "flambeau.as_torch"]}
    if torch is not None:
        commands["torch"] = [torch]
    return commands


def measure(program, folder, commands, limit):
    """{library: Run} of one program."""
    file = folder / program.file
    found = {}
    for library, command in commands.items():
        if program.first:
            run([*command, *program.first], file.parent, "", limit)
        start = [*command, str(_inside(folder, file)), *program.arguments]
        found[library] = run(start, _home(folder, file), program.metric, limit)
    return found


def _home(folder, file):
    """Where a program runs: beside its file, or at the top of a checkout whose package it imports."""
    top = folder / file.relative_to(folder).parts[0]
    return top if (top / "setup.py").exists() else file.parent


def _inside(folder, file):
    return file.relative_to(_home(folder, file))


def report(name, found):
    """One line of the table for each library."""
    for library, one in found.items():
        print(f"{name:32} {library:9} {one.metric:>12} {one.seconds:8.1f} s {one.megabytes:7.0f} MB  {one.ended}",
              flush=True)


def main(given=None):
    parser = argparse.ArgumentParser(prog="python -m benchmarks.programs",
                                     description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("folder", type=lambda text: Path(text).resolve())
    parser.add_argument("--torch", metavar="PYTHON", default=os.environ.get("FLAMBEAU_TORCH_PYTHON"),
                        help="an interpreter that has PyTorch")
    parser.add_argument("--python", default=sys.executable, help="the interpreter that has this library")
    parser.add_argument("--only", default="", help="a regular expression that names must contain")
    parser.add_argument("--limit", type=int, default=600, help="seconds that a program may take")
    parser.add_argument("--outputs", metavar="FOLDER", type=Path, help="where to keep what the programs print")
    options = parser.parse_args(given)
    commands = libraries(options.python, options.torch)
    for program in PROGRAMS:
        if not re.search(options.only, program.name) or not (options.folder / program.file).exists():
            continue
        found = measure(program, options.folder, commands, options.limit)
        report(program.name, found)
        for library, one in found.items() if options.outputs else ():
            options.outputs.mkdir(parents=True, exist_ok=True)
            (options.outputs / f"{program.name.replace(' ', '_')}.{library}.txt").write_text(one.text)


if __name__ == "__main__":
    main()
