"""Compares the models with torchvision's: `python -m tests.parity.vision_models --torch PYTHON [PATTERN …]`.

PYTHON is an interpreter with torchvision. For every model: parameters, keys and shapes of the state dict, the initial
values of seed 0, the nodes of its graph, the output with torchvision's values copied over, loss and gradient norm of
one training step. Prints a row per model; exits with 1 if one differs.
"""

import argparse
import fnmatch
import json
import os
import subprocess
import sys
import tempfile
import traceback
import warnings
from pathlib import Path

import numpy as np

import flambeau
from flambeau.vision import models

from . import vision_step

IMAGE = [[2, 3, 64, 64]]
#: what models need that do not run at 64 pixels: pattern -> a part of the request
NEEDS = {
    "*": {"shapes": IMAGE, "settings": {}, "always": {}, "call": {}, "nodes": True, "dtype": "float64",
          "device": "meta"},
    "inception_v3": {"shapes": [[2, 3, 299, 299]], "settings": {"init_weights": True}},
    "googlenet": {"settings": {"init_weights": True}},
    "vit_*": {"shapes": [[2, 3, 64, 64]], "settings": {"image_size": 64}},
    "vit_h_14": {"shapes": [[2, 3, 56, 56]], "settings": {"image_size": 56}, "dtype": "float32"},
    "regnet_*": {"device": "cpu"},  # torchvision computes the widths with tensors
    "regnet_y_128gf": {"dtype": "float32"},
    "maxvit_t": {"shapes": [[2, 3, 224, 224]]},
    "*_18": {"shapes": [[2, 3, 4, 48, 48]]},
    "s3d": {"shapes": [[2, 3, 14, 224, 224]]},
    "swin3d_*": {"shapes": [[2, 3, 4, 64, 64]]},
    "mvit_*": {"nodes": False, "shapes": [[1, 3, 16, 224, 224]]},
    "raft_*": {"nodes": False, "shapes": [[1, 3, 128, 136]] * 2, "call": {"num_flow_updates": 2}, "dtype": "float32"},
    "fcn_*": {"settings": {"weights_backbone": None, "aux_loss": True}, "always": {"weights_backbone": None}},
    "deeplabv3_*": {"settings": {"weights_backbone": None, "aux_loss": True}, "always": {"weights_backbone": None}},
    "lraspp_*": {"settings": {"weights_backbone": None}, "always": {"weights_backbone": None}},
}
#: judged by their own command, or not built
ELSEWHERE = ("quantized_*", "*rcnn_*", "retinanet_*", "ssd*", "fcos_*")
COLUMNS = ("parameters", "keys", "values", "nodes", "output", "loss", "gradient")


def compared(name):
    return not any(fnmatch.fnmatch(name, pattern) for pattern in ELSEWHERE)


def request_for(name, file):
    request = {"name": name, "file": file}
    for pattern, more in NEEDS.items():
        if fnmatch.fnmatch(name, pattern):
            request |= more
    return request


def distance(ours, theirs):
    """The largest difference, in units of the largest value; NaN counts as different unless both have it."""
    if ours.shape != theirs.shape:
        return float("inf")
    if not theirs.size:
        return 0.0
    ours, theirs = ours.astype(np.float64), theirs.astype(np.float64)
    return float(np.abs(ours - theirs).max() / (np.abs(theirs).max() or 1))


def row(request, found):
    """{column: what was found, or a number that must be small}."""
    theirs = json.loads(str(found["facts"]))
    facts = vision_step.meta_facts(flambeau, models, request)
    model = vision_step.build(flambeau, models, request)
    state = model.state_dict()
    values = [distance(value.numpy(), found[f"weight {key}"]) for key, value in state.items()
              if f"weight {key}" in found]
    nodes = [list(names) for names in vision_step.nodes(models, model, request)]
    if facts["shapes"] == theirs["shapes"]:
        model.load_state_dict({key: flambeau.from_numpy(found[f"weight {key}"]) for key in state})
    outputs = vision_step.outputs(flambeau, model, request)
    wanted = [found[key] for key in found.files if key.startswith("output ")]
    if facts["shapes"] == theirs["shapes"]:
        model.load_state_dict({key: flambeau.from_numpy(found[f"weight {key}"]) for key in state})
    loss, norm = vision_step.step(flambeau, model, request)
    far = [distance(a, b) for a, b in zip(outputs, wanted, strict=False)]
    return {"parameters": facts["parameters"] if facts["parameters"] == theirs["parameters"] else
            f"{facts['parameters']}, not {theirs['parameters']}",
            "keys": len(state) if facts["shapes"] == theirs["shapes"] else first_difference(facts, theirs, "shapes"),
            "values": max(values, default=1.0),
            "nodes": (len(nodes[1]) if nodes else "-") if nodes == theirs["nodes"] else
            first_difference({"n": nodes[1]}, {"n": theirs["nodes"][1]}, "n"),
            "output": max(far) if len(outputs) == len(wanted) else f"{len(outputs)}, not {len(wanted)}",
            "loss": abs(loss - found["step"][0]) / (abs(found["step"][0]) or 1),
            "gradient": abs(norm - found["step"][1]) / (found["step"][1] or 1)}


def first_difference(ours, theirs, key):
    for a, b in zip(ours[key], theirs[key], strict=False):
        if a != b:
            return f"{a}, not {b}"
    return f"{len(ours[key])}, not {len(theirs[key])}"


#: the most that may differ, by the dtype of the training step
LIMITS = {"float64": {"values": 1e-6, "output": 2e-5, "loss": 1e-10, "gradient": 1e-8},
          "float32": {"values": 1e-6, "output": 2e-5, "loss": 1e-4, "gradient": 1e-2}}


def wrong(found, dtype):
    return [key for key, value in found.items() if (isinstance(value, str) and value != "-")
            or (isinstance(value, float) and not value <= LIMITS[dtype][key])]


def shown(value):
    return f"{value:.1e}" if isinstance(value, float) else str(value)


def main():
    cli = argparse.ArgumentParser(description=__doc__)
    cli.add_argument("--torch", required=True, help="an interpreter with torchvision")
    cli.add_argument("patterns", nargs="*", default=["*"])
    options = cli.parse_args()
    warnings.simplefilter("ignore")
    names = [n for n in models.list_models() if compared(n) and any(fnmatch.fnmatch(n, p) for p in options.patterns)]
    worker = subprocess.Popen([options.torch, vision_step.__file__], text=True, stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE)
    print(" ".join(f"{column:>12}" for column in COLUMNS), "model")
    failures = 0
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "found.npz")
        for name in names:
            request = request_for(name, file)
            print(json.dumps(request), file=worker.stdin, flush=True)
            if not worker.stdout.readline():
                sys.exit(f"{name}: torchvision's side ended")
            try:
                with np.load(file) as found:
                    result = row(request, found)
                bad = wrong(result, request["dtype"])
                print(" ".join(f"{shown(result[c]):>12}" for c in COLUMNS), name, "DIFFERS" * bool(bad), flush=True)
            except Exception:
                bad = [traceback.format_exc(limit=-4)]
                print(name, "RAISES", *bad, flush=True)
            Path(file).unlink()
            failures += bool(bad)
    worker.stdin.close()
    print(f"{len(names) - failures} of {len(names)} models agree")
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
