"""Programs that PyTorch and this library both make, for exports to be compared: `lib` is the library, and this module
imports neither."""


def programs(lib):
    """{name: (how a module is made, its arguments, dynamic_shapes)}."""
    nn, functional, dim = lib.nn, lib.nn.functional, lib.export.Dim
    batch, length = dim("batch", min=1, max=64), dim("length", min=2, max=32)
    found = {}

    class Called(nn.Module):
        def __init__(self, function):
            super().__init__()
            self.function = function

        def forward(self, *args):
            return self.function(*args)

    def case(name, args, shapes=None):
        def take(function):
            found[name] = lambda: Called(function), args, None if shapes is None else {"args": shapes}
            return function

        return take

    def model(name, make, args, shapes=None):
        found[name] = make, args, shapes

    x, image = lib.randn(4, 6), lib.randn(2, 3, 16, 16)
    sequence, words = lib.randn(3, 5, 8), lib.randint(0, 20, (3, 5))
    sizes = ({0: batch, 1: length},)

    model("mlp", lambda: nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 2)), (x,), ({0: batch},))
    model("conv", lambda: nn.Sequential(
        nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(4, 6, 3, stride=2),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(6, 3)).eval(), (image,), ({0: batch},))
    model("conv_training", lambda: nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU()), (image,))
    model("upsampling", lambda: nn.Sequential(
        nn.Conv2d(3, 4, 3, padding=1), nn.GroupNorm(2, 4), nn.SiLU(), nn.Upsample(scale_factor=2, mode="bilinear"),
        nn.ConvTranspose2d(4, 2, 2, stride=2), nn.AvgPool2d(2)), (image,), ({0: batch},))
    model("encoder", lambda: nn.TransformerEncoder(
        nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 2, enable_nested_tensor=False).eval(), (sequence,),
        sizes)
    model("decoder", lambda: nn.TransformerDecoderLayer(8, 2, 16, batch_first=True).eval(), (sequence, sequence + 1))
    model("lstm", lambda: nn.LSTM(8, 5, 2, batch_first=True, bidirectional=True), (sequence,))
    model("gru", lambda: nn.GRU(8, 5, batch_first=True), (sequence,), ({0: batch},))
    model("embedding", lambda: nn.Sequential(nn.Embedding(20, 8), nn.LayerNorm(8), nn.GELU(), nn.Linear(8, 20)),
          (words,), sizes)

    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.project, self.out = nn.Linear(8, 24), nn.Linear(8, 8)
            self.register_buffer("scale", lib.tensor(0.5))

        def forward(self, x):
            b, n, c = x.shape
            q, k, v = self.project(x).reshape(b, n, 3, 2, c // 2).permute(2, 0, 3, 1, 4).unbind(0)
            y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            return self.out(y.transpose(1, 2).reshape(b, n, c)) * self.scale

    model("attention", Attention, (sequence,), sizes)

    class Counting(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("calls", lib.zeros(2))
            self.register_buffer("hidden", lib.ones(6), persistent=False)
            self.table = lib.arange(6.0)

        def forward(self, x, y):
            self.calls.add_(1)
            y.mul_(2)
            return x * self.table + self.hidden + self.calls.sum(), y + 1

    model("writes", Counting, (x, lib.ones(3)))

    class Shared(nn.Module):
        def __init__(self):
            super().__init__()
            self.first = self.second = nn.Linear(6, 6)
            self.rows = nn.Parameter(lib.randn(8, 6)[::2])

        def forward(self, x):
            return self.second(self.first(x)) @ self.rows.t()

    model("shared", Shared, (x,), ({0: batch},))

    @case("trees", (x, {"a": x, "b": [x, 2]}))
    def trees(x, d):
        return {"sum": x + d["a"], "rest": (d["b"][0] * d["b"][1], None, 3, "text")}

    @case("sizes", (lib.randn(8, 3), lib.randn(9, 3)), ({0: dim.AUTO}, {0: dim.AUTO}))
    def sizes_of(x, y):
        n = x.shape[0]
        if n % 2 == 0:
            x = x.reshape(-1, 2, 3).sum(1) + y[:n // 2]
        return x, x.sum() / n, x * (n / 3), -n, n % 3, lib.sym_max(n, 5)

    @case("values", (x, lib.tensor(2)))
    def values(x, n):
        k = n.item()
        lib._check(k >= 1)
        lib._check(k <= x.shape[0])
        return lib.ones(k, 2), x[x > 0], x * x.mean().item(), x.nonzero()

    @case("number", (x, 5), (None, dim.AUTO))
    def number(x, n):
        return x * n, x.view(-1)[:n], n + 1

    @case("branches", (x,), ({0: batch},))
    def branches(x):
        return lib.cond(x.sum() > 0, lambda a: a.sin(), lambda a: a.cos() + 1, (x,))

    @case("quiet", (x,))
    def quiet(x):
        with lib.no_grad():
            y = x * 2
        return y + x

    @case("results", (x,))
    def results(x):
        values, places = x.max(0)
        return values, places, *x.split(2, 1), *x.topk(2), lib.linalg.svd(x)[1], *x.unbind(1), lib.var_mean(x)[0]

    @case("kinds", (x,))
    def kinds(x):
        return (x.to(lib.float64), x.half().float(), (x > 0).int(), lib.arange(3, dtype=lib.int16), x.bool().any(),
                lib.fft.fft(x) * (2 + 1j), lib.full((2,), 7), lib.zeros_like(x), x.new_ones(2, 2), x.clamp(min=0),
                lib.tensor([1.5, 2.5]) * 2, x * float("inf"))

    @case("indices", (x, lib.tensor([2, 0])))
    def indices(x, i):
        y = x.clone()
        y[1:3, ::2] = 1
        y[i] = 0
        y.index_add_(0, i, x[:2])
        return y, x[i], x[:, None, i], x.gather(0, i[None]), lib.where(x > 0, x, 0), x.masked_fill(x > 0, 1.0)

    @case("products", (x, sequence))
    def products(x, y):
        return (x @ x.t(), lib.einsum("bij,bkj->bik", y, y), lib.addmm(x[:, :4], x, x.t(), beta=0.5),
                lib.bmm(y, y.transpose(1, 2)), lib.outer(x[0], x[1]), lib.baddbmm(y @ y.mT, y, y.mT),
                lib.dot(x[0], x[1]))

    @case("losses", (x, lib.randint(0, 6, (4,))))
    def losses(x, i):
        p = x.sigmoid()
        return (functional.cross_entropy(x, i), functional.nll_loss(x.log_softmax(1), i, reduction="sum"),
                functional.mse_loss(x, p), functional.binary_cross_entropy(p, p.round()),
                functional.smooth_l1_loss(x, p), functional.kl_div(x.log_softmax(1), p.softmax(1),
                                                                   reduction="batchmean"), functional.one_hot(i, 6))

    @case("padding", (image,))
    def padding(x):
        return (functional.pad(x, (1, 2, 3, 4)), functional.pad(x, (1, 1, 0, 1), "reflect"), functional.pad(
            x, (1, 1, 1, 1), "replicate"), functional.interpolate(x, size=(7, 9)), functional.pixel_shuffle(
                x.repeat(1, 4, 1, 1), 2), functional.unfold(x, 3), functional.grid_sample(
                    x, lib.zeros(2, 4, 4, 2), align_corners=False), functional.max_pool2d(x, 3, return_indices=True),
            functional.adaptive_max_pool2d(x, 4))

    return found
