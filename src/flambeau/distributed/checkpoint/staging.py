"""Copies of the values for a save that goes on in the background: the program may change its own meanwhile."""

import abc
from collections.abc import Mapping
from dataclasses import dataclass

import flambeau

from ..._shown import shown


def copied(value, known=None):
    """A copy of a state dict: tensors with memory of their own, containers anew, other values as they are.

    Tensors of `known`, an earlier copy, are used again where they fit.
    """
    if isinstance(value, flambeau.Tensor):
        if type(known) is type(value) and known.shape == value.shape and known.dtype == value.dtype:
            return known.copy_(value.detach())
        return value.detach().clone()
    if isinstance(value, Mapping):
        known = known if isinstance(known, Mapping) else {}
        return {key: copied(part, known.get(key)) for key, part in value.items()}
    if type(value) in (list, tuple):
        known = known if type(known) is type(value) and len(known) == len(value) else [None] * len(value)
        return type(value)(map(copied, value, known))
    return value


class AsyncStager(abc.ABC):
    """Makes the copy that async_save writes."""

    _synchronize_after_execute = True

    @property
    def should_synchronize_after_execute(self):
        """Whether async_save calls synchronize_staging before it returns."""
        return self._synchronize_after_execute

    @abc.abstractmethod
    def stage(self, state_dict):
        """The copy, or a future of it."""

    def synchronize_staging(self):
        """Waits for the copy."""
        return

    def close(self):
        """Frees what the stager has kept."""
        return


class BlockingAsyncStager(AsyncStager):
    """Copies at once. With `cache_staged_state_dict`, into the memory of the copy before, where the sizes are the same.
    """

    _synchronize_after_execute = False

    def __init__(self, cache_staged_state_dict=False, type_check=False):
        self.cache_staged_state_dict, self.type_check, self.state_dict_cache = cache_staged_state_dict, type_check, None

    def stage(self, state_dict):
        if self.type_check:
            _check(state_dict)
        found = copied(state_dict, self.state_dict_cache)
        if self.cache_staged_state_dict:
            self.state_dict_cache = found
        return found

    def close(self):
        self.state_dict_cache = None


def _check(value):
    """TypeError for what is neither tensor, number, text nor container of them."""
    if isinstance(value, Mapping):
        value = value.values()
    elif not isinstance(value, (list, tuple)):
        if not isinstance(value, (flambeau.Tensor, int, float, complex, str, bytes, type(None))):
            raise TypeError(f"BlockingAsyncStager: {shown(value)} is no tensor, number, text or container of them")
        return
    for part in value:
        _check(part)


@dataclass
class StagingOptions:
    """How DefaultStager copies; what is for GPUs must stay off."""

    use_pinned_memory: bool = False
    use_shared_memory: bool = False
    use_async_staging: bool = False
    use_non_blocking_copy: bool = False


class DefaultStager(BlockingAsyncStager):
    """Copies at once, as BlockingAsyncStager: on the CPU nothing else would be faster."""

    def __init__(self, config=None):
        config = config or StagingOptions()
        chosen = [name for name, value in vars(config).items() if value]
        if chosen:
            raise NotImplementedError(f"DefaultStager: {', '.join(chosen)} are for copies from a GPU or to another "
                                      "process; leave them off")
        super().__init__()
