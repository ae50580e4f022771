"""Law: attention over parts of a sequence, on any number of ranks, is attention over the whole; so are gradients."""

import pytest

import flambeau
import flambeau.distributed as dist
from flambeau import nn
from flambeau.distributed.tensor.experimental import context_parallel
from flambeau.distributed.tensor.experimental._attention import (
    _cp_options,
    context_parallel_unshard,
    set_rotate_method,
)
from flambeau.nn.functional import scaled_dot_product_attention

_meshes = {}


def mesh_of(size):
    if size not in _meshes:
        _meshes[size] = dist.DeviceMesh("cpu", list(range(size)))
    return _meshes[size]


def numbers(*shape, dtype=flambeau.float64, seed=0):
    return flambeau.randn(shape, dtype=flambeau.float64, generator=flambeau.Generator().manual_seed(seed)).to(dtype)


def compare(size, dtype, is_causal, balanced, rotation, heads=(2, 2)):
    """The largest relative distance of results and gradients from those of one process."""
    mesh = mesh_of(size)  # all ranks make it
    if dist.get_rank() >= size:
        return 0.0
    _cp_options.enable_load_balance = balanced
    set_rotate_method(rotation)
    given = [numbers(2, h, 24, width, dtype=dtype, seed=k)
             for k, (h, width) in enumerate(((heads[0], 4), (heads[1], 4), (heads[1], 3)))]
    weight = numbers(2, heads[0], 24, 3, dtype=dtype, seed=9)
    options = {"is_causal": is_causal, "scale": 0.7, "enable_gqa": heads[0] != heads[1]}
    leaves = [x.double().requires_grad_() for x in given]
    expected = scaled_dot_product_attention(*leaves, **options)
    (expected * weight.double()).sum().backward()
    own = [x.detach().clone().requires_grad_() for x in given]
    with context_parallel(mesh, buffers=[*own, weight], buffer_seq_dims=[2, -2, 2, 2]):
        assert all(x.shape[2] == 24 // size for x in own)
        out = scaled_dot_product_attention(*own, **options)
        (out * weight).sum().backward()
        found = context_parallel_unshard(mesh, [out, *(x.grad for x in own)], [2] * 4)
    _cp_options.enable_load_balance = True
    assert all(flambeau.equal(x, y) for x, y in zip(own, given)) and out.dtype is dtype
    truth = [expected.detach(), *(x.grad for x in leaves)]
    return max(((a.double() - b).abs().max() / b.abs().max()).item() for a, b in zip(found, truth, strict=True))


@pytest.mark.parametrize("rotation", ["allgather", "alltoall"])
@pytest.mark.parametrize(("is_causal", "balanced"), [(False, True), (True, True), (True, False)])
@pytest.mark.parametrize("size", [1, 3, 4])
def test_parts_are_the_whole(ranks, size, is_causal, balanced, rotation):
    assert max(ranks.run(compare, size, flambeau.float64, is_causal, balanced, rotation)) < 1e-12


@pytest.mark.parametrize(("dtype", "far"), [(flambeau.float32, 1e-5), (flambeau.bfloat16, 0.02)])
def test_other_dtypes(ranks, dtype, far):
    assert max(ranks.run(compare, 4, dtype, True, True, "alltoall")) < far


@pytest.mark.parametrize("dtype", [flambeau.float64, flambeau.float32])
def test_heads_that_share_keys(ranks, dtype):
    assert max(ranks.run(compare, 4, dtype, True, True, "alltoall", (4, 2))) < 1e-5


def trained():
    """A layer of attention with positions; its gradients are added up over the ranks."""
    mesh = mesh_of(4)
    flambeau.manual_seed(0)
    model = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True).double()
    x, target, positions = numbers(2, 16, 8), numbers(2, 16, 8, seed=1), numbers(16, 8, seed=2)
    mask = nn.Transformer.generate_square_subsequent_mask(16, dtype=flambeau.float64)
    (model(x + positions, src_mask=mask, is_causal=True) * target).sum().backward()
    expected = [p.grad for p in model.parameters()]
    model.zero_grad()

    class Attention(nn.Module):
        def forward(self, x):
            layer, (batch, length, width) = model.self_attn, x.shape
            q, k, v = nn.functional.linear(x, layer.in_proj_weight, layer.in_proj_bias).view(
                batch, length, 3, 2, 4).permute(2, 0, 3, 1, 4)
            y = scaled_dot_product_attention(q, k, v, is_causal=True)
            return layer.out_proj(y.transpose(1, 2).reshape(batch, length, width))

    with context_parallel(mesh, buffers=[x, target, positions], buffer_seq_dims=[1, 1, 0], no_restore_buffers={target}):
        y = x + positions
        y = model.norm1(y + Attention()(y))
        y = model.norm2(y + model.linear2(model.linear1(y).relu()))
        (y * target).sum().backward()
    assert x.shape[1] == 16 and target.shape[1] == 4
    for p in model.parameters():
        dist.all_reduce(p.grad)
    return max((p.grad - q).abs().max().item() for p, q in zip(model.parameters(), expected, strict=True))


def test_a_layer_trains_as_in_one_process(ranks):
    assert max(ranks.run(trained)) < 1e-10


def refused():
    mesh, x = mesh_of(4), numbers(1, 1, 16, 4)
    with context_parallel(mesh, buffers=[x], buffer_seq_dims=[2]):
        for options in ({"dropout_p": 0.5}, {"attn_mask": flambeau.ones(4, 4, dtype=flambeau.bool)}):
            with pytest.raises(NotImplementedError, match="not available inside context_parallel"):
                scaled_dot_product_attention(x, x, x, **options)
        with pytest.raises(ValueError, match="one even length"):
            scaled_dot_product_attention(x[:, :, :3], x, x, is_causal=True)
        with pytest.raises(RuntimeError, match="in use already"), context_parallel(mesh):
            pass
    for arguments, error, text in [({"buffers": [x], "buffer_seq_dims": []}, ValueError, "1 buffers need as many"),
                                   ({"buffers": [x], "buffer_seq_dims": [3]}, ValueError, "a multiple of 8"),
                                   ({"no_restore_buffers": {x}}, ValueError, "must be among the buffers")]:
        with pytest.raises(error, match=text), context_parallel(mesh, **arguments):
            pass
    with pytest.raises(ValueError, match="of one dimension"), context_parallel(dist.group.WORLD):
        pass
    with pytest.raises(NotImplementedError, match='"allgather" or "alltoall"'):
        set_rotate_method("broadcast")
    assert x.shape == (1, 1, 16, 4)
    return scaled_dot_product_attention(x, x, x, dropout_p=0.5).shape


def test_what_is_refused(ranks):
    assert ranks.run(refused) == [(1, 1, 16, 4)] * 4
