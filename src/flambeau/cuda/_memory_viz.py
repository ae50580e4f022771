"""Pictures of snapshots of memory: not made here, and what to do instead."""

from .._absent import refusals

globals().update(refusals("cuda._memory_viz", "pictures of memory are drawn by pytorch.org/memory_viz; drop a file of "
                          "cuda.memory._dump_snapshot there, or read cuda.memory_snapshot() and memory_summary()", """
    trace_plot(data, device, plot_segments) segment_plot(data, device) profile_plot(profile, device) memory(data)
    segments(data) segsum(data) trace(data) compare(before, after)
"""))
