"""What modules do beyond their numbers: hooks, state dicts, parametrizations, pruning, fusing; run in either library.

Each function takes the library and returns plain data (arrays, strings, lists). Run as a script, with PyTorch, it
writes {name: result} to a file.
"""

import copy
import importlib
import io
import pickle
import sys
import warnings
from collections import OrderedDict

import numpy as np


def plain(torch, x):
    """`x` with arrays for tensors."""
    if isinstance(x, torch.Tensor):
        return x.detach().numpy().copy()
    if isinstance(x, dict):
        return {k: plain(torch, v) for k, v in x.items()}
    if isinstance(x, (list, tuple)):
        return [plain(torch, v) for v in x]
    if isinstance(x, (np.ndarray, str, int, float, bool, bytes, type(None))):
        return x
    return repr(x)


def refusal(call, *args, **kwargs):
    """The type of what `call` raises."""
    try:
        call(*args, **kwargs)
    except Exception as error:
        return type(error).__name__
    return "nothing"


def images(torch, *shape):
    return (torch.arange(float(np.prod(shape))).reshape(shape) * 1.7).sin()


# ---- parametrize ----------------------------------------------------------------------------------------------------


def symmetric(torch):
    class Symmetric(torch.nn.Module):
        def forward(self, x):
            return x.triu() + x.triu(1).T

        def right_inverse(self, a):
            return a.triu()

    return Symmetric()


def doubled(torch):
    class Doubled(torch.nn.Module):
        def forward(self, x):
            return 2 * x

    return Doubled()


def rank_one(torch):
    class RankOne(torch.nn.Module):
        def forward(self, x, y):
            return x.unsqueeze(-1) @ y.unsqueeze(-2)

        def right_inverse(self, z):
            return z[:, 0].clone(), z[0].clone()

    return RankOne()


def parametrization(torch):
    P = torch.nn.utils.parametrize
    m = torch.nn.Linear(3, 3)
    first = m.weight
    P.register_parametrization(m, "weight", symmetric(torch))
    yield m, list(m.state_dict()), m.weight, m.parametrizations.weight.original is first, P.is_parametrized(m)
    value = torch.eye(3) * 3 + 1
    m.weight = value
    yield m.weight, first, P.type_before_parametrizations(m).__name__
    m(images(torch, 2, 3)).sum().backward()
    yield first.grad
    P.register_parametrization(m, "weight", doubled(torch))
    yield m, m.weight, refusal(setattr, m, "weight", value)
    P.register_parametrization(m, "bias", doubled(torch))
    yield list(m.state_dict()), P.is_parametrized(m, "bias"), P.is_parametrized(m, "other")
    clone = copy.deepcopy(m)
    yield clone, clone.weight, refusal(pickle.dumps, m)
    with P.cached():
        yield m.weight is m.weight
    yield m.weight is m.weight
    P.remove_parametrizations(m, "bias", leave_parametrized=False)
    P.remove_parametrizations(m, "weight")
    yield m, type(m).__name__, m.weight, m.weight is first, list(m.state_dict()), m.bias


def parametrization_of_several(torch):
    P = torch.nn.utils.parametrize
    m = torch.nn.Linear(3, 4)
    P.register_parametrization(m, "weight", rank_one(torch))
    yield list(m.state_dict()), m.weight, [tuple(p.shape) for p in m.parameters()]
    yield refusal(P.remove_parametrizations, m, "weight", leave_parametrized=False)
    other = torch.nn.Linear(3, 4)
    P.transfer_parametrizations_and_params(m, other)
    yield other, other.weight, list(other.state_dict())
    P.remove_parametrizations(m, "weight")
    yield m, m.weight, [n for n, _ in m.named_parameters()]


def parametrization_refused(torch):
    P = torch.nn.utils.parametrize

    class Shorter(torch.nn.Module):
        def forward(self, x):
            return x[:1]

    class Text(torch.nn.Module):
        def forward(self, x):
            return "x"

    m = torch.nn.Linear(3, 3)
    yield refusal(P.register_parametrization, m, "weights", Shorter())
    yield refusal(P.register_parametrization, m, "weight", Shorter())
    yield refusal(P.register_parametrization, m, "weight", Text())
    yield refusal(P.remove_parametrizations, m, "weight")
    P.register_parametrization(m, "weight", Shorter(), unsafe=True)
    yield m.weight, refusal(P.register_parametrization, m, "weight", Text())
    b = torch.nn.BatchNorm1d(3)
    P.register_parametrization(b, "running_var", doubled(torch))
    yield b.running_var, list(b.state_dict()), [n for n, _ in b.named_buffers()]


def weight_and_spectral_norm(torch):
    N = torch.nn.utils.parametrizations
    for layer, dim in ((torch.nn.Linear(3, 4), 0), (torch.nn.Conv2d(2, 3, 2), 1), (torch.nn.Linear(3, 4), None)):
        N.weight_norm(layer, dim=dim)
        yield layer, dict(layer.state_dict()), layer.weight
    older = {"weight_g": torch.ones(4, 1), "weight_v": images(torch, 4, 3), "bias": torch.zeros(4)}
    layer = N.weight_norm(torch.nn.Linear(3, 4))
    yield layer.load_state_dict(older), layer.weight
    for layer in (torch.nn.Linear(3, 4), torch.nn.ConvTranspose2d(2, 3, 2)):
        N.spectral_norm(layer, n_power_iterations=2)
        yield layer, dict(layer.state_dict()), layer.weight, layer.weight
        layer.eval()
        yield layer.weight, layer.weight
    layer = torch.nn.LayerNorm(4)
    N.spectral_norm(layer)
    yield layer.weight, refusal(N.spectral_norm, torch.nn.Linear(2, 2), "w"), refusal(
        N.spectral_norm, torch.nn.Linear(2, 2), dim=3)
    yield refusal(N.spectral_norm, torch.nn.Linear(2, 2), n_power_iterations=0)


def orthogonal(torch):
    N = torch.nn.utils.parametrizations
    for shape in ((3, 3), (4, 3), (3, 5)):
        for how in ("matrix_exp", "cayley", "householder", None):
            for base in (True, False):
                torch.manual_seed(0)
                layer = torch.nn.Linear(*shape)
                N.orthogonal(layer, orthogonal_map=how, use_trivialization=base)
                yield layer.weight, layer.parametrizations.weight.original, list(layer.state_dict())
                layer(images(torch, 2, shape[0])).square().sum().backward()
                yield layer.parametrizations.weight.original.grad
    yield refusal(N.orthogonal, torch.nn.Linear(2, 2), "bias"), refusal(
        N.orthogonal, torch.nn.Linear(2, 2), orthogonal_map="qr")


# ---- prune ----------------------------------------------------------------------------------------------------------


def pruning(torch):
    P = torch.nn.utils.prune = importlib.import_module(torch.__name__ + ".nn.utils.prune")
    m = torch.nn.Linear(4, 3)
    P.l1_unstructured(m, "weight", amount=0.4)
    yield dict(m.state_dict()), m.weight, P.is_pruned(m), [n for n, _ in m.named_parameters()]
    P.random_unstructured(m, "weight", amount=2)
    yield m.weight_mask, len(m._forward_pre_hooks)
    P.ln_structured(m, "weight", amount=1, n=2, dim=0)
    yield m.weight_mask
    P.random_structured(m, "weight", amount=1, dim=1)
    yield m.weight_mask
    m(images(torch, 2, 4)).sum().backward()
    yield m.weight_orig.grad
    P.remove(m, "weight")
    yield dict(m.state_dict()), P.is_pruned(m), isinstance(m.weight, torch.nn.Parameter)
    P.identity(m, "bias")
    P.custom_from_mask(m, "bias", torch.tensor([1, 0, 1]))
    yield dict(m.state_dict()), refusal(P.remove, m, "weight"), P.is_pruned(torch.nn.Sequential(m))
    conv = torch.nn.Conv2d(3, 4, 2)
    P.ln_structured(conv, "weight", 0.5, 1, 1)
    yield conv.weight_mask
    layers = [torch.nn.Linear(3, 4), torch.nn.Linear(4, 2)]
    P.global_unstructured([(x, "weight") for x in layers], P.L1Unstructured, amount=9)
    yield [x.weight_mask for x in layers]
    P.global_unstructured([(x, "weight") for x in layers], P.RandomUnstructured, amount=0.3)
    yield [x.weight_mask for x in layers]
    scores = {(layers[0], "bias"): torch.tensor([4.0, 1.0, 2.0, 3.0])}
    P.global_unstructured([(x, "bias") for x in layers], P.L1Unstructured, scores, amount=2)
    yield [x.bias for x in layers]


def pruning_refused(torch):
    P = importlib.import_module(torch.__name__ + ".nn.utils.prune")
    m = torch.nn.Linear(4, 3)
    for amount in (-1, 1.5, "x", 100):
        yield refusal(P.l1_unstructured, m, "weight", amount)
    yield refusal(P.ln_structured, m, "bias", 0.5, 2, 0), refusal(P.ln_structured, m, "weight", 0.5, 2, 5)
    yield refusal(P.custom_from_mask, m, "weight", torch.ones(2, 2))
    yield refusal(P.l1_unstructured, m, "weight", 1, importance_scores=torch.ones(2, 2))
    yield refusal(P.global_unstructured, [(m, "weight")], P.LnStructured, amount=1, n=1)
    yield sorted(m.state_dict()), refusal(P.BasePruningMethod)
    yield P.L1Unstructured(2).prune(torch.tensor([3.0, -1.0, 2.0, 0.5]))


# ---- hooks ----------------------------------------------------------------------------------------------------------


def hook_order(torch):
    nn, seen = torch.nn, []
    everywhere = nn.modules.module

    def note(name, result=None):
        def hook(*args, **kwargs):
            seen.append(f"{name} {len(args)}")
            return result

        return hook

    m = nn.Linear(3, 2)
    handles = [
        everywhere.register_module_forward_pre_hook(note("all before")),
        everywhere.register_module_forward_hook(note("all after")),
        everywhere.register_module_forward_hook(note("all after kwargs"), with_kwargs=True),
        everywhere.register_module_full_backward_pre_hook(note("all backward before")),
        everywhere.register_module_full_backward_hook(note("all backward after")),
        m.register_forward_pre_hook(note("before")),
        m.register_forward_pre_hook(note("before first"), prepend=True),
        m.register_forward_pre_hook(note("before kwargs"), with_kwargs=True),
        m.register_forward_hook(note("after")),
        m.register_forward_hook(note("after first"), prepend=True),
        m.register_forward_hook(note("after kwargs"), with_kwargs=True),
        m.register_forward_hook(note("after always"), always_call=True),
        m.register_full_backward_pre_hook(note("backward before")),
        m.register_full_backward_hook(note("backward after")),
        m.register_full_backward_pre_hook(note("backward before first"), prepend=True),
        m.register_full_backward_hook(note("backward after first"), prepend=True),
    ]
    m(images(torch, 2, 3).requires_grad_()).sum().backward()
    yield list(seen)
    seen.clear()
    yield refusal(m, images(torch, 2, 4)), list(seen)
    for handle in handles:
        handle.remove()
    seen.clear()
    m(images(torch, 2, 3))
    yield list(seen)


def hooks_that_replace(torch):
    m = torch.nn.Linear(3, 2)
    m.register_forward_pre_hook(lambda m, args: args[0] * 2)
    m.register_forward_pre_hook(lambda m, args, kwargs: ((args[0] + 1,), kwargs), with_kwargs=True)
    m.register_forward_hook(lambda m, args, out: out * 3)
    m.register_full_backward_pre_hook(lambda m, g: (g[0] * 5,))
    m.register_full_backward_hook(lambda m, gi, go: (gi[0] * 7,))
    x = images(torch, 2, 3).requires_grad_()
    y = m(x)
    y.sum().backward()
    yield y, x.grad, m.weight.grad
    grads = []
    m = torch.nn.Bilinear(2, 2, 1)
    m.register_full_backward_hook(lambda m, gi, go: grads.append((gi, go)))
    m(torch.ones(1, 2), torch.ones(1, 2).requires_grad_()).backward()
    yield grads


def registration_hooks(torch):
    everywhere, seen = torch.nn.modules.module, []
    handles = [getattr(everywhere, f"register_module_{kind}_registration_hook")(
        lambda m, name, value, kind=kind: seen.append((kind, type(m).__name__, name)))
        for kind in ("parameter", "buffer", "module")]  # fmt: skip
    torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2))
    for handle in handles:
        handle.remove()
    torch.nn.Linear(2, 2)
    return seen


def state_dict_hooks(torch):
    seen = []
    m = torch.nn.Sequential(OrderedDict(a=torch.nn.Linear(2, 2), b=torch.nn.BatchNorm1d(2)))
    m.a.register_state_dict_pre_hook(lambda m, prefix, keep: seen.append(("pre", prefix, keep)))
    m.a.register_state_dict_post_hook(lambda m, state, prefix, meta: state.update({prefix + "more": 1}))
    state = m.state_dict()
    yield list(state), dict(state._metadata)
    m.a.register_load_state_dict_pre_hook(
        lambda m, state, prefix, meta, strict, missing, unexpected, errors: state.pop(prefix + "more"))
    m.register_load_state_dict_post_hook(lambda m, keys: seen.append(("post", list(keys.missing_keys))))
    yield m.load_state_dict(state), seen
    yield m.load_state_dict({"a.more": 1, "x": 2}, strict=False), refusal(m.load_state_dict, {})
    m.a.register_state_dict_post_hook(lambda m, state, prefix, meta: state)
    yield refusal(m.state_dict)


def loading(torch):
    m = torch.nn.Linear(2, 2)
    weight, state = m.weight, {"weight": torch.ones(2, 2), "bias": torch.zeros(2).double()}
    m.load_state_dict(state)
    yield m.weight is weight, m.bias.dtype, m.weight
    m.load_state_dict(state, assign=True)
    yield m.weight is weight, m.bias.dtype, type(m.weight).__name__, m.weight.requires_grad
    meta = torch.nn.Linear(2, 2, device="meta")
    meta.load_state_dict({k: v.clone() for k, v in state.items()}, assign=True)
    yield meta.weight, meta.weight.device.type
    yield refusal(m.load_state_dict, {"weight": torch.ones(3, 2), "bias": torch.zeros(2)})
    yield refusal(m.load_state_dict, [1]), refusal(m.load_state_dict, {"weight": 3, "bias": torch.zeros(2)})

    class Extra(torch.nn.Module):
        def get_extra_state(self):
            return {"a": 1}

        def set_extra_state(self, state):
            self.got = state

    e = torch.nn.Sequential(Extra(), torch.nn.Linear(1, 1))
    yield list(e.state_dict()), e.load_state_dict(e.state_dict()), e[0].got
    yield refusal(torch.nn.Linear(1, 1).get_extra_state)


# ---- losses ---------------------------------------------------------------------------------------------------------


def answer(call, *args, **kwargs):
    """What a call gives, or the type of what it raises."""
    try:
        return call(*args, **kwargs)
    except Exception as error:
        return type(error).__name__


def loss_arguments(torch):
    """(name, arguments that fit) of every loss."""
    x, y, u = images(torch, 3, 4), images(torch, 3, 4) * 0.5 + 0.1, images(torch, 3, 4) * 0.4 + 0.5
    sign, label = torch.tensor([1.0, -1.0, 1.0]), torch.tensor([1, 3, 0])
    many = torch.tensor([[1, 3, -1, 0], [0, -1, 2, 2], [3, 2, 1, 0]])
    return [
        ("l1_loss", (x, y)), ("mse_loss", (x, y)), ("smooth_l1_loss", (x, y)), ("huber_loss", (x, y)),
        ("soft_margin_loss", (x, y.sign())), ("kl_div", (x, u)), ("poisson_nll_loss", (x, u)),
        ("gaussian_nll_loss", (x, y, u)), ("binary_cross_entropy", (u, u)),
        ("binary_cross_entropy_with_logits", (x, u)), ("cross_entropy", (x, label)), ("cross_entropy", (x, u)),
        ("nll_loss", (x, label)), ("multi_margin_loss", (x, label)), ("multilabel_margin_loss", (x, many)),
        ("multilabel_soft_margin_loss", (x, u.round())), ("hinge_embedding_loss", (x, y.sign())),
        ("cosine_embedding_loss", (x, y, sign)), ("margin_ranking_loss", (x, y, y.sign())),
        ("triplet_margin_loss", (x, y, u)), ("triplet_margin_with_distance_loss", (x, y, u)),
    ]  # fmt: skip


def loss_forms(torch):
    F = torch.nn.functional
    for name, args in loss_arguments(torch):
        call = getattr(F, name)
        for reduction in ("none", "mean", "sum", "batchmean", "median"):
            yield name, reduction, answer(call, *args, reduction=reduction)
        for flags in ({"size_average": False}, {"reduce": False}, {"size_average": True, "reduce": True},
                      {"size_average": False, "reduce": True}):
            yield name, str(flags), answer(call, *args, **flags)
        yield name, "double", answer(call, *(t.double() if t.is_floating_point() else t for t in args))


def loss_refusals(torch):
    F = torch.nn.functional
    for name, args in loss_arguments(torch):
        call, (first, second, *rest) = getattr(F, name), args
        yield name, answer(call, first, second[:2], *rest), answer(call, first[:2], second, *rest), answer(call)
        yield name, answer(call, first[0], second[0], *(t[0] for t in rest))
    x, label = images(torch, 3, 4), torch.tensor([1, 3, 0])
    for name in ("cross_entropy", "nll_loss", "multi_margin_loss"):
        call = getattr(F, name)
        yield name, answer(call, x, label + 2), answer(call, x, label - 1), answer(call, x, label, weight=torch.ones(3))
        yield name, answer(call, x, label, weight=torch.arange(4.0))
    yield answer(F.cross_entropy, x, label, label_smoothing=1.5), answer(F.cross_entropy, x, label, ignore_index=3)
    yield answer(F.cross_entropy, x, x, ignore_index=1), answer(F.nll_loss, x, label, ignore_index=0, reduction="none")
    yield answer(F.binary_cross_entropy, x, x), answer(F.binary_cross_entropy, x.sigmoid(), x.sigmoid(), torch.ones(5))
    yield answer(F.binary_cross_entropy_with_logits, x, x.sigmoid(), pos_weight=torch.ones(3))
    yield answer(F.smooth_l1_loss, x, x + 1, beta=-1.0), answer(F.smooth_l1_loss, x, x + 1, beta=0.0)
    yield answer(F.huber_loss, x, x + 1, delta=0.0), answer(F.huber_loss, x, x + 1, delta=-1.0)
    yield answer(F.huber_loss, x, x * 2, weight=torch.ones(3, 4)), answer(F.mse_loss, x, x * 2, weight=torch.ones(4))
    yield answer(F.l1_loss, x, x * 2, weight=torch.ones(3, 4)), answer(F.smooth_l1_loss, x, x, weight=torch.ones(3, 4))
    yield answer(F.triplet_margin_loss, x, x, x, margin=-1.0), answer(F.triplet_margin_loss, x, x[0], x[0])
    yield answer(F.multi_margin_loss, x, label, p=3), answer(F.cosine_embedding_loss, x, x, label[:2])
    yield answer(F.gaussian_nll_loss, x, x, -x.abs()), answer(F.gaussian_nll_loss, x, x, torch.ones(2))
    yield answer(F.margin_ranking_loss, x, x[0], label), answer(F.hinge_embedding_loss, x, label)
    yield answer(F.soft_margin_loss, x, x > 0)
    log, targets = x.log_softmax(1).unsqueeze(1), torch.tensor([[1, 2]])
    for lengths in (((3,), (2,)), ((4,), (2,)), ((3,), (3,)), ((3, 3), (2,)), ((3,), (0,)), ((2.0,), (2,)), (3, 2)):
        yield answer(F.ctc_loss, log, targets, *lengths), answer(F.ctc_loss, log, targets, *lengths, blank=4)
    yield answer(F.ctc_loss, log, targets.float(), (3,), (2,)), answer(F.ctc_loss, log.long(), targets, (3,), (2,))
    yield answer(F.ctc_loss, log, targets, torch.tensor([3]), torch.tensor([2]), reduction="none")
    yield answer(F.ctc_loss, log[:, 0], targets[0], torch.tensor(3), torch.tensor(2), reduction="sum")


# ---- attention -----------------------------------------------------------------------------------------------------


def attention_backends(torch):
    attention, F = importlib.import_module(torch.__name__ + ".nn.attention"), torch.nn.functional
    x = images(torch, 1, 2, 3, 4)
    kinds = attention.SDPBackend
    yield [int(getattr(kinds, n)) for n in ("ERROR", "MATH", "FLASH_ATTENTION", "EFFICIENT_ATTENTION")]
    for kind in (kinds.MATH, [kinds.MATH, kinds.FLASH_ATTENTION]):
        with attention.sdpa_kernel(kind):
            yield F.scaled_dot_product_attention(x, x, x)
    with attention.sdpa_kernel([kinds.EFFICIENT_ATTENTION]):
        yield refusal(F.scaled_dot_product_attention, x, x, x)
    yield refusal(attention.sdpa_kernel("math").__enter__), F.scaled_dot_product_attention(x, x, x)


def causal_biases(torch):
    bias, F = importlib.import_module(torch.__name__ + ".nn.attention.bias"), torch.nn.functional
    for make in (bias.causal_upper_left, bias.causal_lower_right):
        b = make(3, 5)
        q, k = images(torch, 1, 2, 3, 8), images(torch, 1, 2, 5, 8)
        yield repr(b), F.scaled_dot_product_attention(q, k, k, b), F.scaled_dot_product_attention(q, k, k, attn_mask=b)
        yield refusal(F.scaled_dot_product_attention, q, k, k, b, is_causal=True), b.variant.name, b.seq_len_kv
    yield refusal(bias.causal_upper_left, 3)


def flexible_attention(torch):
    flex = importlib.import_module(torch.__name__ + ".nn.attention.flex_attention")
    flex._FLEX_ATTENTION_DISABLE_COMPILE_DEBUG = True
    slope, document = torch.tensor([0.5, 0.25]), torch.tensor([0, 0, 0, 1, 1, 2])
    q, k = images(torch, 2, 2, 6, 4), images(torch, 2, 2, 6, 4) + 0.3

    def causal(b, h, q_idx, kv_idx):
        return q_idx >= kv_idx

    def same(b, h, q_idx, kv_idx):
        return document[q_idx] == document[kv_idx]

    mods = (lambda s, b, h, i, j: s + slope[h] * (i - j), lambda s, b, h, i, j: torch.tanh(s / 2) * 2,
            lambda s, b, h, i, j: torch.where(i >= j, s, -float("inf")))
    for mod in mods:
        yield flex.flex_attention(q, k, k, score_mod=mod), flex.create_mask(mod, 1, 2, 3, 4)
    for mod in (causal, same, flex.and_masks(causal, same), flex.or_masks(causal, same), flex.noop_mask):
        yield flex.create_mask(mod, None, 2, 6, 6)
        for size in (2, (4, 3), 128):
            mask = flex.create_block_mask(mod, 2, None, 6, 6, device="cpu", BLOCK_SIZE=size)
            yield mask.to_dense(), str(mask), mask.shape, mask.sparsity(), list(mask.as_tuple()[:10])
            yield flex.flex_attention(q, k, k, mods[1], mask, scale=0.3)
    mask = flex.create_block_mask(causal, 2, 2, 6, 6, device="cpu", BLOCK_SIZE=2)
    yield mask[0].to_dense(), mask[1, 0:1].shape, mask._adjust(4, 5).to_dense(), mask._adjust(4, 5).shape
    aux = flex.AuxRequest(lse=True)
    yield flex.flex_attention(q, k[:, :1], k[:, :1], block_mask=mask, enable_gqa=True, return_aux=aux)
    yield flex.flex_attention(q, k, k, return_lse=True)
    yield refusal(flex.flex_attention, q, k[:, :1], k[:, :1]), refusal(flex.flex_attention, q[0], k[0], k[0])
    yield refusal(flex.flex_attention, q[:, :, :4], k, k, block_mask=mask), refusal(
        flex.flex_attention, q, k, k, block_mask=mask[0])


def attention_forward(torch):
    F = torch.nn.functional
    m = torch.nn.MultiheadAttention(8, 2, add_bias_kv=True)
    x, y = images(torch, 3, 2, 8), images(torch, 4, 2, 8) + 0.2
    weights = (m.in_proj_weight, m.in_proj_bias)
    out = (m.out_proj.weight, m.out_proj.bias)
    none = (None, None)
    for args in ((*none, False), (m.bias_k, m.bias_v, False), (*none, True)):
        for need in (True, False):
            yield F.multi_head_attention_forward(x, y, y, 8, 2, *weights, *args, 0.0, *out, need_weights=need)
    padding = torch.tensor([[False, False, True, False], [False, True, True, False]])
    mask = images(torch, 3, 4)
    yield F.multi_head_attention_forward(x, y, y, 8, 2, *weights, *none, False, 0.0, *out, attn_mask=mask,
                                         key_padding_mask=padding, average_attn_weights=False)
    static = images(torch, 4, 5, 4)
    yield F.multi_head_attention_forward(x, y, y, 8, 2, *weights, *none, False, 0.0, *out, static_k=static,
                                         static_v=static)
    parts = dict(zip(("q_proj_weight", "k_proj_weight", "v_proj_weight"), m.in_proj_weight.chunk(3)))
    yield F.multi_head_attention_forward(x[:, 0], y[:, 0], y[:, 0], 8, 2, None, m.in_proj_bias, *none, False, 0.0,
                                         *out, use_separate_proj_weight=True, **parts)
    for wrong in ((x, y, y, 6, 2), (x, y[:2], y, 8, 2), (x, y[0], y, 8, 2), (x, y, y, 8, 3)):
        yield refusal(F.multi_head_attention_forward, *wrong, *weights, *none, False, 0.0, *out)
    yield refusal(m, x, y, y, attn_mask=mask[:2]), refusal(m, x, y, y, is_causal=True)


# ---- modules as containers ------------------------------------------------------------------------------------------


def conversion(torch):
    nn = torch.nn
    m = nn.Sequential(nn.Conv2d(3, 2, 2), nn.BatchNorm2d(2))
    weight = m[0].weight
    for name, *args in (("double",), ("to", torch.float16), ("bfloat16",), ("float",), ("to", torch.ones(1).double()),
                        ("to", "cpu", torch.float32), ("type", torch.float64)):
        m = getattr(m, name)(*args)
        yield m[0].weight is weight, [str(t.dtype).split(".")[1] for t in m.state_dict().values()]
    m.float().to(memory_format=torch.channels_last)
    yield m[0].weight.stride(), m[0].weight is weight
    yield refusal(m.to, torch.int64), refusal(m.to, 1, 2, 3)
    yield [p.device.type for p in m.to_empty(device="meta").parameters()]
    yield refusal(nn.Linear(2, 2, device="meta").to, "cpu")
    u = torch.nn.utils
    c = u.convert_conv2d_weight_memory_format(nn.Sequential(nn.Conv2d(3, 2, 2), nn.Linear(2, 2)), torch.channels_last)
    yield c[0].weight.stride(), c[1].weight.stride()
    yield u.skip_init(nn.Linear, 3, 2), refusal(u.skip_init, nn.ReLU)


def buffers(torch):
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.a = torch.nn.Buffer(torch.ones(2))
            self.b = torch.nn.Buffer(torch.zeros(2), persistent=False)
            self.register_buffer("c", None)

    m = Net()
    yield list(m.state_dict()), [n for n, _ in m.named_buffers()], isinstance(m.a, torch.nn.Buffer)
    m.a = torch.full((2,), 3.0)
    m.c = torch.ones(1)
    yield dict(m.state_dict()), refusal(setattr, m, "a", 3), type(m.a).__name__
    yield repr(m.a), refusal(m.register_buffer, "x.y", None), refusal(m.register_buffer, "a.b", 1)


def lazy(torch):
    nn = torch.nn
    for make, shape in ((lambda: nn.LazyLinear(3), (2, 4)), (lambda: nn.LazyConv2d(4, 2, groups=2), (2, 4, 5, 5)),
                        (lambda: nn.LazyConvTranspose1d(3, 2), (2, 4, 5)), (lambda: nn.LazyBatchNorm1d(), (4, 3)),
                        (lambda: nn.LazyInstanceNorm2d(), (4, 3, 2, 2))):
        m = make()
        yield m, m.has_uninitialized_params(), list(m.state_dict()), refusal(torch.relu, m.state_dict()["weight"])
        torch.manual_seed(1)
        y = m(images(torch, *shape))
        yield m, type(m).__name__, y, dict(m.state_dict())
        fresh = make()
        fresh.load_state_dict(m.state_dict())
        yield fresh(images(torch, *shape))
        yield refusal(m.load_state_dict, make().state_dict())


def fusing(torch):
    f, nn = torch.nn.utils.fusion, torch.nn
    bn = nn.BatchNorm2d(4)
    bn.running_mean += 0.3
    bn.running_var *= 2
    bn.weight.data += 0.2
    for conv in (nn.Conv2d(3, 4, 2), nn.Conv2d(3, 4, 2, bias=False)):
        fused = f.fuse_conv_bn_eval(conv.eval(), bn.eval())
        yield fused, dict(fused.state_dict()), fused(images(torch, 1, 3, 4, 4))
    deconv = nn.ConvTranspose2d(3, 4, 2)
    yield dict(f.fuse_conv_bn_eval(deconv.eval(), bn.eval(), transpose=True).state_dict())
    linear, bn1 = nn.Linear(3, 4), nn.BatchNorm1d(4)
    bn1.running_mean += 0.5
    yield dict(f.fuse_linear_bn_eval(linear.eval(), bn1.eval()).state_dict())
    yield refusal(f.fuse_conv_bn_eval, nn.Conv2d(3, 4, 2), bn)


def sync_batch_norm(torch):
    nn = torch.nn
    m = nn.Sequential(nn.Conv2d(3, 4, 2), nn.BatchNorm2d(4), nn.Sequential(nn.BatchNorm1d(3, affine=False)))
    m.eval()
    s = nn.SyncBatchNorm.convert_sync_batchnorm(m)
    yield s, list(s.state_dict()), s[1].training, s[1].weight is m[1].weight
    s = nn.SyncBatchNorm(3, momentum=None, eps=1e-3)
    yield s, list(s.state_dict()), s.eval()(images(torch, 2, 3, 4))
    yield refusal(s, images(torch, 3))


def data_parallel(torch):
    nn = torch.nn
    m = nn.Linear(3, 2)
    d = nn.DataParallel(m)
    x = images(torch, 4, 3)
    yield d, list(d.state_dict()), d(x), d.module is m


def module_basics(torch):
    nn = torch.nn
    m = nn.Sequential(nn.Linear(2, 2), nn.ModuleDict({"a": nn.ReLU(), "b": nn.ModuleList([nn.Tanh()])}))
    yield m, [n for n, _ in m.named_modules()], refusal(m[1], torch.ones(1))
    yield m.get_submodule("1.b.0"), refusal(m.get_submodule, "1.c"), refusal(m.get_parameter, "0.x")
    m.set_submodule("1.a", nn.GELU())
    yield m, refusal(m.set_submodule, "", nn.GELU())
    shared = nn.Sequential(m[0], m[0])
    yield [n for n, _ in shared.named_parameters()], [n for n, _ in shared.named_parameters(remove_duplicate=False)]
    m.requires_grad_(False)
    yield [p.requires_grad for p in m.parameters()], m.train().training, refusal(m.train, 1)
    yield refusal(nn.Module, 3), refusal(nn.Module().forward), refusal(setattr, m[0], "weight", torch.ones(1))
    del m[0].bias
    yield m[0].__dict__["_parameters"].keys().__len__(), hasattr(m[0], "bias")
    yield from (nn.Flatten(), nn.Dropout(0.2), nn.Bilinear(2, 3, 4), nn.Embedding(3, 2, padding_idx=0), nn.LSTM(2, 3),
                nn.Transformer(4, 2, 1, 1, 4))


def loading_torchs_file(torch):
    m = torch.nn.Sequential(torch.nn.Conv2d(1, 2, 2), torch.nn.BatchNorm2d(2))
    file = io.BytesIO()
    torch.save(m.state_dict(), file)
    file.seek(0)
    return dict(torch.load(file))


CASES = [parametrization, parametrization_of_several, parametrization_refused, weight_and_spectral_norm, orthogonal,
         pruning, pruning_refused, hook_order, hooks_that_replace, registration_hooks, state_dict_hooks, loading,
         loss_forms, loss_refusals, attention_backends, causal_biases, flexible_attention, attention_forward,
         conversion, buffers, lazy, fusing, sync_batch_norm, data_parallel, module_basics, loading_torchs_file]


def run(torch, case):
    """What the case gave, a list of plain data that ends where something is raised."""
    torch.manual_seed(0)
    found = []
    try:
        result = case(torch)
        for part in result if hasattr(result, "send") else [result]:
            found.append(plain(torch, part))
    except Exception as error:
        found.append(f"raised {type(error).__name__}: {error}")
    return found


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    torch = importlib.import_module("torch")
    torch.set_num_threads(1)
    with open(sys.argv[1], "wb") as file:
        pickle.dump({case.__name__: run(torch, case) for case in CASES}, file)
