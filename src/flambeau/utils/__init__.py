"""Helpers around tensors: data loading."""

from . import data as data
