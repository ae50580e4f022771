"""The version, which the build reads here, and what the build used."""

__version__ = "0.1.0"
cuda = None
hip = None
xpu = None
git_version = "unknown"
debug = False
