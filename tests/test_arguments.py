"""Every argument is honoured or refused: no function of the package takes one that it never reads."""

import ast
import io
import warnings
from pathlib import Path

import pytest

import flambeau
from flambeau import nn

PACKAGE = Path(flambeau.__file__).parent

# --- no parameter is left unread --------------------------------------------------------------------------------------

#: why a parameter may go unread -> "module: function parameter parameter, …; module: …"
REASONS = {
    "a conversion where the memory lies, and a copy on the CPU, have nothing that non_blocking could decide": """
        _tensor/storage: type non_blocking; _sparse/copies: _copy non_blocking;
        _sparse/methods: type non_blocking; _quantized/moving: _copy non_blocking;
        masked/maskedtensor/pointwise: _copy non_blocking; _nested/copies: _copy non_blocking""",
    "one step of a graph without writes computes the same whether the caller's tensor was to be written or not": """
        as_torch/tree/_decomp_rules: silu inplace, hardtanh inplace, hardsigmoid inplace, hardswish inplace,
        leaky_relu inplace, elu inplace, mish inplace""",
    "whether an expansion was asked for or follows from another tensor's sizes, it is the same": """
        _nested/shapes: _expand implicit""",
    "backends and partitions get example inputs and read those of the graph's nodes": """
        as_torch/tree/_dynamo/testing: __call__ example_inputs; compiler/_partition: default_partition _joint_inputs,
        min_cut_rematerialization_partition _joint_inputs _compiler""",
    "the graph of a program is the same for all arguments": "jit/_modules: graph_for args kwargs",
    "what the layouts of nested tensors are asked; one of them knows it without the values": """
        _nested/sequences: ndim values, numel values, contiguous values""",
    "a mask over the rows of all parts is one batch; the row says which part it is of": """
        nn/attention/flex_attention: flat batch""",
    "PyTorch's own functions pass a tensor for its dispatcher": "_nested/construct: _nested_view_from_jagged dummy",
    "rules and parts of kernels have one form per table; each takes what some of them need": """
        cuda/kernels/reductions: _own result""",
    "Python gives a constructor's arguments to __new__ and to __init__, which read what they decide": """
        _absent/streams: __new__ priority enable_timing blocking interprocess, __init__ device;
        cuda/streams: __new__ device priority kwargs enable_timing blocking interprocess external""",
    "layers for training and of reference have no scales from before; hooks and fusers take what all of them get": """
        ao/nn/intrinsic/qat/modules/conv_fused: from_float use_precomputed_fake_quant;
        ao/nn/intrinsic/qat/modules/linear_fused: from_float use_precomputed_fake_quant;
        ao/nn/qat/modules/conv: from_float use_precomputed_fake_quant;
        ao/nn/qat/modules/embedding_ops: from_float use_precomputed_fake_quant;
        ao/nn/qat/modules/linear: from_float use_precomputed_fake_quant;
        ao/nn/quantizable/modules/rnn: from_float use_precomputed_fake_quant;
        ao/nn/quantized/reference/modules/rnn: from_float use_precomputed_fake_quant;
        ao/quantization/fuser_method_mappings: fuser is_qat; ao/quantization/quantize: _observer_forward_hook input""",
    "sums of groups are float32, as exact as a caller of use_fast_accum may have them": """
        ops/products: _scaled_grouped_mm use_fast_accum""",
    "PyTorch's form of an operator or layer on codes: the packed weight has it, it is for training, or it has no "
    "effect on codes": """
        _quantized/cells: rnn h, lstm h, quantized_lstm_cell_dynamic bias_ih bias_hh, quantized_gru_cell_dynamic b_ih
        b_hh, step b_ih b_hh; _quantized/embeddings: pack nbins ratio, pack_with_ends nbins ratio, add_up
        scale_grad_by_freq; _quantized/functions: dropout output_scale output_zero_point p;
        ao/nn/quantized/modules/embedding_ops: __init__ padding_idx norm_type scale_grad_by_freq sparse""",
    "one form of from_float and from_reference for all layers; this one has no weight, or nothing was observed": """
        ao/nn/quantized/modules/__init__: from_float use_precomputed_fake_quant mod;
        ao/nn/quantized/modules/activation: from_float use_precomputed_fake_quant, from_reference mod, __init__ device
        dtype; ao/nn/quantized/modules/batchnorm: from_float use_precomputed_fake_quant, _check_input_dim input;
        ao/nn/quantized/modules/dropout: from_float use_precomputed_fake_quant, from_reference scale zero_point;
        ao/nn/quantized/modules/functional_modules: from_float use_precomputed_fake_quant;
        ao/nn/quantized/modules/normalization: from_float use_precomputed_fake_quant;
        ao/nn/quantized/modules/observed: from_float args kwargs other;
        ao/nn/quantized/modules/conv: _load_from_state_dict strict;
        ao/nn/quantized/modules/embedding_ops: _load_from_state_dict strict;
        ao/nn/quantized/modules/utils: _load_from_state_dict strict""",
    "an exchange is over when the call returns, so nobody has to wait for it": """
        distributed/tensor/_api: redistribute async_op""",
    "a sparse tensor is in no memory format": "_sparse/methods: is_contiguous memory_format; "
                                              "_nested/methods: is_contiguous memory_format",
    "the function refuses every call, so it reads nothing": """
        _sparse/shapes: compute args kwargs; optim/optimizer: _own_check_sparse group""",
    "layouts other than strided are refused by the argument parser, before the body": """
        ops/creation: range_ layout, empty_permuted layout; ops/frequencies: fftfreq layout, rfftfreq layout;
        ops/random: normal layout; ops/windows: hann_window layout, hamming_window layout, blackman_window layout,
        bartlett_window layout, kaiser_window layout""",
    "subclasses read it, or other kinds of Nodes do; this one needs less": """
        _tensor/overriding: _default_torch_dispatch types; fx/_symbolic_trace: is_leaf_module module_qualified_name;
        fx/graph_module: __new__ args kwargs; export/_decompositions: after values;
        fx/experimental/proxy_tensor: call_module m, is_leaf_module m module_qualified_name;
        fx/interpreter: placeholder kwargs, get_attr args kwargs, output target kwargs, is_leaf_module m
        module_qualified_name; fx/passes/infra/pass_base: call graph_module, requires graph_module, ensures
        graph_module; fx/passes/operator_support: is_node_supported submodules node;
        vision/ops/feature_pyramid_network: forward x; vision/models/video/resnet: __init__ midplanes;
        utils/data/_utils/own_loaders: _reset first_iter; testing/_internal/common_utils: load_tests loader pattern""",
    "PyTorch keeps nothing of it either, and a warning says so": "monitor: set_vital args kwargs",
    "planners and storages of programs need more; one call gives every kind what it may want": """
        distributed/checkpoint/_metadata_file: read entry; distributed/checkpoint/stateful: load_state_dict state_dict;
        distributed/checkpoint/default_planner: create_default_local_save_plan is_coordinator, set_up_planner
        storage_meta, commit_tensor read_item tensor, make path;
        distributed/checkpoint/filesystem: set_up_storage_writer is_coordinator args, read_metadata args,
        set_up_storage_reader is_coordinator args;
        distributed/checkpoint/hf_storage: read_metadata args kwargs;
        distributed/checkpoint/format_utils: read_metadata args kwargs, set_up_storage_reader metadata args kwargs""",
    "one way of saving, which does what the others would: no value is sharded within a shard, each is written once": """
        distributed/checkpoint/default_planner: __init__ flatten_sharded_tensors dedup_replicated_tensors
        enable_plan_caching""",
    "sizes come with every microbatch, and a receiver waits only where it needs one": """
        distributed/pipelining/stage: __init__ input_args output_args output_grads input_grads;
        distributed/pipelining/schedules: __init__ defer_pp_recv""",
    "gradients by their names in PyTorch take all that forward took, and need less; indices are always checked": """
        ops/aten_forms: native_layer_norm_backward bias, max_pool2d_with_indices_backward kernel_size stride padding
        dilation ceil_mode, copy non_blocking, backward total_weight""",
    "sizes are printed at once, however they are written": "fx/graph_module: print_readable fast_sympy_print",
    "one device, one stream, nothing pending: the answer is the same for every argument": """
        accelerator/_devices: current_accelerator check_available; cuda/_devices: _lazy_call kwargs;
        _absent/devices: is_bf16_supported including_emulation, memory_allocated device, memory_stats device,
        reset_peak_memory_stats device; backends/mps: is_macos_or_newer major minor;
        optim/_for_others: _default_to_fused_or_foreach params differentiable use_fused,
        _get_capturable_supported_devices supports_xla; as_torch/tree/_C/__init__: _get_accelerator check;
        backends/cuda: blas_workspace_size backend;
        _absent/streams: __init__ priority blocking, wait_event event, wait_stream stream, record stream, wait stream;
        autograd/graph: set_warn_on_accumulate_grad_stream_mismatch enabled,
        set_override_stale_capture_stream enabled""",
    "what the tensors themselves tell: whether one is complex, or a gradient sparse": """
        optim/adam: adam has_complex; optim/sgd: sgd has_sparse_grad; optim/rmsprop: rmsprop has_complex;
        optim/adagrad: adagrad has_sparse_grad has_complex; optim/adadelta: adadelta has_complex;
        optim/adamax: adamax has_complex; optim/asgd: asgd has_complex; optim/nadam: nadam has_complex;
        optim/radam: radam has_complex; optim/rprop: rprop has_complex""",
    "chooses between implementations with one result; there is one implementation": """
        nn/utils/clip_grad: get_total_norm foreach, clip_grads_with_norm_ foreach, clip_grad_norm_ foreach,
        clip_grad_value_ foreach; ops/comparison: isin assume_unique;
        nn/attention/flex_attention: create_block_mask _compile, flex_attention kernel_options;
        profiler/_profile: tensorboard_trace_handler use_python_export;
        ops/aten_forms: _convolution switches; ops/top_level: batch_norm cudnn_enabled, instance_norm cudnn_enabled;
        autograd/profiler: __init__ use_kineto""",
    "a permission, not an order: distinct elements may come in any order, and come sorted": """
        ops/sorting: unique sorted""",
    "there are no guards, and nothing is limited or isolated": """
        compiler/__init__: compile name recompile_limit isolate_recompiles shapes_spec dynamic_shapes,
        __init__ skip_guard_eval_unsafe""",
    "of a program's text, which has more arguments than there is to decide here": """
        jit/_compile: _call_uninitialized node; _aten/forms: _convolution switches, _thnn_conv2d kernel_size,
        _svd driver, _unique_pair return_inverse,
        _unique return_inverse return_counts, _unique_dim return_inverse return_counts,
        _unique_consecutive return_inverse return_counts, _rrelu noise generator, same args kwargs;
        export/_whole: _recurrent params has_biases layers dropout train batch_first;
        export/_higher_order: _invoked identifier, _checkpointed options, _with_hints hints;
        ops/aten_forms: max_unpool3d stride padding""",
    "what a function computes is computed, constant or not": """
        compiler/_marks: substitute_in_graph can_constant_fold_through""",
    "of tools that are not there: unless they are off, they are refused": "autograd/profiler: __init__ record_shapes",
    "refused whatever they are": """
        jit/_modules: __init__ args kwargs""",
    "a trace is the same with each: older names, and a permission that is always given": """
        jit/_tracing: trace optimize strict _store_inputs, trace_module optimize strict _store_inputs;
        jit/_program: __init__ _frames_up, define _frames_up""",
    "of an older vmap, whose tensors are never met": "as_torch/tree/_C/_functorch: is_legacy_batchedtensor tensor",
    "nothing is compiled, scripted or captured: functions run as they are, which the first call says": """
        optim/_for_others: _disable_dynamo_if_unsupported single_tensor_fn;
        as_torch/tree/_C/__init__: _log_api_usage_once event, _jit_set_profiling_mode mode,
        _jit_set_num_profiled_runs size, _get_graph_executor_optimize new_setting;
        as_torch/tree/_dynamo/__init__: mark_dynamic t index hint_override min max specialize_on,
        mark_static t index, mark_static_address t guard; as_torch/tree/_inductor/__init__: list_mode_options dynamic;
        jit/__init__: script optimize _frames_up _rcb example_inputs, ignore kwargs,
        annotate the_type""",
    "of downloaded programs, which are refused: those of local folders need no download, no trust, no report": """
        hub: list force_reload skip_validation trust_repo verbose, help force_reload skip_validation trust_repo,
        load trust_repo force_reload verbose skip_validation""",
    "always false, or always the argument itself": """
        package: is_from_package obj""",
    "a table has one signature: shapes need less than operators; what a trace keeps is read where it is written": """
        onnx/_capture: _recurrent params has_biases num_layers dropout train batch_first,
        _bags max_norm norm_type scale_grad_by_freq mode sparse per_sample_weights padding_idx,
        _kept dets iou_threshold, _always args kwargs, _text_first kwargs, shape indices;
        onnx/_translate: _symbolic shapes; onnx/ops: symbolic_call domain_op inputs attrs version""",
    "tensors arrive as values and everything else as Python's own, so there is nothing to parse": """
        onnx/symbolic_helper: parse_args arg_descriptors""",
    "private in PyTorch (an underscore); accepted, since other code passes it": """
        serialization: save _disable_byteorder_record; _tensor/storage: __init__ _internal""",
    "kept for programs that pass it; documented as without effect": """
        distributed/_tcp: __init__ use_libuv; nn/parallel/distributed: __init__ check_reduction batched_grad_copy;
        utils/cpp_extension/_load: load_inline use_pch; utils/cpp_extension/_compile: library_paths torch_include_dirs;
        nn/modules/linear: __init__ args kwargs; utils/data/sampler: __init__ data_source""",
    "of downloads, which are refused": """
        vision/datasets/clips: __init__ num_download_workers""",
    "a scheduler, sampler, hook or method that is called, or overridden, with a fixed list of arguments": """
        export/_real: _argument said; jit/_archive: tensor place;
        export/unflatten: adapt target_spec input_spec input_args metadata obj;
        as_torch/_vision: get_code fullname; distributed/_workers: handle frame;
        distributed/algorithms/join: post_hook is_last_joiner, join_hook kwargs;
        distributed/algorithms/_checkpoint/checkpoint_wrapper: _without_prefix module, _with_prefix module;
        distributed/fsdp/wrap: always_wrap_policy args kwargs, _module_wrap_policy nonwrapped_numel,
        lambda_auto_wrap_policy nonwrapped_numel, __call__ args kwargs;
        as_torch/_vision: create_module spec; as_torch/plugin: pytest_load_initial_conftests early_config parser args,
        pytest_report_header config; overrides: redispatch_function types;
        nn/attention/flex_attention: noop_mask head token_q token_kv; nn/utils/prune: compute_mask t default_mask,
        _kept t dim;
        _files/loader: qtensor hooks; ao/quantization/fake_quantize: forward x;
        ao/quantization/observer: forward x; _quantized/tensor: aligned ndim;
        ao/nn/quantized/modules/linear: _load_from_state_dict strict;
        ao/nn/quantized/dynamic/modules/rnn: _load_from_state_dict strict;
        optim/rprop: _update step; optim/adadelta: _update step; optim/rmsprop: _update step;
        optim/adafactor: _own_begin group; optim/adamax: _own_begin group;
        optim/nadam: _own_begin group; optim/radam: _own_begin group; optim/sgd: _own_begin group;
        optim/lr_scheduler/_epochs: _factor epoch; optim/lr_scheduler/_plateau: _reduce_lr epoch;
        optim/swa_utils: ema_update num_averaged; utils/_selective: policy ctx args kwargs;
        utils/tensorboard/_graph: before inputs, after inputs output;
        utils/flop_counter: mm_flop out_shape args kwargs, addmm_flop self_shape out_shape kwargs, bmm_flop out_shape
        kwargs, baddbmm_flop self_shape out_shape kwargs, conv_flop _bias _stride _padding _dilation args kwargs,
        conv_backward_flop out_shape kwargs, sdpa_flop out_shape args kwargs, sdpa_backward_flop_count grad_out_shape,
        sdpa_backward_flop out_shape args kwargs, _of_linear_backward out, _of_attention out, _of_attention_backward
        out, _of_recurrent out, _of_recurrent_backward out; utils/module_tracker: _after module inputs;
        utils/data/_utils/collate: collate_tensor_fn collate_fn_map, collate_float_fn collate_fn_map, collate_int_fn
        collate_fn_map, collate_str_fn collate_fn_map, collate_numpy_array_fn collate_fn_map, collate_numpy_scalar_fn
        collate_fn_map; debug/_trace: after args, _recurrent out; overrides: answer args kwargs;
        _tensor/types: __init__ name dtype device; cli/info: info options; cli/interrupt: handle number frame;
        _files/pickle_writer: none obj; autograd/forward_ad: forward ctx primal, backward ctx;
        autograd/function: forward sources;
        nn/parameter: _rebuild_parameter hooks; _tensor/storage: _rebuild dtype; _files/loader: tensor hooks, tensor_v3
        hooks,
        parameter hooks; ops/view_copies: _fresh taken_from; ops/fractional_pooling: with_indices return_indices;
        autograd/grad_mode: __init__ orig_func; distributions/_transform: log_abs_det_jacobian y;
        distributions/transforms: log_abs_det_jacobian y;
        autograd/_in_transforms: apply_batched ctx; nn/utils/prune: __call__ inputs; nn/utils/weight_norm: __call__
        inputs; vision/transforms/v2/functional/_points: perspective_keypoints canvas_size;
        vision/datasets/clips: _chosen root; vision/datasets/described: handle_starttag attributes""",
}
#: one table of functions with one signature per module: each reads what it needs
CALLBACKS = ("debug/_hints", "_transforms/", "vision/transforms/v2/_", "vision/transforms/_policies",
             "vision/datasets/_wrapper", "distributed/checkpoint/planner", "distributed/checkpoint/storage",
             "distributed/checkpoint/staging", "onnx/translations/", "onnx/_older")


def allowed():
    found = {}
    for text in REASONS.values():
        for part in text.split(";"):
            module, _, functions = part.strip().partition(":")
            for entry in functions.split(","):
                name, *parameters = entry.split()
                found.setdefault((module, name), set()).update(parameters)
    return found


def functions(tree):
    return (node for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)))


def statements(function):
    """The body without its docstring."""
    return [s for s in function.body if not (isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant))]


def unread(function):
    """The parameters that the body never names, in itself or in a function within it."""
    arguments = function.args
    names = [a.arg for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
    names += [a.arg for a in (arguments.vararg, arguments.kwarg) if a]
    read = {node.id for s in function.body for node in ast.walk(s)
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
    return [name for name in names if name not in read and name not in ("self", "cls", "_", "__")]


def is_protocol(function):
    """Python calls it with a fixed list of arguments (`__exit__`, `__torch_dispatch__`, …)."""
    dunder = function.name.startswith("__") and function.name.endswith("__")
    return dunder and function.name not in ("__init__", "__new__", "__call__")


def refuses(function):
    """All it does is raise."""
    body = statements(function)
    return len(body) == 1 and isinstance(body[0], ast.Raise)


def offenders():
    for path in sorted(PACKAGE.rglob("*.py")):
        module = path.relative_to(PACKAGE).with_suffix("").as_posix()
        if not module.startswith(CALLBACKS):
            for function in functions(ast.parse(path.read_text(encoding="utf-8"))):
                if not is_protocol(function) and not refuses(function):
                    yield from ((module, function.name, name) for name in unread(function))


def test_no_parameter_is_left_unread():
    known, found = allowed(), list(offenders())
    new = [each for each in found if each[2] not in known.get(each[:2], ())]
    assert not new, "these arguments are never read: honour them, refuse them, or give the reason in REASONS"
    stale = [(*place, name) for place, names in known.items() for name in names if (*place, name) not in found]
    assert not stale, "these arguments are read, or gone: their reasons are no longer needed"


def test_public_callbacks_of_transforms_take_no_unread_argument():
    """The modules of CALLBACKS have few public functions, which are held to the rule like all others."""
    for path in sorted(PACKAGE.joinpath("func").glob("*.py")):
        for function in functions(ast.parse(path.read_text(encoding="utf-8"))):
            public = function.name in ("vmap", "grad", "grad_and_value", "vjp", "jvp", "jacfwd", "hessian", "linearize",
                                       "functional_call", "stack_module_state", "functionalize")
            assert not (public and unread(function)), (path.name, function.name)


# --- named cases ------------------------------------------------------------------------------------------------------

FACTORIES = {
    "zeros": lambda **k: flambeau.zeros(2, **k), "tensor": lambda **k: flambeau.tensor([1.], **k),
    "normal": lambda **k: flambeau.normal(0., 1., (2,), **k),
    "new_zeros": lambda **k: flambeau.ones(1).new_zeros(2, **k),
    "range": lambda **k: flambeau.range(0, 3, **k),
    "empty_permuted": lambda **k: flambeau.empty_permuted((2, 3), (1, 0), **k),
} | {name: lambda name=name, **k: getattr(flambeau, name)(4, **k) for name in (
    "hann_window", "hamming_window", "blackman_window", "bartlett_window", "kaiser_window", "eye", "arange", "rand")}


@pytest.mark.parametrize("name", FACTORIES)
def test_pinned_memory_needs_a_gpu(name):
    FACTORIES[name](pin_memory=False)
    with pytest.raises(RuntimeError, match="pin_memory"):
        FACTORIES[name](pin_memory=True)


@pytest.mark.parametrize("name", [n for n in FACTORIES if n != "tensor"])
def test_other_layouts_are_refused(name):
    FACTORIES[name](layout=flambeau.strided)
    if name in ("zeros", "empty", "zeros_like", "empty_like"):
        assert FACTORIES[name](layout=flambeau.sparse_coo).is_sparse
        return
    with pytest.raises(NotImplementedError, match="strided"):
        FACTORIES[name](layout=flambeau.sparse_coo)


@pytest.mark.parametrize("argument", ["layout", "pin_memory"])
def test_new_tensor_takes_what_pytorchs_takes(argument):
    with pytest.raises(TypeError, match=argument):
        flambeau.ones(1).new_tensor([1.], **{argument: None})


def positive(*batch, n=20):
    a = flambeau.randn(*batch, n, n, dtype=flambeau.float64)
    return a @ a.mT + flambeau.eye(n, dtype=flambeau.float64)


def test_lobpcg_of_a_batch_starts_from_x_and_shows_each_round():
    flambeau.manual_seed(0)
    A, X = positive(2), flambeau.randn(2, 20, 2, dtype=flambeau.float64)
    rounds, exact = [], flambeau.linalg.eigh(A)
    w, V = flambeau.lobpcg(A, k=2, X=X, tracker=rounds.append)
    flambeau.testing.assert_close(w, exact.eigenvalues[:, -2:].flip(-1))
    assert {r.iparams["batch_index"] for r in rounds} == {0, 1}
    first = next(r for r in rounds if r.iparams["batch_index"] == 1)
    span = flambeau.linalg.lstsq(X[1], first.X).solution  # the first vectors lie in what X spans
    flambeau.testing.assert_close(X[1] @ span, first.X)
    solved = []
    flambeau.lobpcg(A, k=2, X=V, tracker=solved.append)
    assert len(solved) == 2 < len(rounds)


def test_lobpcg_uses_the_preconditioner_of_each_matrix():
    flambeau.manual_seed(0)
    A = flambeau.diag_embed(flambeau.arange(1., 41., dtype=flambeau.float64).expand(2, 40).pow(2))
    X = flambeau.randn(2, 40, 1, dtype=flambeau.float64)
    plain, better = [], []
    flambeau.lobpcg(A, X=X, largest=False, tracker=plain.append)
    flambeau.lobpcg(A, X=X, iK=flambeau.linalg.inv(A), largest=False, tracker=better.append)
    assert len(better) < len(plain)


def test_lobpcg_refuses_what_it_cannot_honour():
    A = positive(2)
    with pytest.raises(RuntimeError, match="X has shape"):
        flambeau.lobpcg(A, X=flambeau.randn(20, 1, dtype=flambeau.float64))
    with pytest.raises(NotImplementedError, match="ortho_iparams"):
        flambeau.lobpcg(A, ortho_iparams={"i_max": 3})


def test_lobpcg_ends_when_the_tracker_says_so():
    rounds = []

    def once(worker):
        rounds.append(worker.ivars["istep"])
        worker.bvars["force_stop"] = True

    flambeau.lobpcg(positive(), tracker=once)
    assert rounds == [0]


@pytest.mark.parametrize("n, c, hxw, group", [(2, 5, 3, 2), (2, 4, 7, 2), (3, 4, 3, 2), (2, 4, 3, 3)])
def test_native_group_norm_checks_its_sizes(n, c, hxw, group):
    with pytest.raises(RuntimeError, match="native_group_norm"):
        flambeau.native_group_norm(flambeau.ones(2, 4, 3), None, None, n, c, hxw, group, 1e-5)


def test_native_group_norm_takes_its_shape_from_the_numbers():
    x = flambeau.randn(24)
    result, mean, _ = flambeau.native_group_norm(x, None, None, 2, 4, 3, 2, 1e-5)
    flambeau.testing.assert_close(result, nn.functional.group_norm(x.reshape(2, 4, 3), 2).reshape(24))
    assert mean.shape == (2, 2)


def test_a_profile_of_nothing_is_refused():
    activities = flambeau.profiler.ProfilerActivity
    with pytest.warns(UserWarning, match="CUDA"), pytest.raises(AssertionError, match="CPU"):
        flambeau.profiler.profile(activities=[activities.CUDA])
    with pytest.warns(UserWarning, match="CUDA"):
        flambeau.profiler.profile(activities=[activities.CPU, activities.CUDA])
    with pytest.raises(TypeError, match="ProfilerActivity"):
        flambeau.profiler.profile(activities=["cpu"])
    with pytest.raises(AssertionError, match="use_cpu"):
        flambeau.autograd.profiler.profile(use_cpu=False)
    with pytest.raises(TypeError, match="experimental_config"):
        flambeau.profiler.profile(experimental_config=object())


def test_dynamic_collection_is_of_the_activities_named():
    activities = flambeau.profiler.ProfilerActivity
    with flambeau.profiler.profile() as prof:
        with pytest.warns(UserWarning, match="CUDA"):
            prof.toggle_collection_dynamic(False, [activities.CUDA])
        flambeau.ones(2).exp()
        prof.toggle_collection_dynamic(False, [activities.CPU])
        flambeau.ones(2).sin()
    names = {e.name for e in prof.events()}
    assert "aten::exp" in names and "aten::sin" not in names


def test_accumulated_events_of_a_profile_used_twice():
    for keep, expected in ((False, 1), (True, 2)):
        prof = flambeau.autograd.profiler.profile(acc_events=keep)
        for _ in range(2):
            with prof:
                flambeau.ones(2).exp()
        assert sum(e.name == "aten::exp" for e in prof.function_events) == expected


def test_opcheck_compares_to_the_tolerances_given():
    name = "arguments::almost_square"
    square = flambeau.library.custom_op(name, lambda x: x * x, mutates_args=(), schema="(Tensor x) -> Tensor")
    square.register_fake(flambeau.empty_like)
    square.register_autograd(lambda ctx, g: 2.01 * ctx.x * g,
                             setup_context=lambda ctx, inputs, output: setattr(ctx, "x", inputs[0]))
    x = flambeau.tensor([1.5, 2.], dtype=flambeau.float64, requires_grad=True)
    with pytest.raises(RuntimeError):
        flambeau.library.opcheck(square, (x,))
    flambeau.library.opcheck(square, (x,), atol=0.1, rtol=0.1)
    with pytest.raises(ValueError, match="together"):
        flambeau.library.opcheck(square, (x,), atol=0.1)


def test_tags_and_alias_analysis_of_a_library():
    lib = flambeau.library.Library("arguments", "FRAGMENT")
    lib.define("tagged(Tensor x) -> Tensor", tags=(flambeau.Tag.pointwise,))
    assert flambeau.ops.arguments.tagged.default.tags == [flambeau.Tag.pointwise]
    flambeau.library.define("arguments::tagged2", "(Tensor x) -> Tensor", lib=lib, tags=flambeau.Tag.core)
    assert flambeau.ops.arguments.tagged2.default.tags == [flambeau.Tag.core]
    with pytest.raises(TypeError, match="Tag"):
        lib.define("wrong(Tensor x) -> Tensor", tags=("pointwise",))
    with pytest.raises(RuntimeError, match="alias_analysis"):
        lib.define("wrong(Tensor x) -> Tensor", "PERHAPS")
    other = flambeau.library.Library("arguments_too", "FRAGMENT")
    with pytest.raises(ValueError, match="arguments_too"):
        flambeau.library.impl("arguments::tagged", "cpu", lambda x: x, lib=other)


def test_an_implementation_is_replaced_with_a_warning_or_by_permission():
    lib = flambeau.library.Library("arguments", "FRAGMENT")
    lib.define("twice(Tensor x) -> Tensor")
    lib.impl("twice", lambda x: x * 2, "CPU")
    with pytest.warns(UserWarning, match="allow_override"):
        lib.impl("twice", lambda x: x + x, "CPU")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        lib.impl("twice", lambda x: x * 3, "CPU", allow_override=True)
    assert flambeau.ops.arguments.twice(flambeau.ones(1)).item() == 3


@pytest.mark.parametrize("name, known", [("blas", "cublaslt"), ("linalg", "magma"), ("rocm_fa", "ck")])
def test_preferred_libraries_are_those_there_are(name, known):
    preferred = getattr(flambeau.backends.cuda, f"preferred_{name}_library")
    assert preferred() is preferred("default") is preferred(preferred())
    with pytest.raises(RuntimeError, match="not available"):
        preferred(known)
    for wrong in ("nonsense", 3):
        with pytest.raises(RuntimeError, match="expected one of"):
            preferred(wrong)


def test_nothing_is_available_that_is_not():
    assert flambeau.amp.is_autocast_available("cpu") and flambeau.amp.is_autocast_available("cpu:0")
    assert not any(map(flambeau.amp.is_autocast_available, ("cuda", "mps", "xpu", "meta")))
    assert not flambeau.profiler.kineto_available()


def test_dim_order_says_when_it_is_ambiguous():
    assert flambeau.ones(2, 3).dim_order(ambiguity_check=True) == (0, 1)
    for check in (True, [flambeau.contiguous_format, flambeau.channels_last]):
        with pytest.raises(RuntimeError, match="not unique"):
            flambeau.ones(1, 1, 1, 1).dim_order(ambiguity_check=check)
    with pytest.raises(TypeError, match="ambiguity_check"):
        flambeau.ones(2).dim_order(ambiguity_check="yes")
    with pytest.raises(AttributeError, match="sparse_coo has no memory"):
        flambeau.ones(2).to_sparse().dim_order()


def test_devices_that_are_not_there():
    with pytest.raises(AssertionError, match="fork_rng"):
        flambeau.random.fork_rng(devices=[0])
    with pytest.raises(ValueError, match="CPU"):
        flambeau.cpu.synchronize("cuda")
    with pytest.raises(RuntimeError, match="device"):
        nn.parallel.data_parallel(nn.Identity(), flambeau.ones(1), device_ids=[0])
    with pytest.raises(RuntimeError):
        flambeau.ones(1).is_pinned("nonsense")
    with pytest.raises(RuntimeError):
        flambeau.autograd.graph.save_on_cpu(device_type="nonsense")


def test_the_level_of_a_dual_tensor():
    from flambeau.autograd import forward_ad

    with forward_ad.dual_level():
        x = forward_ad.make_dual(flambeau.ones(1), flambeau.ones(1))
        assert forward_ad.unpack_dual(x, level=0).tangent is not None
        assert forward_ad.unpack_dual(x, level=5).tangent is None


def test_smaller_ones():
    with pytest.warns(UserWarning, match="eps"):
        nn.functional.gumbel_softmax(flambeau.zeros(2, 3), eps=0.1)
    with pytest.raises(NotImplementedError, match="shared"):
        flambeau.UntypedStorage.from_buffer(b"1234", shared=True)
    with pytest.raises(TypeError, match="misspelled"):
        flambeau.utils._pytree.register_pytree_node(io.BytesIO, None, None, misspelled=1)
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        nn.functional.softmax(flambeau.zeros(2), _stacklevel=2)
    assert found and Path(found[0].filename).name == "functional.py"
