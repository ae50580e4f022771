"""How the sweep calls an operator at a given size: set-up and statement, the same text for both libraries.

Pointwise operators and full reductions follow from their records; every other operator has its statement here. In a
statement `x`, `y`, `z` are (r, r) floats in [0.05, 0.95) or of the dtype that is asked for, `v`, `w` are flat ones, `i`
holds row numbers, `j` has the shape of x and holds column numbers, `b` holds bools, `p`, `q` are int64, `r` is the side
of the matrices.
"""

import flambeau
from flambeau.ops.kinds import FACTS, OPS

COMMON = """\
torch.manual_seed(0)
r = {side}
laid = lambda x: x if x.dim() < 2 else {laid}
values = lambda *size: laid({values})
x = values(r, r)
"""
#: what `values` makes, by dtype; floats and complex numbers otherwise
VALUES = {
    "bool": "torch.rand(size) > 0.5",
    "uint8": "torch.randint(1, 60, size, dtype=torch.uint8)",
    "int32": "torch.randint(1, 60, size, dtype=torch.int32)",
    "int64": "torch.randint(1, 60, size)",
}

#: how matrices lie in memory: one after the other, turned, as columns of wider ones, or as every second one of these
LAYOUTS = {
    "contiguous": "x",
    "turned": "x.t().contiguous().t()",
    "cut": "x.new_empty(len(x), x.shape[1] + 3)[:, 3:].copy_(x)",
    "stepped": "x.new_empty(len(x), 2 * x.shape[1])[:, ::2].copy_(x)",
}

#: set-up lines by the name they make
MAKES = {
    "y": "y = values(r, r)",
    "z": "z = values(r, r)",
    "v": "v = x.reshape(-1)",
    "w": "w = values(r * r)",
    "i": "i = torch.randint(0, r, (r,))",
    "j": "j = torch.randint(0, r, (r, r))",
    "b": "b = torch.rand(r, r) > 0.5",
    "p": "p = torch.randint(1, 60, (r, r))",
    "q": "q = torch.randint(1, 8, (r, r))",
    "n": "n = x - 0.5",
    "h": "h = x.view(1, 1, r, r)",
    "k": "k = x if x.is_complex() else torch.complex(x, x)",
    "e": "e = torch.linspace(0, 1, 17)",
}

#: operators of whole numbers
WHOLE = {
    "gcd",
    "lcm",
    "bitwise_and",
    "bitwise_or",
    "bitwise_xor",
    "bitwise_left_shift",
    "bitwise_right_shift",
    "bitwise_not",
}
#: rewritten inputs of pointwise operators whose domain or operands are special
POINTWISE = {
    "where": "torch.where(b, x, y)",
    "masked_fill": "x.masked_fill(b, 0.5)",
    "acosh": "torch.acosh(x + 1)",
    "threshold": "F.threshold(x, 0.5, 0.0)",
    "celu": "F.celu(n)",
    "elu": "F.elu(n)",
    "selu": "F.selu(n)",
    "clamp": "torch.clamp(x, 0.2, 0.8)",
    "logical_not": "torch.logical_not(b)",
    "polygamma": None,
    "angle": "torch.angle(k)",
    "polar": "torch.polar(x, y)",
}

FORMS = {
    "sum": "x.sum()",
    "sum rows": "x.sum(1)",
    "sum columns": "x.sum(0)",
    "mean rows": "x.mean(1)",
    "mean columns": "x.mean(0)",
    "amax rows": "x.amax(1)",
    "amax columns": "x.amax(0)",
    "prod rows": "x.prod(1)",
    "max.dim": "x.max(1)",
    "min.dim columns": "x.min(0)",
    "argmax rows": "x.argmax(1)",
    "argmin": "x.argmin()",
    "any": "b.any()",
    "all rows": "b.all(1)",
    "aminmax": "x.aminmax()",
    "logsumexp rows": "x.logsumexp(1)",
    "var": "x.var()",
    "std rows": "x.std(1)",
    "var_mean columns": "torch.var_mean(x, 0)",
    "norm": "x.norm()",
    "norm rows": "x.norm(dim=1)",
    "norm 1": "x.norm(p=1)",
    "nansum": "x.nansum()",
    "count_nonzero": "torch.count_nonzero(b)",
    "median rows": "x.median(1)",
    "kthvalue rows": "x.kthvalue(1, 1)",
    "mode rows": "p.mode(1)",
    "quantile rows": "x.quantile(0.3, 1)",
    "nanmean": "x.nanmean()",
    "cumsum rows": "x.cumsum(1)",
    "cumsum columns": "x.cumsum(0)",
    "cumsum flat": "v.cumsum(0)",
    "cumprod rows": "x.cumprod(1)",
    "cummax rows": "x.cummax(1)",
    "logcumsumexp rows": "x.logcumsumexp(1)",
    "sort rows": "x.sort(1)",
    "sort flat": "v.sort()",
    "sort int": "p.view(-1).sort()",
    "argsort rows": "x.argsort(1)",
    "topk rows": "x.topk(2, 1)",
    "unique": "p.unique()",
    "unique_consecutive": "p.view(-1).unique_consecutive()",
    "searchsorted": "torch.searchsorted(e, x)",
    "bucketize": "torch.bucketize(x, e)",
    "bincount": "p.view(-1).bincount()",
    "histc": "x.histc(20)",
    "isin": "torch.isin(p, q[0])",
    "softmax rows": "x.softmax(1)",
    "softmax columns": "x.softmax(0)",
    "log_softmax rows": "x.log_softmax(1)",
    "cat rows": "torch.cat([x, y])",
    "cat columns": "torch.cat([x, y], 1)",
    "stack": "torch.stack([x, y])",
    "stack last": "torch.stack([x, y], -1)",
    "roll": "x.roll(1, 1)",
    "flip rows": "x.flip(0)",
    "flip columns": "x.flip(1)",
    "rot90": "x.rot90()",
    "clone": "x.clone()",
    "contiguous of transpose": "x.t().contiguous()",
    "copy_ to double": "x.double()",
    "copy_ to half": "x.half()",
    "copy_ to int": "x.int()",
    "int to float": "p.float()",
    "tril": "x.tril()",
    "triu": "x.triu()",
    "repeat": "x.repeat(2, 1)",
    "repeat_interleave": "x.repeat_interleave(2)",
    "tile": "x.tile(1, 2)",
    "pad": "F.pad(x, (1, 1, 1, 1))",
    "pad reflect": "F.pad(h, (1, 1, 1, 1), 'reflect')",
    "diag_embed": "torch.diag_embed(x[0])",
    "kron": "torch.kron(e, x[0])",
    "outer": "torch.outer(x[0], x[1])",
    "zeros": "torch.zeros(r, r)",
    "ones": "torch.ones(r, r)",
    "full": "torch.full((r, r), 2.5)",
    "eye": "torch.eye(r)",
    "empty": "torch.empty(r, r)",
    "arange": "torch.arange(r * r)",
    "linspace": "torch.linspace(0, 1, r * r)",
    "zero_": "x.zero_()",
    "fill_": "x.fill_(1.5)",
    "add_": "x.add_(0.0)",
    "mul_ broadcast": "x.mul_(e[0])",
    "add row": "x + y[0]",
    "add column": "x + y[:, :1]",
    "add transposed": "x + y.t()",
    "add number": "x + 1.5",
    "index_select rows": "x.index_select(0, i)",
    "index_select columns": "x.index_select(1, i)",
    "gather rows": "x.gather(1, j)",
    "gather columns": "x.gather(0, j)",
    "scatter_add rows": "torch.zeros_like(x).scatter_add(1, j, y)",
    "scatter rows": "x.scatter(1, j, y)",
    "index_add": "x.index_add(0, i, y)",
    "index rows": "x[i]",
    "index pairs": "x[i, i]",
    "index_put": "x.index_put((i, i), y[0])",
    "mask": "x[b]",
    "masked_select": "x.masked_select(b)",
    "masked_scatter": "x.masked_scatter(b, y)",
    "nonzero": "b.nonzero()",
    "take": "x.take(j)",
    "put": "x.put(j, y)",
    "one_hot": "F.one_hot(i)",
    "embedding": "F.embedding(i, x)",
    "scatter_reduce": "x.scatter_reduce(1, j, y, 'amax')",
    "take_along_dim": "torch.take_along_dim(x, j, 1)",
    "index_copy": "x.index_copy(0, torch.arange(r), y)",
    "layer_norm": "F.layer_norm(x, (r,))",
    "rms_norm": "F.rms_norm(x, (r,))",
    "batch_norm": "F.batch_norm(x, None, None, training=True)",
    "group_norm": "F.group_norm(x.view(r, 2, r // 2), 2)",
    "normalize": "F.normalize(x)",
    "instance_norm": "F.instance_norm(x.view(1, r, r))",
    "local_response_norm": "F.local_response_norm(x.view(1, r, r), 5)",
    "dropout": "F.dropout(x, 0.3)",
    "rand": "torch.rand(r, r)",
    "randn": "torch.randn(r, r)",
    "randint": "torch.randint(0, 9, (r, r))",
    "randperm": "torch.randperm(r * r)",
    "bernoulli": "torch.bernoulli(x)",
    "normal_": "x.normal_()",
    "uniform_": "x.uniform_()",
    "exponential_": "x.exponential_()",
    "poisson": "torch.poisson(x)",
    "multinomial": "torch.multinomial(x[0], 2)",
    "mse_loss": "F.mse_loss(x, y)",
    "l1_loss": "F.l1_loss(x, y)",
    "smooth_l1_loss": "F.smooth_l1_loss(x, y)",
    "huber_loss": "F.huber_loss(x, y)",
    "binary_cross_entropy": "F.binary_cross_entropy(x, y)",
    "binary_cross_entropy_with_logits": "F.binary_cross_entropy_with_logits(x, y)",
    "kl_div": "F.kl_div(x, y, reduction='sum')",
    "cross_entropy": "F.cross_entropy(x, i)",
    "nll_loss": "F.nll_loss(x, i)",
    "cosine_similarity": "F.cosine_similarity(x, y)",
    "pairwise_distance": "F.pairwise_distance(x, y)",
    "poisson_nll_loss": "F.poisson_nll_loss(x, y)",
    "softsign": "F.softsign(x)",
    "tanhshrink": "F.tanhshrink(x)",
    "logit": "torch.logit(x)",
    "glu": "F.glu(x)",
    "prelu": "F.prelu(x, e[:1])",
    "isclose": "torch.isclose(x, y)",
    "equal": "torch.equal(x, y)",
    "diff": "x.diff()",
    "allclose": "torch.allclose(x, x)",
    "trapezoid": "torch.trapezoid(x)",
    "cov": None,
    "meshgrid": "torch.meshgrid(x[0], x[0], indexing='ij')",
    "max_pool2d": "F.max_pool2d(h, 2)",
    "avg_pool2d": "F.avg_pool2d(h, 2)",
    "max_pool1d": "F.max_pool1d(x, 2)",
    "adaptive_avg_pool2d": "F.adaptive_avg_pool2d(h, 1)",
    "interpolate nearest": "F.interpolate(h, scale_factor=2.0)",
    "interpolate bilinear": "F.interpolate(h, scale_factor=2.0, mode='bilinear')",
    "unfold": "F.unfold(h, 2)",
    "pixel_shuffle": "F.pixel_shuffle(x.view(1, 4, r // 2, r // 2), 2)",
    "conv2d": "F.conv2d(h, x[:1, :1].view(1, 1, 1, 1))",
    "conv2d 4 to 8": "F.conv2d(x.view(1, 4, r // 2, r // 2), x[:1, :1].view(1, 1, 1, 1).expand(8, 4, 1, 1))",
    "complex mul": "k * k",
    "complex abs": "k.abs()",
    "complex exp": "k.exp()",
    "conj": "k.conj()",
    "view": "x.view(-1)",
    "permute": "x.permute(1, 0)",
    "select": "x[0]",
    "slice": "x[1:]",
    "unsqueeze": "x.unsqueeze(0)",
    "expand": "x.unsqueeze(0).expand(2, r, r)",
    "chunk": "x.chunk(2)",
    "split": "x.split(1) if r == 2 else x.split(r // 2)",
    "float_power": "torch.float_power(x, 2.5)",
    "ldexp": "torch.ldexp(x, q)",
    "pow 2": "x ** 2",
    "pow 3": "x ** 3",
    "pow 0.5": "x ** 0.5",
    "sqrt double": "D.sqrt()",
    "exp double": "D.exp()",
    "log double": "D.log()",
    "pow double": "D ** D",
    "sin double": "D.sin()",
    "tanh double": "D.tanh()",
    "add bfloat16": "H + H",
    "mul bfloat16 number": "H * 1.5",
    "exp bfloat16": "H.exp()",
    "sum bfloat16": "H.sum()",
    "softmax bfloat16": "H.softmax(1)",
    "add half": "G + G",
    "exp half": "G.exp()",
    "sum half": "G.sum()",
    "add int64": "p + q",
    "mul int64": "p * q",
    "sum int64": "p.sum()",
    "floor_divide int64": "p // q",
    "remainder int64": "p % q",
    "eq int64": "p == q",
    "max int64": "p.max()",
    "add uint8": "U + U",
    "sum double": "D.sum()",
}
#: products of matrices and what grows faster than its input: sides up to 1024
PRODUCTS = {
    "mm": "x @ y",
    "mv": "x.mv(x[0])",
    "bmm": "torch.bmm(x.view(1, r, r), y.view(1, r, r))",
    "linear": "F.linear(x, y, x[0])",
    "addmm": "torch.addmm(z, x, y)",
    "baddbmm": "torch.baddbmm(z.view(1, r, r), x.view(1, r, r), y.view(1, r, r))",
    "cdist": "torch.cdist(x, y)",
    "einsum": "torch.einsum('ij,kj->ik', x, y)",
    "dot": "v.dot(w)",
    "matmul transposed": "x.t() @ y",
    "attention": "F.scaled_dot_product_attention(x.view(1, 1, r, r), y.view(1, 1, r, r), z.view(1, 1, r, r))",
    "mm double": "D @ D",
    "mm bfloat16": "H @ H",
    "pdist": "torch.pdist(x)",
    "cov": "torch.cov(x)",
    "corrcoef": "torch.corrcoef(x)",
}
#: of complex numbers alone, where a dtype is asked for
COMPLEX = {
    "real": "x.real",
    "imag": "x.imag",
    "real copied": "x.real.contiguous()",
    "view_as_real": "torch.view_as_real(x)",
    "view_as_complex": "torch.view_as_complex(torch.view_as_real(x))",
    "complex of strided parts": "torch.complex(x.imag, x.real)",
    "add of strided parts": "x.real + x.imag",
    "mul of a conjugate": "x * y.conj()",
    "resolve_conj": "x.conj().resolve_conj()",
    "squared magnitude": "x.real ** 2 + x.imag ** 2",
    "mul real": "x * x.real",
    "mul complex number": "x * 1j",
    "mm of a conjugate": "x @ y.mH",
    "fft": "torch.fft.fft(x)",
    "ifft": "torch.fft.ifft(x)",
    "fft2": "torch.fft.fft2(x)",
    "irfft": "torch.fft.irfft(x)",
    "fftshift": "torch.fft.fftshift(x)",
    "vdot": "torch.vdot(v, w)",
    "linalg.norm": "torch.linalg.norm(x)",
}
MORE = {"D": "D = x.double()", "H": "H = x.bfloat16()", "G": "G = x.half()", "U": "U = p.to(torch.uint8)"}


def names_in(statement):
    """The single-letter inputs a statement uses."""
    code = compile(statement, "<form>", "eval")
    return [n for n in code.co_names if len(n) == 1]


def setup(statement, side, dtype="float32", layout="contiguous"):
    """The lines that make what the statement names; a name's own needs come before it."""
    values = VALUES.get(dtype, f"torch.rand(size, dtype=torch.{dtype}) * 0.9 + 0.05")
    lines, known = [COMMON.format(side=side, values=values, laid=LAYOUTS[layout])], {"x", "r", "F"}
    makes = MAKES | MORE

    def make(name):
        if name in known or name not in makes:
            return
        known.add(name)
        for needed in names_in(makes[name].split(" = ", 1)[1]):
            make(needed)
        lines.append(makes[name])

    for name in names_in(statement):
        make(name)
    return "\n".join(lines)


def pointwise():
    """{name: statement} of the pointwise records, called with as many operands as they must be given."""
    found = {}
    for name, facts in FACTS.items():
        op = OPS[name]
        if facts[0] != "elementwise" or op.namespace is None or name.startswith("_"):
            continue
        statement = POINTWISE.get(name, "")
        if statement == "":
            count = sum(not keyword and not has_default for _, keyword, has_default, _ in op.arguments)
            operands = (("p", "q") if name in WHOLE else ("x", "y", "z"))[:count]
            space = {"": "torch", "nn.functional": "F"}.get(op.namespace, f"torch.{op.namespace}")
            statement = f"{space}.{name}({', '.join(operands)})"
        if statement:
            found[name] = statement
    return found


def statements(dtype="float32"):
    """{name: (statement, largest side)} of the whole sweep; of a dtype other than float32 what depends on it."""
    table = {name: (text, 1 << 14) for name, text in (pointwise() | FORMS).items() if text}
    table |= {name: (text, 1024) for name, text in PRODUCTS.items()}
    if dtype == "float32":
        return table
    if dtype.startswith("complex"):
        table |= {name: (text, 1 << 14) for name, text in COMPLEX.items()}
    given = {name for name, made in MAKES.items() if "values" in made} | {"x", "v", "h", "k"}
    return {name: form for name, form in table.items()
            if given.intersection(names_in(form[0])) and not set(MORE).intersection(names_in(form[0]))}


GRADIENT = """
inputs = [t.requires_grad_() for t in ({names},) if t.is_floating_point() or t.is_complex()]
result = {statement}
result = result if torch.is_tensor(result) else next(t for t in result if t.requires_grad)
weights = torch.ones_like(result)
"""


def gradient(statement, side, dtype="float32"):
    """Set-up and statement of the gradient of what `statement` computes."""
    names = [name for name in names_in(statement) if name in MAKES or name == "x"]
    lines = setup(statement, side, dtype) + GRADIENT.format(names=", ".join(names), statement=statement)
    return lines, "torch.autograd.grad(result, inputs, weights, retain_graph=True, allow_unused=True)"


def has_gradient(statement, dtype="float32"):
    """Whether it runs and gives a tensor that depends on its inputs."""
    names = {"torch": flambeau, "F": flambeau.nn.functional}
    try:
        lines, timed = gradient(statement, 2, dtype)
        exec(lines, names)  # the table's own texts
        eval(timed, names)
    except (RuntimeError, TypeError, AttributeError, StopIteration, SyntaxError):
        return False
    return True
