"""Checkpoints of the command: written whole or not at all, and fully checked when read."""

import flambeau

from .errors import UserError, reason
from .networks import NETWORKS, Classifier, build_network

FORMAT = "flambeau training checkpoint"
VERSION = 1
PARTS = {  # what stands in a checkpoint's parts: the type, and the least value of a number
    "settings": {"epochs": (int, 1), "batch_size": (int, 1), "lr": (float, 0), "seed": (int, 0)},
    "state": {"epoch": (int, 0), "batch": (int, 0), "network": (dict, None), "optimizer": (dict, None),
              "schedule": (dict, None), "random": (flambeau.Tensor, None), "history": (list, None)},
}


def save_checkpoint(path, training):
    """Replaces `path` in one move: at any moment there is a complete checkpoint, the old one or the new one."""
    content = {
        "format": FORMAT,
        "version": VERSION,
        "task": training.task.name,
        "fingerprint": training.task.fingerprint,
        **({"model": training.task.model} if training.task.model else {}),
        "settings": vars(training.settings).copy(),
        "state": training.state_dict(),
    }
    try:
        flambeau.save(content, path)
    except (OSError, RuntimeError) as error:
        raise UserError(f"{path}: the checkpoint could not be written: {reason(error)}") from error


def load_checkpoint(path):
    """The checkpoint as plain data, checked for form; a UserError names the file and what is wrong with it."""
    if not path.is_file():
        raise UserError(f"{path}: no such checkpoint")
    try:
        content = flambeau.load(path)
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {reason(error)}") from error
    except Exception as error:  # whatever the reader finds in a damaged file
        raise UserError(f"{path}: not a checkpoint, or a damaged one: {reason(error)}") from error
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise UserError(f"{path}: not a checkpoint written by `flambeau train`")
    if content.get("version") != VERSION:
        raise UserError(f"{path}: checkpoint version {content.get('version')}, this flambeau reads {VERSION}")
    if content.get("task") not in NETWORKS:
        raise UserError(f"{path}: a checkpoint of {content.get('task')!r}, known are {', '.join(NETWORKS)}")
    for part, fields in PARTS.items():
        for name, (kind, least) in fields.items():
            value = content[part].get(name) if isinstance(content.get(part), dict) else None
            if not isinstance(value, kind) or (least is not None and value < least):
                raise UserError(f"{path}: the checkpoint's {part} lack {name!r}, or it is wrong")
    if NETWORKS[content["task"]] is Classifier and not is_model(content.get("model")):
        raise UserError(f"{path}: the checkpoint does not say which model it is of, for which classes and size")
    return content


def is_model(model):
    """Whether this says which vision model to build."""
    return (isinstance(model, dict) and set(model) == {"name", "classes", "size"} and isinstance(model["name"], str)
            and isinstance(model["classes"], list) and all(isinstance(name, str) for name in model["classes"])
            and len(model["classes"]) > 1 and isinstance(model["size"], int) and 0 < model["size"] <= 4096)


def load_network(path):
    """The trained network, ready to predict, and the name of its task."""
    content = load_checkpoint(path)
    network = build_network(content["task"], content.get("model"))
    try:
        network.load_state_dict(content["state"]["network"])
    except (RuntimeError, KeyError, TypeError, AttributeError) as error:
        raise UserError(f"{path}: does not fit the network of {content['task']}: {reason(error)}") from error
    return network.eval(), content["task"]
