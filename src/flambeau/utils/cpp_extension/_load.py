"""`load` and `load_inline`: sources in, a Python module out, within one call."""

import ctypes
import re

from ..._shown import shown
from ._compile import Build
from ._library import module_of_library

_THEIRS = re.compile(r"^\s*#\s*include\s*[<\"]((?:torch|ATen|c10)/[\w./]+)", re.MULTILINE)
_HEADER = "#include <flambeau/extension.h>\n"


def _refused(what, **given):
    """Options of other devices."""
    for name, value in given.items():
        if value:
            raise NotImplementedError(f"{what}: {name} is for other devices; extensions are C++ for the CPU")


def _checked(what, text):
    found = _THEIRS.search(text)
    if found:
        raise NotImplementedError(f"{what}: the source includes <{found[1]}>, but PyTorch's C++ library is not here; "
                                  "include <flambeau/extension.h> and work on the tensors' memory (docs/utilities.md)")


def _finished(build, verbose, keep, is_python_module):
    path = build.path(verbose, keep)
    if build.standalone:
        return str(path)
    if is_python_module:
        return module_of_library(build.name, path)
    ctypes.CDLL(str(path), ctypes.RTLD_GLOBAL)
    return str(path)


def load(name, sources, extra_cflags=None, extra_cuda_cflags=None, extra_sycl_cflags=None, extra_ldflags=None,
         extra_include_paths=None, build_directory=None, verbose=False, with_cuda=None, with_sycl=None,
         is_python_module=True, is_standalone=False, keep_intermediates=True):
    """Compiles C++ files and loads them as a Python module; the functions are named in them by FLAMBEAU_FUNCTION.

    The library lies in `build_directory` (or a cache, see `get_default_build_root`) and is compiled again when a
    source, a header of the user's, a flag or the compiler changes. Without `is_python_module` the library is only
    loaded into the process, and its path returned; with `is_standalone` the path of a program. Errors of the compiler
    are a RuntimeError with its message.

    >>> import pathlib, tempfile, flambeau
    >>> from flambeau.utils import cpp_extension
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     source = pathlib.Path(folder) / "total.cpp"
    ...     _ = source.write_text('''
    ...     #include <flambeau/extension.h>
    ...     double total(const flambeau::Tensor& x) {
    ...       double sum = 0;
    ...       for (int64_t i = 0; i < x.numel(); ++i) sum += x.contiguous_data<float>()[i];
    ...       return sum;
    ...     }
    ...     FLAMBEAU_FUNCTION(total, "The sum of all elements.")
    ...     ''')
    ...     module = cpp_extension.load("total", str(source), build_directory=folder)
    >>> module.total(flambeau.tensor([1., 2., 3.]))
    6.0
    """
    _refused("load", extra_cuda_cflags=extra_cuda_cflags, extra_sycl_cflags=extra_sycl_cflags, with_cuda=with_cuda,
             with_sycl=with_sycl)
    sources = [sources] if isinstance(sources, str) else [str(path) for path in sources]
    for path in sources:
        if path.endswith((".cu", ".cuh", ".sycl")):
            raise NotImplementedError(f"load: {shown(path)} is a source for other devices; extensions are C++")
    build = Build(name, dict.fromkeys(sources), extra_cflags or (), extra_ldflags or (), extra_include_paths or (),
                  build_directory, is_standalone)
    for path in build.sources:
        try:
            with open(path, encoding="utf-8", errors="replace") as text:
                _checked("load", text.read())
        except FileNotFoundError:
            continue  # `path` says which
    return _finished(build, verbose, keep_intermediates, is_python_module)


def _quoted(text):
    """Python's text as a C++ literal."""
    return '"' + "".join(c if c.isascii() and c.isprintable() and c not in '"\\' else "".join(
        f"\\{byte:03o}" for byte in c.encode()) for c in text) + '"'


def load_inline(name, cpp_sources, cuda_sources=None, sycl_sources=None, functions=None, extra_cflags=None,
                extra_cuda_cflags=None, extra_sycl_cflags=None, extra_ldflags=None, extra_include_paths=None,
                build_directory=None, verbose=False, with_cuda=None, with_sycl=None, is_python_module=True,
                with_pytorch_error_handling=True, keep_intermediates=True, use_pch=False, no_implicit_headers=False):
    """`load` with sources in strings: `functions` names those that Python sees (a list, or {name: documentation}).

    The header is included before the first source, unless `no_implicit_headers`. `use_pch` changes nothing: the header
    is too small to be worth compiling beforehand.

    >>> import flambeau
    >>> from flambeau.utils import cpp_extension
    >>> module = cpp_extension.load_inline("scaling", '''
    ... void scale(flambeau::Tensor& x, double factor) {
    ...   float* data = x.contiguous_data<float>();
    ...   for (int64_t i = 0; i < x.numel(); ++i) data[i] *= factor;
    ... }
    ... ''', functions={"scale": "x *= factor, in place."})
    >>> x = flambeau.tensor([1., 2.])
    >>> module.scale(x, 3)
    >>> x
    tensor([3., 6.])
    """
    _refused("load_inline", cuda_sources=cuda_sources, sycl_sources=sycl_sources, extra_cuda_cflags=extra_cuda_cflags,
             extra_sycl_cflags=extra_sycl_cflags, with_cuda=with_cuda, with_sycl=with_sycl)
    if not with_pytorch_error_handling:
        raise NotImplementedError("load_inline: exceptions always become Python's; leave with_pytorch_error_handling "
                                  "out")
    texts = [cpp_sources] if isinstance(cpp_sources, str) else list(cpp_sources)
    for text in texts:
        _checked("load_inline", text)
    named = [functions] if isinstance(functions, str) else functions or ()
    named = named if isinstance(named, dict) else {each: each for each in named}
    lines = [f"FLAMBEAU_FUNCTION({each}, {_quoted(documentation)})" for each, documentation in named.items()]
    header = "" if no_implicit_headers else _HEADER
    text = "\n".join([header + "#line 1 \"source 1\"", *texts, *lines, ""])
    build = Build(name, {"main.cpp": text}, extra_cflags or (), extra_ldflags or (), extra_include_paths or (),
                  build_directory)
    return _finished(build, verbose, keep_intermediates, is_python_module)
