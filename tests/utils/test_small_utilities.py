"""model_zoo, weak, throughput_benchmark, collect_env, bottleneck, and names of what is not here."""

import gc
import subprocess
import sys

import pytest

import flambeau
from flambeau import nn
from flambeau.utils import _python_dispatch, collect_env, deterministic, model_zoo, throughput_benchmark, weak


def test_downloaded_once(tmp_path):
    file = tmp_path / "weights.pt"
    flambeau.save({"w": flambeau.arange(3)}, file)
    assert model_zoo.load_url(file.as_uri(), model_dir=str(tmp_path / "a"), progress=False)["w"].tolist() == [0, 1, 2]
    file.unlink()
    assert model_zoo.load_url(file.as_uri(), model_dir=str(tmp_path / "a"), progress=False)["w"].tolist() == [0, 1, 2]


def test_keys_by_identity():
    x, y = flambeau.ones(2), flambeau.ones(2)
    known = weak.WeakIdKeyDictionary({x: 1})
    known[y] = 2
    assert known[x] == 1 and known[y] == 2 and flambeau.ones(2) not in known and "text" not in known
    assert list(known) == [x, y] and known.copy().data == known.data and len(known | {x: 5}) == 2
    known |= {x: 3}
    del known[x]
    assert len(known) == 1 and known.pop(y) == 2
    with pytest.raises(KeyError):
        _ = known[x]


def test_entries_go_with_their_keys():
    x, known = flambeau.ones(2), weak.WeakTensorKeyDictionary()
    known[x] = "x"
    ref, stale = weak.TensorWeakRef(x), weak.WeakIdRef(x)
    assert ref() is x and stale == weak.WeakIdRef(x)
    del x
    gc.collect()
    assert len(known) == 0 and ref() is None and stale != weak.WeakIdRef(flambeau.ones(2)) and stale == stale
    with pytest.raises(AssertionError, match="tensor"):
        weak.TensorWeakRef(3)


def test_throughput(tmp_path):
    assert flambeau.utils.ThroughputBenchmark is throughput_benchmark.ThroughputBenchmark
    bench = throughput_benchmark.ThroughputBenchmark(nn.Linear(2, 3))
    with pytest.raises(ValueError, match="add_input"):
        bench.benchmark()
    bench.add_input(flambeau.ones(1, 2))
    assert bench.run_once(flambeau.ones(4, 2)).shape == (4, 3)
    found = bench.benchmark(num_calling_threads=3, num_warmup_iters=2, num_iters=50,
                            profiler_output_path=str(tmp_path / "trace.json"))
    assert found.num_iters == 50 and found.iters_per_second == 50 / found.total_time_seconds
    assert found.latency_avg_ms > 0
    assert "50 calls by 3 threads" in str(found) and (tmp_path / "trace.json").stat().st_size > 100
    bench.add_input(flambeau.ones(1, 5))
    with pytest.raises(RuntimeError, match="features"):
        bench.benchmark(num_iters=50)


def test_what_the_environment_is():
    found = collect_env.get_env_info()
    assert found.flambeau_version == flambeau.__version__ and found.python_version.startswith(sys.version.split()[0])
    text = collect_env.pretty_str(found._replace(gcc_version=None))
    assert "GCC version: not found" in text and "[pip] numpy==" in text and "CPU:" in text
    done = subprocess.run([sys.executable, "-m", "flambeau.utils.collect_env"], capture_output=True, text=True,
                          check=True)
    assert done.stdout.startswith("Flambeau version: ") and not done.stderr
    assert collect_env.run("no-such-program") == (127, "", "no-such-program: not found")


PROGRAM = """
import sys, flambeau
def product():
    return flambeau.ones(32, 32) @ flambeau.ones(32, 32)
for _ in range(int(sys.argv[1])):
    product()
sys.exit(0)
"""


def test_where_a_program_spends_its_time(tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    done = subprocess.run([sys.executable, "-m", "flambeau.utils.bottleneck", str(tmp_path / "program.py"), "7"],
                          capture_output=True, text=True, check=True)
    for part in ("Flambeau version", "(product)", "aten::matmul"):
        assert part in done.stdout
    row = next(line.split() for line in done.stdout.splitlines() if line.strip().startswith("aten::matmul"))
    assert row[-1] == "7"
    failed = subprocess.run([sys.executable, "-m", "flambeau.utils.bottleneck", "missing.py"], capture_output=True,
                            text=True, check=False)
    assert failed.returncode == 2 and "no file missing.py" in failed.stderr


def test_new_memory_is_filled_where_numbers_must_repeat():
    assert deterministic.fill_uninitialized_memory is True
    flambeau.use_deterministic_algorithms(True)
    try:
        assert flambeau.empty(2, 3).isnan().all() and flambeau.empty_like(flambeau.ones(2)).isnan().all()
        assert flambeau.ones(2, dtype=flambeau.complex64).new_empty(2).isnan().all()
        for dtype in (flambeau.uint8, flambeau.int8, flambeau.int16, flambeau.int32, flambeau.int64, flambeau.uint64):
            assert flambeau.empty(2, dtype=dtype).tolist() == [flambeau.iinfo(dtype).max] * 2
        assert flambeau.empty_strided((2,), (2,), dtype=flambeau.bool).all()
        grown = flambeau.ones(2).resize_(4)
        assert grown[:2].tolist() == [1, 1] and grown[2:].isnan().all()
        assert flambeau.empty(2, device="meta").shape == (2,)
        whole = flambeau.ones(4)
        assert whole[:2].resize_(4).tolist() == whole.tolist() == [1] * 4  # memory of others stays as it is
        deterministic.fill_uninitialized_memory = False
        flambeau.ones(64)
        assert not flambeau.empty(64).isnan().all()
    finally:
        deterministic.fill_uninitialized_memory = True
        flambeau.use_deterministic_algorithms(False)
    with pytest.raises(RuntimeError, match="bool"):
        deterministic.fill_uninitialized_memory = 1


@pytest.mark.parametrize("module, name", [
    ("backend_registration", "rename_privateuse1_backend"), ("mkldnn", "to_mkldnn"),
    ("backend_registration", "generate_methods_for_privateuse1_backend"), ("mobile_optimizer", "optimize_for_mobile")])
def test_what_is_not_here_says_so(module, name):
    with pytest.raises(NotImplementedError, match=name):
        getattr(getattr(flambeau.utils, module), name)("x")


def test_the_older_functional_call():
    layer = nn.Linear(2, 1)
    given = {"weight": flambeau.ones(1, 2), "bias": flambeau.zeros(1)}
    with pytest.warns(FutureWarning, match="func.functional_call"):
        found = nn.utils.stateless.functional_call(layer, given, flambeau.tensor([3.0, 4.0]))
    assert found.tolist() == [7.0] and layer.weight is not given["weight"]


def test_tensors_exchange_what_they_are():
    a, b = flambeau.ones(2, requires_grad=True), nn.Parameter(flambeau.zeros(3, dtype=flambeau.float64))
    (a * 2).sum().backward()
    b.note, b.requires_grad = "b", False
    first, second = a, b
    flambeau.utils.swap_tensors(a, b)
    assert first is a and second is b and isinstance(a, nn.Parameter) and type(b) is flambeau.Tensor
    assert (a.tolist(), a.dtype, a.note, a.requires_grad, a.grad) == ([0] * 3, flambeau.float64, "b", False, None)
    assert b.tolist() == [1, 1] and b.requires_grad and b.grad.tolist() == [2, 2] and not hasattr(b, "note")
    (b * 3).sum().backward()
    assert b.grad.tolist() == [5, 5]
    with pytest.raises(RuntimeError, match="t2 was computed"):
        flambeau.utils.swap_tensors(a, b * 2)
    with pytest.raises(TypeError, match="t1 must be a tensor"):
        flambeau.utils.swap_tensors(3, b)


def test_archives_with_code_are_refused():
    for refused in (flambeau.package.PackageImporter, flambeau.package.PackageExporter):
        with pytest.raises(NotImplementedError, match="Python package"):
            refused("model.pt")
    assert not flambeau.package.is_from_package(Exception())
    with pytest.raises(TypeError, match="name"):
        flambeau.utils.set_module(Exception, 3)


def test_dispatch_modes_are_told_and_left():
    with _python_dispatch.BaseTorchDispatchMode() as mode:
        assert _python_dispatch.any_torch_dispatch_mode_on_stack() and flambeau.ones(2).sum().item() == 2
        with _python_dispatch._pop_mode_temporarily() as newest:
            assert newest is mode and not _python_dispatch.any_torch_dispatch_mode_on_stack()
    assert not _python_dispatch.any_torch_dispatch_mode_on_stack()
