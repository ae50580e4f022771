"""Private names that packages reach into: they are there, and answer for what is here."""

import subprocess
import sys

import pytest

PROGRAMS = {
    "names that a file of PyTorch's imports": """
        from torch.distributions.multivariate_normal import Distribution, MultivariateNormal, constraints
        assert issubclass(MultivariateNormal, Distribution) and constraints is torch.distributions.constraints
        from torch.optim.adamw import Adam
        assert Adam is torch.optim.Adam and not hasattr(torch.optim.adamw, "_no_such_name")
        """,
    "the module of vmap": """
        import torch._functorch.vmap as steps
        from torch._functorch.vmap import _add_batch_dim, _broadcast_to_and_flatten, _get_name, _maybe_remove_batch_dim
        from torch._functorch.vmap import Tensor, tree_flatten, tree_unflatten
        assert steps._broadcast_to_and_flatten(0, tree_flatten([1, [2, 3]])[1]) == [0, 0, 0] and _get_name(len) == "len"
        before, seen = steps._unwrap_batched, []
        steps._unwrap_batched = lambda *args: seen.append(args[1:4]) or before(*args)
        torch.vmap(lambda x: (x, x))(torch.ones(3))
        assert seen == [(0, 1, 3)]
        """,
    "bases of layers, hooks of all modules": """
        from torch.nn.modules import dropout, padding, pooling
        from torch.nn.modules.module import _global_buffer_registration_hooks, _global_module_registration_hooks
        from torch.nn.modules.module import _global_parameter_registration_hooks
        for module, kinds in {padding: "Constant Reflection Replication Circular", dropout: "Dropout",
                              pooling: "Max Avg AdaptiveAvg AdaptiveMax LP MaxUn"}.items():
            for kind in kinds.split():
                end = {padding: "Pad", dropout: "", pooling: "pool" if kind == "MaxUn" else "Pool"}[module]
                base = getattr(module, f"_{kind}{end}Nd")
                assert all(issubclass(getattr(torch.nn, f"{kind}{end}{n}d"), base) for n in (1, 2, 3))
        assert not issubclass(torch.nn.AlphaDropout, padding._ConstantPadNd)
        handle = torch.nn.modules.module.register_module_parameter_registration_hook(lambda *_: None)
        assert len(_global_parameter_registration_hooks) == 1 and not _global_buffer_registration_hooks
        handle.remove()
        """,
    "scopes that decorate": """
        from torch.utils._contextlib import _DecoratorContextManager
        class Scale(_DecoratorContextManager):
            now = 1
            def __init__(self, by): self.by = by
            def clone(self): return Scale(self.by)
            def __enter__(self): self.before, Scale.now = Scale.now, self.by
            def __exit__(self, *_): Scale.now = self.before
        @Scale(3)
        def scaled(depth): return scaled(depth - 1) if depth else Scale.now
        assert scaled(2) == 3 and Scale.now == 1
        assert issubclass(torch.no_grad, _DecoratorContextManager)
        """,
    "helpers": """
        from torch.utils.data._utils.worker import _generate_state
        assert _generate_state(5, 0) == [161328693, 2841646664, 2763651139, 2546215728]
        assert _generate_state(2**40 + 7, 3)[0] == 400740237
        assert isinstance(torch.ones(1).untyped_storage(), torch.StorageBase)
        from torch._subclasses.fake_tensor import FakeTensorMode
        assert torch._guards.active_fake_mode() is None
        with FakeTensorMode() as mode: assert torch._guards.active_fake_mode() is mode
        from torch.autograd import forward_ad
        assert forward_ad._current_level == -1 and not hasattr(forward_ad, "_no_such_name")
        with forward_ad.dual_level(): assert forward_ad._current_level == 0
        assert torch._C._distributed_rpc._is_current_rpc_agent_set() is False
        assert not isinstance(3, torch._C._distributed_rpc.PyRRef)
        from torch.overrides import TorchFunctionMode
        assert torch._C._is_torch_function_mode_enabled() is False
        with TorchFunctionMode(): assert torch._C._is_torch_function_mode_enabled() is True
        from torch._utils import _get_device_module
        assert _get_device_module("cuda") is torch.cuda
        try: _get_device_module("nothing")
        except RuntimeError as error: assert "nothing" in str(error)
        else: raise AssertionError
        from torch.utils._foreach_utils import _group_tensors_by_device_and_dtype
        from torch.distributed.fsdp.fully_sharded_data_parallel import ShardedStateDictConfig
        from torch._higher_order_ops.associative_scan import associative_scan
        assert associative_scan(lambda a, b: a + b, torch.arange(4), 0, combine_mode="generic").tolist() == [0, 1, 3, 6]
        """,
    "functions with the name of their module": """
        from torch.autograd.gradcheck import GradcheckError
        from torch.nn.parallel.parallel_apply import parallel_apply
        from torch.nn.utils.spectral_norm import spectral_norm
        from torch.nn.utils.weight_norm import weight_norm
        import torch.autograd.gradcheck as gradcheck
        x = torch.ones(2, dtype=torch.double, requires_grad=True)
        assert torch.autograd.gradcheck(torch.exp, x) and gradcheck is torch.autograd.gradcheck
        assert torch.nn.utils.weight_norm is weight_norm and torch.nn.utils.spectral_norm is spectral_norm
        assert torch.nn.parallel.parallel_apply is parallel_apply
        """,
    "compiled functions by their older places": """
        from torch import _VF
        rnn = torch.nn.LSTM(2, 3)
        out, h, c = _VF.lstm(torch.ones(4, 1, 2), (torch.zeros(1, 1, 3),) * 2, rnn._flat_weights, True, 1, 0.0, False,
                             False, False)
        assert torch.equal(out, rnn(torch.ones(4, 1, 2))[0]) and torch._VF.split is torch.split
        x = torch.arange(4.).reshape(1, 1, 4)
        assert torch.equal(torch._C._nn.gelu(x), torch.nn.functional.gelu(x))
        assert torch._C._nn.replication_pad1d(x, [1, 0]).tolist() == [[[0, 0, 1, 2, 3]]]
        assert torch._C._nn.upsample_nearest1d(x, [2]).tolist() == [[[0, 2]]]
        assert torch._C._nn._parse_to("cpu")[0].type == "cpu" and not hasattr(torch._C._nn, "nothing")
        """,
    "types of operators": """
        from torch._ops import OpOverload, OpOverloadPacket
        assert isinstance(torch.ops.aten.add.Tensor, OpOverload) and isinstance(torch.ops.aten.add, OpOverloadPacket)
        assert not isinstance(torch.ops.aten.add, OpOverload) and not isinstance(len, OpOverload)
        from torch.fx.experimental.proxy_tensor import make_fx
        graph = make_fx(lambda x: torch.relu(x + 1))(torch.ones(2)).graph
        assert [isinstance(n.target, OpOverload) for n in graph.nodes if n.op == "call_function"] == [True, True]
        """,
    "the profiler": """
        assert torch.autograd._profiler_enabled() is False and torch.autograd.kineto_available() is False
        profile = torch.autograd.profiler.profile()
        profile.__enter__()
        torch.ones(2) + 1
        assert torch.autograd._profiler_enabled()
        assert "aten::add" in [event.name for event in torch.autograd._disable_profiler()]
        assert not torch.autograd._profiler_enabled()
        """,
    "process groups": """
        from torch._C._distributed_c10d import ProcessGroup, ReduceOp, Reducer, Store, Work, get_debug_level
        from torch.distributed.distributed_c10d import _pg_map
        import torch.distributed.nn.functional as functional
        assert not isinstance(1, ProcessGroup) and not _pg_map
        assert functional.all_gather is not torch.distributed.all_gather and ReduceOp is torch.distributed.ReduceOp
        try:
            Reducer()
        except NotImplementedError as error:
            assert "not available yet" in str(error)
        else:
            raise SystemExit("nothing was refused")
        """,
    "sizes of exported programs": """
        from torch.export import Dim
        assert repr([Dim.AUTO, Dim.DYNAMIC, Dim.STATIC]) == "[DimHint(AUTO), DimHint(DYNAMIC), DimHint(STATIC)]"
        """,
    "kinds of datasets": """
        from torch.utils.data.dataloader import DataLoader, IterableDataset, _DatasetKind

        class Numbers(IterableDataset):
            def __iter__(self):
                return iter(range(3))

        assert DataLoader([1])._dataset_kind == _DatasetKind.Map != DataLoader(Numbers())._dataset_kind
        """,
    "the compiler": """
        from torch._dynamo.eval_frame import is_dynamo_supported
        assert is_dynamo_supported() is torch._dynamo.is_dynamo_supported() is True
        """,
}


@pytest.mark.parametrize("what", PROGRAMS)
def test_names_that_packages_reach_into(what):
    lines = [line.removeprefix(" " * 8) for line in PROGRAMS[what].splitlines()]
    done = subprocess.run([sys.executable, "-m", "flambeau.as_torch", "-c", "\n".join(["import torch", *lines])],
                          capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-2000:]
