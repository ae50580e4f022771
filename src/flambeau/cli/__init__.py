"""The `flambeau` command."""

from .main import main as main

__all__ = ["main"]
