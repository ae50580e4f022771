"""`compile` as users meet it: functions, modules, what is refused, what is honoured, threads, failures."""

import copy
import functools
import gc
import pickle
import threading
import warnings
from types import SimpleNamespace

import pytest

import flambeau
from flambeau import _C, nn
from flambeau.compiler import OptimizedModule


def counts():
    return _C.graph_counts()


def used(run):
    """(programs, plans made) while it ran."""
    before = counts()
    run()
    after = counts()
    return after["programs"] - before["programs"], after["made"] - before["made"]


# --- functions ---------------------------------------------------------------------------------------------------

def test_one_plan_serves_all_calls_of_a_kind():
    flambeau.compiler.reset()
    f = flambeau.compile(lambda x, k: (x * k + 1).sin())
    assert used(lambda: [f(flambeau.randn(7), 0.5 + k) for k in range(5)]) == (5, 1)
    f = flambeau.compile(lambda x, k: (x * k + 1).sin())  # one that is called more often computes at once
    assert used(lambda: f(flambeau.randn(8), 0.5)) == (1, 0)  # another size
    assert used(lambda: f(flambeau.randn(7, 8), 0.5)) == (1, 1)  # another shape
    assert used(lambda: f(flambeau.randn(7, dtype=flambeau.float64), 0.5)) == (1, 1)  # another dtype
    assert used(lambda: f(flambeau.randn(14)[::2], 0.5)) == (1, 1)  # another layout
    assert used(lambda: f(flambeau.randn(7), 0.25)) == (1, 0)


def test_functions_whose_calls_are_small_compute_at_once():
    seen = []

    def f(x):
        seen.append(flambeau.compiler.is_compiling())
        return (x * 2 + 1).sin()
    flambeau.compiler.reset()
    g, small, large = flambeau.compile(f), flambeau.randn(7), flambeau.randn(100_000)
    assert used(lambda: [g(small) for _ in range(20)])[0] == 8
    assert all(seen) and flambeau.equal(g(small), f(small))
    assert used(lambda: g(large))[0] == 1 and flambeau.equal(g(large), f(large))  # and is not small any more
    assert used(lambda: [g(small) for _ in range(300)])[0] in range(8, 16)  # now and then it is captured again
    for options in ({"fullgraph": True}, {"dynamic": False}):
        whole = flambeau.compile(lambda x: (x * 2 + 1).sin(), **options)
        assert used(lambda whole=whole: [whole(small) for _ in range(20)])[0] == 20
    with pytest.raises(RuntimeError, match="fullgraph"):
        for _ in range(20):
            flambeau.compile(lambda x: x.sum().item(), fullgraph=True)(small)


def test_ten_batch_sizes_share_a_plan():
    net = nn.Sequential(nn.Linear(6, 9), nn.GELU(), nn.LayerNorm(9), nn.Linear(9, 5), nn.LogSoftmax(-1))

    def loss(x, y):
        net.zero_grad()
        value = nn.functional.nll_loss(net(x), y)
        value.backward()
        return value, *[p.grad for p in net.parameters()]

    def batches(f):
        for n in (1, 2, 3, 4, 8, 10, 16, 32, 64, 100, 1, 7):
            x, y = flambeau.randn(n, 6), flambeau.randint(5, (n,))
            for a, b in zip(f(x, y), loss(x, y), strict=True):
                assert flambeau.equal(a, b), n
    flambeau.compiler.reset()
    assert used(lambda: batches(flambeau.compile(loss)))[1] <= 2
    assert used(lambda: batches(flambeau.compile(loss, dynamic=True)))[1] == 0
    assert used(lambda: batches(flambeau.compile(loss, dynamic=False)))[1] == 11


def test_numbers_are_those_of_the_call():
    f = flambeau.compile(lambda x, k: flambeau.nn.functional.leaky_relu(x * k - k, 0.1 * k).clamp(-k, k))
    for k in (1, 2.5, 3, 7.25, -1, 0):
        x = flambeau.randn(9)
        assert flambeau.equal(f(x, k), f._torchdynamo_orig_callable(x, k)), k


def test_python_decides_anew_each_time():
    switch = {"on": True}
    f = flambeau.compile(lambda x: x + 1 if switch["on"] else x - 1)
    assert f(flambeau.ones(1)).item() == 2
    switch["on"] = False
    assert f(flambeau.ones(1)).item() == 0


def test_values_may_be_asked_for_in_the_middle():
    def f(x):
        y = x * 2
        if y.sum() > 0:
            return y.tolist(), (y + 1)[y > 2]
        return y.numpy().copy(), y
    g = flambeau.compile(f)
    for x in (flambeau.tensor([1.0, 2.0]), flambeau.tensor([-1.0, -2.0])):
        assert str(g(x)) == str(f(x))


def test_fullgraph_refuses_to_be_asked():
    f = flambeau.compile(lambda x: x * 2 if x.sum() > 0 else x, fullgraph=True)
    with pytest.raises(RuntimeError, match="fullgraph=True"):
        f(flambeau.ones(2))
    whole = flambeau.compile(lambda x: x * 2 + x.sum(), fullgraph=True)
    assert whole(flambeau.ones(2)).tolist() == [4, 4]


def test_writes_to_what_came_from_outside():
    def f(x, total):
        y = x * 2
        total.add_(y.sum())
        x.mul_(3)
        return y + x
    for run in (f, flambeau.compile(f)):
        x, total = flambeau.ones(3), flambeau.zeros(())
        assert (run(x, total).tolist(), x.tolist(), total.item()) == ([5] * 3, [3] * 3, 6)


def test_results_that_nobody_holds_are_not_computed():
    def f(x):
        x.exp().log().sinh()
        return x + 1
    assert used(lambda: flambeau.compile(f)(flambeau.ones(3)))[0] == 1
    many = flambeau.compile(lambda x: [x.double() for _ in range(100)][-1])
    before = flambeau.memory.stats()["allocations"]
    many(flambeau.ones(1000))
    assert flambeau.memory.stats()["allocations"] - before < 20


def test_kwargs_names_and_docs_stay():
    @flambeau.compile
    def scaled(x, *, by=2):
        """x times by."""
        return x * by
    assert scaled(flambeau.ones(1), by=3).item() == 3
    assert (scaled.__name__, scaled.__doc__) == ("scaled", "x times by.")
    assert flambeau.compile(fullgraph=True)(abs)(flambeau.tensor(-1.0)).item() == 1


def test_nested_and_disabled():
    inner = flambeau.compile(lambda x: x * 2)
    seen = []

    @flambeau.compiler.disable
    def outside(x):
        seen.append(flambeau.compiler.is_compiling())
        return x + x.sum().item()

    f = flambeau.compile(lambda x: outside(inner(x) + 1) * 2)
    assert f(flambeau.ones(2)).tolist() == [18, 18] and seen == [False]
    with flambeau.compiler.set_stance("force_eager"):
        assert used(lambda: f(flambeau.ones(2))) == (0, 0)
    assert used(lambda: f(flambeau.ones(2)))[0] >= 1


def test_an_exception_leaves_everything_as_it_was():
    kept = []

    def f(x):
        kept.append(x * 2)
        raise KeyError("mine")
    with pytest.raises(KeyError, match="mine"):
        flambeau.compile(f)(flambeau.ones(2))
    assert kept[0].tolist() == [2, 2] and not flambeau.compiler.is_compiling()


def test_what_fails_while_it_runs_fails_for_all_who_look():
    def f(x, zero):
        kept.append(x // zero)
        return x + 1
    kept = []
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        flambeau.compile(f)(flambeau.ones(2, dtype=flambeau.int64), flambeau.zeros(2, dtype=flambeau.int64))
    for _ in range(2):
        with pytest.raises(RuntimeError, match="ZeroDivisionError"):
            kept[0].tolist()


def test_results_shared_with_threads():
    f = flambeau.compile(lambda x: [(x * k).sum() for k in range(20)])
    for _ in range(20):
        x, found = flambeau.ones(1000), []

        def look(values, found=found):
            found.append([v.item() for v in values])

        def work(x=x, look=look):
            values = [(x * k).sum() for k in range(20)]
            threads = [threading.Thread(target=look, args=(values,)) for _ in range(3)]
            for t in threads:
                t.start()
            for t in threads:
                t.join()
            return values
        assert [v.item() for v in flambeau.compile(work)()] == [1000.0 * k for k in range(20)]
        assert found == [[1000.0 * k for k in range(20)]] * 3
    assert len(f(flambeau.ones(2))) == 20


def test_ten_thousand_programs_in_bounded_memory():
    flambeau.compiler.reset()
    f = flambeau.compile(lambda x: x * 2 + 1)
    for n in range(10_000):
        f(flambeau.empty(n % 5000 + 1, n // 5000 + 1))
    assert counts()["plans"] <= 1024
    gc.collect()


def test_a_training_step_is_one_program():
    flambeau.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.LayerNorm(8), nn.Linear(8, 2))
    twin = copy.deepcopy(net)
    x, y = flambeau.randn(5, 4), flambeau.tensor([0, 1, 0, 1, 1])

    def steps(net, wrap):
        optimizer = flambeau.optim.AdamW(net.parameters(), lr=0.05)

        def step():
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(net(x), y)
            loss.backward()
            optimizer.step()
            return loss
        step = wrap(step)
        return [step().item() for _ in range(20)]

    assert steps(net, flambeau.compile) == steps(twin, lambda f: f)
    for a, b in zip(net.parameters(), twin.parameters(), strict=True):
        assert flambeau.equal(a, b) and flambeau.equal(a.grad, b.grad)
        assert a.grad.data_ptr() != b.grad.data_ptr()


def test_gradients_do_not_share_memory():
    a, b = flambeau.ones(3, requires_grad=True), flambeau.ones(3, requires_grad=True)
    flambeau.compile(lambda: (a + b).sum().backward())()
    a.grad.zero_()
    assert b.grad.tolist() == [1, 1, 1]


# --- modules -----------------------------------------------------------------------------------------------------

def test_a_module_becomes_another_that_leads_to_it():
    net = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
    fast = flambeau.compile(net)
    assert isinstance(fast, OptimizedModule) and isinstance(fast, nn.Module) and fast._orig_mod is net
    assert list(fast.state_dict()) == ["_orig_mod." + k for k in net.state_dict()]
    fast.eval()
    assert not net.training and not fast.training
    x = flambeau.randn(4, 2)
    assert flambeau.equal(fast(x), net(x))
    fast.note = 3
    assert net.note == 3 and fast.note == 3
    del fast.note
    assert not hasattr(net, "note") and not hasattr(fast, "note")
    again = pickle.loads(pickle.dumps(fast))
    assert flambeau.equal(again(x), net(x))
    assert flambeau.compile(net, backend="eager")(x).shape == (4, 3)


def test_a_module_compiled_in_place():
    net = nn.Linear(2, 3)
    net.compile(fullgraph=True)
    x = flambeau.randn(4, 2)
    assert used(lambda: net(x))[0] == 1
    other = copy.deepcopy(net)
    with flambeau.no_grad():
        other.weight.zero_()
    assert flambeau.equal(other(x), other.bias.expand(4, 3)) and not flambeau.equal(net(x), other(x))
    net.compile(backend="eager")
    assert used(lambda: net(x))[0] == 0


def test_stances_that_programs_name():
    compiled = flambeau.compile(lambda: flambeau.compiler.is_compiling())
    for stance, backend, expected in [("eager_then_compile", None, True), ("aot_eager_then_compile", None, True),
                                      ("default", "eager", False), ("default", "inductor", True)]:
        with flambeau.compiler.set_stance(stance, force_backend=backend):
            assert compiled() is expected


def test_marks_of_functions_change_nothing():
    compiler, x = flambeau.compiler, flambeau.tensor([-1.0, 2.0])

    def twice(x):
        return x * 2
    for mark in (compiler.nested_compile_region, compiler.nested_compile_region(max_reuse_entries=2),
                 compiler.nonstrict_trace, compiler.allow_in_graph, compiler.substitute_in_graph(twice)):
        assert mark(twice) is twice
        with pytest.raises(TypeError, match=r"expected a function, got 3|'int'"):
            mark(3) if mark is not compiler.allow_in_graph else compiler.nonstrict_trace(3)
    with pytest.raises(TypeError, match=r"parameters \(x\).*has \(y\)"):
        compiler.substitute_in_graph(twice)(lambda y: y)
    assert compiler.substitute_in_graph(twice, skip_signature_check=True)(len) is len
    assert flambeau.compile(compiler.nested_compile_region(twice))(x).tolist() == [-2, 4]
    numpy_sum = compiler.wrap_numpy(lambda a, more: {"sum": a.sum() + more["b"].max()})
    assert numpy_sum(x, {"b": x})["sum"].item() == 3
    assert compiler.save_cache_artifacts() is None and compiler.load_cache_artifacts(b"") is None
    with pytest.raises(TypeError, match="expected bytes"):
        compiler.load_cache_artifacts("")
    assert compiler.set_enable_guard_collectives(True) is False and compiler.set_enable_guard_collectives(False)


def test_filters_of_guards():
    source = SimpleNamespace(is_unspecialized_builtin_nn_module=lambda: False, is_unspecialized_nn_module=lambda: True)
    weight = nn.Parameter(flambeau.ones(1))
    entries = [SimpleNamespace(guard_type=kind, value=value, is_global=kind == "ID_MATCH",
                               orig_guard=SimpleNamespace(source=source))
               for kind, value in [("TENSOR_MATCH", weight), ("TENSOR_MATCH", flambeau.ones(1)), ("ID_MATCH", None),
                                   ("SHAPE_ENV", None)]]
    compiler = flambeau.compiler
    for keep, expected in [
            (compiler.keep_tensor_guards_unsafe, [0, 1, 0, 0]), (compiler.skip_all_guards_unsafe, [0, 0, 0, 0]),
            (functools.partial(compiler.keep_tensor_guards_unsafe, keep_parameters=True), [1, 1, 0, 0]),
            (compiler.skip_guard_on_globals_unsafe, [1, 1, 0, 1]), (compiler.keep_portable_guards_unsafe, [1, 1, 0, 1]),
            (compiler.skip_guard_on_inbuilt_nn_modules_unsafe, [1, 1, 1, 1]),
            (compiler.skip_guard_on_all_nn_modules_unsafe, [0, 0, 0, 0])]:
        assert keep(entries) == list(map(bool, expected))
    options = {"guard_filter_fn": compiler.skip_all_guards_unsafe}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert flambeau.compile(lambda x: x + 1, options=options)(flambeau.ones(1)).item() == 2


@pytest.mark.parametrize("bad, kind, text", [
    (lambda: flambeau.compiler.set_stance("force_eager", force_backend="eager"), RuntimeError, "only"),
    (lambda: flambeau.compiler.set_stance("default", force_backend=print), NotImplementedError, "of one's own"),
    (lambda: flambeau.compile(3), TypeError, "int"),
    (lambda: flambeau.compile(abs, backend="nvfuser"), RuntimeError, "nvfuser"),
    (lambda: flambeau.compile(abs, mode="fastest"), RuntimeError, "fastest"),
    (lambda: flambeau.compile(abs, mode="default", options={"a": 1}), RuntimeError, "exclude"),
    (lambda: flambeau.compiler.set_stance("eager_on_recompile"), NotImplementedError, "eager_on_recompile"),
])
def test_refusals(bad, kind, text):
    with pytest.raises(kind, match=text):
        bad()


# --- samples -----------------------------------------------------------------------------------------------------

def test_operators_give_compiled_what_they_give():
    from ..core import seams
    tally = seams.own_samples(modes=("compiled",))
    assert tally.total["compiled"] > 2300
    assert tally.share("compiled") == 1, f"{tally}\n{tally.differ[:20]}"


@pytest.mark.parity
def test_pytorchs_samples_give_compiled_what_they_give():
    from ..core import seams
    tally = seams.torch_samples(seams.torch_python(), modes=("compiled",))
    assert tally.total["compiled"] > 21_000
    assert tally.share("compiled") >= 0.995, f"{tally}\n{tally.differ[:50]}"


# --- memory that is seen in several ways -----------------------------------------------------------------------------

def _through_data(x):
    x.data.mul_(10)


def _read_through_data(x):
    return x.data * 2


def _through_numpy(x):
    x.numpy()[:] = 5


def _through_dlpack(x):
    flambeau.from_dlpack(x).zero_()


def _through_a_view(x):
    x[1:].fill_(7)


def _through_set(x):
    flambeau.empty(0).set_(x.untyped_storage(), 0, (2,)).fill_(4)


def _resized(x):
    x.resize_(100).fill_(3)
    x.resize_(3)


@pytest.mark.parametrize("write", [_through_data, _through_numpy, _through_dlpack, _through_a_view, _through_set,
                                   _resized])
@pytest.mark.parametrize("read", [lambda x: x * 2, _read_through_data, lambda x: x.t() + 1, lambda x: x.sum()])
def test_writes_come_after_the_reads_before_them(read, write):
    def f(x):
        y = read(x)
        write(x)
        return y, read(x)
    expected, found = (run(flambeau.ones(3)) for run in (f, flambeau.compile(f)))
    assert [t.tolist() for t in found] == [t.tolist() for t in expected]


def test_two_tensors_over_an_array():
    np = pytest.importorskip("numpy")

    def f(array):
        a, b = flambeau.from_numpy(array), flambeau.from_numpy(array)
        y = a * 2
        b.add_(1)
        return y, a * 2
    expected, found = (run(np.ones(3)) for run in (f, flambeau.compile(f)))
    assert [t.tolist() for t in found] == [t.tolist() for t in expected] == [[2] * 3, [4] * 3]


def test_plans_are_no_trouble_at_the_end():
    import subprocess
    import sys
    program = "import flambeau; f = flambeau.compile(lambda x: (x @ x).exp() + 1); print(f(flambeau.zeros(2, 2)).sum())"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "tensor(8.)\n", "")


def test_views_in_place_of_values_that_wait():
    def f(x):
        y = x + 1
        y.as_strided_((2, 2), (1, 2), 1).t_()
        return y, y.unsqueeze_(0) * 2
    x = flambeau.arange(8.0)
    for found, expected in zip(flambeau.compile(f)(x), f(x), strict=True):
        assert flambeau.equal(found, expected) and found.stride() == expected.stride()


def test_generators_take_states_that_wait():
    def f(generator):
        state = generator.get_state().clone()
        first = flambeau.rand(2, generator=generator)
        twin = flambeau.Generator().set_state(state)
        return first, flambeau.rand(2, generator=twin), flambeau.rand(2, generator=copy.deepcopy(generator))
    for seed in (1, 2):
        for run in (f, flambeau.compile(f)):
            first, again, later = run(flambeau.Generator().manual_seed(seed))
            assert flambeau.equal(first, again) and not flambeau.equal(again, later)


def test_budgets_of_memory_for_activations():
    budget = flambeau.autograd.graph.region_activation_memory_budget

    def run(share):
        with budget(share):
            return flambeau.ones(1) * 2
    assert flambeau.compile(run)(1.0).item() == 2
    for share, inside, error in ((1.0, False, RuntimeError), (0.5, True, NotImplementedError), (2, True, ValueError)):
        with pytest.raises(error, match="region_activation_memory_budget"):
            (flambeau.compile(run) if inside else run)(share)


def test_indices_of_integers_wait():
    table, places = flambeau.arange(12.0).reshape(4, 3), flambeau.tensor([1, 2])
    for dtype in (flambeau.int64, flambeau.int32):
        look = flambeau.compile(lambda t, i: t[i + 1] * 2, fullgraph=True)
        for rows in (places, flambeau.tensor([2, 0, -1])):
            assert look(table, rows.to(dtype)).tolist() == (table[rows + 1] * 2).tolist()
        with pytest.raises(IndexError, match="index 9 is outside dimension 0 of size 4"):
            look(table, flambeau.tensor([8], dtype=dtype)).sum().item()
    pairs = flambeau.compile(lambda t, i: t[i, :, None][..., 0] + t[:, i].t(), fullgraph=True)
    square = flambeau.arange(9.0).reshape(3, 3)
    assert pairs(square, places).tolist() == (square[places] + square[:, places].t()).tolist()
    put = flambeau.compile(lambda t, i, v: (t * 1).index_put((i + 1,), v) * 2, fullgraph=True)
    values = flambeau.ones(2, 3)
    assert put(table, places, values).tolist() == ((table * 1).index_put((places + 1,), values) * 2).tolist()
    grown = table.clone().requires_grad_()
    flambeau.compile(lambda t, i: (t[i + 1] ** 2).sum())(grown, places).backward()
    assert grown.grad[2:].tolist() == (table[2:] * 2).tolist() and not grown.grad[:2].any()
    masked = flambeau.compile(lambda t: t[t > 4] * 2)
    assert masked(table).tolist() == (table[table > 4] * 2).tolist()


def test_cond_looks_where_nobody_else_may():
    choose = flambeau.compile(lambda x: flambeau.cond(x.sum() > 0, flambeau.sin, flambeau.cos, (x,)) * 2,
                              fullgraph=True)
    for x in (flambeau.ones(2), -flambeau.ones(2)):
        assert choose(x).tolist() == ((x.sin() if x.sum() > 0 else x.cos()) * 2).tolist()


def test_a_product_in_place_with_a_factor_that_learns_is_part_of_the_program():
    factor = flambeau.tensor([1.0, -2.0], requires_grad=True)

    def f(x):
        y = x + 1
        y *= factor
        return y.sum()

    x = flambeau.tensor([3.0, 4.0], requires_grad=True)
    for run in (f, flambeau.compile(f, fullgraph=True)):
        x.grad = factor.grad = None
        run(x).backward()
        assert x.grad.tolist() == [1, -2] and factor.grad.tolist() == [4, 5]
