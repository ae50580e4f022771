"""torch._dynamo.config: settings of another compiler. Any name can be set, and nothing reads it."""

suppress_errors = False
verbose = False
cache_size_limit = recompile_limit = 8
accumulated_cache_size_limit = 256
optimize_ddp = True
capture_scalar_outputs = capture_dynamic_output_shape_ops = False
allow_unspec_int_on_nn_module = False
inline_inbuilt_nn_modules = True
assume_static_by_default = True
automatic_dynamic_shapes = True
