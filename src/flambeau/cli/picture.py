"""The picture of a run: learning curves, confusion matrix, and some test images with their predicted class."""

from dataclasses import dataclass

import numpy

INK, MUTED, GRID = "#22242a", "#7a7f8a", "#e4e6eb"
TRAIN, TEST, WRONG = "#d9622b", "#1f5fa8", "#c22f3d"
COLUMNS, ROWS = 14, 4
MANY = 20  # classes: for more, the confusion has no names and numbers


@dataclass
class Report:
    """What the picture shows."""

    title: str
    history: list                # the rows of metrics.jsonl
    images: numpy.ndarray        # [n, height, width] in 0..1, or bytes of [n, height, width, 3]
    labels: numpy.ndarray        # [n]
    predictions: numpy.ndarray   # [n]
    classes: list                # their names


def draw(report, file):
    """Write the picture; ImportError where matplotlib is not installed."""
    # an optional dependency: everything else works without it
    from matplotlib import rc_context
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    style = {"font.size": 10, "axes.edgecolor": GRID, "axes.labelcolor": MUTED, "text.color": INK,
             "xtick.color": MUTED, "ytick.color": MUTED, "axes.titlecolor": INK, "axes.titlesize": 11,
             "axes.titleweight": "bold", "axes.titlelocation": "left"}
    with rc_context(style):
        figure = Figure(figsize=(12.5, 9.4), facecolor="white")
        grid = figure.add_gridspec(2, 1, height_ratios=(1, 1), left=0.055, right=0.975, top=0.87, bottom=0.025,
                                   hspace=0.18)
        top = grid[0].subgridspec(1, 3, width_ratios=(1, 1, 1.05), wspace=0.22)
        right = sum(report.predictions == report.labels)
        figure.text(0.055, 0.955, report.title, fontsize=17, weight="bold")
        figure.text(0.055, 0.925, f"{right} of {len(report.labels)} test images right "
                                  f"({100 * right / len(report.labels):.2f} %)", fontsize=11, color=MUTED)
        curves = figure.add_subplot(top[0]), figure.add_subplot(top[1])
        draw_loss(curves[0], report.history)
        draw_accuracy(curves[1], report.history)
        for axes in curves:
            axes.xaxis.set_major_locator(MaxNLocator(8, integer=True))
        draw_confusion(figure.add_subplot(top[2]), report)
        draw_images(figure, grid[1], report)
        figure.savefig(file, dpi=110, format="png")


def draw_comparison(names, histories, file):
    """Test accuracy and loss of several runs; ImportError where matplotlib is not installed."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    figure = Figure(figsize=(11, 4.2), facecolor="white", layout="constrained")
    for axes, (key, scale, title) in zip(figure.subplots(1, 2), (("test_accuracy", 100, "test accuracy, %"),
                                                                 ("test_loss", 1, "test loss")), strict=True):
        for name, history, color in zip(names, histories, (TEST, TRAIN), strict=True):
            rows = split(history)[1]
            axes.plot([row["epoch"] for row in rows], [scale * row[key] for row in rows], "o-", color=color, label=name)
        axes.set_title(title, loc="left", color=INK)
        axes.set_xlabel("epoch", color=MUTED)
        axes.grid(color=GRID)
        axes.xaxis.set_major_locator(MaxNLocator(8, integer=True))
        axes.legend(frameon=False)
    figure.savefig(file, dpi=110, format="png")


def split(history):
    """The rows of steps and the rows of epochs."""
    return [row for row in history if "step" in row], [row for row in history if "test_loss" in row]


def smooth(values, width):
    """Mean over a window that shrinks at the ends."""
    sums = numpy.concatenate([[0.0], numpy.cumsum(values)])
    centre = numpy.arange(len(values))
    low, high = numpy.maximum(centre - width, 0), numpy.minimum(centre + width + 1, len(values))
    return (sums[high] - sums[low]) / (high - low)


def plain(axes, title):
    axes.set_title(title, pad=10)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(length=0)
    axes.set_xlabel("epoch")


def epochs_of(steps):
    """The place of each step on an axis of epochs."""
    per_epoch = max(sum(row["epoch"] == steps[0]["epoch"] for row in steps), 1)
    return numpy.array([row["step"] for row in steps]) / per_epoch


def draw_loss(axes, history):
    steps, epochs = split(history)
    plain(axes, "loss")
    x, y = epochs_of(steps), numpy.array([row["loss"] for row in steps])
    axes.plot(x, y, color=TRAIN, alpha=0.22, linewidth=0.8)
    axes.plot(x, smooth(y, max(len(y) // 60, 1)), color=TRAIN, linewidth=1.8, label="training")
    axes.plot([row["epoch"] for row in epochs], [row["test_loss"] for row in epochs], "o-", color=TEST, markersize=4,
              linewidth=1.8, label="test")
    axes.set_yscale("log")
    # single steps without a mistake would stretch the scale to nothing: the smooth curve and the test decide
    low = min([*smooth(y, max(len(y) // 60, 1)), *(row["test_loss"] for row in epochs)])
    axes.set_ylim(max(low * 0.5, 1e-6), max(y) * 1.3)
    axes.legend(frameon=False, labelcolor=INK)


def draw_accuracy(axes, history):
    steps, epochs = split(history)
    plain(axes, "accuracy, %")
    y = 100 * smooth([row["accuracy"] for row in steps], max(len(steps) // 60, 1))
    axes.plot(epochs_of(steps), y, color=TRAIN, linewidth=1.8, label="training")
    test = [100 * row["test_accuracy"] for row in epochs]
    axes.plot([row["epoch"] for row in epochs], test, "o-", color=TEST, markersize=4, linewidth=1.8, label="test")
    # the first steps guess: not worth the room
    low = min([*test, *y[len(y) // 6:]])
    axes.set_ylim(max(0.0, min(low, 97.0) - 1), 100.3)
    axes.legend(frameon=False, loc="lower right", labelcolor=INK)


def short(name, most):
    return name if len(name) <= most else name[:most - 1] + "…"


def draw_confusion(axes, report):
    classes = len(report.classes)
    counts = numpy.zeros((classes, classes), int)
    numpy.add.at(counts, (report.labels, report.predictions), 1)
    share = counts / numpy.maximum(counts.sum(1, keepdims=True), 1)
    axes.set_title("confusion", pad=10)
    axes.set_anchor("N")
    # the square root lets a single mistake show beside a full diagonal
    axes.imshow(numpy.sqrt(share), cmap="Blues", vmin=0, vmax=1.15)
    for row, column in zip(*numpy.nonzero(counts)) if classes <= MANY else ():
        color = "white" if share[row, column] > 0.4 else INK if row == column else WRONG
        axes.text(column, row, counts[row, column], ha="center", va="center", fontsize=8.5, color=color)
    if classes <= MANY:
        axes.set_xticks(range(classes), [short(name, 6) for name in report.classes],
                        rotation=90 if max(map(len, report.classes)) > 2 else 0)
        axes.set_yticks(range(classes), [short(name, 6) for name in report.classes])
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    axes.set_xlabel("taken for")
    axes.set_ylabel("is")


def choose(report, number):
    """Mistakes first, then the first images that were right, evenly over the classes."""
    wrong = numpy.flatnonzero(report.predictions != report.labels)[:number // 2]
    right = numpy.flatnonzero(report.predictions == report.labels)
    by_class = [right[report.labels[right] == label] for label in range(len(report.classes))]
    turns = [mine[k] for k in range(number) for mine in by_class if k < len(mine)]
    return [*wrong, *turns[:number - len(wrong)]]


def draw_images(figure, place, report):
    grid = place.subgridspec(ROWS + 1, COLUMNS, wspace=0.12, hspace=0.34, height_ratios=(0.12,) + (1,) * ROWS)
    heading = figure.add_subplot(grid[0, :])
    heading.axis("off")
    heading.set_title("test images and what they were taken for (mistakes first, in red: taken for ← is)", pad=2)
    for place, k in enumerate(choose(report, ROWS * COLUMNS)):
        axes = figure.add_subplot(grid[1 + place // COLUMNS, place % COLUMNS])
        axes.imshow(report.images[k], cmap="gray_r", vmin=0, vmax=1, interpolation="nearest")
        axes.set_xticks([])
        axes.set_yticks([])
        right = report.predictions[k] == report.labels[k]
        axes.spines[:].set_color(GRID if right else WRONG)
        taken, label = (short(report.classes[n], 11 if right else 5) for n in (report.predictions[k], report.labels[k]))
        text = taken if right else f"{taken} ← {label}"
        axes.set_title(text, fontsize=9, weight="normal" if right else "bold", color=MUTED if right else WRONG, pad=3,
                       loc="center")
