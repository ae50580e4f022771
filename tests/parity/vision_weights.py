"""Writes the facts of torchvision's published weights: `TORCHVISION_PYTHON vision_weights.py MODELS_FOLDER`.

Facts only: where the files are, which preset prepares pictures for them, the categories, the measured figures. The
interpreter must have torchvision; nothing of Flambeau is needed.
"""

import functools
import json
import sys
from pathlib import Path

from torchvision import models
from torchvision.models import _meta, get_model_builder, get_model_weights, list_models

LISTS = {"imagenet": _meta._IMAGENET_CATEGORIES, "coco": _meta._COCO_CATEGORIES, "voc": _meta._VOC_CATEGORIES,
         "coco_person": _meta._COCO_PERSON_CATEGORIES, "kinetics400": _meta._KINETICS400_CATEGORIES,
         "coco_keypoints": _meta._COCO_PERSON_KEYPOINT_NAMES}
PREFIX = "https://download.pytorch.org/models/"
PROSE = {"_docs"}


def plain(value):
    """A setting of a preset, or a fact, as JSON has it."""
    if isinstance(value, models.WeightsEnum):
        return str(value)
    return value.value if type(value).__name__ == "InterpolationMode" else value


def meta(facts):
    lists = {id(names): key for key, names in LISTS.items()}
    found = {}
    for key, value in facts.items():
        if key not in PROSE:
            found[key] = lists[id(value)] if key in ("categories", "keypoint_names") and value else plain(value)
    return found


def member(weights):
    partly = isinstance(weights.transforms, functools.partial)
    preset = weights.transforms.func if partly else weights.transforms
    settings = {k: plain(v) for k, v in weights.transforms.keywords.items()} if partly else {}
    return [weights.url.replace(PREFIX, "~/"), preset.__name__, settings, meta(weights.meta)]


def main(folder):
    enums = {}
    for name in list_models():
        kind = get_model_weights(get_model_builder(name))
        enums[kind.__name__] = {"DEFAULT": kind.DEFAULT.name} | {w.name: member(w) for w in kind}
    lines = [f'"{name}": {{\n' + ",\n".join(f'  "{k}": {json.dumps(v)}' for k, v in facts.items()) + "\n}"
             for name, facts in sorted(enums.items())]
    Path(folder, "weights.json").write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    names = [f'"{key}": "{"|".join(names)}"' for key, names in LISTS.items()]
    Path(folder, "categories.json").write_text("{\n" + ",\n".join(names) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
