"""torch._inductor.config: settings of another compiler. Any name can be set, and nothing changes by it."""

from types import SimpleNamespace

from ..._patching import patcher

fx_graph_cache = freezing = max_autotune = coordinate_descent_tuning = coordinate_descent_check_all_directions = False
force_fuse_int_mm_with_mul = use_mixed_mm = emulate_precision_casts = epilogue_fusion = shape_padding = False
conv_1x1_as_mm = cpp_wrapper = fallback_random = split_reductions = debug = False
compile_threads = 1
triton = SimpleNamespace(cudagraphs=False, cudagraph_trees=False, unique_kernel_names=False)
cpp = SimpleNamespace(threads=-1, simdlen=None)
cuda = SimpleNamespace()

patch = patcher(__name__)
