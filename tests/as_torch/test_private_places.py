"""Modules with a leading underscore, and helpers of optimizers, that packages import: what they give."""

import pytest

import flambeau
from flambeau.as_torch.tree import _decomp, _prims_common, _tensor, _utils
from flambeau.as_torch.tree._decomp_rules import RULES
from flambeau.fx.experimental.proxy_tensor import make_fx
from flambeau.nn import functional as F
from flambeau.ops import OPS
from flambeau.optim import optimizer

from ..ops import battery


def test_tensors_are_rebuilt():
    storage = flambeau.arange(6.0).untyped_storage()
    typed = flambeau.arange(6.0).storage()
    assert _utils._rebuild_tensor(typed, 1, (2, 2), (2, 1)).tolist() == [[1, 2], [3, 4]]
    assert _utils._rebuild_tensor(storage, 0, (24,), (1,)).dtype is flambeau.uint8
    seen = []
    rebuilt = _utils._rebuild_tensor_v2(typed, 0, (2,), (3,), True, {0: seen.append})
    (rebuilt * 2).sum().backward()
    assert rebuilt.tolist() == [0, 3] and seen[0].tolist() == [2, 2]
    with pytest.raises(NotImplementedError, match="metadata"):
        _utils._rebuild_tensor_v2(typed, 0, (2,), (3,), False, {}, {"other": True})
    negative = _utils._rebuild_tensor_v2(typed, 0, (2,), (3,), False, {}, {"neg": True})
    assert negative.is_neg() and negative.tolist() == [0, -3]
    parameter = _utils._rebuild_parameter_with_state(flambeau.ones(2), True, {}, {"mine": 3})
    assert isinstance(parameter, flambeau.nn.Parameter) and parameter.mine == 3


def test_tensors_of_other_classes_are_rebuilt():
    class Mine(flambeau.Tensor):
        pass

    made = _tensor._rebuild_from_type_v2(flambeau.tensor, Mine, ([1.0],), {"a": 1})
    assert type(made) is Mine and made.a == 1
    assert _tensor._rebuild_from_type_v2(flambeau.tensor, Mine, ([1.0],), (None, {"b": 2})).b == 2


def test_names_and_sizes():
    assert _utils._import_dotted_name("flambeau.nn.Linear") is flambeau.nn.Linear
    assert _utils._element_size(flambeau.float64) == 8 and _utils._get_all_device_indices() is None


def test_alerts_follow_the_switch():
    _prims_common.alert_not_deterministic("mine")
    flambeau.use_deterministic_algorithms(True)
    try:
        with pytest.raises(RuntimeError, match="mine is not deterministic"):
            _prims_common.alert_not_deterministic("mine")
        flambeau.use_deterministic_algorithms(True, warn_only=True)
        with pytest.warns(UserWarning, match="yours is not deterministic"):
            _prims_common.alert_not_deterministic("yours")
    finally:
        flambeau.use_deterministic_algorithms(False)


def test_helpers_of_optimizers():
    assert optimizer._get_value(flambeau.tensor(2.0)) == 2 and optimizer._get_value(3) == 3
    assert optimizer._to_scalar(flambeau.ones(1)).dim() == 0 and optimizer._to_scalar(2) == 2
    assert optimizer._default_to_fused_or_foreach([flambeau.ones(1)], False) == (False, False)
    assert optimizer._get_scalar_dtype() is flambeau.float32
    params, state = [flambeau.ones(2, dtype=flambeau.complex64), flambeau.ones(2)], [flambeau.ones(2), flambeau.ones(2)]
    state[0] = state[0].to(flambeau.complex64)
    optimizer._view_as_real(params, state)
    assert [p.shape for p in params + state] == [(2, 2), (2,), (2, 2), (2,)]

    class Own(flambeau.optim.Optimizer):
        @optimizer._use_grad_for_differentiable
        def step(self):
            return flambeau.is_grad_enabled()

    for differentiable in (False, True):
        assert Own([flambeau.ones(1)], {"differentiable": differentiable}).step() is differentiable


def test_tensors_are_grouped_by_device_and_dtype():
    a, b, c = flambeau.ones(1), flambeau.ones(1, dtype=flambeau.float64), flambeau.zeros(1)
    groups = flambeau.optim.Optimizer._group_tensors_by_device_and_dtype([[a, b, c], [1, 2, 3], []], with_indices=True)
    (lists, places), (other, where) = groups.values()
    assert lists == [[a, c], [1, 3], [None, None]] and places == [0, 2] and other[1] == [2] and where == [1]


def test_operators_as_modules():
    f = flambeau.ao.nn.quantized.FloatFunctional()
    seen = []
    f.activation_post_process.register_forward_hook(lambda module, args, out: seen.append(out.tolist()))
    x, y = flambeau.tensor([1.0, -2.0]), flambeau.tensor([3.0, 1.0])
    assert f.add(x, y).tolist() == [4, -1] and f.mul(x, y).tolist() == [3, -2] and f.add_relu(x, y).tolist() == [4, 0]
    assert f.cat([x, y]).tolist() == [1, -2, 3, 1] and f.matmul(x, y).tolist() == 1
    assert len(seen) == 5 and f.add_scalar(x, 1).tolist() == [2, -1] and f.mul_scalar(x, 2).tolist() == [2, -4]
    assert len(seen) == 5
    with pytest.raises(RuntimeError, match="one of its methods"):
        f(x)
    plain = flambeau.ao.nn.quantized.FXFloatFunctional()
    assert plain.add(x, y).tolist() == [4, -1] and not list(plain.children())


def test_compiled_modules_are_known():
    from flambeau.as_torch.tree import _dynamo
    from flambeau.as_torch.tree._dynamo import eval_frame, utils
    model = flambeau.compile(flambeau.nn.Linear(2, 3))
    assert type(model) is _dynamo.OptimizedModule is eval_frame.OptimizedModule
    assert _dynamo.is_dynamo_supported()
    assert utils.is_compile_supported("cpu") and not utils.is_compile_supported("cuda")


def test_switches_of_cudnn():
    cudnn = flambeau.backends.cudnn
    before = cudnn.enabled, cudnn.deterministic
    with cudnn.flags(enabled=False, deterministic=True):
        assert (cudnn.enabled, cudnn.deterministic) == (False, True)
    assert (cudnn.enabled, cudnn.deterministic) == before
    assert flambeau.backends.mps.is_macos_or_newer(13, 0) is False


@pytest.mark.parametrize("options", [(), (2, 1), (1, 0, 2), (1, 1, 1, 2)])
@pytest.mark.parametrize("n", [1, 2, 3])
def test_gradients_of_convolutions(n, options):
    from flambeau.nn import functional, grad
    flambeau.manual_seed(0)
    groups = options[3] if len(options) == 4 else 1
    x = flambeau.rand(2, 4, *(7,) * n, requires_grad=True)
    w = flambeau.rand(6, 4 // groups, *(3,) * n, requires_grad=True)
    y = getattr(functional, f"conv{n}d")(x, w, None, *options)
    g = flambeau.rand_like(y)
    y.backward(g)
    flambeau.testing.assert_close(getattr(grad, f"conv{n}d_input")(x.shape, w, g, *options), x.grad)
    flambeau.testing.assert_close(getattr(grad, f"conv{n}d_weight")(x, w.shape, g, *options), w.grad)


def test_tables_of_decompositions():
    aten, mine = flambeau.ops.aten, {}
    table = _decomp.get_decompositions([aten.batch_norm.default, aten.add.Tensor, aten.mm])
    assert len(table) == 1 and aten.batch_norm.default in table and aten.batch_norm in table
    everything = _decomp.core_aten_decompositions()
    _decomp.remove_decompositions(everything, [aten.batch_norm.default, aten.add.Tensor])
    assert aten.batch_norm.default not in everything and aten.batch_norm.default in _decomp.decomposition_table

    @_decomp.register_decomposition([aten.silu, aten.gelu.default], mine)
    def plain(x):
        return x * x.sigmoid()

    graph = make_fx(lambda x: flambeau.nn.functional.silu(x) + flambeau.nn.functional.gelu(x), mine)(flambeau.ones(2))
    assert [node.name for node in graph.graph.nodes if node.op == "call_function"] == [
        "sigmoid", "mul", "sigmoid_1", "mul_1", "add"]
    with pytest.raises(RuntimeError, match="already"):
        _decomp.register_decomposition(aten.silu, mine)(plain)
    with pytest.raises(NotImplementedError, match="'meta'"):
        _decomp.get_decompositions([], "meta")


def test_marks_of_tensors_for_a_compiler_take_what_pytorch_takes():
    from flambeau.as_torch.tree import _dynamo
    x = flambeau.ones(2)
    assert _dynamo.mark_dynamic(x, 0) is _dynamo.mark_static(x) is _dynamo.mark_static(x, [0]) is None
    assert _dynamo.mark_static_address(x) is _dynamo.mark_static_address(x, guard=True) is None


@pytest.mark.parametrize("name", [name for name in RULES if name in OPS])
def test_what_operators_are_made_of(name):
    """The rules that get_decompositions gives for operators of one step give the same."""
    assert OPS[name].kind not in ("composite", "overloads")
    looked_at = 0
    for sample in battery.samples(name):
        try:
            expected = battery.run(name, sample)
        except NotImplementedError:
            continue
        battery.assert_same(RULES[name](*sample.args, **sample.kwargs), expected, atol=1e-7, what=str(sample))
        looked_at += 1
    assert looked_at


def test_decompositions_in_graphs():
    aten = flambeau.ops.aten
    table = _decomp.get_decompositions([aten.addmm, aten.silu.default, aten._softmax, aten.mm])

    def step(x, w, b):
        return flambeau.softmax(F.silu(flambeau.addmm(b, x, w)), -1)

    args = [flambeau.randn(2, 2) for _ in range(3)]
    gm = make_fx(step, decomposition_table=table)(*args)
    targets = {n.target for n in gm.graph.nodes if n.op == "call_function"}
    assert not targets & {aten.addmm.default, aten.silu.default, flambeau.softmax} and flambeau.mm in targets
    assert flambeau.allclose(gm(*args), step(*args))
