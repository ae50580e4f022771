"""Questions about sparse tensors that either library answers, and PyTorch's own samples for its sparse operators.

`python sparse_cases.py FILE` in PyTorch's interpreter writes its answers. A case is a group (its line in the table), a
name, and a call without arguments; an answer is plain data (`told`), or the type of the exception.
"""

import pickle
import sys
import warnings

import numpy as np

LAYOUTS = ("sparse_csr", "sparse_csc", "sparse_bsr", "sparse_bsc")
DTYPES = ("float64", "float32", "int64", "complex128", "bool", "float16")
UNARY = ("abs asin asinh atan atanh ceil deg2rad erf erfinv expm1 floor frac isinf isnan isneginf isposinf log1p neg "
         "rad2deg relu round sgn sign signbit sin sinh sqrt tan tanh trunc positive square").split()


def told(x):
    """A result as plain data."""
    if hasattr(x, "layout") and hasattr(x, "to_dense"):
        return tensor_told(x.detach())
    if isinstance(x, (list, tuple)):
        return [told(y) for y in x]
    return str(x) if type(x).__name__ in ("dtype", "layout", "memory_format") else x


def tensor_told(x):
    layout = str(x.layout).rpartition(".")[2]
    head = (layout, str(x.dtype).rpartition(".")[2], tuple(x.shape))
    if layout == "strided":
        return (*head, numbers(x))
    if layout == "sparse_coo":
        y = x.coalesce()
        return (*head, x.sparse_dim(), numbers(y.indices()), numbers(y.values()))
    parts = (x.crow_indices(), x.col_indices()) if layout in ("sparse_csr", "sparse_bsr") else \
        (x.ccol_indices(), x.row_indices())
    return (*head, *map(numbers, parts), numbers(x.values()))


def numbers(x):
    return (x.float() if "bfloat16" in str(x.dtype) else x).resolve_conj().numpy().copy()


def answer(call):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return told(call())
        except Exception as error:
            return f"raises {type(error).__name__.lstrip('_')}"


# --- inputs -----------------------------------------------------------------------------------------------------------

def drawn(shape, dtype, seed=0):
    """Small numbers, none of them zero."""
    draw = np.random.RandomState(seed)
    made = draw.randint(1, 9, shape) * draw.choice([-0.125, 0.125], shape)
    if dtype.startswith("complex"):
        made = made + 1j * draw.randint(1, 9, shape) * 0.125
    if dtype == "bool":
        return draw.randint(0, 2, shape).astype(bool)
    return (made * 8).astype(dtype) if dtype.startswith("int") else np.asarray(made).astype(dtype)


#: name -> (sparse sizes, dense sizes, number of values, whether places repeat)
SHAPES = {"matrix": ((4, 5), (), 7, False), "repeated": ((4, 5), (), 9, True), "none": ((3, 4), (), 0, False),
          "hybrid": ((4, 3), (2,), 5, False), "vector": ((6,), (), 4, True), "cube": ((2, 3, 4), (), 8, True),
          "no rows": ((0, 3), (), 0, False), "table": ((6,), (3,), 5, True)}


def coo(t, name, dtype, grad=False, seed=0):
    sparse, dense, count, repeat = SHAPES[name]
    draw = np.random.RandomState(seed + 1)
    flat = draw.randint(0, max(np.prod(sparse), 1), count) if repeat else \
        draw.permutation(int(np.prod(sparse)))[:count]
    indices = np.stack(np.unravel_index(flat, sparse)) if count else np.zeros((len(sparse), 0), dtype=np.int64)
    x = t.sparse_coo_tensor(t.tensor(indices), t.tensor(drawn((count, *dense), dtype, seed)), (*sparse, *dense))
    x = x if repeat else x.coalesce()
    return x.requires_grad_() if grad else x


def dense(t, shape, dtype, grad=False, seed=5):
    x = t.tensor(drawn(shape, dtype, seed))
    return x.requires_grad_() if grad else x


def as_layout(t, x, layout, block=(2, 1)):
    x = x.detach().to_dense()
    if layout in ("sparse_bsr", "sparse_bsc"):
        return x.to_sparse(layout=getattr(t, layout), blocksize=block)
    return x.to_sparse(layout=getattr(t, layout))


# --- the cases --------------------------------------------------------------------------------------------------------

def functions(t, name):
    """{case: function of a COO tensor} that fit an input of that name."""
    sparse, inner, _, _ = SHAPES[name]
    n, rank = len(sparse), len(sparse) + len(inner)
    shape = (*sparse, *inner)
    found = {
        "coalesce": lambda x: x.coalesce(), "to_dense": lambda x: x.to_dense(), "clone": lambda x: x.clone(),
        "detach": lambda x: x.detach(), "times 2": lambda x: x * 2, "2 times": lambda x: 2 * x,
        "by 2": lambda x: x / 2, "floor by 2": lambda x: x // 2, "squared": lambda x: x ** 2, "minus": lambda x: -x,
        "times number tensor": lambda x: x * t.tensor(2.0), "plus itself": lambda x: x + x,
        "minus itself": lambda x: x - x, "times itself": lambda x: x * x, "sum": lambda x: x.sum(),
        "sparse.sum": lambda x: t.sparse.sum(x), "norm": lambda x: x.norm(), "any": lambda x: x.any(),
        "zeros_like": t.zeros_like, "double": lambda x: x.double(), "long": lambda x: x.long(),
        "parts": lambda x: (x._indices(), x._values(), x._nnz(), x.is_coalesced(), x.sparse_dim(), x.dense_dim()),
        "facts": lambda x: (x.is_sparse, x.is_sparse_csr, str(x.layout), x.type(), tuple(x.shape), x.numel(), len(x)),
        "repr": lambda x: repr(x.detach().real if x.is_complex() else x.detach()), "cos": lambda x: x.cos(),
        "indices": lambda x: x.indices(), "values": lambda x: x.values(), "crow_indices": lambda x: x.crow_indices(),
        "plus 1": lambda x: x + 1, "mean": lambda x: x.mean(), "numpy": lambda x: x.numpy(),
        "view": lambda x: x.view(-1), "reshape": lambda x: x.reshape(-1), "setitem": lambda x: x.__setitem__(0, 1),
        "dense plus": lambda x: dense(t, shape, "float64") + x, "dense minus": lambda x: dense(t, shape, "float64") - x,
        "times dense": lambda x: x * dense(t, shape, "float64"),
        "dense times": lambda x: dense(t, shape, "float64") * x,
        "dense times row": lambda x: x * dense(t, shape[-1:], "float64"),
        "by dense": lambda x: x / dense(t, shape, "float64"),
        "cat": lambda x: t.cat([x, x]), "stack": lambda x: t.stack([x, x]), "unsqueeze": lambda x: x.unsqueeze(0),
        "unsqueeze behind": lambda x: x.unsqueeze(-1), "cat behind": lambda x: t.cat([x, x * 3], -1),
        "select": lambda x: x.select(0, 1), "select last": lambda x: x[-1], "iterate": lambda x: list(x),
        "narrow_copy": lambda x: x.narrow_copy(0, 1, 2), "select behind": lambda x: x.select(-1, 1),
        "index_select": lambda x: x.index_select(0, t.tensor([1, 0, 1])), "select far": lambda x: x.select(0, 99),
        "index_select behind": lambda x: x.index_select(-1, t.tensor([1, 1, 0])),
        "index_select far": lambda x: x.index_select(0, t.tensor([99])),
        "sum 0": lambda x: x.sum(0), "sum -1": lambda x: x.sum(-1), "sum 0 keepdim": lambda x: x.sum(0, keepdim=True),
        "sparse.sum 0": lambda x: t.sparse.sum(x, 0), "sparse.sum -1": lambda x: t.sparse.sum(x, -1),
        "sum all dims": lambda x: x.sum(tuple(range(rank))), "sum in double": lambda x: x.sum(dtype=t.float64),
        "sparse.sum all dims": lambda x: t.sparse.sum(x, tuple(range(rank))),
        "sum far": lambda x: x.sum(9), "sparse_mask": lambda x: dense(t, shape, "float64").sparse_mask(x),
        "sparse_mask of sparse": lambda x: x.sparse_mask(x.coalesce()),
        "in place times": lambda x: x.detach().clone().mul_(2), "in place by": lambda x: x.detach().clone().div_(2),
        "in place plus": lambda x: x.detach().clone().add_(x.detach(), alpha=3),
        "in place zero": lambda x: x.detach().clone().zero_(),
        "copy_": lambda x: t.zeros_like(x.detach()).copy_(x.detach()),
        "dense in place plus": lambda x: dense(t, shape, "float64").add_(x.detach(), alpha=2),
        "sparse_resize_": lambda x: x.detach().clone().sparse_resize_([s + 1 for s in sparse] + list(inner), n,
                                                                       len(inner)),
    }
    for dim in range(rank):
        found[f"sparse.softmax {dim}"] = lambda x, dim=dim: t.sparse.softmax(x, dim)
        found[f"sparse.log_softmax {dim}"] = lambda x, dim=dim: t.sparse.log_softmax(x, dim)
    if n >= 2:
        found |= {"transpose": lambda x: x.transpose(0, 1), "swapaxes": lambda x: x.swapaxes(0, 1),
                  "permute": lambda x: x.permute(1, 0, *range(2, rank))}
    if rank == 2 and n == 2:
        found |= matrix_functions(t, shape)
    return found


def matrix_functions(t, shape):
    rows, columns = shape
    return {
        "t": lambda x: x.t(), "T": lambda x: x.T, "item of element": lambda x: x[0, 1].item(),
        "mm": lambda x: t.mm(x, dense(t, (columns, 3), "float64")),
        "matmul": lambda x: x @ dense(t, (columns, 3), "float64"),
        "mv": lambda x: x @ dense(t, (columns,), "float64"), "t.mv": lambda x: t.mv(x, dense(t, (columns,), "float64")),
        "sparse.mm": lambda x: t.sparse.mm(x, dense(t, (columns, 3), "float64")),
        "sparse.mm sparse": lambda x: t.sparse.mm(x, x.t()), "times transposed": lambda x: x @ x.t(),
        "dense mm": lambda x: dense(t, (2, rows), "float64") @ x,
        "addmm": lambda x: t.addmm(dense(t, (rows, 3), "float64"), x, dense(t, (columns, 3), "float64"), beta=2,
                                   alpha=3),
        "sparse.addmm": lambda x: t.sparse.addmm(dense(t, (rows, 3), "float64"), x, dense(t, (columns, 3), "float64")),
        "hspmm": lambda x: t.hspmm(x, dense(t, (columns, 3), "float64")),
        "smm": lambda x: t.smm(x, dense(t, (columns, 3), "float64")),
        "sspaddmm": lambda x: t.sspaddmm(x, x @ x.t(), dense(t, (rows, columns), "float64")),
        "mm wrong": lambda x: t.mm(x, dense(t, (columns + 1, 3), "float64")),
        "mm out": lambda x: t.mm(x.detach(), dense(t, (columns, 3), "float64"), out=t.zeros(rows, 3, dtype=t.float64)),
        "linear": lambda x: t.nn.functional.linear(x, dense(t, (3, columns), "float64")),
        **{f"to_{layout}": lambda x, layout=layout: getattr(x, f"to_{layout}")() for layout in LAYOUTS[:2]},
        **{f"to_{layout}": lambda x, layout=layout: getattr(x, f"to_{layout}")((2, 1)) for layout in LAYOUTS[2:]},
    }


def compressed_functions(t):
    """{case: function of a compressed matrix of shape [4, 6]}."""
    return {
        "to_dense": lambda x: x.to_dense(), "clone": lambda x: x.clone(), "times 2": lambda x: x * 2,
        "by 2": lambda x: x / 2, "times itself": lambda x: x * x, "plus itself": lambda x: x + x,
        "minus": lambda x: -x, "sum": lambda x: x.sum(), "t": lambda x: x.t(), "transpose": lambda x: x.transpose(0, 1),
        "values": lambda x: x.values(), "double": lambda x: x.double(), "zeros_like": t.zeros_like,
        "facts": lambda x: (x.is_sparse, x.is_sparse_csr, str(x.layout), x._nnz(), x.sparse_dim(), x.dense_dim(),
                            tuple(x.shape), x.numel()),
        "repr": lambda x: repr(x.detach()), "indices": lambda x: x.indices(), "coalesce": lambda x: x.coalesce(),
        "crow_indices": lambda x: x.crow_indices(), "ccol_indices": lambda x: x.ccol_indices(),
        "mm": lambda x: x @ dense(t, (6, 3), "float64"), "mv": lambda x: x @ dense(t, (6,), "float64"),
        "sparse.mm": lambda x: t.sparse.mm(x, dense(t, (6, 3), "float64")),
        "addmm": lambda x: t.addmm(dense(t, (4, 3), "float64"), x, dense(t, (6, 3), "float64"), beta=2, alpha=3),
        "sparse.addmm": lambda x: t.sparse.addmm(dense(t, (4, 3), "float64"), x, dense(t, (6, 3), "float64")),
        "dense plus": lambda x: dense(t, (4, 6), "float64") + x, "cos": lambda x: x.cos(), "plus 1": lambda x: x + 1,
        "times dense": lambda x: x * dense(t, (4, 6), "float64"), "numpy": lambda x: x.numpy(),
        "to_sparse": lambda x: x.to_sparse(), "to_sparse_coo": lambda x: x.to_sparse_coo(),
        **{f"to_{layout}": lambda x, layout=layout: getattr(x, f"to_{layout}")() for layout in LAYOUTS[:2]},
        **{f"to_{layout}": lambda x, layout=layout: getattr(x, f"to_{layout}")((2, 3)) for layout in LAYOUTS[2:]},
        "sum 0 keepdim": lambda x: x.sum(0, keepdim=True), "sum 1 keepdim": lambda x: x.sum(1, keepdim=True),
        "select": lambda x: x.select(0, 1), "select element": lambda x: x[1, 2],
        "sampled_addmm": lambda x: t.sparse.sampled_addmm(x, dense(t, (4, 3), "float64"), dense(t, (3, 6), "float64")),
        "sampled_addmm scaled": lambda x: t.sparse.sampled_addmm(
            x, dense(t, (4, 3), "float64"), dense(t, (3, 6), "float64"), beta=0.5, alpha=2),
        "sparse_mask": lambda x: dense(t, (4, 6), "float64").sparse_mask(x), "is_coalesced": lambda x: x.is_coalesced(),
        **{f"mm {how}": lambda x, how=how: t.sparse.mm(x, dense(t, (6, 3), "float64"), how)
           for how in ("sum", "mean", "amax", "amin")},
    }


def creations(t):
    i, v = [[0, 1, 1], [2, 0, 2]], [3.0, 4.0, 5.0]
    make, csr = t.sparse_coo_tensor, t.sparse_csr_tensor
    return {
        "lists": lambda: make(i, v, (2, 3)), "inferred": lambda: make(i, v), "tensors": lambda: make(
            t.tensor(i), t.tensor(v), t.Size([2, 3])), "dtype": lambda: make(i, v, (2, 3), dtype=t.float64),
        "int32 indices": lambda: make(t.tensor(i, dtype=t.int32), v), "size only": lambda: make((2, 3)),
        "size by name": lambda: make(size=(2, 3), dtype=t.int64), "empty": lambda: make([[], []], [], (2, 3)),
        "number": lambda: make([[1]], 2.0), "requires_grad": lambda: make(i, v, requires_grad=True).requires_grad,
        "one row of indices": lambda: make([0, 1], [1, 2]), "too few values": lambda: make(i, [1.0]),
        "wrong size": lambda: make(i, v, (2, 3, 4)), "negative": lambda: make([[-1]], [1.0]),
        "outside, checked": lambda: make(i, v, (2, 2), check_invariants=True),
        "disorder, checked": lambda: make([[1, 0]], [1.0, 2.0], is_coalesced=True, check_invariants=True),
        "dense dims": lambda: make([[0, 2]], [[1.0, 2.0], [3.0, 4.0]], (3, 2)),
        "csr": lambda: csr([0, 1, 3], [2, 0, 2], v), "csr size": lambda: csr([0, 1, 3], [2, 0, 2], v, (2, 4)),
        "csr int32": lambda: csr(t.tensor([0, 1, 3], dtype=t.int32), t.tensor([2, 0, 2], dtype=t.int32), v),
        "csr batch": lambda: csr([[0, 1, 2], [0, 1, 2]], [[0, 1], [1, 0]], [[1.0, 2.0], [3.0, 4.0]], (2, 2, 2)),
        "csc": lambda: t.sparse_csc_tensor([0, 1, 2, 2], [1, 0], [1.0, 2.0], (2, 3)),
        "bsr": lambda: t.sparse_bsr_tensor([0, 1, 2], [1, 0], [[[1.0, 2.0]], [[3.0, 4.0]]], (2, 4)),
        "bsc": lambda: t.sparse_bsc_tensor([0, 1, 2], [1, 0], [[[1.0, 2.0]], [[3.0, 4.0]]], (2, 4)),
        "compressed": lambda: t.sparse_compressed_tensor([0, 1, 2], [1, 0], [1.0, 2.0], layout=t.sparse_csr),
        "no layout": lambda: t.sparse_compressed_tensor([0, 1, 2], [1, 0], [1.0, 2.0]),
        **{f"csr {why}, checked": lambda a=a: csr(*a, check_invariants=True) for why, a in {
            "last": ([0, 1, 5], [0, 1], [1.0, 2.0], (2, 2)), "first": ([1, 1, 2], [0, 1], [1.0, 2.0], (2, 2)),
            "falls": ([0, 2, 1, 2], [0, 1], [1.0, 2.0], (3, 2)), "outside": ([0, 1, 2], [0, 7], [1.0, 2.0], (2, 2)),
            "negative": ([0, 1, 2], [0, -1], [1.0, 2.0], (2, 2)), "twice": ([0, 2], [1, 1], [1.0, 2.0], (1, 3)),
            "unsorted": ([0, 2], [1, 0], [1.0, 2.0], (1, 3)), "pointers": ([0, 1], [0], [1.0], (3, 3)),
            "values": ([0, 1, 2], [0, 1], [1.0], (2, 2))}.items()},
        "spdiags": lambda: t.sparse.spdiags(t.tensor([[1.0, 2, 3], [4, 5, 6]]), t.tensor([0, -1]), (3, 3)),
        "spdiags csr": lambda: t.sparse.spdiags(t.tensor([[1.0, 2, 3]]), t.tensor([1]), (3, 3), t.sparse_csr),
        "to_sparse 1": lambda: t.tensor([[1.0, 0], [0, 0]]).to_sparse(1), "to_sparse 0": lambda: t.ones(2).to_sparse(0),
        "to_sparse 3": lambda: t.ones(2).to_sparse(3), "to_sparse of a number": lambda: t.tensor(3.0).to_sparse(),
        "to_sparse_csr batch": lambda: t.eye(3).repeat(2, 1, 1).to_sparse_csr(),
        "to_sparse_csr uneven": lambda: t.tensor([[[1.0, 0]], [[1, 1]]]).to_sparse_csr(),
        "to_sparse_csr dense dims": lambda: t.ones(2, 2, 3).to_sparse_csr(dense_dim=1),
        "to_sparse_csr vector": lambda: t.ones(3).to_sparse_csr(),
        "to_sparse_bsr": lambda: t.eye(4).to_sparse_bsr((2, 2)),
        "to_sparse_bsc": lambda: t.eye(4).to_sparse_bsc((2, 2)),
        "to_sparse_bsr wrong": lambda: t.eye(4).to_sparse_bsr((3, 2)),
        "bmm": lambda: t.bmm(t.eye(3).repeat(2, 1, 1).to_sparse(), t.ones(2, 3, 2)),
        "bsr batch": lambda: t.eye(4).repeat(2, 1, 1).to_sparse_bsr((2, 2)).to_dense(),
    }


def gradients(t, call, *inputs):
    """The layouts and elements of the gradients of what a call makes of leaves."""
    found = call(*inputs)
    found = found.to_dense() if str(found.layout) != "torch.strided" else found
    weight = t.tensor(drawn(tuple(found.shape), "float64", 3))
    (found * weight).sum().backward()
    return [None if x.grad is None else (str(x.grad.layout), x.grad.to_dense()) for x in inputs]


def backward_cases(t):
    for name in SHAPES:
        calls = functions(t, name)
        for case in ("coalesce", "to_dense", "clone", "times 2", "by 2", "squared", "minus", "plus itself",
                     "times itself", "sparse.sum", "dense plus", "dense minus", "times dense", "cat", "stack", "sum",
                     "sparse.sum 0", "sparse.sum -1", "transpose", "mm", "sparse.mm", "matmul", "mv", "sparse.addmm",
                     "sparse.softmax 0", "sparse.log_softmax 0", "select", "index_select", "double",
                     "sparse.mm sparse"):
            if case in calls:
                yield "gradients", f"{case} of {name}", lambda c=calls[case], n=name: gradients(
                    t, c, coo(t, n, "float64", grad=True))
    x = {name: lambda name=name: coo(t, name, "float64", grad=True) for name in SHAPES}
    for name in ("matrix", "repeated"):
        other = {"sparse.mm": (lambda a, b: t.sparse.mm(a, b), (5, 3)), "mm": (t.mm, (5, 3)),
                 "addmm": (lambda a, b: t.sparse.addmm(b.new_ones(4, 3), a, b), (5, 3)),
                 "dense plus": (lambda a, b: b + a, (4, 5)), "times dense": (lambda a, b: a * b, (4, 5)),
                 "sparse_mask": (lambda a, b: b.sparse_mask(a.detach()), (4, 5))}
        for case, (call, shape) in other.items():
            yield "gradients", f"{case} of {name} and dense", lambda c=call, s=shape, n=name: gradients(
                t, c, x[n](), dense(t, s, "float64", grad=True))
    yield "gradients", "values", lambda: gradients(
        t, lambda v: t.sparse_coo_tensor([[0, 1, 0], [1, 0, 1]], v, (2, 2)), dense(t, (3,), "float64", grad=True))
    yield "gradients", "to_sparse", lambda: gradients(t, lambda v: v.to_sparse(), dense(t, (2, 3), "float64", True))
    for layout in LAYOUTS:
        for case in ("to_dense", "times 2", "mm", "sparse.mm", "sum", "values", "mv", "sampled_addmm"):
            yield "gradients", f"{case} of {layout}", lambda c=case, k=layout: gradients(
                t, compressed_functions(t)[c], as_layout(t, dense(t, (4, 6), "float64"), k).requires_grad_())


def programs(t):
    """Layers and optimizers with sparse gradients."""
    def trained(make, sparse=True, steps=4, **options):
        table = t.nn.Embedding.from_pretrained(dense(t, (6, 3), "float64"), freeze=False, sparse=sparse)
        optimizer = make(table.parameters(), **options)
        for k in range(steps):
            optimizer.zero_grad()
            (table(t.tensor([[k, 1], [1, 3]])) ** 2).sum().backward()
            optimizer.step()
        return [table.weight, table.weight.grad]

    def bag(mode, **options):
        table = t.nn.EmbeddingBag.from_pretrained(dense(t, (6, 3), "float64"), freeze=False, sparse=True, mode=mode)
        table(t.tensor([1, 1, 3, 5]), t.tensor([0, 3]), **options).sum().backward()
        return table.weight.grad

    def embedding(**options):
        weight = dense(t, (6, 3), "float64", grad=True)
        t.nn.functional.embedding(t.tensor([1, 1, 3]), weight, sparse=True, **options).pow(2).sum().backward()
        return weight.grad

    def gathered(dim, index):
        x = dense(t, (3, 4), "float64", grad=True)
        t.gather(x, dim, t.tensor(index), sparse_grad=True).pow(2).sum().backward()
        return x.grad

    def twice(first, second):
        table = t.nn.Embedding.from_pretrained(dense(t, (6, 3), "float64"), freeze=False, sparse=True)
        for kind in (first, second):
            (table(t.tensor([1, 2, 1])) if kind == "sparse" else table.weight * 2).sum().backward()
        return table.weight.grad

    optim = t.optim
    found = {"SGD": lambda: trained(optim.SGD, lr=0.1),
             "SGD momentum": lambda: trained(optim.SGD, lr=0.1, momentum=0.9),
             "SGD nesterov": lambda: trained(optim.SGD, lr=0.1, momentum=0.9, nesterov=True),
             "SGD dampening": lambda: trained(optim.SGD, lr=0.1, momentum=0.9, dampening=0.2),
             "SGD maximize": lambda: trained(optim.SGD, lr=0.1, maximize=True),
             "Adagrad": lambda: trained(optim.Adagrad, lr=0.1), "Adagrad weight_decay": lambda: trained(
                 optim.Adagrad, lr=0.1, weight_decay=0.1),
             "Adagrad lr_decay": lambda: trained(optim.Adagrad, lr=0.1, lr_decay=0.5, initial_accumulator_value=1.0),
             "SparseAdam": lambda: trained(optim.SparseAdam, lr=0.1),
             "SparseAdam betas": lambda: trained(optim.SparseAdam, lr=0.1, betas=(0.8, 0.9), maximize=True),
             "SparseAdam dense": lambda: trained(optim.SparseAdam, sparse=False),
             **{f"{name} refuses": lambda name=name: trained(getattr(optim, name)) for name in (
                 "Adam", "AdamW", "RMSprop", "Adadelta", "Adamax", "NAdam", "RAdam", "Rprop", "ASGD")},
             "bag sum": lambda: bag("sum"), "bag mean": lambda: bag("mean"), "bag max": lambda: bag("max"),
             "bag weights": lambda: bag("sum", per_sample_weights=dense(t, (4,), "float64")),
             "embedding": embedding, "embedding padding": lambda: embedding(padding_idx=1),
             "embedding scaled": lambda: embedding(scale_grad_by_freq=True),
             "gather 0": lambda: gathered(0, [[0, 1, 2, 0]]),
             "gather 1": lambda: gathered(1, [[0, 0], [1, 2], [3, 3]]),
             **{f"{a}, then {b}": lambda a=a, b=b: twice(a, b)
                for a in ("sparse", "dense") for b in ("sparse", "dense")}}
    return found


def own_cases(t):
    """(group, name, call)."""
    for name in SHAPES:
        for dtype in DTYPES:
            for case, call in functions(t, name).items():
                yield case.partition(" ")[0], f"{case} of {name} {dtype}", lambda c=call, n=name, d=dtype: c(
                    coo(t, n, d))
            for op in UNARY:
                yield op, f"{op} of {name} {dtype}", lambda o=op, n=name, d=dtype: getattr(t, o)(coo(t, n, d))
    for layout in LAYOUTS:
        for dtype in DTYPES:
            def given(layout=layout, dtype=dtype):
                values = drawn((4, 6), dtype)
                values[::2, 1::2] = 0
                return as_layout(t, t.tensor(values), layout)

            for case, call in compressed_functions(t).items():
                yield case.partition(" ")[0], f"{case} of {layout} {dtype}", lambda c=call, g=given: c(g())
            for op in UNARY:
                yield op, f"{op} of {layout} {dtype}", lambda o=op, g=given: getattr(t, o)(g())
    for name, call in creations(t).items():
        yield "creation", name, call
    yield from backward_cases(t)
    for name, call in programs(t).items():
        yield "programs", name, call


def own_answers(t):
    return {(group, name): answer(call) for group, name, call in own_cases(t)}


# --- PyTorch's own samples --------------------------------------------------------------------------------------------

def spec(x):
    """An argument as plain data."""
    kind = type(x).__name__
    if hasattr(x, "layout") and hasattr(x, "to_dense"):
        x = x.detach()
        layout = str(x.layout).rpartition(".")[2]
        if layout == "strided":
            return ("tensor", str(x.dtype), numbers(x))
        if layout == "sparse_coo":
            return (layout, str(x.dtype), numbers(x._indices()), numbers(x._values()), tuple(x.shape), x.is_coalesced())
        _, _, _, *parts = tensor_told(x)
        return (layout, str(x.dtype), *parts, tuple(x.shape))
    if isinstance(x, (list, tuple)):
        return ("list", [spec(y) for y in x])
    return ("name", str(x)) if kind in ("dtype", "layout", "memory_format", "device") else ("plain", x)


def rebuilt(t, s):
    """The argument again."""
    kind, *rest = s
    if kind == "plain":
        return rest[0]
    if kind == "name":
        return rest[0] if rest[0] == "cpu" else getattr(t, rest[0].rpartition(".")[2])
    if kind == "list":
        return [rebuilt(t, y) for y in rest[0]]
    dtype = getattr(t, rest[0].rpartition(".")[2])
    if kind == "tensor":
        return t.tensor(rest[1]).to(dtype)
    if kind == "sparse_coo":
        values = t.tensor(rest[2]).to(dtype)
        return t.sparse_coo_tensor(t.tensor(rest[1]), values, rest[3], is_coalesced=rest[4] or None)
    return t.sparse_compressed_tensor(t.tensor(rest[1]), t.tensor(rest[2]), t.tensor(rest[3]).to(dtype), rest[4],
                                      layout=getattr(t, kind))


def sampled(torch):
    """(operator, layout and number, path, arguments, keywords, PyTorch's answer) over its operator database."""
    from torch.testing._internal.common_methods_invocations import op_db

    layouts = {"sparse_coo": "supports_sparse", **{name: f"supports_{name}" for name in LAYOUTS}}
    for info in op_db:
        if info.name.startswith(("masked.", "randn_like")) or ("." in info.name and not info.name.startswith("nn.f")):
            continue
        for layout, supports in layouts.items():
            if not getattr(info, supports, False):
                continue
            for dtype in (torch.float64, torch.complex64, torch.int32, torch.bool):
                if dtype in info.dtypes:
                    yield from samples_of(torch, info, layout, dtype)


def samples_of(torch, info, layout, dtype):
    made = []
    try:
        made = list(info.sample_inputs_sparse(getattr(torch, layout), "cpu", dtype, requires_grad=False))[:40]
    except Exception:
        made = converted_samples(torch, info, layout, dtype)
    path = f"nn.functional.{info.name.rpartition('.')[2]}" if info.name.startswith("nn.") else info.name
    for number, sample in enumerate(made):
        args, kwargs = (sample.input, *sample.args), sample.kwargs
        if any(isinstance(a, torch.Tensor) and a.numel() > 1000 for a in args):
            continue  # what is far larger than the others shows nothing that they do not
        try:
            given = [spec(a) for a in args], {k: spec(v) for k, v in kwargs.items()}
        except Exception:
            continue
        found = answer(lambda a=args, k=kwargs: info.op(*a, **k))
        yield info.name, f"{layout} {str(dtype)[6:]} {number}", path, *given, found


def converted_samples(torch, info, layout, dtype):
    """The operator's dense samples, in the layout, as PyTorch's own tests of unary operators do."""
    found = []
    for sample in list(info.sample_inputs("cpu", dtype, requires_grad=False))[:20]:
        x = sample.input
        if not isinstance(x, torch.Tensor) or x.numel() > 1000 or (layout != "sparse_coo" and x.dim() != 2):
            continue
        try:
            if layout in ("sparse_bsr", "sparse_bsc"):
                sample.input = x.to_sparse(layout=getattr(torch, layout), blocksize=(1, 1))
            else:
                sample.input = x.to_sparse(layout=getattr(torch, layout))
        except Exception:
            continue
        found.append(sample)
    return found


def main(path):
    import torch

    warnings.simplefilter("ignore")
    torch.manual_seed(0)
    torch.set_num_threads(1)
    try:
        samples = list(sampled(torch))
    except ImportError:
        samples = []
    with open(path, "wb") as file:
        pickle.dump({"own": own_answers(torch), "samples": samples}, file)


if __name__ == "__main__":
    main(sys.argv[1])
