"""The utilities beside PyTorch's: what specs of trees print, what is written, what is counted."""

import json
import subprocess
from pathlib import Path

import numpy
import pytest

import flambeau
from flambeau.utils import _pytree as pytree

from ..utils import events
from ..utils.test_flop_counter import counted
from ..utils.test_pytree import TREES, Point

pytestmark = pytest.mark.parity

def asked(torch_python, program, *arguments):
    """What a program that runs PyTorch prints, as JSON."""
    found = subprocess.run([torch_python, "-c", program, *arguments], capture_output=True, text=True, check=True)
    return json.loads(found.stdout)


TREES_ORACLE = """
import json, sys, warnings
warnings.simplefilter("ignore")
from collections import OrderedDict, defaultdict, deque, namedtuple
from torch.utils import _pytree as p
import torch
Point = namedtuple("Point", "x y")
p._register_namedtuple(Point, serialized_type_name="tests.Point")
trees = eval(sys.argv[1])
def told(t):
    s = p.tree_structure(t)
    return [repr(s), p.treespec_pprint(s), p.treespec_dumps(s), s.num_nodes, s.num_leaves,
            [p.keystr(k) for k, _ in p.tree_leaves_with_path(t)], repr(p.treespec_loads(p.treespec_dumps(s)))]
print(json.dumps([told(t) for t in trees]))
"""


def test_trees(torch_python):
    """The printed specs, the JSON and the paths are PyTorch's."""
    pytree._register_namedtuple(Point, serialized_type_name="tests.Point")
    trees = [t for t in TREES.values() if not isinstance(t, flambeau.Size)]
    text = repr(trees).replace("<class 'list'>", "list")
    for tree, theirs in zip(trees, asked(torch_python, TREES_ORACLE, text), strict=True):
        spec = pytree.tree_structure(tree)
        ours = [repr(spec), pytree.treespec_pprint(spec), pytree.treespec_dumps(spec), spec.num_nodes, spec.num_leaves,
                [pytree.keystr(path) for path, _ in pytree.tree_leaves_with_path(tree)],
                repr(pytree.treespec_loads(pytree.treespec_dumps(spec)))]
        assert [str(each).replace("__main__.", f"{Point.__module__}.") for each in theirs] == list(map(str, ours))


WRITES = """
import sys, warnings
sys.path += sys.argv[2:]
warnings.simplefilter("ignore")
import numpy as np
import torch
from torch.utils.tensorboard import SummaryWriter
w = SummaryWriter(sys.argv[1])
"""
RECORDS = """
grid = np.arange(60.0).reshape(5, 3, 2, 2) / 60
labels, scores = np.arange(40) % 3 % 2, (np.arange(40) * 0.37) % 1.0
values = np.sin(np.arange(300.0)) * 3
w.add_scalar("a/b", torch.tensor(1.5), 3, walltime=1.0)
w.add_scalar("new", 2.5, 4, new_style=True)
w.add_scalar("exact", 0.1, 4, new_style=True, double_precision=True)
w.add_scalars("group", {"x": 1.0, "y": 2.0}, 1)
for bins in ("tensorflow", "auto", "fd", 4, np.linspace(-5, 5, 7)):
    w.add_histogram(f"h {bins}", torch.tensor(values), 1, bins=bins)
    w.add_histogram(f"h5 {bins}", values, 1, bins=bins, max_bins=5)
w.add_histogram_raw("raw", 0.0, 3.0, 4, 6.0, 14.0, [1.0, 2.0, 3.0], [1, 1, 2], 1)
w.add_image("chw", torch.tensor(grid[0]), 1)
w.add_image("bytes", (grid[0] * 255).astype(np.uint8), 1)
w.add_image("hw", grid[0, 0], 1, dataformats="HW")
w.add_image("hwc", grid[0].transpose(1, 2, 0), 1, dataformats="HWC")
w.add_images("many", torch.tensor(grid), 1)
w.add_images("grey", torch.tensor(grid[:, :1]), 1)
w.add_text("text", "hello **x**", 1)
w.add_embedding(torch.tensor([[1.0, 2], [3, 4], [5, 6]]), ["a", "b", "c"], torch.tensor(grid[:3]), 2, "emb")
w.add_embedding(torch.tensor([[0.1, 2]]), [["a", 1]], metadata_header=["n", "k"])
w.add_pr_curve("pr", torch.tensor(labels), torch.tensor(scores), 1, num_thresholds=9)
w.add_pr_curve("weighted", labels, scores, 1, weights=np.linspace(0.0, 1.0, 40))
w.add_pr_curve_raw("prr", [2, 1], [1, 0], [0, 1], [0, 1], [0.5, 1], [1, 0.5], 1, num_thresholds=2)
w.add_custom_scalars({"cat": {"T": ["Multiline", ["a/b", "c"]], "M": ["Margin", ["x", "y", "z"]]}})
w.add_custom_scalars_multilinechart(["p", "q"])
w.add_custom_scalars_marginchart(["p", "q", "r"])
w.add_hparams({"lr": 0.1, "n": 3, "b": True, "s": "x"}, {"acc": 0.5}, {"lr": [0.1, 0.2], "s": ["x", "y"]}, "trial")
w.add_mesh("m", torch.tensor(grid[:1, :, 0]).expand(1, 3, 2).repeat(1, 1, 2)[:, :, :3], config_dict={"k": 1},
           faces=torch.tensor([[[0, 1, 2]]]), colors=torch.tensor([[[1, 2, 3], [4, 5, 6], [7, 8, 9]]]))
w.add_tensor("tensor", torch.ones(2, 2, dtype=torch.float64))
w.add_audio("sound", torch.linspace(-1.2, 1, 10), 1, sample_rate=8)
w.close()
"""


def written(folder):
    """{path in the folder: text of its events, or its bytes}, with pictures as pixels."""
    from tensorboard.backend.event_processing.event_file_loader import RawEventFileLoader
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.util import tensor_util

    def event(raw):
        found = Event.FromString(raw)
        pictures, tensors = [], []
        if found.wall_time != 1.0:
            found.wall_time = 0
        for value in found.summary.value:
            if value.image.encoded_image_string:
                pictures.append(events.pixels(value.image.encoded_image_string).tolist())
                value.image.encoded_image_string = b""
            if value.tensor.dtype:
                array = tensor_util.make_ndarray(value.tensor)
                tensors.append([array.dtype.name, array.tolist()])
                value.ClearField("tensor")
            if value.metadata.plugin_data.plugin_name == "hparams":
                tensors.append(str(HParamsPluginData.FromString(value.metadata.plugin_data.content)))
                value.ClearField("metadata")
        return str(found), pictures, tensors

    from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData

    found = {}
    for path in sorted(folder.rglob("*.*")):
        name = str(path.relative_to(folder))
        if "tfevents" in name:
            found[str(path.parent.relative_to(folder))] = [event(raw) for raw in RawEventFileLoader(str(path)).Load()]
        elif path.is_file():
            data = path.read_bytes()
            found[name] = events.pixels(data).tolist() if name.endswith("png") else data.decode()
    return found


def test_event_files(torch_python, tmp_path):
    """The same calls write the same events, pictures and tables."""
    tensorboard = pytest.importorskip("tensorboard")
    theirs, ours = tmp_path / "theirs", tmp_path / "ours"
    place = str(Path(tensorboard.__file__).parents[1])
    subprocess.run([torch_python, "-c", WRITES + RECORDS, str(theirs), place], check=True, capture_output=True)
    with flambeau.utils.tensorboard.SummaryWriter(ours) as writer:
        exec(RECORDS, {"w": writer, "torch": flambeau, "np": numpy})
    ours, theirs = written(ours), written(theirs)
    assert set(ours) == set(theirs)
    for name in theirs:
        if isinstance(theirs[name], list) and "png" not in name:
            for one, other in zip(ours[name], theirs[name], strict=True):
                assert one == other, name
        else:
            assert ours[name] == theirs[name], name


FLOPS = """
import json, warnings
warnings.simplefilter("ignore")
import torch
from torch import nn
from torch.utils import flop_counter
from torch.utils.flop_counter import FlopCounterMode
PROGRAMS
def counted(function, shapes):
    inputs = [torch.randn(shape, requires_grad=True) for shape in shapes]
    with FlopCounterMode(display=False) as mode:
        out = function(*inputs)
        forward = mode.get_total_flops()
        out.sum().backward()
    return [forward, mode.get_total_flops()]
q, k = (2, 3, 5, 4), (2, 3, 6, 4)
print(json.dumps([[counted(f, shapes) for f, shapes in cases],
                  [flop_counter.sdpa_flop_count(q, k, k), flop_counter.sdpa_backward_flop_count(q, q, k, k)]]))
"""
PROGRAMS = """
cases = [
    (torch.mm, [(2, 3), (3, 4)]), (torch.bmm, [(2, 2, 3), (2, 3, 4)]), (torch.addmm, [(2, 4), (2, 3), (3, 4)]),
    (torch.baddbmm, [(2, 2, 4), (2, 2, 3), (2, 3, 4)]), (torch.matmul, [(2, 2, 3), (2, 3, 4)]),
    (torch.matmul, [(2, 5, 3), (3, 4)]), (torch.matmul, [(2, 1, 2, 3), (2, 3, 4)]),
    (lambda a, b: torch.einsum("bij,bjk->ik", a, b), [(2, 2, 3), (2, 3, 4)]),
    (lambda x: nn.Linear(3, 4)(x), [(5, 3)]), (lambda x: nn.Linear(3, 4, bias=False)(x), [(2, 5, 3)]),
    (lambda x: nn.Conv1d(4, 6, 3)(x), [(2, 4, 8)]), (lambda x: nn.Conv3d(2, 3, 2)(x), [(1, 2, 4, 5, 6)]),
    (lambda x: nn.Conv2d(4, 6, 3, stride=2, padding=1)(x), [(2, 4, 8, 8)]),
    (lambda x: nn.ConvTranspose2d(4, 6, 3, stride=2)(x), [(2, 4, 8, 8)]),
    (lambda x: nn.MultiheadAttention(4, 2)(x, x, x)[0], [(3, 2, 4)]),
    (lambda x: nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Flatten(), nn.Linear(32, 5))(x), [(3, 1, 6, 6)]),
]
"""


def test_operations(torch_python):
    """Counts forward and backward; of attention by PyTorch's formula, since its CPU kernel is not counted there."""
    theirs, attention = asked(torch_python, FLOPS.replace("PROGRAMS", PROGRAMS))
    found = {"torch": flambeau, "nn": flambeau.nn}
    exec(PROGRAMS, found)
    assert [list(counted(function, *shapes)[:2]) for function, shapes in found["cases"]] == theirs
    q, k = (2, 3, 5, 4), (2, 3, 6, 4)
    forward, both, _ = counted(flambeau.nn.functional.scaled_dot_product_attention, q, k, k)
    assert [forward, both - forward] == attention


TIMES = [[1.0, 1.1, 1.2, 0.9, 5.0], [2e-6, 3e-6], [4e-3], [1e-5 + 1e-7 * k for k in range(29)]]
NUMBERS = """
import json, sys, warnings
warnings.simplefilter("ignore")
import torch.utils.benchmark as B
task = B.TaskSpec("f()", "x = 1", label="L", sub_label="s", description="d", num_threads=2)
found = [B.Measurement(10, t, task) for t in json.loads(sys.argv[1])]
print(json.dumps([[[m.median, m.mean, m.iqr, m.has_warnings, m.title, m.as_row_name, B.select_unit(m.median)]
                   for m in found], [str(B.Compare([m])).splitlines()[1:5] for m in found],
                  task.summarize()]))
"""


def test_measurements(torch_python):
    """The numbers of a measurement and the cells of a table."""
    from flambeau.utils import benchmark as ours

    numbers, tables, summary = asked(torch_python, NUMBERS, json.dumps(TIMES))
    task = ours.TaskSpec("f()", "x = 1", label="L", sub_label="s", description="d", num_threads=2)
    found = [ours.Measurement(10, t, task) for t in TIMES]
    for m, (median, mean, iqr, *others) in zip(found, numbers, strict=True):
        assert [m.median, m.mean, m.iqr] == pytest.approx([median, mean, iqr], abs=1e-18)
        assert [m.has_warnings, m.title, m.as_row_name, list(ours.select_unit(m.median))] == others
    for m, theirs in zip(found, tables, strict=True):
        assert [line.split() for line in str(ours.Compare([m])).splitlines()[1:4]][0::2] == [
            line.split() for line in theirs[:3]][0::2]
    assert task.summarize() == summary
