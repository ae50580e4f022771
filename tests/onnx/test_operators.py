"""Every operator of the table: what a runtime of ONNX computes for its samples is what the operator computes."""

import pytest

import flambeau
from flambeau.ops.kinds import OPS

pytest.importorskip("onnx", reason="onnx is not installed")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

from ..ops import battery
from . import table

LISTED = table.listed()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dtype", table.SAMPLES)
@pytest.mark.parametrize("name", table.names())
def test_operator(name, dtype):
    """Written, accepted by the checker, run, and the same; or among those of operators.txt, for the reason there."""
    found, _ = table.outcome(name, dtype, table.SAMPLES[dtype])
    expected = LISTED.get((dtype, name), "compared")
    assert found == expected, "write the list anew: python -m tests.onnx.table"


@pytest.mark.exhaustive
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dtype", [d for d in table.DTYPES if d not in table.SAMPLES])
@pytest.mark.parametrize("name", table.names())
def test_other_dtypes(name, dtype):
    """Where a file is written, it is right."""
    assert table.outcome(name, dtype)[0] in ("compared", "refused", "untraced", "nowhere", "nothing")


def test_translations_belong_to_operators():
    """A translation's name is that of an operator: a typing error would never be noticed otherwise."""
    from flambeau.onnx.translations import PARTS, TABLE
    assert flambeau.ops.aten.copy is not None  # the forms of PyTorch's are made when somebody asks
    known = {name.partition(".")[0] for name in OPS}
    known |= {form.inplace_form.name for form in OPS.values() if getattr(form, "inplace_form", None)}
    assert {n for n in (*TABLE, *PARTS) if n not in known and n.removesuffix("_") not in known} == set()


def test_the_list_names_operators():
    assert {name for _, name in LISTED} <= set(battery.NAMES)
