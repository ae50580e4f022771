"""Writes what tests/vision/test_models.py knows of torchvision: `TORCHVISION_PYTHON vision_table.py TESTS_VISION`.

models.json: of every model the parameters, the entries of the state dict and a digest of their names and shapes.
models_seed0.json: four values of a layer that is drawn late, with seed 0. Nothing of Flambeau is needed.
"""

import fnmatch
import hashlib
import json
import sys
import warnings
from pathlib import Path

import torch
from torchvision import models

ELSEWHERE = ("quantized_*", "*rcnn_*", "retinanet_*", "ssd*", "fcos_*")
PARTS = ("fcn_*", "deeplabv3_*", "lraspp_*")
LATE = {"resnet18": "fc.weight", "mobilenet_v3_small": "classifier.3.weight", "densenet121": "classifier.weight",
        "squeezenet1_1": "classifier.1.weight", "shufflenet_v2_x0_5": "fc.weight", "regnet_x_400mf": "fc.weight"}


def digest(model):
    rows = [f"{key} {list(value.shape)}" for key, value in model.state_dict().items()]
    found = hashlib.sha256("\n".join(rows).encode()).hexdigest()[:16]
    return [sum(p.numel() for p in model.parameters()), len(rows), found]


def built(name):
    settings = {"weights_backbone": None} if any(fnmatch.fnmatch(name, p) for p in PARTS) else {}
    with torch.device("cpu" if name.startswith("regnet") else "meta"):  # RegNet computes its widths with tensors
        return models.get_model(name, **settings)


def main(folder):
    warnings.simplefilter("ignore")
    names = [n for n in models.list_models() if not any(fnmatch.fnmatch(n, p) for p in ELSEWHERE)]
    rows = [f'"{name}": {json.dumps(digest(built(name)))}' for name in names]
    Path(folder, "models.json").write_text("{\n" + ",\n".join(rows) + "\n}\n")
    rows = []
    for name, key in LATE.items():
        torch.manual_seed(0)
        rows.append(f'"{name}": {json.dumps([key, models.get_model(name).state_dict()[key].flatten()[:4].tolist()])}')
    Path(folder, "models_seed0.json").write_text("{\n" + ",\n".join(rows) + "\n}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
