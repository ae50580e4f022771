"""The UCI handwritten digits that come with the package (data/digits.txt names their source)."""

from importlib import resources

import numpy

from .errors import UserError
from .task import Settings, make_task

SCALE = 16
TEST_PART = 360  # of 1,797: one in five
DEFAULTS = Settings(epochs=15, batch_size=32, lr=0.005, seed=0)


def read_digits():
    """All pictures, uint8 [1797, 8, 8], and labels, uint8 [1797], in their published order."""
    path = resources.files("flambeau.cli") / "data" / "digits.npz"
    try:
        with path.open("rb") as file, numpy.load(file, allow_pickle=False) as arrays:
            return arrays["images"], arrays["labels"]
    except Exception as error:  # whatever a damaged zip raises
        raise UserError(f"{path}: damaged ({error}): install flambeau again") from error


def digits_task():
    """One picture in five, drawn once and for all, is kept for the test; no run ever trains on it."""
    pictures, labels = read_digits()
    order = numpy.random.RandomState(0).permutation(len(pictures))
    test, train = order[:TEST_PART], order[TEST_PART:]
    return make_task("digits", (pictures[train], labels[train]), (pictures[test], labels[test]), SCALE, DEFAULTS)
