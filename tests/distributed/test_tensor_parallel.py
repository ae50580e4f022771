"""Tensor parallel layers: a transformer whose layers are spread over ranks trains as in one process."""

import warnings

import pytest

import flambeau
import flambeau.distributed as dist
from flambeau import nn, optim
from flambeau.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from flambeau.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    PrepareModuleInputOutput,
    PrepareModuleOutput,
    RowwiseParallel,
    SequenceParallel,
    loss_parallel,
    parallelize_module,
)
from flambeau.nn import functional as F

WORDS, WIDTH, LENGTH = 13, 8, 8  # the words are not shared equally
_meshes = {}


def mesh_of(*shape):
    if shape not in _meshes:
        _meshes[shape] = dist.init_device_mesh("cpu", shape, mesh_dim_names=("dp", "tp")[-len(shape):])
    return _meshes[shape]


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        # a bias of the keys has no gradient but rounding errors, which Adam would make large
        self.q, self.k, self.v, self.o = (nn.Linear(WIDTH, WIDTH, bias=b) for b in (True, False, True, True))

    def forward(self, x):
        q, k, v = (f(x).view(*x.shape[:1], LENGTH, -1, 2).transpose(1, 2) for f in (self.q, self.k, self.v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.o(y.transpose(1, 2).reshape(len(x), LENGTH, -1))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.attention, self.norm2 = nn.LayerNorm(WIDTH), Attention(), nn.RMSNorm(WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 12), nn.GELU(), nn.Linear(12, WIDTH))

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class Transformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.blocks = nn.Embedding(WORDS, WIDTH), nn.ModuleList([Block(), Block()])
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WORDS)

    def forward(self, x):
        x = self.words(x)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def model():
    flambeau.manual_seed(0)
    return Transformer().double()


PLAIN = {"words": RowwiseParallel(input_layouts=Replicate()), "blocks.*.attention.[qkv]": ColwiseParallel(),
         "blocks.*.attention.o": RowwiseParallel(), "blocks.*.mlp.0": ColwiseParallel(),
         "blocks.*.mlp.2": RowwiseParallel(), "head": ColwiseParallel(output_layouts=Replicate())}


def whole_input(**options):
    return PrepareModuleInput(input_layouts=Shard(1), desired_input_layouts=Replicate(), **options)


SEQUENCE = {"words": RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(1)),
            "blocks.*.norm1": SequenceParallel(), "blocks.*.norm2": SequenceParallel(), "norm": SequenceParallel(),
            "blocks.*.attention": whole_input(), "blocks.*.attention.[qkv]": ColwiseParallel(),
            "blocks.*.attention.o": RowwiseParallel(output_layouts=Shard(1)), "blocks.*.mlp": whole_input(),
            "blocks.*.mlp.0": ColwiseParallel(), "blocks.*.mlp.2": RowwiseParallel(output_layouts=Shard(1)),
            "head": ColwiseParallel(input_layouts=Shard(1), use_local_output=False)}


def check_training(sequence, size):
    mesh = mesh_of(4 // size, size)["tp"] if size < 4 else mesh_of(4)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        mine, theirs = parallelize_module(model(), mesh, SEQUENCE if sequence else PLAIN), model()
    steppers = [optim.AdamW(m.parameters(), lr=0.01) for m in (mine, theirs)]
    for step in range(3):
        generator = flambeau.Generator().manual_seed(step)
        x, t = (flambeau.randint(0, WORDS, (3, LENGTH), generator=generator) for _ in range(2))
        losses = []
        for m, opt in zip((mine, theirs), steppers):
            opt.zero_grad()
            with loss_parallel():
                loss = F.cross_entropy(m(x).flatten(0, 1), t.flatten())
                loss.backward()
            opt.step()
            losses.append(loss.full_tensor() if isinstance(loss, DTensor) else loss)
        assert abs(losses[0] - losses[1]) < 1e-12
    for (name, p), q in zip(mine.named_parameters(), theirs.parameters()):
        whole = p.full_tensor() if isinstance(p, DTensor) else p
        assert (whole - q).abs().max() < 1e-12, name
    return mine.blocks[0].mlp[0].weight.to_local().shape[0], mine.words.weight.to_local().shape[0]


@pytest.mark.parametrize("size", [2, 4])
@pytest.mark.parametrize("sequence", [False, True])
def test_a_transformer_trains_as_in_one_process(ranks, sequence, size):
    found = ranks.run(check_training, sequence, size)
    assert found == [(12 // size, n) for n in ([7, 6, 7, 6] if size == 2 else [4, 4, 4, 1])]


def check_losses():
    mesh = mesh_of(4)
    generator = flambeau.Generator().manual_seed(1)
    weight = flambeau.rand(7, dtype=flambeau.float64, generator=generator)
    for shape in [(5, 7), (3, 7, 2), (7,)]:
        logits = flambeau.randn(shape, dtype=flambeau.float64, generator=generator)
        target = flambeau.randint(0, 7, shape[:1] + shape[2:] if len(shape) > 1 else (), generator=generator)
        ignored = int(target.flatten()[0]) if target.numel() > 1 else -100
        for placements in [[Shard(d)] for d in range(len(shape))] + [[Replicate()]]:
            for reduction in ("mean", "sum", "none"):
                for options in ({}, {"weight": weight}, {"ignore_index": ignored}):
                    compare(logits, target, mesh, placements, dict(options, reduction=reduction))


def compare(logits, target, mesh, placements, options):
    leaf, part = logits.clone().requires_grad_(), distribute_tensor(logits, mesh, placements).requires_grad_()
    expected = F.cross_entropy(leaf, target, **options)
    expected.sum().backward()
    with loss_parallel():
        found = F.cross_entropy(part, target, **{
            **options, **({"weight": distribute_tensor(options["weight"], mesh)} if "weight" in options else {})})
        found.sum().backward()
        by_parts = F.nll_loss(F.log_softmax(part.detach(), 1 if logits.ndim > 1 else 0), target, **options)
    assert (found.full_tensor() - expected).abs().max() < 1e-12, (placements, options)
    assert (by_parts.full_tensor() - expected).abs().max() < 1e-12, (placements, options)
    assert (part.grad.full_tensor() - leaf.grad).abs().max() < 1e-12, (placements, options)
    assert part.grad.placements == tuple(placements)


def test_losses_of_logits_that_are_cut(ranks):
    ranks.run(check_losses)


def check_loss_of_halves():
    """Under autocast: a loss in float32, more labels than bfloat16 counts exactly, gradients in bfloat16."""
    mesh = mesh_of(4)
    generator = flambeau.Generator().manual_seed(2)
    logits = flambeau.randn(300, 8, generator=generator).bfloat16()
    target = flambeau.randint(0, 8, (300,), generator=generator)
    leaf = logits.float().requires_grad_()
    expected = F.cross_entropy(leaf, target)
    expected.backward()
    for placement in (Shard(0), Shard(1), Replicate()):
        part = distribute_tensor(logits, mesh, [placement]).requires_grad_()
        with loss_parallel(), flambeau.autocast("cpu"):
            found = F.cross_entropy(part, target)
            found.backward()
        assert found.dtype == flambeau.float32 and part.grad.dtype == flambeau.bfloat16
        assert abs(found.full_tensor().item() - expected.item()) < 1e-5, placement
        assert (part.grad.full_tensor().float() - leaf.grad).abs().max() < 2.0**-8 * leaf.grad.abs().max(), placement


def test_the_loss_of_halves_under_autocast(ranks):
    ranks.run(check_loss_of_halves)


class Two(nn.Module):
    def forward(self, x, *, scale):
        return x * scale, x


def check_preparing():
    mesh, me = mesh_of(4), dist.get_rank()
    style = PrepareModuleInputOutput(
        input_layouts=Shard(0), desired_input_layouts=Replicate(), input_kwarg_layouts={"scale": Replicate()},
        desired_input_kwarg_layouts={"scale": Replicate()}, output_layouts=(Replicate(), None),
        desired_output_layouts=(Shard(0), None))
    y, x = parallelize_module(Two(), mesh, style)(flambeau.full((1, 2), float(me)), scale=flambeau.tensor([2.0, 3.0]))
    assert y.tolist() == [[2.0 * me, 3.0 * me]] and x.shape == (4, 2)
    for call, error, text in [
            (lambda: parallelize_module(nn.Conv1d(1, 1, 1), mesh, ColwiseParallel()), NotImplementedError, "Conv1d"),
            (lambda: parallelize_module(nn.Linear(1, 1), mesh_of(2, 2), RowwiseParallel()), ValueError, "one dimen"),
            (lambda: parallelize_module(nn.Linear(1, 1), mesh, [1]), TypeError, "ParallelStyle or a dict"),
            (lambda: PrepareModuleOutput(output_layouts=(Shard(0),), desired_output_layouts=()), ValueError,
             "give as many"),
            (lambda: parallelize_module(Two(), mesh, style)(1.0, scale=1.0), ValueError, "for a tensor")]:
        with pytest.raises(error, match=text):
            call()
    with pytest.warns(UserWarning, match="'1.x'"):
        parallelize_module(nn.Sequential(), mesh, {"1.x": ColwiseParallel()})
    with mesh:
        assert parallelize_module(nn.Linear(2, 4), None, ColwiseParallel()).weight.to_local().shape == (1, 2)


def test_preparing(ranks):
    ranks.run(check_preparing)
