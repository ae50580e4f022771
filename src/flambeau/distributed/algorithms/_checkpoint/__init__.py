"""Wrappers that keep less of a module's forward."""
