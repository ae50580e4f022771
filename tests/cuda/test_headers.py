"""Our declarations of NVIDIA's libraries beside their own headers, where a wheel with headers is installed.

A compiler is shown both: each function must take as many parameters as we say, of the same sizes and kinds, and each
number must be that of its name there.
"""

import re
import subprocess
import tempfile
from pathlib import Path

import pytest

from flambeau._libraries import in_packages

from . import fake

HERE = Path(__file__).parent
LIBRARIES = HERE.parents[1] / "native/cuda/libraries"
ALIKE = """
#include <tuple>
#include <type_traits>
template <class A, class B> constexpr bool one = sizeof(A) == sizeof(B) &&
    std::is_pointer_v<A> == std::is_pointer_v<B> && std::is_floating_point_v<A> == std::is_floating_point_v<B>;
template <class A, class B> constexpr bool alike = false;
template <class R, class... P, class S, class... Q>
constexpr bool alike<R (*)(P...), S (*)(Q...)> = [] {
  if constexpr (sizeof...(P) == sizeof...(Q)) return one<R, S> && (one<P, Q> && ...);
  else return false;
}();
"""
#: source file -> (package, headers, namespace inside flambeau::cuda, {our name or number: theirs})
SOURCES = {
    "cublaslt.cpp": ("nvidia-cublas-cu12", ["cublasLt.h"], "", """
        kNotSupported=CUBLAS_STATUS_NOT_SUPPORTED kLayoutBatch=CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT
        kLayoutStep=CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET kDescTransposeA=CUBLASLT_MATMUL_DESC_TRANSA
        kDescTransposeB=CUBLASLT_MATMUL_DESC_TRANSB kDescEpilogue=CUBLASLT_MATMUL_DESC_EPILOGUE
        kDescBias=CUBLASLT_MATMUL_DESC_BIAS_POINTER kPreferWorkspace=CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES
        kPreferReduction=CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK
        kPreferAlignment=CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES
        kPreferAlignment+3=CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES kEpilogueNone=CUBLASLT_EPILOGUE_DEFAULT
        kEpilogueRelu=CUBLASLT_EPILOGUE_RELU kEpilogueBias=CUBLASLT_EPILOGUE_BIAS kEpilogueGelu=CUBLASLT_EPILOGUE_GELU
        sizeof(Heuristic)=sizeof(cublasLtMatmulHeuristicResult_t) sizeof(Algorithm)=sizeof(cublasLtMatmulAlgo_t)
        2=CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE 68=CUBLAS_COMPUTE_32F 77=CUBLAS_COMPUTE_32F_FAST_TF32
        70=CUBLAS_COMPUTE_64F 64=CUBLAS_COMPUTE_16F 72=CUBLAS_COMPUTE_32I"""),
}


def program(name):
    """What the compiler is shown; skips where the package is not installed."""
    package, headers, space, numbers = SOURCES[name]
    found = next(in_packages((package,), re.escape(headers[0])), None)
    if found is None or fake.COMPILER is None:
        pytest.skip(f"needs a compiler and the headers of {package}")
    lines = [f"#include <{header}>" for header in headers] + [f'#include "{LIBRARIES / name}"', ALIKE]
    lines.append(f"namespace flambeau::cuda{'::' + space if space else ''} {{ namespace {{")
    text = (LIBRARIES / name).read_text()
    if space:
        text = (LIBRARIES / f"{space}.h").read_text()
    functions = re.findall(r'X\((\w+), ([^"]+), "(\w+)",\s*\\?\s*(\([^()]*\))\)', text)
    assert len(functions) == text.count("  X("), "a function in a form that this test does not read"
    for _, result, symbol, parameters in functions:
        declared = parameters.replace("\\", " ").replace("\n", " ")
        lines.append(f'static_assert(alike<decltype(&::{symbol}), {result}(*) {declared}>, "{symbol}");')
    for pair in numbers.split():
        ours, theirs = pair.split("=")
        lines.append(f'static_assert(int64_t({ours}) == int64_t({theirs}), "{pair}");')
    return "\n".join([*lines, "}}"]), Path(found).parent


def compiled(source, include):
    """What a compiler says about it; nothing where all is well."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "headers.cpp")
        path.write_text(source)
        done = subprocess.run([fake.COMPILER, "-std=c++20", "-fsyntax-only", "-w", "-mf16c", f"-I{HERE / 'headers'}",
                               f"-I{include}", str(path)], capture_output=True, text=True)
    return done.stderr


@pytest.mark.parametrize("name", SOURCES)
def test_declarations_are_the_library_s(name):
    assert compiled(*program(name)) == ""


@pytest.mark.parametrize("name", SOURCES)
def test_a_wrong_declaration_is_seen(name):
    source, include = program(name)
    wrong = source.replace("(*) (", "(*) (double, ", 1)
    assert "static assertion failed" in compiled(wrong, include)
