"""Graphs beside PyTorch's: the same steps, names, arguments and code for the same programs."""

import json
import subprocess

import pytest

import flambeau

pytestmark = pytest.mark.parity

PRELUDE = """
import json, operator, warnings
warnings.simplefilter("ignore")
nn, F, fx = torch.nn, torch.nn.functional, torch.fx
def told(gm):
    steps = []
    for n in gm.graph.nodes:
        target = n.target if isinstance(n.target, str) else n.target.__name__
        steps.append([n.op, n.name, target, [str(u) for u in n.all_input_nodes], len(n.users)])
    return [steps, gm.code]
def rewritten(gm):
    fx.replace_pattern(gm, lambda a: torch.relu(a), lambda a: torch.sigmoid(a))
    return gm
def cleaned(gm):
    gm.graph.eliminate_dead_code()
    gm.recompile()
    return gm
class Block(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner
        self.w = nn.Parameter(torch.ones(3))
        self.register_buffer("b", torch.zeros(3))
        self.plain = torch.ones(3)
    def forward(self, x, k=2):
        return self.inner(x) * self.w + self.b * k - self.plain
"""
#: expressions that give a GraphModule
PROGRAMS = """
fx.symbolic_trace(lambda x: x.relu() + 1)
fx.symbolic_trace(lambda x, y=3, *a, **k: torch.add(x, y, alpha=a[0]) * k["z"])
fx.symbolic_trace(lambda x: (-x, +x, ~x, abs(x), x > 1, 1 < x, x == 2, x != x, x & x, 1 | x, x ^ 2, x << 1, x >> 1))
fx.symbolic_trace(lambda x: (3 - x, 3 / x, 3 // x, 3 % x, 2 ** x, x @ x, x[0], x[1:, None, ...], x[{"a": 1}["a"]]))
fx.symbolic_trace(lambda x: {"o": (x, x.shape), "l": [x.to(torch.float64, copy=True), slice(x, 2), float("inf"), 3+4j]})
fx.symbolic_trace(lambda x: torch.cat([x, x.t()], 1).view(x.size(0), -1).contiguous().sum(dim=-1, keepdim=True))
fx.symbolic_trace(lambda x: F.softmax(F.relu(x), dim=1))
fx.symbolic_trace(lambda x: F.dropout(F.max_pool2d(x, 2), p=0.1, training=False))
fx.symbolic_trace(lambda x: x.data.T.add_(1, alpha=2))
fx.symbolic_trace(lambda x: torch.zeros(2, dtype=torch.int64) + torch.ones(2) * x)
fx.symbolic_trace(lambda x: getattr(x, "foo").bar(x, y=x.z))
fx.symbolic_trace(Block(nn.Linear(3, 3)))
fx.symbolic_trace(Block(nn.Sequential(nn.Linear(3, 3), nn.Sequential(nn.ReLU(), nn.Dropout(0.5)), nn.LayerNorm(3))))
fx.symbolic_trace(nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU(), nn.Flatten(), nn.Linear(8, 2)))
fx.symbolic_trace(Block(nn.TransformerEncoderLayer(4, 2)))
fx.symbolic_trace(Block(nn.Sequential(Block(nn.Tanh()), Block(nn.Identity()))))
fx.symbolic_trace(lambda x, y: x + y["a"] + y["b"][0], concrete_args={"y": {"a": fx.PH, "b": [fx.PH, fx.PH]}})
fx.Transformer(fx.symbolic_trace(Block(nn.Linear(3, 3)))).transform()
fx.symbolic_trace(fx.symbolic_trace(Block(nn.Sequential(nn.Linear(3, 3), nn.ReLU()))))
rewritten(fx.symbolic_trace(lambda x: torch.relu(x) + torch.relu(x + 1)))
cleaned(fx.symbolic_trace(lambda x: (x + 1, x.exp())[1]))
""".strip().splitlines()
_ORACLE = "import sys, torch\n" + PRELUDE + "print(json.dumps([told(eval(p)) for p in json.loads(sys.argv[1])]))"


def test_graphs_and_code_are_pytorchs(torch_python):
    command = [torch_python, "-c", _ORACLE, json.dumps(PROGRAMS)]
    found = subprocess.run(command, capture_output=True, text=True, check=True)
    space = {"torch": flambeau}
    exec(PRELUDE, space)
    for program, (steps, code) in zip(PROGRAMS, json.loads(found.stdout), strict=True):
        ours = json.loads(json.dumps(space["told"](eval(program, space))))
        assert ours[0] == steps, program
        assert ours[1].replace("flambeau.", "torch.") == code.replace("torch._C._nn.", "torch.nn.functional."), program
