# ruff: noqa (as programs for PyTorch are written)
"""Longer programs, of the kind that tutorials and model code have."""

import math
from typing import Dict, List, NamedTuple, Optional, Tuple

from .registry import given, torch

nn, F = torch.nn, torch.nn.functional


class LSTMState(NamedTuple):
    hx: torch.Tensor
    cx: torch.Tensor


class Cell(nn.Module):
    def __init__(self, n: int, m: int):
        super().__init__()
        self.weight_ih = nn.Parameter(torch.randn(4 * m, n) / 4)
        self.weight_hh = nn.Parameter(torch.randn(4 * m, m) / 4)
        self.norm = nn.LayerNorm(4 * m)

    def forward(self, x: torch.Tensor, state: LSTMState) -> Tuple[torch.Tensor, LSTMState]:
        hx, cx = state
        gates = self.norm(torch.mm(x, self.weight_ih.t()) + torch.mm(hx, self.weight_hh.t()))
        i, f, g, o = gates.chunk(4, 1)
        cy = torch.sigmoid(f) * cx + torch.sigmoid(i) * torch.tanh(g)
        hy = torch.sigmoid(o) * torch.tanh(cy)
        return hy, LSTMState(hy, cy)


def turned(lst: List[torch.Tensor]) -> List[torch.Tensor]:
    out = torch.jit.annotate(List[torch.Tensor], [])
    start = len(lst) - 1
    for i in range(len(lst)):
        out += [lst[start - i]]
    return out


class OneWay(nn.Module):
    def __init__(self, n: int, m: int, backward: bool):
        super().__init__()
        self.cell, self.backward_way = Cell(n, m), backward

    def forward(self, input: torch.Tensor, state: LSTMState) -> Tuple[torch.Tensor, LSTMState]:
        inputs = input.unbind(0)
        outputs: List[torch.Tensor] = []
        for i in range(len(inputs)):
            k = len(inputs) - 1 - i if self.backward_way else i
            out, state = self.cell(inputs[k], state)
            outputs += [out]
        if self.backward_way:
            outputs = turned(outputs)
        return torch.stack(outputs), state


@given(lambda: torch.rand(5, 2, 3))
class BothWays(nn.Module):
    def __init__(self):
        super().__init__()
        self.ways = nn.ModuleList([OneWay(3, 4, False), OneWay(3, 4, True)])

    def forward(self, x):
        outputs: List[torch.Tensor] = []
        states: List[LSTMState] = []
        for way in self.ways:
            out, state = way(x, LSTMState(x.new_zeros(2, 4), x.new_zeros(2, 4)))
            outputs.append(out)
            states.append(state)
        return torch.cat(outputs, -1), states[0].hx, states[1].cx


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.gru = nn.Embedding(12, 8), nn.GRU(8, 8)

    def forward(self, seq: torch.Tensor) -> Tuple[torch.Tensor, torch.Tensor]:
        out, hidden = self.gru(self.embedding(seq))
        return out, hidden


class Decoder(nn.Module):
    def __init__(self, embedding: nn.Embedding):
        super().__init__()
        self.embedding, self.gru, self.concat, self.out = embedding, nn.GRU(8, 8), nn.Linear(16, 8), nn.Linear(8, 12)

    def forward(self, step: torch.Tensor, hidden: torch.Tensor, seen: torch.Tensor):
        out, hidden = self.gru(self.embedding(step), hidden)
        weights = F.softmax(torch.sum(out * seen, dim=2).t(), dim=1).unsqueeze(1)
        context = weights.bmm(seen.transpose(0, 1))
        both = torch.tanh(self.concat(torch.cat((out.squeeze(0), context.squeeze(1)), 1)))
        return F.softmax(self.out(both), dim=1), hidden


@given(lambda: torch.tensor([[3], [5], [2]]), 4)
class Greedy(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = Encoder()
        self.decoder = Decoder(self.encoder.embedding)
        self._start, self._names = 1, {"unit": "word"}

    __constants__ = ["_start"]

    def forward(self, seq: torch.Tensor, most: int):
        seen, hidden = self.encoder(seq)
        step = torch.ones(1, 1, dtype=torch.long) * self._start
        tokens = torch.zeros([0], dtype=torch.long)
        scores = torch.zeros([0])
        for _ in range(most):
            found, hidden = self.decoder(step, hidden, seen)
            score, token = torch.max(found, dim=1)
            tokens = torch.cat((tokens, token), dim=0)
            scores = torch.cat((scores, score), dim=0)
            step = torch.unsqueeze(token, 0)
        return tokens, scores


@torch.jit.script
class Beam:
    def __init__(self, tokens: List[int], score: float):
        self.tokens = tokens
        self.score = score

    def extended(self, token: int, score: float) -> "Beam":
        return Beam(self.tokens + [token], self.score + score)

    def __lt__(self, other: "Beam") -> bool:
        return self.score < other.score


@given(lambda: torch.rand(4, 6), 2)
def beam_search(scores: torch.Tensor, width: int):
    beams = [Beam([0], 0.0)]
    for t in range(scores.size(0)):
        found: List[Beam] = []
        values, places = scores[t].topk(width)
        for beam in beams:
            for k in range(width):
                found.append(beam.extended(int(places[k]), float(values[k])))
        found.sort(reverse=True)
        beams = found[:width]
    return [b.tokens for b in beams], [b.score for b in beams]


@given(lambda: torch.rand(2, 6, 8))
class CausalAttention(nn.Module):
    def __init__(self, dim: int = 8, heads: int = 2):
        super().__init__()
        self.heads, self.scale = heads, (dim // heads) ** -0.5
        self.qkv, self.proj, self.drop = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim), nn.Dropout(0.1)
        self.register_buffer("mask", torch.tril(torch.ones(16, 16)).view(1, 1, 16, 16))

    def forward(self, x, cache: Optional[Tuple[torch.Tensor, torch.Tensor]] = None):
        b, t, c = x.shape
        q, k, v = self.qkv(x).split(c, dim=2)
        q = q.view(b, t, self.heads, c // self.heads).transpose(1, 2)
        k = k.view(b, t, self.heads, c // self.heads).transpose(1, 2)
        v = v.view(b, t, self.heads, c // self.heads).transpose(1, 2)
        if cache is not None:
            k = torch.cat([cache[0], k], dim=2)
            v = torch.cat([cache[1], v], dim=2)
        att = (q @ k.transpose(-2, -1)) * self.scale
        if cache is None:
            att = att.masked_fill(self.mask[:, :, :t, :t] == 0, float("-inf"))
        y = self.drop(F.softmax(att, dim=-1)) @ v
        return self.proj(y.transpose(1, 2).contiguous().view(b, t, c)), k.size(2)


@given(lambda: torch.rand(2, 10), 50)
def positions(x, n: int):
    out = torch.zeros(n, 8)
    for i in range(n):
        for j in range(0, 8, 2):
            out[i, j] = math.sin(i / (10000 ** (j / 8)))
            out[i, j + 1] = math.cos(i / (10000 ** (j / 8)))
    return out[: x.size(1)]


@given(lambda: torch.tensor([[0.0, 0.0, 2.0, 2.0], [0.1, 0.0, 2.0, 2.0], [5.0, 5.0, 6.0, 6.0]]),
       lambda: torch.tensor([0.9, 0.8, 0.7]), 0.5)
def suppressed(boxes: torch.Tensor, scores: torch.Tensor, limit: float) -> List[int]:
    order = scores.argsort(descending=True)
    kept: List[int] = []
    while order.numel() > 0:
        i = int(order[0].item())
        kept.append(i)
        if order.numel() == 1:
            break
        rest = order[1:]
        lt = torch.max(boxes[i, :2], boxes[rest, :2])
        rb = torch.min(boxes[i, 2:], boxes[rest, 2:])
        wh = (rb - lt).clamp(min=0)
        inter = wh[:, 0] * wh[:, 1]
        area = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
        iou = inter / (area[i] + area[rest] - inter)
        order = rest[iou <= limit]
    return kept


@given("the cat sat on the mat")
def counted_words(text: str) -> Dict[str, int]:
    counts: Dict[str, int] = {}
    for word in text.lower().split(" "):
        if word not in counts:
            counts[word] = 0
        counts[word] += 1
    return counts


@given(lambda: torch.rand(3, 4))
class Gate(nn.Module):
    def forward(self, x):
        if x.sum() > 0:
            return x
        else:
            return -x


@given(lambda: torch.rand(3, 4), lambda: torch.rand(3, 4))
class GatedCell(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate, self.linear = Gate(), nn.Linear(4, 4)

    def forward(self, x, h):
        new_h = torch.tanh(self.gate(self.linear(x)) + h)
        return new_h, new_h


@given(lambda: torch.rand(1, 3, 8, 8), [4, 2])
class Pyramid(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([nn.Sequential(nn.Conv2d(3, 3, 1), nn.ReLU()) for _ in range(2)])

    def forward(self, x, sizes: List[int]) -> Dict[str, torch.Tensor]:
        out: Dict[str, torch.Tensor] = {}
        for i, block in enumerate(self.blocks):
            size = sizes[i]
            y = F.interpolate(block(x), size=(size, size), mode="bilinear", align_corners=False)
            out[f"level{i}"] = y
        return out


@torch.jit.script
class Running:
    def __init__(self, momentum: float):
        self.momentum = momentum
        self.mean = torch.zeros(1)
        self.count = 0
        self.history = torch.jit.annotate(List[float], [])

    def update(self, x: torch.Tensor) -> float:
        self.mean = self.mean * (1 - self.momentum) + x.mean() * self.momentum
        self.count += 1
        self.history.append(float(self.mean))
        return self.history[-1]

    @property
    def last(self) -> Optional[float]:
        return self.history[-1] if len(self.history) > 0 else None


@given(lambda: torch.rand(4, 3))
def running_mean(x):
    stats = Running(0.5)
    before = stats.last
    total = 0.0
    for row in x.unbind(0):
        total += stats.update(row)
    last = stats.last
    assert last is not None
    return total, stats.count, last, before is None


@given(lambda: torch.rand(2, 4))
class Router(nn.Module):
    def __init__(self):
        super().__init__()
        self.experts = nn.ModuleDict({"a": nn.Linear(4, 2), "b": nn.Linear(4, 2)})
        self.order: List[str] = ["b", "a", "b"]

    def run(self, name: str, x: torch.Tensor) -> torch.Tensor:
        out = torch.zeros(0)
        found = False
        for key, expert in self.experts.items():
            if key == name:
                out = expert(x)
                found = True
        if not found:
            raise KeyError(f"no expert {name}")
        return out

    def forward(self, x):
        total = torch.zeros(2, 2)
        for name in self.order:
            total = total + self.run(name, x)
        return total


@given(lambda: torch.rand(3, 4), lambda: torch.tensor([1, 0, 2]), (1, 2))
def accuracy(scores: torch.Tensor, target: torch.Tensor, topk: Tuple[int, int] = (1, 2)) -> List[torch.Tensor]:
    found: List[torch.Tensor] = []
    _, pred = scores.topk(max(topk[0], topk[1]), 1, True, True)
    correct = pred.t().eq(target.view(1, -1).expand_as(pred.t()))
    for k in topk:
        found.append(correct[:k].reshape(-1).float().sum(0).mul_(100.0 / target.size(0)))
    return found
