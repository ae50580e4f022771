"""Processes that are started together, and what is known of one that fails."""

from . import multiprocessing as multiprocessing
from . import utils as utils
