"""ONNXProgram: a model as ONNX, which can be looked at, changed, run and saved."""

import os

import flambeau

from .. import _C
from .._shown import shown
from ..export.graph_signature import ConstantArgument, InputKind
from ..utils._pytree import tree_flatten, tree_leaves
from . import _proto, _run
from ._translate import translate


class ONNXProgram:
    """A model as ONNX, made by `flambeau.onnx.export`.

    * model_proto, model: the ModelProto of the `onnx` package
    * exported_program: the ExportedProgram that it was made from
    * program(*args): runs it, by onnxruntime where that is installed, else by the interpreter of `onnx`
    * save(path): writes it

    >>> import flambeau
    >>> net = flambeau.nn.Linear(2, 3)
    >>> program = flambeau.onnx.export(net, (flambeau.ones(4, 2),))
    >>> [node.op_type for node in program.model_proto.graph.node]
    ['Gemm']
    >>> flambeau.allclose(program(flambeau.ones(4, 2))[0], net(flambeau.ones(4, 2)))
    True
    """

    def __init__(self, exported_program, options, names, custom_opsets=None, as_inputs=False, output_axes=None):
        self._exported_program, self._options, self._names = exported_program, options, dict(names)
        self._custom_opsets, self._as_inputs, self._output_axes = custom_opsets or {}, as_inputs, output_axes or {}
        self._weights, self._proto, self._session = {}, None, None
        self._graph = self._translated()

    def _translated(self):
        graph = translate(self._exported_program, self._options, self._weights)
        for value in graph.outputs:
            chosen = self._output_axes.get(value.name)
            if chosen:
                value.shape = tuple(chosen.get(d, n) if not isinstance(n, int) else n
                                    for d, n in enumerate(value.shape))
        return graph

    @property
    def exported_program(self):
        """The ExportedProgram that it was made from."""
        return self._exported_program

    @property
    def model_proto(self):
        """The model as a message of the `onnx` package. What is changed in it is saved and run."""
        if self._proto is None:
            if not _proto.fits(self._graph):
                raise ValueError("model_proto: the weights take more than the 2 GB that one message holds; "
                                 "save(path, external_data=True) writes them beside it")
            self._proto = self._message()
        return self._proto

    model = model_proto

    def _message(self, as_inputs=None, **how):
        return _proto.model_message(self._graph, self._options.opset, self._names, self._custom_opsets,
                                    as_inputs=self._as_inputs if as_inputs is None else as_inputs, **how)

    def __repr__(self):
        kinds = {}
        for node in self._graph.nodes:
            kinds[node.kind] = kinds.get(node.kind, 0) + 1
        told = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items(), key=lambda p: (-p[1], p[0])))
        return f"ONNXProgram(opset {self._options.opset}, {len(self._graph.nodes)} nodes: {told})"

    # ---- running -----------------------------------------------------------------------------------------------------

    def _arguments(self, args, kwargs):
        """{name of an input: array} of the arguments of a call; parts of the program must be as they were."""
        signature = self._exported_program.graph_signature
        leaves, spec = tree_flatten((args, dict(kwargs or {})))
        expected = self._exported_program.call_spec.in_spec
        if spec != expected:
            raise TypeError(f"ONNXProgram: the arguments are not those that were exported: got {shown(spec)}, expected "
                            f"{shown(expected)}")
        user = [s for s in signature.input_specs if s.kind is InputKind.USER_INPUT]
        inputs, given = iter(self._graph.inputs[:]), {}
        for leaf, held in zip(leaves, user, strict=True):
            if isinstance(held.arg, ConstantArgument):
                if leaf != held.arg.value:
                    raise ValueError(f"ONNXProgram: {held.arg.name} is {shown(held.arg.value)} in the program, got "
                                     f"{shown(leaf)}")
                continue
            value = next(inputs)
            given[value.name] = _run.to_array(leaf, value.dtype)
        for value in inputs:  # weights that are inputs
            given[value.name] = _run.to_array(self._weight(value.name), value.dtype)
        return given

    def _weight(self, name):
        return self._weights[name] if name in self._weights else self._exported_program._value(name)

    def _results(self, arrays):
        return tuple(_run.to_tensor(a, v.dtype) for a, v in zip(arrays, self._graph.outputs, strict=True))

    def __call__(self, *args, **kwargs):
        """The results for these arguments, as a flat tuple of tensors."""
        if not _run.has_onnxruntime() or any(v.dtype is _C.bfloat16 for v in (*self._graph.inputs,
                                                                              *self._graph.outputs)):
            return self.call_reference(*args, **kwargs)
        given = self._arguments(args, kwargs)
        if self._session is None:
            self.initialize_inference_session()
        known = {i.name for i in self._session.get_inputs()}
        return self._results(self._session.run(None, {k: v for k, v in given.items() if k in known}))

    def call_reference(self, *args, **kwargs):
        """The same by the interpreter of the `onnx` package, which is slow."""
        return self._results(_run.interpreter(self.model_proto).run(None, self._arguments(args, kwargs)))

    def compute_values(self, value_names, args=(), kwargs=None):
        """The values of these names inside the model, by the interpreter of the `onnx` package."""
        onnx = _proto.package()
        model = onnx.ModelProto()
        model.CopyFrom(self.model_proto)
        known = {o for n in model.graph.node for o in n.output}
        unknown = [n for n in value_names if n not in known]
        if unknown:
            raise ValueError(f"compute_values: the model has no values of the names {shown(unknown)}")
        del model.graph.output[:]
        model.graph.output.extend(onnx.helper.make_empty_tensor_value_info(n) for n in value_names)
        return tuple(_run.to_tensor(a, None) for a in _run.interpreter(model).run(None, self._arguments(args, kwargs)))

    def initialize_inference_session(self, initializer=_run.default_session):
        """Makes the session of onnxruntime that calls use; `initializer` makes it of the model's bytes, or of its path
        where they are more than 2 GB."""
        self._session = _run.session_of(self, initializer)

    def release(self):
        """Lets the session go."""
        self._session = None

    # ---- changing ----------------------------------------------------------------------------------------------------

    def optimize(self):
        """Computes beforehand what depends on constants alone, and takes batch norms into convolutions, as
        `export(optimize=True)` does. What was changed in model_proto is lost."""
        self._options.fold = self._options.weights
        self._renew()

    def apply_weights(self, state_dict):
        """Other weights in the place of those of these names, computed beforehand as they were.

        ValueError for names and shapes that the model has not.
        """
        held = self._exported_program.state_dict
        for name, value in state_dict.items():
            if name not in held or tuple(held[name].shape) != tuple(value.shape):
                has = f"has shape {list(held[name].shape)} there" if name in held else "is no weight of it"
                raise ValueError(f"apply_weights: {shown(name)}, of shape {list(value.shape)}, {has}")
            self._weights[name] = value.detach().to(held[name].dtype)
        self._renew()

    def rename_axes(self, rename_mapping):
        """Other names for sizes that are open: {name: another}."""
        for old, new in rename_mapping.items():
            symbol = next((s for s, name in self._names.items() if name == str(old)), str(old))
            self._names[symbol] = new
        self._proto = self._session = None

    def _renew(self):
        self._graph = self._translated()
        self._proto = self._session = None

    # ---- saving ------------------------------------------------------------------------------------------------------

    def save(self, destination, *, include_initializers=True, keep_initializers_as_inputs=False, external_data=None):
        """Writes the model to a path, or to a file that is open for writing bytes.

        include_initializers         False leaves the weights out: a reader then has to give them
        keep_initializers_as_inputs  the weights are inputs too, so that callers can give others
        external_data                weights of 1 KB and more go to a file beside, `destination` + ".data"; by default
                                     where they do not fit into 2 GB
        """
        as_inputs = keep_initializers_as_inputs or self._as_inputs or not include_initializers
        if external_data is None:
            external_data = not _proto.fits(self._graph)
        if not isinstance(destination, (str, os.PathLike)):
            self._write(destination, include_initializers, as_inputs)
            return
        path = os.fspath(destination)
        if external_data and include_initializers and self._proto is None:
            message = self._message(as_inputs, places=_proto.write_outside(self._graph, path))
            with open(path, "wb") as file:
                file.write(message.SerializeToString())
            return
        with open(path, "wb") as file:
            self._write(file, include_initializers, as_inputs, path if external_data else None)

    def _write(self, file, include_initializers, as_inputs, path=None):
        onnx = _proto.package()
        message = self.model_proto if include_initializers and as_inputs is self._as_inputs else self._message(
            as_inputs, weights=include_initializers)
        if path is not None and include_initializers:  # a message that was changed by hand
            changed = onnx.ModelProto()
            changed.CopyFrom(message)
            onnx.save_model(changed, path, save_as_external_data=True, location=os.path.basename(path) + ".data")
            return
        file.write(message.SerializeToString())


def differences(program, model, args, kwargs):
    """The largest difference of each result from the module's, relative to the largest element."""
    expected = tree_leaves(model(*args, **kwargs))
    found = []
    for a, b in zip(program(*args, **kwargs), expected, strict=True):
        b = b if isinstance(b, _C.Tensor) else flambeau.tensor(b)
        wide = _C.complex128 if b.is_complex() else _C.float64
        a, b = a.to(wide), b.to(wide)
        found.append(((a - b).abs().max() / b.abs().max().clamp(min=1e-30)).item() if b.numel() else 0.0)
    return found


def tolerance(program):
    """How large a difference is rounding: by the least exact dtype of the weights and results."""
    halves = {v.dtype for v in (*program._graph.constants.values(), *program._graph.outputs)}
    return 5e-2 if _C.bfloat16 in halves else 1e-2 if _C.float16 in halves else 1e-3
