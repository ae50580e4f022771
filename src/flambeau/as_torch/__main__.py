"""`python -m flambeau.as_torch …` is `python …` in which torch is this library."""

import sys

from ._run import run

if __name__ == "__main__":
    run(sys.argv[1:])
