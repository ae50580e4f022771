"""vmap: axes, trees, nesting, in-place writes, randomness, errors."""

import importlib

import pytest

import flambeau
from flambeau.func import grad, jacrev, vmap


def same(a, b, **how):
    flambeau.testing.assert_close(a, b, **how)


def test_equals_a_loop_and_keeps_outer_gradients():
    x = flambeau.randn(3, 4, requires_grad=True)
    y = vmap(lambda a: (a * 2).sin().sum() + a[0])(x)
    same(y, (x * 2).sin().sum(1) + x[:, 0])
    y.sum().backward()
    expected = 2 * (2 * x.detach()).cos()
    expected[:, 0] += 1
    same(x.grad, expected)


def test_dimensions_of_inputs_and_outputs():
    x, y = flambeau.randn(2, 3, 4), flambeau.randn(4)
    out = vmap(lambda a, b: (a * b, a.sum(0)), in_dims=(1, None), out_dims=(2, 0))(x, y)
    same(out[0], (x * y).movedim(1, 2))
    same(out[1], x.sum(0))
    tree = vmap(lambda d: {"s": d["a"] + d["b"][0]}, in_dims=({"a": 0, "b": (None,)},))({"a": x, "b": (y,)})
    same(tree["s"], x + y)
    same(vmap(lambda a: flambeau.ones(2), out_dims=1)(y), flambeau.ones(2, 4))


def test_nested():
    out = vmap(vmap(lambda a, b: a * b, in_dims=(0, None)), in_dims=(None, 0))(flambeau.arange(3.), flambeau.arange(4.))
    same(out, flambeau.arange(4.)[:, None] * flambeau.arange(3.))


def test_chunks_and_empty_batches():
    x = flambeau.randn(7, 3)
    same(vmap(lambda a: (a.cumsum(0), a.sum()), chunk_size=3)(x)[0], x.cumsum(1))
    assert vmap(lambda a: a.cumsum(0))(flambeau.ones(0, 3)).shape == (0, 3)


def test_single_numbers_stay_weak_in_type_promotion():
    weights = flambeau.rand(4, dtype=flambeau.float64)
    x = flambeau.rand(3)
    assert vmap(lambda w: w * x)(weights).dtype == flambeau.float32
    same(vmap(lambda w: w * x)(weights), weights.float()[:, None] * x)


def test_writes_in_place():
    def f(a):
        z = flambeau.zeros_like(a)
        z[0] = a[1]
        z.add_(a)
        z[1:] *= 2
        return z

    x = flambeau.randn(3, 4)
    same(vmap(f)(x), flambeau.stack([f(a) for a in x]))
    assert vmap(lambda a: a.unsqueeze_(0).transpose_(0, 1))(x.clone()).shape == (3, 4, 1)
    with pytest.raises(RuntimeError, match="out of place"):
        vmap(lambda a: flambeau.zeros(4).add_(a))(x)


def test_randomness():
    x = flambeau.zeros(5)
    with pytest.raises(RuntimeError, match="randomness"):
        vmap(lambda a: a + flambeau.rand(()))(x)
    assert len(set(vmap(lambda a: a + flambeau.rand(()), randomness="different")(x).tolist())) == 5
    assert len(set(vmap(lambda a: a + flambeau.rand(()), randomness="same")(x).tolist())) == 1
    flambeau.manual_seed(0)
    dropped = vmap(lambda a: flambeau.nn.functional.dropout(a, 0.5), randomness="same")(flambeau.ones(3, 20))
    same(dropped[0], dropped[2])
    dropped = vmap(lambda a: flambeau.nn.functional.dropout(a, 0.5), randomness="different")(flambeau.ones(3, 20))
    assert not flambeau.equal(dropped[0], dropped[2])


def test_values_cannot_be_read():
    x = flambeau.ones(3)
    for read in (bool, float, int, lambda a: a.item(), lambda a: a.tolist(), lambda a: a.numpy()):
        with pytest.raises((RuntimeError, BufferError)):
            vmap(lambda a, read=read: (read(a), a)[1])(x)
    kept = []
    vmap(lambda a: (kept.append(a), a)[1])(x)
    with pytest.raises(RuntimeError, match="left the"):
        kept[0] + 1


@pytest.mark.parametrize("call", [
    lambda x: vmap(lambda a: a, in_dims=5)(x), lambda x: vmap(lambda a: a, in_dims=(0, 0))(x),
    lambda x: vmap(lambda a: a)(3), lambda x: vmap(lambda a: a)(), lambda x: vmap(lambda a: 3)(x),
    lambda x: vmap(lambda a, b: a)(x, flambeau.ones(4)), lambda x: vmap(lambda a: a, in_dims=None)(x),
    lambda x: vmap(lambda a: a, out_dims=None)(x), lambda x: vmap(lambda a: a, chunk_size=0)(x),
])
def test_wrong_calls(call):
    with pytest.raises(ValueError):
        call(flambeau.ones(3))


def test_per_sample_gradients_and_their_gradient():
    x, w = flambeau.randn(3, 4), flambeau.randn(4, 5)

    def f(w, x):
        return ((x @ w).tanh() ** 2).sum()

    def by_vmap(w):
        return (vmap(grad(f), in_dims=(None, 0))(w, x) ** 2).sum()

    def by_loop(w):
        return sum((grad(f)(w, a) ** 2).sum() for a in x)

    same(vmap(grad(f), in_dims=(None, 0))(w, x), flambeau.stack([grad(f)(w, a) for a in x]))
    same(grad(by_vmap)(w), grad(by_loop)(w))
    scales = flambeau.arange(1., 3)
    same(vmap(lambda s: grad(by_vmap)(w * s))(scales), flambeau.stack([grad(by_loop)(w * s) for s in scales]))


def test_jacobians():
    x = flambeau.arange(1., 4)
    same(jacrev(lambda x: x.cumprod(0))(x), flambeau.tensor([[1., 0, 0], [2, 1, 0], [6, 3, 2]]))
    same(jacrev(jacrev(lambda x: (x ** 3).sum()))(x), flambeau.diag(6 * x))
    both = jacrev(lambda x, y: {"a": x * y, "b": (x + y).sum()}, argnums=(0, 1), chunk_size=2)(x, x)
    same(both["a"][1], flambeau.diag(x))
    same(both["b"][0], flambeau.ones(3))


def test_rearrange():
    from flambeau.func import debug_unwrap, rearrange
    x = flambeau.arange(24).reshape(2, 3, 4)
    same(rearrange(x, "a b c -> c (b a)"), x.permute(2, 1, 0).reshape(4, 6))
    same(rearrange(x, "a b (c d) -> d a 1 (b c)", c=2), x.reshape(2, 3, 2, 2).permute(3, 0, 1, 2).reshape(2, 2, 1, 6))
    same(rearrange(x, "... c -> c ..."), x.movedim(-1, 0))
    same(rearrange([x, x], "n a ... -> (n a) (...)"), flambeau.stack([x, x]).reshape(4, 12))
    same(vmap(lambda t: rearrange(t, "a b -> b a"))(x), x.mT)
    for pattern in ("a b -> a", "a b c -> a b d", "a b (c d) -> a b c d", "a b c", "a a b -> a b", "a b (c -> a b c"):
        with pytest.raises(ValueError):
            rearrange(x, pattern)
    assert debug_unwrap(x) is x


@pytest.mark.parametrize("dim", [0, 1, 2])
def test_writes_through_views_are_differentiated(dim):
    def f(a, b):
        z = a * 1
        z[0] = b[0] * 2
        z[:, 1:].mul_(b[:, 1:])
        z.transpose(0, 1)[1].add_(a[:, 0])
        return (z * z).sin().sum()

    a, b = flambeau.randn(4, 4, 4).double(), flambeau.randn(4, 4, 4).double()
    for dims in ((dim, dim), (dim, None)):
        def of(x, k, d):
            return x[0] if d is None else x.select(d, k)
        given = [x[0] if d is None else x for x, d in zip((a, b), dims, strict=True)]
        found = vmap(grad(f, argnums=(0, 1)), in_dims=dims)(*given)
        each = [grad(f, argnums=(0, 1))(of(a, k, dims[0]), of(b, k, dims[1])) for k in range(4)]
        same(found[0], flambeau.stack([e[0] for e in each]))
        same(found[1], flambeau.stack([e[1] for e in each]))


def test_containers_take_batches_by_steps_of_their_own(monkeypatch):
    """Packages put functions of theirs in the place of the steps that trees of inputs pass."""
    from flambeau._transforms.batched import Batched
    steps = importlib.import_module("flambeau._transforms.vmap")

    class Pair:
        def __init__(self, a, b):
            self.a, self.b = a, b

    pairs = (lambda x: isinstance(x, Pair))
    process, unwrap = steps._process_batched_inputs, steps._unwrap_batched

    def inputs(in_dims, args, func):
        if not any(map(pairs, args)):
            return process(in_dims, args, func)
        return args[0].a.shape[in_dims], [in_dims] * len(args), list(args), "a list"

    def create(flat_in_dims, flat_args, level, spec):
        return [Pair(*(steps._add_batch_dim(x, d, level) for x in (p.a, p.b)))
                for p, d in zip(flat_args, flat_in_dims, strict=True)]

    def outputs(out, out_dims, level, size, func):
        if not pairs(out):
            return unwrap(out, out_dims, level, size, func)
        return Pair(*(steps._maybe_remove_batch_dim(steps._get_name(func), x, level, size, out_dims)
                      for x in (out.a, out.b)))

    monkeypatch.setattr(steps, "_process_batched_inputs", inputs)
    monkeypatch.setattr(steps, "_create_batched_inputs", create)
    monkeypatch.setattr(steps, "_unwrap_batched", outputs)
    seen = []

    def f(pair):
        seen.append((pair.a.shape, type(pair.a) is Batched))
        return Pair(pair.a.sum(), pair.a @ pair.b)

    x, y = flambeau.randn(2, 3), flambeau.randn(2, 3)
    found = vmap(f, in_dims=1)(Pair(x, y))
    assert seen == [((2,), True)]
    same(found.a, x.sum(0))
    same(found.b, (x * y).sum(0))


def test_chunks_keep_keyword_arguments():
    x = flambeau.randn(5, 3)
    same(vmap(lambda t, s, *, c: t * s + c, (0, None), chunk_size=2)(x, 2.0, c=flambeau.ones(3)), x * 2 + 1)


def test_one_draw_for_all_elements_is_one_in_every_piece_and_from_every_generator():
    out = vmap(lambda a: a + flambeau.rand(()), randomness="same", chunk_size=2)(flambeau.zeros(5))
    assert len(set(out.tolist())) == 1
    generator = flambeau.Generator().manual_seed(0)
    out = vmap(lambda a: a.uniform_(generator=generator), randomness="same")(flambeau.zeros(5))
    assert len(set(out.tolist())) == 1


@pytest.mark.parametrize("draw", [
    lambda a: flambeau.normal(0.0, 1.0, (8,)), lambda a: flambeau.normal(a, 1.0), lambda a: flambeau.bernoulli(a, 0.5),
    lambda a: flambeau.nn.functional.alpha_dropout(flambeau.ones(32), 0.5, True),
    lambda a: flambeau.nn.functional.feature_alpha_dropout(a.expand(4, 8), 0.5, True),
    lambda a: flambeau.nn.functional.dropout2d(flambeau.ones(4, 8, 1, 1)),
    lambda a: flambeau.nn.functional.gumbel_softmax(flambeau.zeros(8)),
])
def test_operators_made_of_draws_draw_for_each_element(draw):
    x = flambeau.zeros(3, 8)
    flambeau.manual_seed(0)
    out = vmap(draw, randomness="different")(x)
    assert not flambeau.equal(out[0], out[1]) and not flambeau.equal(out[1], out[2])
    twice = vmap(vmap(draw, randomness="different"), randomness="different")(flambeau.zeros(2, 2, 8))
    assert len({tuple(row.flatten().tolist()) for row in twice.flatten(0, 1)}) == 4


def test_outputs_without_a_batch_may_be_anything():
    assert vmap(lambda a: "text", out_dims=None)(flambeau.ones(2)) == "text"
    doubled, kind = vmap(lambda a: (2 * a, a.dtype), out_dims=(0, None))(flambeau.ones(2))
    assert doubled.tolist() == [2, 2] and kind is flambeau.float32
    with pytest.raises(ValueError, match="must be a Tensor"):
        vmap(lambda a: (a, 1))(flambeau.ones(2))


def test_matrices_of_the_wrong_dimensions():
    with pytest.raises(RuntimeError, match="mm"):
        vmap(flambeau.mm)(flambeau.ones(3, 2, 2), flambeau.ones(3, 2))
    with pytest.raises(RuntimeError, match="mm"):
        vmap(flambeau.mm, in_dims=(None, 0))(flambeau.ones(2, 2), flambeau.ones(3, 2))


@pytest.mark.parametrize("name", ["grad", "grad_and_value", "jacrev", "jacfwd", "hessian", "vmap"])
def test_the_function_made_has_the_name_of_the_one_given(name):
    def loss(x):
        return x

    assert getattr(flambeau.func, name)(loss).__name__ == "loss"


def test_elements_that_go_different_ways():
    def f(x):
        return flambeau.cond(x.sum() > 0, lambda x: x + 1, lambda x: x * 10, (x,))

    x = flambeau.tensor([-1.0, 0.5, 2.0])
    same(vmap(f)(x), flambeau.tensor([-10.0, 1.5, 3.0]))
    same(vmap(grad(f))(x), flambeau.tensor([10.0, 1.0, 1.0]))
    same(vmap(vmap(f))(flambeau.stack([x, -x])), flambeau.tensor([[-10.0, 1.5, 3.0], [2.0, -5.0, -20.0]]))


def test_what_is_printed_inside():
    said = []

    def look(x):
        said.append(repr(x))
        return x

    vmap(look)(flambeau.tensor([1.0, 2.0]))
    assert said == ["BatchedTensor(lvl=1, bdim=0, value=\n    tensor([1., 2.])\n)"]
    said.clear()
    vmap(vmap(look))(flambeau.tensor([[1.0, 2.0]]))
    inner = "    BatchedTensor(lvl=1, bdim=0, value=\n        tensor([[1., 2.]])\n    )"
    assert said == [f"BatchedTensor(lvl=2, bdim=0, value=\n{inner}\n)"]
