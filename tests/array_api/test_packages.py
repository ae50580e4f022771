"""Other packages on tensors, each with the real package where it is installed."""

import array
import mmap
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

import flambeau

ROOT = Path(__file__).resolve().parents[2]


def program(text, **environment):
    """What a program of its own process prints."""
    paths = [str(Path(flambeau.__file__).parents[1]), str(ROOT), os.environ.get("PYTHONPATH", "")]
    ran = subprocess.run([sys.executable, "-c", textwrap.dedent(text)], capture_output=True, text=True, cwd=ROOT,
                         env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)} | environment, timeout=600)
    assert ran.returncode == 0, ran.stderr[-2000:]
    return ran.stdout


# --- the buffer protocol and NumPy ------------------------------------------------------------------------------------

def test_a_tensor_is_a_buffer_of_its_own_memory():
    t = flambeau.arange(6, dtype=flambeau.int16).reshape(2, 3)
    view = memoryview(t)
    assert (view.format, view.shape, view.strides, view.readonly) == ("h", (2, 3), (6, 2), False)
    view[1, 2] = 70
    assert t[1, 2] == 70 and bytes(view[:1]) == np.arange(3, dtype=np.int16).tobytes()
    a = np.asarray(t.t())
    a[0, 0] = 9
    assert t[0, 0] == 9 and a.strides == (2, 6)
    assert bytearray(t[0]) == bytearray(np.asarray(t)[0])
    with open(os.devnull, "wb") as file:
        assert file.write(t) == 12


def test_files_are_read_into_a_tensor(tmp_path):
    (tmp_path / "numbers").write_bytes(np.arange(4, dtype=np.float32).tobytes())
    t = flambeau.zeros(4)
    with open(tmp_path / "numbers", "rb") as file:
        assert file.readinto(t) == 16
    assert t.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("make", [bytearray, lambda b: memoryview(bytearray(b)),
                                  lambda b: np.frombuffer(bytearray(b), "B")],
                         ids=["bytearray", "memoryview", "array"])
def test_frombuffer_shares_the_memory(make):
    source = make(np.arange(4, dtype=np.int32).tobytes())
    t = flambeau.frombuffer(source, dtype=flambeau.int32, offset=4, count=2)
    assert t.tolist() == [1, 2]
    t[0] = 7
    assert bytes(source)[4:8] == b"\x07\0\0\0"


@pytest.mark.parametrize("source, numbers, raw", [
    (bytearray(b"abcd"), (flambeau.int64, [97, 98, 99, 100]), [25185, 25699]),
    (memoryview(b"abcd"), (flambeau.int64, [97, 98, 99, 100]), [25185, 25699]),
    (memoryview(np.arange(2, dtype=np.int32)), (flambeau.int64, [0, 1]), [0, 0, 1, 0]),
    (memoryview(np.array([1.5])), (flambeau.float32, [1.5]), [0, 0, 0, 16376]),
    (array.array("i", [1, 2]), (flambeau.int64, [1, 2]), [1, 0, 2, 0]),
    (array.array("d", [1.5]), (flambeau.float32, [1.5]), [0, 0, 0, 16376]),
    (memoryview(np.array([True, False])), (flambeau.bool, [True, False]), [1]),
], ids=lambda x: type(x).__name__)
def test_bytes_like_objects_are_numbers_to_tensor_and_memory_to_asarray(source, numbers, raw):
    for make in (flambeau.tensor, flambeau.as_tensor):
        assert (make(source).dtype, make(source).tolist()) == numbers
        assert make(source, dtype=flambeau.float64).tolist() == numbers[1]
    assert flambeau.asarray(source, dtype=flambeau.int16).tolist() == raw


def test_asarray_shares_the_memory_of_a_buffer_and_copies_when_told():
    with mmap.mmap(-1, 8) as memory:
        shared, copied = (flambeau.asarray(memory, dtype=flambeau.uint8, copy=c) for c in (None, True))
        shared[0] = 7
        assert memory[0] == 7 and copied[0] == 0
        del shared
    numbers = array.array("d", [1.0, 2.0])
    xp = flambeau.array_api
    assert xp.asarray(numbers).tolist() == [1, 2] and xp.asarray(numbers).dtype is flambeau.float64


def test_a_memoryview_of_several_dimensions_is_no_sequence():
    with pytest.raises(ValueError, match="2 dimensions"):
        flambeau.tensor(memoryview(np.ones((2, 2))))
    assert flambeau.asarray(memoryview(np.ones((2, 2))), dtype=flambeau.float64).shape == (4,)


def test_frombuffer_refuses_what_the_buffer_does_not_hold():
    for arguments in ({"count": 9}, {"offset": 3}, {"offset": -1}, {"offset": 8}, {"count": 0},
                      {"offset": -2**63}):
        with pytest.raises(ValueError, match="frombuffer"):
            flambeau.frombuffer(bytearray(8), dtype=flambeau.int32, **arguments)
    assert flambeau.frombuffer(b"ab", dtype=flambeau.uint8).tolist() == [97, 98]
    with pytest.raises(RuntimeError, match="int32 have no derivatives"):
        flambeau.frombuffer(bytearray(8), dtype=flambeau.int32, requires_grad=True)
    assert flambeau.frombuffer(bytearray(8), dtype=flambeau.float32, requires_grad=True).requires_grad
    with pytest.raises(RuntimeError, match="read-only"):
        flambeau.frombuffer(b"ab", dtype=flambeau.uint8)[0] = 1


def test_a_tensor_that_is_exported_stays_as_large_as_it_is():
    t = flambeau.ones(4)
    view = memoryview(t)
    t.resize_(2)
    assert view.shape == (4,) and view.tolist() == [1, 1, 1, 1]


# --- pandas, xarray, SciPy --------------------------------------------------------------------------------------------

def test_pandas():
    pandas = pytest.importorskip("pandas")
    t = flambeau.arange(6.0).reshape(3, 2)
    frame = pandas.DataFrame(t, columns=["a", "b"])
    assert frame.shape == (3, 2) and frame["b"].tolist() == [1, 3, 5] and (frame.dtypes == np.float32).all()
    assert pandas.DataFrame({"a": t[:, 0]})["a"].tolist() == pandas.Series(t[:, 0]).tolist() == [0, 2, 4]
    assert frame.iloc[flambeau.tensor([2, 0])]["a"].tolist() == [4, 0]
    assert flambeau.tensor(pandas.Series([1.0, 2.0])).tolist() == [1, 2]
    assert flambeau.as_tensor(frame.to_numpy(copy=True)).tolist() == t.tolist()


def test_xarray_keeps_tensors():
    xarray = pytest.importorskip("xarray")
    t = flambeau.arange(6.0).reshape(3, 2)
    x = xarray.DataArray(t, dims=("row", "column"), coords={"row": [10, 20, 30]})
    assert x.data is t and "tensor([[0., 1.]" in repr(x)
    for found, expected in (((x + 1).data, t + 1), (x.isel(row=[0, 2]).data, t[[0, 2]]), (x.sel(row=20).data, t[1]),
                            ((x * xarray.DataArray(t[0], dims="column")).data, t * t[0]),
                            (x.transpose("column", "row").data, t.T),
                            (x.sortby("row", ascending=False).data, t.flip(0)),
                            (xarray.concat([x, x], "row").data, flambeau.cat([t, t])),
                            (x.mean("row", skipna=False).data, t.mean(0)), (x.max("row", skipna=False).data, t.amax(0)),
                            (x.stack(all=("row", "column")).data, t.flatten())):
        assert isinstance(found, flambeau.Tensor) and found.tolist() == expected.tolist()
    assert x.to_dataset(name="q").q.data is t and x.values.tolist() == t.tolist()
    assert float(x.mean("row", skipna=False)[1]) == 3 and float(x.sum()) == 15


def test_scipy_takes_tensors_as_arrays():
    special = pytest.importorskip("scipy.special")
    stats = pytest.importorskip("scipy.stats")
    t = flambeau.rand(20, 3, dtype=flambeau.float64)
    assert np.allclose(special.logsumexp(t), flambeau.logsumexp(t, (0, 1)))
    assert np.allclose(stats.zscore(t), (t - t.mean(0)) / t.std(0, correction=0))


def test_scipy_gives_tensors_where_its_dispatch_is_on():
    pytest.importorskip("scipy")
    printed = program("""
        import flambeau, scipy.cluster.vq, scipy.fft, scipy.integrate, scipy.ndimage, scipy.signal, scipy.special
        import scipy.stats
        t = flambeau.arange(6.0, dtype=flambeau.float64).reshape(3, 2)
        for found in (scipy.special.expit(t), scipy.special.logsumexp(t, axis=0), scipy.stats.zscore(t),
                      scipy.stats.skew(t), scipy.stats.ttest_ind(t[:, 0], t[:, 1]).pvalue, scipy.fft.fft(t),
                      scipy.signal.detrend(t, axis=0), scipy.signal.convolve(t[:, 0], flambeau.ones(2).double()),
                      scipy.ndimage.gaussian_filter(t, 1), scipy.cluster.vq.whiten(t),
                      scipy.integrate.cumulative_trapezoid(t)):
            print(type(found) is flambeau.Tensor)
        print(flambeau.allclose(scipy.special.expit(t), t.sigmoid()))
        print(flambeau.allclose(scipy.fft.fft(t), flambeau.fft.fft(t)))
    """, SCIPY_ARRAY_API="1")
    assert printed.split() == ["True"] * 13


# --- scikit-learn -----------------------------------------------------------------------------------------------------

def test_sklearn_fits_every_estimator_of_its_array_api_on_tensors():
    pytest.importorskip("sklearn")
    lines = program("from tests.array_api import estimators; estimators.main()").splitlines()
    wrong = [line for line in lines if not line.endswith(" ok")]
    assert not wrong and len(lines) >= 30, wrong


def test_the_page_s_sklearn_example():
    pytest.importorskip("sklearn")
    page = ROOT / "docs" / "array-api.md"
    if not page.is_file():
        pytest.skip("the documentation is not here")
    example, = re.findall(r"```py\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    program(example, SCIPY_ARRAY_API="1")


# --- annotations ------------------------------------------------------------------------------------------------------

def test_jaxtyping_and_beartype_check_tensors():
    jaxtyping = pytest.importorskip("jaxtyping")
    beartype = pytest.importorskip("beartype")
    Tensor = flambeau.Tensor
    Rows, Factors = jaxtyping.Float[Tensor, "batch 3"], jaxtyping.Int[Tensor, "batch"]

    @jaxtyping.jaxtyped(typechecker=beartype.beartype)
    def scaled(x: Rows, y: Factors) -> Rows:
        return x * y[:, None]

    assert scaled(flambeau.ones(2, 3), flambeau.tensor([1, 2])).shape == (2, 3)
    for x, y in ((flambeau.ones(2, 3), flambeau.tensor([1])), (flambeau.ones(2, 3).int(), flambeau.tensor([1, 2])),
                 (flambeau.ones(2, 2), flambeau.tensor([1, 2])), (np.ones((2, 3)), flambeau.tensor([1, 2]))):
        with pytest.raises(jaxtyping.TypeCheckError):
            scaled(x, y)

    @beartype.beartype
    def device_of(x: Tensor) -> flambeau.device:
        return x.device

    assert device_of(flambeau.ones(1)).type == "cpu"
    with pytest.raises(beartype.roar.BeartypeCallHintParamViolation):
        device_of([1.0])


# --- compiled kernels -------------------------------------------------------------------------------------------------

def test_numba_kernels_work_in_the_tensor_s_memory():
    numba = pytest.importorskip("numba")

    @numba.njit
    def add_index(a):
        for i in range(a.shape[0]):
            for j in range(a.shape[1]):
                a[i, j] += 10 * i + j

    t = flambeau.zeros(2, 3)
    add_index(t.numpy())
    assert t.tolist() == [[0, 1, 2], [10, 11, 12]]
    add_index(t.t().numpy())  # strides that are not those of C
    assert t.tolist() == [[0, 11, 22], [11, 22, 33]]


def test_cython_memoryviews_take_tensors(tmp_path):
    pytest.importorskip("Cython")
    (tmp_path / "kernels.pyx").write_text(textwrap.dedent("""
        def doubled(float[:, ::1] a):
            cdef Py_ssize_t i, j
            for i in range(a.shape[0]):
                for j in range(a.shape[1]):
                    a[i, j] *= 2

        def first(const double[:] a):
            return a[0]
        """))
    built = subprocess.run([sys.executable, "-m", "Cython.Build.Cythonize", "-i", "-q", "kernels.pyx"], cwd=tmp_path,
                           capture_output=True, text=True)
    if built.returncode:
        pytest.skip("no compiler")
    assert program("""
        import flambeau, kernels, numpy
        t = flambeau.ones(2, 3)
        kernels.doubled(t)
        print(t.sum().item())
        for wrong in (t.double(), t.t(), flambeau.ones(2, 3, requires_grad=True)):
            try:
                kernels.doubled(wrong)
            except (ValueError, BufferError) as error:
                print(type(error).__name__)
        still = numpy.arange(3.0)
        still.flags.writeable = False
        print(kernels.first(flambeau.from_dlpack(still)))
    """, PYTHONPATH=os.pathsep.join([str(tmp_path), str(Path(flambeau.__file__).parents[1])])
    ).split() == ["12.0", "ValueError", "ValueError", "BufferError", "0.0"]
