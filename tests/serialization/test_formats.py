"""Files without objects: .npy, .npz and safetensors, both ways, and hostile ones."""

import io
import json
import os
import struct
import zipfile
import zlib

import numpy
import pytest

import flambeau
from flambeau import serialization

# --- NumPy's

ARRAYS = {
    "matrix": numpy.arange(6.0).reshape(2, 3),
    "fortran": numpy.asfortranarray(numpy.arange(6).reshape(2, 3)),
    "number": numpy.array(3.5, "f2"),
    "empty": numpy.zeros((0, 3)),
    "big-endian": numpy.arange(4, dtype=">i4"),
    "bool": numpy.array([True, False]),
    "complex": numpy.array([1 + 2j]),
}


@pytest.mark.parametrize("mmap", [False, True])
@pytest.mark.parametrize("name", ARRAYS)
def test_npy(name, mmap, tmp_path):
    path = tmp_path / "x.npy"
    numpy.save(path, ARRAYS[name])
    found = flambeau.load(path, mmap=mmap)
    assert isinstance(found, flambeau.Tensor) and numpy.array_equal(found.numpy(), ARRAYS[name])
    assert found.numpy().dtype == ARRAYS[name].dtype.newbyteorder("=")
    serialization.save_npy(path, found)
    assert numpy.array_equal(numpy.load(path), ARRAYS[name])
    assert os.listdir(tmp_path) == ["x.npy"]


@pytest.mark.parametrize("mmap", [False, True])
@pytest.mark.parametrize("save", [numpy.savez, numpy.savez_compressed, serialization.save_npz])
def test_npz(save, mmap, tmp_path):
    path = tmp_path / "x.npz"
    save(path, numpy.ones(2), **{name: a for name, a in ARRAYS.items() if name != "big-endian"})
    found = flambeau.load(path, mmap=mmap)
    assert set(found) == {"arr_0", *ARRAYS} - {"big-endian"}
    assert all(numpy.array_equal(t.numpy(), ARRAYS[name]) for name, t in found.items() if name != "arr_0")
    with open(path, "rb") as file:
        assert list(flambeau.load(file)) == list(found)


def test_arrays_of_other_dtypes_stay_arrays(tmp_path):
    numpy.savez(tmp_path / "x.npz", names=numpy.array(["a", "b"]), x=numpy.ones(2))
    found = flambeau.load(tmp_path / "x.npz")
    assert found["names"].tolist() == ["a", "b"] and isinstance(found["x"], flambeau.Tensor)


def test_mapped_arrays_leave_the_file_alone(tmp_path):
    numpy.save(tmp_path / "x.npy", numpy.arange(10.0))
    before = (tmp_path / "x.npy").read_bytes()
    found = flambeau.load(tmp_path / "x.npy", mmap=True)
    found.zero_()
    assert (tmp_path / "x.npy").read_bytes() == before and flambeau.load(tmp_path / "x.npy").sum() == 45
    assert flambeau.load(tmp_path / "x.npy", map_location="meta").is_meta


def test_what_save_npz_refuses(tmp_path):
    with pytest.raises(ValueError, match="arr_0"):
        serialization.save_npz(tmp_path / "x.npz", flambeau.ones(1), arr_0=flambeau.ones(1))
    with pytest.raises(TypeError, match="Python objects"):
        serialization.save_npy(tmp_path / "x.npy", numpy.array([None]))
    with pytest.raises(RuntimeError, match="no folder"):
        serialization.save_npy(tmp_path / "none" / "x.npy", flambeau.ones(1))
    assert os.listdir(tmp_path) == []


def npy(shape="(2,)", dtype="'<f8'", fortran="False", data=bytes(16), more="", version=b"\x01\x00"):
    head = f"{{'descr': {dtype}, 'fortran_order': {fortran}, 'shape': {shape}, {more}}}\n".encode()
    return b"\x93NUMPY" + version + struct.pack("<H", len(head)) + head + data


HOSTILE_NPY = {
    "no characters": npy("(1,)", "'<U1'", data=b"a\0\0 "),
    "too little": npy(data=bytes(8)),
    "too much": npy(data=bytes(24)),
    "endless": npy("(1 << 60,)"),
    "many": npy("(1000000000000,)"),
    "wrapped": npy(f"({2**61}, 8)", data=b""),
    "negative": npy("(-2,)"),
    "float": npy("(2.0,)"),
    "no tuple": npy("[2]"),
    "objects": npy(dtype="'|O'"),
    "nothing": npy(f"({2**40},)", "'|S0'", data=b""),
    "program": npy("__import__('os').system('true')"),
    "no dtype": npy(dtype="'zz'"),
    "records of objects": npy(dtype="[('a', 'O')]"),
    "keys": npy(more="'x': 1"),
    "version": npy(version=b"\x09\x00"),
    "deep": npy("(" * 200 + ")" * 200),
    "cut": npy()[:20],
    "magic": b"\x93NUMPY",
    "long head": b"\x93NUMPY\x02\x00" + struct.pack("<I", 2**31) + b"x" * 100,
}


@pytest.mark.parametrize("mmap", [False, True])
@pytest.mark.parametrize("name", HOSTILE_NPY)
def test_hostile_npy(name, mmap, tmp_path):
    (tmp_path / "x.npy").write_bytes(HOSTILE_NPY[name])
    with pytest.raises(RuntimeError, match=r"load: .*x\.npy"):
        flambeau.load(tmp_path / "x.npy", mmap=mmap)


def deflated(data, size=None, crc=None, name="a.npy"):
    """An archive of one compressed entry, whose sizes may lie."""
    raw = zlib.compressobj(9, zlib.DEFLATED, -15)
    packed = raw.compress(data) + raw.flush()
    size, crc = len(data) if size is None else size, zlib.crc32(data) if crc is None else crc
    fixed = struct.pack("<4H3L", 0, 8, 0, 33, crc, len(packed), size)
    local = struct.pack("<4sH", b"PK\x03\x04", 20) + fixed + struct.pack("<2H", len(name), 0) + name.encode() + packed
    central = struct.pack("<4s2H", b"PK\x01\x02", 20, 20) + fixed + struct.pack("<5H2L", len(name), 0, 0, 0, 0, 0, 0)
    central += name.encode()
    return local + central + struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, 1, 1, len(central), len(local), 0)


HOSTILE_NPZ = {
    "bomb": deflated(bytes(1 << 26), 100),
    "size too large": deflated(npy(), 10**6),
    "wrapped size": deflated(npy(), 2**32 - 2),
    "size of 64 bits": deflated(npy(), 2**32 - 1),
    "checksum": deflated(npy(), crc=1),
    "no deflate": deflated(npy()).replace(b"\x08\x00\x00\x00\x21", b"\x09\x00\x00\x00\x21"),
    "no array": deflated(b"x" * 100),
    "traversal": deflated(npy(), name="../a.npy"),
    "absolute": deflated(npy(), name="/a.npy"),
    "twice": deflated(npy())[:-22] + b"",
    "array bomb": deflated(npy("(1000000000000,)")),
}


@pytest.mark.parametrize("mmap", [False, True])
@pytest.mark.parametrize("name", HOSTILE_NPZ)
def test_hostile_npz(name, mmap, tmp_path):
    (tmp_path / "x.npz").write_bytes(HOSTILE_NPZ[name])
    with pytest.raises(RuntimeError, match=r"load: .*x\.npz"):
        flambeau.load(tmp_path / "x.npz", mmap=mmap)


def test_deflated_archives_that_are_right(tmp_path):
    (tmp_path / "x.npz").write_bytes(deflated(npy(), name="a.npy"))
    assert flambeau.load(tmp_path / "x.npz")["a"].tolist() == [0, 0]
    (tmp_path / "y.npz").write_bytes(deflated(npy("(1000000,)", data=bytes(8_000_000))))
    assert flambeau.load(tmp_path / "y.npz")["a"].numel() == 1_000_000


def test_objects_may_not_be_compressed(tmp_path):
    with zipfile.ZipFile(tmp_path / "x.pt", "w", zipfile.ZIP_DEFLATED) as out:
        out.writestr("a/data.pkl", b"N.")
    with pytest.raises(RuntimeError, match="compressed"):
        flambeau.load(tmp_path / "x.pt")


# --- safetensors


@pytest.fixture
def safetensors():
    """The module, where the library is installed."""
    pytest.importorskip("safetensors", reason="safetensors is not installed")
    from flambeau import safetensors

    return safetensors


def state():
    dtypes = (
        "float64",
        "float32",
        "float16",
        "bfloat16",
        "float8_e4m3fn",
        "float8_e5m2",
        "int64",
        "int32",
        "int16",
        "int8",
        "uint64",
        "uint32",
        "uint16",
        "uint8",
        "bool",
        "complex64",
    )
    found = {name: flambeau.arange(6).reshape(2, 3).to(getattr(flambeau, name)) for name in dtypes}
    return found | {"empty": flambeau.empty(0, 3), "0-d": flambeau.tensor(2.5)}


def same(a, b):
    return (
        (a.dtype is b.dtype
        and a.shape == b.shape
        and a.contiguous().untyped_storage().tolist() == b.clone().contiguous().untyped_storage().tolist())
        or a.double().tolist() == b.double().tolist()
    )


def test_safetensors_both_ways(safetensors, tmp_path):
    path = tmp_path / "x.safetensors"
    safetensors.save_file(state(), path, {"format": "pt"})
    assert os.listdir(tmp_path) == ["x.safetensors"]
    for found in (
        safetensors.load_file(path),
        safetensors.load(safetensors.save(state())),
        flambeau.load(path),
        flambeau.load(path, mmap=True),
    ):
        assert found.keys() == state().keys() and all(same(found[name], t) for name, t in state().items())
    from safetensors.numpy import load_file

    theirs = {"float32": state()["float32"]}
    safetensors.save_file(theirs, path)
    assert numpy.array_equal(load_file(path)["float32"], theirs["float32"].numpy())


def test_safetensors_lazily(safetensors, tmp_path):
    path = tmp_path / "x.safetensors"
    safetensors.save_file({"a": flambeau.arange(10.0), "b": flambeau.ones(2, 3)}, path, {"by": "me"})
    before = path.read_bytes()
    with safetensors.safe_open(path, framework="pt", device="cpu") as file:
        assert file.keys() == ["a", "b"] and file.metadata() == {"by": "me"} and file.offset_keys() == ["a", "b"]
        part = file.get_slice("b")
        assert part.get_shape() == [2, 3] and part.get_dtype() == "F32" and part[:, 1:].tolist() == [[1, 1]] * 2
        a = file.get_tensor("a")
        with pytest.raises(KeyError, match="no tensor 'c'"):
            file.get_tensor("c")
    a.zero_()
    assert path.read_bytes() == before and safetensors.load_file(path, device="meta")["a"].is_meta
    with pytest.raises(ValueError, match="framework"):
        safetensors.safe_open(path, framework="tf")


def test_safetensors_in_parts(safetensors, tmp_path):
    tensors = {f"t{k}": flambeau.full((100,), k) for k in range(5)}
    index = safetensors.save_sharded(tensors, tmp_path, "1KB", {"format": "pt"})
    assert (
        sorted(os.listdir(tmp_path))
        == [f"model-0000{k}-of-00005.safetensors" for k in range(1, 6)] + ["model.safetensors.index.json"]
        or len(os.listdir(tmp_path)) > 2
    )
    described = json.loads((tmp_path / "model.safetensors.index.json").read_text())
    assert described["metadata"]["total_size"] == 5 * 800 and described["weight_map"].keys() == tensors.keys()
    found = safetensors.load_file(index)
    assert all((found[name] == t).all() for name, t in tensors.items())
    with safetensors.safe_open(index) as file:
        assert file.keys() == list(tensors) and (file.get_tensor("t3") == 3).all()
    assert (
        os.path.basename(safetensors.save_sharded(tensors, tmp_path, filename="one.safetensors")) == "one.safetensors"
    )
    for wrong in "x", "0", "-1", "5 PB":
        with pytest.raises(ValueError, match="max_shard_size"):
            safetensors.save_sharded(tensors, tmp_path, wrong)


@pytest.mark.parametrize(
    "places",
    [{"t": "../x.safetensors"}, {"t": "/etc/passwd"}, {"t": ""}, {"t": 3}, [1], {"u": "x.safetensors"}, {"t": ".."}],
)
def test_hostile_indices(places, safetensors, tmp_path):
    safetensors.save_file({"t": flambeau.ones(1)}, tmp_path / "x.safetensors")
    path = tmp_path / "m.safetensors.index.json"
    path.write_text(json.dumps({"weight_map": places}))
    with pytest.raises(RuntimeError, match=r"safe_open: .*index\.json"):
        safetensors.load_file(path)


def test_models_with_shared_tensors(safetensors, tmp_path):
    nn = flambeau.nn
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    model[1].weight = model[0].weight
    with pytest.raises(RuntimeError, match=r"0\.weight' and '1\.weight' share memory"):
        safetensors.save_file(model.state_dict(), tmp_path / "x.safetensors")
    safetensors.save_model(model, tmp_path / "x.safetensors")
    assert safetensors.safe_open(tmp_path / "x.safetensors").metadata() == {"1.weight": "0.weight"}
    other = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    other[1].weight = other[0].weight
    assert safetensors.load_model(other, tmp_path / "x.safetensors") == ([], [])
    assert (other[1].weight == model[0].weight).all()
    with pytest.raises(RuntimeError, match="load_model"):
        safetensors.load_model(nn.Sequential(nn.Linear(3, 3)), tmp_path / "x.safetensors")
    assert safetensors.load_model(nn.Linear(3, 3), tmp_path / "x.safetensors", strict=False)[0] == ["weight", "bias"]


def test_what_safetensors_do_not_have(safetensors, tmp_path):
    for wrong in (
        {"a": 1},
        [1],
        {1: flambeau.ones(1)},
        {"a": flambeau.ones(2, dtype=flambeau.complex128)},
        {"a": flambeau.ones(2, 3).t()},
    ):
        with pytest.raises(ValueError, match="save_file"):
            safetensors.save_file(wrong, tmp_path / "x.safetensors")
    assert os.listdir(tmp_path) == []


def head(tensors, data=bytes(16), size=None):
    text = tensors if isinstance(tensors, bytes) else json.dumps(tensors).encode()
    return struct.pack("<Q", len(text) if size is None else size) + text + data


def entry(dtype="F32", shape=(4,), offsets=(0, 16)):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": list(offsets)}


HOSTILE_SAFETENSORS = {
    "overlap": head({"a": entry(), "b": entry()}),
    "hole": head({"a": entry(shape=(2,), offsets=(8, 16))}),
    "past the end": head({"a": entry(shape=(8,), offsets=(0, 32))}),
    "size and offsets": head({"a": entry(shape=(3,))}),
    "wrapped shape": head({"a": entry(shape=(2**62, 16))}),
    "wrapped offsets": head({"a": entry(offsets=(2**64 - 16, 0))}),
    "backwards": head({"a": entry(offsets=(16, 0))}),
    "negative": head({"a": entry(shape=(-4,))}),
    "negative offset": head({"a": entry(offsets=(-16, 0))}),
    "float shape": head({"a": entry(shape=(4.5,))}),
    "unknown dtype": head({"a": entry("F31")}),
    "names twice": head(
        b'{"a":'
        + json.dumps(entry()).encode()
        + b',"a":'
        + json.dumps(entry(shape=(2,), offsets=(0, 8))).encode()
        + b"}"
    ),
    "header longer than the file": head({"a": entry()}, size=2**40),
    "header of 2^63": head({"a": entry()}, size=2**63),
    "header too short": head({"a": entry()}, size=5),
    "no JSON": head(b"{" + b"x" * 30),
    "deep JSON": head(b'{"a":' + b"[" * 5000 + b"]" * 5000 + b"}"),
    "list": head(b"[1, 2, 3]"),
    "metadata of numbers": head({"__metadata__": {"a": 1}, "t": entry()}),
    "extra bytes": head({"a": entry()}, bytes(20)),
    "missing bytes": head({"a": entry()}, bytes(8)),
    "empty": b"",
    "short": b"\x01\x02",
    "not UTF-8": head(b'{"\xff":1}'),
    "missing field": head({"a": {"dtype": "F32", "shape": [4]}}),
    "large header": head(b'{"a":"' + b"x" * 10**6 + b'"}'),
}


@pytest.mark.parametrize("name", HOSTILE_SAFETENSORS)
def test_hostile_safetensors(name, safetensors, tmp_path):
    path = tmp_path / "x.safetensors"
    path.write_bytes(HOSTILE_SAFETENSORS[name])
    with pytest.raises(RuntimeError, match=r"safe_open: .*x\.safetensors is no safetensors file, or a damaged one"):
        safetensors.load_file(path)
    with pytest.raises(RuntimeError, match="load: "):
        safetensors.load(HOSTILE_SAFETENSORS[name])
    with pytest.raises(RuntimeError):
        flambeau.load(path)


def test_without_the_library(monkeypatch, tmp_path):
    monkeypatch.setitem(__import__("sys").modules, "safetensors", None)
    with pytest.raises(ImportError, match="pip install 'safetensors"):
        flambeau.safetensors.load_file(tmp_path / "x.safetensors")
    with pytest.raises(ImportError, match="pip install 'safetensors"):
        flambeau.load(io.BytesIO(head({"a": entry()})))


def test_safetensors_of_what_only_looks_conjugated(safetensors, tmp_path):
    x = flambeau.tensor([1 + 2j, 3 - 1j]).conj()
    safetensors.save_file({"x": x}, tmp_path / "x.safetensors")
    for found in (safetensors.load_file(tmp_path / "x.safetensors"), safetensors.load(safetensors.save({"x": x}))):
        assert found["x"].tolist() == [1 - 2j, 3 + 1j]
