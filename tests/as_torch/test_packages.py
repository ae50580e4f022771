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
