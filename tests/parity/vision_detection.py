"""Compares the detectors with torchvision's: `python -m tests.parity.vision_detection --torch PYTHON [PATTERN …]`.

PYTHON is an interpreter with torchvision. For every detector: keys and shapes of the state dict, the initial values of
seed 0, and with these values in float64 the detections in two images of different sizes, every loss of a training step
with the same random numbers, and the norm of its gradient. Prints a row per detector; exits with 1 if one differs.
"""

import argparse
import fnmatch
import json
import os
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np

import flambeau
from flambeau.vision import models

from . import vision_detection_step as step
from .vision_models import distance

_PYRAMID = {"num_classes": 5, "min_size": 128, "max_size": 200}
_FEW = {"rpn_post_nms_top_n_train": 100, "rpn_post_nms_top_n_test": 60, "box_batch_size_per_image": 64,
        "box_score_thresh": 0.01}
#: settings by pattern; thresholds are low, because networks at random are sure of nothing
SETTINGS = {
    "fasterrcnn_*": _PYRAMID | _FEW,
    "maskrcnn_*": _PYRAMID | _FEW | {"box_detections_per_img": 20},
    "keypointrcnn_*": _FEW | {"num_classes": 2, "min_size": (100, 128), "max_size": 200, "box_detections_per_img": 20},
    "retinanet_*": _PYRAMID | {"score_thresh": 0.001},
    "fcos_*": _PYRAMID | {"score_thresh": 0.01},
    "ssd*": {"num_classes": 5},
}
COLUMNS = ("keys", "values", "found", "boxes", "others", "losses", "gradient")
#: the most that may differ, relative to the largest value
LIMIT = 1e-6


def in_order(results):
    """The detections of equal scores in the order of their boxes: which comes first is nobody's promise."""
    for k in (0, 1):
        keys = [key for key in results if key.endswith(f" {k}")]
        boxes, scores = results[f"boxes {k}"], results[f"scores {k}"]
        order = np.lexsort((*boxes.T.round(6), -scores.round(9)))
        results |= {key: results[key][order] for key in keys}
    return results


def load(model, found):
    model.load_state_dict({key: flambeau.from_numpy(found[f"weight {key}"].copy()) for key in model.state_dict()})
    return model


def row(request, found):
    """{column: what was found, or a number that must be small}."""
    facts = json.loads(str(found["facts"]))
    shapes = step.shapes(flambeau, models, request)
    different = [f"{a}, not {b}" for a, b in zip(shapes, facts["shapes"], strict=False) if a != b]
    if different or len(shapes) != len(facts["shapes"]):
        return {"keys": (different or [f"{len(shapes)}, not {len(facts['shapes'])}"])[0]}
    model = step.build(flambeau, models, request)
    values = [distance(value.numpy(), found[f"weight {key}"]) for key, value in model.state_dict().items()]
    ours = in_order(step.detections(flambeau, load(model, found)))
    theirs = in_order({key[6:]: found[key] for key in found.files if key.startswith("found ")})
    far = {key: distance(ours.get(key, np.zeros(0)), value) for key, value in theirs.items()}
    losses = step.step(flambeau, load(step.build(flambeau, models, request), found))
    off = {name: abs(losses.get(name, np.inf) - value) / (abs(value) or 1) for name, value in facts["step"].items()}
    gradient = off.pop("gradient")
    return {"keys": len(shapes), "values": max(values), "found": sum(len(found[f"found scores {k}"]) for k in (0, 1)),
            "boxes": max(v for k, v in far.items() if k.startswith("boxes")),
            "others": max(v for k, v in far.items() if not k.startswith("boxes")),
            "losses": max(off.values()), "gradient": gradient}


def main():
    cli = argparse.ArgumentParser(description=__doc__)
    cli.add_argument("--torch", required=True, help="an interpreter with torchvision")
    cli.add_argument("patterns", nargs="*", default=["*"])
    options = cli.parse_args()
    warnings.simplefilter("ignore")
    names = [n for n in models.list_models(models.detection)
             if any(fnmatch.fnmatch(n, pattern) for pattern in options.patterns)]
    worker = subprocess.Popen([options.torch, step.__file__], text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    print(" ".join(f"{column:>9}" for column in COLUMNS), "detector")
    failures = 0
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "found.npz")
        for name in names:
            settings = next(value for pattern, value in SETTINGS.items() if fnmatch.fnmatch(name, pattern))
            request = {"name": name, "file": file, "settings": settings}
            print(json.dumps(request), file=worker.stdin, flush=True)
            if not worker.stdout.readline():
                sys.exit(f"{name}: torchvision's side ended")
            with np.load(file) as found:
                result = row(request, found)
            Path(file).unlink()
            bad = [key for key, value in result.items() if isinstance(value, str)
                   or (isinstance(value, float) and not value <= LIMIT)]
            failures += bool(bad)
            shown = (f"{v:.1e}" if isinstance(v, float) else str(v) for v in (result.get(c, "-") for c in COLUMNS))
            print(" ".join(f"{text:>9}" for text in shown), name, "DIFFERS" * bool(bad), flush=True)
    worker.stdin.close()
    print(f"{len(names) - failures} of {len(names)} detectors agree")
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
