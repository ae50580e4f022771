"""Extensions in C++: what goes in and out, exceptions, the cache, several threads and processes, packages."""

import multiprocessing
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import flambeau
from flambeau.utils import cpp_extension

if shutil.which(cpp_extension.get_cxx_compiler()) is None:
    pytest.skip("no compiler", allow_module_level=True)

SOURCE = """
#include <numeric>
using flambeau::Tensor;

Tensor twice(const Tensor& x) {
  auto y = flambeau::empty(x.sizes(), x.dtype());
  for (int64_t i = 0; i < x.numel(); ++i) y.data<float>()[i] = 2 * x.contiguous_data<float>()[i];
  return y;
}
Tensor transposed(Tensor x) {
  auto y = flambeau::zeros({x.size(-1), x.size(0)}, x.dtype());
  for (int64_t i = 0; i < x.size(0); ++i)
    for (int64_t j = 0; j < x.size(1); ++j) y.at<double>(j, i) = x.at<double>(i, j);
  return y;
}
void add_to(Tensor& x, double value) {
  for (int64_t i = 0; i < x.numel(); ++i) x.contiguous_data<float>()[i] += value;
}
Tensor same(const Tensor& x) { return x; }
std::tuple<bool, int, double, std::string, std::vector<int64_t>, std::optional<double>> back(
    bool b, uint8_t i, float f, const std::string& s, std::vector<int64_t> v, std::optional<double> o) {
  return {b, i, f, s, v, o};
}
std::vector<Tensor> pieces(std::vector<Tensor> all) { return {all.rbegin(), all.rend()}; }
std::string described(const Tensor& x) {
  return std::string(flambeau::name_of(x.dtype())) + (x.is_contiguous() ? " c" : "");
}
void fail(int kind) {
  if (kind == 0) throw std::invalid_argument("zero");
  if (kind == 1) throw std::out_of_range("one");
  if (kind == 2) throw std::runtime_error("two");
  if (kind == 3) throw 3;
  if (kind == 4) flambeau::empty({-1}, flambeau::Dtype::int8);
  throw std::bad_alloc();
}
"""
NAMES = ["twice", "transposed", "add_to", "same", "back", "pieces", "described", "fail"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("extensions")


@pytest.fixture(scope="module")
def module(folder):
    return cpp_extension.load_inline("several", SOURCE, functions=NAMES, build_directory=str(folder))


def test_tensors_in_and_out(module):
    x = flambeau.randn(3, 4)
    assert (module.twice(x) == 2 * x).all() and module.twice(flambeau.ones(0, 2)).shape == (0, 2)
    double = flambeau.randn(3, 4).double()
    assert (module.transposed(double) == double.T).all() and (module.transposed(double.T) == double).all()
    assert module.same(x) is x
    assert [t is u for t, u in zip(module.pieces([x, double]), (double, x), strict=True)] == [True, True]


@pytest.mark.parametrize("dtype", "uint8 int8 int16 int32 int64 float16 float32 float64 complex64 complex128 bool "
                                  "bfloat16 uint16 uint32 uint64".split())
def test_every_dtype_has_its_number(module, dtype):
    x = flambeau.zeros(2, 3, dtype=getattr(flambeau, dtype))
    assert module.described(x) == f"{dtype} c" and module.described(x.T) == dtype


def test_numbers_strings_and_lists(module):
    assert module.back(True, 7, 2, "ü€\0x", [1, -(1 << 63)], None) == (True, 7, 2.0, "ü€\0x", (1, -(1 << 63)), None)
    assert module.back(False, 255, 0.5, "", (), 1)[-1] == 1.0
    with pytest.raises(ValueError, match="256 does not fit"):
        module.back(True, 256, 2, "", [], None)
    with pytest.raises(OverflowError, match="64 bits"):
        module.back(True, 1 << 64, 2, "", [], None)


@pytest.mark.parametrize("arguments", [(1, 1, 1, "", [], None), (True, 1.5, 1, "", [], None),
                                       (True, 1, "x", "", [], None), (True, 1, 1, b"", [], None),
                                       (True, 1, 1, "", ["a"], None), (True, 1, 1, "", 3, None), ()])
def test_arguments_of_another_type(module, arguments):
    with pytest.raises(TypeError, match=r"argument \d: expected|takes tensors|expected 6"):
        module.back(*arguments)


@pytest.mark.parametrize("kind, error", [(0, ValueError), (1, IndexError), (2, RuntimeError), (3, RuntimeError),
                                         (4, RuntimeError), (5, MemoryError)])
def test_exceptions(module, kind, error):
    with pytest.raises(error, match=r"fail|-1|size"):
        module.fail(kind)


def test_what_is_written_is_noticed(module):
    x = flambeau.zeros(3, requires_grad=True)
    y = x * 1
    (y * y).sum()
    saved = y.exp()
    with flambeau.no_grad():
        version = saved._version
        module.add_to(saved, 1.0)
    assert saved._version == version + 1 and saved.tolist() == [2.0, 2.0, 2.0]
    with pytest.raises(RuntimeError):
        saved.sum().backward()


def test_what_is_refused(module):
    with pytest.raises(RuntimeError, match="custom_op"):
        module.twice(flambeau.ones(2, requires_grad=True))
    with pytest.raises(TypeError, match="float64"):
        module.twice(flambeau.ones(2).double())
    with pytest.raises(ValueError, match="contiguous"):
        module.twice(flambeau.ones(2, 3).T)
    with pytest.raises(TypeError, match="meta"):
        module.twice(flambeau.ones(2, device="meta"))


def test_other_threads_run_meanwhile(module):
    x, found = flambeau.randn(64), []
    threads = [threading.Thread(target=lambda: found.append([(module.twice(x) == 2 * x).all().item()
                                                             for _ in range(50)])) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4 and all(map(all, found))


def test_the_compilers_message(folder):
    with pytest.raises(RuntimeError, match=r"source 1.*\n?.*undeclared_name|undeclared_name"):
        cpp_extension.load_inline("broken", "int f() { return undeclared_name; }", functions="f",
                                  build_directory=str(folder))
    assert not list(folder.glob("building-*")) and not list(folder.glob("broken*.so"))


def test_pytorchs_header_is_named(tmp_path):
    with pytest.raises(NotImplementedError, match=r"torch/extension\.h"):
        cpp_extension.load_inline("theirs", "#include <torch/extension.h>\n")
    (tmp_path / "a.cpp").write_text("// a\n#include <ATen/ATen.h>\n")
    with pytest.raises(NotImplementedError, match=r"ATen/ATen\.h"):
        cpp_extension.load("theirs", str(tmp_path / "a.cpp"), build_directory=str(tmp_path))


@pytest.mark.parametrize("options", [{"cuda_sources": "x"}, {"with_cuda": True}, {"extra_sycl_cflags": ["-x"]},
                                     {"with_pytorch_error_handling": False}])
def test_options_of_other_devices(options):
    with pytest.raises(NotImplementedError):
        cpp_extension.load_inline("x", "", **options)


def test_names_and_files_that_are_wrong(tmp_path):
    with pytest.raises(ValueError, match="identifier"):
        cpp_extension.load_inline("a b", "")
    with pytest.raises(FileNotFoundError, match=r"missing\.cpp"):
        cpp_extension.load("x", str(tmp_path / "missing.cpp"), build_directory=str(tmp_path))
    with pytest.raises(NotImplementedError, match=r"k\.cu"):
        cpp_extension.load("x", [str(tmp_path / "k.cu")])


def test_compiled_again_only_when_something_changed(tmp_path):
    header, source = tmp_path / "value.h", tmp_path / "value.cpp"
    header.write_text("#define VALUE 1\n")
    source.write_text('#include <flambeau/extension.h>\n#include "value.h"\nint value() { return VALUE + MORE; }\n'
                      'FLAMBEAU_FUNCTION(value, "")\n')

    def loaded(more):
        return cpp_extension.load("value", [str(source)], extra_cflags=[f"-DMORE={more}"],
                                  build_directory=str(tmp_path), keep_intermediates=False)

    def libraries():
        return len(list(tmp_path.glob("*.so")))

    first = loaded(0)
    assert first.value() == 1 and loaded(0).__file__ == first.__file__ and libraries() == 1
    header.write_text("#define VALUE 5\n")
    assert loaded(0).value() == 5 and first.value() == 1 and libraries() == 2
    assert loaded(10).value() == 15 and libraries() == 3
    assert not list(tmp_path.glob("*.o"))


def _load(folder, results):
    module = cpp_extension.load_inline("shared", "int f() { return 4; }", functions="f", build_directory=folder)
    results.put(module.f())


def test_processes_wait_for_the_one_that_compiles(tmp_path):
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    processes = [context.Process(target=_load, args=(str(tmp_path), results)) for _ in range(3)]
    for process in processes:
        process.start()
    assert [results.get(timeout=120) for _ in processes] == [4, 4, 4]
    for process in processes:
        process.join()
    assert len(list(tmp_path.glob("*.so"))) == 1


def test_programs_and_plain_libraries(tmp_path):
    main = tmp_path / "main.cpp"
    main.write_text("#include <cstdio>\nint main() { std::puts(\"hello\"); }\n")
    program = cpp_extension.load("program", str(main), build_directory=str(tmp_path), is_standalone=True)
    assert subprocess.run([program], capture_output=True, text=True, check=True).stdout == "hello\n"
    plain = tmp_path / "plain.cpp"
    plain.write_text("int nothing() { return 0; }\n")
    path = cpp_extension.load("plain", str(plain), build_directory=str(tmp_path), is_python_module=False)
    with pytest.raises(ImportError, match="FLAMBEAU_FUNCTION"):
        cpp_extension.module_of_library("plain", path)


SETUP = """
from setuptools import setup
from flambeau.utils.cpp_extension import BuildExtension, CppExtension
setup(name="fast", ext_modules=[CppExtension("fast", ["fast.cpp"])], cmdclass={"build_ext": BuildExtension})
"""


def test_a_package_built_by_setuptools(tmp_path):
    pytest.importorskip("setuptools")
    (tmp_path / "setup.py").write_text(SETUP)
    (tmp_path / "fast.cpp").write_text('#include <flambeau/extension.h>\nint f(int x) { return x + 1; }\n'
                                       'FLAMBEAU_FUNCTION(f, "x + 1")\n')
    here = str(Path(flambeau.__file__).parents[1])
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([here, os.environ.get("PYTHONPATH", "")])}
    built = subprocess.run([sys.executable, "setup.py", "-q", "build_ext", "--inplace"], cwd=tmp_path, text=True,
                           capture_output=True, check=False, env=environment)
    assert built.returncode == 0, built.stderr
    found = subprocess.run([sys.executable, "-c", "import fast; print(fast.f(2), fast.__file__)"], cwd=tmp_path,
                           text=True, capture_output=True, check=False, env=environment)
    assert found.stdout.startswith("3 ") and found.stdout.strip().endswith(".so"), found.stderr


def test_where_things_are():
    assert (Path(cpp_extension.include_paths()[0]) / "flambeau" / "extension.h").is_file()
    assert cpp_extension.check_compiler_ok_for_platform(cpp_extension.get_cxx_compiler())
    works, version = cpp_extension.get_compiler_abi_compatibility_and_version(cpp_extension.get_cxx_compiler())
    assert works and version[0].isdigit()
    for refused in (lambda: cpp_extension.include_paths("cuda"), lambda: cpp_extension.CUDAExtension("a", []),
                    lambda: cpp_extension.SyclExtension("a", [])):
        with pytest.raises(NotImplementedError):
            refused()
