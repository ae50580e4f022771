"""Meshes, and collectives that return new tensors."""

import pytest

import flambeau
import flambeau.distributed as dist
from flambeau.distributed import _functional_collectives as functional
from flambeau.distributed.device_mesh import DeviceMesh, init_device_mesh


def grid():
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    me, x, y = dist.get_rank(), flambeau.tensor([1.0 * dist.get_rank()]), flambeau.ones(1)
    dist.all_reduce(x, group=mesh["tp"].get_group())
    dist.all_reduce(y, group=mesh["dp"])  # a mesh of one dimension stands for its group
    assert mesh["dp", "tp"] is mesh and mesh["dp"].mesh.tolist() == [me % 2, me % 2 + 2]
    assert mesh.get_coordinate() == (me // 2, me % 2) and mesh.get_local_rank("tp") == me % 2
    assert [group.size() for group in mesh.get_all_groups()] == [2, 2] and mesh.size() == 4 and mesh.size(0) == 2
    again = DeviceMesh.from_group(mesh.get_group("tp"), "cpu", mesh_dim_names=("x",))
    assert again.mesh.tolist() == mesh["tp"].mesh.tolist() and again.get_group() is mesh.get_group("tp")
    for call, error, text in [(lambda: mesh["pp"], KeyError, "no dimension 'pp'; there are dp, tp"),
                              (lambda: mesh["tp", "dp"], KeyError, "in the mesh's order"),
                              (lambda: mesh.get_group(), RuntimeError, "say which one"),
                              (lambda: init_device_mesh("cpu", (3, 2)), RuntimeError, "needs 6 ranks"),
                              (lambda: DeviceMesh("cpu", [0, 0]), RuntimeError, "each rank once"),
                              (lambda: DeviceMesh("cuda", [0]), RuntimeError, "'cuda'")]:
        with pytest.raises(error, match=text):
            call()
    return x.item(), y.item(), repr(mesh), mesh == init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))


def new_tensors():
    me, x = dist.get_rank(), flambeau.arange(8.0).view(4, 2) + 10 * dist.get_rank()
    world = init_device_mesh("cpu", (4,))
    every = [flambeau.arange(8.0).view(4, 2) + 10 * r for r in range(4)]
    found = {
        "all_reduce": flambeau.equal(functional.all_reduce(x, "sum", world), sum(every)),
        "avg": flambeau.equal(functional.all_reduce(x, "avg", dist.group.WORLD), sum(every) / 4),
        "gather": flambeau.equal(functional.all_gather_tensor(x, 1, (world, 0)), flambeau.cat(every, 1)),
        "scatter": flambeau.equal(functional.reduce_scatter_tensor(x, "sum", 0, world), sum(every)[me:me + 1]),
        "broadcast": flambeau.equal(functional.broadcast(x, 2, world), every[2]),
        "all to all": flambeau.equal(functional.all_to_all_single(x, None, None, world),
                                     flambeau.stack([each[me] for each in every])),
        "permute": flambeau.equal(functional.permute_tensor(x, [1, 2, 3, 0], world), every[(me - 1) % 4]),
        "unchanged": flambeau.equal(x, every[me]),
    }
    leaf = x.clone().requires_grad_()
    (functional.all_gather_tensor_autograd(leaf, 0, world) * (me + 1)).sum().backward()
    found["gather grad"] = bool((leaf.grad == 10).all())
    leaf = x.clone().requires_grad_()
    (functional.reduce_scatter_tensor_autograd(leaf, "avg", 0, world) * (me + 1)).sum().backward()
    found["scatter grad"] = leaf.grad[:, 0].tolist() == [0.25, 0.5, 0.75, 1.0]
    leaf = x.clone().requires_grad_()
    (functional.all_to_all_single_autograd(leaf, None, None, world) * (me + 1)).sum().backward()
    found["all to all grad"] = leaf.grad[:, 1].tolist() == [1.0, 2.0, 3.0, 4.0]
    return found


def test_grids(ranks):
    sums = [1.0, 1.0, 5.0, 5.0]
    assert ranks.run(grid) == [(x, 2.0, "DeviceMesh((dp=2, tp=2), 'cpu')", True) for x in sums]


def test_new_tensors(ranks):
    for found in ranks.run(new_tensors):
        assert all(found.values()), found
