"""Rewritings of graphs, in the order in which they are applied: each is a function that changes a graph in place."""

from .common import common_subexpressions
from .images import convolutions_with_tails

PASSES = (common_subexpressions, convolutions_with_tails)
