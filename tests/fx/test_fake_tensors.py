"""FakeTensorMode by itself: training without values, numbers that are known, files."""

import copy
import pickle

import numpy
import pytest

import flambeau
from flambeau import nn
from flambeau._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensor,
    FakeTensorDeviceMismatchError,
    FakeTensorMode,
)


@pytest.mark.parametrize("optimizer", ["Adam", "AdamW", "SGD", "RMSprop", "NAdam", "ASGD", "Rprop"])
def test_training(optimizer):
    with FakeTensorMode():
        model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(144, 5))
        steps = getattr(flambeau.optim, optimizer)(model.parameters(), lr=0.1)
        for _ in range(2):
            loss = model(flambeau.randn(2, 3, 8, 8)).sum()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            steps.step()
    assert all(type(p) is FakeTensor and type(p.grad) is FakeTensor for p in model.parameters())


def test_numbers_are_known_until_the_form_changes():
    with FakeTensorMode():
        x, y = flambeau.tensor([1]), flambeau.tensor([2])
        x.resize_(2)
        y.data = flambeau.ones(3, dtype=flambeau.int64)
    assert x.shape == (2,) and x.constant is None and y.constant is None


def test_numbers_are_known_until_values_without_one_are_written():
    with FakeTensorMode():
        count = flambeau.tensor(4.0)
        view = count.view(1)
        count += 1
        assert type(count) is FakeTensor and (count * 2).item() == 10 and view.item() == 5
        count.add_(flambeau.rand(()))
        for lost in (count, view, flambeau.rand(())):
            with pytest.raises(DataDependentOutputException):
                lost.item()


def test_a_tensor_keeps_its_gradient_its_kind_and_its_memory():
    parameter = nn.Parameter(flambeau.ones(2, 3))
    parameter.grad = flambeau.ones(2, 3)
    fake = FakeTensorMode().from_tensor(parameter)
    assert isinstance(fake, nn.Parameter) and type(fake.grad) is FakeTensor
    assert fake.untyped_storage().nbytes() == fake[0].untyped_storage().nbytes() == 24
    assert not isinstance(FakeTensorMode().from_tensor(flambeau.ones(2)), nn.Parameter)


def test_a_result_gives_out_its_shape():
    with FakeTensorMode(allow_fallback_kernels=False):
        out = flambeau.empty(0)
        flambeau.sin(flambeau.ones(3), out=out)
    assert out.shape == (3,)


@pytest.mark.parametrize("mmap", [False, True])
def test_files_are_read_without_their_values(mmap, tmp_path):
    flambeau.save(nn.Linear(2, 3).state_dict(), tmp_path / "state.pt")
    with FakeTensorMode():
        state = flambeau.load(tmp_path / "state.pt", mmap=mmap)
    assert {k: (type(v), tuple(v.shape)) for k, v in state.items()} == {
        "weight": (FakeTensor, (3, 2)), "bias": (FakeTensor, (3,))}


def test_data_of_python_and_of_numpy_has_no_values_either():
    array = numpy.ones((2, 3))
    with FakeTensorMode():
        made = [flambeau.from_numpy(array), flambeau.as_tensor(array), flambeau.as_tensor([1.0]), flambeau.asarray([1]),
                flambeau.FloatTensor([1, 2]), flambeau.tensor([1.0, 2.0])]
        assert flambeau.ones(2, requires_grad=True).requires_grad
    assert all(type(t) is FakeTensor for t in made)


def test_tensors_of_one_call_are_on_one_device():
    with FakeTensorMode():
        here, there = flambeau.ones(3), flambeau.ones(3, device="cuda")
        number, far = flambeau.ones(()), flambeau.ones((), device="cuda")
        assert str((there + number).device) == str((number + far).device) == "cuda:0"
        assert there[flambeau.tensor([0])].device == here.to(there.device).device == there.device
        for call in (lambda: here + there, lambda: here + far, lambda: flambeau.cat([here, there]),
                     lambda: flambeau.nn.functional.linear(there, here), lambda: here.add_(far)):
            with pytest.raises(FakeTensorDeviceMismatchError, match="on one device"):
                call()


def test_real_tensors_are_refused_where_the_mode_does_not_allow_them():
    real = flambeau.ones(3)
    fake = FakeTensorMode().from_tensor(real)
    with pytest.raises(AssertionError, match="from_tensor"):
        fake + real
    assert type(FakeTensorMode(allow_non_fake_inputs=True).from_tensor(real) + real) is FakeTensor


def test_views_keep_their_strides_and_their_memory():
    real = flambeau.ones(2, 3)
    mode = FakeTensorMode()
    part = mode.from_tensor(real[:, 1:])
    assert part.stride() == (3, 1) and part.untyped_storage().nbytes() == 24
    assert flambeau._C.storage_id(part.meta) == flambeau._C.storage_id(mode.from_tensor(real).meta)


def test_copies_and_changes_of_form():
    mode = FakeTensorMode()
    parameter = mode.from_tensor(nn.Parameter(flambeau.ones(2, 3)))
    for made in (copy.copy(parameter), copy.deepcopy(parameter)):
        assert made is not parameter and isinstance(made, nn.Parameter) and made.fake_mode is mode
    with mode:
        x = flambeau.ones(3)
        x.data = flambeau.zeros(4)
        assert x.shape == (4,) and x.device.type == "cpu"
        assert x.set_(flambeau.zeros(5)).shape == (5,) and x.resize_(2, 3).shape == x.shape == (2, 3)
        assert x.t_().stride() == (1, 3) and x.device.type == "cpu"
    with pytest.raises(AttributeError, match="no values"):
        pickle.dumps(x)


def test_what_values_decide_is_told_from_other_errors():
    with FakeTensorMode():
        x = flambeau.ones(3)
        for call in (x.nonzero, lambda: x[x > 0], lambda: flambeau.unique(x), lambda: x.masked_select(x > 0)):
            with pytest.raises(DynamicOutputShapeException):
                call()
        for call in (x.sum().item, x.tolist, lambda: bool(x.sum()), lambda: flambeau.equal(x, x)):
            with pytest.raises(DataDependentOutputException):
                call()
