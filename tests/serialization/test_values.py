"""What checkpoints hold besides tensors, both ways and in both formats; files without values."""

import collections
import io
import pickle

import pytest

import flambeau
from flambeau import serialization

from .conftest import HERE
from .test_save_load import archive

LEGACY = {"_use_new_zipfile_serialization": False}


def through(obj, weights_only=None, **options):
    file = io.BytesIO()
    flambeau.save(obj, file, **options)
    return flambeau.load(file, weights_only=weights_only)


# --- both ways


@pytest.mark.parametrize("name", ["torch_values.pt", "torch_legacy.pt"])
def test_what_pytorch_wrote_is_read(name, values):
    """Files of `python -c 'import values; values.main()' write FILE [legacy]` with PyTorch 2.13."""
    values.compare(flambeau.load(HERE / name, weights_only=False))


@pytest.mark.parametrize("options", [{}, LEGACY], ids=["zip", "legacy"])
def test_what_is_saved_comes_back(options, values):
    values.compare(through(values.content(), False, **options))


@pytest.mark.parity
@pytest.mark.parametrize("options", [{}, LEGACY], ids=["zip", "legacy"])
def test_pytorch_reads_what_is_saved(options, values, torch_runs, tmp_path):
    flambeau.save(values.content(), tmp_path / "values.pt", **options)
    torch_runs("values.compare(torch.load(sys.argv[1], weights_only=False))", tmp_path / "values.pt")


@pytest.mark.parity
def test_pytorch_reads_storages_that_tensors_of_two_dtypes_share(torch_runs, tmp_path):
    x = flambeau.arange(4.0)
    flambeau.save([x, x.view(flambeau.int32), x.view(flambeau.uint16)], tmp_path / "x.pt")
    text = torch_runs(
        "a, b, c = torch.load(sys.argv[1]); a.zero_(); print(b.tolist(), c.dtype, b.dtype)", tmp_path / "x.pt"
    )
    assert text == "[0, 0, 0, 0] torch.uint16 torch.int32\n"


def test_tensors_of_two_dtypes_share_a_storage():
    x = flambeau.arange(4.0)
    for options in {}, LEGACY:
        a, b, c = through([x, x.view(flambeau.int32), x.view(flambeau.uint16)], **options)
        assert b.tolist() == x.view(flambeau.int32).tolist() and c.tolist() == x.view(flambeau.uint16).tolist()
        a.zero_()
        assert b.tolist() == [0] * 4 and c.tolist() == [0] * 8


@pytest.mark.parity
def test_pytorch_writes_and_reads_every_layer_as_a_module(torch_runs, tmp_path):
    """Whole modules of both sides: every layer that can be made of these arguments."""
    makers = {name: make for name, make in LAYERS.items() if hasattr(flambeau.nn, name)}
    assert len(makers) > 60
    torch_runs(
        f"torch.save({{n: getattr(torch.nn, n)(*a) for n, a in {makers!r}.items()}}, sys.argv[1])",
        tmp_path / "theirs.pt",
    )
    for name, module in flambeau.load(tmp_path / "theirs.pt", weights_only=False).items():
        assert type(module) is getattr(flambeau.nn, name)
        ours = getattr(flambeau.nn, name)(*makers[name])
        assert list(module.state_dict()) == list(ours.state_dict()) and repr(module) == repr(ours)
        assert set(vars(ours)) <= set(vars(module)), name
    flambeau.save({name: getattr(flambeau.nn, name)(*args) for name, args in makers.items()}, tmp_path / "ours.pt")
    torch_runs(
        f"""
for name, module in torch.load(sys.argv[1], weights_only=False).items():
    theirs = getattr(torch.nn, name)(*{makers!r}[name])
    assert type(module) is type(theirs) and repr(module) == repr(theirs), name
    missing = {{k for k in vars(theirs) if not k.endswith("hooks") and "_hooks_" not in k}} - set(vars(module))
    assert not missing, (name, missing)
""",
        tmp_path / "ours.pt",
    )


LAYERS = {
    **{f"{kind}{n}d": (2, 3, 3) for kind in ("Conv", "ConvTranspose") for n in (1, 2, 3)},
    **{
        f"{kind}{n}d": (2,)
        for kind in (
            "BatchNorm",
            "InstanceNorm",
            "MaxPool",
            "AvgPool",
            "AdaptiveAvgPool",
            "AdaptiveMaxPool",
            "ReflectionPad",
            "ReplicationPad",
            "ZeroPad",
        )
        for n in (1, 2, 3)
    },
    **dict.fromkeys(
        [
            "ReLU",
            "GELU",
            "SiLU",
            "Mish",
            "Tanh",
            "Sigmoid",
            "ELU",
            "SELU",
            "CELU",
            "LeakyReLU",
            "Hardtanh",
            "ReLU6",
            "Softplus",
            "Softsign",
            "Hardswish",
            "Hardsigmoid",
            "LogSigmoid",
            "PReLU",
            "Identity",
            "Dropout",
            "Dropout2d",
            "AlphaDropout",
            "Flatten",
            "Sequential",
            "ModuleList",
            "ModuleDict",
            "ParameterList",
            "MSELoss",
            "L1Loss",
            "CrossEntropyLoss",
            "NLLLoss",
            "BCELoss",
            "BCEWithLogitsLoss",
            "KLDivLoss",
            "SmoothL1Loss",
            "HuberLoss",
            "CTCLoss",
            "TripletMarginLoss",
            "CosineSimilarity",
        ],
        (),
    ),
    "Linear": (2, 3),
    "Bilinear": (2, 3, 4),
    "Embedding": (5, 2),
    "EmbeddingBag": (5, 2),
    "LayerNorm": (3,),
    "RMSNorm": (3,),
    "GroupNorm": (1, 2),
    "LocalResponseNorm": (2,),
    "Softmax": (1,),
    "LogSoftmax": (1,),
    "Upsample": (2,),
    "PixelShuffle": (2,),
    "ChannelShuffle": (2,),
    "Unfold": (2,),
    "Fold": (4, 2),
    "Threshold": (1, 2),
    "LSTM": (2, 3, 2),
    "GRU": (2, 3),
    "RNN": (2, 3),
    "LSTMCell": (2, 3),
    "GRUCell": (2, 3),
    "RNNCell": (2, 3),
    "MultiheadAttention": (4, 2),
    "TransformerEncoderLayer": (4, 2, 3),
    "TransformerDecoderLayer": (4, 2, 3),
}


def test_plain_values_need_no_permission(values):
    for weights_only in None, True, False:
        found = through(values.values(), weights_only)
        assert all(values.same(value, found[name]) for name, value in values.values().items())


# --- the format before 1.6


def test_legacy_files_truncated_or_changed(tmp_path):
    path = tmp_path / "x.pt"
    flambeau.save({"w": flambeau.arange(5.0), "c": collections.Counter("ab")}, path, **LEGACY)
    raw = path.read_bytes()
    for n in range(1, len(raw)):
        path.write_bytes(raw[:n])
        with pytest.raises(RuntimeError, match=r"x\.pt"):
            flambeau.load(path)
    for k in range(len(raw)):
        path.write_bytes(raw[:k] + bytes([raw[k] ^ 1 << k % 8]) + raw[k + 1 :])
        try:
            flambeau.load(path, map_location="cpu")
        except RuntimeError as error:
            assert "x.pt" in str(error)
    path.write_bytes(raw + b"x")
    with pytest.raises(RuntimeError, match="its parts"):
        flambeau.load(path)
    path.write_bytes(raw)
    with pytest.raises(RuntimeError, match="mmap=True needs a file as save writes it"):
        flambeau.load(path, mmap=True)


def test_legacy_files_from_streams_and_to_devices():
    file = io.BytesIO()
    flambeau.save(flambeau.arange(3), file, **LEGACY)
    assert flambeau.load(file).tolist() == [0, 1, 2]
    assert flambeau.load(file, map_location="meta").is_meta


def test_legacy_classes_whose_source_follows():
    """Before 1.6 a module's class was a reference with its source, which is not read."""
    source = b"(X\x06\x00\x00\x00modulectorch.nn.modules.activation\nReLU\nX\x04\x00\x00\x00a.pyX\x04\x00\x00\x00codetQ"
    state = b"}(X\x08\x00\x00\x00training\x88X\x0b\x00\x00\x00_parameters}"
    state += b"X\x08\x00\x00\x00_buffers}X\x08\x00\x00\x00_modules}"
    file = io.BytesIO()
    flambeau.save(None, file, **LEGACY)
    raw = file.getvalue().replace(
        b"\x80\x02N.", b"\x80\x02" + source + b")\x81" + state + b"X\x07\x00\x00\x00inplace\x89ub."
    )
    assert repr(flambeau.load(io.BytesIO(raw), weights_only=False)) == "ReLU()"
    with pytest.raises(pickle.UnpicklingError):
        flambeau.load(io.BytesIO(raw))


def test_texts_of_python_2():
    stream = b"](U\x02\xe9xT\x01\x00\x00\x00ye."
    assert flambeau.load(archive(stream), encoding="latin1") == ["éx", "y"]
    assert flambeau.load(archive(stream), encoding="bytes") == [b"\xe9x", b"y"]
    with pytest.raises(RuntimeError, match="UnicodeDecodeError"):
        flambeau.load(archive(stream))


def test_tensors_of_python_2_with_texts_as_bytes():
    """Names of storages are texts too, and stay names."""
    magic = b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.\x80\x02M\xe9\x03.\x80\x02}U\rlittle_endian\x88s."
    tensor = (b"ctorch._utils\n_rebuild_tensor_v2\n((U\x07storagectorch\nFloatStorage\nU\x017U\x03cpuK\x01NtQK\x00K\x01"
              b"\x85K\x01\x85\x89NtR")
    file = magic + b"\x80\x02](U\x02\xc3\xa9" + tensor + b"e." + b"\x80\x02]U\x017a." + b"\x01" + bytes(11)
    for encoding, text in (("bytes", b"\xc3\xa9"), ("utf-8", "é")):
        assert flambeau.load(io.BytesIO(file), encoding=encoding) == [text, flambeau.zeros(1)]


# --- without values


def test_skip_data_leaves_room_and_reads_none(tmp_path):
    path, state = tmp_path / "x.pt", {"w": flambeau.arange(1000.0), "n": 3}
    with serialization.skip_data():
        flambeau.save(state, path)
    found = flambeau.load(path)
    assert found["w"].tolist() == [0.0] * 1000 and found["n"] == 3
    flambeau.save(state, path)
    raw = path.read_bytes()
    at = raw.index(state["w"].numpy().tobytes())
    path.write_bytes(raw[:at] + bytes(100) + raw[at + 100 :])  # which load would refuse
    with serialization.skip_data():
        assert flambeau.load(path)["w"].shape == (1000,)
    with pytest.raises(NotImplementedError):
        serialization.skip_data(materialize_fake_tensors=True).__enter__()
