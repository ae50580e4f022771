"""Says of each name on stdin what it is and which parameters it has, to whichever `torch` this Python imports.

Run as a file it needs nothing but `torch`, so that it asks PyTorch too. Prints JSON:
{name: null where there is none, else {"kind": …, "parameters": [[name, its kind], …] or null,
"rest": what of the name comes after a value, "refused": reason or null}}.
"""

import importlib
import inspect
import json
import sys
import warnings

MISSING = object()


def _member(found, name):
    """An attribute, without computing what properties of classes give; MISSING."""
    value = inspect.getattr_static(found, name, MISSING) if inspect.isclass(found) else MISSING
    return value if isinstance(value, property) else getattr(found, name, MISSING)


def resolve(name):
    """(what a dotted name stands for, what is left of the name): the name is followed as far as modules and classes go.

    What it stands for is MISSING where one of them has no such member.
    """
    parts = name.split(".")
    found = importlib.import_module(parts[0])
    for depth, part in enumerate(parts[1:], start=2):
        if not (inspect.ismodule(found) or inspect.isclass(found)):
            return found, parts[depth - 1:]
        value = _member(found, part)
        if value is MISSING and inspect.ismodule(found):
            try:
                value = importlib.import_module(".".join(parts[:depth]))
            except ModuleNotFoundError as error:
                if error.name is None or not f"{'.'.join(parts[:depth])}.".startswith(f"{error.name}."):
                    raise
        if value is MISSING:
            return MISSING, parts[depth - 1:]
        found = value
    return found, []


def parameters(found):
    """[[name, kind]] where Python knows them."""
    try:
        return [[p.name, p.kind.name] for p in inspect.signature(found).parameters.values()]
    except (TypeError, ValueError):
        return None


def reason_of(found):
    """Why a name refuses (`_absent` marks it); None for what is there."""
    reason = inspect.getattr_static(found, "_refused", None)
    return reason if isinstance(reason, str) else None


def described(name):
    """What is printed of a name; what stops an import is its kind, as "ImportError: …"."""
    try:
        found, rest = resolve(name)
    except Exception as error:
        return {"kind": f"{type(error).__name__}: {error}", "parameters": None, "refused": None, "rest": []}
    if found is MISSING:
        return None
    kind = "class" if inspect.isclass(found) else "callable" if callable(found) else "value"
    return {"kind": kind, "parameters": parameters(found) if kind != "value" else None, "rest": rest,
            "refused": reason_of(found)}


def main():
    warnings.simplefilter("ignore")
    print(json.dumps({name: described(name) for name in sys.stdin.read().split()}))


if __name__ == "__main__":
    main()
