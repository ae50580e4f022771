"""draft_export: programs that export refuses, and what is said of them."""

import pytest

import flambeau
from flambeau import nn
from flambeau.export import Dim, draft_export, export


def drafted(net, args, **options):
    with pytest.warns(UserWarning, match="refuses this program"):
        program = draft_export(net, args, **options)
    with pytest.raises(Exception):  # noqa: B017 of several kinds; what matters is that export refuses
        export(net, args, **options)
    return program, program._report


def kinds(report):
    return [failure.failure_type.name for failure in report.failures]


def test_what_can_be_exported_is_exported():
    program = draft_export(nn.Linear(2, 3), (flambeau.ones(4, 2),), dynamic_shapes=({0: Dim("batch")},))
    assert program._report.successful() and "as it is" in str(program._report)
    assert program.module()(flambeau.ones(7, 2)).shape == (7, 3)


def test_sizes_that_cannot_stay_open():
    net = nn.Linear(4, 3)
    program, report = drafted(net, (flambeau.ones(5, 4),), dynamic_shapes=({0: Dim("batch"), 1: Dim("width")},))
    assert kinds(report) == ["CONSTRAINT_VIOLATION_ERROR"] and "width was to be open" in str(report)
    x = flambeau.randn(9, 4)
    assert flambeau.equal(program.module()(x), net(x))


class Reads(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(3)

    def forward(self, x):
        y = self.norm(x)
        if y.sum() > 100:
            return y
        return y * float(x.max())


def test_values_that_python_reads():
    net, x = Reads(), flambeau.arange(6.0).reshape(2, 3)
    before = net.norm.running_mean.clone()
    program, report = drafted(net, (x,), preserve_module_call_signature=("norm",))
    assert kinds(report) == ["DATA_DEPENDENT_ERROR"] * 2
    assert "y.sum() > 100" in report.failures[0].stack_trace and "float(x.max())" in report.failures[1].stack_trace
    assert flambeau.equal(net.norm.running_mean, before) and net.norm.num_batches_tracked == 0
    assert flambeau.allclose(program.module()(x), net(x)) and program.module_call_graph[1].signature is not None
    with pytest.raises(AssertionError, match="must be 2"):
        program.module()(flambeau.ones(3, 3))


def test_operators_that_say_nothing_of_shapes():
    @flambeau.library.custom_op("tests_draft::opaque", mutates_args=())
    def opaque(x: flambeau.Tensor) -> flambeau.Tensor:
        return flambeau.from_numpy(x.numpy() * 2)

    class Opaque(nn.Module):
        def forward(self, x):
            return flambeau.ops.tests_draft.opaque(x) + 1

    program, report = drafted(Opaque(), (flambeau.ones(2),))
    assert [str(f.failure_type) for f in report.failures] == ["MISSING_FAKE_KERNEL"]
    assert program.module()(flambeau.ones(2)).tolist() == [3, 3]


def test_wrong_calls_are_errors():
    with pytest.raises(TypeError, match="tuple"):
        draft_export(nn.ReLU(), flambeau.ones(2))
    with pytest.raises(ValueError, match="none of them"):
        draft_export(nn.ReLU(), (flambeau.ones(2),), dynamic_shapes={"y": None})
