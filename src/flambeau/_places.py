"""Where PyTorch has what this library keeps in another module: the names of pickles and of `import torch.x.y`."""

#: the names under which this library is imported in this process; `as_torch` adds "torch"
ROOTS = {"flambeau"}

#: theirs, ours ("." is the package itself), names
_TABLE = """
_higher_order_ops.associative_scan control_flow associative_scan
_higher_order_ops.cond control_flow cond
_higher_order_ops.map control_flow map
_higher_order_ops.inline_asm_elementwise _higher_order_ops inline_asm_elementwise
_higher_order_ops.out_dtype _higher_order_ops out_dtype
_higher_order_ops.scan control_flow scan
_higher_order_ops.while_loop control_flow while_loop
autograd.profiler_util autograd._profiler_events EventList FunctionEvent
autograd.variable autograd.function Variable
cuda.amp.autocast_mode cuda.amp autocast custom_bwd custom_fwd
cuda.amp.common cuda.amp amp_definitely_not_available
cuda.amp.grad_scaler cuda.amp GradScaler
cuda.memory cuda caching_allocator_alloc caching_allocator_delete caching_allocator_disabled caching_allocator_enable
cuda.memory cuda change_current_allocator CUDAPluggableAllocator empty_cache get_allocator_backend list_gpu_processes
cuda.memory cuda host_memory_stats host_memory_stats_as_nested_dict max_memory_allocated max_memory_cached
cuda.memory cuda max_memory_reserved mem_get_info memory_allocated memory_cached memory_reserved memory_snapshot
cuda.memory cuda memory_stats memory_stats_as_nested_dict memory_summary MemPool reset_accumulated_memory_stats
cuda.memory cuda reset_max_memory_allocated reset_max_memory_cached reset_peak_memory_stats use_mem_pool
cuda.memory cuda get_per_process_memory_fraction set_per_process_memory_fraction
cuda.memory cuda _record_memory_history _snapshot _dump_snapshot
distributions.bernoulli distributions.counts Bernoulli
distributions.beta distributions.bounded Beta
distributions.binomial distributions.counts Binomial
distributions.categorical distributions.categories Categorical
distributions.cauchy distributions.location_scale Cauchy
distributions.chi2 distributions.positive Chi2
distributions.continuous_bernoulli distributions.bounded ContinuousBernoulli
distributions.dirichlet distributions.bounded Dirichlet
distributions.exponential distributions.positive Exponential
distributions.fishersnedecor distributions.positive FisherSnedecor
distributions.gamma distributions.positive Gamma
distributions.generalized_pareto distributions.positive GeneralizedPareto
distributions.geometric distributions.counts Geometric
distributions.gumbel distributions.location_scale Gumbel
distributions.half_cauchy distributions.positive HalfCauchy
distributions.half_normal distributions.positive HalfNormal
distributions.inverse_gamma distributions.positive InverseGamma
distributions.kumaraswamy distributions.bounded Kumaraswamy
distributions.laplace distributions.location_scale Laplace
distributions.lkj_cholesky distributions.matrices LKJCholesky
distributions.log_normal distributions.positive LogNormal
distributions.logistic_normal distributions.bounded LogisticNormal
distributions.lowrank_multivariate_normal distributions.gaussian LowRankMultivariateNormal
distributions.multinomial distributions.categories Multinomial
distributions.multivariate_normal distributions.gaussian MultivariateNormal
distributions.negative_binomial distributions.counts NegativeBinomial
distributions.normal distributions.location_scale Normal
distributions.one_hot_categorical distributions.categories OneHotCategorical OneHotCategoricalStraightThrough
distributions.pareto distributions.positive Pareto
distributions.poisson distributions.counts Poisson
distributions.relaxed_bernoulli distributions.relaxed LogitRelaxedBernoulli RelaxedBernoulli
distributions.relaxed_categorical distributions.relaxed ExpRelaxedCategorical RelaxedOneHotCategorical
distributions.studentT distributions.positive StudentT
distributions.transforms distributions._transform Transform _InverseTransform ComposeTransform IndependentTransform
distributions.transforms distributions._transform ReshapeTransform
distributions.transforms distributions._transform_slices CatTransform StackTransform
distributions.uniform distributions.location_scale Uniform
distributions.von_mises distributions.location_scale VonMises
distributions.weibull distributions.positive Weibull
distributions.wishart distributions.matrices Wishart
distributed._composable.fsdp distributed.fsdp fully_shard FSDPModule MixedPrecisionPolicy CPUOffloadPolicy OffloadPolicy
distributed._composable_state distributed.fsdp._state _get_module_state
distributed._tensor distributed.tensor DTensor Shard Replicate Partial Placement DeviceMesh distribute_tensor
distributed._tensor distributed.tensor distribute_module
distributed._tensor.api distributed.tensor DTensor distribute_tensor distribute_module
distributed._tensor.device_mesh distributed.device_mesh DeviceMesh init_device_mesh
distributed._tensor.experimental distributed.tensor.experimental implicit_replication context_parallel
distributed._tensor.placement_types distributed.tensor Shard Replicate Partial Placement
distributed._tensor.placement_types distributed.tensor._dtensor_spec DTensorSpec TensorMeta
distributed.checkpoint.filesystem distributed.checkpoint._storage_info _StorageInfo
distributed.constants distributed default_pg_timeout
distributed.fsdp._common_utils distributed.fsdp.fully_sharded_data_parallel _FSDPState
distributed.distributed_c10d distributed all_gather all_reduce broadcast barrier Backend get_rank get_world_size group
distributed.distributed_c10d distributed GroupMember init_process_group is_initialized ProcessGroup ReduceOp
distributed.distributed_c10d distributed is_nccl_available is_gloo_available is_mpi_available is_xccl_available
distributed.distributed_c10d distributed._groups _get_default_group _get_global_rank _pg_map _rank_not_in_group
distributed.distributed_c10d distributed._groups _resolve_process_group
distributed.distributed_c10d distributed Store TCPStore FileStore HashStore PrefixStore Work P2POp DistBackendError
distributed.distributed_c10d distributed DistError DistNetworkError DistStoreError reduce reduce_scatter
distributed.distributed_c10d distributed all_gather_into_tensor reduce_scatter_tensor all_to_all all_to_all_single
distributed.distributed_c10d distributed gather scatter send recv isend irecv batch_isend_irecv new_group new_subgroups
distributed.distributed_c10d distributed destroy_process_group get_backend get_global_rank get_group_rank
distributed.distributed_c10d distributed get_process_group_ranks all_gather_object broadcast_object_list gather_object
distributed.distributed_c10d distributed scatter_object_list monitored_barrier default_pg_timeout supports_complex
distributed.rendezvous distributed register_rendezvous_handler
distributed.rendezvous distributed._rendezvous rendezvous
distributed.nn distributed._autograd all_gather all_reduce all_to_all all_to_all_single broadcast gather reduce
distributed.nn distributed._autograd reduce_scatter scatter
distributed.nn.functional distributed._autograd all_gather all_reduce all_to_all all_to_all_single broadcast
distributed.nn.functional distributed._autograd gather reduce reduce_scatter scatter
distributed.fsdp.api distributed.fsdp BackwardPrefetch CPUOffload FullOptimStateDictConfig FullStateDictConfig
distributed.fsdp.api distributed.fsdp LocalOptimStateDictConfig LocalStateDictConfig MixedPrecision
distributed.fsdp.api distributed.fsdp OptimStateDictConfig ShardedOptimStateDictConfig ShardedStateDictConfig
distributed.fsdp.api distributed.fsdp ShardingStrategy StateDictConfig StateDictSettings StateDictType
distributed.tensor.device_mesh distributed.device_mesh DeviceMesh init_device_mesh
distributed.tensor.parallel.loss distributed.tensor.parallel loss_parallel
export.dynamic_shapes export Constraint Dim ShapesCollection dims
export.exported_program export ExportedProgram ModuleCallEntry ModuleCallSignature
export.graph_signature export ExportBackwardSignature ExportGraphSignature
functional . broadcast_tensors split einsum meshgrid stft unique unique_consecutive tensordot cartesian_prod
functional . block_diag cdist atleast_1d atleast_2d atleast_3d norm unravel_index chain_matmul lu
functional _tensor.queries broadcast_shapes
fx._symbolic_trace fx._concrete PH PHBase PHWithMeta _assert_is_none
fx.graph fx._codegen CodeGen PythonCode _BoxedCodeGen
fx.graph fx._pytree_codegen _PyTreeCodeGen _PyTreeInfo
library library._library Library
_library.infer_schema library infer_schema
sparse._triton_ops_meta _absent.triton get_meta minimize update
utils._triton _absent.triton has_triton has_triton_package has_triton_tma has_triton_tma_device
nn.attention _attention_ways SDPBackend
nn.modules.activation nn.modules.attention MultiheadAttention
nn.modules.batchnorm nn.modules.lazy LazyBatchNorm1d LazyBatchNorm2d LazyBatchNorm3d
nn.modules.channelshuffle nn.modules.pixelshuffle ChannelShuffle
nn.modules.container nn.modules.parameter_container ParameterDict ParameterList
nn.modules.conv nn.modules.lazy LazyConv1d LazyConv2d LazyConv3d LazyConvTranspose1d LazyConvTranspose2d
nn.modules.conv nn.modules.lazy LazyConvTranspose3d
nn.modules.instancenorm nn.modules.batchnorm _InstanceNorm InstanceNorm1d InstanceNorm2d InstanceNorm3d
nn.modules.instancenorm nn.modules.lazy LazyInstanceNorm1d LazyInstanceNorm2d LazyInstanceNorm3d
nn.modules.module nn.modules._state _IncompatibleKeys _EXTRA_STATE_KEY_SUFFIX
nn.modules.linear nn.modules.attention NonDynamicallyQuantizableLinear
nn.modules.linear nn.modules.lazy LazyLinear
nn.modules.linear_cross_entropy_options nn._chunked_loss LinearCrossEntropyOptions
nn.parallel.parallel_apply nn.parallel.apply parallel_apply
nn.utils.spectral_norm nn.utils.weight_norm spectral_norm remove_spectral_norm
optim optim.adafactor Adafactor
optim optim.muon Muon
optim.adamw optim.adam AdamW adamw
optim.lr_scheduler optim.lr_scheduler._base LRScheduler _LRScheduler
optim.lr_scheduler optim.lr_scheduler._compose ChainedScheduler SequentialLR
optim.lr_scheduler optim.lr_scheduler._cycles CosineAnnealingWarmRestarts CyclicLR OneCycleLR
optim.lr_scheduler optim.lr_scheduler._epochs ConstantLR CosineAnnealingLR ExponentialLR LambdaLR LinearLR MultiStepLR
optim.lr_scheduler optim.lr_scheduler._epochs MultiplicativeLR PolynomialLR StepLR
optim.lr_scheduler optim.lr_scheduler._plateau ReduceLROnPlateau
overrides _tensor.overriding TorchFunctionMode
profiler.profiler profiler._profile supported_activities ProfilerAction schedule tensorboard_trace_handler profile
profiler.profiler profiler._profile _default_schedule_fn
profiler.profiler profiler._execution_trace ExecutionTraceObserver
_library.custom_ops library._library CustomOpDef custom_op
distributed.optim.apply_optimizer_in_backward distributed.optim _apply_optimizer_in_backward
distributed.optim.apply_optimizer_in_backward distributed.optim _get_in_backward_optimizers
signal.windows.windows signal.windows exponential cosine gaussian kaiser hamming hann blackman bartlett general_cosine
signal.windows.windows signal.windows general_hamming nuttall
sparse.semi_structured sparse SparseSemiStructuredTensor to_sparse_semi_structured SparseSemiStructuredTensorCUTLASS
sparse.semi_structured sparse SparseSemiStructuredTensorCUSPARSELT
storage _tensor.storage UntypedStorage TypedStorage
utils.model_zoo hub tqdm
xpu.memory xpu empty_cache max_memory_allocated max_memory_reserved mem_get_info memory_allocated memory_reserved
xpu.memory xpu memory_stats reset_peak_memory_stats
xpu.random xpu get_rng_state get_rng_state_all initial_seed manual_seed manual_seed_all seed seed_all
xpu.random xpu set_rng_state set_rng_state_all
xpu.streams xpu Event Stream
utils._python_dispatch _tensor.overriding TorchDispatchMode
utils._contextlib autograd.grad_mode _DecoratorContextManager
utils._pytree utils._pytree._nodes NodeDef SequenceKey MappingKey GetAttrKey
utils._pytree utils._pytree._spec TreeSpec LeafSpec
utils.checkpoint utils._selective SelectiveCheckpointContext CheckpointPolicy
utils.dlpack _tensor.dlpack DLDeviceType
"""


#: where PyTorch shows it besides
_ALSO = """
_lowrank . pca_lowrank svd_lowrank
_tensor_str . set_printoptions
_tensor_str _tensor.printing PRINT_OPTS _add_suffixes _str_intern _tensor_str
ao.quantization.fuser_method_mappings ao.quantization fuse_conv_bn fuse_conv_bn_relu fuse_linear_bn
ao.quantization.observer ao.quantization HistogramObserver default_histogram_observer
ao.quantization.qconfig ao.quantization QConfigAny get_default_qat_qconfig
ao.quantization.qconfig_mapping ao.quantization QConfigMapping get_default_qat_qconfig_mapping
ao.quantization.qconfig_mapping ao.quantization get_default_qconfig_mapping
ao.quantization.quantization_mappings ao.quantization get_default_dynamic_quant_module_mappings
ao.quantization.quantization_mappings ao.quantization get_default_qat_module_mappings
ao.quantization.quantization_mappings ao.quantization get_default_static_quant_module_mappings
ao.quantization.quantization_mappings ao.quantization get_dynamic_quant_module_class
ao.quantization.quantize ao.quantization add_quant_dequant prepare prepare_qat quantize quantize_qat
ao.quantization.stubs ao.quantization DeQuantStub QuantStub QuantWrapper
distributed._dist2 distributed ProcessGroup ReduceOp
distributed.checkpoint.hf_storage distributed.checkpoint HuggingFaceStorageWriter
distributed.checkpoint.quantized_hf_storage distributed.checkpoint QuantizedHuggingFaceStorageReader
distributed.distributed_c10d distributed BackendConfig DebugLevel GroupName all_gather_coalesced all_gather_single
distributed.distributed_c10d distributed all_reduce_coalesced get_backend_config get_debug_level
distributed.distributed_c10d distributed get_default_backend_for_device get_node_local_rank get_pg_count
distributed.distributed_c10d distributed is_backend_available is_torchelastic_launched is_ucc_available
distributed.distributed_c10d distributed new_subgroups_by_enumeration record_comm recv_object_list
distributed.distributed_c10d distributed reduce_scatter_single send_object_list shrink_group split_group
distributed.elastic.multiprocessing.api distributed.elastic.multiprocessing DefaultLogsSpecs LogsSpecs Std
distributed.elastic.multiprocessing.errors.error_handler distributed.elastic.multiprocessing.errors ErrorHandler
distributed.elastic.multiprocessing.errors.handlers distributed.elastic.multiprocessing.errors get_error_handler
distributed.optim.optimizer distributed.optim DistributedOptimizer
distributed.optim.post_localSGD_optimizer distributed.optim PostLocalSGDOptimizer
distributed.optim.zero_redundancy_optimizer distributed.optim ZeroRedundancyOptimizer
distributed.rendezvous distributed default_pg_timeout
distributed.tensor._api distributed.tensor empty full ones rand randn zeros
export.decomp_utils export CustomDecompTable
export.exported_program export default_decompositions
distributed.fsdp.fully_sharded_data_parallel distributed.fsdp ShardedOptimStateDictConfig ShardedStateDictConfig
functional . istft pca_lowrank svd_lowrank
mps.event mps Event
mtia.memory mtia max_memory_allocated memory_allocated memory_stats reset_peak_memory_stats
mtia.mtia_graph mtia MTIAGraph graph_pool_handle
nn.modules nn LinearCrossEntropyOptions
nn.quantized.dynamic.modules nn.quantized.dynamic LSTM Linear
nn.quantized.dynamic.modules.rnn nn.quantized.dynamic LSTM
nn.quantized.modules nn.quantized FXFloatFunctional FloatFunctional QFunctional
nn.quantized.modules.functional_modules nn.quantized FXFloatFunctional FloatFunctional QFunctional
onnx._internal.exporter onnx ONNXProgram
optim._adafactor optim Adafactor
optim._muon optim Muon
package.file_structure_representation package Directory
package.glob_group package GlobGroup
package.importer package Importer ObjMismatchError ObjNotFoundError OrderedImporter
package.package_exporter package EmptyMatchError PackageExporter PackagingError
package.package_importer package PackageImporter
utils.benchmark.utils.common utils.benchmark Measurement TaskSpec ordered_unique select_unit set_torch_threads
utils.benchmark.utils.common utils.benchmark trim_sigfig unit_to_english
utils.benchmark.utils.compare utils.benchmark Colorize Compare
utils.benchmark.utils.timer utils.benchmark Language Timer timer
utils.data.datapipes.iter.combining utils.data.datapipes.iter.splitting DemultiplexerIterDataPipe ForkerIterDataPipe
utils._foreach_utils optim._for_others _group_tensors_by_device_and_dtype
xpu.graphs xpu XPUGraph graph_pool_handle is_current_stream_capturing make_graphed_callables
xpu.memory xpu MemPool XPUPluggableAllocator change_current_allocator get_per_process_memory_fraction memory_snapshot
xpu.memory xpu memory_stats_as_nested_dict reset_accumulated_memory_stats set_per_process_memory_fraction use_mem_pool
"""


def _rows(table):
    for line in table.split("\n")[1:-1]:
        theirs, ours, *names = line.split()
        yield f"torch.{theirs}", "flambeau" if ours == "." else f"flambeau.{ours}", names


#: (our module, name) -> PyTorch's module
THEIRS = {(ours, name): theirs for theirs, ours, names in _rows(_TABLE) for name in names}
#: (PyTorch's module, name) -> our module
OURS = {(theirs, name): ours for table in (_ALSO, _TABLE) for theirs, ours, names in _rows(table) for name in names}


def torch_module(module, name):
    """The module in which PyTorch has what is `name` in our `module`; None if that module is not one of ours.

    >>> from flambeau._places import torch_module
    >>> torch_module("flambeau.optim.adam", "AdamW")
    'torch.optim.adamw'
    """
    if module != "flambeau" and not module.startswith("flambeau."):
        return None
    vision = module.split(".")[1:2] == ["vision"]
    return THEIRS.get((module, name), f"torch{module[len('flambeau.' if vision else 'flambeau'):]}")


def our_module(module, name):
    """Our module for what is `name` in PyTorch's `module`."""
    vision = module.split(".")[0] == "torchvision"
    return OURS.get((module, name), f"flambeau{'.' if vision else ''}{module[len('torch'):]}")


def is_ours(module):
    """Whether a module of this name is one of this library's."""
    return module.partition(".")[0] in ROOTS
