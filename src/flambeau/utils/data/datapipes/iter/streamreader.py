"""Contents of open files: `read_from_stream`."""

from ..datapipe import IterDataPipe


class StreamReaderIterDataPipe(IterDataPipe):
    """(path, contents) of each (path, open file); with `chunk`, pieces of so many bytes. Files are closed at their end.

    >>> import io
    >>> from flambeau.utils.data.datapipes.iter import IterableWrapper
    >>> list(IterableWrapper([("f", io.StringIO("abc"))]).read_from_stream(2))
    [('f', 'ab'), ('f', 'c')]
    """

    def __init__(self, datapipe, chunk=None):
        self.datapipe, self.chunk = datapipe, chunk

    def __iter__(self):
        for path, stream in self.datapipe:
            while piece := stream.read(self.chunk):
                yield path, piece
            stream.close()
