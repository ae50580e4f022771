"""Traces keep the module tree: what a module did in the run is a method of its own, here and in files."""

import io

import pytest

import flambeau
from flambeau import nn
from flambeau.nn import functional as F
from flambeau.utils._pytree import tree_leaves, tree_map


def through(program):
    return flambeau.jit.load(io.BytesIO(program.save_to_buffer()))


def same(a, b):
    a, b = tree_leaves(a), tree_leaves(b)
    return len(a) == len(b) and all(flambeau.allclose(p, q, atol=1e-6) for p, q in zip(a, b, strict=True))


class Block(nn.Module):
    """A residual block with a number that Python decides."""

    def __init__(self, n):
        super().__init__()
        self.conv, self.norm, self.act = nn.Conv2d(n, n, 3, padding=1), nn.BatchNorm2d(n), nn.ReLU(inplace=True)

    def forward(self, x, scale=2.0):
        return self.act(self.norm(self.conv(x))) * scale + x


class Sized(nn.Module):
    """Sizes that are read inside and outside, results in a dict, a module that is called twice."""

    def __init__(self):
        super().__init__()
        self.blocks = nn.Sequential(Block(3), Block(3))
        self.flat, self.tanh = Flat(), nn.Tanh()

    def forward(self, x):
        y = self.blocks(x)
        parts = self.flat(y, (x, y))
        return self.tanh(parts["a"]) + self.tanh(parts["b"] * y.shape[0]).view(x.size(0), -1)


class Flat(nn.Module):
    """Takes a pair, gives a dict."""

    def forward(self, x, pair):
        n = pair[0].shape[0]
        return {"a": x.reshape(n, -1), "b": (pair[0] + pair[1]).reshape(n, -1)}


class Recurrent(nn.Module):
    """A part of an inner module's result is not used."""

    def __init__(self):
        super().__init__()
        self.rnn, self.out = nn.LSTM(3, 4, batch_first=True), nn.Linear(4, 2)

    def forward(self, x):
        y, _ = self.rnn(x)
        return self.out(y[:, -1])


class Remembering(nn.Module):
    """An inner module leaves a tensor where another one finds it."""

    def __init__(self):
        super().__init__()
        self.first, self.second = Leaving(), nn.Linear(3, 3)

    def forward(self, x):
        y = self.first(x)
        return self.second(y) + self.first.seen * self.first.weight


class Leaving(nn.Module):
    """Keeps what it has computed on the way."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(flambeau.ones(3))

    def forward(self, x):
        self.seen = x.exp()
        return self.seen.log() * self.weight


class Tied(nn.Module):
    """Two modules with one weight, a module by two names, one that is no child of its caller."""

    def __init__(self):
        super().__init__()
        self.embed, self.head = nn.Embedding(5, 4), nn.Linear(4, 5, bias=False)
        self.head.weight = self.embed.weight
        self.again = self.head
        self.caller = Calling([self.head])

    def forward(self, x):
        return self.caller(self.again(self.embed(x))), self.head(self.embed(x))


class Calling(nn.Module):
    """Calls a module that is not inside it."""

    def __init__(self, others):
        super().__init__()
        self.others, self.scale = others, nn.Parameter(flambeau.full((5,), 2.0))

    def forward(self, x):
        return self.others[0](F.softmax(x * self.scale, -1)[..., :4])


def encoder():
    return nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, dropout=0.0), 2)


CASES = {
    "blocks": (lambda: nn.Sequential(Block(3), nn.Flatten(), nn.Identity()).eval(), (3, 6, 6)),
    "sizes": (lambda: Sized().eval(), (3, 5, 5)), "recurrent": (Recurrent, (6, 3)),
    "remembering": (Remembering, (3,)), "transformer": (lambda: encoder().eval(), (4, 8)),
    "attention": (lambda: nn.Sequential(nn.LayerNorm(8), Own()).eval(), (4, 8)),
}


class Own(nn.Module):
    """Attention of a sequence with itself: one tensor three times."""

    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, x):
        return self.attention(x, x, x, need_weights=False)[0]


def calls(module, x):
    """[(name, args, kwargs, result)] of the inner modules in one call."""
    seen, given, handles = [], [], []
    for name, inner in module.named_modules():
        if inner is not module:
            handles.append(inner.register_forward_pre_hook(
                lambda m, args, kwargs: given.append(copied((args, kwargs))), with_kwargs=True))
            handles.append(inner.register_forward_hook(
                lambda m, args, result, name=name: seen.append((name, *given.pop(), copied(result)))))
    module(x)
    for handle in handles:
        handle.remove()
    return seen


def copied(tree):
    """What is given and what comes, before another module changes it in place."""
    return tree_map(lambda x: x.clone() if isinstance(x, flambeau.Tensor) else x, tree)


@pytest.mark.parametrize("case", CASES)
def test_each_module_does_by_itself_what_it_does_inside(case):
    make, shape = CASES[case]
    module = make()
    traced = flambeau.jit.trace(module, flambeau.rand(2, *shape))
    x = flambeau.rand(5, *shape)
    with flambeau.no_grad():
        for program in (traced, through(traced)):
            assert same(program(x), module(x))
            inner = dict(program.named_modules())
            for name, args, kwargs, result in calls(module, x):
                kwargs = {key: a for key, a in kwargs.items() if isinstance(a, flambeau.Tensor)}
                found = tree_leaves(inner[name](*args, **kwargs))
                expected = [t for t in tree_leaves(result) if isinstance(t, flambeau.Tensor)]
                # what nothing used is not computed; what others found there comes last
                assert same(found[:1], expected[:1]) and len(found) <= len(expected) + 1


def test_what_a_module_inside_is():
    traced = flambeau.jit.trace(Sized().eval(), flambeau.rand(2, 3, 4, 4))
    for program in (traced, through(traced)):
        block = program.blocks[0]
        assert "self.conv.forward(x)" in block.code and block.original_name == "Block"
        assert "torch.conv2d(input, self.weight, self.bias" in block.conv.code
        assert [type(program.blocks[k]) for k in (0, 1)] == [type(block)] * 2  # modules that do the same
        assert program.tanh.code.count("def ") == 1  # two calls that do the same
    graph = traced.blocks[1].conv.graph
    assert len(graph.findAllNodes("aten::conv2d")) == 1 and len(list(graph.inputs())) == 2
    assert len(traced.inlined_graph.findAllNodes("aten::conv2d")) == 2 and not traced.graph.findNode("aten::conv2d")


def test_calls_that_differ_are_methods_of_their_own():
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.block = Block(3)

        def forward(self, x):
            return self.block(self.block(x), scale=3.0)

    module = Twice().eval()
    traced = flambeau.jit.trace(module, flambeau.rand(2, 3, 4, 4))
    x = flambeau.rand(4, 3, 5, 5)
    with flambeau.no_grad():
        for program in (traced, through(traced)):
            assert same(program(x), module(x))
            assert same(program.block(x), module.block(x)) and same(program.block.forward1(x), module.block(x, 3.0))


def test_shared_weights_and_modules_of_others():
    module = Tied()
    traced = flambeau.jit.trace(module, flambeau.tensor([[1, 2], [3, 4]]))
    x = flambeau.tensor([[0, 1, 4]] * 3)
    for program in (traced, through(traced)):
        assert same(program(x), module(x)) and program.again is program.head
        assert same(program.embed(x), module.embed(x)) and same(program.head(module.embed(x)), module.head(
            module.embed(x)))
        assert program.head.weight.data_ptr() == program.embed.weight.data_ptr()


def test_modules_that_did_not_run_say_so():
    class Idle(nn.Module):
        def __init__(self):
            super().__init__()
            self.used, self.idle = nn.Linear(2, 2), nn.Linear(2, 2)

        def forward(self, x):
            return self.used(x)

    traced = flambeau.jit.trace(Idle(), flambeau.rand(1, 2))
    assert traced.used(flambeau.rand(3, 2)).shape == (3, 2)
    with pytest.raises(NotImplementedError, match="was not called"):
        traced.idle(flambeau.rand(3, 2))


def test_several_methods_share_what_is_inside():
    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(2, 2)

        def forward(self, x):
            return self.linear(x)

        def doubled(self, x):
            return self.linear(x) * 2

    module, x = Two(), flambeau.rand(3, 2)
    program = through(flambeau.jit.trace_module(module, {"forward": x, "doubled": x}))
    assert same(program(x), module(x)) and same(program.doubled(x), module(x) * 2)
    assert not hasattr(program.linear, "forward1")


def test_hooks_and_gradients_of_a_module_are_left_as_they_were():
    module = nn.Sequential(nn.Linear(2, 2), nn.Tanh())
    handle = module[1].register_forward_hook(lambda m, args, result: result + 1)
    before = set(vars(module[0]))
    traced = flambeau.jit.trace(module, flambeau.rand(3, 2))
    assert len(module[1]._forward_hooks) == 1 and set(vars(module[0])) == before
    x = flambeau.rand(4, 2)
    assert same(traced(x), module(x)) and same(traced[1](x), x.tanh() + 1)
    traced(x).sum().backward()
    assert module[0].weight.grad is not None
    handle.remove()
