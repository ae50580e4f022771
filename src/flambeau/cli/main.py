"""The command line: subcommands, options, and how errors are reported."""

import argparse
import math
import sys
from importlib import import_module
from pathlib import Path

import flambeau

from .errors import INTERRUPTED, UserError, reason
from .streams import READER_GONE, abandon_stdout, open_closed_streams

DESCRIPTION = "Train small networks on real images, use them, look into checkpoints, and at what Flambeau runs on."


def positive(text):
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text}: expected 1 or more")
    return value


def count(text):
    value = int(text)
    if value < 0:
        raise argparse.ArgumentTypeError(f"{text}: expected 0 or more")
    return value


def rate(text):
    value = float(text)
    if not (math.isfinite(value) and value > 0):
        raise argparse.ArgumentTypeError(f"{text}: expected a positive number")
    return value


def seed(text):
    value = int(text)
    if not 0 <= value < 2**63:
        raise argparse.ArgumentTypeError(f"{text}: expected 0 to 2**63 - 1")
    return value


def runs_in(module, name=None):
    """A function of the module, which is imported by the first call: what prints help or a version waits for none."""
    def call(given):
        return getattr(import_module(module, __package__), name or module.lstrip("."))(given)
    return call


run_as_torch, launch = runs_in("..as_torch", "run"), runs_in(".launch")


def parser():
    top = argparse.ArgumentParser(prog="flambeau", description=DESCRIPTION)
    top.add_argument("--version", action="version", version=f"flambeau {flambeau.__version__}")
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")

    training = commands.add_parser("train", help="train a network")
    tasks = training.add_subparsers(dest="task", required=True, metavar="TASK")
    digits = tasks.add_parser("digits", help="the UCI handwritten digits, 1,797 images of 8x8 (part of the package)")
    mnist = tasks.add_parser("mnist", help="MNIST, 70,000 images of 28x28")
    mnist.add_argument("--data", type=Path, required=True, metavar="DIR", help="folder of the four idx files")
    mnist.add_argument("--download", action="store_true", help="download the files that are missing there")
    cifar = tasks.add_parser("cifar10", help="CIFAR-10, 60,000 color images of 32x32, with a model of flambeau.vision")
    cifar.add_argument("--data", type=Path, required=True, metavar="DIR", help="folder of its python or binary batches")
    folder = tasks.add_parser("folder", help="your own images, one folder for each class; from published weights if "
                                             "you have their file")
    folder.add_argument("--data", type=Path, required=True, metavar="DIR",
                        help="with train/CLASS/… and val/CLASS/…, or CLASS/…, of which one in five is for the test")
    for task in (cifar, folder):
        task.add_argument("--model", metavar="NAME", help="resnet18, mobilenet_v3_small, … (flambeau.vision.models)")
        task.add_argument("--size", type=positive, metavar="N", help="sides of what the network sees (32; folder: 224)")
        task.add_argument("--weights", type=Path, metavar="FILE", help="begin from these, with torchvision's names; "
                                                                       "the last layer is new for other classes")
    for task in (digits, mnist, cifar, folder):
        task.add_argument("--epochs", type=positive, metavar="N")
        task.add_argument("--batch-size", type=positive, metavar="N")
        task.add_argument("--lr", type=rate, metavar="X", help="highest learning rate of the schedule")
        task.add_argument("--seed", type=seed, metavar="N", help="the same seed gives the same numbers")
        task.add_argument("--threads", type=positive, metavar="N", help="how many; the numbers do not depend on it")
        task.add_argument("--device", metavar="DEVICE", default="cpu",
                          help="where the network is trained: cpu, cuda, cuda:1 (default: cpu)")
        task.add_argument("--nproc", type=positive, metavar="N",
                          help="processes that train together: each has its share of every batch (default: 1)")
        task.add_argument("--workers", type=count, metavar="N", default=0,
                          help="processes that load batches ahead; the numbers do not depend on it (default: 0)")
        task.add_argument("--resume", type=Path, metavar="CHECKPOINT",
                          help="continue an interrupted run; with more --epochs, extend a finished one")
        task.add_argument("--output", type=Path, metavar="DIR", help="folder for the results (default: runs/TASK)")
        task.set_defaults(run=runs_in(".train"), data=None, download=False, weights=None)

    predicting = commands.add_parser("predict", help="what is on an image")
    predicting.add_argument("checkpoint", type=Path)
    predicting.add_argument("image", help="PNG or JPEG (needs pillow), .npy, FILE:N for image N of an idx or "
                                          ".npy file, digits:N for one of the package's own")
    predicting.set_defaults(run=runs_in(".predict"))

    listing = commands.add_parser("runs", help="a table of earlier trainings: accuracy, time, settings")
    listing.add_argument("folder", type=Path, nargs="?", default=Path("runs"), metavar="FOLDER",
                         help="where they lie (default: runs)")
    listing.set_defaults(run=runs_in(".runs"))
    beside = commands.add_parser("compare", help="two trainings side by side: accuracies, and a picture of both curves")
    beside.add_argument("a", type=Path, metavar="A", help="folder of a run")
    beside.add_argument("b", type=Path, metavar="B")
    beside.add_argument("--output", type=Path, default=Path("compare.png"), metavar="FILE", help="the picture's file")
    beside.set_defaults(run=runs_in(".runs", "compare"))

    inspecting = commands.add_parser("inspect", help="the tensors of a checkpoint: names, shapes, dtypes, checksums")
    inspecting.add_argument("file", type=Path, metavar="FILE", help="PyTorch's formats, safetensors, .npy or .npz")
    inspecting.add_argument("--values", action="store_true", help="its other values too")
    inspecting.set_defaults(run=runs_in(".inspect"))
    comparing = commands.add_parser("diff", help="what differs between two checkpoints; exit code 1 if anything does")
    comparing.add_argument("a", type=Path, metavar="A")
    comparing.add_argument("b", type=Path, metavar="B")
    comparing.set_defaults(run=runs_in(".inspect", "diff"))

    running = commands.add_parser("run", help="run a program that was written for PyTorch, unchanged",
                                  usage="flambeau run (SCRIPT | -m MODULE | -c CODE) [ARGUMENT ...]")
    running.add_argument("arguments", nargs=argparse.REMAINDER, metavar="SCRIPT ARGUMENT ...",
                         help="what `python` would be given")
    running.set_defaults(run=lambda options: run_as_torch(options.arguments))

    launching = commands.add_parser("launch", help="run a program in several processes on this host", add_help=False,
                                    usage="flambeau launch --nproc-per-node N [OPTION ...] PROGRAM [ARGUMENT ...]")
    launching.add_argument("arguments", nargs=argparse.REMAINDER)
    launching.set_defaults(run=lambda options: launch(options.arguments))

    examining = commands.add_parser("doctor", help="which names of PyTorch a program uses, and what becomes of them; "
                                                   "nothing of it is run. Exit code 1 if one is missing or refuses")
    examining.add_argument("target", metavar="SCRIPT|PACKAGE|FOLDER")
    examining.add_argument("--all", action="store_true", help="list every name")
    examining.add_argument("--json", action="store_true", help="print data instead of a report")
    examining.set_defaults(run=runs_in(".doctor"))

    commands.add_parser("info", help="processor, threads, libraries, memory").set_defaults(run=runs_in(".info"))
    return top


def main(arguments=None):
    """Run the command; the exit code: 0, 2 for mistakes of the user, 130 after Ctrl-C, 141 if nobody reads the output.
    """
    open_closed_streams()
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    if arguments[:1] == ["run"] and arguments[1:2] not in ([], ["-h"], ["--help"]):
        return run_as_torch(arguments[1:])  # whose options are Python's
    if arguments[:1] == ["launch"]:
        return launch(arguments[1:])  # whose options may be written in several ways
    try:
        try:
            options = parser().parse_args(arguments)
            options.command_line = arguments
            return answer(options)
        finally:  # now, when it can still be answered; the interpreter's own flush comes after everything
            sys.stdout.flush()
    except BrokenPipeError:
        abandon_stdout()
        return READER_GONE
    except OSError as error:  # what belongs to a file was made a UserError there
        abandon_stdout()
        print(f"flambeau: cannot print: {reason(error)}", file=sys.stderr)
        return 2


def answer(options):
    """The exit code of one command."""
    try:
        return options.run(options)
    except UserError as error:
        print(f"flambeau: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("flambeau: interrupted", file=sys.stderr)
        return INTERRUPTED
