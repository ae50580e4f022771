"""What a file may name when, and that loading neither calls nor imports anything."""

import dataclasses
import enum
import io
import os
import pickle
import sys
import tempfile  # noqa: F401 (imported: a file might name it)
import types

import numpy
import pytest

import flambeau
from flambeau import serialization
from flambeau._files.pickle_writer import Global, Reduce, Writer

from .test_save_load import archive
from .test_values import LEGACY, through

# --- what a file may name


@dataclasses.dataclass
class Settings:
    lr: float


class Mode(enum.Enum):
    A = 1


@pytest.mark.parametrize("weights_only", [None, True])
@pytest.mark.parametrize("obj", [Settings(1), Mode.A, Settings, flambeau.nn.Linear(1, 1), flambeau.relu], ids=repr)
def test_classes_are_refused_by_default_and_the_error_says_what_to_do(weights_only, obj):
    kind = obj if isinstance(obj, type) or obj is flambeau.relu else type(obj)
    with pytest.raises(pickle.UnpicklingError, match=rf"names .*{kind.__name__}.*safe_globals\(\[{kind.__name__}\]\)"):
        through([obj], weights_only)
    with pytest.raises(RuntimeError, match="not plain data"):
        through([obj], weights_only)


def test_imported_classes_with_weights_only_false():
    assert through(Settings(2), False) == Settings(2) and through(Mode.A, False) is Mode.A
    assert isinstance(through(flambeau.nn.Linear(2, 3), False), flambeau.nn.Linear)


def test_named_classes():
    with serialization.safe_globals([Settings, Mode]):
        assert serialization.get_safe_globals() == [Settings, Mode]
        assert through({Mode.A: Settings(2)}) == {Mode.A: Settings(2)}
    assert serialization.get_safe_globals() == []
    serialization.add_safe_globals([flambeau.nn.Linear])
    try:
        assert through(flambeau.nn.Linear(2, 3)).in_features == 2
    finally:
        serialization.clear_safe_globals()
    assert serialization.get_safe_globals() == []
    with pytest.raises(pickle.UnpicklingError):
        through(flambeau.nn.Linear(2, 3))


def test_named_under_another_name():
    file = archive(b"cold.place\nSettings\n)\x81}X\x02\x00\x00\x00lrK\x03sb.")
    with pytest.raises(pickle.UnpicklingError, match=r"old\.place\.Settings"):
        flambeau.load(file)
    with serialization.safe_globals([(Settings, "old.place.Settings")]):
        assert flambeau.load(file) == Settings(3)


def test_a_class_is_named_in_the_middle_of_an_import():
    class Early:
        pass
    Early.__module__, Early.__qualname__ = "a_package.under_way", "Early"
    with serialization.safe_globals([Early, (flambeau.int8, "torch.int8")]):
        assert Early in serialization.get_safe_globals()


@pytest.mark.parametrize("wrong", [3, (Settings, 3), (Settings,), lambda: 1])
def test_what_cannot_be_named(wrong):
    with pytest.raises(TypeError, match="add_safe_globals"):
        serialization.add_safe_globals([wrong])
    assert serialization.get_safe_globals() == []


def test_a_named_function_is_called():
    def program(call):
        return archive(Writer(lambda obj, place: None).dump(Reduce(Global(__name__, call), (2,))))

    with pytest.raises(pickle.UnpicklingError, match="which would run"):
        flambeau.load(program("double"), weights_only=False)
    with serialization.safe_globals([double]):
        assert flambeau.load(program("double")) == 4


def double(x):
    return 2 * x


def test_unsafe_names_of_a_file(tmp_path):
    path = tmp_path / "x.pt"
    for options in {}, LEGACY:
        flambeau.save([Settings(1), flambeau.nn.Linear(1, 1), numpy.arange(3), Mode.A], path, **options)
        names = [f"{__name__}.Settings", "torch.nn.modules.linear.Linear", f"{__name__}.Mode"]
        assert serialization.get_unsafe_globals_in_checkpoint(path) == names
        with serialization.safe_globals([Settings, flambeau.nn.Linear]):
            assert serialization.get_unsafe_globals_in_checkpoint(path) == names[2:]
        with open(path, "rb") as file:
            assert serialization.get_unsafe_globals_in_checkpoint(file) == names


# --- nothing is called, nothing is imported


ran = []


class Eager:
    """Everything of it that could run while it is loaded."""

    def __new__(cls, *args):
        ran.append("__new__")
        return super().__new__(cls)

    def __init__(self):
        self.x = 1

    def __setattr__(self, name, value):
        ran.append("__setattr__")
        object.__setattr__(self, name, value)

    @property
    def y(self):
        ran.append("property")

    def __eq__(self, other):
        ran.append("__eq__")
        return True

    def __hash__(self):
        ran.append("__hash__")
        return 0


class Restoring:
    def __init__(self):
        self.x = 1

    def __setstate__(self, state):
        ran.append("__setstate__")
        self.x = 2


class Deleting:
    def __del__(self):
        ran.append("__del__")


class Strange(dict):
    def __setitem__(self, key, value):
        ran.append("__setitem__")

    def values(self):
        ran.append("values")
        return ()


class Layer(flambeau.nn.Module):
    def __init__(self):
        super().__init__()
        ran.append("__init__")
        self.w = flambeau.nn.Parameter(flambeau.ones(2))

    def __getattr__(self, name):
        ran.append("__getattr__")
        return super().__getattr__(name)


def test_no_code_of_a_class_runs():
    file, objects = io.BytesIO(), [Eager(), Strange({1: 2}), Layer()]
    flambeau.save(objects, file)
    ran.clear()
    found = flambeau.load(file, weights_only=False)
    assert ran == [] and found[0].x == 1 and dict.__getitem__(found[1], 1) == 2
    assert found[2]._parameters["w"].tolist() == [1, 1]


def test_a_class_that_restores_itself_must_be_named():
    file = io.BytesIO()
    flambeau.save(Restoring(), file)
    ran.clear()
    with pytest.raises(pickle.UnpicklingError, match=r"Restoring by the class's own __setstate__.*safe_globals"):
        flambeau.load(file, weights_only=False)
    assert ran == []
    with serialization.safe_globals([Restoring]):
        assert flambeau.load(file).x == 2 and ran == ["__setstate__"]


def test_objects_whose_deletion_runs_code_are_not_made():
    with pytest.raises(pickle.UnpicklingError, match="Deleting, whose objects run code when they are deleted"):
        flambeau.load(archive(f"c{__name__}\nDeleting\n)\x81.".encode("latin1")), weights_only=False)
    with pytest.raises(pickle.UnpicklingError, match="deleted"):
        flambeau.load(archive(b"ctempfile\n_TemporaryFileCloser\n)\x81."), weights_only=False)


def test_keys_whose_hash_is_a_program_are_refused():
    stream = f"}}c{__name__}\nEager\n)\x81Ns.".encode("latin1")
    ran.clear()
    with pytest.raises(RuntimeError, match=r"key of the type Eager, whose hash is a program"):
        flambeau.load(archive(stream), weights_only=False)
    assert "__hash__" not in ran


def test_nothing_is_imported(tmp_path, monkeypatch):
    (tmp_path / "never_imported.py").write_text("class Thing: pass\nopen('ran', 'w')")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    for weights_only in None, True, False:
        with pytest.raises(pickle.UnpicklingError, match=r"never_imported\.Thing"):
            flambeau.load(archive(b"cnever_imported\nThing\n)\x81."), weights_only=weights_only)
    assert "never_imported" not in sys.modules and os.listdir() == ["never_imported.py"]
    with pytest.raises(pickle.UnpicklingError, match="import never_imported first"):
        flambeau.load(archive(b"cnever_imported\nThing\n)\x81."), weights_only=False)


def test_a_modules_own_getattr_is_not_asked(monkeypatch):
    lazy = types.ModuleType("lazy_module")
    lazy.__getattr__ = lambda name: ran.append(name)
    monkeypatch.setitem(sys.modules, "lazy_module", lazy)
    ran.clear()
    with pytest.raises(pickle.UnpicklingError):
        flambeau.load(archive(b"clazy_module\nThing\n)\x81."), weights_only=False)
    assert ran == []


@pytest.mark.parametrize(
    "name",
    [
        "os system",
        "builtins eval",
        "builtins exec",
        "subprocess Popen",
        "flambeau load",
        "functools partial",
        "operator attrgetter",
        "sys modules",
        "torch.hub load",
        "types FunctionType",
        "types CodeType",
        "builtins type",
        "builtins object.__subclasses__",
        "_io FileIO",
        "ctypes CDLL",
    ],
)
def test_functions_and_dangerous_classes_are_never_called(name):
    module, attribute = name.split()
    for call in (
        b"X\x02\x00\x00\x00lsR.",
        b"(X\x02\x00\x00\x00lstR.",
        b"X\x02\x00\x00\x00ls\x85R.",
        b"X\x02\x00\x00\x00ls\x85\x81.",
    ):
        with pytest.raises(RuntimeError):
            flambeau.load(archive(f"c{module}\n{attribute}\n".encode() + call), weights_only=False)


def test_attributes_only_for_what_the_file_made():
    """A BUILD on a class or an enumeration's member would change the program."""
    for stream in (
        f"c{__name__}\nSettings\n}}X\x01\x00\x00\x00aK\x01sb.",
        f"c{__name__}\nMode\nK\x01\x85R}}X\x01\x00\x00\x00aK\x01sb.",
    ):
        with pytest.raises(RuntimeError, match="attributes for"):
            flambeau.load(archive(stream.encode("latin1")), weights_only=False)
    assert not hasattr(Settings, "a") and not hasattr(Mode.A, "a")
