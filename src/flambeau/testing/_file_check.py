"""FileCheck: what a text must contain, and in which order; each check begins where the one before ended."""

import re
import warnings
from itertools import groupby
from typing import NamedTuple

from .._shown import shown


class _Check(NamedTuple):
    kind: str
    text: str
    count: int = 1

    def __str__(self):
        call = f"check_{self.kind}" if self.kind else "check"
        return f"{call}({shown(self.text)}{f', {self.count}' if self.kind == 'count' else ''})"


# --- where a check matches: function(check, text, at) -> (start, end); None where it does not -------------------------

def _anywhere(check, text, at):
    start = text.find(check.text, at)
    return None if start < 0 else (start, start + len(check.text))


def _line_end(text, at):
    end = text.find("\n", at)
    return len(text) if end < 0 else end


def _same_line(check, text, at):
    start = text.find(check.text, at, _line_end(text, at))
    return None if start < 0 else (start, start + len(check.text))


def _next_line(check, text, at):
    line = _line_end(text, at) + 1
    return _same_line(check, text, line) if line <= len(text) else None


def _count_times(check, text, at):
    first = end = None
    for _ in range(check.count):
        found = _anywhere(check, text, at if end is None else end)
        if found is None:
            return None
        first, end = found[0] if first is None else first, found[1]
    return first, end


def _expression(check, text, at):
    found = re.compile(check.text).search(text, at)
    return found and found.span()


def _highlighted(check, text, at):
    """The first match under whose whole width, and no further, the following line has `~`."""
    while (found := _anywhere(check, text, at)) is not None:
        start, end = found
        left, below = start - (text.rfind("\n", 0, start) + 1), _line_end(text, start) + 1
        marks = text[below:_line_end(text, below)]
        if any(m.span() == (left, left + end - start) for m in re.finditer("~+", marks)):
            return found
        at = start + 1
    return None


_FINDERS = {  # kind -> (what finds it, what the text should have had)
    "": (_anywhere, "is not in the text from {} on"),
    "dag": (_anywhere, "is not in the text from {} on"),
    "count": (_count_times, "is not that many times in the text from {} on"),
    "same": (_same_line, "is not on the rest of {}"),
    "next": (_next_line, "is not on the line after {}"),
    "regex": (_expression, "matches nothing in the text from {} on"),
    "source_highlighted": (_highlighted, "is not underlined with ~ anywhere from {} on"),
}


# --- the text as a whole ----------------------------------------------------------------------------------------------

def _fail(check, what, text, at):
    number = text.count("\n", 0, at) + 1
    lines = "\n".join(f"{'>' if n == number else ' '} {n:3} {line}" for n, line in enumerate(text.split("\n"), 1))
    raise RuntimeError(f"FileCheck: {check} {what.format(f'line {number}')}\n{lines}")


def _find(check, text, at):
    finder, otherwise = _FINDERS[check.kind]
    return finder(check, text, at) or _fail(check, otherwise, text, at)


def _walk(checks, text):
    """Each check is looked for behind the one before; neighbours that are `dag` begin at the same place."""
    at, unwanted = 0, []
    for _, group in groupby(enumerate(checks), lambda pair: pair[1].kind if pair[1].kind == "dag" else pair[0]):
        group = [check for _, check in group]
        if group[0].kind == "not":
            unwanted += group
            continue
        spans = [_find(check, text, at) for check in group]
        _absent(unwanted, text, at, min(start for start, _ in spans))
        at, unwanted = max(end for _, end in spans), []
    _absent(unwanted, text, at, len(text))


def _absent(checks, text, begin, end):
    for check in checks:
        found = text.find(check.text, begin, end)
        if found >= 0:
            _fail(check, "is on {}, between its neighbours", text, found)


# --- checks that are written as comments ------------------------------------------------------------------------------

_COMMENT = re.compile(r"(?:^|(?<=[^#]))# *CHECK(?!\w)(.*)")
_KIND = re.compile(r"(?:-(?P<kind>NOT|SAME|NEXT|DAG|REGEX|SOURCE-HIGHLIGHTED)"
                   r"|-COUNT-(?P<exactly>EXACTLY-)?(?P<count>\d+))?: (?P<text>.+)")


def _commented(line, rest):
    """The checks that `# CHECK` and `rest` stand for."""
    found = _KIND.fullmatch(rest)
    if found is None:
        raise RuntimeError(f"FileCheck: {shown(line.strip())} is no check; write '# CHECK: text', or CHECK-NOT, -SAME, "
                           "-NEXT, -DAG, -REGEX, -COUNT-2, -COUNT-EXACTLY-2, -SOURCE-HIGHLIGHTED")
    if found["count"]:
        return _counted(found["text"], int(found["count"]), bool(found["exactly"]))
    return [_Check((found["kind"] or "").lower().replace("-", "_"), found["text"])]


def _counted(text, count, exactly):
    if count < 0 or (count == 0 and not exactly):
        raise RuntimeError(f"FileCheck: check_count({shown(text)}, {count}) asks for nothing; count must be positive, "
                           "or 0 with exactly=True")
    at_least = [_Check("count", text, count)] if count else []
    return at_least + [_Check("not", text)] * exactly


def _text_of(value):
    """A text as it is, a graph as it prints."""
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, str) or hasattr(value, "nodes"):
        return str(value)
    raise TypeError(f"FileCheck.run: a text or a graph is checked, got {type(value).__name__}")


class FileCheck:
    """Checks that must hold one behind the other in a text: RuntimeError from `run` where one does not.

    >>> from flambeau.testing import FileCheck
    >>> FileCheck().check("def f").check_next("return").check_not("mul").run("def f(x):\\n    return x + 1")
    >>> FileCheck().run("# CHECK: b", "a\\nc")
    Traceback (most recent call last):
    RuntimeError: FileCheck: check('b') is not in the text from line 1 on
    >   1 a
        2 c
    """

    def __init__(self):
        self._checks, self._ran = [], False

    def _add(self, *checks):
        for check in checks:
            if not isinstance(check.text, str):
                raise TypeError(f"FileCheck: a check takes a text, got {shown(check.text)}")
        self._checks += checks
        return self

    def check(self, text, /):
        """`text` comes, anywhere behind the match before."""
        return self._add(_Check("", text))

    def check_not(self, text, /):
        """`text` does not come between the matches of the checks before and after this one."""
        return self._add(_Check("not", text))

    def check_same(self, text, /):
        """`text` comes on the line where the match before ends."""
        return self._add(_Check("same", text))

    def check_next(self, text, /):
        """`text` comes on the line after the one where the match before ends."""
        return self._add(_Check("next", text))

    def check_count(self, str, count, exactly=False):
        """`str` comes `count` times; exactly: and not again before the match of the next check."""
        return self._add(*_counted(str, count, exactly))

    def check_dag(self, text, /):
        """`text` comes, in any order with the neighbours that are `check_dag` too."""
        return self._add(_Check("dag", text))

    def check_regex(self, pattern, /):
        """Something comes that the regular expression matches."""
        return self._add(_Check("regex", pattern))

    def check_source_highlighted(self, text, /):
        """`text` comes, and on the line below it `~` under each of its characters and not beside them."""
        return self._add(_Check("source_highlighted", text))

    def run(self, checks_file, test_file=None):
        """Checks a text or a graph; with two arguments the second, also by the `# CHECK` comments in the first."""
        self._ran = True
        if test_file is None:
            checks_file, test_file = "", checks_file
        for line in _text_of(checks_file).split("\n"):
            if found := _COMMENT.search(line):
                self._add(*_commented(line, found[1]))
        if not self._checks:
            raise RuntimeError("FileCheck.run: there is nothing to check; add a check, or write '# CHECK: text' in the "
                               "text of checks")
        _walk(self._checks, _text_of(test_file))

    def __del__(self):
        if not getattr(self, "_ran", True):
            warnings.warn(f"a FileCheck was never run; its checks were {', '.join(map(str, self._checks)) or 'none'}",
                          stacklevel=2)
