"""Programs on tensors, which must give the same on DTensors: name -> (function, shapes)."""

import flambeau
from flambeau.distributed.tensor import DTensor, Replicate, distribute_tensor
from flambeau.nn import functional as F


def index_like(x, values):
    """An index, beside a DTensor as a replicated one."""
    index = flambeau.tensor(values)
    if not isinstance(x, DTensor):
        return index
    return distribute_tensor(index, x.device_mesh, [Replicate()] * x.device_mesh.ndim)


def written(a, b):
    a = a * 1
    a.copy_(b)
    a.zero_()
    return a.add_(b).mul_(2).sub_(1)


CASES = {
    "sums": (lambda a, b: a + b * 2 - 1, [(5, 3), (3,)]),
    "products": (lambda a, b: a * b / 3, [(5, 3), (5, 1)]),
    "where": (lambda a, b: flambeau.where(a > b, a, b), [(5, 3), (5, 3)]),
    "gelu": (lambda a: F.gelu(a).tanh(), [(5, 3)]),
    "written": (written, [(5, 3), (5, 3)]),
    "written over": (lambda a, b: F.silu((a * 1).mul_(b).clamp_(min=-1), inplace=True), [(5, 3), (5, 3)]),
    "sum": (lambda a: a.sum(0) * a.sum(1, keepdim=True), [(3, 3)]),
    "mean": (lambda a: a.mean(0) + a.mean() + a.mean(1, True), [(5, 5)]),
    "extremes": (lambda a: a.amax(0) + a.amin(1) + a.max() + a.min(), [(5, 5)]),
    "var": (lambda a: a.var(1) + a.std(0), [(5, 5)]),
    "norm": (lambda a: a.norm() + a.norm(1, 0) + a.norm(float("inf")), [(5, 5)]),
    "logsumexp": (lambda a: a.logsumexp(1) + a.prod(1), [(5, 3)]),
    "mm": (lambda a, b, c: (a @ b).relu() @ c, [(5, 3), (3, 6), (6, 2)]),
    "bmm": (lambda a, b: flambeau.bmm(a, b), [(3, 5, 2), (3, 2, 4)]),
    "matmul": (lambda a, b: a @ b, [(2, 1, 5, 2), (3, 2, 4)]),
    "mv": (lambda a, b: a @ b, [(5, 2), (2,)]),
    "addmm": (lambda a, b, c: flambeau.addmm(a, b, c, beta=0.5, alpha=2), [(4,), (3, 2), (2, 4)]),
    "linear": (lambda a, b, c: F.linear(a, b, c), [(2, 5, 3), (4, 3), (4,)]),
    "einsum": (lambda a, b: flambeau.einsum("bik,bkj->bij", a, b), [(3, 5, 2), (3, 2, 4)]),
    "outer": (lambda a, b: flambeau.outer(a, b).t(), [(5,), (3,)]),
    "reshape": (lambda a: a.reshape(4, 6).reshape(4, 3, 2).transpose(1, 2).reshape(24), [(4, 2, 3)]),
    "view": (lambda a: a.view(2, 4, 2, 2).permute(0, 2, 1, 3).contiguous().flatten(1), [(2, 4, 4)]),
    "expand": (lambda a: a.unsqueeze(0).squeeze().expand(2, 5, 3), [(5, 3)]),
    "cat": (lambda a, b: flambeau.cat([a, b, a * 2]), [(5, 3), (2, 3)]),
    "stack": (lambda a, b: flambeau.stack([a, b], 1), [(5, 3), (5, 3)]),
    "split": (lambda a: a.split(2)[1] * a.chunk(2)[0][:2] + a.unbind(0)[1], [(5, 3)]),
    "slice": (lambda a: a[1:4, ::2] * a[0, 0] + a.select(1, 1)[:3, None], [(5, 3)]),
    "repeat": (lambda a: a.repeat(2, 1) + a.tile(2, 1), [(5, 3)]),
    "pad": (lambda a: F.pad(a, (1, 1)), [(5, 3)]),
    "index": (lambda a: a[index_like(a, [0, 2])], [(5, 3)]),
    "softmax": (lambda a: a.softmax(0) * a.log_softmax(1), [(5, 4)]),
    "cumsum": (lambda a: a.cumsum(0) + a.flip(1), [(5, 3)]),
    "sort": (lambda a: a.sort(1)[0] + a.topk(3, 1)[0], [(5, 3)]),
    "tril": (lambda a: a.tril() + a.diagonal(), [(4, 4)]),
    "no rule": (lambda a: flambeau.linalg.det(a), [(3, 3)]),
    "layer_norm": (lambda a, b, c: F.layer_norm(a, (4,), b, c), [(2, 5, 4), (4,), (4,)]),
    "rms_norm": (lambda a, b: F.rms_norm(a, (4,), b), [(2, 5, 4), (4,)]),
    "attention": (lambda a, b, c: F.scaled_dot_product_attention(a, b, c, is_causal=True), [(2, 4, 3, 2)] * 3),
    "conv": (lambda a, b, c: F.conv2d(a, b, c), [(3, 2, 4, 4), (2, 2, 3, 3), (2,)]),
    "pool": (lambda a: F.max_pool2d(a, 2) + F.avg_pool2d(a, 2), [(3, 2, 4, 4)]),
    "embedding": (lambda a: F.embedding(index_like(a, [[1, 2], [0, 4]]), a), [(5, 3)]),
    "mse": (lambda a, b: F.mse_loss(a, b), [(5, 3), (5, 3)]),
}
