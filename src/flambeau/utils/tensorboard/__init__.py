"""Event files for TensorBoard: what a training run writes down, in the files that its web page shows.

The package `tensorboard` defines the files and writes them (`pip install 'flambeau[tensorboard]'`); it is imported when
the first writer is made.
"""

from ..._shown import shown
from . import summary as summary
from .writer import FileWriter as FileWriter
from .writer import SummaryWriter as SummaryWriter


def __getattr__(name):
    if name == "RecordWriter":
        return summary.protos().RecordWriter
    raise AttributeError(f"module {__name__!r} has no attribute {shown(name)}")
