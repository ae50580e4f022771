"""Work of the accelerator that is recorded once and replayed."""

from .. import cuda
from ._devices import need


class Graph:
    """Work that is recorded once and replayed with the same memory: a `cuda.CUDAGraph` by the accelerator's name.

    pool: memory to share with other graphs, of their `pool()`. capture_error_mode: as for CUDAGraph.capture_begin;
    "default" is "global". As a context it records what is inside, on a stream of its own.
    """

    def __init__(self, keep_graph=False, *, pool=None, capture_error_mode="default"):
        need("Graph")
        self._mode = "global" if capture_error_mode == "default" else capture_error_mode
        self._graph, self._pool, self._recording = cuda.CUDAGraph(keep_graph), pool, None

    def capture_begin(self):
        """Records the work of the current stream from here on."""
        self._graph.capture_begin(self._pool, self._mode)

    def capture_end(self):
        """Ends the recording and makes the graph ready to run."""
        self._graph.capture_end()

    def instantiate(self):
        """Makes a kept graph ready to run."""
        self._graph.instantiate()

    def replay(self):
        """Launches the recorded work on the current stream."""
        self._graph.replay()

    def reset(self):
        """Forgets what was recorded."""
        self._graph.reset()

    def pool(self):
        """The pool of memory its work uses, for other graphs to share."""
        return self._graph.pool()

    def enable_debug_mode(self):
        """From now on the recorded graph is kept, for debug_dump."""
        self._graph.enable_debug_mode()

    def debug_dump(self, path):
        """Writes the recorded graph in Graphviz' language."""
        self._graph.debug_dump(path)

    def __enter__(self):
        self._recording = cuda.graph(self._graph, self._pool, capture_error_mode=self._mode)
        self._recording.__enter__()
        return self

    def __exit__(self, *exc):
        self._recording.__exit__(*exc)
