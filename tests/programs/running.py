"""Exported programs run as the library without Python runs them, but in this process."""

import flambeau
from flambeau import _C
from flambeau.export._native import LoweredProgram, native_program


def run(program, *inputs):
    """The results of an ExportedProgram, computed by native code alone."""
    words, _ = native_program(program, lambda tensor: ("", 0))
    try:
        weights = LoweredProgram(program).tensors()
    except NotImplementedError:  # which the words say
        weights = ()
    return _C.run_native(words, weights, tuple(flambeau.tensor(x) if isinstance(x, int) else x for x in inputs))
