"""Rules that use NVIDIA's libraries, asked before our own."""

from . import cublaslt

#: operator -> function(call) -> Plan, or None where the library is not there or cannot be told about the operands
RULES = cublaslt.RULES


def lower(call):
    """The plan by a library, or None."""
    rule = RULES.get(call.name)
    return rule(call) if rule is not None and call.libraries else None
