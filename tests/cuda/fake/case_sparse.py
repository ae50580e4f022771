"""Sparse tensors on the device: made, converted, multiplied and derived there as on the CPU."""

import warnings

import pytest

import flambeau as fb

pytestmark = pytest.mark.usefixtures("own_kernels")
warnings.filterwarnings("ignore", message=".*sparse.*")


def _dense():
    fb.manual_seed(3)
    return fb.rand(4, 6) * (fb.rand(4, 6) > 0.5)


def _gradient(make):
    def call(x):
        s = make(x.detach()).requires_grad_()
        (s @ x.t()).sum().backward()
        return s.grad
    return call


def _of_embedding(x):
    table = x.clone().requires_grad_()
    fb.nn.functional.embedding(fb.tensor([1, 1, 0], device=x.device), table, sparse=True).sum().backward()
    return table.grad


def _through_csr(x):
    x = x.detach().requires_grad_()
    fb.sparse.mm(x.to_sparse_csr(), x.detach().t()).sum().backward()
    return x.grad


def _stepped(x):
    table = fb.nn.Parameter(x.clone())
    optimizer = fb.optim.SparseAdam([table])
    for _ in range(2):
        fb.nn.functional.embedding(fb.tensor([1, 1, 0], device=x.device), table, sparse=True).sum().backward()
        optimizer.step()
    return table.detach()


CALLS = {
    "coo": lambda x: x.to_sparse(),
    "csr": lambda x: x.to_sparse_csr(),
    "csc": lambda x: x.to_sparse_csc(),
    "bsr": lambda x: x.to_sparse_bsr((2, 2)),
    "bsc": lambda x: x.to_sparse_bsc((2, 3)),
    "coo of csr": lambda x: x.to_sparse_csr().to_sparse_coo(),
    "csr of coo": lambda x: x.to_sparse().to_sparse_csr(),
    "csr of bsr": lambda x: x.to_sparse_bsr((2, 2)).to_sparse().to_sparse_csr(),
    "hybrid": lambda x: x.to_sparse(1),
    "from its parts": lambda x: fb.sparse_coo_tensor(fb.tensor([[2, 0, 2], [1, 3, 1]], device=x.device), x[0, :3]),
    "coalesced": lambda x: (x.to_sparse() + x.to_sparse()).coalesce(),
    "coo by dense": lambda x: x.to_sparse() @ x.t(),
    "csr by dense": lambda x: x.to_sparse_csr() @ x.t(),
    "csr by a vector": lambda x: x.to_sparse_csr() @ x[0],
    "coo by coo": lambda x: x.to_sparse() @ x.t().to_sparse(),
    "csr by csr": lambda x: x.to_sparse_csr() @ x.t().to_sparse_csr(),
    "addmm": lambda x: fb.sparse.addmm(x @ x.t(), x.to_sparse(), x.t()),
    "sampled": lambda x: fb.sparse.sampled_addmm((x @ x.t()).to_sparse_csr(), x, x.t()),
    "reduced products": lambda x: fb.sparse.mm(x.to_sparse_csr(), x.t(), "amax"),
    "smm": lambda x: fb.smm(x.to_sparse(), x.t()),
    "sum": lambda x: fb.sparse.sum(x.to_sparse(), 0),
    "products": lambda x: x.to_sparse() * x.to_sparse(),
    "masked": lambda x: x.sparse_mask((x > 0.7).to_sparse()),
    "softmax": lambda x: fb.sparse.softmax(x.to_sparse(), 1),
    "transposed": lambda x: x.to_sparse().t(),
    "rows": lambda x: x.to_sparse().index_select(0, fb.tensor([2, 0], device=x.device)),
    "narrowed": lambda x: x.to_sparse().narrow(0, 1, 2),
    "unsqueezed": lambda x: x.to_sparse().unsqueeze(1),
    "joined": lambda x: fb.cat([x.to_sparse(), x.to_sparse()]),
    "nothing": lambda x: fb.zeros(4, 6, device=x.device).to_sparse(),
    "nothing in rows": lambda x: fb.zeros(4, 6, device=x.device).to_sparse_csr(),
    "zeros": lambda x: fb.sparse_coo_tensor((4, 6), device=x.device),
    "zeros like": lambda x: fb.zeros_like(x.to_sparse()),
    "gradient of coo": _gradient(lambda x: x.to_sparse()),
    "gradient of csr": _through_csr,
    "gradient of a table": _of_embedding,
    "a table's steps": _stepped,
}


@pytest.mark.parametrize("name", CALLS)
def test_calls(name):
    cpu = _dense()
    expected, found = CALLS[name](cpu), CALLS[name](cpu.cuda())
    assert found.is_cuda
    assert (found.layout, found.shape, found.dtype) == (expected.layout, expected.shape, expected.dtype)
    plain = [t if t.layout == fb.strided else t.to_dense() for t in (found.detach(), expected.detach())]
    assert fb.allclose(plain[0].cpu(), plain[1], rtol=1e-5, atol=1e-6)


def test_between_devices():
    for sparse in (_dense().to_sparse(), _dense().to_sparse_csr()):
        there = sparse.cuda()
        assert there.is_cuda and there.layout == sparse.layout
        assert fb.equal(there.cpu().to_dense(), sparse.to_dense())
        assert sparse.to("cuda", fb.float64).dtype == fb.float64
        again = fb.zeros_like(there).copy_(sparse)
        assert again.is_cuda and fb.equal(again.to_dense().cpu(), sparse.to_dense())
        leaf = sparse.clone().requires_grad_()
        (leaf.cuda().to_dense() * 2).sum().backward()
        assert leaf.grad.device.type == "cpu" and fb.equal(leaf.grad.to_dense(), 2 * (sparse.to_dense() != 0))
