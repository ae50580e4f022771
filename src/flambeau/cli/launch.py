"""`flambeau launch`: a program in several processes on this host, which serve it torch as `flambeau run` does."""

import os

from ..as_torch import environment
from ..distributed.run import get_args_parser, launched


def launch(arguments):
    """Runs a command line of the launcher; the exit code."""
    options = get_args_parser("flambeau launch").parse_args(arguments)
    os.environ.update(environment(os.environ))
    return launched(options)
