"""The laws themselves: how many operators each compares, and that each notices an operator that breaks it."""

import pytest

import flambeau
from flambeau.autograd import Function

from .. import skips
from ..func import test_every_op, test_forward_mode
from . import battery, test_dtypes, test_errors, test_forms, test_gradients, test_layouts, test_records, test_reference

MODULES = (test_dtypes, test_errors, test_forms, test_gradients, test_layouts, test_records, test_reference,
           test_every_op, test_forward_mode)
#: what a law raises that is broken
BROKEN = (AssertionError, RuntimeError, TypeError, ValueError, pytest.fail.Exception)

#: law -> operators (or operators and dtypes) that it compares; raise a number when operators are added
COMPARED = {
    "ops/test_dtypes.test_every_dtype_works_or_is_refused_as_the_table_says": 619,
    "ops/test_dtypes.test_stored_dtypes_are_moved_widened_or_refused": 570,
    "ops/test_dtypes.test_narrow_floats_agree_with_wider_ones": 2003,
    "ops/test_dtypes.test_two_operands_promote": 69,
    "ops/test_dtypes.test_numbers_and_zero_dim_tensors_are_weak": 28,
    "ops/test_errors.test_unknown_keyword": 619,
    "ops/test_errors.test_no_arguments": 770,
    "ops/test_errors.test_wrong_types_and_counts": 619,
    "ops/test_errors.test_mixed_devices_are_refused": 203,
    "ops/test_errors.test_dimension_out_of_range": 50,
    "ops/test_errors.test_shapes_that_do_not_broadcast": 78,
    "ops/test_forms.test_in_place_equals_function": 114,
    "ops/test_forms.test_gradients_through_a_written_view": 82,
    "ops/test_forms.test_out_equals_function": 331,
    "ops/test_forms.test_out_refuses_a_narrower_kind": 266,
    "ops/test_forms.test_method_equals_function": 261,
    "ops/test_forms.test_arguments_by_keyword": 591,
    "ops/test_forms.test_meta_matches_real": 603,
    "ops/test_gradients.test_gradcheck": 479,
    "ops/test_gradients.test_gradgradcheck": 462,
    "ops/test_gradients.test_complex_gradcheck": 307,
    "ops/test_gradients.test_gradient_has_its_inputs_dtype_and_shape": 480,
    "ops/test_layouts.test_layouts": 550,
    "ops/test_layouts.test_expanded_inputs": 482,
    "ops/test_layouts.test_inputs_stay_as_they_were": 570,
    "ops/test_records.test_record_is_complete": 788,
    "ops/test_records.test_samples_run": 618,
    "ops/test_reference.test_reference": 528,
    "ops/test_reference.test_special_values": 47,
    "func/test_every_op.test_vmap_equals_the_loop": 544,
    "func/test_every_op.test_vmap_of_backward": 459,
    "func/test_forward_mode.test_every_operator": 481,
}


def laws():
    """{name: test} of the generated tests: those with an operator as their parameter."""
    for module in MODULES:
        for name, test in vars(module).items():
            marks = [m for m in getattr(test, "pytestmark", ()) if m.name == "parametrize"]
            exhaustive = any(m.name == "exhaustive" for m in getattr(test, "pytestmark", ()))
            if name.startswith("test_") and not exhaustive and any(m.args[0].startswith("name") for m in marks):
                yield f"{module.__name__.removeprefix('tests.').replace('.', '/')}.{name}", test, marks


def cases(marks):
    count = 1
    for mark in marks:
        count *= len(mark.args[1])
    return count


@pytest.mark.parametrize("law, test, marks", list(laws()), ids=lambda x: x if isinstance(x, str) else "")
def test_a_law_compares_as_many_operators_as_before(law, test, marks):
    path, _, name = law.rpartition(".")
    skipped = sum(1 for known, _ in skips.read()[0] if known == f"tests/{path}.py::{name}")
    assert cases(marks) - skipped >= COMPARED[law], f"{cases(marks)} cases, of which {skipped} are skipped"


def test_no_law_is_left_out():
    assert sorted(COMPARED) == sorted(law for law, _, _ in laws())


# --- operators broken on purpose --------------------------------------------------------------------------------------

class Changed:
    """An operator that calls `how(operator, *args, **kwargs)` instead."""

    def __init__(self, op, how):
        self.op, self.how = op, how

    def __call__(self, *args, **kwargs):
        return self.how(self.op, *args, **kwargs)

    def __getattr__(self, name):
        return getattr(self.op, name)


class Twice(Function):
    """The same value, and the double of its gradient."""

    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, g):
        return 2 * g


def other_dtype(op, *args, **kwargs):
    return op(*args, **kwargs).double()


def other_second_result(op, *args, **kwargs):
    first, second, *rest = op(*args, **kwargs)
    return (first, second + 1, *rest)


def lost_result(op, *args, **kwargs):
    return tuple(op(*args, **kwargs))[:-1]


def refuses_half(op, x, *args, **kwargs):
    if x.dtype == flambeau.float16:
        raise RuntimeError("exp: broke")
    return op(x, *args, **kwargs)


def takes_bools(op, x, *args, **kwargs):
    return op(x.float() if x.dtype == flambeau.bool else x, *args, **kwargs)


def other_refusal(op, x, *args, **kwargs):
    if x.dtype == flambeau.bool:
        raise ValueError("abs: no bools")
    return op(x, *args, **kwargs)


def reads_memory_in_order(op, x, *args, **kwargs):
    return op(x, *args, **kwargs) if x.is_contiguous() else op(x.mT, *args, **kwargs).mT + 1


def adds_for_strides_of_zero(op, x, *args, **kwargs):
    return op(x, *args, **kwargs) + (0 in x.stride())


def writes_its_input(op, x, *args, **kwargs):
    result = op(x, *args, **kwargs)
    x.detach().add_(1)
    return result


def mixes_devices(op, *args, **kwargs):
    return op(*[flambeau.ones(a.shape) for a in args], **kwargs)


def ignores_the_rest(op, *args, **kwargs):
    return op(*args[:2])


def needs_nothing(op, *args, **kwargs):
    return op(*args, **kwargs) if args else flambeau.zeros(())


def ignores_out(op, *args, out=None, **kwargs):
    return op(*args, **kwargs)


def on_the_processor(op, *args, **kwargs):
    return flambeau.zeros_like(op(*args, **kwargs), device="cpu")


def doubled_gradient(op, *args, **kwargs):
    return Twice.apply(op(*args, **kwargs))


def differs_in_batches(op, x, *args, **kwargs):
    return op(x, *args, **kwargs) + flambeau._C.level_of(x)


BREAKS = [
    (test_reference.test_reference, "exp", lambda op, x: op(x) * (1 + 1e-7), {"dtype": flambeau.float64}),
    (test_reference.test_reference, "hsplit", other_second_result, {"dtype": flambeau.float64}),
    (test_reference.test_reference, "hsplit", lost_result, {"dtype": flambeau.float64}),
    (test_reference.test_reference, "argmax", lambda op, *a, **k: op(*a, **k).double(), {"dtype": flambeau.float64}),
    (test_reference.test_special_values, "exp", lambda op, x: op(x).nan_to_num(), {}),
    (test_dtypes.test_every_dtype_works_or_is_refused_as_the_table_says, "exp", refuses_half, {}),
    (test_dtypes.test_every_dtype_works_or_is_refused_as_the_table_says, "abs", takes_bools, {}),
    (test_dtypes.test_every_dtype_works_or_is_refused_as_the_table_says, "abs", other_refusal, {}),
    (test_dtypes.test_narrow_floats_agree_with_wider_ones, "exp", other_dtype, {"dtype": flambeau.float16}),
    (test_dtypes.test_narrow_floats_agree_with_wider_ones, "argmax",
     lambda op, x, *a, **k: op(x, *a, **k) + (x.dtype == flambeau.float32), {"dtype": flambeau.float32}),
    (test_dtypes.test_two_operands_promote, "add", lambda op, x, y: op(x.to(y.dtype), y), {}),
    (test_errors.test_mixed_devices_are_refused, "add", mixes_devices, {}),
    (test_errors.test_no_arguments, "exp", needs_nothing, {}),
    (test_errors.test_unknown_keyword, "exp", lambda op, *a, **k: op(*a), {}),
    (test_errors.test_wrong_types_and_counts, "add", ignores_the_rest, {}),
    (test_forms.test_method_equals_function, "topk", other_second_result, {}),
    (test_forms.test_method_equals_function, "equal", lambda op, *a, **k: not op(*a, **k), {}),
    (test_forms.test_in_place_equals_function, "exp", lambda op, x: op(x) + 1, {}),
    (test_forms.test_out_equals_function, "topk", ignores_out, {}),
    (test_forms.test_out_refuses_a_narrower_kind, "topk", ignores_out, {}),
    (test_forms.test_arguments_by_keyword, "topk", lambda op, *a, **k: op(*a, **k) if a else op(k["self"], 1), {}),
    (test_forms.test_meta_matches_real, "exp", on_the_processor, {}),
    (test_gradients.test_gradcheck, "exp", doubled_gradient, {}),
    (test_layouts.test_layouts, "exp", reads_memory_in_order, {}),
    (test_layouts.test_expanded_inputs, "exp", adds_for_strides_of_zero, {}),
    (test_layouts.test_inputs_stay_as_they_were, "exp", writes_its_input, {}),
    (test_every_op.test_vmap_equals_the_loop, "exp", differs_in_batches, {}),
    (test_forward_mode.test_every_operator, "exp", doubled_gradient, {}),
]


@pytest.mark.parametrize("law, name, how, more", BREAKS, ids=lambda x: x if isinstance(x, str) else
                         getattr(x, "__name__", "").replace("<lambda>", "other"))
def test_a_law_notices_a_broken_operator(law, name, how, more, monkeypatch):
    law(name, **more)  # it holds, and compares something
    monkeypatch.setitem(battery.OPS, name, Changed(battery.OPS[name], how))
    with pytest.raises(BROKEN):
        law(name, **more)


class Report:
    def __init__(self, outcome, nodeid):
        self.when, self.outcome, self.nodeid = "call", outcome, nodeid
        self.longrepr = ("file", 1, "Skipped: nothing") if outcome == "skipped" else None

    passed = property(lambda self: self.outcome == "passed")
    skipped = property(lambda self: self.outcome == "skipped")


def test_a_skip_that_is_not_listed_is_a_failure():
    listed = next(f"{test}[{case}]" for test, case in skips.read()[0] if case != "-")
    for outcome, nodeid, judged in (("skipped", "tests/ops/test_x.py::test_law[exp]", "failed"),
                                    ("skipped", listed, "skipped"), ("passed", listed, "failed"),
                                    ("passed", "tests/ops/test_x.py::test_law[exp]", "passed")):
        report = Report(outcome, nodeid)
        skips.judge(report)
        assert report.outcome == judged
