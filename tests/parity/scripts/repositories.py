# ruff: noqa (as programs for PyTorch are written)
"""Programs of the kind that repositories of models have: decoders, tokenizers, streams, samplers."""

import math
from collections import OrderedDict
from dataclasses import dataclass
from enum import Enum
from typing import Dict, List, NamedTuple, Optional, Tuple

from .registry import given, matrix, torch

nn, F = torch.nn, torch.nn.functional
Tensor = torch.Tensor


# ---- detection -------------------------------------------------------------------------------------------------------

class Detections(NamedTuple):
    boxes: Tensor
    scores: Tensor
    labels: Tensor


def box_area(boxes: Tensor) -> Tensor:
    return (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])


def box_iou(a: Tensor, b: Tensor) -> Tensor:
    lt = torch.max(a[:, None, :2], b[:, :2])
    rb = torch.min(a[:, None, 2:], b[:, 2:])
    wh = (rb - lt).clamp(min=0)
    inter = wh[:, :, 0] * wh[:, :, 1]
    return inter / (box_area(a)[:, None] + box_area(b) - inter)


def suppressed(boxes: Tensor, scores: Tensor, threshold: float) -> Tensor:
    order = scores.argsort(descending=True)
    keep: List[int] = []
    while order.numel() > 0:
        i = int(order[0])
        keep.append(i)
        if order.numel() == 1:
            break
        iou = box_iou(boxes[i].unsqueeze(0), boxes[order[1:]])[0]
        order = order[1:][iou <= threshold]
    return torch.tensor(keep, dtype=torch.int64)


@given(lambda: torch.rand(12, 4), lambda: torch.rand(12, 3), (32, 48))
class PostProcess(nn.Module):
    """Boxes from offsets, clipped, best of each class without those that overlap."""

    __constants__ = ["score_threshold"]

    def __init__(self, score_threshold: float = 0.2, iou_threshold: float = 0.4, top: int = 5):
        super().__init__()
        self.score_threshold, self.iou_threshold, self.top = score_threshold, iou_threshold, top
        self.register_buffer("weights", torch.tensor([10.0, 10.0, 5.0, 5.0]))

    def decode(self, offsets: Tensor, size: Tuple[int, int]) -> Tensor:
        h, w = size
        c = offsets[:, :2] * torch.tensor([w, h], dtype=offsets.dtype)
        half = (offsets[:, 2:] / self.weights[2:]).exp() * 5
        boxes = torch.cat([c - half, c + half], dim=1)
        return torch.stack([boxes[:, 0].clamp(0, w), boxes[:, 1].clamp(0, h),
                            boxes[:, 2].clamp(0, w), boxes[:, 3].clamp(0, h)], dim=-1)

    def forward(self, offsets, logits, size):
        # type: (Tensor, Tensor, Tuple[int, int]) -> List[Detections]
        boxes = self.decode(offsets, size)
        scores = F.softmax(logits, -1)
        out = torch.jit.annotate(List[Detections], [])
        for label in range(1, scores.shape[1]):
            s = scores[:, label]
            inds = torch.where(s > self.score_threshold)[0]
            b, s = boxes[inds], s[inds]
            keep = suppressed(b, s, self.iou_threshold)[:self.top]
            out.append(Detections(b[keep], s[keep], torch.full_like(keep, label)))
        return out


# ---- decoding --------------------------------------------------------------------------------------------------------

@torch.jit.script
class Hypothesis:
    def __init__(self, tokens: List[int], score: float):
        self.tokens = tokens
        self.score = score

    def __lt__(self, other: "Hypothesis") -> bool:
        return self.score < other.score

    def extended(self, token: int, score: float) -> "Hypothesis":
        return Hypothesis(self.tokens + [token], self.score + score)

    def normalized(self, alpha: float = 0.6) -> float:
        return self.score / math.pow(float(len(self.tokens)), alpha)


@given(lambda: torch.randn(5, 6, 6), 3, 5)
def hypotheses(transitions, width: int, end: int) -> Tuple[List[List[int]], List[float]]:
    live = [Hypothesis([0], 0.0)]
    done: List[Hypothesis] = []
    for step in range(transitions.size(0)):
        table = transitions[step].log_softmax(-1)
        candidates: List[Hypothesis] = []
        for h in live:
            values, tokens = table[h.tokens[-1]].topk(width)
            for k in range(width):
                candidates.append(h.extended(int(tokens[k]), float(values[k])))
        candidates.sort(reverse=True)
        live = []
        for h in candidates[:width]:
            if h.tokens[-1] == end:
                done.append(h)
            else:
                live.append(h)
        if len(live) == 0:
            break
    if len(done) == 0:
        done = live
    return [h.tokens for h in done], [h.normalized() for h in done]


@given(lambda: torch.randn(2, 9, 4), lambda: torch.tensor([9, 6]), ["_", "a", "b", "c"])
def greedy_texts(emissions: Tensor, lengths: Tensor, labels: List[str]) -> List[str]:
    found: List[str] = []
    for row, n in zip(emissions.argmax(-1), lengths):
        last = -1
        text = ""
        for k in row[:int(n)]:
            token = int(k)
            if token != last and token != 0:
                text += labels[token]
            last = token
        found.append(text)
    return found


# ---- texts -----------------------------------------------------------------------------------------------------------

@given(["The cat", "the unknown mat is", ""], 4)
class Tokenizer(nn.Module):
    """Words and their pieces by a table, padded."""

    vocabulary: Dict[str, int]
    cache: Dict[str, List[int]]

    def __init__(self):
        super().__init__()
        words = ["<pad>", "<unk>", "the", "cat", "mat", "##s", "i"]
        self.vocabulary = {word: k for k, word in enumerate(words)}
        self.cache = {}
        self.pad = 0

    @property
    def unknown(self) -> int:
        return self.vocabulary["<unk>"]

    def pieces(self, word: str) -> List[int]:
        if word in self.cache:
            return self.cache[word]
        out: List[int] = []
        start = 0
        while start < len(word):
            end = len(word)
            found = -1
            while start < end:
                piece = word[start:end] if start == 0 else "##" + word[start:end]
                if piece in self.vocabulary:
                    found = self.vocabulary[piece]
                    break
                end -= 1
            if found < 0:
                out = [self.unknown]
                break
            out.append(found)
            start = end
        self.cache[word] = out
        return out

    def forward(self, lines: List[str], length: int) -> Tuple[Tensor, Tensor, Dict[str, List[int]]]:
        rows: List[List[int]] = []
        for line in lines:
            row: List[int] = []
            for word in line.strip().lower().split():
                row.extend(self.pieces(word))
            row = row[:length]
            rows.append(row + [self.pad] * (length - len(row)))
        ids = torch.tensor(rows)
        return ids, ids != self.pad, self.cache


# ---- streams ---------------------------------------------------------------------------------------------------------

@given(lambda: torch.randn(2, 3, 6))
class Streaming(nn.Module):
    """A recurrent network that is given a part at a time, and remembers."""

    state: Dict[str, Tensor]

    def __init__(self):
        super().__init__()
        self.cells = nn.ModuleList([nn.GRUCell(6, 6), nn.GRUCell(6, 6)])
        self.norm = nn.LayerNorm(6)
        self.state = {}

    @torch.jit.export
    def reset(self) -> None:
        self.state.clear()

    def step(self, x: Tensor) -> Tensor:
        for k, cell in enumerate(self.cells):
            key = "h{}".format(k)
            h = self.state[key] if key in self.state else torch.zeros_like(x)
            h = cell(x, h)
            self.state[key] = h
            x = x + h
        return self.norm(x)

    def forward(self, chunk: Tensor) -> Tuple[Tensor, Dict[str, Tensor]]:
        self.reset()
        out: List[Tensor] = []
        for t in range(chunk.size(1)):
            out.append(self.step(chunk[:, t]))
        ordered = OrderedDict([("last", out[-1])])
        for key, value in self.state.items():
            ordered[key] = value
        return torch.stack(out, 1), ordered


class Mode(Enum):
    GREEDY = 0
    SAMPLE = 1


@torch.jit.script
@dataclass
class Options:
    top_k: int = 0
    top_p: float = 1.0
    temperature: float = 1.0

    def __post_init__(self):
        assert self.temperature > 0.0, "temperature must be positive"


def filtered(logits: Tensor, options: Options) -> Tensor:
    logits = logits / options.temperature
    if options.top_k > 0:
        least = logits.topk(min(options.top_k, logits.size(-1)))[0][..., -1:]
        logits = logits.masked_fill(logits < least, -float("inf"))
    if options.top_p < 1.0:
        values, order = torch.sort(logits, descending=True)
        beyond = values.softmax(-1).cumsum(-1) > options.top_p
        beyond[..., 1:] = beyond[..., :-1].clone()
        beyond[..., 0] = False
        logits = logits.masked_fill(beyond.scatter(-1, order, beyond), -float("inf"))
    return logits


@given(lambda: torch.tensor([[1, 2], [3, 0]]), 6)
class Generator(nn.Module):
    """Attention with a cache of keys and values, and a loop that takes the best token."""

    def __init__(self, n: int = 8, d: int = 8, heads: int = 2):
        super().__init__()
        self.emb, self.qkv, self.out = nn.Embedding(n, d), nn.Linear(d, 3 * d), nn.Linear(d, n)
        self.heads, self.mode = heads, Mode.GREEDY

    def attend(self, x: Tensor, cache: Optional[Tuple[Tensor, Tensor]]) -> Tuple[Tensor, Tuple[Tensor, Tensor]]:
        b, t, d = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4).unbind(0)
        if cache is not None:
            k, v = torch.cat([cache[0], k], 2), torch.cat([cache[1], v], 2)
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
        if t > 1:
            scores = scores + torch.full((t, k.size(2)), -1e9).triu(1 + k.size(2) - t)
        return (scores.softmax(-1) @ v).transpose(1, 2).reshape(b, t, d), (k, v)

    def forward(self, tokens: Tensor, steps: int) -> Tuple[Tensor, Tensor]:
        cache: Optional[Tuple[Tensor, Tensor]] = None
        x = tokens
        options = Options(3, 0.9)
        last = torch.zeros(tokens.size(0), 8)
        for _ in range(steps):
            y, cache = self.attend(self.emb(x), cache)
            last = filtered(self.out(y[:, -1]), options)
            if self.mode == Mode.GREEDY:
                x = last.argmax(-1, keepdim=True)
            else:
                x = torch.multinomial(last.softmax(-1), 1)
            tokens = torch.cat([tokens, x], 1)
        return tokens, last.softmax(-1)


# ---- pictures and signals --------------------------------------------------------------------------------------------

@given(lambda: [torch.rand(3, 6, 8), torch.rand(3, 7, 5)])
class Batched(nn.Module):
    """Pictures of several sizes: normalized, resized and padded to one batch, whose sizes are kept."""

    def __init__(self, mean: List[float] = [0.5, 0.4, 0.3], std: List[float] = [0.2, 0.2, 0.3], size: int = 12):
        super().__init__()
        self.mean, self.std, self.size, self.divisor = mean, std, size, 8

    def forward(self, images: List[Tensor]) -> Tuple[Tensor, List[Tuple[int, int]]]:
        done, sizes = torch.jit.annotate(List[Tensor], []), torch.jit.annotate(List[Tuple[int, int]], [])
        for image in images:
            image = (image - torch.tensor(self.mean)[:, None, None]) / torch.tensor(self.std)[:, None, None]
            scale = self.size / max(image.shape[-2:])
            image = F.interpolate(image[None], scale_factor=scale, mode="bilinear", recompute_scale_factor=True,
                                  align_corners=False)[0]
            done.append(image)
            sizes.append((image.shape[-2], image.shape[-1]))
        most = [max([image.shape[d] for image in done]) for d in range(3)]
        most[1] = int(math.ceil(float(most[1]) / self.divisor) * self.divisor)
        most[2] = int(math.ceil(float(most[2]) / self.divisor) * self.divisor)
        batch = done[0].new_full([len(done)] + most, 0)
        for image, pad in zip(done, batch):
            pad[: image.shape[0], : image.shape[1], : image.shape[2]].copy_(image)
        return batch, sizes


@given(matrix)
class Ensemble(nn.Module):
    """Heads in parallel, by fork, and their votes by name."""

    def __init__(self):
        super().__init__()
        self.heads = nn.ModuleDict({name: nn.Sequential(nn.Linear(4, 4), nn.Tanh()) for name in ("a", "b")})

    def forward(self, x):
        # type: (Tensor) -> Dict[str, Tensor]
        futures: Dict[str, torch.jit.Future[Tensor]] = {}
        for name, head in self.heads.items():
            futures[name] = torch.jit.fork(head, x)
        out: Dict[str, Tensor] = {}
        for name in futures.keys():
            out[name] = torch.jit.wait(futures[name])
        out["mean"] = torch.stack(list(out.values())).mean(0)
        return out


def doubled(self, input: Tuple[Tensor]) -> Tuple[Tensor]:
    return (input[0] * 2,)


def recorded(self, input: Tuple[Tensor], output: Tensor) -> Tensor:
    return output + input[0].mean()


@given(matrix)
class Hooked(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
        self.body.register_forward_pre_hook(doubled)
        self.body[0].register_forward_hook(recorded)

    def forward(self, x: Tensor) -> Tensor:
        part = slice(1, 3)
        return self.body(x)[part, ..., ::2]
