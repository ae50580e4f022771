"""torch._functorch.config: settings of another compiler. Any name can be set, and nothing changes by it."""

from ..._patching import patcher

activation_memory_budget = 1.0
activation_memory_budget_runtime_estimator, activation_memory_budget_solver = "flops", "dp"
donated_buffer = cse = enable_autograd_cache = treat_parameters_as_free_to_save = static_weight_shapes = True
ban_recompute_used_far_apart = ban_recompute_long_fusible_chains = ban_recompute_materialized_backward = True
ban_recompute_not_in_allowlist = ban_recompute_reductions = view_replay_for_aliased_outputs = True
recompute_views = functionalize_rng_ops = debug_partitioner = debug_assert = aggressive_recomputation = False
strict_autograd_cache = bundled_autograd_cache = fake_tensor_propagate_real_tensors = unlift_effect_tokens = False
fake_tensor_allow_meta = True
max_dist_from_bw = 1000

patch = patcher(__name__)
