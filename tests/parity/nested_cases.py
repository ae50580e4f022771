"""Questions about nested tensors, for both libraries, and how an answer is written down as plain data.

Run by PyTorch's Python as a program, `nested_cases.py FILE`: writes its answers, and PyTorch's own nested samples with
what it answers to them.
"""

import builtins
import pickle
import sys
import warnings

import numpy as np

# --- answers as data --------------------------------------------------------------------------------------------------


def described(lib, x):
    """A result as plain data: arrays, numbers, and nested tensors as their parts."""
    if isinstance(x, lib.Tensor):
        if x.is_nested:
            parts = [p.detach().resolve_conj().numpy().copy() for p in x.detach().unbind()]
            return ("nested", str(x.layout).rpartition(".")[2], str(x.dtype).rpartition(".")[2], x.dim(), parts)
        return x.detach().resolve_conj().numpy().copy()
    if isinstance(x, (tuple, list)):
        return [described(lib, y) for y in x]
    return x if isinstance(x, (int, float, bool, str, type(None))) else str(type(x).__name__)


def answer(lib, compute):
    """What a call gives, or which error it raises."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return described(lib, compute())
    except Exception as error:
        return "raises " + next(k.__name__ for k in type(error).__mro__ if hasattr(builtins, k.__name__))


def plain(torch, value, shared):
    """An argument as data. shared: id of an offsets tensor -> its number, for tensors that have one ragged size."""
    if isinstance(value, torch.Tensor):
        grad = value.requires_grad
        if not value.is_nested:
            return ("dense", value.detach().numpy().copy(), grad)
        offsets = value.offsets()
        key = shared.setdefault(id(offsets), (len(shared), offsets))[0]
        lengths = value.lengths()
        length_key = None if lengths is None else shared.setdefault(id(lengths), (len(shared), lengths))[0]
        return ("jagged", value._values.detach().numpy().copy(), value._values.stride(), (key, offsets.numpy().copy()),
                lengths if lengths is None else (length_key, lengths.numpy().copy()), value._ragged_idx, grad,
                value._maybe_min_seqlen, value._maybe_max_seqlen)
    if isinstance(value, torch.dtype):
        return ("dtype", str(value).rpartition(".")[2])
    if isinstance(value, (torch.layout, torch.memory_format)):
        return ("constant", str(value).rpartition(".")[2])
    if isinstance(value, (tuple, list)):
        return ("list", [plain(torch, v, shared) for v in value])
    return value


def rebuilt(lib, value, shared):
    """The argument in a library."""
    kind = value[0] if isinstance(value, tuple) else None
    if kind == "list":
        return [rebuilt(lib, v, shared) for v in value[1]]
    if kind in ("dtype", "constant"):
        return getattr(lib, value[1])
    if kind == "dense":
        t = lib.tensor(value[1])
        return t.requires_grad_() if value[2] else t
    if kind != "jagged":
        return value
    _, values, strides, offsets, lengths, ragged, grad, least, most = value
    order = sorted(range(values.ndim), key=lambda d: -strides[d])
    held = lib.tensor(np.ascontiguousarray(values.transpose(order)))
    held = held.permute([order.index(d) for d in range(values.ndim)])
    tables = [None if t is None else shared.setdefault(t[0], lib.tensor(t[1])) for t in (offsets, lengths)]
    x = lib.nested.nested_tensor_from_jagged(held, *tables, jagged_dim=ragged, min_seqlen=least, max_seqlen=most)
    return x.detach().requires_grad_() if grad else x


def leaves(lib, value):
    """The tensors among arguments that want a gradient."""
    if isinstance(value, lib.Tensor):
        return [value] if value.requires_grad else []
    if isinstance(value, dict):
        value = list(value.values())
    return [t for v in value for t in leaves(lib, v)] if isinstance(value, (tuple, list)) else []


def weighed(lib, result):
    """A number of which every element of a result has a share."""
    found = 0
    for x in result if isinstance(result, (tuple, list)) else [result]:
        if isinstance(x, lib.Tensor) and x.requires_grad:
            parts = x.unbind() if x.is_nested else [x]
            for k, p in enumerate(parts):
                found = found + (p * (lib.arange(p.numel(), dtype=p.dtype).reshape(p.shape).cos() + k)).sum()
    return found


#: operators whose gradients end PyTorch's process
CRASHES = {"split_with_sizes"}


def known(lib, path):
    """The function of that name, or method of tensors; None where there is none."""
    function = lib
    for part in path.split("."):
        function = getattr(function, part, None) or getattr(lib.Tensor, part, None)
    return function


def called(lib, path, args, kwargs):
    """(the answer of a function, the gradients of what is made of it)."""
    function = known(lib, path)
    if function is None:
        return "no such name", None
    shared, kept = {}, []

    def compute():
        given = rebuilt(lib, ("list", args), shared), {k: rebuilt(lib, v, shared) for k, v in kwargs.items()}
        result = function(*given[0], **given[1])
        kept.append((leaves(lib, [*given[0], *given[1].values()]), result))
        return result

    def gradients():
        inputs, result = kept[0]
        loss = weighed(lib, result)
        if isinstance(loss, int) or not inputs:
            return None
        return [x.detach() if x is not None and x.layout != lib.jagged else x
                for x in lib.autograd.grad(loss, inputs, allow_unused=True)]

    found = answer(lib, compute)
    return found, answer(lib, gradients) if kept and path not in CRASHES else None


# --- questions --------------------------------------------------------------------------------------------------------

def things(lib):
    """The names that questions are asked about."""
    nested, t = lib.nested, lib.tensor
    a, b, c = (t(np.arange(n * 4, dtype=np.float32).reshape(n, 4) / 7 - 1) for n in (2, 3, 1))
    offsets = t(np.array([0, 2, 5, 6]))
    values = t(np.arange(24, dtype=np.float32).reshape(6, 4) / 5 - 2)
    x = nested.nested_tensor_from_jagged(values, offsets)
    z = nested.nested_tensor_from_jagged(values.cos(), offsets)
    h = nested.nested_tensor_from_jagged(values, t(np.array([0, 3, 6])), t(np.array([2, 1])))
    heads = nested.nested_tensor_from_jagged(values.reshape(6, 2, 2), offsets)
    return {"torch": lib, "nested": nested, "F": lib.nn.functional, "a": a, "b": b, "c": c, "x": x, "z": z, "h": h,
            "t": x.transpose(1, 2), "q": heads.transpose(1, 2), "heads": heads, "offsets": offsets, "values": values,
            "s": nested.nested_tensor([a, b, c]), "s2": nested.nested_tensor([a, b[:, :3], c[:, :2]]),
            "s3": nested.nested_tensor([a * 2, b * 2, c * 2]), "dense": values.reshape(2, 3, 4),
            "w": values[:5], "v": values[0], "i": nested.nested_tensor_from_jagged(t(np.arange(6)), offsets),
            "j": x.shape[1], "tensor": lambda *n: t(np.array(n)), "B": True}


QUESTIONS = """
x.dim() | x.numel() | x.size(0) | x.size(2) | x.is_contiguous() | t.is_contiguous() | h.is_contiguous() | len(x)
x._min_seqlen | x._max_seqlen | h._max_seqlen | h.numel() | x.offsets() | h.lengths() | x.lengths() | x.values()
t.values() | j == j | j == 5 | j >= 2 | j > 1 | j < 1 | j < 5 | repr(j)[0] | x.shape == z.shape | x.shape == h.shape
x.stride()[1:] | x + z | x - 1 | 2 / x | x * z | x ** 2 | -x | abs(x) | x > z | x == z | x + h | x + t | t * t | x + v
v * x | x + s | x % 2 | x + dense[:1, :1] | x * dense[:1] | x.double() | x.half() | x.long() | x.bool()
x.to(torch.float64) | x.type(torch.int32) | torch.where(x > 0, x, z) | torch.where(x > 0, x, 0.)
x.masked_fill(x > 0, 9.) | x.clamp(-1, 1) | torch.maximum(x, z) | F.relu(x) | F.gelu(x) | F.silu(x) | F.dropout(x, 0.)
F.dropout(x, 0.5, False) | F.softplus(x) | F.elu(x) | F.leaky_relu(x) | x.softmax(-1) | x.softmax(1) | x.softmax(0)
x.log_softmax(-1) | t.softmax(1) | t.softmax(2) | x.sum() | x.sum(1) | x.sum(-1) | x.sum(-1, keepdim=True)
x.sum(1, keepdim=True) | x.sum((0, 1)) | x.sum((0, 1, 2)) | x.sum(0) | x.mean() | x.mean(1) | x.mean(-1) | x.amax(1)
x.amin(-1) | x.max() | x.min() | x.max(1) | x.min(-1) | x.argmax(1) | x.argmin(-1) | x.prod(1) | x.prod(-1)
(x > 0).any() | (x > 0).all() | (x > 0).any(1) | (x > 0).all(-1) | t.sum(2) | t.sum(1) | x.unbind() | h.unbind()
t.unbind() | x[0] | x[-1] | x[1, 2] | x[..., 0] | x.select(0, 1) | x.select(2, 1) | x[3] | x.unbind(1)
x.transpose(1, 2) | x.transpose(0, 1) | x.permute(0, 2, 1) | x.mT | x.unsqueeze(1) | x.unsqueeze(-1) | x.unsqueeze(0)
x.unsqueeze(-1).squeeze(-1) | x.squeeze(1) | x.view(3, -1, 2, 2) | x.reshape(3, -1, 2, 2) | x.reshape(3, j, 4)
x.view(x.shape) | x.view(3, 2, 4) | x.view(-1, -1, 4) | x.unflatten(-1, [2, 2]) | heads.flatten(2) | x.flatten()
heads.flatten(1) | x.view(2, -1, 2) | x.expand(3, -1, 4) | x.unsqueeze(1).expand(3, 2, -1, 4) | x.expand_as(z)
x.chunk(2, -1) | x.chunk(2) | x.split(2, -1) | x.split([1, 3], -1) | x.narrow(2, 1, 2) | torch.cat([x, z], -1)
torch.stack([x, z], -1) | torch.cat([x, x], 2) | torch.stack([x, z]) | x.clone() | h.clone() | h.contiguous()
x.contiguous() | t.contiguous() | x.detach() | x.clone().fill_(2) | x.clone().zero_() | x.clone().add_(1)
x.clone().mul_(z) | x.clone().copy_(z) | x.clone().exp_() | torch.zeros_like(x) | torch.ones_like(x)
torch.full_like(x, 3.) | torch.zeros_like(x, dtype=torch.int64) | torch.empty_like(x).shape[0] | x.new_zeros(())
x.is_floating_point() | F.linear(x, w) | F.linear(x, w, w[:, 0]) | F.linear(t, w) | x @ w.T | x @ values[:4]
x @ dense.mT[:1] | torch.matmul(x, v) | x.bmm(torch.ones(3, 4, 2)) | x @ torch.ones(3, 4, 2) | torch.ones(3, 5, 4) @ t
t @ z | x @ t | F.layer_norm(x, (4,)) | F.layer_norm(x, (4,), v, v) | F.rms_norm(x, (4,)) | F.embedding(i, values)
F.embedding(i, values, 1) | F.embedding_bag(i, values) | F.embedding_bag(i, values, mode='sum') | F.one_hot(i, 6)
F.scaled_dot_product_attention(q, q, q) | F.scaled_dot_product_attention(q, q, q, is_causal=True)
F.scaled_dot_product_attention(q, q, q, scale=.3) | F.scaled_dot_product_attention(q, q, q).transpose(1, 2).flatten(2)
x.to_padded_tensor(0.) | x.to_padded_tensor(2., (3, 5, 4)) | t.to_padded_tensor(-1.)
nested.to_padded_tensor(x, 0., (3, 2, 4)) | torch.is_same_size(x, z)
x.index_put((tensor(0, 1), tensor(1, 2)), tensor(5.)) | x.index_put((tensor(0, 1), tensor(1, 2)), tensor(5.)).values()
i.masked_select(i > 2) | i.masked_select(i > 2).offsets() | x.T | s.dim() | s.numel() | s.size(0) | s.size(1)
s.size(2) | s.size(-1) | s2.size(2) | s.size() | s.is_contiguous() | s.stride() | s.values() | s._nested_tensor_size()
s._nested_tensor_strides() | s._nested_tensor_storage_offsets() | s2._nested_tensor_size()
s.transpose(1, 2).is_contiguous() | s.transpose(1, 2)._nested_tensor_strides() | s.transpose(1, 2)
s2.transpose(1, 2) | s2.transpose(1, 2).contiguous() | s.transpose(0, 1) | s + s3 | s - s3 | s * s3 | s / 2 | s + 1
-s | s.abs() | s > 0 | s.eq(0) | s + s2 | s2 * 2 | s.sqrt() | s.sin() | s.cos() | s.logical_not() | s.clone().add_(s3)
s.clone().mul_(2) | s.clone().sub_(s3) | s.clone().zero_() | s.clone().fill_(3.) | s.clone().copy_(s3)
s.sum(-1, keepdim=True) | s2.sum(-1, keepdim=True) | s.softmax(-1) | s.softmax(1) | s2.softmax(1) | s2.softmax(-1)
s.softmax(0) | F.relu(s) | F.gelu(s) | F.silu(s) | F.tanh(s) | torch.tanh(s2) | F.dropout(s, 0.)
torch.dropout(s, 0., True) | F.selu(s) | s.sgn() | F.linear(s, w) | F.linear(s, w, w[:, 0])
F.layer_norm(s, (4,), v, v) | s.matmul(s.transpose(1, 2)) | s2.matmul(s2.transpose(1, 2)) | s.bmm(s.transpose(1, 2))
s.bmm(torch.ones(3, 4, 2)) | s.unbind() | s2.unbind() | s[0] | s[-1] | s[1, 2] | s[2, 0, 1] | s[..., 1] | s2[..., 1]
s[4] | s.select(0, 1) | s.select(2, 1) | s.unsqueeze(1) | s.unsqueeze(-1) | s.unsqueeze(0)
s.unsqueeze(-1).squeeze(-1) | s.squeeze(0) | s.view(3, -1, 2, 2) | s.reshape(3, -1, 2, 2) | s.reshape(3, -1, 4)
s.reshape(-1) | s.reshape(2, -1, 2) | s.chunk(2, -1) | s.split([1, 3], -1) | s.split_with_sizes([2, 2], -1)
s.narrow(0, 1, 2) | s.narrow(0, 0, 1) | s.clone() | s.transpose(1, 2).clone() | s.contiguous() | s.detach()
s.double() | s.half() | s.to(torch.int64) | torch.zeros_like(s) | torch.ones_like(s) | torch.empty_like(s).dim()
torch.zeros_like(s2, dtype=torch.int32) | s.masked_fill(s > 0, 0.)
F.embedding(nested.nested_tensor([tensor(1, 2), tensor(0)]), values) | s.to_padded_tensor(0.)
s2.to_padded_tensor(-1.) | s.to_padded_tensor(0., (3, 4, 5)) | s.to_padded_tensor(0., (3, 2, 4))
s.to_padded_tensor(0., (2, 4)) | nested.nested_tensor([]).numel() | nested.nested_tensor([]).size(0)
nested.nested_tensor([]).dim() | nested.nested_tensor([1., 2.]) | nested.nested_tensor([[1, 2], [3]])
nested.nested_tensor([a, v]) | nested.nested_tensor(5) | nested.nested_tensor(a)
nested.nested_tensor([a, b], dtype=torch.float64)
nested.nested_tensor([[1, 2], [3]], layout=torch.jagged, dtype=torch.float32)
nested.nested_tensor([], layout=torch.jagged) | nested.nested_tensor([a, v], layout=torch.jagged)
nested.nested_tensor([a, b[:, :3]], layout=torch.jagged) | nested.nested_tensor([a, a[:, :3]], layout=torch.jagged)
nested.nested_tensor([a, b.long()], layout=torch.jagged) | nested.nested_tensor([a, b.long()])
nested.nested_tensor(dense, layout=torch.jagged) | nested.as_nested_tensor(dense)
nested.as_nested_tensor(dense, layout=torch.jagged) | nested.as_nested_tensor([a, b])
nested.as_nested_tensor((a, b), layout=torch.jagged) | nested.as_nested_tensor([1, 2]) | nested.as_nested_tensor(x)
nested.as_nested_tensor(v) | nested.as_nested_tensor(x, layout=torch.jagged) is x
nested.as_nested_tensor([a, b], dtype=torch.float64) | nested.nested_tensor([a], layout=torch.sparse_coo)
nested.nested_tensor([a.long()], requires_grad=True) | nested.nested_tensor_from_jagged(values)
nested.nested_tensor_from_jagged(values, lengths=tensor(1, 2, 3))
nested.nested_tensor_from_jagged(values, lengths=tensor(1, 2, 3)).offsets()
nested.nested_tensor_from_jagged(values.T, offsets, jagged_dim=2)
nested.nested_tensor_from_jagged(values, offsets, jagged_dim=3)
nested.nested_tensor_from_jagged(values, tensor([0, 2])) | nested.nested_tensor_from_jagged(x, offsets)
nested.nested_tensor_from_jagged(values, offsets.int()) | nested.nested_tensor_from_jagged([1], offsets)
nested.narrow(values, 1, tensor(0, 1, 2, 0, 1, 1), tensor(1, 2, 1, 4, 0, 2), layout=torch.jagged)
nested.narrow(values, 1, 1, tensor(1, 2, 1, 3, 0, 2), layout=torch.jagged)
nested.narrow(values, 1, 0, 2, layout=torch.jagged) | nested.narrow(values, 0, 0, 2, layout=torch.jagged)
nested.narrow(values, 1, tensor(0, 1, 2, 0, 1, 1), tensor(1, 2, 1, 4, 0, 2))
nested.masked_select(values, values > 0) | nested.masked_select(values, v > -1.5)
nested.masked_select(values, values > 0).offsets() | nested.to_padded_tensor(a, 0.)
torch._nested_tensor_from_mask(dense, tensor([True, True, False], [True, False, False]))
torch._nested_tensor_from_mask_left_aligned(dense, tensor([True, True, False], [True, False, False]))
torch._nested_tensor_from_mask(dense, tensor([False, True, False], [True, False, False]))
torch._nested_from_padded(dense, tensor([2, 4], [1, 4]))
torch._nested_view_from_buffer(v, tensor([1], [3]), tensor([1], [1]), tensor(0, 1))
torch._nested_compute_contiguous_strides_offsets(tensor([2, 3], [3, 3])) | bool(x) | x.item() | x.numpy() | x.tolist()
s.tolist() | iter(x) is None | [p.shape[0] for p in x] | [p.shape[0] for p in s] | repr(s) | repr(s2.transpose(1, 2))
repr(s.half())
"""


def own_answers(lib):
    """{question: answer}"""
    found = {}
    for line in QUESTIONS.replace("\n", " | ").split(" | "):
        if line and line not in found:
            names = things(lib)
            found[line] = answer(lib, lambda line=line, names=names: eval(line, names))
    return found


def sampled(torch):
    """PyTorch's nested samples as data: (operator, sample's name, path, args, kwargs, answer, gradients)."""
    from torch.testing._internal.opinfo.definitions.nested import njt_op_db

    for op in njt_op_db:
        if not op.supports_njt or torch.float32 not in op.dtypes or not known(torch, op.name):
            continue
        torch.manual_seed(0)
        try:
            samples = list(op.sample_inputs("cpu", torch.float32, requires_grad=op.supports_autograd))
        except Exception:
            continue
        for number, sample in enumerate(samples):
            shared = {}
            args = [plain(torch, v, shared) for v in (sample.input, *sample.args)]
            kwargs = {k: plain(torch, v, shared) for k, v in sample.kwargs.items()}
            yield (op.full_name, f"{sample.name} {number}", op.name, args, kwargs,
                   *called(torch, op.name, args, kwargs))


if __name__ == "__main__":
    import torch

    with warnings.catch_warnings(), open(sys.argv[1], "wb") as out:
        warnings.simplefilter("ignore")
        pickle.dump({"own": own_answers(torch), "samples": list(sampled(torch))}, out)
