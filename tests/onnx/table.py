"""The op table against ONNX: an operator's samples as models, and what a runtime computes for them."""

import flambeau
from flambeau import nn
from flambeau.onnx.errors import OnnxExporterError
from flambeau.utils._pytree import tree_leaves

from ..ops import battery


class Call(nn.Module):
    """A sample of an operator as a module of its tensors."""

    def __init__(self, name, sample):
        super().__init__()
        self.name, self.sample = name, sample
        self.leaves = [x for x in tree_leaves((sample.args, sample.kwargs)) if isinstance(x, flambeau.Tensor)]

    def forward(self, *given):
        places = {id(t): x for t, x in zip(self.leaves, given, strict=True)}
        return battery.run(self.name, battery.map_tensors(lambda t: places[id(t)], self.sample))


def results(program, given):
    """The results by onnxruntime; by the interpreter of the `onnx` package where onnxruntime lacks a kernel."""
    try:
        return program(*given)
    except Exception as error:
        if "NOT_IMPLEMENTED" not in str(error) and "INVALID_GRAPH" not in str(error):
            raise
        return program.call_reference(*given)


def exported(name, sample, **options):
    """(the module, its ONNXProgram); None where the sample has no tensors or ONNX no form for it."""
    call = Call(name, sample)
    if not call.leaves or any(t.layout is not flambeau.strided for t in call.leaves):
        return None
    try:
        return call, flambeau.onnx.export(call, tuple(call.leaves), **options)
    except (OnnxExporterError, *battery.REFUSALS):
        return None


def expected(call):
    """What the operator itself computes."""
    with flambeau.no_grad():
        return [x for x in tree_leaves(call(*(t.detach().clone() for t in call.leaves)))]
