"""What public packages reach for in PyTorch's private modules: each name with the package that needs it."""

import pytest

from .test_process import served

#: package, what it does
USES = [
    ("accelerate", "assert not isinstance(torch.nn.Linear(1, 1), torch._dynamo.eval_frame.OptimizedModule)"),
    ("transformers", "assert torch.nn.modules.module._EXTRA_STATE_KEY_SUFFIX == '_extra_state'"),
    ("transformers", "assert torch.torch is torch"),
    ("peft", "assert torch.device('cpu') != torch.device('mps')"),
    ("safetensors", "import tempfile; file = tempfile.NamedTemporaryFile(); file.write(bytes(8)); file.flush(); "
                    "assert torch.UntypedStorage.from_file(file.name, shared=False, nbytes=8).nbytes() == 8"),
    ("opt_einsum", "assert [getattr(torch, name).__module__ for name in ('Tensor', 'Size', 'dtype', 'device')] == "
                   "['torch'] * 4; assert torch.nn.Parameter.__module__ == 'torch.nn.parameter'"),
    ("torch_geometric", "from torch._tensor_str import PRINT_OPTS, _tensor_str; "
                        "assert _tensor_str(torch.arange(4.0).view(2, 2), indent=1) == '[[0., 1.],\\n  [2., 3.]]'; "
                        "assert PRINT_OPTS.threshold == 1000 and _tensor_str(torch.ones(0), 0) == '[]'"),
    ("torch_geometric", "assert torch._tensor_str._add_suffixes('x(1', ['a', 'b'], 2, False) == 'x(1, a, b)'; "
                        "assert torch._tensor_str._str_intern(torch.ones(1), tensor_contents='…') == 'tensor(…)'"),
    ("torch_geometric", "assert torch._C._get_default_device() == 'cpu'"),
    ("torch_geometric", "assert torch._segment_reduce is torch.segment_reduce"),
    ("torch_geometric", "import inspect; assert inspect.getsource(torch.nn.Linear).startswith('class Linear'); "
                        "[inspect.getsource(c) for c in torch.nn.Module.__mro__[:4]]"),
    ("kornia", "f = torch._C._are_functorch_transforms_active; seen = []; assert not f(); "
               "torch.func.vmap(lambda x: (seen.append(f()), x)[1])(torch.ones(2)); assert seen == [True]"),
    ("kornia", "from torch.nn.modules.module import _global_forward_hooks as hooks; "
               "handle = torch.nn.modules.module.register_module_forward_hook(print); assert hooks; handle.remove(); "
               "assert not hooks"),
    ("monai", "from torch.utils.data._utils.collate import np_str_obj_array_pattern as kinds; "
              "assert kinds.search('<U3') and not kinds.search('<f4')"),
    ("monai", "with torch.backends.__allow_nonbracketed_mutation(): torch.backends.cudnn.deterministic = True"),
    ("monai", "from torch.utils.data._utils.collate import collate_tensor_fn as f, default_collate_fn_map as m; "
              "assert m[torch.Tensor] is f and f([torch.ones(1)] * 2, collate_fn_map=m).tolist() == [[1], [1]]"),
    ("torchdata", "from torch.utils.data import _DatasetKind; from torch.utils.data._utils import signal_handling, "
                  "HAS_NUMPY, MP_STATUS_CHECK_INTERVAL, python_exit_status; assert python_exit_status is False"),
    ("monai", "assert 'indexing' in torch.meshgrid.__kwdefaults__ and torch.einsum.__kwdefaults__ is None"),
    ("captum", "assert torch.Future is torch.futures.Future"),
    ("pyro", "x, y = torch.ones(1), torch.ones(1); assert x._cdata == x._cdata != y._cdata"),
    ("pyro", "assert torch.nn.ModuleList([torch.nn.ReLU()])._get_abs_string_index(-1) == '0'"),
    ("linear_operator", "x = torch.eye(2).to_sparse(); y = torch.ones(2, 2); assert torch.dsmm(x, y).tolist() == "
                        "torch.spmm(x, y).tolist() == torch.hsmm(x, y).to_dense().tolist() == [[1, 1], [1, 1]]; "
                        "assert torch.saddmm(x, x, y).to_dense().tolist() == [[2, 1], [1, 2]]"),
    ("diffusers", "from torch.overrides import get_default_nowrap_functions as f; "
                  "assert f() == {torch.Tensor.grad.__get__, torch.Tensor._base.__get__}"),
    ("torch_geometric", "from torch.distributed import rpc; assert not rpc.is_available()"),
    ("opacus", "from torch.utils.data.dataloader import _collate_fn_t, _worker_init_fn_t; "
               "from torch.distributed._tensor.experimental import implicit_replication"),
    ("fastai", "import typing; assert typing.get_type_hints(torch.nn.CrossEntropyLoss())['training'] is bool"),
    ("open_clip", "from torch import TensorType; assert isinstance(TensorType, type)"),
    ("dynamic_network_architectures", "from torch.nn.modules.conv import _ConvTransposeNd as transposed; "
                                      "assert isinstance(torch.nn.ConvTranspose3d(1, 1, 1), transposed)"),
    ("pytorch_forecasting", "from torch.distributions.transforms import _clipped_sigmoid as f; "
                            "assert 0 < f(torch.tensor(-300.)) and f(torch.tensor(300.)) < 1"),
    ("zuko", "from torch.nn.utils.stateless import _reparametrize_module as replaced; m = torch.nn.Linear(1, 1)\n"
             "with replaced(m, dict(weight=torch.ones(1, 1), bias=torch.ones(1))): assert m(torch.ones(1)) == 2"),
    ("torchaudio", "F = torch.nn.functional; mask = torch.tensor([True, False]); "
                   "assert F._canonical_mask(mask, 'mask', F._none_or_dtype(None), '', torch.float32).tolist() == "
                   "[-torch.inf, 0]; assert F._none_or_dtype(mask) is torch.bool"),
    ("torchtnt", "from torch.distributed.elastic.utils.distributed import get_free_port; assert get_free_port() > 0; "
                 "from torch.distributed._composable_state import _get_module_state as f; "
                 "from torch.distributed.fsdp._common_utils import _FSDPState; assert f(torch.nn.ReLU()) is None"),
    ("torchtnt", "assert isinstance(torch.ops.aten, torch._ops._OpNamespace)"),
    ("torchopt", "import torch.distributed.autograd as autograd; assert not autograd.is_available(); "
                 "from torch.distributed.autograd import context"),
    ("fairscale", "from torch.distributed.distributed_c10d import _get_global_rank; "
                  "from torch.cuda.amp.common import amp_definitely_not_available as f; "
                  "assert f() is not torch.cuda.is_available()"),
    ("fairscale", "seen = []; x = torch.ones(1, requires_grad=True); f = torch.autograd._is_checkpoint_valid; "
                  "x.register_hook(lambda g: seen.append(f())); (x * 2).backward(); torch.autograd.grad(x * 2, x); "
                  "assert seen == [True, False]"),
    ("heavyball", "from torch._dynamo import config\n"
                  "with torch._dynamo.utils.disable_cache_limit(): assert config.recompile_limit > 8\n"
                  "assert config.recompile_limit == 8"),
    ("transformers", "from torch._inductor import config; config.coordinate_descent_tuning = True; "
                     "torch._inductor.config.triton.unique_kernel_names = True\n"
                     "with config.patch({'triton.cudagraphs': True}): assert config.triton.cudagraphs\n"
                     "assert not config.triton.cudagraphs and torch._inductor.list_mode_options('default') == {}"),
    ("diffusers", "from torch.distributed._functional_collectives import AsyncCollectiveTensor as waiting; "
                  "assert not isinstance(torch.ones(1), waiting); torch._inductor.cudagraph_mark_step_begin()"),
    ("speechbrain", "from torch.utils.data._utils.pin_memory import pin_memory; assert pin_memory(['a']) == ['a']"),
    ("monai", "from torch.utils.data._utils import worker; assert worker._worker_info is None"),
    ("trl", "seen = []; x = torch.ones(1, requires_grad=True); x.register_hook(lambda g: seen.append("
            "torch._C._current_graph_task_id())); (x * 2).backward(); "
            "assert seen[0] >= 0 and torch._C._current_graph_task_id() == -1"),
    ("torchao", "import warnings; from torch._dynamo.utils import warn_once\n"
                "with warnings.catch_warnings(record=True) as seen: warn_once('a'); warn_once('a')\n"
                "assert len(seen) == 1"),
    ("torchao", "from torch.utils._triton import has_triton; assert not has_triton(); "
                "from torch.sparse._triton_ops_meta import get_meta, minimize, update"),
    ("torchao", "from torch._prims_common import make_contiguous_strides_for as f, suggest_memory_format as g; "
                "assert f((2, 3, 4)) == (12, 4, 1) and f((2, 3, 4), row_major=False) == (12, 1, 3) and f(()) == (); "
                "x = torch.ones(1, 2, 3, 4); assert g(x) is torch.contiguous_format; "
                "assert g(x.to(memory_format=torch.channels_last)) is torch.channels_last"),
    ("torchao", "from torch._library.infer_schema import infer_schema; from torch._C import Tag; "
                "from torch._inductor.decomposition import register_decomposition; "
                "from torch._higher_order_ops.inline_asm_elementwise import inline_asm_elementwise"),
    ("torchao", "f = torch._has_compatible_shallow_copy_type; x = torch.ones(1); "
                "assert f(x, x.double()) and not f(x, x.to('meta')) and not f(x, x.to_sparse())"),
    ("torchao", "c10d = torch.ops._c10d_functional; table = {c10d.all_gather_into_tensor.default: 1, "
                "torch.ops.c10d_functional.wait_tensor.default: 2, torch.ops.c10d.scatter_.default: 3}; "
                "x = torch.ones(1); assert c10d.wait_tensor(x) is x and len(table) == 3"),
    ("torch_geometric", "x = torch.eye(2).to_sparse(); y = torch.ones(2, 2); "
                        "assert torch.ops.aten._sparse_addmm.default(y, x, y, beta=3).tolist() == [[4, 4], [4, 4]]"),
]


@pytest.mark.parametrize("code", [pytest.param(code, id=package) for package, code in USES])
def test_private_names(code):
    served("import torch\n" + code)


def test_subclasses_are_plain_and_modes_are_asked():
    """torchvision's images are subclasses whose functions it calls as those of plain tensors."""
    code = """
import torch
from torch.overrides import TorchFunctionMode
class Mode(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        print("mode", end=" ")
        return func(*args, **(kwargs or {}))
class Image(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        print("image", end=" ")
        return super().__torch_function__(func, types, args, kwargs or {})
image = torch.ones(2).as_subclass(Image)
for off in (torch._C.DisableTorchFunctionSubclass, torch._C.DisableTorchFunction):
    with Mode(), off():
        result = torch.add(image, 1)
    print(type(result).__name__, end=" ")
print(type(torch.add(image, 1)).__name__)
"""
    assert served(code) == "mode Tensor Tensor image Image"


def test_replicas_of_modules():
    """What timm's tests do to a module: a copy with tables of its own and the same attributes otherwise."""
    code = """
import torch
module = torch.nn.BatchNorm1d(3)
module.cache = [1]
replica = module._replicate_for_data_parallel()
assert type(replica) is torch.nn.BatchNorm1d and not list(replica.parameters()) and len(list(module.parameters())) == 2
assert replica.cache is module.cache and replica._buffers is not module._buffers
assert replica.running_mean is module.running_mean
"""
    served(code)


def test_whole_models_are_saved():
    """As pytorch/examples do it: no module of PyTorch's is imported by its full name."""
    code = """
import io, torch
model = torch.nn.Sequential(torch.nn.Linear(2, 4), torch.nn.Dropout(), torch.nn.LSTM(4, 3, 2))
model.add_module("transformer", torch.nn.TransformerEncoderLayer(4, 2, 8))
file = io.BytesIO()
torch.save((model, torch.optim.AdamW(model.parameters()), torch.distributions.Normal(0.0, 1.0)), file)
file.seek(0)
loaded, optimizer, normal = torch.load(file, weights_only=False)
assert all(torch.equal(a, b) for a, b in zip(model.state_dict().values(), loaded.state_dict().values(), strict=True))
print(type(loaded[2]).__name__, type(loaded.transformer).__name__, type(optimizer).__name__, type(normal).__name__)
"""
    assert served(code) == "LSTM TransformerEncoderLayer AdamW Normal"


def test_a_check_that_was_imported_by_name_is_traced():
    """timm's layers check sizes by it, and are traced."""
    code = """
import torch, torch.fx
from torch import _assert
class Model(torch.nn.Module):
    def forward(self, x):
        _assert(x.shape[1] == 3, "three")
        return x + 1
traced = torch.fx.symbolic_trace(Model())
print(traced(torch.ones(2, 3)).sum().item())
try:
    traced(torch.ones(2, 4))
except AssertionError as error:
    print(error)
"""
    assert served(code).splitlines() == ["12.0", "three"]


def test_a_tracer_that_overrides_create_proxy():
    """torchvision's tracer takes its arguments up to the type."""
    code = """
import torch, torch.fx
class Tracer(torch.fx.Tracer):
    made = 0
    def create_proxy(self, kind, target, args, kwargs, name=None, type_expr=None, *_):
        self.made += 1
        return super().create_proxy(kind, target, args, kwargs, name, type_expr)
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.ones(1))
        self.register_buffer("shift", torch.ones(1))
    def forward(self, x):
        return x * self.scale + self.shift
tracer = Tracer(param_shapes_constant=True)
tracer.proxy_buffer_attributes = True
tracer.trace(Model())
print(tracer.made >= 4)
"""
    assert served(code) == "True"


def test_which_function_modes_are_on():
    code = """
import torch
from torch.overrides import BaseTorchFunctionMode, has_torch_function_unary, has_torch_function_variadic
image = torch.ones(2).as_subclass(type("Image", (torch.Tensor,), {}))
assert has_torch_function_unary(image) and not has_torch_function_variadic(1, torch.ones(1))
with BaseTorchFunctionMode() as mode:
    assert torch._C._len_torch_function_stack() == 1 and torch._C._get_function_stack_at(0) is mode
    assert torch.overrides._get_current_function_mode() is mode and torch.add(image, 1).tolist() == [2, 2]
assert torch._C._len_torch_function_stack() == torch._C._len_torch_dispatch_stack() == 0
"""
    served(code)


def test_a_name_first_met_in_a_trace_stays_itself():
    code = """
import torch
from torch import fx
graph = fx.symbolic_trace(lambda x: torch.dequantize(x)).graph
assert [n.target for n in graph.nodes][1] is torch.dequantize is torch.dequantize
"""
    served(code)


def test_the_types_of_operators():
    code = """
import torch
target = list(torch.fx.symbolic_trace(lambda a: torch.ops.aten.add.Tensor(a, a)).graph.nodes)[1].target
assert isinstance(target, torch._ops.OpOverload) and isinstance(target.overloadpacket, torch._ops.OpOverloadPacket)
"""
    served(code)


def test_a_trace_of_ones_own():
    """torch_geometric's Tracer has a trace method written with the pieces of PyTorch's."""
    code = """
import torch, torch.fx._symbolic_trace as st
calls = []
class Tracer(torch.fx.Tracer):
    @st.compatibility(is_backward_compatible=True)
    def trace(self, root, concrete_args=None):
        self.root, function = root, type(root).forward
        assert isinstance(function, st.FunctionType)
        self.submodule_paths = {module: name for name, module in root.named_modules()}
        self.graph = torch.fx.Graph()
        self.tensor_attrs = {value: name for name, value in vars(root).items() if isinstance(value, torch.Tensor)}
        function, args = self.create_args_for_root(function, True, concrete_args)
        def call(module, *args, **kwargs):
            calls.append(type(module).__name__)
            return self.call_module(module, lambda *a, **k: st._orig_module_call(module, *a, **k), args, kwargs)
        with st._Patcher() as patcher:
            patcher.patch_method(torch.nn.Module, "__call__", call, deduplicate=False)
            st._patch_wrapped_functions(patcher)
            st._autowrap_check(patcher, function.__globals__, self._autowrap_function_ids)
            self.create_node("output", "output", (self.create_arg(function(*args)),), {})
        return self.graph
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.shift = torch.nn.Linear(2, 2), torch.ones(2)
    def forward(self, x):
        return torch.nn.functional.dropout(self.inner(x), 0.0) + self.shift
net = Net()
graph = Tracer().trace(net)
found = torch.fx.GraphModule(net, graph)
x = torch.ones(1, 2)
assert torch.equal(found(x), net(x)) and calls == ["Linear"]
print([node.op for node in graph.nodes], [n.target for n in graph.nodes if n.op == "get_attr"])
"""
    assert served(code) == ("['placeholder', 'call_module', 'call_function', 'get_attr', 'call_function', 'output'] "
                            "['shift']")


def test_a_compiled_part_that_a_package_can_do_without(tmp_path):
    """torchaudio loads its library where there is a file; what it does without one runs here."""
    package = tmp_path / "torchaudio" / "_extension"
    package.mkdir(parents=True)
    (tmp_path / "torchaudio" / "__init__.py").write_text("import torch\nfrom . import _extension")
    (package / "utils.py").write_text("import torch\ndef _load_lib(lib):\n"
                                      "    torch.ops.load_library(lib)\n    return True\n")
    (package / "__init__.py").write_text("from .utils import _load_lib\navailable = _load_lib('_torchaudio')\n")
    code = "import sys; sys.path.insert(0, sys.argv[1]); import torchaudio; print(torchaudio._extension.available)"
    assert served(code, str(tmp_path)) == "False"


def test_loaders_of_ones_own_are_passed_over():
    """fastai's loaders give PyTorch's passes an object that has a loader's attributes."""
    code = """
import torch
from torch.utils.data.dataloader import _DatasetKind, _MultiProcessingDataLoaderIter, _SingleProcessDataLoaderIter
class Loader:
    _auto_collation, collate_fn, drop_last, in_order, timeout = False, staticmethod(lambda x: x), False, True, 0
    _index_sampler, generator, prefetch_factor, pin_memory = None, None, 2, False
    worker_init_fn = multiprocessing_context = None
    _dataset_kind = _DatasetKind.Iterable
    def __init__(self, workers):
        self.dataset, self.num_workers = self, workers
    def __iter__(self):
        return iter([torch.tensor([1, 2]), torch.tensor([3])])
passes = _SingleProcessDataLoaderIter(Loader(0)), _MultiProcessingDataLoaderIter(Loader(1))
print(*[[x.tolist() for x in each] for each in passes])
"""
    assert served(code) == "[[1, 2], [3]] [[1, 2], [3]]"
