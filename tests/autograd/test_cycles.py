"""Every kind of object that users can hang something onto is collected when it becomes part of a cycle."""

import gc
import weakref

import pytest

import flambeau
from flambeau.autograd import Function


class Marker:
    """What must disappear."""


def holding(*things):
    """A hook that keeps these."""
    def hook(*args):
        assert things
    return hook


def leaf():
    return flambeau.ones(2, requires_grad=True)


def attribute_of_plain_tensor(marker):
    x = flambeau.ones(2)
    x.me, x.marker = x, marker


def attribute_of_result(marker):
    y = leaf() * 2
    y.me, y.marker = y, marker


def two_tensors(marker):
    x, y = flambeau.ones(2), flambeau.ones(2)
    x.other, y.other, x.marker = y, x, marker


def dict_of_tensor(marker):
    x = flambeau.ones(2)
    x.__dict__["me"] = x
    x.__dict__["marker"] = marker


def replaced_dict(marker):
    x = flambeau.ones(2)
    x.__dict__ = {"me": None, "marker": marker}
    vars(x)["me"] = x


def attribute_of_recycled_tensor(marker):
    for _ in range(3):
        x = flambeau.ones(2)
        x.gone = 1
        del x
    y = flambeau.ones(2)
    y.me, y.marker = y, marker


def graph_of_attribute(marker):
    x = leaf()
    x.loss, x.marker = (x * 2).sum(), marker


def gradient(marker):
    x, g = leaf(), flambeau.ones(2)
    x.grad, g.owner, g.marker = g, x, marker


def gradient_of_gradient(marker):
    x, g = flambeau.ones(2), flambeau.ones(2)
    x.grad, g.grad, g.marker = g, x, marker


def gradient_with_graph(marker):
    x = leaf()
    (x * x * x).sum().backward(create_graph=True)
    x.marker = marker


def leaf_hook(marker):
    x = leaf()
    x.register_hook(holding(x, marker))


def result_hook(marker):
    y = leaf() * 2
    y.register_hook(holding(y, marker))


def stale_view_hook(marker):
    base = leaf() * 2
    v = base[:1]
    base.mul_(2)
    v.register_hook(holding(v, base, marker))


def post_accumulate_hook(marker):
    x = leaf()
    x.register_post_accumulate_grad_hook(holding(x, marker))


def node_hook(marker):
    y = leaf() * 2
    y.grad_fn.register_hook(holding(y, marker))


def node_prehook(marker):
    y = leaf() * 2
    y.grad_fn.register_prehook(holding(y, marker))


def accumulate_node_hook(marker):
    x = leaf()
    node = (x * 2).grad_fn.next_functions[0][0]
    node.register_hook(holding(x, node, marker))


def multi_grad_hook(marker):
    y, z = leaf() * 2, leaf() * 3
    flambeau.autograd.graph.register_multi_grad_hook((y, z), holding(y, z, marker))


def node_metadata(marker):
    y = leaf() * 2
    y.grad_fn.metadata["y"], y.grad_fn.metadata["marker"] = y, marker


def node_attribute(marker):
    y = leaf() * 2
    y.grad_fn.y, y.grad_fn.marker = y, marker


def function_context(marker):
    class Keeping(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.result, ctx.marker = x * 2, marker
            return ctx.result

        @staticmethod
        def backward(ctx, g):
            return g

    y = Keeping.apply(leaf())
    y.grad_fn.again = y


def saved_by_hook(marker):
    x = leaf()
    with flambeau.autograd.graph.saved_tensors_hooks(lambda t: (t, marker, holder), lambda packed: packed[0]):
        holder = []
        holder.append(x * x)


def retained_gradient(marker):
    y = leaf() * 2
    y.retain_grad()
    y.sum().backward()
    y.grad.owner, y.grad.marker = y, marker


def written_view(marker):
    base = leaf() * 1
    base[:1].mul_(leaf()[:1])
    base.me, base.marker = base, marker


def parameter(marker):
    p = flambeau.nn.Parameter(flambeau.ones(2))
    p.me, p.marker = p, marker


def module_and_parameter(marker):
    m = flambeau.nn.Linear(2, 2)
    m.weight.module, m.marker = m, marker


def module_and_buffer(marker):
    m = flambeau.nn.BatchNorm1d(2)
    m.running_mean.module, m.marker = m, marker


def module_hook(marker):
    m = flambeau.nn.Linear(2, 2)
    m.register_forward_hook(holding(m, marker))


def module_child(marker):
    m = flambeau.nn.Sequential(flambeau.nn.Linear(2, 2))
    object.__setattr__(m[0], "parent", m)
    m.marker = marker


def module_and_its_result(marker):
    m = flambeau.nn.Linear(2, 2)
    m.last, m.marker = m(flambeau.ones(2)), marker
    m.last.module = m


def storage(marker):
    s = flambeau.ones(2).untyped_storage()
    s.me, s.marker = s, marker


def storage_and_tensor(marker):
    x = flambeau.ones(2)
    x.storage_, x.marker = x.untyped_storage(), marker


def optimizer(marker):
    p = flambeau.nn.Parameter(flambeau.ones(2))
    o = flambeau.optim.SGD([p], lr=0.1)
    p.optimizer, p.marker = o, marker


def subclass(marker):
    class Named(flambeau.Tensor):
        pass

    x = flambeau.ones(2).as_subclass(Named)
    x.me, x.marker = x, marker


KINDS = [f for name, f in list(globals().items())
         if callable(f) and getattr(f, "__code__", None) and f.__code__.co_varnames[:1] == ("marker",)]


@pytest.mark.parametrize("kind", KINDS, ids=lambda f: f.__name__)
def test_cycle_is_collected(kind):
    gc.collect()
    marker = Marker()
    watched = weakref.ref(marker)
    kind(marker)
    del marker
    gc.collect()
    assert watched() is None


def test_generators_hold_nothing():
    """They have no attributes, so no cycle can go through one."""
    with pytest.raises(AttributeError):
        flambeau.Generator().me = 1


def test_attribute_survives_while_tensor_lives():
    """Collection clears only what nobody reaches."""
    x = flambeau.ones(2)
    x.me, x.note = x, Marker()
    watched = weakref.ref(x.note)
    gc.collect()
    assert watched() is x.note and x.me is x


def test_tensors_without_attributes_are_not_tracked():
    """What cannot be part of a cycle costs the collector nothing."""
    assert not gc.is_tracked(flambeau.ones(2)) and not gc.is_tracked(flambeau.ones(2) + 1)


def test_long_chain_of_gradients_goes_quietly():
    x = flambeau.ones(1)
    for _ in range(200_000):
        y = flambeau.ones(1)
        y.grad = x
        x = y
    del x, y


def test_long_chain_of_data_goes_quietly():
    x = flambeau.ones(3)
    for _ in range(300_000):
        x = x.data
    assert x.tolist() == [1, 1, 1]
    del x
