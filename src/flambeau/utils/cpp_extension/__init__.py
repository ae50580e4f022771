"""Functions in C++ beside Python: compiled by the machine's own compiler, kept in a cache, called with tensors' memory.

Sources include `flambeau/extension.h`, a small header that comes with the package and stays as it is. They get sizes,
strides, dtypes and pointers, not operators: PyTorch's C++ library (`torch/extension.h`) is not here.
"""

from ..._shown import shown
from ._compile import check_compiler_is_gcc as check_compiler_is_gcc
from ._compile import check_compiler_ok_for_platform as check_compiler_ok_for_platform
from ._compile import get_compiler_abi_compatibility_and_version as get_compiler_abi_compatibility_and_version
from ._compile import get_cxx_compiler as get_cxx_compiler
from ._compile import get_default_build_root as get_default_build_root
from ._compile import include_paths as include_paths
from ._compile import is_ninja_available as is_ninja_available
from ._compile import library_paths as library_paths
from ._compile import verify_ninja_availability as verify_ninja_availability
from ._library import module_of_library as module_of_library
from ._load import load as load
from ._load import load_inline as load_inline
from ._setup import CppExtension as CppExtension
from ._setup import CUDAExtension as CUDAExtension
from ._setup import SyclExtension as SyclExtension
from ._setup import build_extension as _build_extension


def remove_extension_h_precompiler_headers():
    """Nothing to remove: the header is small, so it is not compiled beforehand.

    >>> from flambeau.utils import cpp_extension
    >>> cpp_extension.remove_extension_h_precompiler_headers()
    """


def __getattr__(name):
    if name == "BuildExtension":  # a class of setuptools', which only programs that build packages need
        return _build_extension()
    raise AttributeError(f"module {__name__!r} has no attribute {shown(name)}")
