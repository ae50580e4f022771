"""The op table against ONNX: the samples of an operator as models, and what a runtime computes for them.

`python -m tests.onnx.table` writes operators.txt anew: which operators have no form in ONNX, or no samples of tensors.
"""

import warnings
from pathlib import Path

import flambeau
import onnx
from flambeau import nn
from flambeau.onnx.errors import OnnxExporterError
from flambeau.utils._pytree import tree_leaves

from ..ops import battery

FILE = Path(__file__).with_name("operators.txt")
DTYPES = {"float32": flambeau.float32, "int64": flambeau.int64, "bool": flambeau.bool, "float16": flambeau.float16,
          "float64": flambeau.float64, "int32": flambeau.int32, "complex64": flambeau.complex64}
#: the dtypes of the default run, and how many samples of each operator
SAMPLES = {"float32": 6, "int64": 2, "bool": 1}
TOLERANCE = {"float32": 2e-4, "complex64": 2e-4, "float16": 4e-3}
#: operators whose results nobody promises beyond shape and dtype
RANDOM = ("gumbel_softmax",)
#: what a runtime says of a kernel that it lacks
LACKING = ("NOT_IMPLEMENTED", "does not support", "not supported")
#: operators that round numbers which lie on the edge
ROUNDING = ("interpolate",)
#: apart from float32: where the interpreter of the `onnx` package is wrong or incomplete, and onnxruntime has no kernel
NOWHERE = {f"conv_transpose{n}d" for n in (1, 2, 3)} | {"rnn_relu.input", "rnn_relu_cell", "lstm", "lstm.input", "gru",
                                                       "gru.input", "lstm_cell", "gru_cell"}
#: the same for float64: a fused product by 1 / 0, a shape without dimensions
NOWHERE_IN_DOUBLE = {"cov", "corrcoef", "cauchy_"}


class Call(nn.Module):
    """A sample of an operator as a module of its tensors."""

    def __init__(self, name, sample):
        super().__init__()
        self.name, self.sample = name, sample
        self.leaves = [x for x in tree_leaves((sample.args, sample.kwargs)) if isinstance(x, flambeau.Tensor)]

    def forward(self, *given):
        places = {id(t): x for t, x in zip(self.leaves, given, strict=True)}
        return battery.run(self.name, battery.map_tensors(lambda t: places[id(t)], self.sample))


def is_random(name):
    return battery.is_random(name) or name in RANDOM or name in battery.UNSPECIFIED


def names():
    return [n for n in battery.NAMES if battery.generator_of(n) is not None]


def results(program, given):
    """The results by onnxruntime; by the interpreter of the `onnx` package where onnxruntime lacks a kernel."""
    try:
        return program(*given)
    except Exception as error:
        if not any(text in str(error) for text in (*LACKING, "INVALID_GRAPH")):
            raise
        return program.call_reference(*given)


def same(found, wanted, tolerance):
    """Whether two results are alike: dtype, shape, and numbers."""
    if found.dtype != wanted.dtype or found.shape != wanted.shape:
        return False
    wide = flambeau.complex128 if wanted.is_complex() else flambeau.float64
    return flambeau.allclose(found.to(wide), wanted.to(wide), rtol=tolerance, atol=tolerance, equal_nan=True)


def outcome(name, dtype, count=None):
    """"compared" with how many samples, "refused" (no form in ONNX), "untraced" (export needs values), "nowhere"
    (no runtime computes it) or "nothing" (no samples of tensors); AssertionError where a file is wrong."""
    compared, refused, untraced = 0, 0, 0
    if (name in NOWHERE and dtype != "float32") or (name in NOWHERE_IN_DOUBLE and dtype == "float64"):
        return "nowhere", 0
    try:
        samples = battery.samples(name, DTYPES[dtype])
    except battery.REFUSALS:
        return "nothing", 0
    for sample in samples[:count]:
        call = Call(name, sample)
        if not call.leaves or any(t.layout is not flambeau.strided for t in call.leaves):
            continue
        try:
            with flambeau.no_grad():
                wanted = tree_leaves(call(*(t.detach().clone() for t in call.leaves)))
        except (*battery.REFUSALS, AssertionError):
            continue
        try:
            program = flambeau.onnx.export(call, tuple(call.leaves))
            onnx.checker.check_model(program.model_proto, full_check=True)
        except (OnnxExporterError, NotImplementedError):
            refused += 1
            continue
        except battery.REFUSALS:
            untraced += 1
            continue
        found = results(program, call.leaves)
        assert len(found) == len(wanted), sample
        for a, b in zip(found, wanted, strict=True):
            b = b if isinstance(b, flambeau.Tensor) else flambeau.tensor(b)
            if is_random(name):
                assert a.dtype == b.dtype and a.shape == b.shape, sample
            else:
                assert same(a, b, 1.0 if name in ROUNDING and not b.is_floating_point() else
                            TOLERANCE.get(dtype, 1e-5)), (sample, a, b)
        compared += 1
    return ("compared" if compared else "refused" if refused else "untraced" if untraced else "nothing"), compared


def listed():
    """{(dtype, name): outcome} of operators that are not compared."""
    found = {}
    for line in FILE.read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            dtype, what, its = line.split("\t")
            found |= {(dtype, name): what for name in its.split(" ")}
    return found


def write():
    """Writes the list anew; prints the counts."""
    lines = ["# operators whose samples are not compared with a runtime of ONNX, by dtype: see table.py"]
    for dtype in SAMPLES:
        kinds = {}
        for name in names():
            try:
                kinds.setdefault(outcome(name, dtype, SAMPLES[dtype])[0], []).append(name)
            except AssertionError as error:
                print(dtype, name, error)
        print(dtype, {kind: len(its) for kind, its in kinds.items()})
        lines += [f"{dtype}\t{kind}\t{' '.join(its)}" for kind, its in sorted(kinds.items()) if kind != "compared"]
    FILE.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    write()
