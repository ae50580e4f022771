"""`flambeau runs` and `flambeau compare`: what earlier trainings have written, as a table and as curves."""

import json
from pathlib import Path

from .checkpoint import load_checkpoint
from .errors import UserError, reason
from .output import Output, replacement
from .picture import draw_comparison

HEADINGS = "run", "task", "epochs", "accuracy", "best", "time", "settings"


def runs(options):
    """A table of the runs below a folder, the newest first."""
    if not options.folder.is_dir():
        raise UserError(f"{options.folder}: no such folder; `flambeau train` writes runs into runs/")
    found = sorted(options.folder.rglob("checkpoint.pt"), key=lambda path: -path.stat().st_mtime)
    if not found:
        raise UserError(f"{options.folder}: no runs below it; `flambeau train digits` makes one")
    rows, unread = [HEADINGS], []
    for path in found:
        try:
            rows.append(row(path, options.folder))
        except UserError as error:
            unread.append(str(error))
    widths = [max(len(line[k]) for line in rows) for k in range(len(HEADINGS))]
    for line in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())
    for text in unread:
        print(f"not read: {text}")
    return 0


def row(path, folder):
    """One run in words."""
    content = load_checkpoint(path)
    settings, state = content["settings"], content["state"]
    tested = [entry["test_accuracy"] for entry in state["history"] if "test_accuracy" in entry]
    percent = [f"{100 * value:.2f} %" for value in (tested[-1:] + [max(tested)] if tested else [])] or ["-", "-"]
    place = path.parent.relative_to(folder).as_posix()
    done = f"{state['epoch']}/{settings['epochs']}" + ("" if state["epoch"] == settings["epochs"] else " unfinished")
    task = f"{content['task']} {content['model']['name']}" if "model" in content else content["task"]
    return (place, task, done, *percent, spent(Output(path.parent).seconds()),
            f"batch {settings['batch_size']}, lr {settings['lr']:g}, seed {settings['seed']}")


def spent(seconds):
    """A time in words; "-" where it is not known."""
    if seconds is None:
        return "-"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min {rest:02} s" if minutes else f"{seconds:.1f} s"


def compare(options):
    """Two runs side by side: a line per epoch, and a picture of both curves."""
    histories = [history(folder) for folder in (options.a, options.b)]
    epochs = [{entry["epoch"]: entry for entry in rows if "test_accuracy" in entry} for rows in histories]
    print(f"epoch  {str(options.a)[-30:]:>30}  {str(options.b)[-30:]:>30}   (test accuracy)")
    for epoch in sorted(epochs[0].keys() | epochs[1].keys()):
        cells = [f"{100 * each[epoch]['test_accuracy']:.2f} %" if epoch in each else "-" for each in epochs]
        print(f"{epoch:>5}  {cells[0]:>30}  {cells[1]:>30}")
    try:
        with replacement(options.output) as file:
            draw_comparison([str(options.a), str(options.b)], histories, file)
    except ImportError:
        print("picture not drawn: matplotlib is missing (pip install 'flambeau[plot]')")
    else:
        print(f"picture  {options.output}")
    return 0


def history(place):
    """The rows of a run's metrics, given its folder, its checkpoint or the file itself."""
    path = Path(place)
    path = path.with_name("metrics.jsonl") if path.is_file() else path / "metrics.jsonl"
    try:
        rows = [json.loads(line) for line in path.read_text().splitlines()]
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {reason(error)}") from error
    except ValueError as error:
        raise UserError(f"{path}: not the metrics of a run: {reason(error)}") from error
    if not any("test_accuracy" in entry for entry in rows):
        raise UserError(f"{path}: no epoch was finished, so there is nothing to compare")
    return rows
