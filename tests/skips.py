"""Which tests of the default run may be skipped: the list skips.txt; every other skip is a failure.

A test that stops comparing anything would otherwise go unnoticed. `pytest --pin-skips …` writes the list anew for the
tests that it runs. A line is a test, the reason, and the parameters it is skipped with (`-` for none). A line that
begins with `may` is a pattern of tests that depend on what a machine has.
"""

import fnmatch
import re
from functools import cache
from pathlib import Path

FILE = Path(__file__).with_name("skips.txt")


def split(nodeid):
    """("tests/a.py::test_b", "parameters")."""
    test, _, parameters = nodeid.partition("[")
    return test, parameters.removesuffix("]").replace(" ", "_") or "-"


@cache
def read():
    """({(test, parameters): reason}, [patterns of tests that may be skipped])."""
    pinned, may = {}, []
    for line in FILE.read_text().splitlines():
        if line.startswith("may\t"):
            may.append(line.split("\t")[1])
        elif line and not line.startswith("#"):
            test, reason, cases = line.split("\t")
            pinned |= {(test, case): reason for case in cases.split(" ")}
    return pinned, may


def reason_of(report):
    text = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return " ".join(text.removeprefix("Skipped: ").split())


def judge(report):
    """Makes a failure of a skip that is not listed, and of a listed one that did not happen."""
    pinned, may = read()
    if hasattr(report, "wasxfail") or any(fnmatch.fnmatch(report.nodeid, pattern) for pattern in may):
        return
    listed = split(report.nodeid) in pinned
    if report.skipped and not listed:
        problem = f"skipped ({reason_of(report)}), which tests/skips.txt does not list: does it still test anything?"
    elif report.passed and report.when == "call" and listed:
        problem = "is listed in tests/skips.txt and is no longer skipped: write the list anew (pytest --pin-skips)"
    else:
        return
    report.outcome, report.longrepr = "failed", f"{report.nodeid} {problem}"


class Pins:
    """Collects the skips of a run, and writes the list anew for the tests that ran."""

    def __init__(self):
        self.ran, self.skipped = set(), {}

    def pytest_runtest_logreport(self, report):
        if report.when == "call" or report.skipped:
            self.ran.add(split(report.nodeid))
        if report.skipped and not hasattr(report, "wasxfail"):
            self.skipped[split(report.nodeid)] = re.sub(r"\s+", " ", reason_of(report))

    def pytest_sessionfinish(self):
        kept = {case: why for case, why in read()[0].items() if case not in self.ran}
        may = [line for line in FILE.read_text().splitlines() if line.startswith(("#", "may\t"))]
        patterns = [line.split("\t")[1] for line in may if line.startswith("may\t")]
        groups = {}
        for (test, case), reason in (kept | self.skipped).items():
            nodeid = test if case == "-" else f"{test}[{case}]"
            if not any(fnmatch.fnmatch(nodeid, pattern) for pattern in patterns):
                groups.setdefault((test, reason), []).append(case)
        lines = ["\t".join((*key, " ".join(sorted(cases)))) for key, cases in sorted(groups.items())]
        FILE.write_text("\n".join([*may, *lines, ""]))
