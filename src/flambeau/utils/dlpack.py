"""DLPack by its older module name."""

from ..interchange import DLDeviceType as DLDeviceType
from ..interchange import from_dlpack as from_dlpack
from ..interchange import to_dlpack as to_dlpack
