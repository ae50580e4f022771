"""What jit.script makes of lists, dicts, and modules that have a stand-in or only hold others."""

import io

import pytest

import flambeau
from flambeau import jit, nn


def reloaded(scripted):
    file = io.BytesIO()
    jit.save(scripted, file)
    file.seek(0)
    return jit.load(file)


def test_a_list_is_shared_with_scripts_and_keeps_its_type():
    @jit.script
    def add_three(items: list[int]) -> int:
        items.append(3)
        return len(items)

    own = [1, 2]
    items = jit.script(own)
    assert add_three(items) == 3 and items == [1, 2, 3] and own == [1, 2]
    assert type(items[:2]) is type(items) and 2 in items and items.count(1) == 1
    items.insert(0, 0)
    items.extend([4])
    items.remove(2)
    items[0] = 9
    assert items == [9, 1, 3, 4]
    for wrong in (lambda: items.append("a"), lambda: items.extend([1.5]), lambda: items.insert(0, None),
                  lambda: items.__setitem__(0, "a"), lambda: "a" in items, lambda: items.remove("a")):
        with pytest.raises(TypeError, match="of type int"):
            wrong()
    with pytest.raises(TypeError, match="one type"):
        jit.script([1, "a"])
    empty = jit.script([])
    empty.append("a")
    assert empty == ["a"]


def test_a_dict_keeps_the_types_of_keys_and_values():
    counts = jit.script({"a": 1})
    counts["b"] = 2
    counts.update(c=3)
    assert counts == {"a": 1, "b": 2, "c": 3}
    for wrong in (lambda: counts.__setitem__(1, 1), lambda: counts.update(d="x")):
        with pytest.raises(TypeError, match="ScriptDict: its"):
            wrong()
    with pytest.raises(TypeError, match="one type"):
        jit.script({"a": 1, 2: 3})


class StandIn(nn.Module):
    def __init__(self, weight):
        super().__init__()
        self.weight = weight

    def forward(self, x):
        return x * self.weight


class HasStandIn(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(flambeau.full((1,), 2.0))

    def __prepare_scriptable__(self):
        return StandIn(self.weight)

    def forward(self, x):
        raise NotImplementedError


class Holds(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = HasStandIn()

    def forward(self, x):
        return self.inner(x) + 1


def test_stand_ins():
    module = Holds()
    for scripted in (jit.script(module), reloaded(jit.script(module))):
        assert scripted(flambeau.ones(1)).item() == 3
    assert type(module.inner) is HasStandIn
    assert jit.script(HasStandIn())(flambeau.ones(1)).item() == 2


class NoForward(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(1, 1)
        self.register_buffer("held", flambeau.ones(1))


def test_a_module_that_only_holds_others():
    loaded = reloaded(jit.script(NoForward()))
    assert list(loaded.state_dict()) == ["held", "layer.weight", "layer.bias"]
    assert loaded.layer(flambeau.ones(1)).shape == (1,)


def test_fork_under_its_older_name():
    assert jit._wait(jit._fork(flambeau.add, flambeau.ones(1), 1)).item() == 2
    with pytest.raises(RuntimeError, match="expected the Future"):
        jit.wait(None)


def test_modules_of_no_class_of_their_own():
    module = nn.Module()
    module.inner = nn.Linear(1, 1)
    assert list(reloaded(jit.script(module)).state_dict()) == ["inner.weight", "inner.bias"]

    class Forgets(nn.Module):
        def __init__(self):
            pass

    with pytest.raises(RuntimeError, match=r"has not called super"):
        jit.script(Forgets())


class HasPlainTensor(nn.Module):
    def __init__(self):
        super().__init__()
        self.plain = flambeau.full((2,), 3.0)
        self.register_buffer("held", flambeau.ones(1))

    def forward(self, x):
        return x + self.plain + self.held


def test_a_plain_tensor_stays_plain():
    loaded = reloaded(reloaded(jit.script(HasPlainTensor())))
    assert list(loaded.state_dict()) == ["held"] and loaded.plain.tolist() == [3, 3]
    assert loaded(flambeau.zeros(2)).tolist() == [4, 4]
