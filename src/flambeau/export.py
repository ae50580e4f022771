"""Names of exported programs, which are not here yet; each says so when used."""

from ._absent import refusal, refused_class

_REASON = "programs are not exported yet; save the module with flambeau.save"
_FUNCTIONS = """
    export draft_export load save unflatten dims default_decompositions
"""
_CLASSES = """
    ExportedProgram Dim AdditionalInputs Constraint CustomDecompTable ExportBackwardSignature
    ExportGraphSignature FlatArgsAdapter ModuleCallEntry ModuleCallSignature ShapesCollection UnflattenedModule
"""
globals().update({name: refusal(f"export.{name}", _REASON) for name in _FUNCTIONS.split()})
globals().update({name: refused_class(f"export.{name}", _REASON) for name in _CLASSES.split()})
