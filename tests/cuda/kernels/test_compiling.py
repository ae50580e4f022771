"""Kernel text to images: errors, the disk cache and what may go wrong with its files."""

import multiprocessing

import pytest

from flambeau.cuda.kernels import compiling, nvrtc

from .. import emulate

SOURCE = 'extern "C" __global__ void k(int* out) { out[threadIdx.x] = 7; }\n'


@pytest.fixture
def counted(monkeypatch, tmp_path):
    """An empty cache folder and a builder that counts; nothing in memory from other tests."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    built = []
    monkeypatch.setitem(compiling.builders, "counted", lambda source, name: built.append(source) or source.encode())
    compiling.compile.cache_clear()
    yield built
    compiling.compile.cache_clear()


def files():
    return sorted(compiling.folder().iterdir())


def test_an_image_is_made_once(counted):
    assert compiling.compile("a", "counted") == b"a"
    assert compiling.compile("a", "counted") == b"a"
    compiling.compile.cache_clear()  # as another process
    assert compiling.compile("a", "counted") == b"a"
    assert counted == ["a"] and len(files()) == 1
    assert compiling.compile("b", "counted") == b"b" and len(files()) == 2


@pytest.mark.parametrize("damage", (b"", b"flambeau cubin\n", b"x" * 100))
def test_a_damaged_file_is_made_anew(counted, damage):
    compiling.compile("a", "counted")
    whole = files()[0].read_bytes()
    for broken in (damage, whole[:-1], whole + b"!", whole[:20] + bytes([whole[20] ^ 1]) + whole[21:]):
        files()[0].write_bytes(broken)
        compiling.compile.cache_clear()
        assert compiling.compile("a", "counted") == b"a"
        assert files()[0].read_bytes() == whole
    assert len(counted) == 5


def test_a_folder_that_cannot_be_written_costs_time_only(counted, tmp_path):
    (tmp_path / "flambeau").write_text("in the way")
    assert compiling.compile("a", "counted") == b"a"


def test_the_key_names_all_that_an_image_depends_on(monkeypatch):
    seen = {compiling.key("a", "emulate"), compiling.key("b", "emulate")}
    monkeypatch.setitem(compiling.builders, "other", None)
    seen.add(compiling.key("a", "other"))
    monkeypatch.setattr(compiling, "__version__", "0")
    seen.add(compiling.key("a", "emulate"))
    monkeypatch.setattr(nvrtc, "version", lambda: (12, 9))
    seen.add(compiling.key("a", "sm_90"))
    monkeypatch.setattr(nvrtc, "version", lambda: (13, 0))
    assert compiling.key("a", "sm_90") not in seen and len(seen) == 5


def _write(path):
    for k in range(200):
        compiling._write(path, bytes([k]) * 5000)


def test_processes_write_one_file_at_once(tmp_path):
    """Whoever reads meanwhile sees a whole image or none."""
    path = tmp_path / "k"
    writers = [multiprocessing.get_context("fork").Process(target=_write, args=(path,)) for _ in range(2)]
    for w in writers:
        w.start()
    while any(w.is_alive() for w in writers):
        image = compiling._read(path)
        assert image is None or len(set(image)) == 1
    for w in writers:
        w.join()
        assert w.exitcode == 0
    assert len(list(tmp_path.iterdir())) == 1


def test_what_the_compiler_refuses_names_the_operator():
    with pytest.raises(RuntimeError, match="gelu"):
        emulate.build("nonsense", "gelu")


def test_without_nvrtc_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setattr(nvrtc, "NVRTC_PACKAGES", ())
    monkeypatch.setattr(nvrtc, "_SONAMES", ())
    nvrtc.library.cache_clear()
    with pytest.raises(ImportError, match="pip install nvidia-cuda-nvrtc-cu12"):
        nvrtc.library()
    nvrtc.library.cache_clear()


def test_fibers_share_a_block():
    """The emulation: shared memory, barriers, shuffles, threads that leave early."""
    import ctypes
    source = r"""
template <class T> __device__ T total(T v) {
  for (int k = 16; k; k >>= 1) v += __shfl_xor_sync(0xffffffffu, v, k);
  return v;
}
extern "C" __global__ void sums(float* out, int n) {
  __shared__ float part[4];
  float v = total(float(threadIdx.x + blockIdx.x));
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = v;
  __syncthreads();
  if (threadIdx.x >= n) return;
  __syncthreads();
  out[blockIdx.x * n + threadIdx.x] = part[0] + part[1] + part[2] + part[3];
}
"""
    image = compiling.compile(source, "emulate", "sums")
    out = (ctypes.c_float * 6)()
    emulate.launch(image, "sums", (2, 1, 1), (128, 1, 1), [ctypes.c_void_p(ctypes.addressof(out)), ctypes.c_int(3)])
    assert list(out) == [sum(range(128))] * 3 + [sum(range(1, 129))] * 3
