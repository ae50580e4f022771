"""Whether an exported program is whole: its graph, what its signature says of it, and the tensors behind that."""

from .. import _C
from .._shown import shown
from ..ops.namespaces import Overload, Packet
from .graph_signature import InputKind, OutputKind

_HELD = {InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR}
_OF_NUMBERS = (abs, bool, float, int, max, min, pow, round)
_WITHOUT_NAME = {OutputKind.USER_OUTPUT, OutputKind.TOKEN}


class SpecViolationError(Exception):
    """An exported program is not whole."""


def validated(program):
    """Raises SpecViolationError where it is not."""
    nodes = list(program.graph.nodes)
    program.graph.lint()
    for node in nodes:
        if node.op == "call_function":
            if not _is_step(node.target):
                raise SpecViolationError(f"validate: {node.name} calls {shown(node.target)}; steps are operators")
            if node.users and "val" not in node.meta:
                raise SpecViolationError(f"validate: of {node.name} nothing says what it gives (node.meta['val'])")
        elif node.op == "call_method":
            raise SpecViolationError(f"validate: {node.name} calls a method, {shown(node.target)}; steps are operators")
    _check_inputs(program, [n for n in nodes if n.op == "placeholder"])
    _check_outputs(program, nodes[-1])


def _is_step(target):
    if isinstance(target, (_C.Op, Overload, Packet)) or target in _OF_NUMBERS:
        return True
    module = getattr(target, "__module__", None) or ""
    return module in ("operator", "_operator", "math") or (
        module.startswith("flambeau.") and not module.startswith("flambeau.nn"))


def _check_inputs(program, placeholders):
    specs = program.graph_signature.input_specs
    if len(specs) != len(placeholders):
        raise SpecViolationError(f"validate: the graph has {len(placeholders)} inputs, and the signature "
                                 f"{len(specs)}")
    for node, spec in zip(placeholders, specs, strict=True):
        name = getattr(spec.arg, "name", node.name)
        if name and name != node.name:
            raise SpecViolationError(f"validate: input {node.name} of the graph is {name} in the signature")
        if spec.kind in _HELD and spec.target not in program.state_dict and spec.target not in program.constants:
            raise SpecViolationError(f"validate: input {node.name} is {spec.target}, which is neither in the state "
                                     "dict nor among the constants")


def _check_outputs(program, output):
    specs = program.graph_signature.output_specs
    results = output.args[0] if output.op == "output" else ()
    if len(specs) != len(results):
        raise SpecViolationError(f"validate: the graph has {len(results)} outputs, and the signature {len(specs)}")
    for result, spec in zip(results, specs, strict=True):
        name = getattr(spec.arg, "name", None)
        if name and name != getattr(result, "name", name):
            raise SpecViolationError(f"validate: output {result.name} of the graph is {name} in the signature")
        if spec.kind not in _WITHOUT_NAME and spec.kind is not OutputKind.LOSS_OUTPUT and spec.target is None:
            raise SpecViolationError(f"validate: nothing says what output {name} replaces or is the gradient of")
