"""Sparse tensors as programs meet them: made, printed, copied, stored, refused; what hostile indices do."""

import contextlib
import copy
import io
import pickle

import numpy as np
import pytest

import flambeau as fb
from flambeau.ops.kinds import OPS
from flambeau.serialization import load, save


def example():
    return fb.sparse_coo_tensor([[0, 1, 1, 0], [2, 0, 2, 2]], [1.0, 2.0, 3.0, 4.0], (2, 3))


def every_layout():
    x = fb.tensor([[0.0, 2.0, 0.0, 1.0], [3.0, 0.0, 0.0, 0.0]])
    return [x.to_sparse(), x.to_sparse_csr(), x.to_sparse_csc(), x.to_sparse_bsr((1, 2)), x.to_sparse_bsc((2, 2))]


def test_facts():
    x = example()
    assert isinstance(x, fb.Tensor) and x.layout is fb.sparse_coo and x.is_sparse and not x.is_sparse_csr
    assert (x._nnz(), x.sparse_dim(), x.dense_dim(), x.is_coalesced()) == (4, 2, 0, False)
    assert x.dtype is fb.float32 and x.device.type == "cpu" and x.shape == (2, 3) and len(x) == 2 and x.numel() == 6
    c = x.coalesce()
    assert c.is_coalesced() and c.coalesce() is c and c.values().tolist() == [5, 2, 3]
    assert c.indices().tolist() == [[0, 1, 1], [2, 0, 2]] and x._indices().shape == (2, 4)
    for name in ("indices", "values"):
        with pytest.raises(RuntimeError, match="coalesce"):
            getattr(x, name)()
    assert x.type() == "torch.sparse.FloatTensor" and not x.is_contiguous()
    csr = x.to_sparse_csr()
    assert csr.is_sparse_csr and not csr.is_sparse and csr.crow_indices().tolist() == [0, 1, 3]
    assert csr.to_sparse_csc().ccol_indices().tolist() == [0, 1, 1, 3]


def test_printing():
    assert repr(example()) == (
        "tensor(indices=tensor([[0, 1, 1, 0],\n                       [2, 0, 2, 2]]),\n"
        "       values=tensor([1., 2., 3., 4.]),\n       size=(2, 3), nnz=4, layout=torch.sparse_coo)")
    assert repr(example().double().to_sparse_csr().requires_grad_()) == (
        "tensor(crow_indices=tensor([0, 1, 3]),\n       col_indices=tensor([2, 0, 2]),\n"
        "       values=tensor([5., 2., 3.]), size=(2, 3), nnz=3, dtype=torch.float64,\n"
        "       layout=torch.sparse_csr, requires_grad=True)")


HOSTILE = [
    lambda: fb.sparse_coo_tensor([[0, 5]], [1.0, 2.0], (2,)), lambda: fb.sparse_coo_tensor([[-1]], [1.0], (2,)),
    lambda: fb.sparse_coo_tensor([[-1]], [1.0]), lambda: fb.sparse_coo_tensor([0, 1], [1.0, 2.0]),
    lambda: fb.sparse_coo_tensor([[0, 1]], [1.0]), lambda: fb.sparse_coo_tensor([[0]], [1.0], (2, 3)),
    lambda: fb.sparse_coo_tensor([[0]], [1.0], (-2,)),
    lambda: fb.sparse_coo_tensor([[1, 0]], [1.0, 2.0], is_coalesced=True, check_invariants=True),
    lambda: fb.sparse_csr_tensor([0, 1, 5], [0, 1], [1.0, 2.0]), lambda: fb.sparse_csr_tensor([1, 2], [0], [1.0]),
    lambda: fb.sparse_csr_tensor([0, 2, 1, 2], [0, 1], [1.0, 2.0], (3, 2)),
    lambda: fb.sparse_csr_tensor([0, 1, 2], [0, 9], [1.0, 2.0], (2, 2)),
    lambda: fb.sparse_csr_tensor([0, 2], [1, 0], [1.0, 2.0], (1, 2), check_invariants=True),
    lambda: fb.sparse_csr_tensor([0, 1], [0], [1.0], (2, 2)), lambda: fb.sparse_csr_tensor([], [], []),
    lambda: fb.sparse_bsr_tensor([0, 1], [0], [[[1.0, 2.0]]], (1, 3)),
    lambda: fb.sparse_compressed_tensor([0, 1], [0], [1.0], layout=fb.sparse_coo),
    lambda: fb.sparse_compressed_tensor([0, 1], [0], [1.0]),
]


@pytest.mark.parametrize("make", range(len(HOSTILE)))
def test_bad_parts_are_refused(make):
    with pytest.raises(RuntimeError):
        HOSTILE[make]()


UNCHECKED = {
    "coo": lambda: fb.sparse_coo_tensor([[0, 1 << 40], [0, -7]], [1.0, 2.0], (4, 4), check_invariants=False),
    "csr columns": lambda: fb.sparse_csr_tensor([0, 1, 2, 2, 2], [0, 1 << 40], [1.0, 2.0], (4, 4),
                                                check_invariants=False),
    "csr pointers": lambda: fb.sparse_csr_tensor([0, 1 << 40, -3, 2, 2], [0, 1], [1.0, 2.0], (4, 4),
                                                 check_invariants=False),
}


@pytest.mark.parametrize("use", ["to_dense", "mm", "mv", "mul", "t", "sampled", "csc", "sum"])
@pytest.mark.parametrize("kind", UNCHECKED)
def test_unchecked_indices_never_leave_memory(kind, use):
    """With check_invariants=False anything may be in the indices: an operator raises, or gives some numbers."""
    x = UNCHECKED[kind]()
    uses = {"to_dense": lambda: x.to_dense(), "mm": lambda: x @ fb.ones(4, 9), "mv": lambda: x @ fb.ones(4),
            "mul": lambda: x * fb.ones(4, 4), "t": lambda: (x.t() @ fb.ones(4, 2)), "csc": lambda: x.to_sparse_csc(),
            "sampled": lambda: fb.sparse.sampled_addmm(x, fb.ones(4, 2), fb.ones(2, 4)), "sum": lambda: x.sum()}
    with contextlib.suppress(RuntimeError, IndexError, ValueError):
        uses[use]()


@pytest.mark.parametrize("columns", [1, 3])
@pytest.mark.parametrize("dtype", [fb.int32, fb.int64])
@pytest.mark.parametrize("pointers, places, error", [
    ([0, 2, 1, 3], [0, 1, 2], RuntimeError), ([1, 2, 3, 3], [0, 1, 2], RuntimeError),
    ([0, 1, 2, 2], [0, 1, 2], RuntimeError), ([0, 9, 9, 3], [0, 1, 2], RuntimeError),
    ([0, -5, 2, 3], [0, 1, 2], RuntimeError), ([0, 1, 2, -2**31], [0, 1, 2], RuntimeError),
    ([0, 1, 2, 3], [0, 1, 3], IndexError), ([0, 3, 3, 3], [0, -1, 2], IndexError)])
def test_patterns_that_are_none(pointers, places, error, dtype, columns):
    with pytest.raises(error, match="pointers" if error is RuntimeError else "column"):
        OPS["csr_mm"](fb.tensor(pointers, dtype=dtype), fb.tensor(places, dtype=dtype), fb.ones(3), fb.ones(3, columns))


def test_the_kernel_refuses_columns_outside():
    x = UNCHECKED["csr columns"]()
    for width in (1, 3, 40):
        with pytest.raises(IndexError, match="column"):
            _ = x @ fb.ones(4, width)
    with pytest.raises(RuntimeError, match="pointers"):
        _ = UNCHECKED["csr pointers"]() @ fb.ones(4, 2)


def test_checks_can_be_asked_for_everywhere():
    assert not fb.sparse.check_sparse_tensor_invariants.is_enabled()
    with fb.sparse.check_sparse_tensor_invariants(), pytest.raises(RuntimeError, match="sorted"):
        fb.sparse_coo_tensor([[1, 0]], [1.0, 2.0], is_coalesced=True)
    assert not fb.sparse.check_sparse_tensor_invariants.is_enabled()


@pytest.mark.parametrize("call, kind", [
    (lambda x: x.cos(), NotImplementedError), (lambda x: x + 1, RuntimeError),
    (lambda x: x / fb.ones(2, 3), RuntimeError), (lambda x: x == x, NotImplementedError),
    (lambda x: x.numpy(), TypeError), (lambda x: np.asarray(x), TypeError), (lambda x: x.tolist(), RuntimeError),
    (lambda x: x.data_ptr(), RuntimeError), (lambda x: x.view(-1), NotImplementedError),
    (lambda x: x.reshape(6), RuntimeError), (lambda x: x.untyped_storage(), NotImplementedError),
    (lambda x: x.__setitem__(0, 1), TypeError), (lambda x: x.select(0, 5), IndexError),
    (lambda x: x ** 0, RuntimeError),
    (lambda x: x @ fb.ones(4, 2), RuntimeError), (lambda x: fb.ones(2, 3).copy_(x), RuntimeError),
    (lambda x: x.stride(), RuntimeError), (lambda x: memoryview(x), Exception),
    (lambda x: x.max(), NotImplementedError),
])
def test_what_is_not_there_says_so(call, kind):
    with pytest.raises(kind):
        call(example())


def test_in_place():
    x = example()
    same = x.mul_(2)
    assert same is x and x._values().tolist() == [2, 4, 6, 8]
    x.add_(example(), alpha=-2)
    assert x.to_dense().abs().sum() == 0
    assert example().zero_()._nnz() == 0 and fb.equal(fb.zeros_like(x).copy_(example()), example())
    d = fb.ones(2, 3)
    d.add_(example(), alpha=2)
    assert fb.equal(d, 1 + 2 * example().to_dense())
    assert fb.equal(fb.ones(2, 3).sub_(example()), 1 - example().to_dense())
    leaf = example().requires_grad_()
    with pytest.raises(RuntimeError, match="leaf"):
        leaf.mul_(2)
    y = leaf * 1
    y.mul_(3)
    y.to_dense().sum().backward()
    assert fb.equal(leaf.grad.to_dense(), fb.tensor([[0.0, 0, 3], [3, 0, 3]]))


def test_differences_of_two_dtypes_are_taken_in_the_dtype_of_both():
    x, y = fb.tensor([[1, 0], [2, 3]], dtype=fb.int16), fb.tensor([[1, 2], [0, 4]], dtype=fb.uint8)
    for a, b in ((x.to_sparse(), y.to_sparse()), (x, y.to_sparse()), (x.to_sparse_csr(), y.to_sparse_csr())):
        found = a - b
        assert found.dtype is fb.int16 and found.to_dense().tolist() == [[0, -2], [2, -1]]
    assert x.to_sparse().sub_(y.to_sparse()).to_dense().tolist() == [[0, -2], [2, -1]]
    with pytest.raises(RuntimeError):
        x.add_(fb.ones(2, 2).to_sparse())
    with pytest.raises(RuntimeError):
        x.to_sparse().add(x.to_sparse(), alpha=0.5)


def test_a_dense_tensor_is_multiplied_by_a_sparse_one_in_place():
    d = fb.full((2, 2), 3.0)
    assert d.mul_(fb.tensor([[0.0, 2.0], [1.0, 0.0]]).to_sparse()) is d and d.tolist() == [[0, 6], [3, 0]]


def test_copies_and_comparisons():
    for x in every_layout():
        x = x.requires_grad_()
        for y in (copy.deepcopy(x), copy.copy(x), pickle.loads(pickle.dumps(x))):
            assert type(y) is type(x) and y.layout is x.layout and y.requires_grad and fb.equal(y.detach(), x.detach())
        assert copy.deepcopy(x)._values().data_ptr() != x._values().data_ptr()
        assert not x.detach().requires_grad and fb.allclose(x.detach(), x.detach().to_dense())
        fb.testing.assert_close(x.detach(), x.detach().clone())
        with pytest.raises(AssertionError):
            fb.testing.assert_close(x.detach(), x.detach() * 2)
        with pytest.raises(AssertionError, match="layout"):
            fb.testing.assert_close(x.detach(), x.detach().to_dense())


def test_files():
    kept = {"all": every_layout(), "hybrid": fb.ones(2, 3, 2).to_sparse(2), "none": fb.sparse_coo_tensor(size=(3, 4)),
            "as it is": example(), "parameter": fb.nn.Parameter(example().coalesce()),
            "batch": fb.eye(3).repeat(2, 1, 1).to_sparse_csr()}
    file = io.BytesIO()
    save(kept, file)
    found = load(file, weights_only=True)
    for x, y in zip([*kept.pop("all"), *kept.values()], [*found.pop("all"), *found.values()], strict=True):
        assert x.layout is y.layout and x.dtype is y.dtype and fb.equal(x.detach(), y.detach())
        assert type(x) is type(y) and x.requires_grad == y.requires_grad and repr(x) == repr(y)


def test_through_a_queue():
    queue = fb.multiprocessing.get_context("fork").Queue()
    for x in every_layout():
        queue.put(x)
        assert fb.equal(queue.get(timeout=30), x)


def test_a_file_with_wrong_indices_is_refused():
    """What is in the file is checked, whatever it was when it was written."""
    for x in (UNCHECKED["coo"](), UNCHECKED["csr columns"](), UNCHECKED["csr pointers"]()):
        file = io.BytesIO()
        save(x, file)
        with pytest.raises(RuntimeError, match="sparse"):
            load(file)


def test_compressed_layouts_keep_the_integers_of_indices():
    x = fb.sparse_csr_tensor(*(fb.tensor(i, dtype=fb.int32) for i in ([0, 1, 2], [0, 1])), fb.ones(2), (2, 2))
    for other in (x.to_sparse_csc(), x.to_sparse_bsr(1), x.to_sparse_bsc((2, 1)), x.to_sparse_csc().to_sparse_csr()):
        indices = [f() for f in (other.crow_indices, other.col_indices)] if str(other.layout)[-1] == "r" else \
            [f() for f in (other.ccol_indices, other.row_indices)]
        assert [i.dtype for i in indices] == [fb.int32] * 2 and fb.equal(other.to_dense(), x.to_dense())
    assert x.to_sparse_coo().indices().dtype is fb.int64
    batch = fb.stack([x.to_dense()] * 2).to_sparse_csr()
    assert batch.to_sparse_csc().row_indices().dtype is fb.int64


def test_scipy_and_back():
    sp = pytest.importorskip("scipy.sparse")
    a = sp.random(30, 20, 0.2, format="csr", random_state=0)
    x = fb.sparse_csr_tensor(fb.from_numpy(a.indptr), fb.from_numpy(a.indices), fb.from_numpy(a.data), a.shape)
    assert x.crow_indices().dtype is fb.int32
    np.testing.assert_array_equal(x.to_dense().numpy(), a.toarray())
    back = sp.csr_matrix((x.values().numpy(), x.col_indices().numpy(), x.crow_indices().numpy()), x.shape)
    assert (back != a).nnz == 0
    c = x.to_sparse_coo()
    back = sp.coo_matrix((c.values().numpy(), tuple(c.indices().numpy())), c.shape)
    np.testing.assert_array_equal(back.toarray(), a.toarray())
    np.testing.assert_allclose((x @ fb.ones(20, 3, dtype=fb.float64)).numpy(), a @ np.ones((20, 3)))


def test_loaders_do_not_join_sparse_tensors():
    with pytest.raises(RuntimeError, match="collate_fn"):
        fb.utils.data.default_collate([example(), example()])


def test_factories_with_a_layout():
    assert fb.zeros(2, 3, layout=fb.sparse_coo)._nnz() == 0
    assert fb.zeros(2, 3, layout=fb.sparse_csr).crow_indices().tolist() == [0, 0, 0]
    assert fb.zeros_like(fb.ones(2, 3), layout=fb.sparse_csc).ccol_indices().tolist() == [0, 0, 0, 0]
    assert fb.zeros_like(example(), layout=fb.strided).layout is fb.strided
    with pytest.raises(NotImplementedError, match="strided"):
        fb.ones(2, 3, layout=fb.sparse_coo)


def test_factories_with_a_layout_that_nothing_makes():
    with pytest.raises(NotImplementedError, match=r"zeros.*only layout=strided.*jagged"):
        fb.zeros(2, 3, layout=fb.jagged)


def test_factories_with_a_layout_inside_a_mode():
    class PassOn(fb.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            return func(*args, **(kwargs or {}))

    with PassOn():
        assert fb.zeros(2, 3, layout=fb.sparse_coo)._nnz() == 0


def test_spdiags_and_other_constructions():
    x = fb.sparse.spdiags(fb.tensor([[1.0, 2, 3], [4, 5, 6]]), fb.tensor([0, -1]), (3, 3))
    assert x.to_dense().tolist() == [[1, 0, 0], [4, 2, 0], [0, 5, 3]]
    x = example().sparse_resize_((4, 5), 2, 0)
    assert x.shape == (4, 5) and x.to_dense()[:2, :3].tolist() == example().to_dense().tolist()
    assert fb.smm(example(), fb.ones(3, 2)).layout is fb.sparse_coo
    assert fb.hspmm(example(), fb.ones(3, 2)).sparse_dim() == 1
    assert fb.crow_indices_copy(example().to_sparse_csr()).tolist() == [0, 1, 3]


# --- sparse gradients -------------------------------------------------------------------------------------------------

def table(sparse=True, **options):
    weight = fb.arange(12.0).reshape(6, 2) / 7 - 0.5
    return fb.nn.Embedding.from_pretrained(weight, freeze=False, sparse=sparse, **options)


def test_embedding_gradients_are_sparse():
    e, dense = table(padding_idx=3), table(False, padding_idx=3)
    for layer in (e, dense):
        (layer(fb.tensor([[1, 2], [1, 3]])) ** 2).sum().backward()
    assert e.weight.grad.is_sparse and e.weight.grad._nnz() == 3 and not dense.weight.grad.is_sparse
    assert fb.equal(e.weight.grad.to_dense(), dense.weight.grad)
    e(fb.tensor([5])).sum().backward()  # sparse + sparse
    assert e.weight.grad.is_sparse and e.weight.grad._nnz() == 4
    (e.weight * 2).sum().backward()  # + dense
    assert e.weight.grad.layout is fb.strided and e.weight.grad[5].tolist() == [3, 3]
    e.zero_grad(set_to_none=False)
    assert e.weight.grad.abs().sum() == 0
    with pytest.raises(RuntimeError, match="scale_grad_by_freq"):
        table(scale_grad_by_freq=True)(fb.tensor([1])).sum().backward()


@pytest.mark.parametrize("mode", ["sum", "mean"])
def test_bags_have_sparse_gradients(mode):
    grads = []
    for sparse in (True, False):
        bag = fb.nn.EmbeddingBag.from_pretrained(fb.arange(12.0).reshape(6, 2), False, mode=mode, sparse=sparse)
        bag(fb.tensor([1, 1, 3]), fb.tensor([0, 2])).sum().backward()
        assert bag.weight.grad.is_sparse == sparse
        grads.append(bag.weight.grad.to_dense())
    assert fb.equal(*grads)
    with pytest.raises(ValueError, match="max"):
        fb.nn.EmbeddingBag(6, 2, mode="max", sparse=True)(fb.tensor([1]), fb.tensor([0]))


def test_gather_gradient():
    grads = []
    for sparse in (True, False):
        x = fb.arange(12.0).reshape(3, 4).requires_grad_()
        (fb.gather(x, 1, fb.tensor([[0, 0], [1, 2], [3, 3]]), sparse_grad=sparse) ** 2).sum().backward()
        assert x.grad.is_sparse == sparse
        grads.append(x.grad.to_dense())
    assert fb.equal(*grads)


@pytest.mark.parametrize("make", [
    lambda p: fb.optim.SGD(p, lr=0.1), lambda p: fb.optim.SGD(p, lr=0.1, momentum=0.9),
    lambda p: fb.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True), lambda p: fb.optim.SGD(p, lr=0.1, weight_decay=0.1),
    lambda p: fb.optim.SGD(p, lr=0.1, maximize=True), lambda p: fb.optim.Adagrad(p, lr=0.1),
    lambda p: fb.optim.Adagrad(p, lr=0.1, lr_decay=0.5),
])
def test_steps_by_sparse_gradients_are_those_by_dense_ones(make):
    found = []
    for sparse in (True, False):
        e, other = table(sparse), fb.ones(2, requires_grad=True)
        optimizer = make([e.weight, other])
        for k in range(4):
            optimizer.zero_grad()
            ((e(fb.tensor([k, 1, 1])) * other) ** 2).sum().backward()
            optimizer.step()
        found.append((e.weight.detach(), other.detach()))
    fb.testing.assert_close(*found)


def test_sparse_adam_is_adam_where_every_row_has_a_gradient():
    found = []
    for sparse, kind in ((True, fb.optim.SparseAdam), (False, fb.optim.Adam)):
        e = table(sparse)
        optimizer = kind(e.parameters(), lr=0.1)
        for _ in range(5):
            optimizer.zero_grad()
            (e(fb.arange(6)) ** 2).sum().backward()
            optimizer.step()
        found.append(e.weight.detach())
    fb.testing.assert_close(*found, rtol=1e-4, atol=1e-5)


def test_sparse_adam_leaves_other_rows_and_restarts_from_its_state():
    e = table()
    optimizer = fb.optim.SparseAdam(e.parameters(), lr=0.1)
    before = e.weight.detach().clone()
    e(fb.tensor([1, 4])).sum().backward()
    optimizer.step()
    moved = (e.weight.detach() != before).any(1)
    assert moved.tolist() == [False, True, False, False, True, False]
    again = fb.optim.SparseAdam(e.parameters(), lr=0.1)
    again.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    assert again.state[e.weight]["step"] == 1 and fb.equal(again.state[e.weight]["exp_avg"],
                                                           optimizer.state[e.weight]["exp_avg"])


@pytest.mark.parametrize("name", ["Adam", "AdamW", "RMSprop", "Adadelta", "Adamax", "NAdam", "RAdam", "Rprop", "ASGD"])
def test_other_optimizers_refuse_before_anything_is_done(name):
    e, other = table(), fb.ones(2, requires_grad=True)
    optimizer = getattr(fb.optim, name)([other, e.weight])
    ((e(fb.tensor([1])) * other) ** 2).sum().backward()
    with pytest.raises(RuntimeError, match="SparseAdam"):
        optimizer.step()
    if name in ("Adam", "AdamW", "RMSprop", "Adadelta"):  # one native step for all parameters
        assert other.tolist() == [1, 1]


def test_sparse_adam_refuses():
    with pytest.raises(ValueError, match="sparse"):
        fb.optim.SparseAdam([example().requires_grad_()])
    e = table(False)
    e(fb.tensor([1])).sum().backward()
    with pytest.raises(RuntimeError, match="dense"):
        fb.optim.SparseAdam(e.parameters()).step()


def test_clipping():
    for clip in (lambda p: fb.nn.utils.clip_grad_norm_(p, 0.5), lambda p: fb.nn.utils.clip_grad_value_(p, 0.3)):
        found = []
        for sparse in (True, False):
            e = table(sparse)
            (e(fb.tensor([1, 1, 5])) ** 2).sum().backward()
            clip(e.parameters())
            found.append(e.weight.grad.to_dense())
        fb.testing.assert_close(*found)


@pytest.mark.parametrize("factor, moved", [(1.0, True), (float("inf"), False)])
def test_scaled_sparse_gradients(factor, moved):
    e = table()
    optimizer, scaler = fb.optim.SGD(e.parameters(), lr=0.1), fb.amp.GradScaler("cpu")
    before = e.weight.detach().clone()
    scaler.scale(e(fb.tensor([1])).sum() * factor).backward()
    scaler.step(optimizer)
    fb.testing.assert_close(e.weight.detach()[1], before[1] - 0.1 * moved)


def test_a_sparse_parameter_is_trained():
    w = fb.nn.Parameter((fb.eye(4) * 2).to_sparse_csr())
    module = fb.nn.Module()
    module.w = w
    assert dict(module.named_parameters())["w"] is w and w.requires_grad and "Parameter" in repr(w)
    optimizer = fb.optim.SGD([w], lr=0.1)
    fb.sparse.mm(w, fb.ones(4, 2)).sum().backward()
    optimizer.step()
    fb.testing.assert_close(w.detach().to_dense(), fb.eye(4) * 1.8)
    again = copy.deepcopy(module)
    assert next(iter(again.parameters())).layout is fb.sparse_csr and "Parameter" in repr(again.w)
    again.double()
    assert again.w.dtype is fb.float64 and again.w.values().dtype is fb.float64 and again.w.requires_grad
    again.float()
    state = module.state_dict()
    assert state["w"].layout is fb.sparse_csr
    again.load_state_dict(state)


def test_hooks_see_sparse_gradients():
    e, seen = table(), []
    e.weight.register_hook(lambda g: seen.append(g.layout))
    e(fb.tensor([1])).sum().backward()
    assert seen == [fb.sparse_coo]
    grad, = fb.autograd.grad(e(fb.tensor([1, 2])).sum(), e.weight)
    assert grad.is_sparse and grad._nnz() == 2


def test_methods_by_the_class():
    x = fb.eye(3).to_sparse_csr()
    assert fb.Tensor.crow_indices(x).tolist() == x.crow_indices().tolist() == [0, 1, 2, 3]
    with pytest.raises(RuntimeError, match="sparse row"):
        fb.Tensor.crow_indices(fb.eye(3))


def test_batches_are_transposed():
    x = fb.sparse_coo_tensor([[0, 0, 1], [0, 1, 1], [1, 2, 0]], [1.0, 2.0, 3.0], (2, 2, 3))
    assert fb.equal(x.mT.to_dense(), x.to_dense().mT) and fb.equal(x.T.to_dense(), x.to_dense().permute(2, 1, 0))
    z = x * (1 + 2j)
    assert fb.equal(z.mH.to_dense(), z.to_dense().mH) and fb.equal(z[0].adjoint().to_dense(), z.to_dense()[0].adjoint())
    with pytest.raises(RuntimeError, match="mT: expected a matrix"):
        print(fb.ones(3).to_sparse().mT)


@pytest.mark.parametrize("name, dtype", [("FloatTensor", fb.float32), ("DoubleTensor", fb.float64),
                                         ("LongTensor", fb.int64)])
def test_types_of_sparse_tensors(name, dtype):
    kind, indices = getattr(fb.sparse, name), fb.tensor([[0, 1], [1, 0]])
    for x in (kind(indices, fb.ones(2, dtype=dtype), (2, 3)), kind(2, 3), kind(fb.Size([2, 3]))):
        assert x.layout is fb.sparse_coo and x.dtype is dtype and x.shape == (2, 3)
        assert isinstance(x, kind) and not isinstance(x, getattr(fb, name)) and x.type() == f"torch.sparse.{name}"
        assert x.type(kind) is x and x.type(f"torch.sparse.{name}") is x
    assert kind().shape == (0,) and kind(indices, fb.ones(2, dtype=dtype)).shape == (2, 2)
    assert not isinstance(fb.ones(2, dtype=dtype), kind)


def test_row_pointers_and_rows():
    rows, pointers = fb.tensor([0, 0, 2]), fb.tensor([0, 2, 2, 3])
    assert fb._convert_indices_from_coo_to_csr(rows, 3).tolist() == pointers.tolist()
    assert fb._convert_indices_from_coo_to_csr(rows, 3, out_int32=True).dtype is fb.int32
    columns = fb.tensor([1, 2, 0])
    assert fb._convert_indices_from_csr_to_coo(pointers, columns).tolist() == [[0, 0, 2], [1, 2, 0]]
    found = fb._convert_indices_from_csr_to_coo(pointers, columns, transpose=True, out_int32=True)
    assert found.tolist() == [[1, 2, 0], [0, 0, 2]] and found.dtype is fb.int32
    batch = fb._convert_indices_from_csr_to_coo(fb.tensor([[0, 2, 3], [0, 1, 3]]), fb.tensor([[1, 2, 0], [0, 1, 2]]))
    assert batch.tolist() == [[0, 0, 0, 1, 1, 1], [0, 0, 1, 0, 1, 1], [1, 2, 0, 0, 1, 2]]
    with pytest.raises(RuntimeError, match="outside of the size 2"):
        fb._convert_indices_from_coo_to_csr(rows, 2)
    with pytest.raises(RuntimeError, match="expected a vector"):
        fb._convert_indices_from_coo_to_csr(rows.reshape(1, 3), 2)


def test_products_of_compressed_columns_are_of_compressed_rows():
    x = fb.tensor([[1.0, 2.0], [0.0, 3.0]])
    found = x.to_sparse_csc() @ x.to_sparse_csc()
    assert found.layout is fb.sparse_csr and fb.equal(found.to_dense(), x @ x)


def test_reductions_of_products():
    x, y = fb.tensor([[1.0, 2.0], [0.0, 3.0]]).to_sparse_csr(), fb.tensor([[1.0], [-4.0]])
    assert fb.sparse.mm(x, y, "max").tolist() == fb.sparse.mm(x, y, "amax").tolist() == [[1.0], [-12.0]]
    assert fb.sparse.mm(x, y, "min").tolist() == [[-8.0], [-12.0]]
    with pytest.raises(RuntimeError, match="reduce must be"):
        fb.sparse.mm(x, y, "prod")


# --- shapes that broadcast, sizes that change -------------------------------------------------------------------------

@pytest.mark.parametrize("sparse, dense", [((3,), (2, 3)), ((3,), (3, 1)), ((2, 1), (2, 3)), ((2, 3), (4, 2, 3)),
                                           ((2, 1), (3,)), ((3, 1), (2, 1, 4))])
def test_a_product_repeats_the_places_of_a_sparse_tensor_over_a_larger_dense_one(sparse, dense):
    x, y = fb.arange(fb.Size(sparse).numel(), dtype=fb.float32).reshape(sparse), fb.rand(dense)
    found = x.to_sparse() * y
    assert found.is_sparse and found.is_coalesced() and fb.equal(found.to_dense(), x * y)
    assert fb.equal((y * x.to_sparse()).to_dense(), x * y)


def test_such_a_product_repeats_hybrid_and_uncoalesced_tensors_and_is_derived():
    hybrid = fb.sparse_coo_tensor([[2, 0, 2]], fb.arange(3.).reshape(3, 1), (3, 1))
    y = fb.rand(2, 3, 4)
    assert fb.equal((hybrid * y).to_dense(), hybrid.to_dense() * y)
    x = fb.tensor([[1.], [2.]]).to_sparse().requires_grad_()
    (x * fb.arange(6.).reshape(2, 3)).sum().backward()
    assert x.grad.to_dense().tolist() == [[3], [12]]
    with pytest.raises(RuntimeError, match="does not broadcast"):
        fb.ones(3, 3).to_sparse_csr() * fb.ones(1, 3, 3)


def test_compressed_matrices_are_resized_where_their_places_stay():
    x = fb.eye(3).to_sparse_csr()
    assert x.resize_(4, 5) is x and fb.equal(x.to_dense()[:3, :3], fb.eye(3)) and x.shape == (4, 5)
    assert x.resize_as_(fb.ones(2, 5)).values().tolist() == [1, 1]
    y = fb.eye(2).to_sparse_csc().resize_((3, 3))
    assert y.to_dense().sum() == 2 and y.ccol_indices().tolist() == [0, 1, 2, 2]
    with pytest.raises(RuntimeError, match="compressed dimension alone may shrink"):
        x.resize_(2, 3)
    z = fb.eye(2).to_sparse()
    assert z.resize_as_(fb.eye(3).to_sparse()).shape == (3, 3)
    for change in (lambda: z.resize_(4, 4), lambda: z.resize_as_(fb.ones(4, 4))):
        with pytest.raises(NotImplementedError):
            change()


def test_sampled_products_of_batches():
    pattern = fb.stack([fb.eye(3), fb.eye(3).flip(0)]).to_sparse_csr()
    a, b = fb.rand(2, 3, 4), fb.rand(2, 4, 3)
    found = fb.sparse.sampled_addmm(pattern, a, b, alpha=2).to_dense()
    assert fb.allclose(found, (1 + 2 * a @ b) * pattern.to_dense())
    with pytest.raises(RuntimeError, match="batch"):
        fb.sparse.sampled_addmm(pattern, a[0], b[0])


def test_sspaddmm_takes_its_factors_where_old_programs_write_them():
    x, y = fb.eye(3).to_sparse(), fb.ones(3, 3)
    want = fb.sspaddmm(x, x, y, beta=2, alpha=3).to_dense()
    assert fb.equal(fb.sspaddmm(2, x, 3, x, y).to_dense(), want) and fb.equal(x.sspaddmm(2, 3, x, y).to_dense(), want)
    with pytest.raises(TypeError, match="two factors"):
        fb.sspaddmm(2, x, 3, 4, x, y)
    with pytest.raises(RuntimeError, match="product"):
        fb.sspaddmm(x, x, fb.ones(3, 2))


def test_to_sparse_refuses_what_is_no_number_of_dimensions():
    assert fb.ones(2, 2).to_sparse(fb.tensor(1)).dense_dim() == 1
    for wrong in (2.5, "a", True):
        with pytest.raises(TypeError, match="to_sparse"):
            fb.ones(2, 2).to_sparse(wrong)


def test_products_of_sparse_tensors_broadcast():
    x = fb.arange(12.).reshape(3, 4)
    for y in (x[:, :1].contiguous(), x[:1].contiguous(), fb.tensor(2.)):
        assert fb.equal((x.to_sparse() * y.to_sparse()).to_dense(), x * y)
        assert fb.equal((y.to_sparse() * x.to_sparse()).to_dense(), x * y)


@pytest.mark.parametrize("arguments", [(), (0,), ((0, 1),), (0, True)])
def test_the_gradient_of_a_sum_is_dense_and_that_of_sparse_sum_keeps_the_places(arguments):
    x = fb.tensor([[0., 1.], [2., 0.]]).to_sparse().requires_grad_()
    found = x.sum(*arguments)
    (found.to_dense() if found.is_sparse else found).sum().backward()
    assert x.grad.layout is fb.strided and x.grad.tolist() == [[1, 1], [1, 1]]
    x.grad = None
    fb.sparse.sum(x).backward()
    assert x.grad.is_sparse and x.grad._nnz() == 2


def test_columns_of_a_row_come_in_any_order_and_more_than_once():
    x = fb.sparse_csr_tensor([0, 3, 5], [2, 0, 2, 1, 0], [1.0, 2.0, 3.0, 4.0, 5.0], (2, 3))
    assert x.to_dense().tolist() == [[2, 0, 4], [5, 4, 0]]
    assert (x @ fb.tensor([[1.0], [10.0], [100.0]])).tolist() == [[402], [45]]
    assert (x + x).to_dense().tolist() == [[4, 0, 8], [10, 8, 0]]


def test_a_strided_layout_is_that_of_the_dense_tensor():
    dense = fb.tensor([[0.0, 3.0], [4.0, 0.0]])
    assert dense.to_sparse(layout=fb.strided) is dense
    for x in (dense.to_sparse(), dense.to_sparse_csr()):
        assert x.to_sparse(layout=fb.strided).tolist() == dense.tolist()
        with pytest.raises(RuntimeError, match="layout alone"):
            x.to_sparse(layout=fb.strided, blocksize=(1, 1))


def test_dimensions_to_permute_may_be_named():
    x = fb.tensor([[0.0, 3.0, 1.0], [4.0, 0.0, 0.0]]).to_sparse()
    assert x.permute(dims=(1, 0)).to_dense().tolist() == x.permute(1, 0).to_dense().tolist()


def test_indices_of_sparse_dimensions_count_from_the_end_too():
    dense = fb.tensor([[0.0, 3.0], [4.0, 0.0], [5.0, 6.0]])
    found = dense.to_sparse().index_select(0, fb.tensor([-1, 0, -3]))
    assert found.to_dense().tolist() == [[5, 6], [0, 3], [0, 3]]
    for beyond in (3, -4):
        with pytest.raises(IndexError, match="indices must lie in"):
            dense.to_sparse().index_select(0, fb.tensor([beyond]))


@pytest.mark.parametrize(("shape", "sparse_dim"), [((0, 10, 3), 1), ((2, 0, 3), 2), ((2, 0, 3), 3), ((3, 0), 1)])
def test_gradients_of_what_is_sparse_without_elements(shape, sparse_dim):
    dense = fb.ones(shape, requires_grad=True)
    dense.to_sparse(sparse_dim).to_dense().sum().backward()
    assert dense.grad.shape == shape


@pytest.mark.parametrize(("name", "arguments"), [("t_", ()), ("transpose_", (0, 1)), ("swapaxes_", (0, 1))])
def test_dimensions_are_exchanged_in_place(name, arguments):
    values = fb.tensor([3.0, 4.0], requires_grad=True)
    x = fb.sparse_coo_tensor([[0, 1], [2, 0]], values, (2, 3)) * 1
    assert getattr(x, name)(*arguments) is x
    assert x.shape == (3, 2)
    assert x.to_dense().tolist() == [[0, 4], [0, 0], [3, 0]]
    (x.to_dense() * fb.arange(6.0).reshape(3, 2)).sum().backward()
    assert values.grad.tolist() == [4, 1]


def test_out_takes_the_shape_of_a_sparse_result():
    x, out = fb.eye(2).to_sparse(), fb.ones(5).to_sparse()
    fb.add(x, x, out=out)
    assert out.shape == (2, 2) and out.numel() == 4
    assert out.to_dense().tolist() == [[2, 0], [0, 2]]
