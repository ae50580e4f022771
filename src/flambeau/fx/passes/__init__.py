"""Passes: functions and classes that find something out about a graph or change it."""
