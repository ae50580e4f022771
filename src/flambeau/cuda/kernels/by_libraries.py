"""Rules that use NVIDIA's libraries, asked before our own."""

from . import cublaslt, cudnn, cudnn_attention, cudnn_rnn, cufft, cusolver, factors, grouped, reflections, singular

#: operator -> function(call) -> Plan, or None where the library is not there or cannot be told about the operands
RULES = (cublaslt.RULES | cudnn.RULES | cudnn_attention.RULES | cudnn_rnn.RULES | cufft.RULES | cusolver.RULES
         | factors.RULES | reflections.RULES | singular.RULES | grouped.RULES)


def lower(call):
    """The plan by a library, or None."""
    rule = RULES.get(call.name)
    return None if rule is None else rule(call)
