"""A word language model: two LSTM layers of 200 units, trained by truncated backpropagation through time.

    python examples/word_lm.py --data DIR --text valid.txt

DIR holds a text of words between spaces, such as WikiText-2's files. The program runs under PyTorch with the import
below changed to `import torch`.
"""

import argparse
import json
import math
import time
from pathlib import Path

import flambeau as torch

nn, F = torch.nn, torch.nn.functional


class WordModel(nn.Module):
    def __init__(self, words, width=200, layers=2, dropout=0.2):
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.lstm = nn.LSTM(width, width, layers, dropout=dropout)
        self.out = nn.Linear(width, words)
        self.dropout = nn.Dropout(dropout)
        for weight in (self.embed.weight, self.out.weight):
            nn.init.uniform_(weight, -0.1, 0.1)
        nn.init.zeros_(self.out.bias)

    def forward(self, words, state):
        h, state = self.lstm(self.dropout(self.embed(words)), state)
        return self.out(self.dropout(h)), state


def read_words(path):
    """(numbers of the words in the order of the text, the vocabulary); a line ends with the word <eos>."""
    numbers, text = {}, []
    for line in Path(path).read_text(encoding="utf-8").splitlines():
        for word in [*line.split(), "<eos>"]:
            text.append(numbers.setdefault(word, len(numbers)))
    return torch.tensor(text), list(numbers)


def train(model, columns, steps, bptt, lr, clip):
    """Yields each step's loss. `columns` [time, batch] are read from top to bottom, the state goes along."""
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    state, position = None, 0
    for _ in range(steps):
        if position + bptt >= len(columns):
            state, position = None, 0
        words, targets = columns[position:position + bptt], columns[position + 1:position + bptt + 1]
        position += bptt
        scores, (h, c) = model(words, state)
        state = h.detach(), c.detach()
        loss = F.cross_entropy(scores.flatten(0, 1), targets.flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
        yield loss.item()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--data", required=True, help="the folder of the text")
    parser.add_argument("--text", default="valid.txt", help="the file to learn (default: valid.txt)")
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--batch", type=int, default=20)
    parser.add_argument("--bptt", type=int, default=35, help="words that a gradient goes back")
    parser.add_argument("--lr", type=float, default=2e-3)
    parser.add_argument("--clip", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--losses", help="write the losses and the time there, as JSON")
    options = parser.parse_args()
    if options.threads:
        torch.set_num_threads(options.threads)
    text, vocabulary = read_words(Path(options.data) / options.text)
    columns = text[:len(text) // options.batch * options.batch].view(options.batch, -1).t().contiguous()
    torch.manual_seed(options.seed)
    model = WordModel(len(vocabulary))
    losses, start = [], time.perf_counter()
    for loss in train(model, columns, options.steps, options.bptt, options.lr, options.clip):
        losses.append(loss)
        if len(losses) % 50 == 0:
            mean = sum(losses[-50:]) / 50
            speed = len(losses) * options.batch * options.bptt / (time.perf_counter() - start)
            print(f"step {len(losses):5}  loss {mean:.3f}  perplexity {math.exp(mean):8.1f}  {speed:.0f} words/s",
                  flush=True)
    if options.losses:
        Path(options.losses).write_text(json.dumps({"losses": losses, "seconds": time.perf_counter() - start}))


if __name__ == "__main__":
    main()
