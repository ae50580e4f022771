"""flambeau.signal: window functions for the analysis of signals."""

from . import windows as windows
