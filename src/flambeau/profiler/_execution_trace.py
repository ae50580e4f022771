"""ExecutionTraceObserver: which operators ran on which tensors, as the JSON of PyTorch's execution traces.

Calls are seen by two modes below all others of the thread that starts the observer: one is told of operators as
programs call them, one of the primitives that they are made of; ranges of `record_function` come between.
"""

import contextlib
import json
import os
import tempfile
import threading
import time

from .. import _C
from .._tensor.overriding import TorchDispatchMode, TorchFunctionMode, _modes, _update
from ..autograd.profiler import listeners

_SCHEMA = "1.1.1-chakra.0.0.4"
_OPERATOR, _RANGE = 0, 7  # scopes
_TYPES = {bool: "Bool", int: "Int", float: "Double", complex: "ComplexDouble", str: "String", type(None): "None",
          _C.device: "Device", _C.Generator: "Generator"}
_DTYPES = {"float32": "float", "float64": "double", "float16": "c10::Half", "bfloat16": "c10::BFloat16",
           "int64": "long int", "int32": "int", "int16": "short int", "int8": "signed char", "uint8": "unsigned char",
           "bool": "bool", "complex64": "c10::complex<float>", "complex128": "c10::complex<double>"}
_NOTHING = {"values": [], "shapes": [], "types": [], "strides": []}


class ExecutionTraceObserver:
    """Writes every operator of this thread, between start() and stop(), with the shapes, types and places in memory of
    its arguments and results, to the file that register_callback names. `profile` takes one and starts and stops it.

    >>> import flambeau, json, tempfile
    >>> file = tempfile.NamedTemporaryFile("r")
    >>> observer = flambeau.profiler.ExecutionTraceObserver().register_callback(file.name)
    >>> observer.start()
    >>> x = flambeau.ones(2) + 1
    >>> observer.stop(), observer.unregister_callback()
    (None, None)
    >>> [node["name"] for node in json.load(file)["nodes"]][1:-1]
    ['aten::ones', 'aten::add']
    >>> file.close()
    """

    def __init__(self):
        self._path, self._trace, self._running = None, None, False
        self.extra_resources_collection = False

    def register_callback(self, output_file_path):
        """Names the file, which is written by `unregister_callback`; returns the observer."""
        if self._trace is None:
            self._path, self._trace = os.fspath(output_file_path), _Trace()
        return self

    def unregister_callback(self):
        """Stops, and writes the file."""
        self.stop()
        trace, self._trace = self._trace, None
        if trace is not None:
            with open(self._path, "w", encoding="utf-8") as file:
                json.dump(trace.content(), file, indent=2)

    def cleanup(self):
        """`unregister_callback`."""
        self.unregister_callback()

    def start(self):
        """Begins to observe, where a file is named."""
        if self._trace is not None and not self._running:
            self._running = True
            self._trace.begin()

    def stop(self):
        """Observes no more until it is started again."""
        if self._running:
            self._running = False
            self._trace.end()

    @property
    def is_registered(self):
        """Whether a file is named that is not written yet."""
        return self._trace is not None

    def is_running(self):
        """Whether it observes."""
        return self._running

    def get_output_file_path(self):
        """The file; None before one is named."""
        return self._path

    def set_extra_resource_collection(self, val):
        """Whether a folder for further files is made beside the trace; nothing is generated that would lie in it."""
        self.extra_resources_collection = val
        if val:
            self.get_resources_dir(can_create=True)

    def get_resources_dir(self, can_create=False):
        """The folder beside the trace, where one is wanted; None without."""
        if self._path is None or not self.extra_resources_collection:
            return None
        return self.get_resources_dir_for_et_path(self._path, create_dir=can_create)

    @staticmethod
    def get_resources_dir_for_et_path(trace_path, create_dir=False):
        """The folder that belongs to a trace: its name with "_resources"; None where it is not there."""
        folder = f"{os.path.splitext(trace_path)[0]}_resources"
        if create_dir:
            with contextlib.suppress(OSError):
                os.makedirs(folder, exist_ok=True)
        return folder if os.path.isdir(folder) else None

    @staticmethod
    def build_execution_trace_obs_from_env():
        """An observer of a temporary file where $ENABLE_PYTORCH_EXECUTION_TRACE is 1; else None."""
        if os.environ.get("ENABLE_PYTORCH_EXECUTION_TRACE", "0") != "1":
            return None
        handle, path = tempfile.mkstemp(".et.json")
        os.close(handle)
        made = ExecutionTraceObserver().register_callback(path)
        if os.environ.get("ENABLE_PYTORCH_EXECUTION_TRACE_EXTRAS", "0") == "1":
            made.set_extra_resource_collection(True)
        return made


class _Trace:
    """The nodes so far. Numbers of nodes, tensors and memories are of one kind; those of tensors that are gone come
    again."""

    def __init__(self):
        self.nodes, self.numbers, self.last, self.calls, self.open = [], {}, 1, 0, []
        self.parents, self.started = [], time.monotonic()
        self.when = time.strftime("%Y-%m-%d %H:%M:%S")
        self.root = self.number()
        self._add(self.root, "[pytorch|profiler|execution_trace|thread]", 1, _RANGE, _NOTHING, _NOTHING, "", 0, -1)
        self.parents.append(self.root)
        self.modes = (_Functions(self), _Primitives(self))

    def number(self):
        self.last += 1
        return self.last

    def begin(self):
        self.thread = threading.get_ident()
        for mode, stack in zip(self.modes, (_modes.function, _modes.dispatch)):
            stack.insert(0, mode)
        _update()
        listeners.append(self.ranged)

    def end(self):
        for mode, stack in zip(self.modes, (_modes.function, _modes.dispatch)):
            stack.remove(mode)
        _update()
        listeners.remove(self.ranged)

    def content(self):
        process = self._node(1, "[pytorch|profiler|execution_trace|process]", 1, _RANGE, _NOTHING, _NOTHING, "", 0, -1)
        return {"schema": _SCHEMA, "pid": os.getpid(), "time": self.when, "start_ts": int(self.started * 1000),
                "nodes": [*self.nodes, process], "finish_ts": int(time.monotonic() * 1000)}

    # ---- what runs

    def ranged(self, name, entering):
        """A range of record_function begins or ends."""
        if threading.get_ident() != self.thread:
            return
        if entering:
            self.parents.append((self.number(), name, self._call()))
        elif isinstance(self.parents[-1], tuple):
            number, name, call = self.parents.pop()
            self._add(number, name, self._parent(), _RANGE, _NOTHING, _NOTHING, "", call, -1)

    def called(self, name, schema, function, args, kwargs):
        """Runs an operator, and adds its node when it is over."""
        number, call, inputs = self.number(), self._call(), self.described([*args, *kwargs.values()])
        self.parents.append(number)
        self.open.append(found := {"name": name, "inputs": inputs})
        try:
            result = function(*args, **kwargs)
        finally:
            self.parents.pop()
            self.open.pop()
        node = getattr(result[0] if isinstance(result, (tuple, list)) and result else result, "grad_fn", None)
        outputs = self.described(list(result) if type(result) is tuple else [result])
        order = -1 if node is None else node._sequence_nr()
        self._add(number, name, self._parent(), _OPERATOR, found["inputs"], outputs, schema, call, order)
        return result

    def computed(self, name, schema, function, args, kwargs):
        """Runs a primitive. One that was called by its name has a node already, which learns its arguments in full."""
        if not self.open or self.open[-1]["name"] != name:
            return self.called(name, schema, function, args, kwargs)
        self.open[-1]["inputs"] = self.described([*args, *kwargs.values()])
        return function(*args, **kwargs)

    def _call(self):
        self.calls += 1
        return self.calls

    def _parent(self):
        last = self.parents[-1]
        return last[0] if isinstance(last, tuple) else last

    def _add(self, *fields):
        self.nodes.append(self._node(*fields))

    @staticmethod
    def _node(number, name, parent, scope, inputs, outputs, schema, call, order):
        attributes = [("rf_id", "uint64", call), ("fw_parent", "uint64", 0), ("seq_id", "int64", order),
                      ("scope", "uint64", scope), ("tid", "uint64", 1), ("fw_tid", "uint64", 0),
                      ("op_schema", "string", schema), ("kernel_backend", "string", ""), ("kernel_file", "string", ""),
                      ("tensor_range", "string", "")]
        return {"id": number, "name": name, "ctrl_deps": parent, "inputs": inputs, "outputs": outputs,
                "attrs": [dict(zip(("name", "type", "value"), each)) for each in attributes]}

    # ---- values

    def described(self, values):
        """Values, shapes, types and strides of arguments or results."""
        columns = zip(*map(self._one, values)) if values else ((), (), (), ())
        return dict(zip(("values", "shapes", "types", "strides"), map(list, columns)))

    def _one(self, x):
        if isinstance(x, _C.Tensor):
            return self._tensor(x)
        if isinstance(x, (list, tuple)):
            parts = self.described(list(x))
            return parts["values"], parts["shapes"], f"GenericList[{','.join(parts['types'])}]", parts["strides"]
        kind = _TYPES.get(type(x))
        if kind is None:
            return str(x), [], "String", []
        plain = "<None>" if x is None else x if type(x) in (bool, int, float, str) else str(x)
        return plain, [], kind, []

    def _tensor(self, x):
        kind = f"Tensor({_DTYPES.get(str(x.dtype).removeprefix('torch.'), str(x.dtype))})"
        if x.layout is not _C.strided:
            return [self._known(id(x)), 0, 0, 0, x.itemsize, str(x.device)], list(x.shape), kind, []
        memory = 0 if x.device.type == "meta" else self._known(("memory", x.untyped_storage().data_ptr()))
        place = [self._known(id(x)), memory, x.storage_offset(), x.numel(), x.itemsize, str(x.device)]
        return place, list(x.shape), kind, list(x.stride())

    def _known(self, key):
        return self.numbers.get(key) or self.numbers.setdefault(key, self.number())


class _Functions(TorchFunctionMode):
    """Tells a trace of operators as they are called."""

    def __init__(self, trace):
        self.trace = trace

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if not isinstance(func, _C.Op):
            return func(*args, **(kwargs or {}))
        return self.trace.called(f"aten::{func.name}", func.schema or "", func, args, kwargs or {})


class _Primitives(TorchDispatchMode):
    """Tells a trace of the primitives inside."""

    def __init__(self, trace):
        self.trace = trace

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = getattr(func, "qualified", None) or f"aten::{getattr(func, 'name', func)}"
        schema = str(getattr(func, "_schema", "") or getattr(func, "schema", "") or "")
        return self.trace.computed(name, schema, func, args, kwargs or {})
