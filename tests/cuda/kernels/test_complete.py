"""Every operator has a way to be computed on CUDA, or stands here with the reason why not."""

import re
from pathlib import Path

from flambeau.cuda import _matrices, _values
from flambeau.cuda.kernels import by_libraries, lowering
from flambeau.ops.kinds import FACTS, FORMULAS

RULES = lowering.RULES | by_libraries.RULES
NATIVE = Path(__file__).parents[3] / "native"
_PLANS = "made by the passes of `compile` for the CPU's kernels only"
_BYTES = "a product of the CPU's kernels for weights of 8 bits"
_RESERVES = "allocates memory and computes nothing"

#: operator -> why no rule serves it
WITHOUT = {
    **dict.fromkeys(("empty", "empty_like", "empty_strided", "new_empty"), _RESERVES),
    **dict.fromkeys(("_convolution_tail", "_linears"), _PLANS),
    **dict.fromkeys(("_choose_affine", "_int8_linear", "_weight_int8pack_mm"), _BYTES),
    **dict.fromkeys(("_code_max_pool2d", "_code_pair", "_code_table", "_code_values", "_quantized_conv",
                     "_quantized_pack"), "quantized tensors are computed on the CPU alone, as in PyTorch"),
    "recurrent_layer": "layers are _recurrent_stack, or composed of operators that have kernels",
    "recurrent_layer_backward": "with recurrent_layer",
    **dict.fromkeys(("_cumprod_backward", "_prod_backward"), "gradients are composed there of cumulative products"),
}


def natively():
    """The operators whose rows native code has for CUDA: they copy and fill, or ask Python what they are made of."""
    texts = [path.read_text() for folder in ("cuda", "bind") for path in sorted((NATIVE / folder).glob("*.cpp"))]
    lists = re.findall(r"Kernels \w+\(DeviceType::CUDA, \{(.*?)\}\);", "\n".join(texts), re.S)
    return {name for rows in lists for name in re.findall(r'\{"(\w+(?:\.\w+)?)",', rows)}


def test_every_operator_has_a_way():
    served = set(RULES) | set(FORMULAS) | natively()
    left = {name for name, (kind, *_) in FACTS.items() if kind not in ("composite", "view")} - served
    assert left - set(WITHOUT) == set(), "have neither a rule nor a reason"


def test_no_reason_is_left_over():
    assert set(WITHOUT) & (set(RULES) | natively()) == set(), "have both a rule and a reason"
    assert set(WITHOUT) <= set(FACTS)


def test_rules_name_operators():
    assert {name for name in RULES if name not in FACTS} == set()


def test_what_native_code_asks_python_for_is_there():
    source = (NATIVE / "bind" / "cuda_values.cpp").read_text()
    for way, module in (("in_python|index|one_hot", _values), ("copied_from_python", _matrices)):
        asked = re.findall(rf'\{{"(\w+)", (?:{way})\}}', source)
        assert len(asked) > 5 and all(callable(getattr(module, name)) for name in asked)
