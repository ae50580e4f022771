"""`flambeau train`: a run from its options to its files, with a progress bar, interruptible and resumable."""

import time
from pathlib import Path

from tqdm import tqdm

import flambeau

from .checkpoint import load_checkpoint
from .classifier import load_weights
from .digits import digits_task
from .errors import INTERRUPTED, UserError, reason
from .interrupt import Interrupt
from .mnist import mnist_task
from .output import Output
from .picture import Report
from .pictures import cifar10_task, folder_task
from .ranks import joined, spread, wants_processes
from .task import Settings
from .training import Training, evaluate


def train(options):
    """Run the command; its exit code."""
    if wants_processes(options):
        return spread(options)
    with joined() as ranks:
        return prepare(options, ranks)


def prepare(options, ranks):
    """The run of one process, with its data, network and folder; the exit code."""
    if options.threads:
        flambeau.set_num_threads(options.threads)
    device = chosen_device(options, ranks)
    before = stamp(options.resume)
    saved = load_checkpoint(options.resume) if options.resume else None
    if saved and saved["task"] != options.task:
        raise UserError(f"{options.resume}: a checkpoint of {saved['task']}, not of {options.task}")
    task = ranks.after_leader(lambda: make_task(options, saved))
    training = Training(task, choose_settings(options, task, saved), options.workers, ranks, device)
    if saved:
        restore(training, saved, options.resume)
        ranks.check_alike(training.epoch, training.batch)
        if options.epochs and options.epochs > training.settings.epochs:
            training.extend(options.epochs)
    elif options.weights:
        new = load_weights(training.network, options.weights)
        print(f"weights from {options.weights}; new: {', '.join(new) or 'none'}")

    if not ranks.leads:
        return follow(training)
    output = Output(options.output or (options.resume.parent if options.resume else Path("runs") / task.name))
    with output.held():
        if stamp(options.resume) != before:
            raise UserError(f"{options.resume}: another training has replaced it just now: try again")
        return carry_out(training, output, options)


def chosen_device(options, ranks):
    """The device that is asked for, if it is there."""
    try:
        device = flambeau.device(options.device)
    except RuntimeError as error:
        raise UserError(f"--device {options.device}: {reason(error)}") from None
    if device.type not in ("cpu", "cuda"):
        raise UserError(f"--device {options.device}: networks are trained on cpu or cuda")
    if device.type == "cuda":
        if not flambeau.cuda.is_available():
            raise UserError(f"--device {options.device}: no GPU was found (flambeau info says more)")
        if (device.index or 0) >= flambeau.cuda.device_count():
            raise UserError(f"--device {options.device}: there are {flambeau.cuda.device_count()} GPUs")
        if ranks.size > 1:
            raise UserError(f"--device {options.device}: one process trains on a GPU; leave out --nproc")
    return device


def follow(training):
    """A rank that only computes; the exit code."""
    training.remember_random()
    with Interrupt() as interrupt:
        finished = run(training, None, interrupt)
        training.remember_random()
    return 0 if finished else INTERRUPTED


def make_task(options, saved):
    """The data and the name of the network; a resumed run's model comes from its checkpoint."""
    if options.task == "digits":
        return digits_task()
    if options.task == "mnist":
        return mnist_task(options.data, options.download)
    model, size, seed = options.model, options.size, options.seed or 0
    if saved:
        seed = saved["settings"]["seed"]
        for name, given, kept in (("model", model, saved["model"]["name"]), ("size", size, saved["model"]["size"])):
            if given not in (None, kept):
                raise UserError(f"{options.resume}: this run has --{name} {kept}, it cannot be resumed with {given}: "
                                "leave the option out, or start a new run")
        if options.weights:
            raise UserError(f"--weights {options.weights}: a resumed run has its weights from {options.resume}")
        model, size = saved["model"]["name"], saved["model"]["size"]
    elif model is None:
        raise UserError("--model: name a classification model, for example resnet18 or mobilenet_v3_small")
    if options.task == "cifar10":
        return cifar10_task(options.data, model, size)
    return folder_task(options.data, model, size, seed)


def stamp(path):
    """Tells one version of a file from the next; None where there is no file."""
    try:
        found = path.stat() if path else None
    except OSError:
        return None
    return found and (found.st_ino, found.st_mtime_ns, found.st_size)


def carry_out(training, output, options):
    """The run in a folder that is ours; the exit code."""
    task = training.task
    same_file = options.resume and output.checkpoint.exists() and output.checkpoint.samefile(options.resume)
    if not same_file and (old := output.give_way()):
        print(f"the checkpoint of an earlier run is kept as {old}")
    training.remember_random()
    output.save(training)  # a full disk shows now, before the work

    describe(training, output)
    began = time.perf_counter() - ((output.seconds() or 0) if options.resume else 0)
    with Interrupt() as interrupt:
        try:
            finished = run(training, output, interrupt)
        except BrokenPipeError:  # whoever read our lines has gone
            if training.ranks.size == 1:
                training.remember_random()
                output.save(training)
            raise
        training.remember_random()
        output.save(training)
        output.save_time(time.perf_counter() - began)
    if not finished:
        more = f" --nproc {training.ranks.size}" * (training.ranks.size > 1)
        print(f"interrupted in epoch {training.epoch + 1}; continue with\n"
              f"  flambeau train {task.name}{f' --data {options.data}' if options.data else ''} "
              f"--resume {output.checkpoint}{more}")
        return INTERRUPTED
    finish(training, output)
    return 0


def choose_settings(options, task, saved):
    """A new run's come from the options, a resumed run's from its checkpoint: other ones would change its numbers."""
    given = {name: getattr(options, name) for name in vars(task.defaults) if getattr(options, name) is not None}
    if not saved:
        return Settings(**vars(task.defaults) | given)
    for name, value in given.items():
        finished = saved["state"]["epoch"] == saved["settings"]["epochs"]
        longer = name == "epochs" and finished and value > saved["settings"]["epochs"]
        if value != saved["settings"][name] and not longer:
            raise UserError(f"{options.resume}: this run has --{name.replace('_', '-')} {saved['settings'][name]}, "
                            f"it cannot be resumed with {value}: leave the option out, or start a new run"
                            + (" (a finished run can be extended to more epochs)" if name == "epochs" else ""))
    return Settings(**{name: saved["settings"][name] for name in vars(task.defaults)})


def restore(training, saved, path):
    if saved["fingerprint"] != training.task.fingerprint:
        raise UserError(f"{path}: this run was trained on other data than are there now")
    try:
        training.load_state_dict(saved["state"])
    except (RuntimeError, ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
        raise UserError(f"{path}: does not fit the network of {training.task.name}: {reason(error)}") from error


def describe(training, output):
    task, settings = training.task, training.settings
    parameters = sum(parameter.numel() for parameter in training.network.parameters())
    processes = f"{training.ranks.size} processes of " * (training.ranks.size > 1)
    threads = flambeau.get_num_threads()
    where = f"{threads} thread{'s' * (not processes or threads > 1)}"
    if training.device.type == "cuda":
        where = flambeau.cuda.get_device_name(training.device)
    print(f"{task.title}: {len(task.train):,} training and {len(task.test):,} test images, {parameters:,} parameters, "
          f"{settings.epochs} epochs, {processes}{where} -> "
          f"{output.folder}/")
    if training.samples_seen:
        print(f"continuing in epoch {min(training.epoch + 1, settings.epochs)}, at batch {training.batch}")


def run(training, output, interrupt):
    """Train to the end, or until interrupted; whether the end was reached. `output` is None on ranks behind the first.
    """
    samples, alone = len(training.task.train) * training.settings.epochs, training.ranks.size == 1
    with tqdm(total=samples, initial=training.samples_seen, unit=" samples", unit_scale=True,
              disable=None if output else True, dynamic_ncols=True, smoothing=0.1) as bar:
        while not training.done:
            started = time.perf_counter()
            bar.set_description(f"epoch {training.epoch + 1}/{training.settings.epochs}", refresh=False)
            loader = training.epoch_batches()
            for images, labels in loader:
                asked = bool(interrupt)
                if asked and alone:
                    return False
                before = training.samples_seen
                row = training.step(images, labels, asked)
                bar.set_postfix(loss=f"{row['loss']:.4f}", accuracy=f"{100 * row['accuracy']:.1f}%",
                                data=f"{100 * waited(loader):.0f}%", refresh=False)
                bar.update(training.samples_seen - before)
                if training.stop:
                    return False
            share = waited(loader)
            row = training.end_epoch()
            training.remember_random()
            if output is None:
                continue
            tqdm.write(epoch_line(row, training.settings.epochs, time.perf_counter() - started, share))
            try:
                output.save(training)
            except UserError as error:  # the run is still whole in memory: the end of the next epoch tries again
                tqdm.write(f"warning: {error}")
    return True


def waited(loader):
    """The share of its time that the model has waited for data."""
    timing = loader.timing()
    return timing.waited / timing.total if timing and timing.total else 0.0


def epoch_line(row, epochs, seconds, share):
    return (f"epoch {row['epoch']:>{len(str(epochs))}}/{epochs}  loss {row['train_loss']:.4f}  "
            f"accuracy {100 * row['train_accuracy']:6.2f} %   test loss {row['test_loss']:.4f}  "
            f"accuracy {100 * row['test_accuracy']:6.2f} %  ({seconds:.1f} s; the model waited for data "
            f"{100 * share:.0f} % of the time)")


def finish(training, output):
    """The result in words and in a picture."""
    task = training.task
    images, labels = task.test.tensors
    _, predictions = evaluate(training.network, task.test, training.test_batch)
    right = int((predictions == labels).sum())
    print(f"test accuracy {100 * right / len(labels):.2f} % ({right} of {len(labels)})")
    print(f"checkpoint    {output.checkpoint}\nmetrics       {output.metrics}")
    shown = images.permute(0, 2, 3, 1) if task.model else images[:, 0]
    report = Report(f"flambeau train {task.title}", training.history, shown.numpy(), labels.numpy(),
                    predictions.numpy(), task.model["classes"] if task.model else [str(k) for k in range(10)])
    if output.draw(report):
        print(f"picture       {output.picture}")
    else:
        print("picture       not drawn: matplotlib is missing (pip install 'flambeau[plot]')")
