"""Passes of other packages, under the names that they know."""
