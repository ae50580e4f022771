"""Nested tensors by name: making, sizes, parts, files, layers, transforms, and what errors say."""

import copy
import io
import pickle

import pytest

import flambeau as fb
from flambeau import nested, nn

A, B = fb.arange(6.0).reshape(2, 3), fb.arange(9.0).reshape(3, 3)
LAYOUTS = [fb.jagged, fb.strided]


def made(layout=fb.jagged, **options):
    return nested.nested_tensor([A, B], layout=layout, **options)


def parts(x):
    return [p.tolist() for p in x.unbind()]


# --- sizes ------------------------------------------------------------------------------------------------------------

def test_ragged_sizes():
    x = made()
    size = x.shape[1]
    assert x.shape == x.size() == (x * 2).shape and x.shape != made().shape
    assert isinstance(size, fb.SymInt) and size == x.size(1) and size != 3 and size >= 2 and not size < 2
    assert repr(2 * size) == "2*" + repr(size) and hash(size) == hash(x.shape[1]) and size
    assert x.stride()[1:] == (3, 1) and repr(x.stride(0)) == f"3*{size!r}"
    for call in (lambda: int(size), lambda: size + 1, lambda: fb.zeros(x.shape), lambda: size // 2):
        with pytest.raises(RuntimeError, match="is a ragged size, which differs from part to part"):
            call()
    with pytest.raises(ValueError, match="differs from part to part"):
        size < 5  # noqa: B015


def test_sizes_of_strided_tensors():
    x = nested.nested_tensor([A, fb.ones(4, 5)])
    assert (x.dim(), x.size(0), x.numel(), len(x)) == (3, 2, 26, 2) and made(fb.strided).size(2) == 3
    assert x._nested_tensor_size().tolist() == [[2, 3], [4, 5]]
    assert x._nested_tensor_strides().tolist() == [[3, 1], [5, 1]]
    assert x._nested_tensor_storage_offsets().tolist() == [0, 6]
    for call in (lambda: x.size(1), lambda: x.shape, lambda: x.size(), lambda: x.stride()):
        with pytest.raises(RuntimeError):
            call()


def test_offsets_are_shared():
    offsets = fb.tensor([0, 2, 5])
    x, y = (nested.nested_tensor_from_jagged(fb.ones(5, n), offsets) for n in (3, 1))
    assert x.shape[1] == y.shape[1] and (x + y).shape == x.shape and x.offsets() is offsets
    with pytest.raises(RuntimeError, match="tensors share a ragged size where they are made with the same offsets"):
        x + nested.nested_tensor_from_jagged(fb.ones(5, 3), fb.tensor([0, 2, 5]))
    assert (x.transpose(1, 2).shape[2], x._min_seqlen, x._max_seqlen) == (x.shape[1], 2, 3)


def test_sizes_are_arguments():
    x = made()
    size = x.shape[1]
    assert x.view(x.shape).shape == x.expand(x.shape).shape == x.reshape(2, size, 3).shape == x.shape
    assert x.unsqueeze(1).expand(2, 4, size, 3).shape == (2, 4, size, 3) == x.unsqueeze(1).expand(2, 4, -1, 3).shape
    assert x.reshape(2, -1, 3, 1).shape == (2, size, 3, 1) and fb.reshape(x, (2, -1, 1, 3)).dim() == 4


def test_holes():
    x = nested.nested_tensor_from_jagged(fb.arange(8.0), fb.tensor([0, 3, 8]), fb.tensor([2, 4]))
    assert parts(x) == [[0, 1], [3, 4, 5, 6]] and x.numel() == 6 and not x.is_contiguous()
    assert x.sum() == 19 and x.sum(1).tolist() == [1, 18] and x.contiguous().offsets().tolist() == [0, 2, 6]
    assert parts(x + x.contiguous()) == [[0, 2], [6, 8, 10, 12]]
    assert x.to_padded_tensor(-1.0).tolist() == [[0, 1, -1, -1], [3, 4, 5, 6]]


# --- making -----------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("layout", LAYOUTS)
def test_leaves_and_graphs(layout):
    a, b = (t.clone().requires_grad_() for t in (A, B))
    assert not nested.nested_tensor([a, b], layout=layout).requires_grad
    x = nested.as_nested_tensor([a, b], layout=layout)
    assert x.requires_grad and not x.is_leaf
    (x * 2).backward(nested.nested_tensor([A, B], layout=layout))
    assert a.grad.equal(2 * A) and b.grad.equal(2 * B)
    leaf = made(layout, requires_grad=True)
    for _ in range(2):
        (leaf.square()).backward(fb.ones_like(leaf.detach()))
    assert leaf.is_leaf and parts(leaf.grad) == [(4 * A).tolist(), (4 * B).tolist()]
    leaf.values().sum().backward()
    assert parts(leaf.grad)[0] == (4 * A + 1).tolist()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_forms_of_making(layout):
    assert parts(nested.nested_tensor([[1, 2], [3]], layout=layout)) == [[1, 2], [3]]
    assert nested.nested_tensor([A, B], dtype=fb.float64, layout=layout).dtype is fb.float64
    dense = fb.rand(2, 3, 4)
    assert nested.as_nested_tensor(dense, layout=layout).values().data_ptr() == dense.data_ptr()
    x = made(layout)
    assert nested.as_nested_tensor(x, layout=layout) is x and x.to(fb.float32) is x and x.cpu() is x
    assert x.to(layout=fb.strided).layout is fb.strided and x.to(fb.jagged).layout is fb.jagged
    assert x.half().dtype is fb.float16 and x.values().data_ptr() == x.data_ptr()


@pytest.mark.parametrize(("call", "kind"), [
    (lambda: nested.nested_tensor(A), TypeError), (lambda: nested.nested_tensor(3), TypeError),
    (lambda: nested.nested_tensor([A, A[0]]), RuntimeError), (lambda: nested.as_nested_tensor([1]), TypeError),
    (lambda: nested.nested_tensor([], layout=fb.jagged), RuntimeError),
    (lambda: nested.nested_tensor([A, fb.ones(3, 4)], layout=fb.jagged), RuntimeError),
    (lambda: nested.nested_tensor([A], layout=fb.sparse_coo), RuntimeError),
    (lambda: nested.nested_tensor([A.long()], requires_grad=True), RuntimeError),
    (lambda: nested.nested_tensor([A], pin_memory=True), RuntimeError),
    (lambda: nested.nested_tensor_from_jagged(A), RuntimeError),
    (lambda: nested.nested_tensor_from_jagged(A, fb.tensor([[0, 2]])), AssertionError),
    (lambda: nested.nested_tensor_from_jagged(A, fb.tensor([0, 2]), jagged_dim=3), IndexError),
    (lambda: nested.nested_tensor_from_jagged(A, fb.tensor([0, 9])).unbind(), RuntimeError),
    (lambda: nested.nested_tensor_from_jagged(A, fb.tensor([0, 2, 1])).sum(1), RuntimeError),
    (lambda: nested.nested_tensor_from_jagged(A, fb.tensor([0, 9])).to_padded_tensor(0.0), RuntimeError),
    (lambda: nested.narrow(A, 1, fb.tensor([0, 1]), fb.tensor([1, 9]), layout=fb.jagged), RuntimeError),
    (lambda: nested.to_padded_tensor(A, 0.0), NotImplementedError), (lambda: fb.fft.fft2(made()), NotImplementedError),
    (lambda: made().sum(0), RuntimeError), (lambda: made().transpose(0, 1), ValueError),
    (lambda: made()[5], IndexError), (lambda: made().flatten(), RuntimeError), (lambda: made().item(), RuntimeError),
    (lambda: bool(made()), RuntimeError), (lambda: made().numpy(), RuntimeError),
    (lambda: made().to_dense(), RuntimeError), (lambda: made() @ made(), RuntimeError),
    (lambda: nn.functional.cross_entropy(made(), made()), RuntimeError),
    (lambda: made() + fb.ones(2, 2, 3), RuntimeError), (lambda: made(requires_grad=True).add_(1), RuntimeError),
    (lambda: made(requires_grad=True).__setitem__(0, 1.0), RuntimeError), (lambda: A.copy_(made()), RuntimeError),
    (lambda: made() + made(fb.strided), RuntimeError),
    (lambda: nn.functional.conv1d(made(), B[None]), NotImplementedError),
])
def test_errors(call, kind):
    with pytest.raises(kind):
        call()


def test_errors_say_how_to_go_on():
    with pytest.raises(NotImplementedError, match=r"fft_fft2: .*x.unbind\(\)\], or on x.to_padded_tensor\(0\)"):
        fb.fft.fft2(made())


# --- indices and writes -----------------------------------------------------------------------------------------------

@pytest.mark.parametrize("layout", LAYOUTS)
def test_indices(layout):
    x = made(layout)
    assert x[0].equal(A) and x[-1, 1].equal(B[1]) and x[1, 2, 0] == 6 and x[0].data_ptr() == x.data_ptr()
    assert parts(x[..., 0]) == [A[:, 0].tolist(), B[:, 0].tolist()]
    assert parts(x[:, 1:]) == [A[1:].tolist(), B[1:].tolist()]
    assert parts(x[1:]) == [B.tolist()] and parts(x[[1, 0]]) == [B.tolist(), A.tolist()]
    assert parts(x[fb.tensor([False, True])]) == [B.tolist()] and len(x[::2]) == 1
    assert parts(x.narrow(0, 1, 1)) == [B.tolist()] and [len(c) for c in x.chunk(2)] == [1, 1]
    assert parts(fb.cat([x, x]))[3] == B.tolist()
    x[0] = 7.0
    x[..., 1] = -1.0
    assert parts(x)[0] == [[7, -1, 7]] * 2 and parts(x)[1][0] == [0, -1, 2]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_writes(layout):
    x = made(layout)
    y = x.clone()
    assert y.add_(1) is y and parts(y) == parts(x + 1) and y._version > 0
    assert parts(y.zero_()) == parts(x * 0) and parts(y.fill_(2)) == parts(x * 0 + 2) and parts(y.copy_(x)) == parts(x)
    leaf = made(layout, requires_grad=True)
    z = leaf * 1
    z.mul_(3)
    z.sum().backward()
    assert parts(leaf.grad) == parts(fb.full_like(x, 3.0))
    z = leaf.exp()
    z.detach().add_(1)
    with pytest.raises(RuntimeError, match=r"modified|changed|in place"):
        z.sum().backward()


def test_index_put_and_masked_select():
    x = nested.nested_tensor([A[0], B[0, :2]], layout=fb.jagged)
    y = x.index_put((fb.tensor([0, 1]), fb.tensor([2, 0])), fb.tensor(9.0))
    assert parts(y) == [[0, 1, 9], [9, 1]] and parts(x.masked_select(x > 0)) == [[1, 2], [1]]
    with pytest.raises(IndexError):
        x.index_put((fb.tensor([1]), fb.tensor([2])), fb.tensor(9.0))


# --- printing, copying, files -----------------------------------------------------------------------------------------

def test_printing():
    x = made()
    assert repr(x) == f"NestedTensor(size=(2, {x.shape[1]!r}, 3), offsets=tensor([0, 2, 5]), contiguous=True)"
    assert "requires_grad=True, contiguous=True" in f"{made(requires_grad=True)}"
    assert "grad_fn=<MulBackward0" in repr(made(requires_grad=True) * 2)
    text = "nested_tensor([\n  tensor([1., 1.]),\n  tensor([1.])\n])"
    assert repr(nested.nested_tensor([fb.ones(2), fb.ones(1)])) == text


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("through", ["pickle", "deepcopy", "copy", "file"])
def test_copies(layout, through):
    def saved(x):
        file = io.BytesIO()
        fb.save({"x": x}, file)
        file.seek(0)
        return fb.load(file)["x"]

    make = {"pickle": lambda x: pickle.loads(pickle.dumps(x)), "deepcopy": copy.deepcopy, "copy": copy.copy,
            "file": saved}
    for x in (made(layout), made(layout, requires_grad=True), made(layout).transpose(1, 2)):
        y = make[through](x)
        assert parts(y) == parts(x) and y.layout is x.layout and y.requires_grad == x.requires_grad
    holes = nested.nested_tensor_from_jagged(A, fb.tensor([0, 2]), fb.tensor([1]))
    assert parts(make[through](holes)) == [[[0, 1, 2]]]
    parameter = nn.Parameter(made(layout))
    parameter.note = 3
    assert make[through](parameter).note == 3 and make[through](parameter).requires_grad


def test_assert_close():
    for layout in LAYOUTS:
        x = made(layout)
        fb.testing.assert_close(x, x.clone())
        with pytest.raises(AssertionError, match="differ in 1 of 6"):
            y = x.clone()
            y[0, 0, 0] = 5.0
            fb.testing.assert_close(y, x)
        with pytest.raises(AssertionError, match="actual is nested, the other is not"):
            fb.testing.assert_close(x, A)
    with pytest.raises(AssertionError, match="shape"):
        fb.testing.assert_close(made(), made())
    assert made().equal(made()) and not made().equal(made() + 1) and fb.allclose(made(), made())


# --- layers -----------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("layout", LAYOUTS)
def test_attention_layers(layout):
    fb.manual_seed(0)
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
    rows = [fb.randn(n, 8) for n in (3, 1, 4)]
    x = nested.as_nested_tensor(rows, layout=layout)
    found, expected = layer(x), [layer(r[None])[0] for r in rows]
    fb.testing.assert_close(list(found.unbind()), expected)
    found.sum().backward()
    grads = [p.grad.clone() for p in layer.parameters()]
    layer.zero_grad()
    sum(e.sum() for e in expected).backward()
    fb.testing.assert_close(grads, [p.grad for p in layer.parameters()], rtol=1e-4, atol=1e-5)
    out, weights = layer.self_attn(x, x, x)
    assert weights.shape == (3, 4, 4) and out.is_nested
    fb.testing.assert_close(weights[0, :3, :3], layer.self_attn(rows[0][None], rows[0][None], rows[0][None])[1][0])


def test_flex_attention():
    flex = fb.nn.attention.flex_attention
    fb.manual_seed(0)
    rows = [fb.randn(n, 2, 4) for n in (3, 1, 5)]
    q = nested.as_nested_tensor(rows, layout=fb.jagged).transpose(1, 2)
    mask = flex.create_nested_block_mask(lambda b, h, i, j: i >= j, None, None, q)
    assert mask.shape == (1, 1, 9, 9)
    found = flex.flex_attention(q, q, q, block_mask=mask)
    expected = nn.functional.scaled_dot_product_attention(q, q, q, is_causal=True)
    assert found.shape == q.shape
    fb.testing.assert_close(list(found.unbind()), list(expected.unbind()))
    found = flex.flex_attention(q, q, q, lambda score, b, h, i, j: score * b)
    for k, (p, row) in enumerate(zip(found.unbind(), rows, strict=True)):
        t = row.transpose(0, 1)[None]
        fb.testing.assert_close(p, nn.functional.scaled_dot_product_attention(t * k, t, t)[0])
    whole = flex.create_block_mask(lambda b, h, i, j: i >= j, None, None, 9, 9)
    with pytest.raises(ValueError, match="create_nested_block_mask"):
        flex.flex_attention(q, q, q, block_mask=whole)


def test_encoder_leaves_padding_out():
    fb.manual_seed(0)
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    whole, fast = (nn.TransformerEncoder(layer, 2, enable_nested_tensor=on).eval() for on in (False, True))
    fast.load_state_dict(whole.state_dict())
    x, mask = fb.randn(3, 5, 8), fb.arange(5) >= fb.tensor([3, 2, 4])[:, None]
    with fb.no_grad():
        found, expected = fast(x, src_key_padding_mask=mask), whole(x, src_key_padding_mask=mask)
        fb.testing.assert_close(found[~mask], expected[~mask])
        assert found.shape == x.shape and (found[mask] == 0).all() and not (expected[mask] == 0).any()
        scattered = mask.clone()
        scattered[0, 1] = True
        assert not (fast(x, src_key_padding_mask=scattered) == 0).any()
    assert not (fast(x, src_key_padding_mask=mask)[mask] == 0).any()  # gradients are recorded: as PyTorch, the whole


def test_layers_train():
    fb.manual_seed(0)
    table, norm, out = nn.Embedding(10, 4), nn.LayerNorm(4), nn.Linear(4, 2)
    x = nested.nested_tensor([fb.tensor([1, 2, 3]), fb.tensor([4, 2])], layout=fb.jagged)
    optimizer = fb.optim.SGD([*table.parameters(), *norm.parameters(), *out.parameters()], lr=0.5)
    losses = []
    for _ in range(5):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(out(norm(table(x)).mean(1)), fb.tensor([0, 1]))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] and table.weight.grad[5:].abs().sum() == 0
    bags = nn.functional.embedding_bag(x, table.weight, mode="sum")
    fb.testing.assert_close(bags, fb.stack([table(p).sum(0) for p in x.unbind()]))


# --- interplay --------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("layout", LAYOUTS)
def test_transforms(layout):
    x = made(layout)
    assert parts(fb.vmap(lambda p: p * 2)(x)) == parts(x * 2)
    assert fb.vmap(lambda p: p.sum())(x).tolist() == [15, 36]
    assert parts(fb.vmap(lambda p, t: p + t)(x, fb.tensor([1.0, 2.0]))) == [(A + 1).tolist(), (B + 2).tolist()]
    assert parts(fb.func.grad(lambda t: t.square().sum())(x)) == parts(2 * x)
    assert parts(fb.compile(lambda t: (t * 2 + 1).relu())(x)) == parts((x * 2 + 1).relu())
    leaf = made(layout, requires_grad=True)
    fb.utils.checkpoint.checkpoint(lambda t: t.sin() * t, leaf, use_reentrant=False).sum().backward()
    fb.testing.assert_close(list(leaf.grad.unbind()), [p.cos() * p + p.sin() for p in (A, B)])
    with fb.autocast("cpu", dtype=fb.bfloat16):
        assert nn.functional.linear(x, fb.ones(2, 3)).dtype is fb.bfloat16
    with fb.inference_mode():
        assert parts(x + x) == parts(x * 2)
    with pytest.raises(RuntimeError, match="nested tensors are batches already"):
        fb.utils.data.default_collate([x, x])


def test_hooks_and_retained_gradients():
    leaf, seen = made(requires_grad=True), []
    y = leaf * 2
    y.retain_grad()
    y.register_hook(lambda g: seen.append(g.layout))
    y.sum(1).sum().backward()
    assert seen == [fb.jagged] and parts(y.grad) == parts(fb.ones_like(y.detach()))
    assert fb.autograd.gradcheck(lambda a, b: nested.as_nested_tensor([a, b], layout=fb.jagged).softmax(1).values(),
                                 (A.double().requires_grad_(), B.double().requires_grad_()))


def test_functions_of_programs():
    dense = fb.rand(2, 3, 4)
    x = fb._nested_tensor_from_mask(dense, fb.tensor([[True, True, False], [True, False, False]]))
    assert x.layout is fb.strided and x[0].equal(dense[0, :2]) and x[1].equal(dense[1, :1])
    assert fb._nested_from_padded(dense, fb.tensor([[2, 4], [1, 4]]))[1].equal(dense[1, :1])
    y = fb._nested_view_from_buffer(fb.arange(5.0), fb.tensor([[2], [2]]), fb.tensor([[1], [2]]), fb.tensor([0, 1]))
    assert parts(y) == [[0, 1], [1, 3]] and parts(y * 2) == [[0, 2], [2, 6]] and y.sum() == 5
    with pytest.raises(RuntimeError, match="reach to element 7 of 5"):
        fb._nested_view_from_buffer(fb.arange(5.0), fb.tensor([[2]]), fb.tensor([[4]]), fb.tensor([3]))
