"""CommDebugMode: collectives counted by operator and by module, forward and backward apart. visualize_sharding."""

import contextlib
import io
import json
from pathlib import Path

import pytest

import flambeau
import flambeau.distributed as dist
from flambeau import nn
from flambeau.distributed.fsdp import fully_shard
from flambeau.distributed.tensor import Replicate, Shard, distribute_tensor
from flambeau.distributed.tensor.debug import CommDebugMode, visualize_sharding
from flambeau.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

functional, plain = flambeau.ops.c10d_functional, flambeau.ops.c10d
_meshes = []


def mesh():
    if not _meshes:
        _meshes.append(dist.init_device_mesh("cpu", (4,)))
    return _meshes[0]


def calls():
    x, mode = flambeau.ones(4), CommDebugMode()
    with mode:
        dist.all_reduce(x)
        dist.all_reduce(x, async_op=True).wait()
        dist.broadcast(x, 1)
        dist.barrier()  # is none
        dist._functional_collectives.all_reduce(x, "sum", mesh())
        part = distribute_tensor(flambeau.ones(4, 4), mesh(), [Shard(0)])
        part.redistribute(placements=[Replicate()])
        part.redistribute(placements=[Shard(1)])
        (part.mT @ part).redistribute(placements=[Shard(0)])
    dist.all_reduce(x)  # comes too late
    first = dict(mode.get_comm_counts())
    with mode:
        pass
    return first == {plain.allreduce_: 2, plain.broadcast_: 1, plain.scatter_: 1, functional.all_reduce: 1,
                     functional.all_gather_into_tensor: 1, functional.all_to_all_single: 1,
                     functional.reduce_scatter_tensor: 1} and mode.get_total_counts() == 0


def test_what_is_counted(ranks):
    assert ranks.run(calls) == [True] * 4


def by_module(place):
    model, mode = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 4)), CommDebugMode()
    parallelize_module(model, mesh(), {"0": ColwiseParallel(), "2": RowwiseParallel()})
    x = flambeau.ones(2, 4, requires_grad=True)
    with mode:
        model(x).sum().backward()
        model[0].weight.mT.clone()
    assert dict(mode.get_comm_counts()) == {functional.all_reduce: 2}  # the result, and the gradient of the input
    assert mode.get_sharding_info()["Sequential.2.weight"] == (Shard(1),)
    assert list(mode.get_parameter_info()) == ["Sequential.0", "Sequential.2"]
    tables = [mode.generate_comm_debug_tracing_table(level) for level in range(4)]
    assert sorted(map(len, tables)) == list(map(len, tables)) and len(set(tables)) == 4
    assert "aten." not in tables[0] and "type: flambeau.nn.modules.linear.Linear" in tables[1]
    path = f"{place}/{dist.get_rank()}"
    mode.log_comm_debug_tracing_table_to_file(path, 2)
    assert Path(path).read_text() == tables[2]
    mode.generate_json_dump(path, 1)
    found = json.loads(Path(path).read_text())
    with pytest.raises(ValueError, match="from 0 to 3"):
        mode.generate_json_dump(path, 4)
    return {name: [one[k]["collectives"] for k in ("forward", "backward")] for name, one in found.items()}


def test_modules(ranks, tmp_path):
    found = ranks.run(by_module, str(tmp_path))[0]
    once = {"c10d_functional.all_reduce": 1}
    assert found["Sequential.2"] == [once, {}] and found["Sequential.0"] == [{}, once]
    assert found["Global"] == found["Sequential"] == [once, once] and found["Sequential.1"] == [{}, {}]


def sharded():
    model, mode = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4)), CommDebugMode()
    for layer in model:
        fully_shard(layer, mesh=mesh())
    fully_shard(model, mesh=mesh())
    with mode:
        model(flambeau.ones(1, 4)).sum().backward()
    return dict(mode.get_comm_counts()) == {plain._allgather_base_: 4, plain._reduce_scatter_base_: 2}


def test_sharded_models(ranks):
    assert ranks.run(sharded) == [True] * 4


def summed():
    return flambeau.ops._c10d_functional.all_reduce(flambeau.ones(1), "sum", dist.group.WORLD).tolist()


def test_names_in_tables_are_functions(ranks):
    assert ranks.run(summed) == [[4]] * 4


def tables():
    grid, printed = dist.init_device_mesh("cpu", (2, 2)), io.StringIO()
    with contextlib.redirect_stdout(printed):
        visualize_sharding(distribute_tensor(flambeau.ones(5, 4), grid, [Shard(0), Shard(1)]), header="both")
        visualize_sharding(distribute_tensor(flambeau.ones(5, 4), grid, [Replicate(), Shard(0)]))
        visualize_sharding(distribute_tensor(flambeau.ones(3), mesh(), [Shard(0)]))  # the last rank has nothing
        visualize_sharding(distribute_tensor(flambeau.ones(0, 3), mesh(), [Shard(0)]))
    return printed.getvalue()


def test_who_has_which_part(ranks):
    first, *others = ranks.run(tables)
    assert others == ["", "", ""]
    assert first == """\
both
         Col 0-1  Col 2-3
-------  -------  -------
Row 0-2  cpu:0    cpu:1
Row 3-4  cpu:2    cpu:3
         Col 0-3
-------  ------------
Row 0-2  cpu:0, cpu:2
Row 3-4  cpu:1, cpu:3
       Col 0-0  Col 1-1  Col 2-2
-----  -------  -------  -------
Row 0  cpu:0    cpu:1    cpu:2
"""


def cubed():
    x = distribute_tensor(flambeau.ones(2, 2, 2), mesh(), [Shard(0)])
    with pytest.raises(RuntimeError, match="expected one or two dimensions"):
        visualize_sharding(x)
    with pytest.raises(NotImplementedError, match="use_rich"):
        visualize_sharding(x[0], use_rich=True)
    with pytest.raises(TypeError, match="expected a DTensor, got Tensor"):
        visualize_sharding(flambeau.ones(2))


def test_what_has_no_table(ranks):
    ranks.run(cubed)
