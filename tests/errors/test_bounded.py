"""Messages show what a user passed in a few words: never a million items, never by running the object's own code."""

import ast
from itertools import count, product
from pathlib import Path

import pytest

import flambeau
from flambeau import nn, optim
from flambeau._shown import listed, shown
from flambeau.optim import lr_scheduler
from flambeau.utils import data

MOST = 4000


class Raises:
    def __repr__(self):
        raise ZeroDivisionError("repr")

    __str__ = __repr__


class Huge(Raises):
    def __repr__(self):
        return "x" * 10**7

    __str__ = __repr__


class EndlessList(list):
    def __iter__(self):
        return count()

    def __len__(self):
        raise ZeroDivisionError("len")

    def __repr__(self):
        raise ZeroDivisionError("repr")


class Text(str):
    def __repr__(self):
        raise ZeroDivisionError("repr")

    def __len__(self):
        raise ZeroDivisionError("len")

    def __getitem__(self, key):
        raise ZeroDivisionError("getitem")


class Number(float):
    def __repr__(self):
        raise ZeroDivisionError("repr")

    __str__ = __format__ = __repr__


class Liar:
    @property
    def __class__(self):
        raise ZeroDivisionError("class")


VALUES = {"list": [1] * 10**6, "string": "s" * 10**6, "dict": {k: k for k in range(10**5)}, "raises": Raises(),
          "huge": Huge(), "text": Text("mode")}


SHOWN = [
    (None, "None"), (1.5, "1.5"), ("a", "'a'"), ((1,), "(1,)"), ([1, "b"], "[1, 'b']"), (object(), "an object"),
    (flambeau.float32, "torch.float32"), (flambeau.Size([2, 3]), "(2, 3)"), (int, "the class int"),
    (Raises(), "a Raises"), (EndlessList([1, 2]), "[1, 2]"), (Text("a"), "'a'"), (Number(2), "2.0"), (Liar(), "a Liar"),
    (10**1000, "an int of 3322 bits"), ([0] * 9, "a list of 9"),
    ({1: 2}, "a dict of 1"), ([[Raises()]], "[a list of 1]"),
]


@pytest.mark.parametrize("k", range(len(SHOWN)), ids=lambda k: SHOWN[k][1])
def test_shown(k):
    value, text = SHOWN[k]
    assert shown(value) == text


def test_shown_is_bounded():
    for value in (*VALUES.values(), [["s" * 10**6] * 8] * 8, ["s" * 10**6] * 8, b"b" * 10**6,
                  type("T" * 10**6, (), {}), type("T" * 10**6, (), {})()):
        assert len(shown(value)) < 800


def test_listed_names_how_many_more_there_are():
    assert listed(["a", "b"]) == "a, b"
    text = listed([str(k) for k in range(10**5)])
    assert len(text) < 1300 and text.endswith("more") and text.startswith("0, 1, 2")


#: calls that refuse their argument, in every part of the package that people call with objects of their own
CALLS = {
    "conv padding_mode": lambda v: nn.Conv2d(1, 1, 1, padding_mode=v),
    "dropout": lambda v: nn.Dropout(v),
    "unflatten": lambda v: nn.Unflatten(0, v)(flambeau.ones(2)),
    "rnn dropout": lambda v: nn.LSTM(1, 1, dropout=v),
    "rnn nonlinearity": lambda v: nn.RNN(1, 1, nonlinearity=v),
    "train": lambda v: nn.ReLU().train(v),
    "to": lambda v: nn.ReLU().to(**{v: 1}) if isinstance(v, str) else nn.ReLU().to(v),
    "heads": lambda v: nn.Transformer(2, v),
    "init": lambda v: nn.init.kaiming_normal_(flambeau.ones(2, 2), mode=v),
    "buffer": lambda v: nn.ReLU().register_buffer("b", v),
    "parameter": lambda v: nn.ReLU().register_parameter("p", v),
    "name": lambda v: nn.ReLU().register_buffer(v, flambeau.ones(1)) or refuse(v),
    "load_state_dict": lambda v: nn.Linear(1, 1).load_state_dict({"weight": v, "bias": v}),
    "pad_sequence": lambda v: nn.utils.rnn.pad_sequence([flambeau.ones(1)], padding_side=v),
    "sgd": lambda v: optim.SGD([flambeau.ones(1)], lr=v),
    "lbfgs": lambda v: optim.LBFGS([flambeau.ones(1)], line_search_fn=v).step(lambda: flambeau.ones(1)),
    "plateau": lambda v: lr_scheduler.ReduceLROnPlateau(optim.SGD([flambeau.ones(1)]), mode=v),
    "one cycle": lambda v: lr_scheduler.OneCycleLR(optim.SGD([flambeau.ones(1)]), 0.1, 10, anneal_strategy=v),
    "collate": lambda v: data.default_collate([v, flambeau.ones(1), Raises()]) and refuse(v),
    "batch size": lambda v: data.BatchSampler(range(3), v, False),
    "drop_last": lambda v: data.BatchSampler(range(3), 1, v),
    "workers": lambda v: data.DataLoader([1], num_workers=v),
    "replacement": lambda v: data.RandomSampler([1], replacement=v),
    "reduction": lambda v: nn.functional.mse_loss(flambeau.ones(1), flambeau.ones(1), reduction=v),
    "norm": lambda v: flambeau.norm(flambeau.ones(2), p=v),
    "einsum": lambda v: flambeau.einsum(v, flambeau.ones(2)),
    "interpolate": lambda v: nn.functional.interpolate(flambeau.ones(1, 1, 2), size=v, mode="linear"),
    "meshgrid": lambda v: flambeau.meshgrid(flambeau.ones(1), indexing=v),
    "searchsorted": lambda v: flambeau.searchsorted(flambeau.ones(1), flambeau.ones(1), side=v),
    "save": lambda v: flambeau.save({"k": {1: v, 2: lambda: 0}}, "/dev/null"),
}


def refuse(value):
    raise ValueError(shown(value))


@pytest.mark.parametrize("name, kind", list(product(CALLS, VALUES)))
def test_an_argument_of_any_kind_is_refused_in_few_words(name, kind):
    with pytest.raises((TypeError, ValueError, RuntimeError, KeyError, IndexError, AttributeError,
                        NotImplementedError)) as raised:
        CALLS[name](VALUES[kind])
    assert len(str(raised.value)) < MOST


def test_a_state_of_a_million_keys_is_refused_in_few_words():
    state = {f"layer.{k}.weight": flambeau.ones(1) for k in range(10**4)}
    with pytest.raises(RuntimeError, match=r"Unexpected key.*and \d+ more") as raised:
        nn.Linear(1, 1).load_state_dict(state)
    assert len(str(raised.value)) < MOST and 'Missing key(s) in state_dict: "weight", "bias"' in str(raised.value)
    model = nn.ModuleList(nn.Linear(1, 1) for _ in range(300))
    with pytest.raises(RuntimeError, match=r"\d+ more$") as raised:
        model.load_state_dict({name: flambeau.ones(3, 3) for name in model.state_dict()})
    assert len(str(raised.value)) < MOST


def test_no_message_shows_a_value_by_its_repr():
    root, found = Path(flambeau.__file__).parent, []
    for path in root.rglob("*.py"):
        if "cli" in path.parts:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            for part in ast.walk(node) if isinstance(node, ast.Raise) else ():
                if isinstance(part, ast.FormattedValue) and part.conversion == ord("r") and \
                        ast.unparse(part.value) not in ("__name__", "kind.__name__", "letter"):
                    found.append(f"{path.relative_to(root)}:{part.lineno}")
    assert not found, "use flambeau._shown.shown"


def test_the_place_of_an_error_is_shown_in_few_words():
    pool = nn.MaxUnpool3d(("x",) * 6000)
    with pytest.raises(TypeError) as caught:
        pool(flambeau.ones(3), flambeau.ones(1, 2, 2, 3, 3))
    assert any("in: MaxUnpool3d(" in note for note in caught.value.__notes__)
    assert sum(map(len, caught.value.__notes__)) < 1000
