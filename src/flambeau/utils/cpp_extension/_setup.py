"""Extensions as parts of packages that setuptools builds: an Extension that can be imported by its own name."""

import functools
import importlib
import os

from ._compile import _FLAGS, include_paths

#: makes the library importable: its functions go into a module that Python has made
_INIT = """\
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <dlfcn.h>

static PyModuleDef definition = {{PyModuleDef_HEAD_INIT, "{name}", nullptr, -1, nullptr, nullptr, nullptr, nullptr,
                                 nullptr}};

PyMODINIT_FUNC PyInit_{name}() {{
  Dl_info info;
  if (!dladdr(reinterpret_cast<void*>(&PyInit_{name}), &info)) return nullptr;
  PyObject* module = PyModule_Create(&definition);
  PyObject* helper = PyImport_ImportModule("flambeau.utils.cpp_extension");
  PyObject* made = helper ? PyObject_CallMethod(helper, "module_of_library", "ss", "{name}", info.dli_fname) : nullptr;
  int failed = made == nullptr || PyDict_Merge(PyModule_GetDict(module), PyModule_GetDict(made), 0);
  Py_XDECREF(helper);
  Py_XDECREF(made);
  if (failed) Py_CLEAR(module);
  return module;
}}
"""


def CppExtension(name, sources, *args, **kwargs):
    """A setuptools.Extension of C++ sources with the header's folder; to be built with `BuildExtension`.

    >>> from flambeau.utils.cpp_extension import CppExtension, include_paths
    >>> found = CppExtension("package.fast", ["fast.cpp"])
    >>> found.language, found.include_dirs == include_paths()
    ('c++', True)
    """
    setuptools = importlib.import_module("setuptools")
    kwargs["include_dirs"] = [*kwargs.get("include_dirs", ()), *include_paths()]
    kwargs["language"] = "c++"
    return setuptools.Extension(name, sources, *args, **kwargs)


def CUDAExtension(name, sources, *args, **kwargs):
    """Not available: extensions run on the CPU."""
    raise NotImplementedError("CUDAExtension: extensions are C++ for the CPU; CppExtension builds those")


def SyclExtension(name, sources, *args, **kwargs):
    """Not available: extensions run on the CPU."""
    raise NotImplementedError("SyclExtension: extensions are C++ for the CPU; CppExtension builds those")


@functools.cache
def build_extension():
    """The class BuildExtension: setuptools' build_ext with this project's flags and the module's entry point."""
    base = importlib.import_module("setuptools.command.build_ext").build_ext

    class BuildExtension(base):
        """Builds CppExtensions: `setup(ext_modules=[CppExtension(…)], cmdclass={"build_ext": BuildExtension})`."""

        @classmethod
        def with_options(cls, **options):
            """A subclass with other options; none of them changes anything here (ninja is not used)."""
            unknown = set(options) - {"use_ninja", "no_python_abi_suffix"}
            if unknown:
                raise TypeError(f"BuildExtension: unknown options {sorted(unknown)}")
            if options.get("no_python_abi_suffix"):
                raise NotImplementedError("BuildExtension: the file keeps Python's suffix; leave out "
                                          "no_python_abi_suffix")
            return cls

        def build_extension(self, ext):
            name = ext.name.rpartition(".")[2]
            path = os.path.join(self.build_temp, f"{name}_init.cpp")
            os.makedirs(self.build_temp, exist_ok=True)
            with open(path, "w", encoding="utf-8") as out:
                out.write(_INIT.format(name=name))
            ext.sources = [*ext.sources, path]
            ext.extra_compile_args = [*_FLAGS, *(ext.extra_compile_args or ())]
            super().build_extension(ext)

    return BuildExtension
