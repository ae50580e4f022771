"""What this is a version of, and what it was built with."""

from ._version import __version__ as __version__

cuda = None
hip = None
xpu = None
git_version = "unknown"
debug = False
