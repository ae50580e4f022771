"""flambeau.Stream and flambeau.Event, which make what the device at hand has: loading this brings CUDA's classes."""

from .._absent.streams import Event as Event
from .._absent.streams import Stream as Stream
from . import streams as streams
