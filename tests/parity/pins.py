"""What differs from PyTorch, and why: the lists differ_*.txt, which say all of it and nothing that agrees.

In a list a line `# reason` is followed by the cases that it explains; cases that differ in their number only share a
line, as `name [form dtype 0,4,6] what differs`. A comparison fails on a case that its list does not have, and on a
listed one that no longer differs (but a reason may begin with `may differ:`, where processors decide). `--pin` of the
commands writes a list anew: known cases keep their reasons, others come under UNEXPLAINED, and no test accepts a list
with that heading.
"""

import re
from pathlib import Path

UNEXPLAINED = "UNEXPLAINED"
NUMBERED = re.compile(r"(.*?)(\d+)(\].*)")


def path_of(name):
    return Path(__file__).with_name(f"differ_{name}.txt")


def read(name):
    """{case: reason}"""
    found, reason = {}, UNEXPLAINED
    for line in path_of(name).read_text().splitlines() if path_of(name).exists() else ():
        if line.startswith("# "):
            reason = line[2:]
        elif line:
            found |= dict.fromkeys(expanded(line), reason)
    return found


def expanded(line):
    numbers = re.search(r"(\d+(?:,\d+)+)\]", line)
    if not numbers:
        return [line]
    return [line[:numbers.start()] + n + line[numbers.end(1):] for n in numbers[1].split(",")]


def grouped(cases):
    """The lines of a list: one for the cases that differ in their number only."""
    lines = {}
    for case in cases:
        match = NUMBERED.fullmatch(case)
        head, number, tail = match.groups() if match else (case, None, "")
        lines.setdefault((head, tail), []).append(number)
    for (head, tail), numbers in sorted(lines.items()):
        yield head + ",".join(sorted(filter(None, numbers), key=int)) + tail


def problems(name, found, ran=lambda case: True):
    """What a comparison must complain about. found: {case: what differs}; ran: whether a case was compared at all."""
    known = read(name)
    lines = [f"new: {case}: {text}" for case, text in found.items() if case not in known]
    lines += [f"differs no longer, so shorten {path_of(name).name}: {case}" for case, reason in known.items()
              if case not in found and ran(case) and not reason.startswith("may differ:")]
    return lines + [f"without a reason: {case}" for case, reason in known.items() if reason == UNEXPLAINED]


def write(name, found, ran=lambda case: True):
    """Writes the list anew from what was found; cases that were not compared this time stay."""
    known = read(name)
    reasons = {}
    kept = (c for c, reason in known.items() if c not in found and (not ran(c) or reason.startswith("may differ:")))
    for case in [*found, *kept]:
        reasons.setdefault(known.get(case, UNEXPLAINED), []).append(case)
    blocks = ["\n".join([f"# {reason}", *grouped(cases)]) for reason, cases in sorted(reasons.items())]
    path_of(name).write_text("\n\n".join(blocks) + "\n")
