"""Rewritings of graphs, in the order in which they are applied: each is a function that changes a graph in place."""

from .images import convolutions_with_tails

PASSES = (convolutions_with_tails,)
