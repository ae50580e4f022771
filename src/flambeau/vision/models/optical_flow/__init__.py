"""Networks that say how pixels move from one image to the next."""

from . import raft

globals().update({_name: getattr(raft, _name) for _name in raft.__all__})
