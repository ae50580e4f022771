"""What is measured: each row is a name, a set-up and a statement, the same text for both libraries.

`torch` is the library under test, `F` its nn.functional, `nn` and `optim` its packages. A row may name its aim in
seconds, or as a least ratio to PyTorch.
"""

from collections import namedtuple

from . import models

Row = namedtuple("Row", "group name setup statement aim ratio", defaults=(None, None))


def _rows(group, common, *entries):
    return [Row(group, name, f"{common}\n{setup}", statement, *rest) for name, setup, statement, *rest in entries]


SMALL = _rows(
    "small", "torch.manual_seed(0)",
    ("a + b, 4 floats", "a = torch.rand(4); b = torch.rand(4)", "a + b", 0.2e-6),
    ("a + b, 4 floats, recorded", "a = torch.rand(4, requires_grad=True); b = torch.rand(4)", "a + b", 0.3e-6),
    ("Linear(8, 8)", "m = nn.Linear(8, 8); x = torch.rand(1, 8)", "m(x)", 1.2e-6),
    ("3 multiplications forward + backward", "a = torch.rand(1, requires_grad=True); b = torch.rand(1)",
     "(a * b * b * b).backward()", 2e-6),
    ("sum of 4 floats", "a = torch.rand(4)", "a.sum()"),
    ("x[1]", "a = torch.rand(4, 4)", "a[1]"),
    ("x[:, 1:3]", "a = torch.rand(4, 4)", "a[:, 1:3]"),
    ("view", "a = torch.rand(4, 4)", "a.view(16)"),
    ("item", "a = torch.rand(1)", "a.item()"),
    ("zeros(4)", "", "torch.zeros(4)"),
    ("a.add_(b)", "a = torch.rand(4); b = torch.rand(4)", "a.add_(b)"),
    ("relu module", "m = nn.ReLU(); a = torch.rand(4)", "m(a)"),
)

SCRIPTS = _rows(
    "scripts", "torch.manual_seed(0)\nimport io\nx = torch.rand(4, 8)",
    ("three layers of 8, traced", "m = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU(), "
     "nn.Linear(8, 2))\np = torch.jit.trace(m, x)", "p(x)", None, 4),
    ("trace of 20 layers", "m = nn.Sequential(*[nn.Linear(8, 8) for _ in range(20)])", "torch.jit.trace(m, x)"),
    ("load of 20 layers", "m = nn.Sequential(*[nn.Linear(8, 8) for _ in range(20)])\nfile = io.BytesIO()\n"
     "torch.jit.save(torch.jit.trace(m, x), file)", "file.seek(0); torch.jit.load(file)"),
)

CHAIN = """\
def chain(x, y):
    for _ in range(5):
        x = x * y
        x = x + 1
    return x
compiled = torch.compile(chain)
x = torch.randn({n}); y = torch.randn({n})
compiled(x, y)
"""
COMPILED = [Row("compiled", name, "torch.manual_seed(0)\n" + CHAIN.format(n=n), statement)
            for size, n in (("4", 4), ("1 M", 10 ** 6), ("16 M", 16 * 10 ** 6))
            for name, statement in ((f"10 pointwise operators, {size}, eager", "chain(x, y)"),
                                    (f"10 pointwise operators, {size}, compiled", "compiled(x, y)"))]

PER_SAMPLE = """\
torch.manual_seed(0)
import importlib
func = importlib.import_module(torch.__name__ + ".func")
vmap, grad, jacrev, functional_call = func.vmap, func.grad, func.jacrev, func.functional_call
m = nn.Sequential(nn.Conv2d(1, 16, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 3), nn.ReLU(), nn.MaxPool2d(2),
                  nn.Flatten(), nn.Linear(800, 64), nn.ReLU(), nn.Linear(64, 10))
p = {name: value.detach() for name, value in m.named_parameters()}
def loss(p, x, t): return F.cross_entropy(functional_call(m, p, (x.unsqueeze(0),)), t.unsqueeze(0))
each = vmap(grad(loss), in_dims=(None, 0, 0))
"""
TRANSFORMS = _rows(
    "transforms", PER_SAMPLE,
    ("vmap of (a * b).sum(), 8 x 16", "a = torch.rand(8, 16); f = vmap(lambda x, y: (x * y).sum())", "f(a, a)",
     None, 1),
    ("grad of sin", "a = torch.rand(()); f = grad(torch.sin)", "f(a)", None, 1),
    ("jacrev of sin, 16", "a = torch.rand(16); f = jacrev(torch.sin)", "f(a)", None, 1),
    ("per-sample gradients of a small CNN, batch 4", "x = torch.rand(4, 1, 28, 28); t = torch.randint(0, 10, (4,))",
     "each(p, x, t)", None, 1),
    ("per-sample gradients of a small CNN, batch 64", "x = torch.rand(64, 1, 28, 28); t = torch.randint(0, 10, (64,))",
     "each(p, x, t)", None, 1),
)

TINY_MLP = """\
torch.manual_seed(0)
m = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 2))
o = optim.Adam(m.parameters())
x = torch.rand(16, 8); t = torch.randint(0, 2, (16,))
def step():
    o.zero_grad()
    F.cross_entropy(m(x), t).backward()
    o.step()
"""

RESNET18 = """\
torch.manual_seed(0)
class Block(nn.Module):
    def __init__(self, ins, outs, stride):
        super().__init__()
        self.a = nn.Sequential(nn.Conv2d(ins, outs, 3, stride, 1, bias=False), nn.BatchNorm2d(outs), nn.ReLU())
        self.b = nn.Sequential(nn.Conv2d(outs, outs, 3, 1, 1, bias=False), nn.BatchNorm2d(outs))
        same = ins == outs and stride == 1
        self.c = nn.Identity() if same else nn.Sequential(nn.Conv2d(ins, outs, 1, stride, bias=False),
                                                          nn.BatchNorm2d(outs))
    def forward(self, x): return F.relu(self.b(self.a(x)) + self.c(x))
widths = [(64, 64, 1), (64, 64, 1), (64, 128, 2), (128, 128, 1), (128, 256, 2), (256, 256, 1), (256, 512, 2),
          (512, 512, 1)]
m = nn.Sequential(nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1),
                  *[Block(*w) for w in widths], nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 1000)).eval()
x = torch.rand({n}, 3, 224, 224)
m.requires_grad_(False)
compiled = torch.compile(m)
compiled(x)
"""
#: what users write out, and what is built in
WRITTEN = {
    "softmax": ("e = (x - x.amax(-1, keepdim=True)).exp(); return e / e.sum(-1, keepdim=True)", "F.softmax(x, -1)"),
    "layer norm": ("d = x - x.mean(-1, keepdim=True); v = (d * d).mean(-1, keepdim=True); "
                   "return d * (v + 1e-5).rsqrt() * w + b", "F.layer_norm(x, (1024,), w, b)"),
    "gelu": ("return 0.5 * x * (1 + torch.erf(x * 0.7071067811865476))", "F.gelu(x)"),
}
WRITTEN_SETUP = """\
torch.manual_seed(0)
x = torch.randn(1024, 1024); w = torch.rand(1024); b = torch.rand(1024)
def f(x): {body}
compiled = torch.compile(f)
compiled(x)
"""
COMPILED += [Row("compiled", f"ResNet-18, 224 px, batch {n}, {how}", RESNET18.format(n=n), statement)
             for n in (1, 8) for how, statement in (("eager", "m(x)"), ("compiled", "compiled(x)"))]
COMPILED += [Row("compiled", f"{name}, 1024 x 1024, {how}", WRITTEN_SETUP.format(body=body), statement)
             for name, (body, built_in) in WRITTEN.items()
             for how, statement in (("built in", built_in), ("written out, eager", "f(x)"),
                                    ("written out, compiled", "compiled(x)"))]
COMPILED += _rows(
    "compiled", TINY_MLP + "compiled = torch.compile(step)\ncompiled()",
    ("tiny MLP Adam step, eager", "", "step()"),
    ("tiny MLP Adam step, compiled", "", "compiled()"),
)
COMPILED += _rows(
    "compiled", "x = torch.rand(4)",
    ("first call of a one-line function", "", "torch.compiler.reset(); torch.compile(lambda x: x * 2 + 1)(x)"),
)
MEDIUM_MLP = """\
torch.manual_seed(0)
m = nn.Sequential(nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 128), nn.ReLU(), nn.Linear(128, 10))
o = optim.SGD(m.parameters(), lr=0.1, momentum=0.9)
x = torch.rand(128, 784); t = torch.randint(0, 10, (128,))
def step():
    o.zero_grad()
    F.cross_entropy(m(x), t).backward()
    o.step()
"""
CNN = """\
torch.manual_seed(0)
m = nn.Sequential(nn.Conv2d(1, 32, 3), nn.ReLU(), nn.Conv2d(32, 64, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
                  nn.Linear(9216, 128), nn.ReLU(), nn.Linear(128, 10))
o = optim.Adam(m.parameters())
x = torch.rand(64, 1, 28, 28); t = torch.randint(0, 10, (64,))
def step():
    o.zero_grad()
    F.cross_entropy(m(x), t).backward()
    o.step()
"""
TRAINING = _rows(
    "training", "",
    ("tiny MLP 8-32-32-2, batch 16, Adam step", TINY_MLP, "step()", 40e-6),
    ("MLP 784-256-128-10, batch 128, SGD step", MEDIUM_MLP, "step()"),
    ("MNIST CNN, batch 64, Adam step", CNN, "step()"),
)

OWN_FUNCTION = """\
class Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 2
    @staticmethod
    def backward(ctx, g):
        x, = ctx.saved_tensors
        return g * 2
"""
AUTOGRAD = _rows(
    "autograd", "torch.manual_seed(0); a = torch.rand(4, requires_grad=True); b = torch.rand(4)",
    ("backward of 3 multiplications", "y = (a * b * b * b).sum()", "y.backward(retain_graph=True)", None, 10.0),
    ("backward of 20 tanh", "x = a\nfor _ in range(20): x = x.tanh()\ny = x.sum()", "y.backward(retain_graph=True)",
     None, 5.0),
    ("autograd.grad of 3 multiplications", "y = (a * b * b * b).sum()", "torch.autograd.grad(y, a, retain_graph=True)"),
    ("backward through 3 tensor hooks",
     "x = a\nfor _ in range(3):\n    x = x * b\n    h = x.register_hook(lambda g: g)\ny = x.sum()",
     "y.backward(retain_graph=True)"),
    ("backward with a post-accumulate hook", "y = (a * b).sum()\n"
     "h = a.register_post_accumulate_grad_hook(lambda p: setattr(p, 'grad', None))", "y.backward(retain_graph=True)"),
    ("saved-tensor hooks, 3 multiplications",
     "def run():\n    with torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):\n"
     "        (a * b * b * b).sum().backward()", "run()"),
    ("own Function, forward + backward", OWN_FUNCTION, "Scale.apply(a).sum().backward()"),
    ("checkpoint of 8 tanh, forward + backward",
     "from importlib import import_module\n"
     "checkpoint = import_module(torch.__name__ + '.utils.checkpoint').checkpoint\n"
     "def f(x):\n    for _ in range(8): x = x.tanh()\n    return x",
     "checkpoint(f, a, use_reentrant=False).sum().backward()"),
)

MATMUL = _rows("matmul", "torch.manual_seed(0)", *(
    (f"f32 matmul {n}", f"a = torch.rand({n}, {n}); b = torch.rand({n}, {n})", "a @ b", None, 2.0 if n >= 512 else 1.0)
    for n in (64, 128, 512, 1024, 2048)),
    ("f32 a @ b.T 512", "a = torch.rand(512, 512); b = torch.rand(512, 512).t()", "a @ b"),
    ("batched 64 x 64 x 64 x 64", "a = torch.rand(64, 64, 64); b = torch.rand(64, 64, 64)", "a @ b"),
    ("linear 128 x 784 -> 256", "x = torch.rand(128, 784); w = torch.rand(256, 784); b = torch.rand(256)",
     "F.linear(x, w, b)"),
    ("matrix x vector 2048", "a = torch.rand(2048, 2048); b = torch.rand(2048)", "a @ b"),
)

QUANTIZED = _rows(
    "quantized", "torch.manual_seed(0); f = nn.Linear(3072, 768).requires_grad_(False)\n"
    "q = torch.ao.quantization.quantize_dynamic(nn.Sequential(f))", *(
        row for batch in (1, 4, 64) for row in (
            (f"float32 linear {batch} x 3072 -> 768", f"x = torch.rand({batch}, 3072)", "f(x)"),
            (f"int8 dynamic linear {batch} x 3072 -> 768", f"x = torch.rand({batch}, 3072)", "q(x)"))))
STATIC = """torch.manual_seed(0)
nnq, Q = torch.ao.nn.quantized, torch.ops.quantized
def coded(x, last=True):
    x = x.contiguous(memory_format=torch.channels_last) if last and x.ndim == 4 else x
    return torch.quantize_per_tensor(x, 0.05, 64, torch.quint8)
def quantized(layer, zero=64):
    w = layer.weight.detach()
    steps = (w.flatten(1).abs().amax(1) / 127).double()
    w = torch.quantize_per_channel(w, steps, torch.zeros(len(steps)).long(), 0, torch.qint8)
    if isinstance(layer, nn.Linear):
        made = nnq.Linear(layer.in_features, layer.out_features)
    else:
        made = nnq.Conv2d(layer.in_channels, layer.out_channels, layer.kernel_size, layer.stride, layer.padding,
                          layer.dilation, layer.groups)
    made.set_weight_bias(w, layer.bias.detach())
    made.scale, made.zero_point = 0.05, zero
    return made
class Block(nn.Module):
    def __init__(self, i, o, stride):
        super().__init__()
        self.a, self.b = nn.Conv2d(i, o, 3, stride, 1), nn.Conv2d(o, o, 3, 1, 1)
        self.down = nn.Conv2d(i, o, 1, stride) if i != o else nn.Identity()
        self.join = lambda x, y: (x + y).relu()
    def forward(self, x):
        return self.join(self.b(self.a(x).relu()), self.down(x))
    def quantized(self):
        self.a, self.b = quantized(self.a, 0), quantized(self.b)
        self.down = quantized(self.down) if isinstance(self.down, nn.Conv2d) else self.down
        self.join = lambda x, y: Q.add_relu(x, y, 0.05, 0)
        return self
def resnet(q=False):
    widths = (64, 64), (64, 64), (64, 128), (128, 128), (128, 256), (256, 256), (256, 512), (512, 512)
    stem, last = nn.Conv2d(3, 64, 7, 2, 3), nn.Linear(512, 1000)
    blocks = [Block(i, o, 1 if i == o else 2) for i, o in widths]
    if q:
        stem, last, blocks = quantized(stem, 0), quantized(last), [block.quantized() for block in blocks]
    layers = [stem, nn.ReLU(), nn.MaxPool2d(3, 2, 1), *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), last]
    if q:
        layers = [nnq.Quantize(0.05, 64, torch.quint8), *layers, nnq.DeQuantize()]
    return nn.Sequential(*layers).eval().requires_grad_(False)
"""
_CONVS = (("3 x 3, 64 -> 64, 56 x 56", "nn.Conv2d(64, 64, 3, 1, 1)", (64, 56)),
          ("1 x 1, 64 -> 256, 56 x 56", "nn.Conv2d(64, 256, 1)", (64, 56)),
          ("depthwise 3 x 3, 96, 56 x 56", "nn.Conv2d(96, 96, 3, 1, 1, groups=96)", (96, 56)))
QUANTIZED += _rows(
    "quantized", STATIC, *(
        row for name, layer, (channels, size) in _CONVS for row in (
            (f"float32 conv {name}",
             f"f = {layer}.requires_grad_(False); x = torch.rand(1, {channels}, {size}, {size})", "f(x)"),
            (f"int8 conv {name}", f"f = quantized({layer}); x = coded(torch.rand(1, {channels}, {size}, {size}))",
             "f(x)"))),
    *(row for batch in (1, 64) for row in (
        (f"int8 linear {batch} x 3072 -> 768",
         f"f = quantized(nn.Linear(3072, 768)); x = coded(torch.rand({batch}, 3072))", "f(x)"),)),
    ("int8 add + relu, 1 M", "a = coded(torch.rand(1, 64, 128, 128)); b = coded(torch.rand(1, 64, 128, 128))",
     "Q.add_relu(a, b, 0.05, 0)"),
    ("int8 max pool, 64, 112 x 112", "a = coded(torch.rand(1, 64, 112, 112))", "F.max_pool2d(a, 3, 2, 1)"),
    ("float32 residual block, 64, 56 x 56",
     "f = Block(64, 64, 1).requires_grad_(False); x = torch.rand(1, 64, 56, 56)",
     "f(x)"),
    ("int8 residual block, 64, 56 x 56",
     "f = Block(64, 64, 1).quantized(); x = coded(torch.rand(1, 64, 56, 56))", "f(x)"),
    ("float32 ResNet-18", "f = resnet(); x = torch.rand(1, 3, 224, 224)", "f(x)"),
    ("int8 ResNet-18", "f = resnet(True); x = torch.rand(1, 3, 224, 224)", "f(x)"),
)

MEGABYTES_64 = 1 << 24
LARGE = _rows(
    "large", f"a = torch.rand({MEGABYTES_64}); b = torch.rand({MEGABYTES_64})",
    ("a + b, 64 MB", "", "a + b", None, 3.0),
    ("exp, 64 MB", "", "a.exp()"),
    ("a.add_(b), 64 MB", "", "a.add_(b)"),
    ("sum, 64 MB", "", "a.sum()"),
    ("copy, 64 MB", "", "a.clone()"),
)

UNARY = ("exp", "log", "sin", "tanh", "sigmoid", "sqrt", "abs", "relu")
POINTWISE = [row for label, n in (("1 K", 1 << 10), ("1 M", 1 << 20), ("16 M", 1 << 24)) for row in _rows(
    "pointwise", f"a = torch.rand({n}) + 0.1; b = torch.rand({n}) + 0.1; c = a > b",
    *((f"{name}, {label}", "", f"torch.{name}(a)") for name in UNARY),
    (f"add, {label}", "", "a + b"), (f"mul, {label}", "", "a * b"), (f"div, {label}", "", "a / b"),
    (f"mul by number, {label}", "", "a * 1.5"), (f"pow 2, {label}", "", "a ** 2"),
    (f"gelu, {label}", "", "F.gelu(a)"), (f"silu, {label}", "", "F.silu(a)"),
    (f"where, {label}", "", "torch.where(c, a, b)"), (f"a > b, {label}", "", "a > b"),
    (f"clamp, {label}", "", "a.clamp(0.2, 0.8)"), (f"to float64, {label}", "", "a.double()"),
)]
DOUBLES = _rows(
    "pointwise", "torch.manual_seed(0); a = torch.randn(1 << 20, dtype=torch.float64); b = torch.rand(1 << 20, "
    "dtype=torch.float64) * 0.9 + 0.05; h = torch.randn(1 << 20).half(); w = torch.randn(1 << 20).bfloat16()",
    ("float64 pow, 1 M", "", "b ** a"), ("float64 pow 1.7, 1 M", "", "b ** 1.7"),
    ("float64 atan2, 1 M", "", "torch.atan2(a, b)"),
    *((f"float64 {name}, 1 M", "", f"torch.{name}({x})") for name, x in (
        ("lgamma", "a"), ("digamma", "a"), ("erf", "a"), ("erfc", "a"), ("erfinv", "b"), ("exp2", "a"), ("i0", "a"),
        ("special.bessel_j0", "a"), ("special.modified_bessel_k0", "b"), ("special.ndtri", "b"))),
    ("float64 igamma, 1 M", "", "torch.igamma(b, b)"), ("float64 elu, 1 M", "", "F.elu(a)"),
    ("float16 exp, 1 M", "", "h.exp()"), ("bfloat16 mul by number, 1 M", "", "w * 2.5"),
)
STRIDED = _rows(
    "pointwise", "torch.manual_seed(0); a = torch.rand(1024, 1024); r = torch.rand(1024); h = a.bfloat16()",
    ("add a row, 1024²", "", "a + r"), ("add a column, 1024²", "", "a + r[:, None]"),
    ("a + a.T, 1024²", "", "a + a.t()"), ("bfloat16 add, 1024²", "", "h + h"),
    ("contiguous of a.T, 1024²", "", "a.t().contiguous()"),
)

#: rows of a few numbers, and memory with gaps: what each row costs beside its numbers
SHORT_ROWS = _rows(
    "short rows", "torch.manual_seed(0)\nx = torch.rand(300_000, 3); y = torch.rand(256, 256, 16); "
    "z = torch.rand(32, 128, 7, 7); i = torch.randint(0, 99, (512, 1024), dtype=torch.int32)",
    ("x[:, :2] * 2", "", "x[:, :2] * 2"), ("x[:, 1:] - x[:, :-1]", "", "x[:, 1:] - x[:, :-1]"),
    ("x.flip(1)", "", "x.flip(1)"), ("x.cumsum(1)", "", "x.cumsum(1)"), ("x[:, :2].clone()", "", "x[:, :2].clone()"),
    ("a repeated column", "c = torch.rand(1024, 1)", "c.expand(1024, 1024).contiguous()"),
    ("y + y[..., :1]", "", "y + y[..., :1]"), ("y.sum(1)", "", "y.sum(1)"), ("y.mean(1)", "", "y.mean(1)"),
    ("z.log_softmax(1)", "", "z.log_softmax(1)"), ("z.softmax(2)", "", "z.softmax(2)"),
    ("i // 7", "", "i // 7"), ("turned halves", "h = torch.rand(1024, 512).half()", "h.t().contiguous()"),
    ("fold, 8 images", "c = torch.rand(8, 144, 2916)", "F.fold(c, (56, 56), 3)"),
    ("grid_sample", "m = torch.rand(8, 16, 56, 56); g = torch.rand(8, 56, 56, 2) * 2 - 1",
     "F.grid_sample(m, g, align_corners=False)"),
)

REDUCTIONS = _rows("reduction", "torch.manual_seed(0); a = torch.rand(1024, 1024)", *(
    (f"{name} {which}, 1024²", "", f"a.{name}({arguments})")
    for name in ("sum", "mean", "amax", "argmax", "var", "logsumexp", "prod")
    for which, arguments in (("all", "" if name != "logsumexp" else "(0, 1)"), ("rows", "1"), ("columns", "0"))
    ), ("max rows with indices, 1024²", "", "a.max(1)"), ("norm, 1024²", "", "a.norm()"),
    ("any, 1024²", "c = a > 2", "c.any()"), ("cumsum rows, 1024²", "", "a.cumsum(1)"),
)

NETWORKS = _rows(
    "network", "torch.manual_seed(0)",
    ("softmax 1024 x 1024", "a = torch.rand(1024, 1024)", "a.softmax(-1)"),
    ("softmax 4096 x 32", "a = torch.rand(4096, 32)", "a.softmax(-1)"),
    ("log_softmax 1024 x 1024", "a = torch.rand(1024, 1024)", "a.log_softmax(-1)"),
    ("softmax forward + backward", "a = torch.rand(1024, 1024, requires_grad=True); g = torch.rand(1024, 1024)",
     "a.softmax(-1).backward(g)"),
    ("layer_norm 1024 x 1024", "a = torch.rand(1024, 1024); w = torch.rand(1024)", "F.layer_norm(a, (1024,), w, w)"),
    ("layer_norm forward + backward", "a = torch.rand(1024, 1024, requires_grad=True); g = torch.rand(1024, 1024); "
     "w = torch.rand(1024, requires_grad=True)", "F.layer_norm(a, (1024,), w, w).backward(g)"),
    ("batch_norm 32 x 64 x 28²", "a = torch.rand(32, 64, 28, 28); w = torch.rand(64)",
     "F.batch_norm(a, None, None, w, w, True)"),
    ("batch_norm, eval", "a = torch.rand(32, 64, 28, 28); w = torch.rand(64)", "F.batch_norm(a, w, w, w, w, False)"),
    ("group_norm 8 x 64 x 28²", "a = torch.rand(8, 64, 28, 28)", "F.group_norm(a, 8)"),
    ("conv 3x3, 64 -> 64, 56²", "a = torch.rand(1, 64, 56, 56); w = torch.rand(64, 64, 3, 3)",
     "F.conv2d(a, w, padding=1)"),
    ("conv 3x3, 1 -> 32, 28², batch 64", "a = torch.rand(64, 1, 28, 28); w = torch.rand(32, 1, 3, 3)",
     "F.conv2d(a, w)"),
    ("conv 3x3, 32 -> 64, 26², batch 64", "a = torch.rand(64, 32, 26, 26); w = torch.rand(64, 32, 3, 3)",
     "F.conv2d(a, w)"),
    ("conv 1x1, 256 -> 64, 14², batch 16", "a = torch.rand(16, 256, 14, 14); w = torch.rand(64, 256, 1, 1)",
     "F.conv2d(a, w)"),
    ("depthwise conv 3x3, 64, 56²", "a = torch.rand(4, 64, 56, 56); w = torch.rand(64, 1, 3, 3)",
     "F.conv2d(a, w, padding=1, groups=64)"),
    ("conv forward + backward, 32 -> 64, 26²", "a = torch.rand(16, 32, 26, 26, requires_grad=True); "
     "w = torch.rand(64, 32, 3, 3, requires_grad=True); g = torch.rand(16, 64, 24, 24)",
     "F.conv2d(a, w).backward(g)"),
    ("max_pool2d 2, 64 x 64 x 24²", "a = torch.rand(64, 64, 24, 24)", "F.max_pool2d(a, 2)"),
    ("max_pool2d forward + backward", "a = torch.rand(64, 64, 24, 24, requires_grad=True); "
     "g = torch.rand(64, 64, 12, 12)", "F.max_pool2d(a, 2).backward(g)"),
    ("avg_pool2d 2, 64 x 64 x 24²", "a = torch.rand(64, 64, 24, 24)", "F.avg_pool2d(a, 2)"),
    ("adaptive_avg_pool2d 1, 64 x 64 x 24²", "a = torch.rand(64, 64, 24, 24)", "F.adaptive_avg_pool2d(a, 1)"),
    ("cross_entropy 1024 x 1000", "a = torch.rand(1024, 1000); t = torch.randint(0, 1000, (1024,))",
     "F.cross_entropy(a, t)"),
    ("embedding 4096 of 10000 x 128", "t = torch.randint(0, 10000, (4096,)); w = torch.rand(10000, 128)",
     "F.embedding(t, w)"),
    ("dropout 1 M", "a = torch.rand(1 << 20)", "F.dropout(a, 0.5)"),
    ("attention 8 x 8 x 128 x 64", "a = torch.rand(8, 8, 128, 64)", "F.scaled_dot_product_attention(a, a, a)"),
    ("attention 4 x 8 x 256 x 64, bfloat16, forward + backward",
     "a = torch.randn(4, 8, 256, 64).bfloat16().requires_grad_(); g = torch.randn(4, 8, 256, 64).bfloat16()",
     "F.scaled_dot_product_attention(a, a, a, is_causal=True).backward(g)"),
)

RECURRENT = """\
m = nn.{kind}({inputs}, {hidden}, {layers}); x = torch.rand({steps}, {batch}, {inputs})
def both():
    m.zero_grad()
    m(x)[0].sum().backward()
def forward():
    with torch.no_grad():
        m(x)
"""
BACK = """\
def back():
    for p in given:
        p.grad = None
    result().sum().backward()
"""
ENCODER = """\
m = nn.TransformerEncoderLayer(256, 8, 1024, 0.0, batch_first=True); x = torch.rand(8, 128, 256)
given = list(m.parameters())
def result(): return m(x)
"""
QUERY = "q = torch.rand(8, 8, 256, 64, requires_grad=True); d = q.detach(); given = [q]"
SEQUENCE = _rows(
    "sequence", "torch.manual_seed(0)",
    *((f"{kind} {layers} x {hidden}, {steps} steps of {batch}, {which}",
       RECURRENT.format(kind=kind, inputs=inputs, hidden=hidden, layers=layers, steps=steps, batch=batch), f"{call}()")
      for kind in ("LSTM", "GRU", "RNN")
      for inputs, hidden, layers, steps, batch in ((200, 200, 2, 35, 20), (16, 32, 1, 10, 1))
      for which, call in (("forward", "forward"), ("forward + backward", "both"))),
    ("LSTMCell 64, batch 8", "m = nn.LSTMCell(64, 64); x = torch.rand(8, 64)", "m(x)"),
    ("Transformer encoder layer 256, 8 x 128", ENCODER + BACK, "back()"),
    ("Transformer encoder layer 256, 8 x 128, eval",
     ENCODER + "m.eval()\ndef run():\n    with torch.no_grad():\n        m(x)", "run()"),
    ("attention 8 x 8 x 256 x 64, causal", QUERY, "F.scaled_dot_product_attention(d, d, d, is_causal=True)"),
    ("attention with a mask", QUERY + "; mask = torch.rand(256, 256)", "F.scaled_dot_product_attention(d, d, d, mask)"),
    ("attention forward + backward", QUERY + "\ndef result(): return F.scaled_dot_product_attention(q, q, q)\n" + BACK,
     "back()"),
    ("attention with a mask, forward + backward", QUERY + "; mask = torch.rand(256, 256) > 0.3\n"
     "def result(): return F.scaled_dot_product_attention(q, q, q, mask)\n" + BACK, "back()"),
    ("batch_norm 256 x 128", "m = nn.BatchNorm1d(128); x = torch.rand(256, 128)", "m(x)"),
    ("batch_norm 256 x 128, forward + backward", "m = nn.BatchNorm1d(128); x = torch.rand(256, 128); "
     "given = list(m.parameters())\ndef result(): return m(x)\n" + BACK, "back()"),
    ("cross_entropy 700 x 33278, forward + backward", "x = torch.rand(700, 33278, requires_grad=True); "
     "t = torch.randint(0, 33278, (700,)); given = [x]\ndef result(): return F.cross_entropy(x, t)\n" + BACK, "back()"),
    *((f"{name} 256 x 128, forward + backward", "x = torch.rand(256, 128, requires_grad=True); "
       f"t = torch.rand(256, 128); given = [x]\ndef result(): return F.{name}(x, t)\n" + BACK, "back()")
      for name in ("mse_loss", "smooth_l1_loss", "binary_cross_entropy_with_logits")),
    ("pack and pad 64 sequences of up to 100 steps", "from operator import attrgetter; "
     "r = attrgetter('utils.rnn')(nn); x = torch.rand(64, 100, 32); n = torch.arange(100, 36, -1)",
     "r.pad_packed_sequence(r.pack_padded_sequence(x, n, True))"),
    ("Sequential of 10 Linear(8, 8)", "m = nn.Sequential(*[nn.Linear(8, 8) for _ in range(10)]); x = torch.rand(1, 8)",
     "m(x)", None, 5.0),
)

MOVEMENT = _rows(
    "movement", "torch.manual_seed(0); a = torch.rand(1024, 1024); i = torch.randint(0, 1024, (1024,)); m = a > 0.5",
    ("a[i]", "", "a[i]"), ("a[:, i]", "", "a[:, i]"), ("a[m]", "", "a[m]"),
    ("a[i] = 0", "", "a[i] = 0"), ("index_select", "", "a.index_select(1, i)"),
    ("gather", "j = torch.randint(0, 1024, (1024, 1024))", "a.gather(1, j)"),
    ("scatter_add", "j = torch.randint(0, 1024, (1024, 1024)); z = torch.zeros(1024, 1024)",
     "z.scatter_add_(1, j, a)"),
    ("cat of 8, rows", "p = [torch.rand(128, 1024) for _ in range(8)]", "torch.cat(p)"),
    ("cat of 8, columns", "p = [torch.rand(1024, 128) for _ in range(8)]", "torch.cat(p, 1)"),
    ("stack of 64", "p = [torch.rand(1024) for _ in range(64)]", "torch.stack(p)"),
    ("sort 1 M", "v = torch.rand(1 << 20)", "v.sort()"), ("sort rows, 1024²", "", "a.sort(1)"),
    ("topk 10 of rows, 1024²", "", "a.topk(10, 1)"), ("nonzero", "", "m.nonzero()"),
    ("unique of 1 M", "u = torch.randint(0, 1000, (1 << 20,))", "u.unique()"),
    ("flip", "", "a.flip(0)"), ("roll", "", "a.roll(3, 1)"), ("rand 1 M", "", "torch.rand(1 << 20)"),
    ("randn 1 M", "", "torch.randn(1 << 20)"), ("randperm 100 K", "", "torch.randperm(100000)"),
)

PARTNER = """\
import importlib
context = importlib.import_module(torch.__name__ + ".multiprocessing").get_context("fork")
there = context.Queue(16); answers, answer = context.Pipe(False)
def take():
    while True:
        for _ in range(there.get()):
            there.get()
        answer.send(None)
context.Process(target=take, daemon=True).start()
def send(tensors, made=lambda t: t):
    there.put(len(tensors))
    for t in tensors:
        there.put(made(t))
    answers.recv()
"""
PROCESSES = _rows(
    "processes", PARTNER,
    ("20 tensors of 1 KB through a queue", "", "send([torch.ones(256) for _ in range(20)])", None, 1),
    ("one of 1 KB, 20 times", "x = torch.ones(256)", "send([x] * 20)", None, 1),
    ("2 tensors of 64 MB through a queue", "", "send([torch.ones(1 << 24), torch.ones(1 << 24)])", None, 1),
    ("30 tensors of 64 MB, up to 16 on their way", "", "send(range(30), lambda _: torch.ones(1 << 24))", None, 1),
    ("one of 64 MB, 20 times", "x = torch.ones(1 << 24)", "send([x] * 20)", None, 1),
    ("share_memory_ of 1 KB", "", "torch.ones(256).share_memory_()", None, 1),
    ("share_memory_ of 64 MB", "", "torch.ones(1 << 24).share_memory_()", None, 1),
)

LOADING = """\
import importlib, random, tempfile
data = importlib.import_module(torch.__name__ + ".utils.data")
torch.manual_seed(0)
def passes(workers, dataset, batch_size):
    loader = data.DataLoader(dataset, batch_size, shuffle=True, num_workers=workers, persistent_workers=workers > 0)
    def once():
        for _ in loader:
            pass
    return once
"""
OBJECTS = """\
class Rows(data.Dataset):
    def __init__(self):
        self.rows = [{"x": float(k), "y": k, "name": str(k), "box": [1.5 * k, 2.5 * k]} for k in range(16384)]
    def __len__(self): return len(self.rows)
    def __getitem__(self, index): return self.rows[index]
"""
JPEGS = """\
import numpy, pathlib
from PIL import Image
folder = tempfile.TemporaryDirectory()
paths = [pathlib.Path(folder.name, f"{k}.jpg") for k in range(128)]
for k, path in enumerate(paths):
    small = numpy.random.default_rng(k).integers(0, 255, (24, 32, 3), dtype=numpy.uint8)
    Image.fromarray(small).resize((500, 375), Image.Resampling.BICUBIC).save(path, quality=90)
mean, std = torch.tensor([0.485, 0.456, 0.406]).view(3, 1, 1), torch.tensor([0.229, 0.224, 0.225]).view(3, 1, 1)
class Images(data.Dataset):
    def __init__(self): self.folder = folder
    def __len__(self): return len(paths)
    def __getitem__(self, index):
        image = Image.open(paths[index]).convert("RGB").resize((224, 224), Image.Resampling.BILINEAR)
        if random.random() < 0.5:
            image = image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
        x = torch.from_numpy(numpy.array(image)).permute(2, 0, 1).float().div(255)
        return x.sub(mean).div(std), index % 10
"""
DATA = _rows(
    "data", LOADING,
    *((f"{name}, {workers} workers", setup.replace("once = passes(", f"once = passes({workers}, "), "once()", None, 2)
      for name, setup in (
          ("16,384 rows of 784 floats, batch 64",
           "t = data.TensorDataset(torch.rand(16384, 784), torch.randint(0, 10, (16384,)))\nonce = passes(t, 64)"),
          ("16,384 rows of 8 floats, batch 64",
           "t = data.TensorDataset(torch.rand(16384, 8), torch.randint(0, 10, (16384,)))\nonce = passes(t, 64)"),
          ("16,384 dicts, batch 64", OBJECTS + "once = passes(Rows(), 64)"),
          ("128 JPEG files, batch 32", JPEGS + "once = passes(Images(), 32)"))
      for workers in (0, 2)),
)

SPARSE = _rows(
    "sparse", "torch.manual_seed(0)",
    *((f"CSR 10,000 x 10,000 with 100,000 values times {n} columns",
       "x = torch.sparse_coo_tensor(torch.randint(0, 10000, (2, 100000)), torch.rand(100000), (10000, 10000))\n"
       f"x = x.coalesce().to_sparse_csr(); y = torch.rand(10000, {n})", "x @ y") for n in (1, 8, 64)),
    ("coalesce 100,000 values", "i = torch.randint(0, 1000, (2, 100000)); v = torch.rand(100000)",
     "torch.sparse_coo_tensor(i, v, (1000, 1000)).coalesce()"),
    ("sparse embedding 100,000 x 64, 256 rows, step of SparseAdam",
     "m = nn.Embedding(100000, 64, sparse=True); o = optim.SparseAdam(m.parameters())\n"
     "i = torch.randint(0, 100000, (256,))", "o.zero_grad(); m(i).sum().backward(); o.step()"),
)

SEQUENCES = """\
torch.manual_seed(0)
lengths = torch.randint(20, 200, (32,)); least, most = int(lengths.min()), int(lengths.max())
offsets = torch.cat([torch.zeros(1, dtype=torch.int64), lengths.cumsum(0)]); values = torch.rand(int(offsets[-1]), 512)
x = torch.nested.nested_tensor_from_jagged(values, offsets, min_seqlen=least, max_seqlen=most)
"""
NESTED = _rows(
    "nested", SEQUENCES,
    ("x * 2, 2 sequences of 3 floats", "x = torch.nested.nested_tensor([torch.rand(2, 3), torch.rand(3, 3)], "
     "layout=torch.jagged)", "x * 2"),
    ("x + x, 2 matrices, strided layout", "x = torch.nested.nested_tensor([torch.rand(2, 3), torch.rand(3, 5)])",
     "x + x"),
    ("x * 2, 32 sequences of 20 to 200 x 512", "", "x * 2"),
    ("padded, 32 sequences", "", "x.to_padded_tensor(0.0)"),
    ("made of 32 tensors", "parts = list(x.unbind())", "torch.nested.nested_tensor(parts, layout=torch.jagged)"),
    ("sum of each of 32 sequences", "", "x.sum(1)"),
    ("largest of each of 32 sequences", "", "x.amax(1)"),
    ("softmax over each of 32 sequences", "", "x.softmax(1)"),
    ("linear 512 x 512 of 32 sequences", "w = torch.rand(512, 512)", "F.linear(x, w)"),
    ("attention of 32 sequences, 8 heads of 64",
     "q = x.unflatten(-1, [8, 64]).transpose(1, 2)", "F.scaled_dot_product_attention(q, q, q)"),
    ("encoder layer, 32 padded sequences", "m = nn.TransformerEncoder(nn.TransformerEncoderLayer(512, 8, 1024, "
     "batch_first=True), 1).eval().requires_grad_(False)\ny = x.to_padded_tensor(0.0)\n"
     "mask = torch.arange(most) >= lengths[:, None]", "m(y, src_key_padding_mask=mask)"),
)

PICTURES = """\
import importlib
T = importlib.import_module("torchvision.transforms" if torch.__name__ == "torch" else "flambeau.vision.transforms")
numpy, Image = importlib.import_module("numpy"), importlib.import_module("PIL.Image")
torch.manual_seed(0)
"""
VISION = _rows(
    "vision", PICTURES,
    ("a CIFAR picture: crop with padding, flip, to tensor, normalize",
     "x = Image.fromarray(numpy.random.RandomState(0).randint(0, 256, (32, 32, 3)).astype('uint8'))\n"
     "change = T.Compose([T.RandomCrop(32, padding=4), T.RandomHorizontalFlip(), T.ToTensor(),\n"
     "                    T.Normalize([0.4] * 3, [0.2] * 3)])", "change(x)", None, 1.3),
    ("a picture of 320 x 240: crop, resize to 224, flip, to tensor, normalize",
     "x = Image.fromarray(numpy.random.RandomState(0).randint(0, 256, (240, 320, 3)).astype('uint8'))\n"
     "change = T.Compose([T.RandomResizedCrop(224), T.RandomHorizontalFlip(), T.ToTensor(),\n"
     "                    T.Normalize([0.4] * 3, [0.2] * 3)])", "change(x)", None, 1.3),
)

MODELS = [Row("models", *entry) for entry in models.entries()]

ROWS = [*SMALL, *SCRIPTS, *AUTOGRAD, *TRANSFORMS, *TRAINING, *MATMUL, *QUANTIZED, *LARGE, *POINTWISE, *DOUBLES,
        *STRIDED, *SHORT_ROWS, *REDUCTIONS, *NETWORKS, *SEQUENCE, *MOVEMENT, *PROCESSES, *DATA, *SPARSE, *NESTED,
        *COMPILED, *VISION, *MODELS]
