"""save and load: PyTorch's format both ways, sharing, hostile and damaged files, atomic writing."""

import collections
import contextlib
import errno
import gzip
import io
import json
import os
import pickle
import random
import struct
import sys
import threading
import zipfile
from pathlib import Path

import pytest

import flambeau
from flambeau._files import archive as _archive
from flambeau._files import loader as _loader
from flambeau._files import pickle_writer
from flambeau._files import replacing as _replacing
from flambeau._files.pickle_reader import PickleError, Reader

TORCH_FILE = Path(__file__).with_name("torch_written.pt")


def through(obj, **options):
    file = io.BytesIO()
    flambeau.save(obj, file)
    return flambeau.load(file, **options)


# --- what comes back


def test_reads_what_torch_wrote():
    found = flambeau.load(TORCH_FILE)
    base = flambeau.arange(12.0).reshape(3, 4)
    assert found["base"].tolist() == base.tolist()
    assert found["row"].tolist() == base[1].tolist()
    assert found["turned"].stride() == (1, 4)
    assert found["every other"].tolist() == base[:, ::2].tolist()
    assert found["expanded"].shape == (5,)
    assert found["row"].data_ptr() == found["base"].data_ptr() + 16
    assert isinstance(found["parameter"], flambeau.nn.Parameter)
    assert found["parameter"].requires_grad
    assert not found["frozen"].requires_grad
    assert found["wants grad"].requires_grad
    assert found["0-d"].item() == 2.5
    assert found["empty"].shape == (0, 3)
    for name, t in found["dtypes"].items():
        assert t.dtype is getattr(flambeau, name)
        assert t.tolist() == [0, 1, 1 if name == "bool" else 2]
    assert found["conj"].tolist() == [1 - 2j]
    assert found["meta"].is_meta
    assert found["plain"] == [
        None,
        True,
        3,
        -70000,
        2**70,
        1.5,
        float("inf"),
        1 + 2j,
        "text é",
        b"bytes\xff",
        bytearray(b"x"),
        {1, 2},
        (),
        (1,),
        (1, 2),
        (1, 2, 3),
        (1, 2, 3, 4),
    ]
    assert found["counter"] == collections.Counter("aab")
    assert type(found["counter"]) is collections.Counter
    assert found["size"] == flambeau.Size((3, 4))
    assert isinstance(found["size"], flambeau.Size)
    assert found["dtype"] is flambeau.float16
    assert found["device"] == flambeau.device("cpu")
    assert found[5] == "number as key"
    assert found[1, 2] == "tuple as key"
    assert found["module"]._metadata["1"] == {"version": 2}


def test_torch_state_dicts_go_into_modules_and_optimizers():
    found = flambeau.load(TORCH_FILE)
    nn = flambeau.nn
    module = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
    module.load_state_dict(found["module"])
    assert module[1].running_var.tolist() == [1.0, 1.0, 1.0]
    optimizer = flambeau.optim.Adam(module.parameters())
    optimizer.load_state_dict(found["optimizer"])
    assert optimizer.param_groups[0]["lr"] == 0.5
    for p in module.parameters():
        p.grad = flambeau.ones_like(p)
    optimizer.step()
    assert optimizer.state[module[0].weight]["step"].item() == 2


def test_round_trip_of_everything():
    found = flambeau.load(TORCH_FILE)
    again = through(found)
    assert list(found) == list(again)
    assert again["plain"] == found["plain"]
    assert again["row"].data_ptr() == again["base"].data_ptr() + 16
    for name in found["dtypes"]:
        assert again["dtypes"][name].dtype is found["dtypes"][name].dtype
        assert again["dtypes"][name].tolist() == found["dtypes"][name].tolist()
    assert again["module"]._metadata == found["module"]._metadata
    assert again["optimizer"]["param_groups"] == found["optimizer"]["param_groups"]


def test_containers_keep_identity():
    shared = [1]
    loop = {"a": shared, "b": shared, "t": (shared,)}
    loop["self"] = loop
    found = through(loop)
    assert found["a"] is found["b"]
    assert found["t"][0] is found["a"]
    assert found["self"] is found
    t = flambeau.ones(2)
    found = through([t, t, t[1:]])
    assert found[0] is found[1]
    found[2].fill_(5)
    assert found[0].tolist() == [1.0, 5.0]


def test_long_and_odd_data():
    obj = {
        "list": list(range(5000)),
        "dict": {str(k): k for k in range(3000)},
        "text": "x" * 100000,
        "lone": "\ud800",
        "ints": [2**k for k in range(0, 300, 7)] + [-(2**k) for k in range(0, 300, 7)],
        "frozen": frozenset([1]),
        "default": collections.defaultdict(list, a=[1]),
        "big": 2**3000,
    }
    found = through(obj)
    assert found == obj
    assert found["default"].default_factory is list


def test_views_do_not_drag_history():
    x = flambeau.ones(3, requires_grad=True)
    y = x * 2
    found = through({"y": y, "p": flambeau.nn.Parameter(flambeau.ones(2))})
    assert found["y"].is_leaf
    found["p"].sum().backward()
    assert found["p"].grad.tolist() == [1.0, 1.0]
    with flambeau.no_grad():
        found["p"].add_(1)


def test_entries_are_plain_and_aligned(tmp_path):
    path = tmp_path / "model.pt"
    flambeau.save({"a": flambeau.ones(7), "b": flambeau.zeros(3, dtype=flambeau.int8)}, path)
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        names = archive.namelist()
        for info in archive.infolist():
            assert info.compress_type == zipfile.ZIP_STORED
            with open(path, "rb") as file:
                file.seek(info.header_offset + 26)
                name, extra = struct.unpack("<HH", file.read(4))
            assert (info.header_offset + 30 + name + extra) % 64 == 0
    assert {"model/data.pkl", "model/byteorder", "model/version", "model/data/0", "model/data/1"} <= set(names)


def test_parameters_keep_their_attributes():
    p = flambeau.nn.Parameter(flambeau.ones(2))
    p.tag = ["text", 3]
    assert through({"p": p})["p"].tag == ["text", 3]
    p.tag = lambda: 1
    with pytest.raises(TypeError, match="no lambda"):
        through(p)


# --- places


def test_map_location(tmp_path):
    path = tmp_path / "x.pt"
    flambeau.save({"a": flambeau.ones(3)}, path)
    assert flambeau.load(path, map_location="cpu")["a"].tolist() == [1.0] * 3
    assert flambeau.load(path, map_location=flambeau.device("meta"))["a"].is_meta
    assert flambeau.load(path, map_location={"cpu": "meta"})["a"].is_meta
    seen = []
    flambeau.load(path, map_location=lambda storage, place: seen.append(place))
    assert seen == ["cpu"]
    with pytest.raises(RuntimeError, match="map_location='cpu'"):
        flambeau.load(path, map_location="cuda:0")


def test_mmap_leaves_the_file_alone(tmp_path):
    path = tmp_path / "x.pt"
    flambeau.save({"a": flambeau.arange(1000.0), "e": flambeau.empty(0)}, path)
    before = path.read_bytes()
    found = flambeau.load(path, mmap=True)["a"]
    assert found.sum().item() == 499500.0
    found.add_(1)
    assert found[0].item() == 1.0
    assert path.read_bytes() == before
    with pytest.raises(ValueError, match="mmap"):
        flambeau.load(io.BytesIO(before), mmap=True)


# --- storages by themselves


@pytest.mark.parametrize("mapped", [False, True])
@pytest.mark.parametrize("legacy", [False, True])
def test_storages_share_with_tensors(tmp_path, legacy, mapped):
    x, other = flambeau.arange(6.).reshape(2, 3), flambeau.arange(3)
    flambeau.save([x[1], x.storage(), other.untyped_storage(), other, x.storage()], tmp_path / "s.pt",
                  _use_new_zipfile_serialization=not legacy)
    if mapped and legacy:
        pytest.skip("the old format is not mapped")
    part, floats, raw, whole, again = flambeau.load(tmp_path / "s.pt", mmap=mapped)
    assert floats.dtype is flambeau.float32 and floats.tolist() == again.tolist() == x.flatten().tolist()
    assert raw.dtype is flambeau.uint8 and raw.tolist() == other.untyped_storage().tolist()
    part[0] = -1
    assert floats[3] == again[3] == -1
    assert floats.data_ptr() == again.data_ptr() == part.data_ptr() - 12 and raw.data_ptr() == whole.data_ptr()


def test_one_memory_as_two_kinds_of_storage_is_refused():
    x = flambeau.ones(2)
    with pytest.raises(RuntimeError, match=r"save: obj\[1\] is a storage whose memory .* another dtype"):
        flambeau.save([x, x.untyped_storage()], io.BytesIO())
    with pytest.raises(TypeError, match="meta device"):
        flambeau.save(flambeau.ones(2, device="meta").untyped_storage(), io.BytesIO())


# --- what is refused on writing


def local_class():
    class Local:
        pass

    return Local


@pytest.mark.parametrize("obj", [
    lambda: 1, {"a": [1, lambda: 1]}, local_class(), local_class()(), collections.defaultdict(lambda: 1), sys,
    (x for x in "ab"), threading.Lock(), sys.stdout, [sys],
    collections.namedtuple("P", "x")(1), flambeau.channels_last,
], ids=lambda obj: type(obj).__name__)
def test_what_is_not_data_is_refused_and_nothing_is_written(tmp_path, obj):
    path = tmp_path / "x.pt"
    path.write_bytes(b"old")
    with pytest.raises(TypeError, match=r"save: .*cannot be stored as data"):
        flambeau.save(obj, path)
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["x.pt"]


def test_refusal_says_where():
    with pytest.raises(TypeError, match=r"obj\['a'\]\[1\] is a function.*no lambda"):
        flambeau.save({"a": [1, lambda: 1]}, io.BytesIO())
    model = flambeau.nn.ReLU()
    model.hook = lambda: 1
    with pytest.raises(TypeError, match=r"obj\['m'\]\.hook is a function"):
        flambeau.save({"m": model}, io.BytesIO())


def test_missing_folder_and_directory(tmp_path):
    with pytest.raises(RuntimeError, match=r"cannot write .*x\.pt: there is no folder .*none"):
        flambeau.save(1, tmp_path / "none" / "x.pt")
    with pytest.raises(RuntimeError, match="directory"):
        flambeau.save(1, tmp_path)


class FullDisk(io.FileIO):
    """A file on a disk that has room for 1000 bytes."""

    def write(self, data):
        if self.tell() + len(data) > 1000:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return super().write(data)


def test_full_disk_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "x.pt"
    flambeau.save({"epoch": 1}, path)
    monkeypatch.setattr(_replacing, "open", lambda name, mode: FullDisk(name, mode), raising=False)
    with pytest.raises(RuntimeError, match=r"cannot write .*x\.pt: No space left"):
        flambeau.save({"w": flambeau.zeros(10000)}, path)
    monkeypatch.undo()
    assert flambeau.load(path) == {"epoch": 1}
    assert os.listdir(tmp_path) == ["x.pt"]


def test_interruption_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "x.pt"
    flambeau.save({"epoch": 1}, path)

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        flambeau.save({"epoch": 2}, path)
    monkeypatch.undo()
    assert flambeau.load(path) == {"epoch": 1}
    assert os.listdir(tmp_path) == ["x.pt"]


def test_links_and_modes_are_kept(tmp_path):
    real, link = tmp_path / "real.pt", tmp_path / "link.pt"
    flambeau.save(1, real)
    real.chmod(0o600)
    link.symlink_to(real)
    flambeau.save(2, link)
    assert link.is_symlink()
    assert flambeau.load(real) == 2
    assert real.stat().st_mode & 0o777 == 0o600


def test_streams_that_cannot_seek():
    class Pipe(io.RawIOBase):
        def __init__(self):
            self.data = b""

        def writable(self):
            return True

        def write(self, data):
            self.data += bytes(data)
            return len(data)

    pipe = Pipe()
    flambeau.save({"a": flambeau.ones(2)}, pipe)
    assert flambeau.load(io.BytesIO(pipe.data))["a"].tolist() == [1.0, 1.0]


@pytest.mark.parametrize("options", [{"pickle_module": pickle}, {"pickle_protocol": 4}, {"pickle_protocol": 0}])
def test_what_programs_say_of_pickle_changes_nothing(options):
    usual, file = io.BytesIO(), io.BytesIO()
    flambeau.save([1, flambeau.ones(2)], usual)
    flambeau.save([1, flambeau.ones(2)], file, **options)
    assert file.getvalue() == usual.getvalue()
    file.seek(0)
    assert flambeau.load(file, pickle_module=pickle, fix_imports=True, weights_only=False)[0] == 1


@pytest.mark.parametrize("options, error", [({"pickle_module": json}, NotImplementedError),
                                            ({"pickle_protocol": 99}, ValueError),
                                            ({"pickle_protocol": None}, ValueError)])
def test_options_that_are_not_there(options, error):
    with pytest.raises(error, match="save: pickle_"):
        flambeau.save(1, io.BytesIO(), **options)
    with pytest.raises(NotImplementedError, match=r"load: pickle_module|load: .*buffers"):
        flambeau.load(io.BytesIO(), **(options if "pickle_module" in options else {"buffers": ()}))


# --- hostile and damaged files


def small(tmp_path):
    path = tmp_path / "s.pt"
    flambeau.save({"w": flambeau.arange(5.0), "x": [1, 2, "abc"], "p": flambeau.nn.Parameter(flambeau.ones(2))}, path)
    return path, path.read_bytes()


def test_truncated_anywhere(tmp_path):
    path, raw = small(tmp_path)
    for n in range(len(raw)):
        path.write_bytes(raw[:n])
        with pytest.raises(RuntimeError, match=r"s.pt"):
            flambeau.load(path)


def test_flipped_bits_never_change_values(tmp_path):
    _, raw = small(tmp_path)
    refused = 0
    for k in range(len(raw)):
        damaged = bytearray(raw)
        damaged[k] ^= 1 << (k % 8)
        try:
            found = flambeau.load(io.BytesIO(damaged))
        except RuntimeError:
            refused += 1
            continue
        assert found["w"].tolist() == [0, 1, 2, 3, 4]
        assert found["x"] == [1, 2, "abc"]
        assert found["p"].tolist() == [1, 1]
    assert refused > 500


def test_damage_names_file_and_entry(tmp_path):
    path, raw = small(tmp_path)
    at = raw.index(flambeau.arange(5.0).numpy().tobytes())
    path.write_bytes(raw[:at] + b"\xff" + raw[at + 1 :])
    with pytest.raises(RuntimeError, match=r"s\.pt: entry 'data/0' is damaged: Bad CRC-32"):
        flambeau.load(path)


def archive(pickled, entries=(), compression=zipfile.ZIP_STORED):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", compression) as out:
        out.writestr("a/data.pkl", pickled)
        for name, content in entries:
            out.writestr("a/" + name, content)
    return file


def test_code_is_never_run(tmp_path):
    marker = tmp_path / "ran"

    class Evil:
        def __reduce__(self):
            return os.system, (f"touch {marker}",)

    for protocol in range(6):
        file = archive(pickle.dumps({"a": Evil()}, protocol))
        for weights_only in (True, False, None):
            with pytest.raises(RuntimeError, match=r"names (posix|nt).system|opcode|not plain data"):
                flambeau.load(file, weights_only=weights_only)
    assert not marker.exists()


@pytest.mark.parametrize(
    "name",
    [
        "builtins eval",
        "builtins getattr",
        "os system",
        "torch load",
        "flambeau save",
        "torch._utils _rebuild_tensor_v2.__globals__",
        "collections OrderedDict.__init__",
    ],
)
def test_names_outside_the_table(name):
    module, attribute = name.split()
    with pytest.raises(RuntimeError, match=r"not plain data|a function is used as data"):
        flambeau.load(archive(f"c{module}\n{attribute}\n.".encode()))


def tensor_pickle(kind="FloatStorage", key="0", count=4, offset=0, size=(4,), stride=(1,), grad=False):
    writer = pickle_writer.Writer(lambda obj, place: None)
    storage = pickle_writer.Persistent(("storage", pickle_writer.Global("torch", kind), key, "cpu", count))
    args = (storage, offset, size, stride, grad, collections.OrderedDict())
    return writer.dump(pickle_writer.Reduce(pickle_writer.Global("torch._utils", "_rebuild_tensor_v2"), args))


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({}, None),
        ({"offset": 1}, "past the end"),
        ({"offset": -1}, "offset"),
        ({"size": (5,)}, "past the end"),
        ({"size": (-1,)}, "size"),
        ({"stride": (-1,)}, "stride"),
        ({"stride": (2,)}, "past the end"),
        ({"size": (2, 2), "stride": (1,)}, "stride"),
        ({"size": (2**40, 2**40), "stride": (1, 1)}, "past the end"),
        ({"size": (2**61, 2**61), "stride": (0, 0)}, None),
        ({"size": (1 << 62,), "stride": (1,)}, "size"),
        ({"count": 5}, "claims"),
        ({"count": -1}, "reference"),
        ({"count": 2**62}, "claims"),
        ({"key": "1"}, "missing"),
        ({"key": "../data.pkl"}, "missing|claims"),
        ({"kind": "NoStorage"}, "not plain data"),
        ({"grad": 1}, "requires_grad"),
        ({"kind": "LongStorage", "count": 2, "grad": True, "size": (2,)}, "float"),
        ({"size": [4]}, "size"),
        ({"size": (4.0,)}, "size"),
        ({"size": (True,)}, "size"),
        ({"size": (1,) * 65, "stride": (1,) * 65}, "size"),
        ({"size": "4", "stride": "1"}, "size"),
        ({"offset": "0"}, "offset|size"),
    ],
)
def test_tensors_that_do_not_fit_their_storage(change, text):
    file = archive(tensor_pickle(**change), [("data/0", struct.pack("4f", 1, 2, 3, 4))])
    if text is None and not change:
        assert flambeau.load(file).tolist() == [1, 2, 3, 4]
    else:
        with pytest.raises(RuntimeError, match=text):
            flambeau.load(file)


def test_a_tensor_without_elements_may_begin_anywhere():
    """As PyTorch writes the parts of torch.empty(0, 2, 5).unbind(1)."""
    file = archive(tensor_pickle(offset=5, count=4, size=(0, 5), stride=(5, 1)), [("data/0", bytes(16))])
    assert flambeau.load(file).shape == (0, 5)


def test_bombs():
    with pytest.raises(RuntimeError, match="compressed"):
        flambeau.load(archive(b"\x80\x02N.", [("data/0", bytes(10**6))], zipfile.ZIP_DEFLATED))
    for depth in (900, 100_000):
        deep = b"\x80\x02" + b"]" * depth + b"a" * (depth - 1) + b"."
        with contextlib.nullcontext() if depth < 1000 else pytest.raises(RuntimeError, match="more than 1000 deep"):
            assert isinstance(flambeau.load(archive(deep)), list)
    nested = []
    for _ in range(100000):
        nested = [nested]
    with pytest.raises(ValueError, match="nested too deeply"):
        flambeau.save(nested, io.BytesIO())
    while nested:  # taken apart step by step: the interpreter would recurse
        nested = nested[0]


@pytest.mark.parametrize(
    ("stream", "text"),
    [
        (b"", "truncated"),
        (b"N", "truncated"),
        (b"\x80\x09N.", "protocol 9"),
        (b"NN.", "wrong number"),
        (b".", "wrong number"),
        (b"a.", "missing"),
        (b"]]s.", "missing"),
        (b"}]Ns.", "unhashable"),
        (b"(NNt", "truncated"),
        (b"t.", "mark"),
        (b"h\x05.", "nothing was stored"),
        (b"X\xff\xff\xff\xffabc.", "truncated"),
        (b"\x8d" + b"\xff" * 8 + b".", "truncated"),
        (b"\x8b\xff\xff\xff\xff.", "truncated"),
        (b"cos", "end of line"),
        (b"ccollections\nOrderedDict\n.", "as data"),
        (b"NN\x85R.", "the table of allowed calls"),
        (b"]N}b.", "attributes"),
        (b"]b.", "missing"),
        (b"i", "opcode"),
        (b"NQ.", "reference"),
        (b"X\x01\x00\x00\x00\xff.", "utf-8"),
        (b"(K\x01K\x02K\x03d.", "opcode"),
        (b"(K\x01K\x02K\x03u.", "expected|without|missing"),
        (b"ccollections\nOrderedDict\n)R}X\x05\x00\x00\x00itemsNsb.", "attribute 'items'"),
    ],
)
def test_malformed_streams(stream, text):
    with pytest.raises(RuntimeError, match=text):
        flambeau.load(archive(stream))


def test_random_damage_of_the_stream_ends_in_an_error_or_a_value(tmp_path):
    path, _ = small(tmp_path)
    with zipfile.ZipFile(path) as whole:
        stream = whole.read("s/data.pkl")
    rng = random.Random(0)
    with open(path, "rb") as file:
        opened = _archive.Archive(file, "s.pt")
        for _ in range(3000):
            damaged = bytearray(stream)
            for _ in range(rng.randint(1, 4)):
                damaged[rng.randrange(len(damaged))] = rng.randrange(256)
            opened.read = lambda entry, damaged=damaged: bytes(damaged)
            with contextlib.suppress(RuntimeError):
                _loader.Loader(opened, None, None).load()


@pytest.mark.parametrize(
    "content", [b"", b"PK", b"PK\x03\x04", b"\x80\x02}q\x00.", b"x" * 1000, b"PK\x05\x06" + bytes(18)]
)
def test_files_of_other_kinds(tmp_path, content):
    path = tmp_path / "other.pt"
    path.write_bytes(content)
    with pytest.raises(RuntimeError, match=r"other\.pt"):
        flambeau.load(path)


def test_missing_file_and_other_archives(tmp_path):
    with pytest.raises(FileNotFoundError):
        flambeau.load(tmp_path / "none.pt")
    with pytest.raises(RuntimeError, match="TorchScript"):
        flambeau.load(archive(b"N.", [("constants.pkl", b"")]))
    with pytest.raises(RuntimeError, match="byte order is 'middle'"):
        flambeau.load(archive(b"N.", [("byteorder", "middle")]))
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as out:
        out.writestr("b/other", b"")
    with pytest.raises(RuntimeError, match="found 0"):
        flambeau.load(file)


def test_streams_of_newer_protocols():
    obj = {"a": [1, 2.5, "x", b"y", None, (True, False), {1}, frozenset([2]), 2**40], "b": "x" * 300,
           "c": bytearray(b"z")}
    for protocol in range(2, 6):
        loaded = Reader(pickle.dumps(obj, protocol), _loader.Loader(None, None, None).find, None).load()
        assert loaded == obj
    with pytest.raises(PickleError):
        Reader(pickle.dumps(obj, 0), None, None).load()


@pytest.mark.parity
def test_torch_reads_what_save_wrote(tmp_path):
    torch = pytest.importorskip("torch")
    found = flambeau.load(TORCH_FILE)
    found["ordinary"] = {"w": flambeau.randn(3, 4).t(), "u": flambeau.ones(2, dtype=flambeau.uint32)}
    found["storages"] = [found["ordinary"]["w"].storage(), flambeau.arange(3).untyped_storage()]
    flambeau.save(found, tmp_path / "x.pt")
    read = torch.load(tmp_path / "x.pt", weights_only=True)
    assert read["storages"][0].data_ptr() == read["ordinary"]["w"].data_ptr()
    assert read["storages"][1].tolist() == found["storages"][1].tolist()
    assert read["ordinary"]["w"].tolist() == found["ordinary"]["w"].tolist()
    assert read["plain"] == found["plain"]
    assert read["row"].data_ptr() == read["base"].data_ptr() + 16
    for name, t in found["dtypes"].items():
        assert read["dtypes"][name].tolist() == t.tolist()


def test_places_by_name():
    restore, storage = flambeau.serialization.default_restore_location, flambeau.ones(2).untyped_storage()
    assert restore(storage, "cpu").data_ptr() == storage.data_ptr()
    assert flambeau.serialization.location_tag(storage) == "cpu"
    with pytest.raises(RuntimeError, match="no package brings a storage to 'nowhere'"):
        restore(storage, "nowhere")
    file = io.BytesIO()
    flambeau.save(flambeau.ones(2), file)
    file.seek(0)
    assert flambeau.load(file, map_location=lambda s, place: restore(s, "cpu")).tolist() == [1, 1]


@pytest.mark.parametrize("new", [True, False])
def test_an_object_behind_others_in_a_file(tmp_path, new):
    """Also in a packed one, where only reading on leads there."""
    path = tmp_path / "several"
    with open(path, "wb") as file:
        pickle.dump(41, file)
        flambeau.save([flambeau.arange(3)], file, _use_new_zipfile_serialization=new)
        packed = gzip.compress(path.read_bytes())  # what is written is there before the file is closed
    (tmp_path / "packed").write_bytes(packed)
    for opening, name in ((open, path), (gzip.open, tmp_path / "packed")):
        with opening(name, "rb") as file:
            assert pickle.load(file) == 41 and flambeau.load(file)[0].tolist() == [0, 1, 2]


def test_what_takes_a_file_is_told_to_pass_it_on():
    class Uploads(io.BytesIO):
        flushed = 0

        def flush(self):
            self.flushed = len(self.getvalue())

    file = Uploads()
    flambeau.save({"w": flambeau.ones(2)}, file)
    assert file.flushed == len(file.getvalue()) > 0
