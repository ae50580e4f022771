"""Settings of save and load: checksums, byte orders, memory of files, devices of others; names programs import."""

import io
import mmap
import os
import subprocess
import sys
import types
import zipfile

import numpy
import pytest

import flambeau
from flambeau import serialization

OTHER = "big" if sys.byteorder == "little" else "little"
VALUES = [flambeau.arange(5.0), flambeau.arange(4, dtype=flambeau.int16), flambeau.tensor([True, False]),
          flambeau.tensor([1.5 - 2j, 3j]), flambeau.tensor([1.5, -2], dtype=flambeau.bfloat16), flambeau.zeros(0)]


def written(obj):
    file = io.BytesIO()
    flambeau.save(obj, file)
    return file


def rewritten(file, change):
    """The archive with the entries that change({name: bytes}) makes of its own."""
    with zipfile.ZipFile(file) as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    result = io.BytesIO()
    with zipfile.ZipFile(result, "w") as archive:
        for name, data in change(entries).items():
            archive.writestr(name, data)
    return result


def turned(tensor):
    size = tensor.dtype.itemsize // (2 if tensor.is_complex() else 1)
    data = numpy.frombuffer(bytes(memoryview(tensor.view(flambeau.uint8))), dtype=numpy.uint8)
    return data.reshape(-1, size)[:, ::-1].tobytes()


def in_other_order(entries, say):
    """What a machine of the other byte order would have written."""
    changed = dict(entries)
    for k, tensor in enumerate(VALUES):
        if tensor.numel():
            changed[f"archive/data/{k}"] = turned(tensor)
    changed.pop("archive/byteorder")
    return changed | ({"archive/byteorder": OTHER.encode()} if say else {})


class TestByteOrder:
    @pytest.fixture(autouse=True)
    def _restored(self):
        yield
        serialization.set_default_load_endianness(None)

    def check(self, file):
        for found, expected in zip(flambeau.load(file), VALUES, strict=True):
            assert found.dtype is expected.dtype and flambeau.equal(found, expected)

    def test_files_that_say_theirs(self):
        self.check(rewritten(written(VALUES), lambda entries: in_other_order(entries, True)))

    def test_files_that_do_not(self):
        order = serialization.LoadEndianness
        plain = rewritten(written(VALUES), lambda e: {k: v for k, v in e.items() if not k.endswith("byteorder")})
        self.check(plain)
        serialization.set_default_load_endianness(order[OTHER.upper()])
        assert serialization.get_default_load_endianness() is order[OTHER.upper()]
        self.check(rewritten(written(VALUES), lambda entries: in_other_order(entries, False)))
        self.check(written(VALUES))
        serialization.set_default_load_endianness(order.NATIVE)
        self.check(plain)
        with pytest.raises(TypeError, match="LoadEndianness"):
            serialization.set_default_load_endianness("big")

    def test_bytes_of_no_dtype(self):
        x = flambeau.zeros(4, dtype=flambeau.uint16)  # its storage is one of bytes
        file = rewritten(written(x), lambda e: e | {"archive/byteorder": OTHER.encode()})
        with pytest.raises(RuntimeError, match="other byte order"):
            flambeau.load(file)


class TestChecksums:
    @pytest.fixture(autouse=True)
    def _restored(self):
        yield
        serialization.set_crc32_options(True)

    def test_files_without(self):
        serialization.set_crc32_options(False)
        assert serialization.get_crc32_options() is False
        file = written(VALUES)
        serialization.set_crc32_options(True)
        with zipfile.ZipFile(file) as archive:
            assert {entry.CRC for entry in archive.infolist()} == {0}
        assert flambeau.equal(flambeau.load(file)[0], VALUES[0])

    def test_one_checksum_less_is_damage(self):
        data = bytearray(written(VALUES[0]).getvalue())
        entry = data.index(b"archive/data/0") - 30
        data[entry + 14:entry + 18] = bytes(4)
        central = data.rindex(b"archive/data/0") - 46
        data[central + 16:central + 20] = bytes(4)
        with pytest.raises(RuntimeError, match="Bad CRC"):
            flambeau.load(io.BytesIO(data))


class TestMappedFiles:
    def test_changes(self, tmp_path):
        path = tmp_path / "x.pt"
        flambeau.save(flambeau.zeros(3), path)
        flambeau.load(path, mmap=True).fill_(1)
        assert flambeau.load(path).sum() == 0
        with serialization.set_default_mmap_options(mmap.MAP_SHARED):
            assert serialization.get_default_mmap_options() == mmap.MAP_SHARED
            flambeau.load(path, mmap=True).fill_(2)
        assert serialization.get_default_mmap_options() == mmap.MAP_PRIVATE
        assert flambeau.load(path, mmap=True).sum() == 6

    def test_refused(self, tmp_path):
        with pytest.raises(ValueError, match="MAP_PRIVATE"):
            serialization.set_default_mmap_options(99)
        path = tmp_path / "x.safetensors"
        flambeau.safetensors.save_file({"x": flambeau.zeros(3)}, path)
        with serialization.set_default_mmap_options(mmap.MAP_SHARED), pytest.raises(NotImplementedError):
            flambeau.load(path, mmap=True)


class TestDevices:
    @pytest.fixture(autouse=True)
    def _restored(self, monkeypatch):
        module = sys.modules["flambeau._files.placing"]
        monkeypatch.setattr(module, "_packages", list(module._OURS))

    def test_a_device_of_others(self):
        asked = []

        def tag(storage):
            return "tape" if storage.nbytes() == 12 else None

        def restore(storage, location):
            asked.append((storage.nbytes(), location))
            return storage if location == "tape" else None

        serialization.register_package(5, tag, restore)
        file = written([flambeau.arange(3.0), flambeau.ones(2)])
        assert flambeau.load(file)[0].tolist() == [0, 1, 2] and asked == [(12, "tape"), (8, "cpu")]
        assert serialization.location_tag(flambeau.ones(3).untyped_storage()) == "tape"
        sys.modules["flambeau._files.placing"]._packages[:] = sys.modules["flambeau._files.placing"]._OURS
        with pytest.raises(RuntimeError, match="'tape'"):
            flambeau.load(file)
        assert flambeau.load(file, map_location={"tape": "cpu"})[0].tolist() == [0, 1, 2]

    def test_priorities(self):
        serialization.register_package(11, lambda storage: "late", lambda storage, location: 1 / 0)
        assert flambeau.load(written(flambeau.ones(2))).tolist() == [1, 1]
        assert serialization.location_tag(flambeau.ones(2).untyped_storage()) == "cpu"
        with pytest.raises(TypeError, match="two functions"):
            serialization.register_package(1, None, None)

    def test_ours(self):
        storage = flambeau.ones(2).untyped_storage()
        assert serialization.location_tag(flambeau.ones(2, device="meta").untyped_storage()) == "meta"
        assert serialization.default_restore_location(storage, "cpu").data_ptr() == storage.data_ptr()
        assert serialization.default_restore_location(storage, "meta").device.type == "meta"
        for location in ("cuda:99", "elsewhere"):
            with pytest.raises(RuntimeError, match=location):
                serialization.default_restore_location(storage, location)
        with pytest.raises(RuntimeError, match="does not know"):
            serialization.validate_hpu_device("hpu")


def test_versions():
    module = types.ModuleType("m")
    module.__version__ = "1.4.2"
    compare = serialization.check_module_version_greater_or_equal
    assert compare(module, (1, 4)) and compare(module, (1, 4, 2)) and not compare(module, (1, 5, 0))
    module.__version__ = "1.x"
    with pytest.raises(RuntimeError, match="does not compare"):
        compare(module, (1, 2))
    with pytest.warns(UserWarning, match="new enough"):
        assert compare(module, (1, 2), error_if_malformed=False)


def test_names():
    assert serialization.normalize_storage_type(flambeau.IntStorage) is flambeau.IntStorage
    assert serialization.storage_to_tensor_type(flambeau.IntStorage(1)) is flambeau.IntTensor
    assert issubclass(serialization.SourceChangeWarning, Warning)
    assert serialization.MAP_LOCATION is not None and serialization.FILE_LIKE is not None


@pytest.mark.parity
def test_files_without_checksums_both_ways(tmp_path):
    python = os.environ.get("FLAMBEAU_TORCH_PYTHON", sys.executable)
    if subprocess.run([python, "-c", "import torch"], capture_output=True, check=False).returncode:
        pytest.skip(f"{python} has no PyTorch; set FLAMBEAU_TORCH_PYTHON to one that has")
    program = ("import sys, torch; torch.serialization.set_crc32_options(False); "
               "torch.save(torch.load(sys.argv[1]) + 1, sys.argv[2])")
    serialization.set_crc32_options(False)
    try:
        flambeau.save(flambeau.arange(5.0), tmp_path / "ours.pt")
    finally:
        serialization.set_crc32_options(True)
    subprocess.run([python, "-c", program, tmp_path / "ours.pt", tmp_path / "theirs.pt"], check=True)
    assert flambeau.load(tmp_path / "theirs.pt").tolist() == [1, 2, 3, 4, 5]
