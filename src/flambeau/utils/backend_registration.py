"""Names of other devices: there are none to register, since every operator runs on the CPU."""

from .._absent import refusal

_REASON = "operators run on the CPU; there is no device whose name could be changed"

rename_privateuse1_backend = refusal("rename_privateuse1_backend", _REASON)
generate_methods_for_privateuse1_backend = refusal("generate_methods_for_privateuse1_backend", _REASON)
