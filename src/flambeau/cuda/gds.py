"""Files that the device reads itself (GPUDirect Storage): not available, and what to do instead."""

from .._absent import refusals

globals().update(refusals("cuda.gds", "files are read by the CPU; read into pinned memory and copy with "
                          "non_blocking=True", """
    gds_register_buffer(s) gds_deregister_buffer(s) GdsFile(filename, flags)
"""))
