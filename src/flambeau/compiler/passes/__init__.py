"""Rewritings of graphs, in the order in which they are applied: each is a function that changes a graph in place."""

from .algebra import simplify
from .common import common_subexpressions
from .images import convolutions_with_tails
from .recompute import recompute

PASSES = (simplify, common_subexpressions, convolutions_with_tails, recompute)
