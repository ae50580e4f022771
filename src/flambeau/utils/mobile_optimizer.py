"""Modules for telephones: they are made of TorchScript, which is not here."""

from .._absent import refusal

_REASON = ("it works on TorchScript, which is not here; keep the module, make it smaller with "
           "ao.quantization.quantize_dynamic, or exchange its weights as safetensors")

optimize_for_mobile = refusal("optimize_for_mobile", _REASON)
generate_mobile_module_lints = refusal("generate_mobile_module_lints", _REASON)
