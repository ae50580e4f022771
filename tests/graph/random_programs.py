"""Programs drawn at random: operators, views, writes in place, draws, questions about values."""

import flambeau

UNARY = "sin exp neg abs relu sigmoid tanh square".split()
BINARY = "add sub mul maximum minimum div".split()
KEEP = 8  # tensors that a program has in its hands


def inputs(seed, m=3, n=4):
    """What a program begins with, among it a transposed tensor and a number."""
    flambeau.manual_seed(seed)
    return [flambeau.randn(m, n), flambeau.randn(n), flambeau.randn(n, m).t(), flambeau.randn(()), flambeau.randn(m, 1)]


def _both(rng, a, b):
    try:
        return getattr(flambeau, rng.choice(BINARY))(a, b)
    except RuntimeError:  # their shapes do not broadcast
        return None


def _written_in_part(rng, a, b):
    r = a * 1
    part = r[..., :1] if r.ndim else r
    part.add_(5)
    return r + part


def _written_whole(rng, a, b):
    r = a.clone()
    r.add_(1)
    r.mul_(rng.random())
    return r


def _written_to(rng, a, b):
    """Writes to b, or a part of it: perhaps one of the inputs, or what was made from them."""
    part = rng.choice([lambda x: x, lambda x: x, lambda x: x[..., 1:], lambda x: x[:1], lambda x: x.t()])
    to = part(b) if b.ndim == 2 else b
    for _ in range(rng.randrange(1, 4)):
        write = rng.choice(WRITES)
        try:
            write(rng, to, a)
        except (RuntimeError, IndexError) as error:  # shapes or dtypes that do not go together, a leaf, shared memory
            del error
    return rng.choice([b, to, to + 1, None])


def _index(rng, to):
    return flambeau.tensor([rng.randrange(to.shape[0])])


WRITES = [
    lambda rng, to, a: to.add_(a), lambda rng, to, a: to.mul_(0.5), lambda rng, to, a: to.sub_(to * 0.1 + 1),
    lambda rng, to, a: to.copy_(a), lambda rng, to, a: to.fill_(rng.random()), lambda rng, to, a: to.zero_(),
    lambda rng, to, a: to.clamp_(-1, 1), lambda rng, to, a: to.normal_(), lambda rng, to, a: to.add_(to.sum()),
    lambda rng, to, a: to.index_copy_(0, _index(rng, to), to[:1] * 2),
    lambda rng, to, a: to.index_add_(0, _index(rng, to), to[:1]),
    lambda rng, to, a: to.index_fill_(0, _index(rng, to), 0.25), lambda rng, to, a: to.masked_fill_(to > 0, -1),
    lambda rng, to, a: to.cumsum_(-1), lambda rng, to, a: to.tril_(), lambda rng, to, a: to.neg_().exp_(),
    lambda rng, to, a: to.data.mul_(2), lambda rng, to, a: to.__setitem__(0, a), lambda rng, to, a: to.lerp_(a, 0.5),
]


def _normed(rng, a, b):
    """Writes to b, which is perhaps one of the inputs."""
    fits = a.ndim == 2 and b.ndim == 1 and a.shape[0] > 1 and a.shape[1] == b.shape[0] > 0
    if not fits or b.dtype != flambeau.float32 or b.requires_grad:
        return None
    return flambeau.nn.functional.batch_norm(a.float(), b, rng.choice([None, b.clone()]), training=True)


def _layers(rng, a, b):
    """Products of one input, and what may follow a product."""
    if a.ndim != 2 or not a.is_floating_point():
        return None
    linear, rows, wide = flambeau.nn.functional.linear, a.float(), rng.choice([3, 4, 7])
    y = linear(rows, flambeau.randn(wide, a.shape[1]), rng.choice([None, flambeau.ones(wide)]))
    if rng.random() < 0.5:
        y = y + rng.choice([linear(rows, flambeau.randn(wide, a.shape[1])), flambeau.arange(wide) * 0.5, y])
    return getattr(y, rng.choice(["relu", "tanh", "sigmoid", "t", "exp"]))()


def _with_constants(rng, a, b):
    if not a.ndim or a.dtype == flambeau.bool:
        return None
    n = a.shape[-1]
    return rng.choice([a + flambeau.arange(n) * rng.choice([2, 0.5]), a * (flambeau.ones(n, n).tril()[-1] - 2),
                       a.masked_fill(flambeau.eye(n)[0] > 0, 7)])


def _decided_by_a_value(rng, a, b):
    return a + 1 if a.numel() and float(a.reshape(-1)[0].real) > 0 else a - 1


STEPS = [
    lambda rng, a, b: getattr(flambeau, rng.choice(UNARY))(a),
    _both, _both, _written_in_part, _written_whole, _decided_by_a_value,
    lambda rng, a, b: a * rng.choice([0.5, 2, 3, True, 1]),
    lambda rng, a, b: a.t() if a.ndim == 2 else a,
    lambda rng, a, b: a.reshape(-1),
    lambda rng, a, b: a[..., 1:] if a.ndim and a.shape[-1] > 1 else a,
    lambda rng, a, b: a.sum(-1, keepdim=rng.random() < 0.5) if a.ndim else a,
    lambda rng, a, b: a.softmax(-1) if a.is_floating_point() and a.ndim else a,
    lambda rng, a, b: a.to(rng.choice([flambeau.float64, flambeau.float32, flambeau.float16, flambeau.int32])),
    lambda rng, a, b: a > 0,
    lambda rng, a, b: flambeau.where(a > 0, a, rng.random()),
    lambda rng, a, b: a.unsqueeze(0).expand(2, *a.shape) if a.ndim < 3 else a,
    lambda rng, a, b: a.float() @ a.float().t() if a.ndim == 2 else a,
    lambda rng, a, b: flambeau.randn(a.shape) if a.ndim < 3 else a,
    lambda rng, a, b: flambeau.cat([a.reshape(-1), b.reshape(-1)]),
    lambda rng, a, b: flambeau.nn.functional.dropout(a.float(), 0.5), _normed, _normed, _layers,
    _with_constants,
    _written_to, _written_to, _written_to,
    lambda rng, a, b: a.clone().float().uniform_() if rng.random() < 0.3 else None,
]


def run(rng, start):
    """The tensors in hand at the end."""
    held = list(start)
    for _ in range(rng.randrange(3, 40)):
        a, b = rng.choice(held), rng.choice(held)
        result = rng.choice(STEPS)(rng, a, b)
        if result is None:
            continue
        if rng.random() < 0.05 and result.dtype == flambeau.float32 and not result._is_view():
            result.mul_(0.5)  # perhaps one of the inputs
        held.append(result)
        if len(held) > KEEP:
            held.pop(rng.randrange(len(held)))
    return held


def learns(rng, start):
    """A program with a backward pass in its midst: what it returns, and the gradients."""
    leaves = [x.clone().requires_grad_() for x in start]
    held = [x for x in run(rng, leaves_of(leaves)) if x.requires_grad]
    if held:
        sum(x.float().sum() for x in held).backward()
    return held + [x.grad for x in leaves if x.grad is not None]


def leaves_of(leaves):
    """Values that may be written to, made from leaves, which may not."""
    return [x * 1 for x in leaves]
