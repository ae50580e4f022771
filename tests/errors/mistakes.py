"""A hundred wrong programs, and the command that writes down what each of them says: `python -m tests.errors.mistakes`.

The messages stand in messages.txt beside this file. Read a changed one as the person who made the mistake: does it name
the operator, the values of the call, what was expected, and what to do?
"""

import linecache
import re
import traceback
import warnings
from pathlib import Path

import flambeau
from flambeau import nn

GOLDEN = Path(__file__).with_name("messages.txt")

#: name of the mistake -> program
MISTAKES = {
    # shapes
    "linear, wrong features": "nn.Linear(8, 4)(torch.ones(2, 7))",
    "linear inside a model": "Net()(torch.ones(2, 7))",
    "linear inside a model, second layer": "Wrong()(torch.ones(2, 8))",
    "functional linear": "F.linear(torch.ones(2, 3), torch.ones(4, 5))",
    "linear, wrong bias": "F.linear(torch.ones(2, 3), torch.ones(4, 3), torch.ones(5))",
    "matmul": "torch.ones(2, 3) @ torch.ones(4, 5)",
    "matmul, forgotten transpose": "torch.ones(2, 3) @ torch.ones(2, 3)",
    "matmul of a vector": "torch.ones(2, 3) @ torch.ones(4)",
    "mm of 3 dimensions": "torch.mm(torch.ones(2, 3, 4), torch.ones(4, 5))",
    "bmm, batches differ": "torch.bmm(torch.ones(2, 3, 4), torch.ones(3, 4, 5))",
    "dot of different lengths": "torch.dot(torch.ones(3), torch.ones(4))",
    "broadcast": "torch.ones(2, 3) + torch.ones(4)",
    "broadcast of three": "torch.where(torch.ones(3) > 0, torch.ones(2), torch.ones(3))",
    "in-place broadcast": "torch.ones(3).add_(torch.ones(2, 3))",
    "view": "torch.ones(6).view(4, 2)",
    "view with -1": "torch.ones(7).view(2, -1)",
    "view of a transposed tensor": "torch.ones(2, 3).t().view(6)",
    "reshape": "torch.ones(2, 3).reshape(5)",
    "cat, other sizes": "torch.cat([torch.ones(2, 3), torch.ones(2, 4)], 0)",
    "cat, other dimensions": "torch.cat([torch.ones(2, 3), torch.ones(3)])",
    "cat of nothing": "torch.cat([])",
    "stack": "torch.stack([torch.ones(2), torch.ones(3)])",
    "split": "torch.ones(5).split([2, 2])",
    "expand": "torch.ones(2, 3).expand(4, 3)",
    "permute": "torch.ones(2, 3, 4).permute(0, 1)",
    "squeeze dim": "torch.ones(2, 3).squeeze(5)",
    "dim out of range": "torch.ones(2, 3).sum(2)",
    "dim given twice": "torch.ones(2, 3).sum((0, 0))",
    "softmax dim": "torch.ones(2, 3).softmax(3)",
    "index out of range": "torch.ones(3)[5]",
    "too many indices": "torch.ones(3)[0, 0]",
    "index tensor out of range": "torch.ones(3)[torch.tensor([0, 7])]",
    "mask of another shape": "torch.ones(3)[torch.tensor([True, False])]",
    "setitem of another shape": "x = torch.ones(3); x[:2] = torch.ones(3)",
    "gather out of range": "torch.ones(3).gather(0, torch.tensor([4]))",
    "embedding out of range": "nn.Embedding(10, 4)(torch.tensor([3, 12]))",
    "embedding of floats": "nn.Embedding(10, 4)(torch.tensor([3., 1.]))",
    "one_hot": "F.one_hot(torch.tensor([0, 5]), num_classes=3)",
    "narrow": "torch.ones(4).narrow(0, 2, 5)",
    # layers
    "conv, wrong channels": "nn.Conv2d(3, 8, 3)(torch.ones(1, 4, 8, 8))",
    "conv, kernel larger than input": "nn.Conv2d(3, 8, 9)(torch.ones(1, 3, 4, 4))",
    "conv, missing dimensions": "nn.Conv2d(3, 8, 3)(torch.ones(8, 8))",
    "conv groups": "nn.Conv2d(3, 8, 3, groups=2)",
    "conv inside a sequential":
        "nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Conv2d(8, 4, 3))(torch.ones(1, 1, 9, 9))",
    "flatten forgotten": "nn.Sequential(nn.Conv2d(1, 4, 3), nn.Linear(196, 10))(torch.ones(2, 1, 9, 9))",
    "batch norm, wrong channels": "nn.BatchNorm2d(4)(torch.ones(2, 3, 5, 5))",
    "batch norm, wrong dimensions": "nn.BatchNorm2d(4)(torch.ones(2, 4))",
    "batch norm, one value": "nn.BatchNorm1d(4)(torch.ones(1, 4))",
    "layer norm": "nn.LayerNorm(5)(torch.ones(2, 4))",
    "group norm": "nn.GroupNorm(3, 8)",
    "max pool too large": "nn.MaxPool2d(4)(torch.ones(1, 1, 3, 3))",
    "lstm, wrong features": "nn.LSTM(4, 8)(torch.ones(5, 2, 3))",
    "attention heads": "nn.MultiheadAttention(10, 3)",
    "dropout probability": "nn.Dropout(1.5)",
    "forward missing": "nn.Module()(1)",
    "super().__init__ forgotten": "NoInit()",
    "missing argument of forward": "nn.Linear(2, 2)()",
    "no such attribute": "nn.Linear(2, 2).weigth",
    "module list is no module": "nn.ModuleList([nn.Linear(2, 2)])(torch.ones(2))",
    "parameter from a non-leaf": "m = nn.Linear(2, 2); m.weight = torch.ones(2, 2)",
    # losses
    "cross entropy, batch differs": "F.cross_entropy(torch.ones(4, 3), torch.zeros(5, dtype=torch.long))",
    "cross entropy, target out of range": "F.cross_entropy(torch.ones(2, 3), torch.tensor([0, 3]))",
    "cross entropy, float target indices": "F.cross_entropy(torch.ones(2, 3), torch.tensor([0., 1.]))",
    "cross entropy, integer logits": "F.cross_entropy(torch.ones(2, 3, dtype=torch.long), torch.tensor([0, 1]))",
    "mse loss of shapes that do not fit": "F.mse_loss(torch.ones(4, 3), torch.ones(2))",
    "bce loss above 1": "F.binary_cross_entropy(torch.tensor([1.5]), torch.tensor([1.]))",
    "bce shapes": "F.binary_cross_entropy(torch.tensor([0.5]), torch.ones(1, 1))",
    "loss without reduction name": "F.mse_loss(torch.ones(2), torch.ones(2), reduction='avg')",
    # dtypes and devices
    "long and float matmul": "torch.ones(2, 2) @ torch.ones(2, 2, dtype=torch.long)",
    "double into a float layer": "nn.Linear(2, 2)(torch.ones(1, 2, dtype=torch.double))",
    "mean of integers": "torch.tensor([1, 2]).mean()",
    "requires_grad of integers": "torch.tensor([1, 2], requires_grad=True)",
    "in-place into integers": "torch.tensor([1, 2]).add_(0.5)",
    "not a number": "torch.tensor(['a'])",
    "ragged list": "torch.tensor([[1, 2], [3]])",
    "bool subtraction": "torch.tensor([True]) - torch.tensor([True])",
    "if of many values": "bool(torch.ones(2) > 0)",
    "item of many values": "torch.ones(2).item()",
    "int of many values": "int(torch.ones(3))",
    "cuda that is not there": "torch.ones(2).cuda()",
    "device that does not exist": "torch.ones(2, device='gpu')",
    "other device": "torch.ones(2) + torch.ones(2, device='meta')",
    "numpy of a tensor that requires grad": "torch.ones(2, requires_grad=True).numpy()",
    "negative size": "torch.ones(-2)",
    "unknown keyword": "torch.ones(2, 3).sum(axes=1)",
    "missing argument": "torch.matmul(torch.ones(2))",
    "a tensor that is None": "torch.exp(None)",
    "too many arguments": "torch.exp(torch.ones(2), 3)",
    "a list instead of a tensor": "torch.exp([1.0])",
    "a string instead of a number": "torch.ones(2) + 'a'",
    "clamp without bounds": "torch.ones(2).clamp()",
    # gradients
    "backward of a vector": "torch.ones(2, requires_grad=True).mul(2).backward()",
    "backward without a graph": "torch.ones(1).backward()",
    "backward twice": "x = torch.ones(2, requires_grad=True)\ny = x.exp().sum()\ny.backward()\ny.backward()",
    "backward under no_grad":
        "w = torch.ones(2, requires_grad=True)\nwith torch.no_grad():\n    y = w.sum()\ny.backward()",
    "in-place write of a saved tensor":
        "x = torch.ones(2, requires_grad=True)\ny = x.exp()\ny += 1\ny.sum().backward()",
    "in-place write of a saved input":
        "w = torch.ones(2, requires_grad=True)\nx = torch.ones(2)\ny = w * x\nx.zero_()\ny.sum().backward()",
    "in-place write of a leaf": "x = torch.ones(2, requires_grad=True)\nx += 1",
    "in-place write of a view of a leaf": "x = torch.ones(2, requires_grad=True)\nx[0] = 3",
    "grad of an unused input": "x = torch.ones(2, requires_grad=True)\nz = torch.ones(2, requires_grad=True)\n"
                               "torch.autograd.grad(x.sum(), z)",
    "gradient of another shape": "torch.ones(2, requires_grad=True).mul(2).backward(torch.ones(3))",
    "requires_grad of a result": "y = torch.ones(2, requires_grad=True) * 2\ny.requires_grad = False",
    "grad of another shape assigned": "x = torch.ones(2, requires_grad=True)\nx.grad = torch.ones(3)",
    "own backward returns too few":
        "class Two(torch.autograd.Function):\n    @staticmethod\n    def forward(ctx, a, b):\n        return a * b\n"
        "    @staticmethod\n    def backward(ctx, g):\n        return g\n"
        "a = torch.ones(2, requires_grad=True)\nTwo.apply(a, a).sum().backward()",
    "own backward of a wrong shape":
        "class Bad(torch.autograd.Function):\n    @staticmethod\n    def forward(ctx, a):\n        return a * 1\n"
        "    @staticmethod\n    def backward(ctx, g):\n        return torch.ones(5)\n"
        "Bad.apply(torch.ones(2, requires_grad=True)).sum().backward()",
    "error in a hook":
        "x = torch.ones(2, requires_grad=True)\ny = x * 2\ny.register_hook(lambda g: g @ torch.ones(3))\n"
        "y.sum().backward()",
    "hook on a constant": "torch.ones(2).register_hook(print)",
    "deepcopy of a result": "import copy\ncopy.deepcopy(torch.ones(2, requires_grad=True) * 2)",
    # training
    "optimizer without parameters": "optim.SGD([], lr=0.1)",
    "optimizer of a tensor": "optim.SGD(torch.ones(2, requires_grad=True), lr=0.1)",
    "optimizer of results": "optim.SGD([torch.ones(2, requires_grad=True) * 2], lr=0.1)",
    "negative learning rate": "optim.SGD(nn.Linear(2, 2).parameters(), lr=-1)",
    "optimizer, same parameter twice": "p = nn.Parameter(torch.ones(2))\n"
                                       "optim.SGD([{'params': [p]}, {'params': [p]}], lr=0.1)",
    "optimizer state of another model": "a = optim.SGD(nn.Linear(2, 2).parameters(), lr=0.1)\n"
                                        "b = optim.SGD([torch.ones(1, requires_grad=True)], lr=0.1)\n"
                                        "b.load_state_dict(a.state_dict())",
    "state dict, missing and unexpected keys":
        "nn.Linear(2, 2).load_state_dict({'weight': torch.ones(2, 2), 'scale': torch.ones(1)})",
    "state dict, other shape": "nn.Linear(2, 2).load_state_dict(nn.Linear(2, 3).state_dict())",
    "state dict is no dict": "nn.Linear(2, 2).load_state_dict([1])",
    "collate of different sizes": "list(data.DataLoader([torch.ones(2), torch.ones(3)], batch_size=2))",
    "collate of an unknown type": "list(data.DataLoader([object(), object()], batch_size=2))",
    "dataset of tensors of different lengths": "data.TensorDataset(torch.ones(2), torch.ones(3))",
    "batch size 0": "data.DataLoader([1], batch_size=0)",
    "random_split lengths": "data.random_split(range(5), [2, 2])",
    "load of a missing file": "torch.load('/no/such/file.pt')",
    "manual_seed of a string": "torch.manual_seed('a')",
    "clip of no norm": "nn.utils.clip_grad_norm_(nn.Linear(2, 2).parameters())",
}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.Sequential(nn.Sequential(nn.ReLU(), nn.Linear(8, 4)), nn.Linear(4, 2))

    def forward(self, x):
        return self.blocks(x)


class Wrong(Net):
    def __init__(self):
        super().__init__()
        self.blocks[1] = nn.Linear(5, 2)


class NoInit(nn.Module):
    def __init__(self):
        self.layer = nn.Linear(2, 2)


def names():
    """What the programs may use."""
    return {"torch": flambeau, "nn": nn, "F": nn.functional, "optim": flambeau.optim, "data": flambeau.utils.data,
            "Net": Net, "Wrong": Wrong, "NoInit": NoInit}


def message(program):
    """What running `program` says: type, text, and the notes."""
    flambeau.manual_seed(0)
    linecache.cache["<program>"] = len(program), None, [f"{x}\n" for x in program.split("\n")], "<program>"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            exec(compile(program, "<program>", "exec"), names())
    except Exception as error:  # every kind is a subject here
        text = "".join(traceback.TracebackException.from_exception(error).format_exception_only()).rstrip("\n")
        text = re.sub(r"\. Did you mean: '\w+'\?$", "", text)  # some versions of Python add it
        return re.sub(r"0x[0-9a-f]+", "0x…", text)
    return "no error"


def written():
    """The golden messages by mistake."""
    parts = re.split(r"^== (.*)$", GOLDEN.read_text(), flags=re.M)
    return {name: text.split("\n----\n", 1)[1].rstrip("\n")
            for name, text in zip(parts[1::2], parts[2::2], strict=True)}


def main():
    with GOLDEN.open("w") as out:
        for name, program in MISTAKES.items():
            out.write(f"== {name}\n{program}\n----\n{message(program)}\n\n")
    print(f"{len(MISTAKES)} messages written to {GOLDEN}")


if __name__ == "__main__":
    main()
