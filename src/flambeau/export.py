"""Names of exported programs, which are not here yet; each says so when used."""

from ._absent import refusals

_REASON = "programs are not exported yet; save the module with flambeau.save"
globals().update(refusals("export", _REASON, """
    export draft_export load save unflatten dims default_decompositions
    ExportedProgram Dim AdditionalInputs Constraint CustomDecompTable ExportBackwardSignature
    ExportGraphSignature FlatArgsAdapter ModuleCallEntry ModuleCallSignature ShapesCollection UnflattenedModule
"""))
