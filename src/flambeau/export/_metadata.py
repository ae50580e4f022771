"""What a file keeps of a step besides its call: the lines that made it, and the modules that it belongs to."""

import json


def write_metadata(node):
    """{word: text}."""
    meta, found = node.meta, {}
    if node.stack_trace:
        found["stack_trace"] = node.stack_trace
    if meta.get("nn_module_stack"):
        found["nn_module_stack"] = ";".join(f"{key},{path},{_type_text(kind)}"
                                            for key, (path, kind) in meta["nn_module_stack"].items())
    if meta.get("torch_fn"):
        found["torch_fn"] = ";".join(meta["torch_fn"])
    if meta.get("custom"):
        found["custom"] = json.dumps(meta["custom"])
    return found


def _type_text(kind):
    return kind if isinstance(kind, str) else f"{kind.__module__}.{kind.__qualname__}"


def read_metadata(data):
    """The entries of a Node's meta."""
    found = {}
    if isinstance(data.get("stack_trace"), str):
        found["stack_trace"] = data["stack_trace"]
    if data.get("nn_module_stack"):
        found["nn_module_stack"] = {key: (path, kind) for key, path, kind in map(_parts, str(
            data["nn_module_stack"]).split(";"))}
    if data.get("torch_fn"):
        found["torch_fn"] = tuple(str(data["torch_fn"]).split(";"))
    if data.get("custom"):
        found["custom"] = json.loads(data["custom"])
    return found


def _parts(text):
    """key, path and type; a path may have commas in brackets."""
    parts, depth, last = [], 0, 0
    for k, c in enumerate(text):
        depth += (c in "[(") - (c in ")]")
        if c == "," and not depth:
            parts.append(text[last:k])
            last = k + 1
    key, path, kind = *parts, text[last:]
    return key, path, kind
