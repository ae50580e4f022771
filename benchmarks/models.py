"""Whole networks: training steps and inference, the same text for both libraries (torchvision beside PyTorch).

Sizes are such that a step takes tenths of a second on two cores. GPT, LSTM, GNMT and NCF are written out here.
"""

VISION = """\
import importlib
models = importlib.import_module("torchvision.models" if torch.__name__ == "torch" else "flambeau.vision.models")
torch.manual_seed(0)
"""
STEP = """\
m.train()
o = optim.SGD(m.parameters(), 1e-3, momentum=0.9)
def step():
    o.zero_grad()
    y = m(x)
    F.cross_entropy(y.flatten(0, -2) if y.ndim < 4 else y, t).backward()
    o.step()
"""
INFER = """\
m.eval()
def infer():
    with torch.no_grad():
        m(x)
"""
SMALL_CNN = """\
m = nn.Sequential(nn.Conv2d(1, 32, 3), nn.ReLU(), nn.Conv2d(32, 64, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Dropout(0.25),
                  nn.Flatten(), nn.Linear(9216, 128), nn.ReLU(), nn.Dropout(0.5), nn.Linear(128, 10))
x = torch.rand(64, 1, 28, 28); t = torch.randint(0, 10, (64,))
"""
UNET = """\
def pair(i, o):
    return nn.Sequential(nn.Conv2d(i, o, 3, padding=1, bias=False), nn.BatchNorm2d(o), nn.ReLU(inplace=True),
                         nn.Conv2d(o, o, 3, padding=1, bias=False), nn.BatchNorm2d(o), nn.ReLU(inplace=True))
class UNet(nn.Module):
    def __init__(self, w=32):
        super().__init__()
        self.down = nn.ModuleList([pair(3, w), pair(w, 2 * w), pair(2 * w, 4 * w), pair(4 * w, 8 * w)])
        self.up = nn.ModuleList([nn.ConvTranspose2d(2 * k, k, 2, 2) for k in (4 * w, 2 * w, w)])
        self.join = nn.ModuleList([pair(2 * k, k) for k in (4 * w, 2 * w, w)])
        self.last = nn.Conv2d(w, 4, 1)
    def forward(self, x):
        kept = []
        for k, d in enumerate(self.down):
            x = d(F.max_pool2d(x, 2) if k else x)
            kept.append(x)
        for u, j, k in zip(self.up, self.join, kept[-2::-1]):
            x = j(torch.cat([k, u(x)], 1))
        return self.last(x)
m = UNet(); x = torch.rand(2, 3, 128, 128); t = torch.randint(0, 4, (2, 128, 128))
"""
GPT = """\
class Layer(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.h, self.a, self.b = h, nn.LayerNorm(d), nn.LayerNorm(d)
        self.qkv, self.o = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.f, self.g = nn.Linear(d, 4 * d), nn.Linear(4 * d, d)
    def forward(self, x):
        n, l, d = x.shape
        q, k, v = (s.view(n, l, self.h, -1).transpose(1, 2) for s in self.qkv(self.a(x)).split(d, 2))
        x = x + self.o(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(n, l, d))
        return x + self.g(F.gelu(self.f(self.b(x))))
class GPT(nn.Module):
    def __init__(self, tokens=96, d=256, layers=4, places=128):
        super().__init__()
        self.t, self.p = nn.Embedding(tokens, d), nn.Embedding(places, d)
        self.layers = nn.Sequential(*[Layer(d, 8) for _ in range(layers)])
        self.n, self.head = nn.LayerNorm(d), nn.Linear(d, tokens)
    def forward(self, x):
        return self.head(self.n(self.layers(self.t(x) + self.p(torch.arange(x.shape[1])))))
m = GPT(); x = torch.randint(0, 96, (8, 128)); t = torch.randint(0, 96, (1024,))
"""
LSTM = """\
class Words(nn.Module):
    def __init__(self):
        super().__init__()
        self.e, self.r, self.o = nn.Embedding(2000, 256), nn.LSTM(256, 256, 2, dropout=0.2), nn.Linear(256, 2000)
    def forward(self, x): return self.o(self.r(self.e(x))[0])
m = Words(); x = torch.randint(0, 2000, (35, 20)); t = torch.randint(0, 2000, (700,))
"""
GNMT = """\
class Translator(nn.Module):
    def __init__(self, d=256):
        super().__init__()
        self.e, self.f, self.o = nn.Embedding(4000, d), nn.Embedding(4000, d), nn.Linear(d, 4000)
        self.first, self.enc = nn.LSTM(d, d // 2, bidirectional=True), nn.LSTM(d, d, 3)
        self.dec, self.more, self.query = nn.LSTM(d, d), nn.LSTM(2 * d, d, 3), nn.Linear(d, d)
    def forward(self, x):
        seen = self.enc(self.first(self.e(x))[0])[0]
        y = self.dec(self.f(x))[0]
        w = torch.bmm(self.query(y).transpose(0, 1), seen.permute(1, 2, 0)).softmax(-1)
        return self.o(self.more(torch.cat([y, torch.bmm(w, seen.transpose(0, 1)).transpose(0, 1)], 2))[0])
m = Translator(); x = torch.randint(0, 4000, (25, 16)); t = torch.randint(0, 4000, (400,))
"""
NCF = """\
class NCF(nn.Module):
    def __init__(self, users=6000, items=3700):
        super().__init__()
        self.a, self.b, self.c, self.d = (nn.Embedding(n, w) for n, w in
                                          ((users, 64), (items, 64), (users, 128), (items, 128)))
        self.m = nn.Sequential(nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 128), nn.ReLU(), nn.Linear(128, 64),
                               nn.ReLU())
        self.o = nn.Linear(128, 2)
    def forward(self, x):
        u, i = x[:, 0], x[:, 1]
        return self.o(torch.cat([self.a(u) * self.b(i), self.m(torch.cat([self.c(u), self.d(i)], 1))], 1))
m = NCF(); x = torch.randint(0, 3700, (1024, 2)); t = torch.randint(0, 2, (1024,))
"""
MLP = """\
m = nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))
x = torch.rand(128, 784); t = torch.randint(0, 10, (128,))
"""
DECODE = GPT + """\
m.eval()
m.requires_grad_(False)
x = torch.randint(0, 96, (1, 64))
heads = [torch.rand(1, 8, 64, 32) for _ in range(8)]
def decode():
    y = m.t(x[:, -1:]) + m.p(torch.arange(63, 64))
    for k, b in enumerate(m.layers):
        q, key, v = (s.view(1, 1, 8, -1).transpose(1, 2) for s in b.qkv(b.a(y)).split(256, 2))
        key, v = torch.cat([heads[2 * k][:, :, 1:], key], 2), torch.cat([heads[2 * k + 1][:, :, 1:], v], 2)
        y = y + b.o(F.scaled_dot_product_attention(q, key, v).transpose(1, 2).reshape(1, 1, 256))
        y = y + b.g(F.gelu(b.f(b.b(y))))
    return m.head(m.n(y)).argmax()
"""


def _picture(name, batch, size):
    return f"m = models.{name}(); x = torch.rand({batch}, 3, {size}, {size}); t = torch.randint(0, 9, ({batch},))\n"


#: (name, its set-up)
PICTURES = [(f"{shown}, batch {batch}, {size} px", _picture(name, batch, size)) for shown, name, batch, size in (
    ("AlexNet", "alexnet", 16, 224), ("VGG-19", "vgg19", 2, 224), ("ResNet-18", "resnet18", 8, 224),
    ("ResNet-50", "resnet50", 4, 224), ("MobileNetV2", "mobilenet_v2", 4, 224))]
PICTURES += [("MNIST network, batch 64", SMALL_CNN), ("U-Net, batch 2, 128 px", UNET)]
OTHERS = [("LSTM language model", LSTM), ("GNMT-like", GNMT), ("NCF", NCF), ("MLP", MLP), ("GPT", GPT)]
SEEN = [(f"{shown}, batch {batch}", _picture(name, batch, 224)) for batch in (1, 16) for shown, name in (
    ("ResNet-50", "resnet50"), ("MobileNetV2", "mobilenet_v2"), ("VGG-19", "vgg19"), ("ViT-B/16", "vit_b_16"))]
LAST = "m = m.to(memory_format=torch.channels_last); x = x.contiguous(memory_format=torch.channels_last)\n"
HALVES = "m = m.bfloat16(); x = x.bfloat16()\n"


def entries():
    """(name, set-up, statement, aim in seconds, least ratio to PyTorch)"""
    for name, setup in PICTURES:
        yield f"training {name}", VISION + setup + STEP, "step()", None, 1.25
    for name, setup in PICTURES[2:5]:
        yield f"training {name}, channels last", VISION + setup + LAST + STEP, "step()", None, 1.0
    for name, setup in PICTURES[3:5]:
        yield f"training {name}, bfloat16", VISION + setup + HALVES + STEP, "step()", None, 1.0
        yield f"training {name}, bfloat16, channels last", VISION + setup + LAST + HALVES + STEP, "step()", None, 1.0
    for name, setup in OTHERS:
        yield f"training {name}", "torch.manual_seed(0)\n" + setup + STEP, "step()", None, 1.5
    for name, setup in (OTHERS[0], OTHERS[4]):
        setup = "torch.manual_seed(0)\n" + setup + "m = m.bfloat16()\n"
        yield f"training {name}, bfloat16", setup + STEP, "step()", None, 1.0
    for name, setup in SEEN:
        yield f"inference {name}", VISION + setup + INFER, "infer()", None, 1.2
    for name, setup in SEEN[:2]:
        yield f"inference {name}, channels last", VISION + setup + LAST + INFER, "infer()", None, 1.0
        yield f"inference {name}, bfloat16, channels last", VISION + setup + LAST + HALVES + INFER, "infer()", None, 1.0
    yield f"inference {SEEN[7][0]}, bfloat16", VISION + SEEN[7][1] + HALVES + INFER, "infer()", None, 1.0
    yield "a token of a GPT", "torch.manual_seed(0)\n" + DECODE, "decode()", None, 2.0
