"""SummaryWriter: what TensorBoard's own readers read back is what was written."""

import io
import wave
from itertools import pairwise

import numpy as np
import pytest

import flambeau
from flambeau import nn

pytest.importorskip("tensorboard")
from flambeau.utils.tensorboard import SummaryWriter, summary

from . import events as read

pytestmark = pytest.mark.filterwarnings("default::DeprecationWarning")


@pytest.fixture
def writer(tmp_path):
    with SummaryWriter(tmp_path / "run") as made:
        yield made


def test_scalars(writer):
    for step in range(5):
        loss = flambeau.tensor(1 / (step + 1), requires_grad=True)
        writer.add_scalar("train/loss", loss, step, walltime=100.0 + step)
    writer.add_scalar("no step", 2)
    writer.add_scalar("exact", 0.1, np.int64(7), new_style=True, double_precision=True)
    found = read.accumulated(writer)
    scalars = found.Scalars("train/loss")
    assert [(e.step, e.wall_time) for e in scalars] == [(k, 100.0 + k) for k in range(5)]
    assert [e.value for e in scalars] == [float(np.float32(1 / (k + 1))) for k in range(5)]
    assert found.Scalars("no step")[0].value == 2
    assert found.Tensors("exact")[0].step == 7
    assert found.Tensors("exact")[0].tensor_proto.double_val == [0.1]
    with pytest.raises(AssertionError, match="2 "):
        writer.add_scalar("two", flambeau.ones(2))
    with pytest.raises(NotImplementedError, match="numbers"):
        writer.add_scalar("text", "1.0")


def test_groups_of_scalars_are_runs_of_their_own(writer, tmp_path):
    for step in range(2):
        writer.add_scalars("a/losses", {"train": step, "test": 2.0 * step}, step)
    writer.flush()
    assert [e.value for e in read.folder(tmp_path / "run" / "a_losses_test").Scalars("a/losses")] == [0.0, 2.0]
    assert [e.value for e in read.folder(tmp_path / "run" / "a_losses_train").Scalars("a/losses")] == [0.0, 1.0]


@pytest.mark.parametrize("bins", ["tensorflow", "auto", 7, [-9.0, 0.0, 0.5, 9.0]])
@pytest.mark.parametrize("max_bins", [None, 3])
def test_histograms(writer, bins, max_bins):
    values = flambeau.randn(200)
    writer.add_histogram("weights", values, 3, bins=bins, max_bins=max_bins)
    found = read.accumulated(writer).Histograms("weights")[0].histogram_value
    assert (found.num, found.min, found.max) == (200, values.min().item(), values.max().item())
    assert found.sum == pytest.approx(values.double().sum().item())
    assert found.sum_squares == pytest.approx(values.double().square().sum().item())
    limits, counts = np.array(found.bucket_limit), np.array(found.bucket)
    assert len(limits) == len(counts) and counts[0] == 0 and counts[-1] > 0 and counts.sum() == 200
    inner = [((values >= a) & (values < b)).sum().item() for a, b in pairwise(limits)]
    assert inner[:-1] == counts[1:-1].tolist()


def test_histograms_of_nothing_are_refused(writer):
    with pytest.raises(ValueError, match="no values"):
        writer.add_histogram("empty", flambeau.ones(0))
    with pytest.raises(ValueError, match="limits for"):
        writer.add_histogram_raw("raw", 0, 1, 2, 3, 4, [1.0], [1, 2])


FORMATS = {"CHW": (3, 4, 5), "HWC": (4, 5, 3), "HW": (4, 5), "WH": (5, 4), "CWH": (1, 5, 4)}


@pytest.mark.parametrize("dataformats", FORMATS)
@pytest.mark.parametrize("dtype", ["float32", "uint8"])
def test_images(writer, dataformats, dtype):
    shape = FORMATS[dataformats]
    pixels = flambeau.rand(shape) if dtype == "float32" else flambeau.randint(0, 256, shape, dtype=flambeau.uint8)
    writer.add_image("picture", pixels, 1, dataformats=dataformats)
    found = read.accumulated(writer).Images("picture")[0]
    expected = pixels.numpy().astype("float32") * (255 if dtype == "float32" else 1)
    expected = np.einsum(f"{dataformats}->{'HWC' if 'C' in dataformats else 'HW'}", expected)
    expected = np.broadcast_to(expected.reshape(4, 5, -1), (4, 5, 3))
    assert (found.height, found.width) == (4, 5)
    assert (read.pixels(found.encoded_image_string) == expected.astype(np.uint8)).all()


def test_several_images_lie_side_by_side(writer):
    writer.add_images("pictures", flambeau.arange(10.0).reshape(10, 1, 1, 1).expand(10, 3, 2, 2) / 10, 1)
    found = read.pixels(read.accumulated(writer).Images("pictures")[0].encoded_image_string)
    assert found.shape == (4, 16, 3) and found[0, ::2, 0].tolist() == [int(25.5 * k) for k in range(8)]
    assert found[2, ::2, 0].tolist() == [204, 229, 0, 0, 0, 0, 0, 0]
    with pytest.raises(AssertionError, match="NHWC"):
        writer.add_images("wrong", flambeau.ones(3, 2, 2), dataformats="NHWC")


def test_boxes(writer):
    writer.add_image_with_boxes("boxes", flambeau.zeros(3, 20, 30), flambeau.tensor([[2, 3, 25, 15]]), rescale=2,
                                labels=["a"])
    found = read.pixels(read.accumulated(writer).Images("boxes")[0].encoded_image_string)
    assert found.shape == (40, 60, 3) and found[:, :, 0].max() > 200 and found[:, :, 1].max() == 0
    with pytest.raises(ValueError, match="2 labels for 1"):
        writer.add_image_with_boxes("boxes", flambeau.zeros(3, 20, 30), flambeau.ones(1, 4), labels=["a", "b"])


def test_figures(writer):
    pyplot = pytest.importorskip("matplotlib.pyplot")
    figures = [pyplot.figure(figsize=(1, 2), dpi=50, facecolor=(k / 2, 0, 0)) for k in range(2)]
    writer.add_figure("one", figures[1], 1, close=False)
    writer.add_figure("both", figures, 1)
    found = read.accumulated(writer)
    one = read.pixels(found.Images("one")[0].encoded_image_string)
    assert one.shape == (100, 50, 3) and one[0, 0].tolist() == [128, 0, 0]
    assert read.pixels(found.Images("both")[0].encoded_image_string).shape == (100, 100, 3)
    assert not pyplot.get_fignums()


def test_videos_move(writer):
    from PIL import Image

    clips = (flambeau.arange(4.0) / 4).reshape(1, 4, 1, 1, 1).expand(3, 4, 1, 6, 5)
    writer.add_video("moving", clips, fps=10)
    encoded = read.accumulated(writer).Images("moving")[0].encoded_image_string
    moving = Image.open(io.BytesIO(encoded))
    assert moving.format == "GIF" and moving.n_frames == 4 and moving.size == (10, 12)
    assert moving.info["duration"] == 100
    with pytest.raises(AssertionError, match="N, T"):
        writer.add_video("wrong", flambeau.ones(3, 4))


def test_sound(writer):
    writer.add_audio("beep", flambeau.tensor([[-2.0, -1.0, 0.0, 0.5, 1.0]]), sample_rate=8000)
    found = read.accumulated(writer).Audio("beep")[0]
    with wave.open(io.BytesIO(found.encoded_audio_string)) as sound:
        assert (sound.getframerate(), sound.getnchannels(), sound.getsampwidth()) == (8000, 1, 2)
        samples = np.frombuffer(sound.readframes(9), "<i2")
    assert samples.tolist() == [-32767, -32767, 0, 16383, 32767]


def test_texts_and_tensors(writer):
    from tensorboard.util import tensor_util

    writer.add_text("note", "two *words* and ü", 4)
    values = flambeau.randn(2, 3).double()
    writer.add_tensor("values", values, 5)
    found = read.accumulated(writer)
    assert found.Tensors("note/text_summary")[0].tensor_proto.string_val == ["two *words* and ü".encode()]
    assert (tensor_util.make_ndarray(found.Tensors("values")[0].tensor_proto) == values.numpy()).all()
    assert found.PluginTagToContent("text") == {"note/text_summary": b""}


def test_precision_and_recall(writer):
    from tensorboard.util import tensor_util

    labels, predictions = flambeau.tensor([0, 1, 1, 0]), flambeau.tensor([0.1, 0.8, 0.4, 0.6])
    writer.add_pr_curve("curve", labels, predictions, 1, num_thresholds=5)
    found = tensor_util.make_ndarray(read.accumulated(writer).Tensors("curve")[0].tensor_proto)
    assert found[:4].tolist() == [[2, 2, 1, 1, 0], [2, 1, 1, 0, 0], [0, 1, 1, 2, 2], [0, 0, 1, 1, 2]]
    for k in range(5):
        chosen = predictions >= k / 4
        hits = (labels[chosen] == 1).sum().item()
        assert found[0, k] == hits and found[4, k] == pytest.approx(hits / max(1, chosen.sum().item()))
    writer.add_pr_curve_raw("raw", *found, 1, num_thresholds=5)
    assert (tensor_util.make_ndarray(read.accumulated(writer).Tensors("raw")[0].tensor_proto) == found).all()
    with pytest.raises(ValueError, match="3 labels for 4"):
        writer.add_pr_curve("wrong", labels[:3], predictions)


def test_hyperparameters(writer, tmp_path):
    from tensorboard.plugins.hparams import metadata

    writer.add_hparams({"lr": 0.1, "layers": 3, "name": "x", "bias": True, "none": None}, {"accuracy": 0.9},
                       hparam_domain_discrete={"lr": [0.1, 0.2]}, run_name="trial", global_step=2)
    found = read.folder(tmp_path / "run" / "trial")
    content = {tag: metadata.parse_session_start_info_plugin_data(text) if "start" in tag else
               metadata.parse_experiment_plugin_data(text) if "experiment" in tag else None
               for tag, text in found.PluginTagToContent("hparams").items()}
    start = content["_hparams_/session_start_info"].hparams
    assert start["lr"].number_value == 0.1 and start["name"].string_value == "x" and "none" not in start
    experiment = content["_hparams_/experiment"]
    assert [list(info.domain_discrete.values) != [] for info in experiment.hparam_infos] == [True, False, False, False]
    assert experiment.metric_infos[0].name.tag == "accuracy"
    assert found.Scalars("accuracy")[0].step == 2
    with pytest.raises(TypeError, match="hparam_dict has not"):
        writer.add_hparams({"lr": 0.1}, {}, hparam_domain_discrete={"lrr": [1]})
    with pytest.raises(ValueError, match="'layers' must be"):
        writer.add_hparams({"layers": [1, 2]}, {})


def test_charts_of_several_scalars(writer):
    from tensorboard.plugins.custom_scalar.layout_pb2 import Layout

    writer.add_custom_scalars({"losses": {"all": ["Multiline", ["a", "b"]], "band": ["Margin", ["m", "l", "u"]]}})
    proto = read.accumulated(writer).Tensors("custom_scalars__config__")[0].tensor_proto
    layout = Layout.FromString(proto.string_val[0])
    charts = layout.category[0].chart
    assert charts[0].multiline.tag == ["a", "b"]
    assert (charts[1].margin.series[0].value, charts[1].margin.series[0].upper) == ("m", "u")
    with pytest.raises(AssertionError, match="value, lower"):
        writer.add_custom_scalars_marginchart(["a"])
    with pytest.raises(ValueError, match="Multiline or Margin"):
        writer.add_custom_scalars({"c": {"t": ["Pie", ["a"]]}})


def test_meshes(writer):
    from tensorboard.plugins.mesh import metadata
    from tensorboard.util import tensor_util

    vertices, faces = flambeau.rand(1, 3, 3), flambeau.tensor([[[0, 1, 2]]])
    writer.add_mesh("triangle", vertices, faces=faces, config_dict={"camera": 1})
    found = read.accumulated(writer)
    assert (tensor_util.make_ndarray(found.Tensors("triangle_VERTEX")[0].tensor_proto) == vertices.numpy()).all()
    data = metadata.parse_plugin_metadata(found.PluginTagToContent("mesh")["triangle_FACE"])
    assert (data.name, data.json_config, list(data.shape)) == ("triangle", '{"camera": 1}', [1, 1, 3])


def test_embeddings(writer, tmp_path):
    from google.protobuf import text_format
    from tensorboard.plugins.projector.projector_config_pb2 import ProjectorConfig

    points = flambeau.tensor([[0.5, 1.0], [2.0, 3.0], [4.0, 5.0]])
    for step in (1, 2, 2):
        writer.add_embedding(points, ["a", "b", "c"], flambeau.rand(3, 3, 4, 4), step, "words")
    writer.add_embedding(points, [["a", 1], ["b", 2], ["c", 3]], metadata_header=["name", "number"])
    config = text_format.Parse((tmp_path / "run" / "projector_config.pbtxt").read_text(), ProjectorConfig())
    assert [e.tensor_name for e in config.embeddings] == ["words:00001", "words:00002", "default:00000"]
    run, second, last = tmp_path / "run", config.embeddings[1], config.embeddings[2]
    assert (run / second.tensor_path).read_text() == "0.5\t1.0\n2.0\t3.0\n4.0\t5.0\n"
    assert (run / second.metadata_path).read_text() == "a\nb\nc\n"
    assert (run / last.metadata_path).read_text() == "name\tnumber\na\t1\nb\t2\nc\t3\n"
    assert read.pixels((run / second.sprite.image_path).read_bytes()).shape == (8, 8, 3)
    with pytest.raises(AssertionError, match="metadata has 2"):
        writer.add_embedding(points, ["a", "b"])


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(3, 4), nn.ReLU())
        self.head = nn.Linear(4, 2)

    def forward(self, x, scale):
        return self.head(self.layers(x)) * scale


def test_the_graph_of_a_module(writer):
    writer.add_graph(Net(), (flambeau.ones(5, 3), flambeau.ones(1)))
    nodes = {node.name: node for node in read.graph(writer).node}
    linear = nodes["Net/Sequential[layers]/Linear[0]/linear"]
    assert list(linear.input) == ["input/x", "Net/Sequential[layers]/Linear[0]/weight",
                                  "Net/Sequential[layers]/Linear[0]/bias"]
    assert linear.op == "aten::linear" and nodes["input/scale"].op == "IO Node"
    assert [d.size for d in linear.attr["_output_shapes"].list.shape[0].dim] == [5, 4]
    assert list(nodes["Net/mul"].input) == ["Net/Linear[head]/linear", "input/scale"]
    assert list(nodes["output/output"].input) == ["Net/mul"]
    assert all(name in nodes for node in nodes.values() for name in node.input)
    with pytest.raises(NotImplementedError, match="input_to_model"):
        writer.add_graph(Net())
    with pytest.raises(NotImplementedError, match="ONNX"):
        writer.add_onnx_graph("model.onnx")


def test_the_graph_of_a_dictionary_must_be_asked_for(writer):
    class Named(nn.Module):
        def forward(self, x):
            return {"double": x * 2}

    with pytest.raises(RuntimeError, match="use_strict_trace"):
        writer.add_graph(Named(), flambeau.ones(1))
    writer.add_graph(Named(), flambeau.ones(1), use_strict_trace=False)
    assert [node.name for node in read.graph(writer).node] == ["input/x", "Named/mul", "output/output"]


def test_default_folder_and_going_on_after_close(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    writer = SummaryWriter(comment="_first")
    assert writer.get_logdir().startswith("runs/") and writer.get_logdir().endswith("_first")
    writer.add_scalar("a", 1, 1)
    writer.close()
    writer.add_scalar("a", 2, 2)
    writer.close()
    assert [e.value for e in read.folder(writer.get_logdir()).Scalars("a")] == [1, 2]


def test_an_interrupted_run_goes_on_at_a_step(tmp_path):
    with SummaryWriter(tmp_path) as first:
        for step in range(5):
            first.add_scalar("a", 1, step)
    with SummaryWriter(tmp_path, purge_step=3) as second:
        second.add_scalar("a", 2, 3)
    assert [e.value for e in read.folder(tmp_path).Scalars("a")] == [1, 1, 1, 2]


def test_what_a_summary_refuses():
    with pytest.raises(NotImplementedError, match="collections"):
        summary.scalar("a", 1, collections=["b"])
    with pytest.raises(NotImplementedError, match="weights"):
        summary.pr_curve_raw("a", 1, 1, 1, 1, 1, 1, weights=[1])
