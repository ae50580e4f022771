"""Coverage-guided fuzzing of the readers of files, with atheris: `python -m tests.serialization.fuzz_load PARSER …`.

What follows PARSER (pickle, zip, legacy, npy, safetensors) goes to libFuzzer: a folder for the corpus,
`-max_total_time=3600`, `-rss_limit_mb=2048`, `-max_len=4096`. Whatever the bytes are, there must be a value or a
RuntimeError. The corpus that was found is in `corpus.zip`; `test_corpus.py` reads all of it in every run.
"""

import contextlib
import io
import os
import sys
import tempfile


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
        found = flambeau.load(io.BytesIO(b"\x93NUMPY" + data))
        # dates without a unit are values, which NumPy does not print
        found.tobytes() if hasattr(found, "tobytes") else repr(found)


def safetensors(data):
    """The bytes as a file that is loaded, read tensor by tensor and listed; as the index of files; and as a header
    of the right length, which mutations seldom leave, with what follows its last brace."""
    _safetensors_file(data)
    header = data[:data.rfind(b"}") + 1]
    _safetensors_file(len(header).to_bytes(8, "little") + data)


def _safetensors_file(data):
    from flambeau import safetensors
    from flambeau._files.listing import Listing

    with contextlib.suppress(RuntimeError):
        repr(safetensors.load(data))[:1000]
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as folder:
        path, index = os.path.join(folder, "m.safetensors"), os.path.join(folder, "x.safetensors.index.json")
        for file in (path, index):
            with open(file, "wb") as out:
                out.write(data)
        with contextlib.suppress(RuntimeError):
            opened = safetensors.safe_open(path)
            opened.metadata(), opened.offset_keys()
            for name in opened.keys():  # noqa: SIM118 (a file, which is no dict)
                with contextlib.suppress(RuntimeError):
                    repr(opened.get_tensor(name))[:1000]
        with contextlib.suppress(RuntimeError):
            for row in Listing(path).rows:
                row.checksum()
        with contextlib.suppress(RuntimeError, FileNotFoundError):
            safetensors.load_file(index)


PARSERS = {"pickle": pickle, "zip": zip, "legacy": legacy, "npy": npy, "safetensors": safetensors}


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
