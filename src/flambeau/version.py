"""The version, and what the build used."""

from ._version import __version__ as __version__

cuda = None
hip = None
xpu = None
git_version = "unknown"
debug = False
