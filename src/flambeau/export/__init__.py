"""Programs for others: `export` makes one from a module, `save` writes it as data, `load` reads it."""

from .._absent import refusal
from ..utils._pytree import register_dataclass as _register_dataclass
from ._checks import ValueRanges as ValueRanges
from ._draft import draft_export as draft_export
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
from .graph_signature import ExportBackwardSignature as ExportBackwardSignature
from .graph_signature import ExportGraphSignature as ExportGraphSignature
from .unflatten import FlatArgsAdapter as FlatArgsAdapter
from .unflatten import UnflattenedModule as UnflattenedModule
from .unflatten import unflatten as unflatten

Constraint = refusal("export.Constraint", "sizes that may differ are said by Dim and dynamic_shapes")


def register_dataclass(cls, *, serialized_type_name=None):
    """Lets arguments and results of exported modules be objects of a dataclass.

    serialized_type_name    what the class is called in files; without a name they do not hold its objects

    >>> import dataclasses, flambeau
    >>> @dataclasses.dataclass
    ... class Pair:
    ...     a: flambeau.Tensor
    ...     b: flambeau.Tensor
    >>> flambeau.export.register_dataclass(Pair)
    """
    _register_dataclass(cls, serialized_type_name=serialized_type_name)
