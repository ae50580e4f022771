"""QuantType: the ways in which a module can be quantized."""

import enum


class QuantType(enum.IntEnum):
    """How a module is quantized: activations in each call, beforehand, in training, or its weights only."""

    DYNAMIC = 0
    STATIC = 1
    QAT = 2
    WEIGHT_ONLY = 3
