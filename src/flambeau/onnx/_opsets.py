"""Translations under the names by which programs for PyTorch's older exporter call them."""

from .translations import TABLE


def translations(names):
    """{name: the translation of that operator}: each takes g, then the operator's arguments."""
    return {name: TABLE[name] for name in names.split()}
