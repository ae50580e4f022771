"""Sequential, ModuleList, ModuleDict, ParameterList, ParameterDict: as lists and dicts, and as modules."""

from collections import OrderedDict

import pytest

import flambeau
from flambeau import nn


def sizes(modules):
    return [m.out_features for m in modules]


def linears(*outs):
    return [nn.Linear(1, n) for n in outs]


@pytest.mark.parametrize("make", [lambda ms: nn.Sequential(*ms), nn.ModuleList])
def test_list_behaviour(make):
    modules = make(linears(1, 2, 3))
    assert len(modules) == 3 and sizes(modules) == [1, 2, 3]
    assert modules[-1].out_features == 3 and sizes(modules[1:]) == [2, 3]
    assert type(modules[:1]) is type(modules)
    modules[0] = nn.Linear(1, 9)
    modules.append(nn.Linear(1, 4)).extend(linears(5))
    modules.insert(1, nn.Linear(1, 7))
    assert sizes(modules) == [9, 7, 2, 3, 4, 5]
    assert modules.pop(-1).out_features == 5
    del modules[0]
    del modules[1:3]
    assert sizes(modules) == [7, 4] and list(modules._modules) == ["0", "1"]
    modules += make(linears(8))
    assert sizes(modules + make(linears(6))) == [7, 4, 8, 6]
    with pytest.raises(IndexError, match="index 3 is outside a container of 3"):
        modules[3]
    with pytest.raises(TypeError, match="not a Module"):
        modules.append(3)
    assert not any(name.isdigit() for name in dir(modules))


def test_sequential_from_names_and_slices():
    model = nn.Sequential(OrderedDict(first=nn.Linear(2, 3), act=nn.ReLU(), last=nn.Linear(3, 1)))
    assert model.first is model[0] and list(model[1:]._modules) == ["act", "last"]
    assert model(flambeau.zeros(5, 2)).shape == (5, 1)
    doubled = nn.Sequential(nn.ReLU()) * 3
    assert len(doubled) == 3 and len(2 * doubled) == 6
    with pytest.raises(ValueError, match="once or more"):
        doubled * 0
    with pytest.raises(ValueError, match="expected another Sequential"):
        doubled + [nn.ReLU()]


def test_module_dict():
    modules = nn.ModuleDict({"a": nn.ReLU(), "b": nn.Tanh()})
    modules.update([("c", nn.Linear(1, 1))])
    assert list(modules) == ["a", "b", "c"] == list(modules.keys())
    assert "b" in modules and len(modules) == 3
    assert isinstance(modules.pop("b"), nn.Tanh)
    assert [name for name, _ in modules.named_parameters()] == ["c.weight", "c.bias"]
    with pytest.raises(TypeError, match="expected a mapping or pairs"):
        modules.update(3)
    with pytest.raises(ValueError, match="entry 0 has 1 elements"):
        modules.update([("x",)])
    with pytest.raises(KeyError, match="already exists"):
        modules["keys"] = nn.ReLU()
    modules.clear()
    assert len(modules) == 0


def test_module_list_is_not_called():
    with pytest.raises(NotImplementedError, match="forward"):
        nn.ModuleList([nn.ReLU()])(flambeau.zeros(1))


def test_parameter_list():
    params = nn.ParameterList([flambeau.zeros(2), nn.Parameter(flambeau.ones(3))])
    params.append(flambeau.zeros(1)).extend([4])
    assert len(params) == 4 and isinstance(params[0], nn.Parameter) and params[3] == 4
    assert [name for name, _ in params.named_parameters()] == ["0", "1", "2"]
    assert repr(params[2:]) == (
        "ParameterList(\n    (0): Parameter containing: [torch.float32 of size 1]\n    (1): Object of type: int\n)"
    )
    params[0] = flambeau.ones(5)
    assert len(params[-4]) == 5
    with pytest.raises(IndexError):
        params[4]
    with pytest.raises(TypeError, match="iterable"):
        params.extend(flambeau.zeros(2))
    with pytest.raises(RuntimeError, match="computes nothing"):
        params()


def test_parameter_dict():
    params = nn.ParameterDict({"a": flambeau.zeros(2)})
    params["b"] = flambeau.ones(3)
    assert list(params) == ["a", "b"] and "a" in params and params.get("z") is None
    assert isinstance(params["b"], nn.Parameter)
    joined = params | {"c": flambeau.zeros(1)}
    assert list(joined.keys()) == ["a", "b", "c"] and list(params) == ["a", "b"]
    assert params.setdefault("d", flambeau.zeros(4)).shape == (4,)
    assert params.popitem()[0] == "d"
    assert repr(params) == (
        "ParameterDict(\n    (a): Parameter containing: [torch.FloatTensor of size 2]\n"
        "    (b): Parameter containing: [torch.FloatTensor of size 3]\n)"
    )
    del params["a"]
    assert [name for name, _ in params.named_parameters()] == ["b"]
    with pytest.raises(TypeError, match="keys must be strings"):
        params[3] = flambeau.zeros(1)


def test_old_names_warn():
    with pytest.warns(FutureWarning, match="subclass Module"):
        container = nn.Container(a=nn.Identity())
    assert list(container._modules) == ["a"]
    with pytest.warns(FutureWarning, match="NLLLoss"):
        loss = nn.NLLLoss2d(reduction="sum")
    assert isinstance(loss, nn.NLLLoss) and loss.reduction == "sum"


def test_parameter_dict_sorts_the_keys_of_a_plain_dict():
    one = nn.Parameter(flambeau.ones(1))
    for made, expected in ((nn.ParameterDict({"b": one, "a": one}), ["a", "b"]),
                           (nn.ParameterDict(OrderedDict(b=one, a=one)), ["b", "a"]),
                           (nn.ParameterDict([("b", one), ("a", one)]), ["b", "a"]),
                           (nn.ParameterDict(nn.ParameterDict([("b", one), ("a", one)])), ["b", "a"])):
        assert list(made) == expected and list(made.state_dict()) == expected


@pytest.mark.parametrize("error", [KeyError, AttributeError])
def test_a_key_that_a_parameter_dict_lacks(error):
    with pytest.raises(error):
        nn.ParameterDict({"a": flambeau.ones(1)})["b"]
