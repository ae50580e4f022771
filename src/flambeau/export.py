"""Names of exported programs, which are not here yet; each says so when used."""

from ._absent import refusals

_REASON = "programs are not exported yet; save the module with flambeau.save"
globals().update(refusals("export", _REASON, """
    export(mod, args, kwargs, dynamic_shapes, strict, preserve_module_call_signature,
    prefer_deferred_runtime_asserts_over_guards) draft_export(mod, args, kwargs, dynamic_shapes,
    preserve_module_call_signature, strict, prefer_deferred_runtime_asserts_over_guards) load(f, extra_files,
    expected_opset_version) save(ep, f, extra_files, opset_version, pickle_protocol) unflatten(module,
    flat_args_adapter) dims(*names, min, max) default_decompositions register_dataclass(cls,
    serialized_type_name) ExportedProgram(root, graph, graph_signature, state_dict, range_constraints,
    module_call_graph, example_inputs, constants, verifiers) Dim(name, min, max) AdditionalInputs Constraint
    CustomDecompTable ExportBackwardSignature(gradients_to_parameters, gradients_to_user_inputs, loss_output)
    ExportGraphSignature(input_specs, output_specs) FlatArgsAdapter ModuleCallEntry(fqn, signature)
    ModuleCallSignature(inputs, outputs, in_spec, out_spec, forward_arg_names) ShapesCollection
    UnflattenedModule(export_module, flat_args_adapter)
"""))


class _DimHint:
    """How a size may change between calls of an exported program, for what `dynamic_shapes` says of it."""

    def __init__(self, name):
        self._name = name

    def __repr__(self):
        return f"DimHint({self._name})"


for _name in ("AUTO", "DYNAMIC", "STATIC"):
    setattr(globals()["Dim"], _name, _DimHint(_name))
