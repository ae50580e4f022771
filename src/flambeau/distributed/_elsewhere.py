"""Names of modules below torch.distributed that packages import, and that are not here yet; each says so when used."""

from .._absent import refusals

_REASON = "it is not available yet; docs/distributed.md says what is"
globals().update(refusals("distributed", _REASON, """
    apply_activation_checkpointing(model, checkpoint_wrapper_fn, check_fn, auto_wrap_policy)
    checkpoint_wrapper(module, checkpoint_impl, checkpoint_fn, **checkpoint_fn_kwargs) offload_wrapper(module)
    CheckpointWrapper(mod, checkpoint_impl, checkpoint_fn, **checkpoint_fn_kwargs)
    Reducer Logger FakeProcessGroup
    ShardedGradScaler(device, init_scale, backoff_factor, growth_factor, growth_interval, enabled,
    process_group)
    ModuleWrapPolicy(module_classes) CustomPolicy(lambda_fn) _or_policy(module, recurse, nonwrapped_numel,
    policies) always_wrap_policy(*args, **kwargs) enable_wrap(wrapper_cls, **wrapper_kwargs)
    lambda_auto_wrap_policy(module, recurse, nonwrapped_numel, lambda_fn) size_based_auto_wrap_policy(module,
    recurse, nonwrapped_numel, min_num_params, force_leaf_modules, exclude_wrap_modules) wrap(module,
    **wrap_overrides) transformer_auto_wrap_policy(module, recurse, nonwrapped_numel, transformer_layer_cls)
    context_parallel(mesh, buffers, buffer_seq_dims, no_restore_buffers)
    _sync_module_states(module, process_group, broadcast_bucket_size, src, params_and_buffers_to_ignore,
    broadcast_buffers)
"""))
