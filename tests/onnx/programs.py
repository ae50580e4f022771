"""Models of the kinds that people export, small."""

import flambeau
from flambeau import nn
from flambeau.nn import functional as F


class CausalAttention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.qkv, self.out = heads, nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x):
        batch, steps, width = x.shape
        q, k, v = (t.view(batch, steps, self.heads, width // self.heads).transpose(1, 2)
                   for t in self.qkv(x).split(width, 2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).contiguous().view(batch, steps, width))


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.norm1, self.attention = nn.LayerNorm(width), CausalAttention(width, heads)
        self.norm2 = nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class GPT(nn.Module):
    def __init__(self, words=50, width=16, heads=2, layers=2, steps=32):
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(steps, width)
        self.blocks = nn.ModuleList([Block(width, heads) for _ in range(layers)])
        self.norm, self.out = nn.LayerNorm(width), nn.Linear(width, words, bias=False)

    def forward(self, tokens):
        x = self.words(tokens) + self.places(flambeau.arange(tokens.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.out(self.norm(x))


class ViT(nn.Module):
    def __init__(self):
        super().__init__()
        self.patches, self.first = nn.Conv2d(3, 16, 8, 8), nn.Parameter(flambeau.randn(1, 1, 16))
        self.places = nn.Parameter(flambeau.randn(1, 17, 16))
        layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, norm_first=True)
        self.encoder, self.head = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), nn.Linear(16, 5)

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = flambeau.cat([self.first.expand(x.shape[0], -1, -1), x], 1) + self.places
        return self.head(self.encoder(x)[:, 0])


def conv(before, after):
    return nn.Sequential(nn.Conv2d(before, after, 3, padding=1, bias=False), nn.BatchNorm2d(after), nn.ReLU())


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.down, self.low, self.up, self.out = conv(3, 4), conv(4, 8), conv(12, 4), nn.Conv2d(4, 2, 1)

    def forward(self, x):
        high = self.down(x)
        low = self.low(F.max_pool2d(high, 2))
        low = F.interpolate(low, size=high.shape[2:], mode="bilinear", align_corners=False)
        return self.out(self.up(flambeau.cat([high, low], 1)))


class Tagger(nn.Module):
    def __init__(self, kind, **options):
        super().__init__()
        self.words = nn.Embedding(20, 6)
        self.layers = kind(6, 5, batch_first=True, **options)
        self.out = nn.Linear(10 if options.get("bidirectional") else 5, 3)

    def forward(self, tokens):
        return self.out(self.layers(self.words(tokens))[0])


class Detector(nn.Module):
    """Boxes that stay after suppression, with their scores, best first."""

    def __init__(self):
        super().__init__()
        self.score = nn.Linear(4, 1)

    def forward(self, boxes):
        scores = self.score(boxes).sigmoid().squeeze(1)
        corners = flambeau.cat([boxes[:, :2], boxes[:, :2] + boxes[:, 2:].abs() + 0.1], 1)
        kept = flambeau.ops.torchvision.nms(corners, scores, 0.5)
        return corners[kept], scores[kept]


class Spectrum(nn.Module):
    def forward(self, x):
        found = flambeau.stft(x, 16, 8, window=flambeau.hann_window(16), return_complex=True)
        return found.abs().log1p(), flambeau.view_as_real(found)


def mlp():
    return nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(), nn.Linear(16, 4))


def cnn():
    return nn.Sequential(conv(3, 4), nn.MaxPool2d(2), conv(4, 6), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                         nn.Linear(6, 3))


def encoder():
    layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
    return nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)


def tokens(*size):
    return flambeau.randint(0, 20, size)


#: name -> (what makes the model, arguments, the dimensions of each argument that stay open, other arguments)
MODELS = {
    "mlp": (mlp, lambda: (flambeau.randn(3, 8),), ({0: "batch"},), lambda: (flambeau.randn(7, 8),)),
    "cnn": (cnn, lambda: (flambeau.randn(2, 3, 8, 8),), ({0: "batch"},), lambda: (flambeau.randn(5, 3, 8, 8),)),
    "lstm": (lambda: Tagger(nn.LSTM), lambda: (tokens(2, 5),), ({0: "batch", 1: "steps"},), lambda: (tokens(3, 9),)),
    "lstm2": (lambda: Tagger(nn.LSTM, num_layers=2, bidirectional=True, dropout=0.5), lambda: (tokens(2, 5),),
              ({0: "batch", 1: "steps"},), lambda: (tokens(3, 9),)),
    "gru": (lambda: Tagger(nn.GRU, num_layers=2), lambda: (tokens(2, 5),), ({0: "batch", 1: "steps"},),
            lambda: (tokens(4, 3),)),
    "rnn": (lambda: Tagger(nn.RNN, bidirectional=True), lambda: (tokens(2, 5),), ({0: "batch", 1: "steps"},),
            lambda: (tokens(4, 3),)),
    "rnn_relu": (lambda: Tagger(nn.RNN, nonlinearity="relu", bias=False), lambda: (tokens(2, 5),), None, None),
    "encoder": (encoder, lambda: (flambeau.randn(2, 5, 16),), ({0: "batch", 1: "steps"},),
                lambda: (flambeau.randn(3, 7, 16),)),
    "gpt": (GPT, lambda: (tokens(2, 5),), ({0: "batch", 1: "steps"},), lambda: (tokens(3, 11),)),
    "gpt_fixed": (GPT, lambda: (tokens(2, 5),), None, None),
    "vit": (ViT, lambda: (flambeau.randn(2, 3, 32, 32),), ({0: "batch"},), lambda: (flambeau.randn(3, 3, 32, 32),)),
    "unet": (UNet, lambda: (flambeau.randn(2, 3, 8, 8),), ({0: "batch", 2: "height", 3: "width"},),
             lambda: (flambeau.randn(3, 3, 12, 10),)),
    "detector": (Detector, lambda: (flambeau.randn(6, 4),), ({0: "boxes"},), lambda: (flambeau.randn(9, 4),)),
    "spectrum": (Spectrum, lambda: (flambeau.randn(2, 64),), ({0: "batch"},), lambda: (flambeau.randn(3, 64),)),
}
