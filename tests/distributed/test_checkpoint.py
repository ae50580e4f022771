"""Law: what any number of ranks has saved, any number loads, bit for bit, and an interrupted save changes nothing."""

import copy
import io
import json
import os
import pickle
import signal
import subprocess
import sys

import pytest

import flambeau
import flambeau.distributed as dist
import flambeau.distributed.checkpoint as dcp
from flambeau.distributed.checkpoint import filesystem
from flambeau.distributed.checkpoint._nested_dict import flatten_state_dict
from flambeau.distributed.checkpoint.default_planner import create_default_global_save_plan
from flambeau.distributed.checkpoint.format_utils import (
    BroadcastingTorchSaveReader,
    DynamicMetaLoadPlanner,
    dcp_to_torch_save,
    torch_save_to_dcp,
)
from flambeau.distributed.checkpoint.planner import WriteItemType
from flambeau.distributed.checkpoint.state_dict_loader import _load_state_dict_from_keys
from flambeau.distributed.checkpoint.stateful import Stateful
from flambeau.distributed.tensor import DeviceMesh, DTensor, Partial, Replicate, Shard, distribute_tensor


def values():
    """Everything that a state dict may have."""
    return {
        "model": {"w": flambeau.arange(6.0).reshape(2, 3), "scalar": flambeau.tensor(3), "empty": flambeau.zeros(0, 2),
                  "half": flambeau.ones(3).bfloat16(), "flipped": flambeau.arange(6).reshape(2, 3).t()},
        "optimizer": {"state": {0: {"step": flambeau.tensor(1.0)}}, "groups": [{"lr": 0.1, "params": [0, 1]}]},
        "list": [1, flambeau.ones(2)], "numbers": [1, 2, 3], "name": "x", "pair": (1, 2.5), "nothing": None,
        "sparse": flambeau.eye(2).to_sparse(),
    }


def blank(value):
    """The same with other values."""
    if isinstance(value, flambeau.Tensor):
        return flambeau.zeros_like(value)
    if isinstance(value, dict):
        return {key: blank(part) for key, part in value.items()}
    return [blank(part) for part in value] if isinstance(value, list) and value != [1, 2, 3] else "other"


def same(one, other):
    if isinstance(one, flambeau.Tensor):
        one, other = (x.to_dense() if x.is_sparse else x for x in (one, other))
        return one.dtype == other.dtype and flambeau.equal(one, other)
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    return type(one) is type(other) and one == other


# --- one process ------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("options", [{}, {"thread_count": 3}, {"single_file_per_rank": False}, {"sync_files": False}])
def test_everything_comes_back(options, tmp_path):
    metadata = dcp.save(values(), storage_writer=dcp.FileSystemWriter(tmp_path / "new" / "folder", **options))
    state = blank(values())
    dcp.load(state, checkpoint_id=tmp_path / "new" / "folder")
    assert same(state, values())
    assert metadata.state_dict_metadata["model.w"].size == (2, 3)
    assert same(_load_state_dict_from_keys("model", checkpoint_id=tmp_path / "new" / "folder"),
                {"model": values()["model"]})


def test_a_view_is_stored_without_the_rest_of_its_memory(tmp_path):
    dcp.save({"x": flambeau.zeros(1_000_000)[:3]}, checkpoint_id=tmp_path)
    assert (tmp_path / "__0_0.distcp").stat().st_size < 5000


def test_objects_give_and_take_their_state(tmp_path):
    model, other = flambeau.nn.Linear(3, 2), flambeau.nn.Linear(3, 2)
    assert isinstance(model, Stateful) and not isinstance(flambeau.ones(1), Stateful)
    optimizers = [flambeau.optim.Adam(one.parameters()) for one in (model, other)]
    for one, optimizer in zip((model, other), optimizers):
        one(flambeau.ones(3)).sum().backward()
        optimizer.step()
    dcp.save({"model": model, "optimizer": optimizers[0]}, checkpoint_id=tmp_path)
    dcp.load({"model": other, "optimizer": optimizers[1]}, checkpoint_id=tmp_path)
    assert same(dict(model.state_dict()), dict(other.state_dict()))
    assert same(optimizers[0].state_dict()["state"], optimizers[1].state_dict()["state"])


@pytest.mark.parametrize(("state", "message"), [
    ({"v": flambeau.ones(2)}, "nothing called 'v'"),
    ({"w": flambeau.ones(3)}, r"size \(2,\) in the checkpoint and \(3,\)"),
    ({"w": 3}, "put a tensor of that size there"), ({"w": flambeau.eye(2).to_sparse()}, "put a tensor")])
def test_what_does_not_fit_is_said(state, message, tmp_path):
    dcp.save({"w": flambeau.ones(2)}, checkpoint_id=tmp_path)
    with pytest.raises(dcp.CheckpointException, match=message) as caught:
        dcp.load(state, checkpoint_id=tmp_path)
    assert list(caught.value.failures) == [0]


def test_a_part_is_loaded_where_that_is_asked_for(tmp_path):
    dcp.save({"w": flambeau.ones(2)}, checkpoint_id=tmp_path)
    state = {"w": flambeau.zeros(2), "v": flambeau.zeros(1)}
    dcp.load(state, checkpoint_id=tmp_path, planner=dcp.DefaultLoadPlanner(allow_partial_load=True))
    assert state["w"].tolist() == [1, 1] and state["v"].tolist() == [0]
    with pytest.raises(dcp.CheckpointException, match="no checkpoint"):
        dcp.load(state, checkpoint_id=tmp_path / "elsewhere")


def test_tensors_of_the_meta_device_are_made(tmp_path):
    dcp.save({"m": {"w": flambeau.ones(2)}}, checkpoint_id=tmp_path)
    state = {"m": {"w": flambeau.empty(2, device="meta")}}
    dcp.load(state, checkpoint_id=tmp_path)
    assert state["m"]["w"].tolist() == [1, 1]


def test_two_names_that_become_one():
    with pytest.raises(ValueError, match=r"have one name, 'a\.b'"):
        flatten_state_dict({"a": {"b": 1}, "a.b": 2})


def test_planners_can_be_changed(tmp_path):
    class Half(dcp.DefaultSavePlanner):
        def transform_object(self, write_item, object):
            found = super().transform_object(write_item, object)
            return found * 0.5 if write_item.type != WriteItemType.BYTE_IO else found

    dcp.save({"w": flambeau.ones(2)}, checkpoint_id=tmp_path, planner=Half())
    state = {"w": flambeau.zeros(2)}
    dcp.load(state, checkpoint_id=tmp_path)
    assert state["w"].tolist() == [0.5, 0.5]


def test_one_file_and_back(tmp_path):
    flambeau.save(values(), tmp_path / "one.pt")
    torch_save_to_dcp(tmp_path / "one.pt", tmp_path / "folder")
    dcp_to_torch_save(tmp_path / "folder", tmp_path / "two.pt")
    found = flambeau.load(tmp_path / "two.pt")
    found["optimizer"]["state"] = {0: found["optimizer"]["state"].pop("0")}  # keys are names in a folder
    assert same(found, values())


# --- an earlier checkpoint --------------------------------------------------------------------------------------------

def killed(place, at):
    """A process that saves 2s, and is killed within `at`."""
    pid = os.fork()
    if pid == 0:
        def end(*_):
            os.kill(os.getpid(), signal.SIGKILL)

        owner, name = {"file": (filesystem, "_alone"), "finish": (dcp.FileSystemWriter, "finish"),
                       "metadata": (filesystem, "write_metadata"), "clear": (dcp.FileSystemWriter, "_clear")}[at]
        setattr(owner, name, end)
        dcp.save({"w": flambeau.full((3,), 2.0), "n": 2}, checkpoint_id=place)
        os._exit(1)
    return os.WTERMSIG(os.waitpid(pid, 0)[1])


@pytest.mark.parametrize("at", ["file", "finish", "metadata", "clear"])
def test_a_killed_save_leaves_a_whole_checkpoint(at, tmp_path):
    dcp.save({"w": flambeau.ones(3), "n": 1}, checkpoint_id=tmp_path)
    assert killed(tmp_path, at) == signal.SIGKILL
    state = {"w": flambeau.zeros(3), "n": None}
    dcp.load(state, checkpoint_id=tmp_path)
    assert state["w"].tolist() == [state["n"]] * 3 == [2 if at == "clear" else 1] * 3
    dcp.save({"w": flambeau.full((3,), 3.0), "n": 3}, checkpoint_id=tmp_path)
    assert len(os.listdir(tmp_path)) == 2  # nothing of the killed one is left
    dcp.load(state, checkpoint_id=tmp_path)
    assert state["w"].tolist() == [3, 3, 3]


def test_a_checkpoint_is_kept_where_that_is_asked_for(tmp_path):
    dcp.save({"n": 1}, checkpoint_id=tmp_path)
    with pytest.raises(dcp.CheckpointException, match="has a checkpoint already"):
        dcp.save({"n": 2}, storage_writer=dcp.FileSystemWriter(tmp_path, overwrite=False))


# --- files of others --------------------------------------------------------------------------------------------------

class Runs:
    """What an unpickler would call."""

    def __reduce__(self):
        return os.system, ("exit 3",)


def test_no_code_of_the_metadata_is_run(tmp_path):
    for found in ({"w": Runs()}, pickle.loads):
        (tmp_path / ".metadata").write_bytes(pickle.dumps(found))
        with pytest.raises(dcp.CheckpointException, match="not plain data"):
            dcp.load({"w": 1}, checkpoint_id=tmp_path)


def test_no_code_of_a_value_is_run(tmp_path):
    dcp.save({"w": "a text that is replaced"}, checkpoint_id=tmp_path)
    stream = io.BytesIO()
    flambeau.save("a text that is replaced", stream)
    path = tmp_path / "__0_0.distcp"
    evil = pickle.dumps(Runs(), 2)
    path.write_bytes(evil + bytes(path.stat().st_size - len(evil)))
    with pytest.raises(dcp.CheckpointException):
        dcp.load({"w": None}, checkpoint_id=tmp_path)


@pytest.mark.parametrize("change", [
    lambda m: m.storage_data.update({k: filesystem._StorageInfo("../x", 0, 1) for k in m.storage_data}),
    lambda m: m.storage_data.update({k: filesystem._StorageInfo("__0_0.distcp", -1, 1) for k in m.storage_data}),
    lambda m: m.storage_data.update({k: filesystem._StorageInfo("__0_0.distcp", 0, 1 << 40) for k in m.storage_data}),
    lambda m: m.storage_data.clear(),
    lambda m: m.state_dict_metadata["w"].chunks.append(3),
    lambda m: m.state_dict_metadata["w"].chunks[0].__dict__.update(offsets=flambeau.Size([0, 0])),
])
def test_damaged_metadata_are_refused(change, tmp_path):
    metadata = dcp.save({"w": flambeau.ones(2)}, checkpoint_id=tmp_path)
    metadata = copy.deepcopy(metadata)
    change(metadata)
    with open(tmp_path / ".metadata", "wb") as file:
        filesystem.write_metadata(metadata, file)
    with pytest.raises(dcp.CheckpointException, match=r"damaged|same folder|expected at least|do not say where"):
        dcp.load({"w": flambeau.zeros(2)}, checkpoint_id=tmp_path)


def test_bytes_of_the_metadata_are_changed_at_will(tmp_path):
    dcp.save({"w": flambeau.ones(2), "n": [1]}, checkpoint_id=tmp_path)
    good = (tmp_path / ".metadata").read_bytes()
    for k in range(0, len(good), 7):
        (tmp_path / ".metadata").write_bytes(good[:k] + bytes([good[k] ^ 0x41]) + good[k + 1:])
        try:
            dcp.load({"w": flambeau.zeros(2), "n": None}, checkpoint_id=tmp_path)
        except dcp.CheckpointException as error:
            assert isinstance(error.failures[0][0], (RuntimeError, ValueError, OSError, NotImplementedError)), error


@pytest.mark.parity
def test_pytorch_reads_and_writes_the_same_folders(tmp_path):
    pytest.importorskip("torch")
    program = """if True:
        import sys, torch, torch.distributed.checkpoint as dcp
        w = torch.zeros(2, 3)
        state = {"model": {"w": w}, "opt": {"state": {0: {"step": torch.tensor(0.)}}, "lr": None}, "n": None}
        dcp.load(state, checkpoint_id=sys.argv[1])
        assert state["model"]["w"].sum() == 15 and state["n"] == 3 and state["opt"]["lr"] == 0.5
        dcp.save(state, checkpoint_id=sys.argv[2])"""
    state = {"model": {"w": flambeau.arange(6.0).reshape(2, 3)},
             "opt": {"state": {0: {"step": flambeau.tensor(1.0)}}, "lr": 0.5}, "n": 3}
    dcp.save(state, checkpoint_id=tmp_path / "ours")
    dcp.save(state, checkpoint_id=tmp_path / "ours")  # over itself: files have other names
    subprocess.run([sys.executable, "-W", "ignore", "-c", program, tmp_path / "ours", tmp_path / "theirs"], check=True)
    found = {"model": {"w": flambeau.zeros(2, 3)}, "opt": {"state": {0: {"step": flambeau.zeros(())}}, "lr": 0}, "n": 0}
    dcp.load(found, checkpoint_id=tmp_path / "theirs")
    assert same(found["model"], state["model"]) and found["opt"]["lr"] == 0.5 and found["n"] == 3


# --- several ranks ----------------------------------------------------------------------------------------------------

def save_alike(place, options):
    metadata = dcp.save({"w": flambeau.arange(8.0), "v": flambeau.ones(8), "rank": dist.get_rank()},
                        checkpoint_id=place, planner=dcp.DefaultSavePlanner(**options))
    return sorted(metadata.state_dict_metadata), sorted({p.relative_path for p in metadata.storage_data.values()})


def test_what_ranks_have_alike_is_written_once(ranks, tmp_path):
    names, files = ranks.run(save_alike, tmp_path, {})[0]
    assert names == ["rank", "v", "w"] and len(files) == 3  # each by the rank that has least to write
    assert ranks.run(save_alike, tmp_path, {"dedup_save_to_lowest_rank": True})[1][1][0].startswith("__0_")
    state = {"w": flambeau.zeros(8), "v": flambeau.zeros(8), "rank": None}
    dcp.load(state, checkpoint_id=tmp_path)
    assert state["w"].tolist() == list(range(8)) and state["rank"] in range(4)


def fail_somewhere(place):
    state = {"w": flambeau.ones(2)} if dist.get_rank() else {"w": flambeau.ones(3)}
    try:
        dcp.save(state, checkpoint_id=place)
    except dcp.CheckpointException as error:
        return str(error)


def fail_to_write(place):
    class Fails(dcp.DefaultSavePlanner):
        def resolve_data(self, write_item):
            raise OSError("the disk is full")

    try:
        dcp.save({"w": flambeau.zeros(2)}, checkpoint_id=place, planner=Fails())
    except dcp.CheckpointException as error:
        return str(error)


def test_a_failure_is_everybodys(ranks, tmp_path):
    ranks.run(save_alike, tmp_path, {})
    assert all("size (3,) on one rank and (2,) on another" in text for text in ranks.run(fail_somewhere, tmp_path))
    assert all("writing has failed on rank 0" in text and "disk is full" in text
               for text in ranks.run(fail_to_write, tmp_path))
    dcp.load({"w": flambeau.zeros(8)}, checkpoint_id=tmp_path)


def save_and_die(place):
    """Rank 2 is killed while it writes."""
    def end(tensor):
        os.kill(os.getpid(), signal.SIGKILL)

    if dist.get_rank() == 2:
        filesystem._alone = end
    dcp.save({"w": flambeau.full((8,), 2.0), "v": flambeau.zeros(8), "u": flambeau.zeros(8)}, checkpoint_id=place)


def test_a_rank_that_dies_leaves_the_earlier_checkpoint(few, ranks, tmp_path):
    ranks.run(save_alike, tmp_path, {})
    made = few(3)
    made.begin(save_and_die, tmp_path)
    assert all("rank 2" in text for text in made.errors(10, [0, 1]))
    state = {"w": flambeau.zeros(8), "rank": None}
    dcp.load(state, checkpoint_id=tmp_path)
    assert state["w"].tolist() == list(range(8)) and state["rank"] in range(4)


def save_later(place):
    """Saves go on while the ranks do other things in another order."""
    w, found = flambeau.zeros(1000), []
    writer = dcp.FileSystemWriter(place, cache_staged_state_dict=True)
    for k in range(3):
        w.fill_(k)
        future = dcp.async_save({"w": w, "n": k}, storage_writer=writer)
        for _ in range(5):
            dist.all_reduce(flambeau.ones(3))
        w.fill_(-1)
        future.result()
        state = {"w": flambeau.zeros(1000), "n": None}
        dcp.load(state, checkpoint_id=place)
        found.append((float(state["w"].mean()), state["n"]))
        dist.barrier()  # the next save replaces what is read
    return found


def test_saving_in_the_background(ranks, tmp_path):
    assert ranks.run(save_later, tmp_path) == [[(0.0, 0), (1.0, 1), (2.0, 2)]] * 4


def save_without_talking(place):
    w = flambeau.full((2,), float(dist.get_rank()))
    dcp.save({"w": w}, checkpoint_id=place, use_collectives=False)
    state = {"w": flambeau.zeros(2)}
    dcp.load(state, checkpoint_id=place)
    return state["w"].tolist()


def test_ranks_that_do_not_talk(ranks, tmp_path):
    assert ranks.run(save_without_talking, tmp_path) == [[r, r] for r in range(4)]


PLACEMENTS = [(4,), [Shard(0)]], [(4,), [Shard(1)]], [(4,), [Replicate()]], [(2, 2), [Shard(0), Shard(0)]], \
    [(2, 2), [Shard(1), Shard(0)]], [(2, 2), [Replicate(), Shard(1)]]


def spread(mesh, placements, fill=None):
    """Tensors of sizes that the ranks cannot share evenly, or not at all."""
    found = {}
    for name, shape in (("w", (7, 5)), ("few", (3, 2)), ("none", (0, 4)), ("b", (2, 3, 5))):
        whole = flambeau.arange(flambeau.Size(shape).numel(), dtype=flambeau.float64).reshape(shape) + 1
        found[name] = distribute_tensor(whole if fill is None else whole * fill, mesh, placements)
    return found


def save_spread(place):
    sizes = {}
    for k, (shape, placements) in enumerate(PLACEMENTS):
        state = {"model": spread(dist.init_device_mesh("cpu", shape), placements), "plain": flambeau.ones(2), "step": k}
        metadata = dcp.save(state, checkpoint_id=f"{place}/{k}")
        sizes[k] = sum(c.sizes.numel() for c in metadata.state_dict_metadata["model.w"].chunks)
    return sizes


def load_spread(place, size):
    """By the first ranks alone, into every placement; what is not as it was saved."""
    group, wrong = dist.new_group(range(size)), []
    mesh = DeviceMesh("cpu", list(range(size)))
    for k in range(len(PLACEMENTS)):
        for placement in (Shard(0), Shard(1), Replicate()) if dist.get_rank() < size else ():
            state = {"model": spread(mesh, [placement], fill=0), "plain": flambeau.zeros(2), "step": None}
            dcp.load(state, checkpoint_id=f"{place}/{k}", process_group=group)
            expected = spread(mesh, [placement])
            wrong += [(k, placement, name) for name, x in state["model"].items()
                      if not flambeau.equal(x.to_local(), expected[name].to_local())]
            wrong += [(k, "the rest")] * (state["step"] != k or state["plain"].tolist() != [1, 1])
    return wrong


def test_four_ranks_save_and_any_number_loads(ranks, tmp_path):
    assert ranks.run(save_spread, tmp_path) == [dict.fromkeys(range(len(PLACEMENTS)), 35)] * 4  # nothing is there twice
    for size in (1, 2, 3, 4):
        assert ranks.run(load_spread, tmp_path, size) == [[]] * 4
    for k in range(len(PLACEMENTS)):
        state = {"model": {"w": flambeau.zeros(7, 5, dtype=flambeau.float64)}, "step": None}
        dcp.load(state, checkpoint_id=tmp_path / str(k))
        assert state["model"]["w"].flatten().tolist() == list(range(1, 36))


def save_spread_later(place):
    mesh = dist.init_device_mesh("cpu", (4,))
    state = spread(mesh, [Shard(0)])
    future = dcp.async_save(state, checkpoint_id=place)
    state["w"].to_local().zero_()
    future.result()
    partial = DTensor.from_local(flambeau.ones(2), mesh, [Partial()])
    try:
        dcp.save({"x": partial}, checkpoint_id=place)
    except dcp.CheckpointException as error:
        return "redistribute it" in str(error)


def test_spread_tensors_in_the_background_and_partial_ones(ranks, tmp_path):
    assert ranks.run(save_spread_later, tmp_path) == [True] * 4
    state = {"w": flambeau.zeros(7, 5, dtype=flambeau.float64)}
    dcp.load(state, checkpoint_id=tmp_path)
    assert state["w"].flatten().tolist() == list(range(1, 36))


def load_safetensors(place):
    mesh = dist.init_device_mesh("cpu", (4,))
    state = spread(mesh, [Shard(0)], fill=0)
    dcp.load(state, storage_reader=dcp.HuggingFaceStorageReader(place))
    return [name for name, x in spread(mesh, [Shard(0)]).items() if not flambeau.equal(x.to_local(),
                                                                                         state[name].to_local())]


def test_folders_of_safetensors(ranks, tmp_path):
    pytest.importorskip("safetensors")
    whole = {name: flambeau.arange(flambeau.Size(shape).numel(), dtype=flambeau.float64).reshape(shape) + 1
             for name, shape in (("w", (7, 5)), ("few", (3, 2)), ("none", (0, 4)), ("b", (2, 3, 5)))}
    flambeau.safetensors.save_sharded(whole, tmp_path, max_shard_size=200)
    assert ranks.run(load_safetensors, tmp_path) == [[]] * 4
    parts = tmp_path / "parts"  # as PyTorch's ranks leave them
    parts.mkdir()
    for k, rows in enumerate((slice(0, 4), slice(4, 7))):
        told = {"w": {"saved_offsets": [rows.start, 0]}}
        content = {"w": whole["w"][rows].contiguous()} | ({} if k else {n: whole[n] for n in ("few", "none", "b")})
        flambeau.safetensors.save_file(content, parts / f"shard-0000{k}.safetensors",
                                       {"DCP_SHARDING_INFO": json.dumps(told)})
    assert ranks.run(load_safetensors, parts) == [[]] * 4
    with pytest.raises(dcp.CheckpointException, match="has no files that end"):
        dcp.load({"w": whole["w"]}, storage_reader=dcp.HuggingFaceStorageReader(tmp_path / "nothing"))


def load_quantized(place):
    mesh, options = dist.init_device_mesh("cpu", (4,)), {"block_size": 3}
    state = {"w": distribute_tensor(flambeau.zeros(7, 5), mesh, [Shard(0)]), "b": flambeau.zeros(4),
             "w_scale_inv": flambeau.zeros(3, 2)}
    dcp.load(state, storage_reader=dcp.QuantizedHuggingFaceStorageReader(place, **options))
    across = {"w": distribute_tensor(flambeau.zeros(7, 5), mesh, [Shard(1)])}
    half = dcp.QuantizedHuggingFaceStorageReader(place, target_dtype=flambeau.bfloat16, **options)
    dcp.load(across, storage_reader=half)
    return state["w"].full_tensor(), state["b"], state["w_scale_inv"], across["w"].full_tensor()


def test_tensors_in_few_bits_are_read_as_numbers(ranks, tmp_path):
    pytest.importorskip("safetensors")
    few, scales = flambeau.randn(7, 5).to(flambeau.float8_e4m3fn), flambeau.rand(3, 2) + 0.5
    stored = {"w": few, "w_scale_inv": scales, "b": flambeau.arange(4.0)}
    flambeau.safetensors.save_sharded(stored, tmp_path, max_shard_size=40)
    assert len(list(tmp_path.glob("*.safetensors"))) > 1
    expected = few.float() * scales.repeat_interleave(3, 0)[:7].repeat_interleave(3, 1)[:, :5]
    for w, b, factors, half in ranks.run(load_quantized, tmp_path):
        assert flambeau.equal(w, expected) and flambeau.equal(b, stored["b"]) and flambeau.equal(factors, scales)
        assert flambeau.equal(half, expected.bfloat16().float())
    with pytest.raises(dcp.CheckpointException, match=r"for blocks of 2 w_scale_inv must be \(4, 3\), .* got \(3, 2\)"):
        dcp.load({"w": flambeau.zeros(7, 5)},
                 storage_reader=dcp.QuantizedHuggingFaceStorageReader(tmp_path, block_size=2))
    with pytest.raises(ValueError, match="must be a positive int, got 0"):
        dcp.QuantizedHuggingFaceStorageReader(tmp_path, block_size=0)
    with pytest.raises(TypeError, match=r"must be a floating point dtype, got torch\.int8"):
        dcp.QuantizedHuggingFaceStorageReader(tmp_path, target_dtype=flambeau.int8)


def load_from_one_file(path):
    state = {"w": flambeau.zeros(2, 3)}
    dcp.load(state, storage_reader=BroadcastingTorchSaveReader(path), planner=DynamicMetaLoadPlanner())
    return state["w"].sum().item()


def test_one_rank_reads_for_all(ranks, tmp_path):
    flambeau.save({"w": flambeau.arange(6.0).reshape(2, 3)}, tmp_path / "one.pt")
    assert ranks.run(load_from_one_file, str(tmp_path / "one.pt")) == [15.0] * 4


def test_plans_whose_chunks_do_not_fit_are_refused():
    from flambeau.distributed.checkpoint import _chunks

    def stored(*boxes):
        chunks = [dcp.ChunkStorageMetadata(flambeau.Size(a), flambeau.Size(n)) for a, n in boxes]
        return dcp.TensorStorageMetadata(None, flambeau.Size([4, 2]), chunks)

    assert _chunks.problems("w", stored(((0, 0), (2, 2)), ((2, 0), (2, 2))), True) == []
    assert "overlap" in _chunks.problems("w", stored(((0, 0), (2, 2)), ((1, 0), (2, 2))), True)[0]
    assert "have 4 elements, expected 8" in _chunks.problems("w", stored(((0, 0), (2, 2))), True)[0]
    assert "lies outside" in _chunks.problems("w", stored(((3, 0), (2, 2))), False)[0]
    assert create_default_global_save_plan([]) == ([], dcp.Metadata({}))
