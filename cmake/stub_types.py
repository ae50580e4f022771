"""What the stubs say of Python functions, whose sources carry no annotations: types by parameter name and by place.

A parameter's type is the first of: its entry in SIGNATURES, its name in PARAMETERS, its default's own type, Any. A
result's type is the first of: RESULTS, what the function's `return` statements show (stub_python.py), Any. The tables
say less rather than more than is accepted: a type that is too narrow refuses a correct program.
"""

import re


def table(*rows):
    """{name: type} of rows (type, "name name …")."""
    return {name: kind for kind, names in rows for name in names.split()}


#: any function, any class: what a parameter of this name is
PARAMETERS = table(
    ("Tensor", "input target tensor query key value logits log_probs targets input1 input2 x1 x2 anchor"
               " positive negative"),
    ("Tensor | None", "attn_mask key_padding_mask src_mask tgt_mask memory_mask src_key_padding_mask"
                      " tgt_key_padding_mask memory_key_padding_mask"),
    ("int", "in_features out_features in_channels out_channels num_features num_embeddings embedding_dim input_size"
            " hidden_size num_layers embed_dim num_heads num_groups num_channels groups in1_features in2_features"
            " step_size T_max T_0 n_classes d_model nhead dim_feedforward upscale_factor downscale_factor"
            " num_parameters blank patience cooldown dim start_dim end_dim num_workers wait warmup active repeat"
            " skip_first row_limit diagonal seed"),
    ("int | None", "padding_idx last_epoch proj_size kdim vdim num_samples"),
    ("int | Sequence[int]", "kernel_size stride dilation output_padding normalized_shape milestones"),
    ("str | int | Sequence[int]", "padding"),
    ("float", "lr weight_decay momentum dampening gamma eps alpha rho p gain lambd lr_decay max_norm norm_type max_lr"
              " base_lr clip_value eta_min margin beta min_lr negative_slope std low high rtol atol start_factor"
              " end_factor factor growth_factor backoff_factor init_scale label_smoothing smoothing ratio"),
    ("float | None", "smoothing_factor growth_interval_factor"),
    ("bool", "inplace bias affine track_running_stats batch_first bidirectional elementwise_affine keepdim"
             " requires_grad ceil_mode count_include_pad return_indices recurse strict training pin_memory shuffle"
             " drop_last persistent_workers create_graph nesterov maximize amsgrad differentiable capturable"
             " prepend with_kwargs always_call enabled norm_first add_zero_attn add_bias_kv equal_nan"
             " set_to_none remove_duplicate persistent"),
    ("str", "reduction padding_mode nonlinearity"),
    ("dtype | None", "dtype"),
    ("device | str | int | None", "device map_device"),
    ("memory_format | None", "memory_format"),
    ("Generator | None", "generator"),
    ("Tensor | Iterable[Tensor]", "parameters"),
    ("Iterable[Tensor] | Iterable[dict[str, Any]] | Iterable[tuple[str, Tensor]]", "params"),
    ("Optimizer", "optimizer"),
    ("Module", "module"),
    ("tuple[float, float]", "betas"),
    ("Any", "size scale_factor weight bias_k mask"),
)
#: what a module's stub imports besides
IMPORTS = {"flambeau.utils.data.dataloader": "from flambeau.utils.data.dataset import Dataset as _Dataset"}
#: the same inside one module only, by its beginning
LOCAL = {
    "flambeau.export.decomp_utils": table(("Any", "key value other")),
    "flambeau.nn.functional": table(("Any", "bias value padding mode"), ("Tensor", "weight other")),
    "flambeau.nn.modules": table(("float", "value"), ("Any", "padding mode key name"), ("Tensor", "key query")),
    "flambeau.nn.modules.padding": table(("Any", "padding"), ("float", "value")),
    "flambeau.nn.modules.container": table(("Any", "key module value prefix")),
    "flambeau.nn.modules.parameter_container": table(("Any", "key value parameters")),
    "flambeau.nn.modules.module": table(("Any", "value strict dtype device target"), ("str", "name prefix")),
    "flambeau.nn.modules.attention": table(("Tensor", "value")),
    "flambeau.debug._summary": table(("Any", "input")), "flambeau.debug._check": table(("Any", "input target")),
    "flambeau.nn.utils.prune": table(("Any", "parameters dim")),
    "flambeau.nn.utils": table(("Any", "name value dim mode input weight key"), ("Module", "module")),
    "flambeau.nn.init": table(("float", "a b mean val"), ("str", "mode")),
    "flambeau.nn.parallel": table(("Any", "module input target inputs")),
    "flambeau.nn.attention": table(("Any", "mode")),
    "flambeau.optim": table(("float | Tensor", "lr"), ("Any", "mode gamma max_lr base_lr momentum milestones min_lr key"
                                                             " value eps factor last_epoch")),
    "flambeau.utils": table(("Any", "input key value mode name target weight size generator params dtype device")),
    "flambeau.distributions": table(("Any", "p q value loc scale df low high mean")),
    "flambeau.utils.tensorboard": table(
        ("Any", "tensor values bins labels predictions weights tp fp tn fn precision recall vertices colors faces rois "
                "mat label_img tensor_image tensor_boxes")),
    "flambeau.utils.data.dataloader": table(("_Dataset[_T]", "dataset"), ("int | None", "batch_size")),
    **dict.fromkeys(("flambeau.func", "flambeau._transforms"),
                    table(("Any", "input target value key module params strict mode name"))),
    "flambeau.autograd": table(("Any", "input value key mode name target module device p")),
    "flambeau.fx": table(
        ("Any", "target input value key module params dim name mode size device dtype padding weight")),
    "flambeau.library": table(("Any", "name value key mode")),
    "flambeau.profiler": table(("Any", "value key name")),
    "flambeau.masked": table(("Any", "value dtype weight")),
    **dict.fromkeys(("flambeau.overrides", "flambeau._tensor.overriding"), table(("Any", "value name mode input"))),
    "flambeau.serialization": table(("Any", "name value")),
    **dict.fromkeys(("flambeau.storage", "flambeau._tensor.storage"),
                    table(("Any", "value key size dtype device name"))),
    "flambeau._tensor.queries": table(("Any", "tensor size")),
    "flambeau._tensor.creation": {},
    "flambeau.testing": table(("Any", "low high rtol atol device dtype size")),
    "flambeau._absent.symbols": table(("Any", "input value name")),
    "flambeau.hub": table(("Any", "name mode")),
    "flambeau.multiprocessing": table(("Any", "name value device size")),
    "flambeau.debug": table(("Any", "name value params mode key")),
}
#: places with a signature of their own, as PyTorch documents it
SIGNATURES = {
    "flambeau._tensor.creation.tensor":
        "(data: Any, *, dtype: dtype | None = None, device: device | str | int | None = None,"
        " requires_grad: bool = False, pin_memory: bool = False) -> Tensor",
    **{f"flambeau.nn.grad.conv{n}d_input":
       "(input_size: Sequence[int], weight: Tensor, grad_output: Tensor, stride: int | Sequence[int] = 1,"
       " padding: str | int | Sequence[int] = 0, dilation: int | Sequence[int] = 1, groups: int = 1) -> Tensor"
       for n in (1, 2, 3)},
    **{f"flambeau.autograd.function.Function.{name}": "(*args: Any, **kwargs: Any) -> Any"
       for name in ("forward", "backward", "setup_context", "vmap", "jvp")},
    "flambeau.library._library.CustomOpDef.register_fake": "(self, fn: _F, /) -> _F",
    "flambeau.library._library.custom_op": [
        "(name: str, fn: None = None, /, *, mutates_args: Any, device_types: Any = None, schema: str | None = None,"
        " tags: Any = None) -> Callable[[Callable[..., Any]], CustomOpDef]",
        "(name: str, fn: Callable[..., Any], /, *, mutates_args: Any, device_types: Any = None,"
        " schema: str | None = None, tags: Any = None) -> CustomOpDef"],
    "flambeau.utils.data.dataloader.DataLoader.__iter__": "(self) -> Iterator[Any]",
    "flambeau.distributions.constraints._Dependent.__call__": "(self, *args: Any, **kwargs: Any) -> Any",
    "flambeau.distributions.constraints._DependentProperty.__call__": "(self, *args: Any, **kwargs: Any) -> Any",
    "flambeau.utils.data.dataset.Dataset.__getitem__": "(self, index: Any) -> _T",
    "flambeau.utils.data.dataset.IterableDataset.__iter__": "(self) -> Iterator[_T]",
    "flambeau.utils.data.sampler.Sampler.__iter__": "(self) -> Iterator[_T]",
    "flambeau.nn.modules.module.Module.parameters": "(self, recurse: bool = True) -> Iterator[Parameter]",
    "flambeau.nn.modules.module.Module.named_parameters":
        "(self, prefix: str = '', recurse: bool = True, remove_duplicate: bool = True)"
        " -> Iterator[tuple[str, Parameter]]",
    "flambeau.nn.modules.module.Module.buffers": "(self, recurse: bool = True) -> Iterator[Tensor]",
    "flambeau.nn.modules.module.Module.named_buffers":
        "(self, prefix: str = '', recurse: bool = True, remove_duplicate: bool = True) -> Iterator[tuple[str, Tensor]]",
    "flambeau.nn.modules.module.Module.apply": "(self, fn: Callable[[Module], Any]) -> Self",
    "flambeau.nn.modules.container.ModuleList.__getitem__": "(self, index: Any) -> Any",
    "flambeau.nn.modules.container.ModuleList.__iter__": "(self) -> Iterator[Module]",
    "flambeau.nn.modules.container.Sequential.__iter__": "(self) -> Iterator[Module]",
    "flambeau.nn.modules.container.Sequential.__getitem__": "(self, index: Any) -> Any",
    "flambeau.nn.modules.container.Sequential.__init__": "(self, *args: Any) -> None",
    "flambeau.nn.modules.container.Sequential.forward": "(self, input: Any) -> Any",
    "flambeau.optim.optimizer.Optimizer.step": "(self, closure: Callable[[], Any] | None = None) -> Any",
    "flambeau.optim.optimizer.Optimizer.zero_grad": "(self, set_to_none: bool = True) -> None",
    "flambeau.nn.init.calculate_gain": "(nonlinearity: str, param: float | None = None) -> float",
    "flambeau.nn.parameter.Parameter.__new__": "(cls, data: Any = None, requires_grad: bool = True) -> Self",
    "flambeau.nn.parameter.Buffer.__new__": "(cls, data: Any = None, *, persistent: bool = True) -> Self",
    "flambeau.random.manual_seed": "(seed: int) -> Generator",
    "flambeau._tensor.methods.to": "(self, *args: Any, **kwargs: Any) -> Tensor",
    "flambeau._tensor.methods.backward": "(self, gradient: Tensor | None = None, retain_graph: bool | None = None,"
                                " create_graph: bool = False, inputs: Any = None) -> None",
    "flambeau._tensor.methods.register_hook": "(self, hook: Callable[[Tensor], Any]) -> RemovableHandle",
}
#: definitions that a class has in its stub besides its own
MORE = {
    "flambeau.ops": "def __getattr__(name: str) -> Any: ...",  # libraries add namespaces
    "flambeau.version": "cuda: str | None",
    "flambeau.nn.modules.module.Module":  # parameters, buffers, layers
        "def __getattr__(self, name: str) -> Any: ...\ndef __setattr__(self, name: str, value: Any) -> None: ...",
    "flambeau.nn.modules.rnn.LSTM":
        "def __call__(self, input: Any, hx: Any = None) -> tuple[Any, tuple[Tensor, Tensor]]: ...",
    **{f"flambeau.nn.modules.rnn.{name}": "def __call__(self, input: Any, hx: Any = None) -> tuple[Any, Tensor]: ..."
       for name in ("RNN", "GRU")},
}
#: results by place, or by name in every place
RESULTS = {
    "flambeau.autograd.grad": "tuple[Tensor, ...]", "flambeau.autograd._call.grad": "tuple[Tensor, ...]",
    "flambeau.nn.modules.attention.MultiheadAttention.forward": "tuple[Tensor, Any]",
    "flambeau.nn.modules.rnn.RNNBase.forward": "Any",
    "flambeau.nn.modules.rnn.LSTMCell.forward": "tuple[Tensor, Tensor]",
    "flambeau.nn.modules.adaptive.AdaptiveLogSoftmaxWithLoss.forward": "Any",
    "flambeau.nn.functional.multi_head_attention_forward": "tuple[Tensor, Any]",
    "flambeau.nn.utils.clip_grad.clip_grad_value_": "None",
    "state_dict": "dict[str, Any]", "numel": "int", "element_size": "int", "is_tensor": "bool",
    "__len__": "int", "__bool__": "bool", "__contains__": "bool", "__iter__": "Iterator[Any]", "extra_repr": "str",
    "flambeau.optim.lr_scheduler._base.LRScheduler.get_last_lr": "list[Any]",
    "flambeau.optim.lr_scheduler._base.LRScheduler.get_lr": "list[Any]",
    "flambeau._settings.get_default_dtype": "dtype", "flambeau._settings.get_num_threads": "int",
    "flambeau._tensor.dtypes.promote_types": "dtype", "flambeau._tensor.dtypes.result_type": "dtype",
    "flambeau._tensor.dtypes.can_cast": "bool",
    **{f"flambeau._tensor.queries.{name}": "bool" for name in
       "equal allclose is_floating_point is_complex is_signed is_inference".split()},
    "flambeau._tensor.queries.broadcast_shapes": "Size", "flambeau._tensor.queries.numel": "int",
    "flambeau._tensor.queries.detach_": "Tensor", "flambeau._tensor.queries.resolve_conj": "Tensor",
    "flambeau.random.initial_seed": "int", "flambeau.random.seed": "int", "flambeau.random.get_rng_state": "Tensor",
    "flambeau._tensor.creation.new_tensor": "Tensor",
    "is_node_supported": "bool", "is_grad_enabled": "bool", "is_inference_mode_enabled": "bool",
}
#: modules whose functions (or forward methods) give a Tensor unless something above says otherwise
TENSOR_RESULTS = ("flambeau.nn.functional", "flambeau.nn.init", "flambeau._tensor.creation", "flambeau.signal",
                  "flambeau.nn._chunked_loss", "flambeau.masked", "flambeau.nn.utils.clip_grad")
#: attributes of instances, by name
ATTRIBUTES = table(
    ("Parameter", "weight"), ("Tensor", "running_mean running_var num_batches_tracked"), ("bool", "training"),
    ("list[dict[str, Any]]", "param_groups"), ("int", "in_features out_features in_channels out_channels last_epoch"),
    ("dict[Any, Any]", "state"), ("Any", "cls_to_become"),
)
#: methods whose parameters differ from those of the base's method, as they do in PyTorch
OTHER_PARAMETERS = re.compile(r"flambeau\.(optim\.(lbfgs|lr_scheduler)\.\w*\.?\w+\.step|nn\.utils\.prune\.\w+\.apply|"
                              r"masked\.maskedtensor\.core\.MaskedTensor\.is_sparse_csr|"
                              r"ao\.nn\.intrinsic\.(modules\.fused|quantized\.modules\.conv_add)\.\w+\.forward|"
                              r"ao\.nn\.(intrinsic\.quantized\.modules\.linear_relu|quantized\.dynamic\.modules\.linear)"
                              r"\.\w+\.from_reference|"
                              r"jit\._containers\.ScriptList\.__setitem__)$")
#: attributes of Tensor
PROPERTIES = table(
    ("Size", "shape"), ("dtype", "dtype"), ("layout", "layout"), ("int", "ndim itemsize nbytes output_nr _version"),
    ("bool", "requires_grad"), ("Tensor | None", "grad"), ("Tensor", "data T mT H mH real imag"), ("device", "device"))
SETTABLE = set("requires_grad grad data real imag".split())
#: methods of Tensor that are not operators
METHODS = {
    "size": ["(self, dim: None = None) -> Size", "(self, dim: int) -> int"],
    "stride": ["(self, dim: None = None) -> tuple[int, ...]", "(self, dim: int) -> int"],
    "item": ["(self) -> Any"], "tolist": ["(self) -> Any"], "numpy": ["(self, *, force: bool = False) -> Any"],
    "requires_grad_": ["(self, requires_grad: bool = True) -> Self"],
    "detach": ["(self) -> Tensor"], "detach_": ["(self) -> Self"],
    "as_subclass": ["(self, cls: type[_T], /) -> _T"],
    "is_contiguous": ["(self, memory_format: memory_format = ...) -> bool"],
    **{name: ["(self) -> int"] for name in
       "dim ndimension numel nelement data_ptr storage_offset element_size get_device".split()},
    **{name: ["(self) -> bool"] for name in
       "is_floating_point is_complex is_inference is_conj is_neg is_nonzero".split()},
    **{name: ["(self, memory_format: memory_format | None = None) -> Tensor"] for name in
       "bool byte char short int long half bfloat16 float double cfloat cdouble cpu".split()},
    "type_as": ["(self, other: Tensor) -> Tensor"],
    "type": ["(self, dtype: None = None) -> str", "(self, dtype: Any, non_blocking: bool = False) -> Tensor"],
    "cuda": ["(self, device: Any = None, non_blocking: bool = False,"
             " memory_format: memory_format | None = None) -> Tensor"],
}
#: operators of Python on tensors
OPERATORS = table(
    ("other: Any", "add radd sub rsub mul rmul truediv rtruediv floordiv rfloordiv mod rmod pow rpow matmul rmatmul"),
    ("other: Any", "and rand or ror xor rxor lshift rshift rlshift rrshift lt le gt ge eq ne"),
    ("", "neg pos abs invert"))
IN_PLACE = "iadd isub imul itruediv ifloordiv imod ipow iand ior ixor ilshift irshift".split()
