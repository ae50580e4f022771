"""nn, nn.functional, nn.init, nn.utils, nn.parameter."""

import flambeau as torch
import flambeau.nn.functional as F
from flambeau import Tensor, nn
from flambeau.nn.utils.rnn import pad_sequence


class Block(nn.Module):
    scale: Tensor

    def __init__(self, width: int, dropout: float = 0.1) -> None:
        super().__init__()
        self.linear = nn.Linear(width, width, bias=False)
        self.norm = nn.LayerNorm(width)
        self.dropout = nn.Dropout(dropout)
        self.gain = nn.Parameter(torch.ones(width))
        self.register_buffer("scale", torch.ones(1))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.dropout(F.gelu(self.linear(self.norm(x)))) * self.gain * self.scale


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList([Block(8) for _ in range(2)])
        self.conv = nn.Conv2d(3, 8, kernel_size=3, padding=1, stride=(1, 1))
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.head = nn.Sequential(nn.Linear(8, 4), nn.ReLU(inplace=True), nn.Linear(4, 2))

    def forward(self, images: Tensor) -> Tensor:
        x = self.pool(self.conv(images)).flatten(1)
        for block in self.blocks:
            x = block(x)
        logits: Tensor = self.head(x)
        return logits


def loss_of(net: nn.Module, images: Tensor, labels: Tensor) -> Tensor:
    logits: Tensor = net(images)
    loss = nn.CrossEntropyLoss(label_smoothing=0.1)(logits, labels)
    return loss + F.cross_entropy(logits, labels) + F.mse_loss(logits, torch.zeros_like(logits))


def functional(x: Tensor) -> list[Tensor]:
    return [F.relu(x), F.relu(x, inplace=False), F.softmax(x, dim=-1), F.log_softmax(x, -1),
            F.dropout(x, 0.5, training=False),
            F.layer_norm(x, (x.size(-1),)), F.linear(x, torch.ones(2, x.size(-1))), F.pad(x, (1, 1)),
            F.one_hot(x.long()),
            F.leaky_relu(x, 0.2), F.scaled_dot_product_attention(x[None], x[None], x[None], is_causal=True)]


def recurrent(x: Tensor) -> Tensor:
    lstm, gru = nn.LSTM(4, 5, num_layers=2, batch_first=True), nn.GRU(4, 5)
    output, (h, c) = lstm(x)
    assert output.shape[0] == x.shape[0]
    hidden: Tensor = gru(x)[1]
    attended, weights = nn.MultiheadAttention(4, 2, batch_first=True)(x, x, x)
    assert weights is not None
    return h.sum() + c.sum() + hidden.sum() + attended.sum()


def initialised(net: nn.Module) -> int:
    for name, parameter in net.named_parameters():
        if parameter.dim() > 1:
            nn.init.kaiming_uniform_(parameter, a=5 ** 0.5, nonlinearity="leaky_relu")
        else:
            nn.init.zeros_(parameter)
        assert name
    norm: Tensor = nn.utils.clip_grad_norm_(net.parameters(), max_norm=1.0)
    assert norm.dim() == 0
    return sum(p.numel() for p in net.parameters() if p.requires_grad)


model = Net().train()
images, labels = torch.randn(2, 3, 5, 5), torch.tensor([0, 1])
loss_of(model, images, labels).backward()
functional(torch.ones(2, 4))
recurrent(torch.randn(2, 3, 4))
initialised(model.eval().to(torch.float32))
state: dict[str, object] = dict(model.state_dict())
model.load_state_dict(model.state_dict(), strict=True)
padded: Tensor = pad_sequence([torch.ones(2), torch.ones(3)], batch_first=True)
handle = model.register_forward_hook(lambda module, inputs, output: None)
handle.remove()
children = [type(child).__name__ for child in model.children()]
weight: nn.Parameter = nn.Linear(2, 2).weight
