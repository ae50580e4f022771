"""Recorded work: what is launched in a context, once, is launched again as a whole, without the cost of each launch."""

import gc

from .. import _C
from ._devices import index_of, need
from ._memory import empty_cache
from .streams import Stream, current_stream, stream

_cuda = _C._cuda
_MODES = {"global": 0, "thread_local": 1, "relaxed": 2}


def graph_pool_handle():
    """The number of a pool of memory that several graphs can share."""
    need("graph_pool_handle")
    return 0, _cuda.new_pool()


def is_current_stream_capturing():
    """Whether work of the current stream is recorded."""
    return _cuda.available() and _cuda.opened() and current_stream().is_capturing()


class CUDAGraph:
    """Work that is recorded once and replayed: with the same memory, so new inputs are copied into the old ones.

    keep_graph: keeps the recorded graph beside the one made ready to run; `instantiate` and `debug_dump` need it.
    """

    def __init__(self, keep_graph=False):
        need("CUDAGraph")
        self._graph, self._keep, self._pool = _cuda.Graph(), keep_graph, None

    def capture_begin(self, pool=None, capture_error_mode="global", check_input_liveness=False):
        """Records the work of the current stream from here on.

        pool: of graph_pool_handle() or of another graph, to share its memory. capture_error_mode: which other calls
        are refused meanwhile: "global", "thread_local" or "relaxed". check_input_liveness is not available.
        """
        if check_input_liveness:
            raise NotImplementedError("CUDAGraph.capture_begin: check_input_liveness is not available; leave it out")
        if capture_error_mode not in _MODES:
            raise ValueError(f"capture_begin: capture_error_mode is one of {', '.join(_MODES)}, got "
                             f"{capture_error_mode}")
        here = current_stream()
        self._pool = graph_pool_handle() if pool is None else tuple(pool)
        self._graph.begin(here.device_index, here.cuda_stream, self._pool[1], _MODES[capture_error_mode])

    def capture_end(self):
        """Ends the recording and makes the graph ready to run."""
        self._graph.end(self._keep)

    def instantiate(self):
        """Makes a kept graph ready to run."""
        self._graph.instantiate(self._keep)

    def replay(self):
        """Launches the recorded work on the current stream."""
        if self._keep and not self._graph.exec_handle():
            self.instantiate()
        self._graph.replay()

    def reset(self):
        """Forgets what was recorded."""
        self._graph.reset()

    def pool(self):
        """The pool of memory its work uses, for other graphs to share."""
        if self._pool is None:
            raise RuntimeError("CUDAGraph.pool: nothing was recorded yet")
        return self._pool

    def enable_debug_mode(self):
        """From now on the recorded graph is kept, for debug_dump."""
        self._keep = True

    def debug_dump(self, debug_path):
        """Writes the recorded graph in Graphviz' language."""
        self._graph.print(str(debug_path))

    def get_graph_data(self):
        """Not available: debug_dump writes the recorded graph."""
        raise NotImplementedError("CUDAGraph.get_graph_data: recorded steps are not handed out; debug_dump writes them")

    def raw_cuda_graph(self):
        """The driver's handle of the kept graph."""
        return self._graph.handle()

    def raw_cuda_graph_exec(self):
        """The driver's handle of the graph made ready to run."""
        return self._graph.exec_handle()


class graph:
    """Context whose work on the device is recorded into a CUDAGraph instead of done.

    stream: the one to record; by default `default_capture_stream`, one for each device that all such contexts share.
    pool, capture_error_mode: as for CUDAGraph.capture_begin. enable_annotations and check_input_liveness are not
    available.
    """

    #: of the device that was recorded last
    default_capture_stream = None
    _default = {}

    def __init__(self, cuda_graph, pool=None, stream=None, capture_error_mode="global", enable_annotations=False,
                 check_input_liveness=False):
        need("graph")
        if enable_annotations or check_input_liveness:
            raise NotImplementedError("cuda.graph: enable_annotations and check_input_liveness are not available; "
                                      "leave them out")
        k = index_of(None)
        if stream is None:
            stream = self._default.get(k) or self._default.setdefault(k, Stream(k))
            type(self).default_capture_stream = stream
        self.cuda_graph, self.pool, self.capture_stream, self.mode = cuda_graph, pool, stream, capture_error_mode

    def __enter__(self):
        _cuda.synchronize(self.capture_stream.device_index)
        gc.collect()
        empty_cache()
        self._stream = stream(self.capture_stream)
        self._stream.__enter__()
        try:
            self.cuda_graph.capture_begin(self.pool, self.mode)
        except BaseException:
            self._stream.__exit__()
            raise

    def __exit__(self, kind, *_):
        try:
            self.cuda_graph.capture_end()
        except RuntimeError:
            if kind is None:  # else: what happened inside says more
                raise
        finally:
            self._stream.__exit__()
