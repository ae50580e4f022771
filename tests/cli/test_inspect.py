"""`flambeau inspect` and `flambeau diff`: what they print of every format, what they never do, exit codes."""

import collections
import os
import zlib
from pathlib import Path

import numpy
import pytest

import flambeau
from flambeau import serialization
from flambeau._files.listing import Listing
from flambeau.cli.main import main

GOLDEN = Path(__file__).parents[1] / "serialization"
NO_ZIP = {"_use_new_zipfile_serialization": False}


def crc(t):
    return f"{zlib.crc32(t.contiguous().numpy().tobytes()):08x}"


def state():
    w = flambeau.arange(12.0).reshape(3, 4)
    return {"model": collections.OrderedDict(w=w, part=w[1:, ::2], b=flambeau.ones(2, dtype=flambeau.int8)), "epoch": 3,
            "history": [0.5, flambeau.tensor(2.5)], "none": flambeau.empty(0, 2)}


def run(capsys, *arguments):
    """(exit code, lines)."""
    code = main(list(map(str, arguments)))
    taken = capsys.readouterr()
    return code, (taken.out + taken.err).splitlines()


@pytest.mark.parametrize("options", [{}, NO_ZIP], ids=["zip", "legacy"])
def test_table_of_a_checkpoint(options, tmp_path, capsys):
    path = tmp_path / "x.pt"
    flambeau.save(state(), path, **options)
    code, lines = run(capsys, "inspect", path)
    kind = "PyTorch before 1.6" if options else "PyTorch"
    model = state()["model"]
    assert code == 0 and lines == [
        f"{path}: {kind}, {path.stat().st_size:,} bytes",
        "name        shape   dtype    bytes  crc-32",
        f"model.w     [3, 4]  float32     48  {crc(model['w'])}",
        f"model.part  [2, 2]  float32     16  {crc(model['part'])}",
        f"model.b     [2]     int8         2  {crc(model['b'])}",
        f"history.1   []      float32      4  {crc(flambeau.tensor(2.5))}",
        "none        [0, 2]  float32      0  00000000",
        "5 tensors, 70 bytes (1 in memory that another one has too); 2 other values (--values shows them)",
    ]
    code, lines = run(capsys, "inspect", path, "--values")
    assert lines[-2:] == ["epoch      3", "history.0  0.5"]


@pytest.mark.parametrize("name", ["torch_written.pt", "torch_values.pt", "torch_legacy.pt", "torch_models.pt"])
def test_what_pytorch_wrote_has_the_checksums_of_its_tensors(name, monkeypatch):
    """Also of views, buffers, conjugated and meta tensors; of classes that are not here."""
    rows = {row.name: row for row in Listing(str(GOLDEN / name)).rows}
    assert len(rows) > 20
    if name == "torch_written.pt":
        for key, t in flambeau.load(GOLDEN / name).items():
            if isinstance(t, flambeau.Tensor) and key not in ("meta", "conj"):
                assert rows[key].checksum() == int(crc(t.detach()), 16), key
        assert rows["meta"].checksum() is None


def test_classes_that_are_needed_are_named(tmp_path, capsys):
    path = tmp_path / "x.pt"
    flambeau.save({"net": flambeau.nn.Sequential(flambeau.nn.Linear(2, 3))}, path)
    code, lines = run(capsys, "inspect", path)
    assert code == 0 and [line.split()[0] for line in lines[2:4]] == ["net.0.weight", "net.0.bias"]
    assert lines[-1] == ("needs weights_only=False or safe_globals: torch.nn.modules.container.Sequential, "
                         "torch.nn.modules.linear.Linear")


def test_other_formats(tmp_path, capsys):
    x = flambeau.arange(6.0).reshape(2, 3)
    serialization.save_npy(tmp_path / "x.npy", x)
    numpy.savez_compressed(tmp_path / "x.npz", w=x.numpy(), names=numpy.array(["a"]))
    _, lines = run(capsys, "inspect", tmp_path / "x.npy")
    assert lines[0].endswith("NumPy array, 152 bytes")
    assert lines[2].split() == ["(array)", "[2,", "3]", "float32", "24", crc(x)]
    _, lines = run(capsys, "inspect", tmp_path / "x.npz")
    assert "NumPy archive" in lines[0] and lines[2].startswith("w ") and lines[2].endswith(crc(x))


def test_safetensors(tmp_path, capsys):
    pytest.importorskip("safetensors", reason="safetensors is not installed")
    x = flambeau.arange(6.0).reshape(2, 3)
    flambeau.safetensors.save_file({"w": x}, tmp_path / "x.safetensors", {"by": "me"})
    flambeau.save({"w": x}, tmp_path / "x.pt")
    _, lines = run(capsys, "inspect", tmp_path / "x.safetensors", "--values")
    assert lines[2].endswith(crc(x)) and lines[-1] == "metadata: by  'me'"
    assert run(capsys, "diff", tmp_path / "x.safetensors", tmp_path / "x.pt")[1][0] == "-  metadata: by  'me'"


def test_nothing_is_loaded(tmp_path):
    """The rows of a large checkpoint come without its bytes: the file is a hole where they would be."""
    with serialization.skip_data():
        flambeau.save({f"w{k}": flambeau.empty(1 << 20) for k in range(10)}, tmp_path / "x.pt")
    before = int(Path("/proc/self/statm").read_text().split()[1])
    found = Listing(str(tmp_path / "x.pt"))
    assert len(found.rows) == 10 and len({row.checksum() for row in found.rows}) == 1
    assert (int(Path("/proc/self/statm").read_text().split()[1]) - before) * os.sysconf("SC_PAGE_SIZE") < 1 << 24


def test_differences(tmp_path, capsys):
    a, b = state(), state()
    flambeau.save(a, tmp_path / "a.pt")
    flambeau.save(b, tmp_path / "b.pt", **NO_ZIP)
    code, lines = run(capsys, "diff", tmp_path / "a.pt", tmp_path / "b.pt")
    assert code == 0 and lines == ["no difference in 5 tensors and 2 values"]
    b["model"]["w"][0, 0] = 0.5
    b["model"]["b"] = flambeau.ones(3, dtype=flambeau.int8)
    b["more"], b["epoch"] = flambeau.zeros(2), 4
    del b["none"]
    flambeau.save(b, tmp_path / "b.pt")
    code, lines = run(capsys, "diff", tmp_path / "a.pt", tmp_path / "b.pt")
    assert code == 1 and lines == [
        "~  model.w  float32 [3, 4]: values differ in 1 of 12 elements, by 0.5 at most",
        "~  model.b  int8 [2] -> int8 [3]",
        "-  none     float32 [0, 2]",
        "+  more     float32 [2]",
        "~  epoch    3 -> 4",
        "5 differences",
    ]


def test_what_cannot_be_read(tmp_path, capsys):
    path = tmp_path / "x.pt"
    assert run(capsys, "inspect", path) == (2, [f"flambeau: {path}: cannot be read: No such file or directory"])
    path.write_bytes(b"x" * 100)
    code, lines = run(capsys, "inspect", path)
    assert code == 2 and len(lines) == 1
    assert lines[0].startswith(f"flambeau: {path}") and "not a zip archive" in lines[0]
    flambeau.save(1, tmp_path / "y.pt")
    assert run(capsys, "diff", tmp_path / "y.pt", path)[0] == 2
    raw = (tmp_path / "y.pt").read_bytes()
    for cut in range(0, len(raw), 50):
        path.write_bytes(raw[:cut])
        assert run(capsys, "inspect", path)[0] == 2


def test_hostile_names_stay_on_their_line(tmp_path, capsys):
    flambeau.save({"a\nb\x1b[2J": flambeau.ones(1), "x" * 10**5: 3, 5: flambeau.ones(1)}, tmp_path / "x.pt")
    code, lines = run(capsys, "inspect", tmp_path / "x.pt", "--values")
    assert code == 0 and len(lines) == 6 and "\x1b" not in "".join(lines) and max(map(len, lines)) < 400
