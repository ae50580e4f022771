"""Every collective over dtypes, layouts and groups of 1 to 4 ranks, against NumPy."""

import functools
import os
import pickle

import numpy
import pytest

import flambeau
import flambeau.distributed as dist
from flambeau.distributed import ReduceOp

GROUPS = {"1": [2], "2": [0, 1], "odd": [1, 3], "3": [0, 2, 3], "4": [0, 1, 2, 3]}
DTYPES = ["bool", "uint8", "int8", "int16", "int32", "int64", "uint16", "uint32", "uint64", "float16", "bfloat16",
          "float32", "float64", "complex64", "complex128", "complex32", "float8_e4m3fn"]
#: sizes from nothing over one element to more than one chunk of the ring
SIZES = [(0,), (), (3, 5), (70_001,)]
LAYOUTS = ["dense", "transposed", "strided", "expanded grad"]


@functools.cache
def group(name):
    """A group of this rank's process, made once."""
    made = {key: dist.new_group(GROUPS[key]) for key in GROUPS}
    return made if name is None else made[name]


def the_group(name):
    groups = group(None)
    return groups[name] if dist.get_rank() in GROUPS[name] else None


def values(shape, dtype, rank, case=0):
    """The same numbers for the same arguments, in every process; small, so that sums are exact in every dtype."""
    generator = numpy.random.default_rng([rank, case, len(shape), *shape])
    x = generator.integers(0, 2 if dtype in ("bool", "float8_e4m3fn") else 4, shape)
    x = flambeau.from_numpy(numpy.ascontiguousarray(x)).reshape(shape)
    if dtype.startswith("complex"):
        other = flambeau.from_numpy(numpy.asarray(generator.integers(0, 3, shape))).reshape(shape)
        return flambeau.complex(x.double(), other.double()).to(getattr(flambeau, dtype))
    return x.to(getattr(flambeau, dtype))


def laid_out(x, layout):
    """The same values with other strides."""
    if layout == "transposed" and x.ndim > 1:
        return x.mT.contiguous().mT
    if layout == "strided" and x.ndim:
        wide = x.repeat_interleave(2, -1)
        return wide[..., ::2]
    if layout == "expanded grad" and x.dtype.is_floating_point and x.itemsize > 1:
        return x.clone().requires_grad_()
    return x.clone()


def wide(x):
    """As NumPy numbers in which sums are exact."""
    x = x.detach()
    if x.dtype.is_complex:
        return x.to(flambeau.complex128).numpy()
    return x.double().numpy() if x.dtype.is_floating_point else x.numpy().astype(object if x.numel() < 100 else "int64")


def same(x, expected, dtype):
    """Whether a tensor has exactly these numbers, once they are rounded to its dtype."""
    expected = numpy.asarray(expected)
    kind = getattr(flambeau, dtype)
    if expected.dtype == object:
        bits = 8 * kind.itemsize
        expected = numpy.vectorize(lambda v: int(v) % 2**bits, otypes=[object])(expected) if expected.size else expected
        found = numpy.vectorize(lambda v: int(v) % 2**bits, otypes=[object])(wide(x)) if x.numel() else wide(x)
        return x.dtype is kind and (expected == found).all()
    expected = flambeau.from_numpy(numpy.ascontiguousarray(expected)).reshape(x.shape).to(kind)
    return x.dtype is kind and flambeau.equal(x.detach().to(flambeau.complex128), expected.to(flambeau.complex128))


def cases():
    for dtype in DTYPES:
        for shape in SIZES if dtype == "float32" else SIZES[2:3]:
            for layout in LAYOUTS if len(shape) == 2 and dtype in ("float32", "int64") else LAYOUTS[:1]:
                yield dtype, shape, layout


OPS = {"SUM": sum, "PRODUCT": numpy.prod, "MIN": min, "MAX": max, "BAND": numpy.bitwise_and.reduce,
       "BOR": numpy.bitwise_or.reduce, "BXOR": numpy.bitwise_xor.reduce}


def reduced(parts, op, dtype):
    """What NumPy makes of the ranks' arrays."""
    if dtype == "bool":
        logical = {"SUM": numpy.any, "MAX": numpy.any, "BOR": numpy.any, "PRODUCT": numpy.all, "MIN": numpy.all,
                   "BAND": numpy.all}
        parts = [part.astype(bool) for part in parts]
        return logical[op](parts, 0) if op in logical else functools.reduce(numpy.logical_xor, parts)
    functions = {"SUM": numpy.add, "AVG": numpy.add, "PRODUCT": numpy.multiply, "MIN": numpy.minimum,
                 "MAX": numpy.maximum, "BAND": numpy.bitwise_and, "BOR": numpy.bitwise_or, "BXOR": numpy.bitwise_xor}
    found = functools.reduce(functions[op], parts)
    if op == "AVG":
        whole = not flambeau.empty(0, dtype=getattr(flambeau, dtype)).is_floating_point() and "complex" not in dtype
        if numpy.iscomplexobj(found):
            return found.real / len(parts) + 1j * (found.imag / len(parts))
        return found // len(parts) if whole else found / len(parts)
    return found


def is_defined(op, dtype):
    if dtype == "bool":
        return op != "AVG"
    kind = getattr(flambeau, dtype)
    if op in ("BAND", "BOR", "BXOR"):
        return not (kind.is_floating_point or kind.is_complex)
    return not (op in ("MIN", "MAX") and kind.is_complex)


# --- in the ranks -----------------------------------------------------------------------------------------------------

def check_reductions(name, op):
    pg = the_group(name)
    if pg is None:
        return 0
    count, me, n = 0, dist.get_rank(pg), pg.size()
    for dtype, shape, layout in cases():
        if not is_defined(op, dtype):
            continue
        parts = [values(shape, dtype, r) for r in range(n)]
        expected = reduced([wide(part) for part in parts], op, dtype)
        kind, x = getattr(ReduceOp, op), laid_out(parts[me], layout)
        with flambeau.no_grad():
            dist.all_reduce(x, kind, pg)
            assert same(x, expected, dtype), ("all_reduce", dtype, shape, layout)
            x = laid_out(parts[me], layout)
            dist.reduce(x, op=kind, group=pg, group_dst=n - 1)
            assert same(x, expected if me == n - 1 else wide(parts[me]), dtype), ("reduce", dtype, shape, layout)
            inputs = [laid_out(values(shape, dtype, me, r), layout) for r in range(n)]
            wanted = reduced([wide(values(shape, dtype, r, me)) for r in range(n)], op, dtype)
            x = laid_out(parts[me], layout)
            dist.reduce_scatter(x, inputs, kind, pg)
            assert same(x, wanted, dtype), ("reduce_scatter", dtype, shape, layout)
            x = laid_out(parts[me], layout)
            dist.reduce_scatter_tensor(x, flambeau.stack(inputs), kind, pg)
            assert same(x, wanted, dtype), ("reduce_scatter_tensor", dtype, shape, layout)
        count += 4
    return count


def check_moves(name):
    pg = the_group(name)
    if pg is None:
        return 0
    count, me, n = 0, dist.get_rank(pg), pg.size()
    for dtype, shape, layout in cases():
        parts = [values(shape, dtype, r) for r in range(n)]
        fresh = lambda: laid_out(flambeau.zeros(shape, dtype=getattr(flambeau, dtype)), layout)  # noqa: B023
        mine = laid_out(parts[me], layout)
        with flambeau.no_grad():
            for root in range(n):
                x = mine.clone() if layout != "strided" else laid_out(parts[me], layout)
                dist.broadcast(x, group=pg, group_src=root)
                assert same(x, wide(parts[root]), dtype)
                outputs = [fresh() for _ in range(n)] if me == root else None
                dist.gather(mine, outputs, group=pg, group_dst=root)
                assert me != root or all(same(x, wide(part), dtype) for x, part in zip(outputs, parts))
                inputs = [laid_out(values(shape, dtype, root, r), layout) for r in range(n)] if me == root else None
                x = fresh()
                dist.scatter(x, inputs, group=pg, group_src=root)
                assert same(x, wide(values(shape, dtype, root, me)), dtype)
            outputs = [fresh() for _ in range(n)]
            dist.all_gather(outputs, mine, pg)
            assert all(same(x, wide(part), dtype) for x, part in zip(outputs, parts))
            whole = flambeau.zeros((n, *shape), dtype=mine.dtype)
            dist.all_gather_into_tensor(whole, mine, pg)
            assert all(same(x, wide(part), dtype) for x, part in zip(whole, parts))
            outputs = [fresh() for _ in range(n)]
            dist.all_to_all(outputs, [laid_out(values(shape, dtype, me, r), layout) for r in range(n)], pg)
            assert all(same(x, wide(values(shape, dtype, r, me)), dtype) for r, x in enumerate(outputs))
        count += 3 * n + 3
    return count


def check_uneven(name):
    pg = the_group(name)
    if pg is None:
        return True
    me, n = dist.get_rank(pg), pg.size()
    rows = lambda source, target: (3 * source + target * 2) % 5 * (7000 if source == 0 else 1)
    inputs = flambeau.cat([values((rows(me, r), 3), "float32", me, r) for r in range(n)])
    taken = [rows(r, me) for r in range(n)]
    output = flambeau.zeros(sum(taken), 3)
    dist.all_to_all_single(output, inputs, taken, [rows(me, r) for r in range(n)], pg)
    expected = flambeau.cat([values((rows(r, me), 3), "float32", r, me) for r in range(n)])
    return flambeau.equal(output, expected)


def check_halves():
    """Half precision is added up in float32 and rounded once."""
    x = flambeau.full((3,), 1 + 2.0**-8 * dist.get_rank(), dtype=flambeau.bfloat16)
    parts = [flambeau.full((3,), 1 + 2.0**-8 * r, dtype=flambeau.bfloat16).float() for r in range(4)]
    dist.all_reduce(x)
    return flambeau.equal(x, sum(parts).bfloat16())


def check_same_bits(count):
    x = flambeau.randn(count, generator=flambeau.Generator().manual_seed(dist.get_rank()))
    dist.all_reduce(x)
    every = [flambeau.empty(count) for _ in range(4)]
    dist.all_gather(every, x)
    exact = sum(flambeau.randn(count, generator=flambeau.Generator().manual_seed(r)) for r in range(4))
    return all(flambeau.equal(each, x) for each in every) and flambeau.equal(x, exact)


def check_premul():
    x = flambeau.ones(3) * (1 + dist.get_rank())
    dist.all_reduce(x, dist._make_nccl_premul_sum(0.5))
    return x.tolist()


def check_nan():
    x = flambeau.tensor([float("nan") if dist.get_rank() == 2 else 1.0, dist.get_rank()])
    least, most = x.clone(), x.clone()
    dist.all_reduce(least, ReduceOp.MIN)
    dist.all_reduce(most, ReduceOp.MAX)
    return least.isnan().tolist(), most.isnan().tolist(), least[1].item(), most[1].item()


def check_async():
    xs = [flambeau.full((n,), float(dist.get_rank())) for n in (1, 1000, 300_000)]
    works = [dist.all_reduce(x, async_op=True) for x in xs]
    later = works[1].get_future().then(lambda f: f.wait()[0].sum().item())
    y = flambeau.ones(2)
    dist.all_reduce(y)  # after those before it
    done = [work.is_completed() for work in works]
    return done, [work.wait() for work in works], [x.unique().tolist() for x in xs], later.wait(), y.tolist()


def check_coalesced():
    me = dist.get_rank()
    xs = [flambeau.full((2,), float(me)), flambeau.full((3, 2), 2.0 * me)]
    dist.all_reduce_coalesced(xs)
    lists = [[flambeau.zeros(2), flambeau.zeros(3)] for _ in range(4)]
    dist.all_gather_coalesced(lists, [flambeau.full((2,), float(me)), flambeau.full((3,), 10.0 + me)])
    sizes = [3, 0, 200_001, 1, 70_000, 5, 131_072]  # that begin and end anywhere in the ring's chunks
    long = [values((size,), "float32", me, k) for k, size in enumerate(sizes)]
    whole = [values((2, 3), "int64", me)]
    dist.all_reduce_coalesced([*long, *whole])
    for k, x in enumerate(long):
        assert flambeau.equal(x, sum(values((sizes[k],), "float32", r, k) for r in range(4))), k
    assert flambeau.equal(whole[0], sum(values((2, 3), "int64", r) for r in range(4)))
    return [x.unique().item() for x in xs], [[x[0].item() for x in row] for row in lists]


def check_managed(backend_group=None):
    """Collectives that a manager makes one call of, with strides and dtypes that need copies."""
    me, n = dist.get_rank(backend_group), dist.get_world_size(backend_group)
    xs = [flambeau.full((3,), float(me)), flambeau.full((4, 2), me + 1.0)[:, ::2], flambeau.arange(3.0)]
    whole, part = flambeau.zeros(2 * n), flambeau.zeros(2)
    with dist._coalescing_manager(backend_group, async_ops=True) as manager:
        work = dist.all_reduce(xs[0], group=backend_group, async_op=True)
        assert dist.all_reduce(xs[1], group=backend_group) is None
        dist.broadcast(xs[2], group_src=0, group=backend_group)
        dist.all_gather_into_tensor(whole, flambeau.full((2,), float(me)), group=backend_group)
        dist.reduce_scatter_tensor(part, flambeau.arange(2.0 * n), group=backend_group)
        assert not whole.any()
        for call in (lambda: dist.all_gather_object([None] * n, 1, group=backend_group),
                     lambda: dist.barrier(backend_group), work.wait):
            with pytest.raises(RuntimeError, match="_coalescing_manager"):
                call()
    manager.wait()
    total = float(sum(range(n)))
    assert (xs[0] == total).all() and (xs[1] == total + n).all() and xs[2].tolist() == [0, 1, 2]
    assert whole.tolist() == [float(r) for r in range(n) for _ in range(2)] and part.tolist() == [2.0 * me * n,
                                                                                                  (2 * me + 1.0) * n]
    with dist._coalescing_manager(backend_group):
        dist.all_reduce(xs[2], group=backend_group)
    with pytest.raises(KeyError), dist._coalescing_manager(backend_group):
        dist.all_reduce(xs[2], group=backend_group)
        raise KeyError
    return xs[2].tolist() == [0, n, 2 * n]


def check_objects(data):
    me = dist.get_rank()
    every, part, objects = [None] * 4, [None], [{"a": me}, "x" * me] if me == 1 else [None, None]
    dist.all_gather_object(every, {"rank": me, "text": "y" * 1000 * me}, weights_only=data)
    gathered = [None] * 4 if me == 2 else None
    dist.gather_object((me, "z"), gathered, dst=2, weights_only=data)
    dist.broadcast_object_list(objects, src=1, weights_only=data)
    dist.scatter_object_list(part, [f"to {r}" for r in range(4)] if me == 3 else None, src=3, weights_only=data)
    if me == 0:
        dist.send_object_list([1, "two"], 1, weights_only=data)
    elif me == 1:
        got = [None, None]
        assert dist.recv_object_list(got, 0, weights_only=data) == 0 and got == [1, "two"]
    return [(each["rank"], len(each["text"])) for each in every], gathered, objects, part


def check_saved_values():
    """A tensor that backward needs is written by a collective: backward says so."""
    x, found = flambeau.ones(3, requires_grad=True), []
    part = flambeau.ones(3)
    for write in (dist.all_reduce, lambda y: dist.broadcast(y, 1), lambda y: dist.all_gather([y] * 4, part)):
        y = x * 2
        loss = (y * y).sum()
        write(y.detach())
        try:
            loss.backward()
        except RuntimeError as error:
            found.append("in-place" in str(error) or "in place" in str(error) or "version" in str(error))
    return found


# --- here -------------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("name", GROUPS)
@pytest.mark.parametrize("op", [*OPS, "AVG"])
def test_reductions(ranks, op, name):
    assert max(ranks.run(check_reductions, name, op)) >= 40


@pytest.mark.parametrize("name", GROUPS)
def test_moves(ranks, name):
    assert max(ranks.run(check_moves, name)) > 100


@pytest.mark.parametrize("name", GROUPS)
def test_uneven_parts(ranks, name):
    assert all(ranks.run(check_uneven, name))


@pytest.mark.parametrize("count", [1, 100, 2_049, 400_001])
def test_all_ranks_have_equal_bits(ranks, count):
    assert ranks.run(check_same_bits, count) == [True] * 4


def test_special_reductions(ranks):
    assert ranks.run(check_halves) == [True] * 4
    assert ranks.run(check_premul) == [[5.0] * 3] * 4
    assert ranks.run(check_nan) == [([True, False], [True, False], 0.0, 3.0)] * 4


def test_asynchronous_calls_keep_their_order(ranks):
    assert ranks.run(check_async) == [([True] * 3, [True] * 3, [[6.0]] * 3, 6000.0, [4.0, 4.0])] * 4


def test_writes_are_noticed_by_autograd(ranks):
    assert [len(found) for found in ranks.run(check_saved_values)] == [3, 2, 3, 3]  # rank 1 is only read by broadcast


def test_coalesced(ranks):
    assert ranks.run(check_coalesced) == [([6.0, 12.0], [[float(r), 10.0 + r] for r in range(4)])] * 4


def test_calls_that_a_manager_makes_one_of(ranks):
    assert ranks.run(check_managed) == [True] * 4


class Runs:
    """Unpickling it would end the process."""

    def __reduce__(self):
        return os._exit, (3,)


def check_that_data_runs_nothing():
    places = [None] * 4
    with pytest.raises(pickle.UnpicklingError, match="not plain data"):
        dist.all_gather_object(places, Runs(), weights_only=True)
    dist.all_gather_object(places, flambeau.arange(dist.get_rank()), weights_only=True)
    return [each.tolist() for each in places]


@pytest.mark.parametrize("data", [False, True])
def test_objects(ranks, data):
    for me, (every, gathered, objects, part) in enumerate(ranks.run(check_objects, data)):
        assert every == [(r, 1000 * r) for r in range(4)] and objects == [{"a": 1}, "x"] and part == [f"to {me}"]
        assert gathered == ([(r, "z") for r in range(4)] if me == 2 else None)


def test_objects_as_data_run_nothing(ranks):
    assert ranks.run(check_that_data_runs_nothing) == [[[], [0], [0, 1], [0, 1, 2]]] * 4
