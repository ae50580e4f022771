"""Every operator and Tensor method says how it is called: inspect.signature and help tell what its record says."""

import inspect
import pydoc
import subprocess
import sys

import pytest

import flambeau
from flambeau.ops.kinds import OPS
from tests.ops import battery

EMPTY = inspect.Parameter.empty
TENSOR_METHODS = sorted(
    n for n in dir(flambeau.Tensor) if not n.startswith("__") and callable(getattr(flambeau.Tensor, n)))


def forms(op):
    return op.alternatives or (op,)


def all_ops():
    for name, op in OPS.items():
        yield name, op
        if op.inplace_form is not None:
            yield name + "_", op.inplace_form


def departures(name, op):
    """How the signature departs from the schema: other names, another order, other defaults."""
    parameters = inspect.signature(op).parameters
    if ("out" in parameters) != any(f.takes_out or "out" in [a[0] for a in f.arguments] for f in forms(op)):
        yield name, "out"
    for form in forms(op):
        order = []
        for argument, keyword_only, has_default, default in form.arguments:
            shown = parameters.get("input" if argument == "self" and "input" in parameters else argument)
            shown = shown or parameters[argument + "_"]  # from_
            order.append(list(parameters).index(shown.name))
            if shown.kind is shown.KEYWORD_ONLY and not keyword_only:
                yield name, argument, "by position only in the schema"
            if shown.default is not EMPTY and has_default and not same(shown.default, default):
                yield name, argument, shown.default, default
            if len(forms(op)) == 1 and not has_default and shown.default not in (EMPTY, None):
                yield name, argument, "is required"
        if len(forms(op)) == 1 and order != sorted(order):
            yield name, "order"


def same(shown, default):
    if isinstance(default, tuple) and not isinstance(shown, tuple):  # int[2] padding=0
        return all(size == shown for size in default)
    return shown == default or repr(default).rpartition(".")[2] == repr(shown) or repr(shown) == repr(default)


def test_every_signature_is_the_schemas():
    """Same names in the same order, same defaults; `input` and `self` are two names of one argument."""
    found = [departure for name, op in all_ops() for departure in departures(name, op)]
    assert not found


def test_the_signature_binds_every_sample_call():
    """What can be called can be bound."""
    refused = []
    for name in battery.NAMES:
        signature = inspect.signature(OPS[name])
        for sample in () if "." in name or battery.skip_reason(name, "samples") else battery.samples(name):
            try:
                signature.bind(*sample.args, **sample.kwargs)
            except TypeError as error:
                refused.append((name, str(error)))
    assert not refused


@pytest.mark.parametrize("name", ["add", "sum", "cat", "softmax", "linalg.norm", "nn.functional.layer_norm", "clamp"])
def test_a_call_by_the_signatures_names_works(name):
    space = flambeau
    for part in name.split("."):
        space = getattr(space, part)
    parameters = inspect.signature(space).parameters
    first = next(iter(parameters))
    x = [flambeau.ones(2, 3)] if first == "tensors" else flambeau.ones(2, 3)
    more = {"other": 1, "dim": 1, "normalized_shape": (3,), "min": 0.5}
    given = {n: more[n] for n in parameters if n in more}
    given |= {n: p.default for n, p in parameters.items() if n not in given and n != first and p.default is not EMPTY}
    assert isinstance(space(**{first: x}, **given), flambeau.Tensor)


def test_tensor_methods_have_a_signature_and_a_docstring():
    for name in TENSOR_METHODS:
        method, bound = getattr(flambeau.Tensor, name), getattr(flambeau.ones(1), name)
        assert str(inspect.signature(method)).startswith("("), name
        assert inspect.getdoc(method), name
        assert len(inspect.signature(bound).parameters) <= len(inspect.signature(method).parameters), name


def test_public_operators_say_who_they_are():
    for name, op in all_ops():
        assert op.__name__ == op.__qualname__ == op.name
        assert op.__module__.startswith("flambeau")
        assert not battery.is_public(name) or "." in name or op.__doc__.strip(), name


def help_of(thing):
    return pydoc.plain(pydoc.render_doc(thing))


def test_help_of_an_operator():
    lines = [line.rstrip() for line in help_of(flambeau.add).splitlines()]
    assert "\n".join(lines[2:]).strip() == """\
add(input, other, *, alpha=1, out=None)
    input + alpha * other, element by element, broadcasting.

    Arguments
        input  Tensor
        other  Tensor or number
        alpha  number, default 1
        out    Tensor, default None: where to write the result

    Also a method: input.add(…), in place input.add_(…).

    >>> flambeau.add(flambeau.tensor([1, 2]), 10)
    tensor([11, 12])"""


def test_help_lists_the_forms_of_overloads():
    text = help_of(flambeau.max)
    for form in ("max(input)", "max(input, other)", "max(input, dim, keepdim=False)"):
        assert form in text


def test_help_of_sizes_given_one_by_one():
    assert "view(self, *size)" in help_of(flambeau.Tensor.view) or "view(input, *size)" in help_of(flambeau.Tensor.view)
    signature = inspect.signature(flambeau.zeros)
    for call in (((2, 3), {}), (((2, 3),), {}), ((), {"size": (2, 3)})):
        signature.bind(*call[0], **call[1])


@pytest.mark.parametrize("thing", ["Tensor", "Generator", "device", "dtype", "Size", "memory_format", "fft",
                                   "nn.functional.relu", "nn.Linear", "linalg", "from_numpy", "frombuffer", "tensor"])
def test_help_works_on_everything_else(thing):
    found = flambeau
    for part in thing.split("."):
        found = getattr(found, part)
    assert thing.rpartition(".")[2] in help_of(found)
    assert inspect.getdoc(found)


@pytest.mark.parametrize("space", ["", "nn", "nn.functional", "linalg", "fft", "special", "optim", "func", "autograd"])
def test_dir_offers_what_can_be_had(space):
    module = flambeau
    for part in filter(None, space.split(".")):
        module = getattr(module, part)
    missing = [name for name in dir(module) if not hasattr(module, name)]
    assert not missing


def test_nothing_is_built_before_somebody_asks():
    code = "import sys, flambeau; flambeau.add(flambeau.ones(2), 1); print('flambeau.ops._describe' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
