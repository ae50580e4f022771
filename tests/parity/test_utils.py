"""The utilities beside PyTorch's: what specs of trees print, what is written, what is counted."""

import json
import subprocess

import pytest

import flambeau
from flambeau.utils import _pytree as pytree

from ..utils.test_pytree import TREES, Point

pytestmark = pytest.mark.parity

def asked(torch_python, program, *arguments):
    """What a program that runs PyTorch prints, as JSON."""
    found = subprocess.run([torch_python, "-c", program, *arguments], capture_output=True, text=True, check=True)
    return json.loads(found.stdout)


TREES_ORACLE = """
import json, sys, warnings
warnings.simplefilter("ignore")
from collections import OrderedDict, defaultdict, deque, namedtuple
from torch.utils import _pytree as p
import torch
Point = namedtuple("Point", "x y")
p._register_namedtuple(Point, serialized_type_name="tests.Point")
trees = eval(sys.argv[1])
def told(t):
    s = p.tree_structure(t)
    return [repr(s), p.treespec_pprint(s), p.treespec_dumps(s), s.num_nodes, s.num_leaves,
            [p.keystr(k) for k, _ in p.tree_leaves_with_path(t)], repr(p.treespec_loads(p.treespec_dumps(s)))]
print(json.dumps([told(t) for t in trees]))
"""


def test_trees(torch_python):
    """The printed specs, the JSON and the paths are PyTorch's."""
    pytree._register_namedtuple(Point, serialized_type_name="tests.Point")
    trees = [t for t in TREES.values() if not isinstance(t, flambeau.Size)]
    text = repr(trees).replace("<class 'list'>", "list")
    for tree, theirs in zip(trees, asked(torch_python, TREES_ORACLE, text), strict=True):
        spec = pytree.tree_structure(tree)
        ours = [repr(spec), pytree.treespec_pprint(spec), pytree.treespec_dumps(spec), spec.num_nodes, spec.num_leaves,
                [pytree.keystr(path) for path, _ in pytree.tree_leaves_with_path(tree)],
                repr(pytree.treespec_loads(pytree.treespec_dumps(spec)))]
        assert [str(each).replace("__main__.", f"{Point.__module__}.") for each in theirs] == list(map(str, ours))
