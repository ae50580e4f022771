"""Errors of the command: one line that names the file or option, and exit code 2."""

import textwrap

INTERRUPTED = 130  # what a shell expects of a program that Ctrl-C ended


class UserError(Exception):
    """A mistake or a lack on the user's side; the text is all the user sees."""


def reason(error):
    """The system's own words for an OSError ("No space left on device"), or the error's text, on one short line."""
    text = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return textwrap.shorten(text, 300, placeholder=" …")
