"""PyTorchFileReader and PyTorchFileWriter: what is written is read, by both and by `load`; what is refused."""

import io
import zipfile

import pytest

import flambeau


def written(target, **records):
    writer = flambeau.PyTorchFileWriter(target)
    for name, data in records.items():
        writer.write_record(name, data, len(data) if isinstance(data, (str, bytes)) else data.nbytes())
    writer.write_end_of_file()
    return writer


def test_records_are_read_as_written(tmp_path):
    path = tmp_path / "kept.pt"
    x = flambeau.tensor([1.0, 2.0])
    writer = written(path, note="text", raw=b"bytes", memory=x.untyped_storage(), none=b"")
    reader = flambeau.PyTorchFileReader(str(path))
    assert writer.archive_name() == "kept" and writer.serialization_id() == reader.serialization_id() != ""
    assert reader.get_all_records() == ["note", "raw", "memory", "none", "version", "byteorder",
                                        ".data/serialization_id"]
    assert writer.get_all_written_records() == set(reader.get_all_records())
    assert [reader.get_record(name) for name in ("note", "raw", "none", "version")] == [b"text", b"bytes", b"", b"3\n"]
    assert flambeau.equal(reader.get_storage_from_record("memory", 2, flambeau.float32), x)
    assert reader.get_storage_from_record("raw", 5, flambeau.UntypedStorage).tolist() == list(b"bytes")
    assert reader.get_storage_from_record("none", 0, flambeau.float32).numel() == 0
    for name in reader.get_all_records():
        offset = reader.get_record_offset(name)
        assert offset % 64 == 0 and reader.get_record_header_offset(name) < offset
        assert path.read_bytes()[offset:offset + reader.get_record_size(name)] == reader.get_record(name)


def test_archives_of_save_have_records():
    file = io.BytesIO()
    flambeau.save({"w": flambeau.ones(3)}, file)
    reader = flambeau.PyTorchFileReader(file)
    assert reader.has_record("data.pkl") and reader.has_record("data/0") and not reader.has_record("data/1")
    assert reader.get_storage_from_record("data/0", 3, flambeau.float32).tolist() == [1, 1, 1]


def test_a_function_takes_the_bytes():
    pieces = []
    writer = flambeau.PyTorchFileWriter(pieces.append)
    writer.set_min_version(7)
    writer.write_record_metadata("room", 3)
    writer.write_end_of_file()
    with zipfile.ZipFile(io.BytesIO(b"".join(pieces))) as archive:
        assert archive.read("archive/room") == bytes(3) and archive.read("archive/version") == b"7\n"


def test_refusals(tmp_path):
    writer = flambeau.PyTorchFileWriter(io.BytesIO())
    writer.write_record("a", b"1", 1)
    for bad, error in (((("a", b"1", 1)), RuntimeError), (("b", b"1", 2), RuntimeError), (("b", 1, 1), TypeError)):
        with pytest.raises(error, match="write_record"):
            writer.write_record(*bad)
    writer.write_end_of_file()
    with pytest.raises(RuntimeError, match="ends the archive"):
        writer.write_record("c", b"", 0)
    with pytest.raises(NotImplementedError, match="leave compute_crc32"):
        flambeau.PyTorchFileWriter(io.BytesIO(), compute_crc32=False)
    for path in (str(tmp_path / "none.pt"), io.BytesIO(b"PK"), io.BytesIO()):
        with pytest.raises(RuntimeError):
            flambeau.PyTorchFileReader(path)
    stray = io.BytesIO()
    with zipfile.ZipFile(stray, "w") as archive:
        archive.writestr("one", "")
    with pytest.raises(RuntimeError, match="one folder"):
        flambeau.PyTorchFileReader(stray)
    file = io.BytesIO()
    written(file, a=b"1")
    reader = flambeau.PyTorchFileReader(file)
    with pytest.raises(RuntimeError, match="'nope' is missing"):
        reader.get_record("nope")
    with pytest.raises(RuntimeError, match="has 1 bytes"):
        reader.get_storage_from_record("a", 2, flambeau.float32)
