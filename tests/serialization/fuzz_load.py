"""Coverage-guided fuzzing of the readers of files, with atheris: `python -m tests.serialization.fuzz_load PARSER …`.

What follows PARSER (pickle, zip, legacy, npy) goes to libFuzzer: a folder for the corpus, `-max_total_time=3600`,
`-rss_limit_mb=2048`, `-max_len=4096`. Whatever the bytes are, there must be a value or a RuntimeError. The corpus that
was found is in `corpus.zip`; `test_corpus.py` reads all of it in every run.
"""

import contextlib
import io
import sys


class Bytes:
    """The archive around a pickle: `data.pkl` is the input, every storage has 64 bytes."""

    name, bytes, complete = "input", 1 << 12, True

    def __init__(self, data):
        self.data = data

    def read(self, entry):
        return self.data

    def size(self, entry):
        return 64

    def offset(self, entry):
        return 0

    def read_into(self, entry, memory):
        memory[:] = bytes(len(memory))


def pickle(data):
    from flambeau._files.inspecting import Inspector
    from flambeau._files.loader import Loader

    for make in (lambda: Loader(Bytes(data), None, None), lambda: Inspector(Bytes(data))):
        with contextlib.suppress(RuntimeError):
            repr(make().load())[:1000]
    with contextlib.suppress(RuntimeError):
        Loader(Bytes(data), None, None, weights_only=False).load()  # whose own repr may miss attributes


def zip(data):
    from flambeau._files.archive import Archive

    try:
        archive = Archive(io.BytesIO(data), "input")
    except RuntimeError:
        return
    for name in list(archive.entries):
        with contextlib.suppress(RuntimeError):
            archive.read(name.removeprefix(archive.top))


def legacy(data):
    import flambeau
    from flambeau._files.legacy import START

    with contextlib.suppress(RuntimeError):
        repr(flambeau.load(io.BytesIO(START + data)))[:1000]
        flambeau.load(io.BytesIO(START + data), weights_only=False)  # whose own repr may miss attributes


def npy(data):
    import flambeau

    with contextlib.suppress(RuntimeError):
        repr(flambeau.load(io.BytesIO(b"\x93NUMPY" + data)))[:1000]


PARSERS = {"pickle": pickle, "zip": zip, "legacy": legacy, "npy": npy}


def main():
    import atheris

    import flambeau.nn  # not instrumented: the readers are the subject

    parser = PARSERS[sys.argv.pop(1)]
    with atheris.instrument_imports(include=["flambeau._files", "flambeau.serialization"]):
        import flambeau.serialization  # noqa: F401
    atheris.Setup(sys.argv, parser)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
