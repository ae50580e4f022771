"""Programs for others: `export` makes one from a module, `save` writes it as data, `load` reads it."""

from .._absent import refusals
from ..utils._pytree import register_dataclass as _register_dataclass
from ._checks import ValueRanges as ValueRanges
from ._files import load as load
from ._files import save as save
from ._trace import export as export
from .decomp_utils import CustomDecompTable as CustomDecompTable
from .decomp_utils import default_decompositions as default_decompositions
from .dynamic_shapes import AdditionalInputs as AdditionalInputs
from .dynamic_shapes import Dim as Dim
from .dynamic_shapes import DimHint as DimHint
from .dynamic_shapes import ShapesCollection as ShapesCollection
from .dynamic_shapes import dims as dims
from .exported_program import ExportedProgram as ExportedProgram
from .exported_program import ModuleCallEntry as ModuleCallEntry
from .exported_program import ModuleCallSignature as ModuleCallSignature
from .graph_signature import ExportGraphSignature as ExportGraphSignature
from .unflatten import FlatArgsAdapter as FlatArgsAdapter
from .unflatten import UnflattenedModule as UnflattenedModule
from .unflatten import unflatten as unflatten

globals().update(refusals("export", "exported programs are flat graphs of primitives that forward runs", """
    draft_export(mod, args, kwargs, dynamic_shapes, preserve_module_call_signature, strict,
    prefer_deferred_runtime_asserts_over_guards)
    Constraint
    ExportBackwardSignature(gradients_to_parameters, gradients_to_user_inputs, loss_output)
"""))


def register_dataclass(cls, *, serialized_type_name=None):
    """Lets arguments and results of exported modules be objects of a dataclass; files cannot hold them.

    >>> import dataclasses, flambeau
    >>> @dataclasses.dataclass
    ... class Pair:
    ...     a: flambeau.Tensor
    ...     b: flambeau.Tensor
    >>> flambeau.export.register_dataclass(Pair)
    """
    _register_dataclass(cls, serialized_type_name=serialized_type_name)
