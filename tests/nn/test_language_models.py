"""The example language models learn: a few steps on a text of a few words."""

import importlib.util
from pathlib import Path

import pytest

import flambeau

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
TEXT = "the cat sat on the mat and the dog sat on the log\n" * 40


def load(name):
    path = EXAMPLES / f"{name}.py"
    if not path.exists():
        pytest.skip("the examples are not here")
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_words(tmp_path):
    example = load("word_lm")
    (tmp_path / "text").write_text(TEXT)
    text, vocabulary = example.read_words(tmp_path / "text")
    assert vocabulary[:2] == ["the", "cat"] and "<eos>" in vocabulary
    columns = text[:len(text) // 4 * 4].view(4, -1).t()
    flambeau.manual_seed(0)
    losses = list(example.train(example.WordModel(len(vocabulary), 32), columns, 60, 8, 1e-2, 1.0))
    assert losses[0] > 2 and losses[-1] < 0.5


def test_characters():
    example = load("char_gpt")
    characters = sorted(set(TEXT))
    numbers = flambeau.tensor([characters.index(c) for c in TEXT])
    flambeau.manual_seed(0)
    model = example.GPT(len(characters), context=16, width=32, heads=2, layers=2, dropout=0.0)
    losses = list(example.train(model, numbers, 80, 16, 3e-3))
    assert losses[0] > 2 and losses[-1] < 0.6
    assert model.write(numbers[:1].view(1, 1), 5).shape == (1, 6)
