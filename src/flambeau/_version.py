"""The version, in one place: read by the build and by `flambeau.__version__`."""

__version__ = "0.1.0"
