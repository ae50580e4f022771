"""export: a model as ONNX."""

import contextlib
import cProfile
import io
import os
import pstats

import flambeau

from .._shown import shown
from ..export import ExportedProgram, _trace
from ..export import save as save_program
from ..nn import Module
from . import _proto
from ._capture import _Function, captured, mode_of, of_axes
from ._constants import OperatorExportTypes, TrainingMode
from ._custom import name_of_operator, registered
from ._program import ONNXProgram, differences, tolerance
from ._translate import Options
from .errors import OnnxExporterError

_OPSET, _LEAST, _MOST = 20, 11, 23
_TRAINING = {TrainingMode.EVAL: False, TrainingMode.PRESERVE: None, TrainingMode.TRAINING: True}


def export(model, args=(), f=None, *, kwargs=None, verbose=None, input_names=None, output_names=None,
           opset_version=None, dynamo=True, external_data=True, dynamic_shapes=None, custom_translation_table=None,
           report=False, optimize=True, verify=False, profile=False, dump_exported_program=False, artifacts_dir=".",
           export_params=True, keep_initializers_as_inputs=False, dynamic_axes=None, training=TrainingMode.EVAL,
           operator_export_type=OperatorExportTypes.ONNX, do_constant_folding=True, custom_opsets=None,
           export_modules_as_functions=False, autograd_inlining=True, fallback=False):
    """Writes a model as ONNX; gives an ONNXProgram, or with dynamo=False, as PyTorch does, None.

    model           a Module, a function, or an ExportedProgram
    args, kwargs    example arguments: a tuple (or one tensor) and a dict
    f               a path, or a file that is open for writing bytes; None: nothing is written
    input_names, output_names   names of the inputs and the results, in their order
    opset_version   11 to 23, of ONNX's operators; 20 unless given
    dynamic_shapes  sizes that stay open, as `flambeau.export.export` takes them; strings are names of sizes
    dynamic_axes    the same by the names of inputs: {"x": {0: "batch"}} or {"x": [0]}
    external_data   with dynamo=True and a path, weights of 1 KB and more go to a file beside it (path + ".data")
    custom_translation_table    {operator: function(g, *arguments)} for operators of your own
    custom_opsets   {domain: version} of operators outside of the standard
    optimize        what depends on constants alone is computed beforehand, batch norms go into convolutions;
                    do_constant_folding=False leaves it out as well
    verify          runs the model on the example arguments; OnnxExporterError where a result differs
    report, profile, dump_exported_program      files about the export in `artifacts_dir`
    export_params   False: the weights are inputs without values
    keep_initializers_as_inputs     the weights are inputs with values
    training        the mode of the model while it is exported; TrainingMode.PRESERVE leaves it as it is
    verbose         True prints what was written
    dynamo, fallback    one exporter serves both of PyTorch's

    ModuleNotFoundError without the package onnx; errors.UnsupportedOperatorError where operators have no form in ONNX,
    with all their names.

    >>> import flambeau
    >>> from flambeau.export import Dim
    >>> net = flambeau.nn.Sequential(flambeau.nn.Linear(2, 3), flambeau.nn.ReLU())
    >>> program = flambeau.onnx.export(net, (flambeau.ones(4, 2),), input_names=["x"], output_names=["y"],
    ...                                dynamic_shapes=({0: Dim("batch")},))
    >>> program
    ONNXProgram(opset 20, 2 nodes: 1 Gemm, 1 Relu)
    >>> program(flambeau.ones(7, 2))[0].shape
    torch.Size([7, 3])
    """
    onnx = _proto.package()
    args, kwargs = _arguments(args, kwargs, dynamo)
    opset = _checked_opset(opset_version)
    _refuse(operator_export_type, export_modules_as_functions, autograd_inlining, fallback)
    if f is None and not dynamo:
        raise TypeError("onnx.export: with dynamo=False the model is written, so f must be a path or a file")
    if training not in _TRAINING:
        raise ValueError(f"onnx.export: training must be a TrainingMode, got {shown(training)}")
    if dynamic_axes and dynamic_shapes:
        raise ValueError("onnx.export: give dynamic_shapes or dynamic_axes, which say the same, not both")
    if not isinstance(model, ExportedProgram) and not callable(model):
        raise TypeError(f"onnx.export: model must be a Module, a function or an ExportedProgram, got {shown(model)}")
    if isinstance(model, ExportedProgram):
        if dynamic_shapes or dynamic_axes or training == TrainingMode.TRAINING:
            raise ValueError("onnx.export: an ExportedProgram has its open sizes and its mode already; leave "
                             "dynamic_shapes, dynamic_axes and training out")
        args, kwargs = (args, kwargs) if args or kwargs or model.example_inputs is None else model.example_inputs
    profiler = cProfile.Profile() if profile else contextlib.nullcontext()
    with profiler:
        program = _exported(model, args, kwargs, opset, input_names, output_names, dynamic_shapes, dynamic_axes,
                            custom_translation_table, optimize and do_constant_folding, export_params, training,
                            custom_opsets, keep_initializers_as_inputs)
    if profile:
        _write_text(artifacts_dir, "onnx_export_profile.txt", _told(profiler))
    if dump_exported_program:
        save_program(program.exported_program, os.path.join(artifacts_dir, "onnx_export.pt2"))
    if f is not None:
        path = isinstance(f, (str, os.PathLike))
        program.save(f, external_data=(external_data or None) if dynamo and path else None)
    compared = _verified(program, model, args, kwargs, training) if verify else None
    if report:
        _write_text(artifacts_dir, "onnx_export_report.md", _report(program, compared, onnx))
    if verbose:
        print(f"onnx.export: {program!r}, {_proto.bytes_of(program._graph)} bytes of weights" +
              (f", written to {f}" if f is not None else ""))
    return program if dynamo else None


def _arguments(args, kwargs, dynamo):
    """(args, kwargs): a tensor alone is a tuple of one, and the older way has arguments by name last in args."""
    if isinstance(args, flambeau.Tensor):
        args = (args,)
    if not isinstance(args, (tuple, list)):
        raise TypeError(f"onnx.export: args must be a tuple of example arguments, got {shown(args)}")
    args = tuple(args)
    if not dynamo and not kwargs and args and isinstance(args[-1], dict):
        return args[:-1], args[-1]
    return args, dict(kwargs or {})


def _checked_opset(version):
    if version is None:
        return _OPSET
    if not isinstance(version, int) or not _LEAST <= version <= _MOST:
        raise ValueError(f"onnx.export: opset_version must be {_LEAST} to {_MOST}, got {shown(version)}; runtimes that "
                         "read older versions read these too")
    return version


def _refuse(operator_export_type, export_modules_as_functions, autograd_inlining, fallback):
    if operator_export_type != OperatorExportTypes.ONNX:
        raise NotImplementedError("onnx.export: only operator_export_type=OperatorExportTypes.ONNX is available; write "
                                  "operators without a form in ONNX by custom_translation_table")
    if export_modules_as_functions:
        raise NotImplementedError("onnx.export: export_modules_as_functions is not available; modules are written as "
                                  "the operators that they run")
    if not autograd_inlining:
        raise NotImplementedError("onnx.export: autograd_inlining=False is not available; what autograd.Function runs "
                                  "is written, or give the operators inside in custom_translation_table")
    if not isinstance(fallback, bool):
        raise TypeError(f"onnx.export: fallback must be a bool, got {shown(fallback)}")


def _names_of(model, args, kwargs, input_names):
    """Names of the leaves of the arguments: those given, then those of forward's parameters."""
    module = model if isinstance(model, Module) else _Function(model)
    return [*(input_names or ()), *_trace.call_names(module, args, kwargs)[1][len(input_names or ()):]]


def _exported(model, args, kwargs, opset, input_names, output_names, dynamic_shapes, dynamic_axes, table, fold,
              export_params, training, custom_opsets, as_inputs):
    texts, output_axes = {}, {}
    if dynamic_axes:
        names = _names_of(model, args, kwargs, input_names)
        known = {*names, *(output_names or ())}
        if output_names is not None and dynamic_axes.keys() - known:
            raise ValueError(f"onnx.export: dynamic_axes names {shown(sorted(dynamic_axes.keys() - known))}; inputs "
                             f"and results are {shown(sorted(known))}")
        dynamic_shapes, texts = of_axes(dynamic_axes, names, args, kwargs)
        output_axes = {name: axes for name, axes in dynamic_axes.items() if name not in names and
                       isinstance(axes, dict)}
    custom = registered(opset) | {name_of_operator(operator): given for operator, given in (table or {}).items()}
    program, symbols = captured(model, args, kwargs, dynamic_shapes, _TRAINING[training], custom)
    options = Options(opset, bool(fold and export_params and not as_inputs), bool(export_params), custom,
                      list(input_names or ()), list(output_names or ()))
    return ONNXProgram(program, options, {s: texts.get(name, name) for s, name in symbols.items()}, custom_opsets,
                       as_inputs, output_axes)


def _verified(program, model, args, kwargs, training):
    """The differences of the results on the example arguments; OnnxExporterError where they are large."""
    module = model.module() if isinstance(model, ExportedProgram) else model
    inside = mode_of(module, _TRAINING[training]) if isinstance(module, Module) and not isinstance(
        model, ExportedProgram) else contextlib.nullcontext()
    with inside, flambeau.no_grad():
        found = differences(program, module, args, kwargs)
    if any(not d < tolerance(program) for d in found):
        raise OnnxExporterError("onnx.export: verify: results differ from the module's by these shares of their "
                                f"largest elements: {shown(found)}")
    return found


def _write_text(folder, name, text):
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
        file.write(text)


def _told(profiler):
    text = io.StringIO()
    pstats.Stats(profiler, stream=text).sort_stats("cumulative").print_stats(60)
    return text.getvalue()


def _report(program, compared, onnx):
    """What was exported, as a page."""
    lines = ["# ONNX export", "", f"{program!r}", "", f"Written with onnx {onnx.__version__}.", ""]
    if compared is not None:
        lines += ["Differences from the module, as shares of the largest element: " + ", ".join(
            f"{d:.1e}" for d in compared), ""]
    return "\n".join([*lines, "## The program", "", "```", str(program.exported_program), "```", ""])
