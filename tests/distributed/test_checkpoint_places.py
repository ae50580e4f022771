"""Checkpoints elsewhere than in our own files: safetensors files that ranks write, storages that fsspec opens."""

import json
import sys

import pytest

import flambeau
import flambeau.distributed as dist
import flambeau.distributed.checkpoint as dcp
from flambeau.distributed.checkpoint import _process
from flambeau.distributed.checkpoint.staging import BlockingAsyncStager
from flambeau.distributed.checkpoint.state_dict_saver import AsyncCheckpointerType
from flambeau.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor

SHAPES = {"w": (7, 5), "few": (3, 2), "none": (0, 4), "b": (2, 3, 5)}
_meshes = []


def whole(fill=1):
    return {name: (flambeau.arange(flambeau.Size(shape).numel(), dtype=flambeau.float64).reshape(shape) + 1) * fill
            for name, shape in SHAPES.items()}


def spread(placement, fill=1):
    if not _meshes:
        _meshes.append(dist.init_device_mesh("cpu", (dist.get_world_size(),)))
    return {name: distribute_tensor(x, _meshes[0], [placement]) for name, x in whole(fill).items()}


# --- safetensors ------------------------------------------------------------------------------------------------------

def write_parts(place, consolidated, fill=1):
    writer = dcp.HuggingFaceStorageWriter(place, {"w": 1, "few": 2, "none": 2, "b": 2}, thread_count=2,
                                          save_distributed=True, enable_consolidation=consolidated)
    dcp.save(spread(Shard(0), fill), storage_writer=writer)


def read(place, placement):
    state = spread(placement, fill=0)
    dcp.load(state, storage_reader=dcp.HuggingFaceStorageReader(place))
    truth = spread(placement)
    return [name for name in truth if not flambeau.equal(state[name].to_local(), truth[name].to_local())]


@pytest.mark.parametrize("consolidated", [False, True])
def test_parts_of_ranks_come_back(ranks, tmp_path, consolidated):
    pytest.importorskip("safetensors")
    ranks.run(write_parts, tmp_path, consolidated, 3)
    ranks.run(write_parts, tmp_path, consolidated)  # over the one before
    for placement in (Shard(0), Replicate()):
        assert ranks.run(read, tmp_path, placement) == [[]] * 4
    names = {path.name for path in tmp_path.glob("*.safetensors")}
    if not consolidated:
        assert "shard-00001-model-00001-of-00002.safetensors" in names
        return
    assert names == {f"model-0000{k}-of-00002.safetensors" for k in (1, 2)}
    index = json.loads((tmp_path / "model.safetensors.index.json").read_text())
    assert index["metadata"]["total_size"] == 8 * (35 + 6 + 30)
    found = flambeau.safetensors.load_file(tmp_path / "model.safetensors.index.json")
    assert all(flambeau.equal(found[name], x) for name, x in whole().items())


def write_whole(place):
    state = whole() | {"alias": None}
    state["alias"] = state["w"]  # safetensors cannot share memory
    dcp.save(state, storage_writer=dcp.HuggingFaceStorageWriter(place, dict.fromkeys(state, 2) | {"w": 1}))
    try:
        dcp.save(spread(Shard(0)), storage_writer=dcp.HuggingFaceStorageWriter(place))
    except dcp.CheckpointException as error:
        return "save_distributed=True" in str(error)


def test_whole_tensors_are_shared_out_by_file(ranks, tmp_path):
    pytest.importorskip("safetensors")
    assert ranks.run(write_whole, tmp_path) == [True] * 4
    first = flambeau.safetensors.load_file(tmp_path / "model-00001-of-00002.safetensors")
    assert list(first) == ["w"]
    state = whole(0) | {"alias": flambeau.zeros(7, 5, dtype=flambeau.float64)}
    dcp.load(state, storage_reader=dcp.HuggingFaceStorageReader(tmp_path))
    assert all(flambeau.equal(state[name], x) for name, x in whole().items())
    dcp.save({"w": flambeau.ones(2)}, storage_writer=dcp.HuggingFaceStorageWriter(tmp_path))
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "model-00001-of-00001.safetensors", "model.safetensors.index.json"]


def test_what_safetensors_do_not_hold(tmp_path):
    for state, options, text in [
        ({"step": 3}, {}, "'step' is no tensor"),
        ({"w": flambeau.ones(1)}, {"fqn_to_index_mapping": {"v": 1}}, "into which file 'w' goes"),
    ]:
        with pytest.raises(dcp.CheckpointException, match=text):
            dcp.save(state, storage_writer=dcp.HuggingFaceStorageWriter(tmp_path, **options))
    with pytest.raises(ValueError, match="save_distributed=True alone"):
        dcp.HuggingFaceStorageWriter(tmp_path, enable_consolidation=True)


# --- where values are read to -----------------------------------------------------------------------------------------

def test_values_are_read_into_the_tensors_themselves(tmp_path):
    stored = {"same": flambeau.randn(4, 3), "turned": flambeau.randn(3, 4).t(), "other": flambeau.arange(6),
              "row": flambeau.randn(5, 2)[2], "empty": flambeau.zeros(0, 3)}
    dcp.save(stored, checkpoint_id=tmp_path)
    wanted = {"same": flambeau.zeros(4, 3), "turned": flambeau.zeros(4, 3), "other": flambeau.zeros(6).double(),
              "row": flambeau.zeros(3, 2)[1], "empty": flambeau.zeros(0, 3)}
    x = flambeau.ones(3, requires_grad=True)
    saved = (x.sum() * wanted["same"]).sum()  # backward needs the values of before
    dcp.load(wanted, checkpoint_id=tmp_path)
    for name, value in stored.items():
        assert flambeau.equal(wanted[name], value.to(wanted[name].dtype)), name
    with pytest.raises(RuntimeError, match="version"):
        saved.backward()


# --- in another process -----------------------------------------------------------------------------------------------

class Shouting(dcp.DefaultSavePlanner):
    """A planner of a program's own."""

    def lookup_object(self, index):
        found = super().lookup_object(index)
        return found * 2 if index.fqn == "w" else found


def in_process(place):
    kind, state = AsyncCheckpointerType.PROCESS, spread(Shard(0)) | {"step": 3, "nested": [flambeau.ones(2), "x"]}
    futures = [dcp.async_save(state, checkpoint_id=f"{place}/{k}", async_checkpointer_type=kind) for k in range(2)]
    for x in state.values():
        if isinstance(x, DTensor):
            x.to_local().zero_()
    futures.append(dcp.async_save(spread(Shard(0)), checkpoint_id=f"{place}/2", async_checkpointer_type=kind,
                                  planner=Shouting(), async_stager=BlockingAsyncStager()))
    metadata = [each.result() for each in futures]
    try:
        dcp.async_save({"w": flambeau.ones(dist.get_rank() + 1)}, checkpoint_id=f"{place}/3",
                       async_checkpointer_type=kind).result()
    except dcp.CheckpointException as error:
        assert "on one rank and" in str(error)
        return len(metadata[0].state_dict_metadata)


def test_another_process_saves(few, tmp_path):
    assert few(2).run(in_process, tmp_path) == [7] * 2
    for k in range(2):
        state = whole(0) | {"step": None, "nested": [flambeau.zeros(2), None]}
        dcp.load(state, checkpoint_id=tmp_path / str(k))
        assert state["step"] == 3 and state["nested"][0].tolist() == [1, 1] and state["nested"][1] == "x"
        assert all(flambeau.equal(state[name], x) for name, x in whole().items())
    state = whole(0)
    dcp.load(state, checkpoint_id=tmp_path / "2")
    assert flambeau.equal(state["w"], whole()["w"] * 2) and flambeau.equal(state["b"], whole()["b"])


def test_a_process_that_dies_is_told(tmp_path):
    kind, state = AsyncCheckpointerType.PROCESS, {"w": flambeau.ones(3)}
    assert dcp.async_save(state, checkpoint_id=tmp_path, async_checkpointer_type=kind).result().state_dict_metadata
    writer = _process.writer_of(None)
    writer._process.kill()
    with pytest.raises(RuntimeError, match="has ended"):
        dcp.async_save(state, checkpoint_id=tmp_path, async_checkpointer_type=kind).result()
    state["w"].zero_()
    dcp.async_save(state, checkpoint_id=tmp_path, async_checkpointer_type=kind).result()  # with another one
    dcp.load(found := {"w": flambeau.ones(3)}, checkpoint_id=tmp_path)
    assert not found["w"].any()
    _process._writers.pop(None).end()


# --- fsspec -----------------------------------------------------------------------------------------------------------

def test_another_storage():
    pytest.importorskip("fsspec")
    place, state = "memory://run/7", {"model": whole(), "step": 3}
    for fill in (2, 1):
        state["model"] = whole(fill)
        dcp.save(state, storage_writer=dcp.FsspecWriter(place, thread_count=2))
    found = {"model": whole(0), "step": None}
    dcp.load(found, storage_reader=dcp.FsspecReader(place))
    assert found["step"] == 3 and all(flambeau.equal(found["model"][name], x) for name, x in whole().items())
    files = dcp.FsspecReader(place).folder.names()
    assert ".metadata" in files and len(files) == 3  # two of data
    with pytest.raises(dcp.CheckpointException, match="has a checkpoint already"):
        dcp.save(state, storage_writer=dcp.FsspecWriter(place, overwrite=False))
    with pytest.raises(dcp.CheckpointException, match="memory://run/8 has no checkpoint"):
        dcp.load(found, storage_reader=dcp.FsspecReader("memory://run/8"))
    assert dcp.FsspecWriter.validate_checkpoint_id(place) and not dcp.FsspecWriter.validate_checkpoint_id("run/7")


def write_remote(place):
    dcp.save(spread(Shard(0)), storage_writer=dcp.FsspecWriter(place))
    state = spread(Shard(0), fill=0)
    dcp.load(state, storage_reader=dcp.FsspecReader(place))
    return all(flambeau.equal(state[name].to_local(), x.to_local()) for name, x in spread(Shard(0)).items())


def test_ranks_in_another_storage(ranks, tmp_path):
    pytest.importorskip("fsspec")
    assert ranks.run(write_remote, f"file://{tmp_path}/run") == [True] * 4


def test_without_fsspec(monkeypatch):
    monkeypatch.setitem(sys.modules, "fsspec", None)
    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    with pytest.raises(ImportError, match="pip install fsspec"):
        dcp.FsspecWriter("memory://run")
    assert not dcp.FsspecWriter.validate_checkpoint_id("memory://run")
