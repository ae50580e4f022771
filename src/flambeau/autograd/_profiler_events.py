"""Recorded events as users read them: one object per call, averages by name, the table, and the Chrome trace."""

import json
import os
from collections import defaultdict

from .. import _C
from .._shown import shown

_ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


class Interval:
    """Microseconds since the profiler started."""

    def __init__(self, start, end):
        self.start, self.end = start, end

    def elapsed_us(self):
        return self.end - self.start


class FunctionEvent:
    """One call: an operator, a node of a backward pass, or a `record_function` range."""

    device_time_total = self_device_time_total = device_memory_usage = self_device_memory_usage = 0
    is_async = False
    overload_name = ""  # an operator is recorded under one name

    def __init__(self, number, row, origin):
        name, begin, end, memory, _, thread, sequence, shapes, stack, modules = row
        self.id, self.name, self.key, self.thread = number, name, name, thread
        self.time_range = Interval((begin - origin) / 1000, (end - origin) / 1000)
        self.cpu_memory_usage = self.self_cpu_memory_usage = memory
        self.input_shapes = [] if shapes is None else [_plain(s) for s in shapes]
        self.stack = [] if stack is None else [_line(code, line) for code, line in stack]
        self.module_hierarchy = modules or []
        self.sequence_nr = sequence or -1
        self.count, self.flops = 1, 0
        self.cpu_children, self.cpu_parent = [], None
        self.self_cpu_time_total = self.cpu_time_total

    @property
    def cpu_time_total(self):
        return self.time_range.elapsed_us()

    cpu_time = cpu_time_total

    def __repr__(self):
        return f"<FunctionEvent id={self.id} name={self.name} cpu_time={time_text(self.cpu_time_total)}>"


def _plain(shape):
    return [_plain(s) if isinstance(s, (list, tuple)) else s for s in shape]


def _line(code, line):
    return f"{code.co_filename}({line}): {code.co_name}"


def _product(shape):
    n = 1
    for s in shape:
        n *= s
    return n


def _matrix_flops(shapes):
    a, b = shapes[0], shapes[1]
    return 2 * _product(a) * (b[-1] if len(b) > 1 else 1)


def _linear_flops(shapes):
    return 2 * _product(shapes[0]) * shapes[1][0]


def _added_flops(shapes):
    return _matrix_flops(shapes[1:])


def _pointwise_flops(shapes):
    return max(_product(s) for s in shapes[:2])


#: floating point operations by the arguments' shapes, where that is well defined
FLOPS = {"aten::matmul": _matrix_flops, "aten::mm": _matrix_flops, "aten::bmm": _matrix_flops,
         "aten::linear": _linear_flops, "aten::addmm": _added_flops, "aten::baddbmm": _added_flops,
         "aten::mul": _pointwise_flops, "aten::add": _pointwise_flops}


def events_of(rows, origin, with_flops=False):
    """The EventList of what native code recorded."""
    events = EventList(FunctionEvent(k, row, origin) for k, row in enumerate(rows))
    for event, row in zip(events, rows, strict=True):
        parent = row[4]
        if parent >= 0:
            event.cpu_parent = events[parent]
            events[parent].cpu_children.append(event)
            events[parent].self_cpu_time_total -= event.cpu_time_total
            events[parent].self_cpu_memory_usage -= event.cpu_memory_usage
    if with_flops:
        for event in events:
            if event.name in FLOPS and event.input_shapes:
                event.flops = FLOPS[event.name](event.input_shapes)
    return events


class FunctionEventAvg:
    """All calls of one name (and of the same shapes or lines, when grouped so)."""

    device_time_total = self_device_time_total = device_memory_usage = self_device_memory_usage = device_time = 0

    def __init__(self, event, with_shapes, stack):
        self.key, self.stack = event.key, stack
        self.input_shapes = event.input_shapes if with_shapes else []
        self.count = 0
        self.cpu_time_total = self.self_cpu_time_total = 0
        self.cpu_memory_usage = self.self_cpu_memory_usage = 0
        self.flops = 0

    def add(self, event):
        for name in ("count", "cpu_time_total", "self_cpu_time_total", "cpu_memory_usage", "self_cpu_memory_usage",
                     "flops"):
            setattr(self, name, getattr(self, name) + getattr(event, name))
        return self

    @property
    def cpu_time(self):
        return self.cpu_time_total / self.count if self.count else 0

    def __repr__(self):
        return (f"<FunctionEventAvg key={self.key} self_cpu_time={time_text(self.self_cpu_time_total)} "
                f"cpu_time={time_text(self.cpu_time)} count={self.count}>")


class EventList(list):
    """The recorded events in the order they began, or their averages."""

    self_cpu_time_total = property(lambda self: sum(e.self_cpu_time_total for e in self))

    def key_averages(self, group_by_input_shape=False, group_by_stack_n=0, group_by_overload_name=False):
        """One FunctionEventAvg per name."""
        groups = {}
        for event in self:
            stack = [s for s in event.stack if not s.startswith(_ROOT)][:group_by_stack_n]
            overload = event.overload_name if group_by_overload_name else ""
            key = (event.key, overload, str(event.input_shapes) if group_by_input_shape else "", tuple(stack))
            if key not in groups:
                groups[key] = FunctionEventAvg(event, group_by_input_shape, stack)
            groups[key].add(event)
        return EventList(groups.values())

    def total_average(self):
        """Everything as one FunctionEventAvg, its total time that of the calls themselves."""
        total = None
        for event in self:
            total = total or FunctionEventAvg(event, False, [])
            total.add(event)
        if total:
            total.key, total.cpu_time_total = "Total", total.self_cpu_time_total
        return total

    def table(self, sort_by=None, row_limit=100, max_src_column_width=75, max_name_column_width=55,
              max_shapes_column_width=80, header=None, top_level_events_only=False, time_unit=None):
        """The events as text, largest `sort_by` first (cpu_time_total, self_cpu_time_total, count, …)."""
        rows = [e for e in self if not (top_level_events_only and getattr(e, "cpu_parent", None))]
        if sort_by is not None:
            key = sort_by.replace("cuda", "device")
            if rows and not hasattr(rows[0], key):
                raise AttributeError(f"table: sort_by={shown(sort_by)} is not one of cpu_time, cpu_time_total, "
                                     "self_cpu_time_total, cpu_memory_usage, self_cpu_memory_usage, count")
            rows.sort(key=lambda e: getattr(e, key), reverse=True)
        total = self.self_cpu_time_total
        columns = _columns(rows, total, max_name_column_width, max_shapes_column_width, max_src_column_width,
                           time_unit)
        printed = rows if row_limit < 0 else rows[:row_limit]
        text = _aligned([name for name, _ in columns], [[f(e) for _, f in columns] for e in printed])
        return f"{header + chr(10) if header else ''}{text}\nSelf CPU time total: {time_text(total)}\n"

    def __str__(self):
        return self.table()

    def export_chrome_trace(self, path):
        """A JSON file that chrome://tracing and Perfetto open."""
        with open(path, "w") as out:
            json.dump(chrome_trace(self), out)

    def export_stacks(self, path, metric="self_cpu_time_total"):
        """One line per stack, `outer;…;inner microseconds`, for flame graphs."""
        times = defaultdict(float)
        for event in self:
            if event.stack:
                times[";".join(reversed(event.stack)).replace(" ", "_")] += getattr(event, metric)
        with open(path, "w") as out:
            out.writelines(f"{stack} {int(t)}\n" for stack, t in times.items() if int(t) > 0)


def _columns(rows, total, name_width, shape_width, source_width, unit):
    def share(x):
        return f"{100 * x / total:.2f}%" if total else "nan"

    def cut(text, width):
        return text if width is None or len(text) <= width else text[:width - 3] + "..."
    columns = [("Name", lambda e: cut(e.key, name_width)),
               ("Self CPU %", lambda e: share(e.self_cpu_time_total)),
               ("Self CPU", lambda e: time_text(e.self_cpu_time_total, unit)),
               ("CPU total %", lambda e: share(e.cpu_time_total)),
               ("CPU total", lambda e: time_text(e.cpu_time_total, unit)),
               ("CPU time avg", lambda e: time_text(e.cpu_time, unit))]
    if any(e.cpu_memory_usage for e in rows):
        columns += [("CPU Mem", lambda e: memory_text(e.cpu_memory_usage)),
                    ("Self CPU Mem", lambda e: memory_text(e.self_cpu_memory_usage))]
    columns.append(("# of Calls", lambda e: str(e.count)))
    if any(e.input_shapes for e in rows):
        columns.append(("Input Shapes", lambda e: cut(str(e.input_shapes), shape_width)))
    if any(e.flops for e in rows):
        columns.append(("Total MFLOPs", lambda e: f"{e.flops / 1e6:.3f}" if e.flops else "--"))
    if any(e.stack for e in rows):
        columns.append(("Source Location", lambda e: cut(next(iter(e.stack), ""), source_width)))
    return columns


def _aligned(names, rows):
    widths = [max(len(n), *(len(r[k]) for r in rows)) if rows else len(n) for k, n in enumerate(names)]
    bar = "  ".join("-" * w for w in widths)
    lines = ["  ".join(cell.rjust(w) for cell, w in zip(row, widths, strict=True)) for row in (names, *rows)]
    return "\n".join([bar, lines[0], bar, *lines[1:], bar])


def time_text(us, unit=None):
    """Microseconds with a unit that fits."""
    if unit == "s" or (unit is None and us >= 1e6):
        return f"{us / 1e6:.3f}s"
    if unit == "ms" or (unit is None and us >= 1e3):
        return f"{us / 1e3:.3f}ms"
    return f"{us:.3f}us"


def memory_text(count):
    """Bytes with a unit that fits."""
    for unit, size in (("GB", 1 << 30), ("MB", 1 << 20), ("KB", 1 << 10)):
        if abs(count) >= size:
            return f"{count / size:.2f} {unit}"
    return f"{count} B"


def chrome_trace(events, metadata=None):
    """The Trace Event Format: complete events with times in microseconds."""
    pid = os.getpid()
    rows = [{"ph": "M", "pid": pid, "tid": 0, "name": "process_name", "args": {"name": "flambeau"}}]
    for e in events:
        args = {"External id": e.id}
        if e.input_shapes:
            args["Input Dims"] = e.input_shapes
        if e.stack:
            args["Call stack"] = ";".join(e.stack)
        if e.module_hierarchy:
            args["Module Hierarchy"] = ".".join(e.module_hierarchy)
        if e.cpu_memory_usage:
            args["Bytes"] = e.cpu_memory_usage
        if e.sequence_nr >= 0:
            args["Sequence number"] = e.sequence_nr
        rows.append({"ph": "X", "cat": "cpu_op" if e.name.startswith("aten::") else "user_annotation", "name": e.name,
                     "pid": pid, "tid": e.thread % (1 << 31), "ts": e.time_range.start,
                     "dur": e.time_range.elapsed_us(), "args": args})
    return {"schemaVersion": 1, "displayTimeUnit": "ms", **(metadata or {}), "traceEvents": rows}


def supported():
    """Whether this build can profile: always."""
    return hasattr(_C, "profile_start")
