"""Checkpoints of the command: written whole or not at all, and read with suspicion."""

import flambeau

from .errors import UserError, reason
from .networks import NETWORKS

FORMAT = "flambeau training checkpoint"
VERSION = 1
SETTINGS = {"epochs": int, "batch_size": int, "lr": float, "seed": int}
STATE = {"epoch": int, "batch": int, "network": dict, "optimizer": dict, "schedule": dict, "history": list}


def save_checkpoint(path, training):
    """Replaces `path` in one move: at any moment there is a complete checkpoint, the old one or the new one."""
    content = {
        "format": FORMAT,
        "version": VERSION,
        "task": training.task.name,
        "fingerprint": training.task.fingerprint,
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
    for part, fields in (("settings", SETTINGS), ("state", STATE)):
        for name, kind in fields.items():
            if not isinstance(content.get(part, {}).get(name), kind):
                raise UserError(f"{path}: the checkpoint's {part} lack {name!r} or have a wrong one")
    return content


def load_network(path):
    """The trained network, ready to predict, and the name of its task."""
    content = load_checkpoint(path)
    network = NETWORKS[content["task"]]()
    try:
        network.load_state_dict(content["state"]["network"])
    except (RuntimeError, KeyError, TypeError, AttributeError) as error:
        raise UserError(f"{path}: does not fit the network of {content['task']}: {reason(error)}") from error
    return network.eval(), content["task"]
