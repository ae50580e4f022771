"""summary: shapes, counts against arithmetic, the model untouched, the drawing."""

import xml.etree.ElementTree as ElementTree

import pytest

import flambeau
from flambeau import nn


def network():
    return nn.Sequential(nn.Conv2d(3, 8, 3, padding=1, groups=1), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(1),
                         nn.Linear(8 * 36, 10))


def test_counts():
    found = flambeau.summary(network(), (2, 3, 6, 6))
    assert [row.type for row in found.rows] == ["Sequential", "Conv2d", "BatchNorm2d", "ReLU", "Flatten", "Linear"]
    assert [row.outputs for row in found.rows][1] == [(2, 8, 6, 6)]
    assert found.rows[1].multiply_adds == 2 * 8 * 36 * 27 and found.rows[5].multiply_adds == 2 * 288 * 10
    assert found.multiply_adds == sum(row.multiply_adds for row in found.rows)
    assert found.total_parameters == 8 * 27 + 8 + 16 + 2890
    assert found.parameter_bytes == 4 * found.total_parameters and found.buffer_bytes == 16 * 4 + 8
    assert found.activation_bytes == 3 * 2 * 8 * 36 * 4 + 2 * 10 * 4


@pytest.mark.parametrize(("layer", "shape", "count"), [
    (nn.ConvTranspose1d(4, 6, 3), (2, 4, 5), 2 * 4 * 5 * 6 * 3),
    (nn.Conv1d(4, 6, 3, groups=2), (2, 4, 5), 2 * 6 * 3 * 2 * 3),
    (nn.LSTM(4, 5, 2), (3, 2, 4), 6 * (20 * 4 + 20 * 5 + 20 * 5 + 20 * 5)),
    (nn.GRU(4, 5, bidirectional=True), (3, 2, 4), 6 * 2 * (15 * 4 + 15 * 5)),
    (nn.Linear(3, 4), (7, 2, 3), 14 * 12),
])
def test_multiply_adds(layer, shape, count):
    assert flambeau.summary(layer, shape).multiply_adds == count


def test_attention_counts_both_products():
    layer = nn.MultiheadAttention(8, 2, batch_first=True)
    x = flambeau.zeros(3, 5, 8)
    found = flambeau.summary(layer, {"query": x, "key": x, "value": x, "need_weights": False})
    assert found.multiply_adds == 15 * 8 * 24 + 2 * (3 * 5 * 5 * 8) + 15 * 8 * 8


def test_the_model_stays_as_it_was():
    model = network()
    model[0].weight.requires_grad_(False)
    before = {name: (id(t), t.device.type) for name, t in [*model.named_parameters(), *model.named_buffers()]}
    found = flambeau.summary(model, (2, 3, 6, 6))
    with pytest.raises(RuntimeError):
        flambeau.summary(model, (2, 4, 6, 6))
    assert before == {name: (id(t), t.device.type) for name, t in [*model.named_parameters(), *model.named_buffers()]}
    assert model.training and model[1].training
    assert found.total_parameters - found.trainable_parameters == 8 * 27
    assert "(216 frozen)" in str(found)
    assert model(flambeau.zeros(2, 3, 6, 6)).shape == (2, 10)


def test_shared_layers_count_once_and_deep_ones_at_their_holder():
    layer = nn.Linear(4, 4)
    model = nn.Sequential(layer, nn.Sequential(layer, nn.Sequential(nn.Linear(4, 2))))
    found = flambeau.summary(model, (3, 4), depth=1)
    assert [row.parameters for row in found.rows] == [0, 20, 10]
    assert [row.multiply_adds for row in found.rows] == [0, 48, 48 + 24]
    assert found.total_parameters == 30


def test_inputs():
    assert flambeau.summary(nn.Embedding(10, 4), (2, 3), dtypes=flambeau.int64).rows[0].outputs == [(2, 3, 4)]
    assert flambeau.summary(nn.Bilinear(2, 3, 4), [(5, 2), (5, 3)]).rows[0].outputs == [(5, 4)]
    assert flambeau.summary(nn.Linear(2, 3), flambeau.zeros(2)).rows[0].outputs == [(3,)]
    with pytest.raises(TypeError, match="shape"):
        flambeau.summary(nn.Linear(2, 3), "2")
    with pytest.raises(ValueError, match="dtypes"):
        flambeau.summary(nn.Linear(2, 3), (2,), dtypes=[None, None])
    with pytest.raises(RuntimeError, match="call the model once"):
        flambeau.summary(nn.LazyLinear(3), (2, 3))


def test_drawing(tmp_path):
    model = nn.Sequential(nn.Linear(4, 8), nn.Sequential(nn.ReLU(), nn.Linear(8, 2)))
    flambeau.summary(model, (1, 4)).draw(tmp_path / "model.svg")
    root = ElementTree.parse(tmp_path / "model.svg").getroot()
    texts = [t.text for t in root.iter("{http://www.w3.org/2000/svg}text")]
    assert "input 1×4" in texts and "0: Linear" in texts and "1×2   18 parameters   16 multiply-adds" in texts
    assert len(list(root.iter("{http://www.w3.org/2000/svg}rect"))) == 5
