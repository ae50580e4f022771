"""The beginning of a pipeline: a datapipe over anything that has elements by key."""

import copy
import warnings

from ..datapipe import MapDataPipe


class SequenceWrapperMapDataPipe(MapDataPipe):
    """The elements of a sequence or mapping, of which it takes a deep copy unless deepcopy=False.

    >>> from flambeau.utils.data.datapipes.map import SequenceWrapper
    >>> SequenceWrapper({"a": 1, "b": 2})["b"]
    2
    """

    def __init__(self, sequence, deepcopy=True):
        self.sequence = sequence
        if deepcopy:
            try:
                self.sequence = copy.deepcopy(sequence)
            except TypeError:
                warnings.warn("SequenceWrapper: the sequence has no deep copy, so it is read itself, and what later "
                              "steps change in samples is changed in it; deepcopy=False says so", UserWarning,
                              stacklevel=2)

    def __getitem__(self, index):
        return self.sequence[index]

    def __len__(self):
        return len(self.sequence)
