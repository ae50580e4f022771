"""FakeTensorMode by itself: training without values, numbers that are known, files."""

import pytest

import flambeau
from flambeau import nn
from flambeau._subclasses.fake_tensor import DataDependentOutputException, FakeTensor, FakeTensorMode


@pytest.mark.parametrize("optimizer", ["Adam", "AdamW", "SGD", "RMSprop"])
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
