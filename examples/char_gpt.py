"""A small GPT over characters: causal self-attention, trained with AdamW, then asked to write.

    python examples/char_gpt.py --data DIR --text input.txt

DIR holds a text, such as tiny-shakespeare. The program runs under PyTorch with the import below changed to
`import torch`.
"""

import argparse
import json
import time
from pathlib import Path

import flambeau as torch

nn, F = torch.nn, torch.nn.functional


class Attention(nn.Module):
    def __init__(self, width, heads, dropout):
        super().__init__()
        self.heads, self.rate = heads, dropout
        self.project = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        batch, steps, width = x.shape
        q, k, v = self.project(x).view(batch, steps, 3, self.heads, -1).permute(2, 0, 3, 1, 4).unbind(0)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, dropout_p=self.rate if self.training else 0.0)
        return self.dropout(self.out(y.transpose(1, 2).reshape(batch, steps, width)))


class Block(nn.Module):
    def __init__(self, width, heads, dropout):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = Attention(width, heads, dropout)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width),
                                 nn.Dropout(dropout))

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class GPT(nn.Module):
    def __init__(self, characters, context=64, width=128, heads=4, layers=4, dropout=0.1):
        super().__init__()
        self.context = context
        self.token, self.place = nn.Embedding(characters, width), nn.Embedding(context, width)
        self.dropout = nn.Dropout(dropout)
        self.blocks = nn.Sequential(*[Block(width, heads, dropout) for _ in range(layers)])
        self.norm = nn.LayerNorm(width)
        self.out = nn.Linear(width, characters, bias=False)
        self.apply(self.start)

    @staticmethod
    def start(module):
        if isinstance(module, (nn.Linear, nn.Embedding)):
            nn.init.normal_(module.weight, std=0.02)
        if isinstance(module, nn.Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)

    def forward(self, x):
        h = self.dropout(self.token(x) + self.place(torch.arange(x.shape[1])))
        return self.out(self.norm(self.blocks(h)))

    @torch.no_grad()
    def write(self, x, count):
        """x [1, steps] and `count` characters more, each drawn from the model's distribution."""
        self.eval()
        for _ in range(count):
            chances = self(x[:, -self.context:])[:, -1].softmax(-1)
            x = torch.cat([x, torch.multinomial(chances, 1)], 1)
        self.train()
        return x


def train(model, text, steps, batch, lr):
    """Yields each step's loss on pieces of the text drawn at random."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr)
    for _ in range(steps):
        starts = torch.randint(len(text) - model.context, (batch,)).tolist()
        x = torch.stack([text[k:k + model.context] for k in starts])
        y = torch.stack([text[k + 1:k + model.context + 1] for k in starts])
        loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield loss.item()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--data", required=True, help="the folder of the text")
    parser.add_argument("--text", default="input.txt", help="the file to learn (default: input.txt)")
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--write", type=int, default=200, help="characters to write at the end")
    parser.add_argument("--losses", help="write the losses and the time there, as JSON")
    options = parser.parse_args()
    if options.threads:
        torch.set_num_threads(options.threads)
    text = (Path(options.data) / options.text).read_text(encoding="utf-8")
    characters = sorted(set(text))
    number = {c: k for k, c in enumerate(characters)}
    torch.manual_seed(options.seed)
    model = GPT(len(characters))
    numbers = torch.tensor([number[c] for c in text])
    losses, start = [], time.perf_counter()
    for loss in train(model, numbers, options.steps, options.batch, options.lr):
        losses.append(loss)
        if len(losses) % 50 == 0:
            speed = len(losses) * options.batch * model.context / (time.perf_counter() - start)
            print(f"step {len(losses):5}  loss {sum(losses[-50:]) / 50:.3f}  {speed:.0f} characters/s", flush=True)
    if options.losses:
        Path(options.losses).write_text(json.dumps({"losses": losses, "seconds": time.perf_counter() - start}))
    if options.write:
        print("".join(characters[k] for k in model.write(numbers[:1].view(1, 1), options.write)[0].tolist()))


if __name__ == "__main__":
    main()
