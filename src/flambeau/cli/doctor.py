"""`flambeau doctor`: which names of PyTorch a program uses, and what becomes of them here. Nothing of it is run."""

import json
import os
import textwrap
from pathlib import Path

from ..as_torch import STATES, examined, sources
from .errors import UserError, reason

PROBLEMS = 1
_TITLES = {
    "missing": "missing: the program stops where it uses one",
    "refuses": "refuse: calling one raises an error",
    "expected": "missing, and the program is prepared for it (try, hasattr)",
    "differs": "differ",
    "here": "as in PyTorch",
}
_SHOWN = 30


def doctor(options):
    try:
        files = sources(options.target)
    except FileNotFoundError as error:
        raise UserError(reason(error)) from error
    if not files:
        raise UserError(f"{options.target}: no Python files in it")
    found, unread = examined(files)
    if len(files) == 1 and unread:
        raise UserError(f"{files[0]}: cannot be read: {next(iter(unread.values()))}")
    if options.json:
        print(json.dumps(as_data(found, files, unread), indent=1))
    else:
        report(found, files, unread, options)
    return PROBLEMS if any(each.state in ("missing", "refuses") for each in found) else 0


def counts(found):
    """{state: how many names}"""
    return {state: sum(each.state == state for each in found) for state in reversed(STATES)}


def as_data(found, files, unread):
    return {"files": len(files), "unread": unread, "counts": counts(found),
            "names": [{"name": each.name, "state": each.state, "note": each.note,
                       "uses": [{"file": file, "line": line} for file, line in each.uses]} for each in found]}


def report(found, files, unread, options):
    """The summary, then the names by what becomes of them, worst first."""
    used, many = sum(len(each.uses) for each in found), len(files)
    print(f"{options.target}: {number(len(found), 'name')} of PyTorch, used {number(used, 'time')} in "
          f"{number(many, 'file')}")
    print("  " + ", ".join(f"{count:,} {_TITLES[state].partition(':')[0].partition(',')[0]}" + " (expected)" *
                           (state == "expected") for state, count in counts(found).items() if count) + verdict(found))
    for file, why in unread.items():
        print(f"  not read: {file}: {why}")
    for state in reversed(STATES):
        names = [each for each in found if each.state == state]
        if names and (options.all or state not in ("here", "expected")):
            print(f"\n{_TITLES[state]}")
            listed(names, None if options.all else _SHOWN, Path(options.target))
    left = [state for state in ("expected", "here") if counts(found)[state]]
    if left and not options.all:
        print("\n--all lists every name, --json all of it as data")


def number(count, word):
    return f"{count:,} {word}{'s' * (count != 1)}"


def verdict(found):
    """What follows from the numbers, in a few words."""
    if any(each.state == "missing" for each in found):
        return ""
    refused = any(each.state == "refuses" for each in found)
    return ": it runs as long as it calls none that refuses" if refused else ": nothing stands in its way"


def listed(names, most, target):
    """Names with their first place; those with the same note stand together above it."""
    notes = {}
    for each in names[:most]:
        notes.setdefault(each.note, []).append(each)
    width = min(max((len(each.name) for each in names[:most]), default=0), 60)
    for note, group in notes.items():
        if note:
            print(textwrap.fill(note, 110, initial_indent="  * ", subsequent_indent="    "))
        for each in group:
            print(f"    {each.name:<{width}}  {place(each.uses, target)}")
    if most is not None and len(names) > most:
        print(f"  and {len(names) - most:,} more")


def place(uses, target):
    """`file:line`, and how many more there are."""
    file, line = uses[0]
    if target.is_dir():
        file = os.path.relpath(file, target)
    more = f" and {number(len(uses) - 1, 'time')} more" if len(uses) > 1 else ""
    return f"{file}:{line}{more}"
