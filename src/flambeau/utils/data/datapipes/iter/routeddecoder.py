"""Decoded files: `routed_decode`."""

from ..datapipe import IterDataPipe
from ..utils.decoder import Decoder, basichandlers, extension_extract_fn, imagehandler


class RoutedDecoderIterDataPipe(IterDataPipe):
    """(path, what a handler makes of the contents) of each (path, open file); which handler, says the path's ending.

    Without handlers: `basichandlers` and tensors of pictures. key_fn: what of the path the handlers get.

    >>> import io
    >>> from flambeau.utils.data.datapipes.iter import IterableWrapper
    >>> list(IterableWrapper([("a.json", io.BytesIO(b"[1, 2]"))]).routed_decode())
    [('a.json', [1, 2])]
    """

    def __init__(self, datapipe, *handlers, key_fn=extension_extract_fn):
        self.datapipe = datapipe
        self.decoder = Decoder(*(handlers or (basichandlers, imagehandler("torch"))), key_fn=key_fn)

    def add_handler(self, *handler):
        """More handlers, which are asked after the others."""
        self.decoder.add_handler(*handler)

    def __iter__(self):
        for path, contents in self.datapipe:
            yield path, self.decoder((path, contents))[path]

    def __len__(self):
        return len(self.datapipe)
