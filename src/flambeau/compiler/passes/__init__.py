"""Rewritings of graphs: each is a function that changes a graph in place (_plan.py has their order)."""
