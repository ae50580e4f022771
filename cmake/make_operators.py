"""Writes the records of the operators that have native kernels, as C++ reads them: `make_operators.py SOURCE EXTENSION
FILE`.

The build runs it once `_C` is built, for the library that runs programs without Python. The records are asked as they
define themselves: while the package is imported, `_C.define` and `_C.keep_format` also write down what they are given.
"""

import importlib
import importlib.util
import sys
from pathlib import Path


def extension(source, path):
    """The module `flambeau._C`, for whoever imports the package in `source` afterwards."""
    spec = importlib.util.spec_from_file_location("flambeau._C", path)
    module = sys.modules["flambeau._C"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    sys.path.insert(0, source)
    return module


def records(native):
    """(kind, schema, promote, numbers, keeps format) of each operator that Python is not needed to run."""
    found, define, keep_format = {}, native.define, native.keep_format

    def defined(kind, schema, promote, d, body, *rest):
        op = define(kind, schema, promote, d, body, *rest)
        if kind != "composite" and body is None:
            found[op.name] = [kind, schema, promote, rest[-1], False]
        return op

    def kept(op):
        keep_format(op)
        if op.name in found:
            found[op.name][-1] = True

    native.define, native.keep_format = defined, kept
    importlib.import_module("flambeau")
    importlib.import_module("flambeau.ops.aten_forms")
    return found.values()


def main(source, path, file):
    """Writes the file."""
    quoted = ["{" + ", ".join(f'"{text}"' for text in texts) + f", {str(keeps).lower()}}},\n"
              for *texts, keeps in records(extension(source, path))]
    Path(file).parent.mkdir(exist_ok=True)
    Path(file).write_text("".join(quoted))


if __name__ == "__main__":
    main(*sys.argv[1:])
