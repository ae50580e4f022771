"""Private names that packages reach into: they are there, and answer for what is here."""

import subprocess
import sys

import pytest

PROGRAMS = {
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
