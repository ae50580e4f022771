"""Layers that merge dimensions into one and split one into several."""

from ..._shown import shown
from ._sizes import Shown
from .module import Module


class Flatten(Shown, Module):
    """Merges dimensions start_dim … end_dim; by default all but the batch.

    >>> import flambeau
    >>> flambeau.nn.Flatten()(flambeau.zeros(2, 3, 4)).shape
    torch.Size([2, 12])
    """

    _shown = ("start_dim", "end_dim")

    def __init__(self, start_dim=1, end_dim=-1):
        super().__init__()
        self.start_dim, self.end_dim = start_dim, end_dim

    def forward(self, input):
        return input.flatten(self.start_dim, self.end_dim)


class Unflatten(Shown, Module):
    """Splits dimension `dim` into `unflattened_size`.

    >>> import flambeau
    >>> flambeau.nn.Unflatten(1, (3, 4))(flambeau.zeros(2, 12)).shape
    torch.Size([2, 3, 4])
    """

    _shown = ("dim", "unflattened_size")

    def __init__(self, dim, unflattened_size):
        super().__init__()
        if not isinstance(dim, int):
            raise TypeError(
                f"Unflatten: expected dim to be an int, got {type(dim).__name__} (named dimensions are not supported)"
            )
        if not isinstance(unflattened_size, (tuple, list)) or not all(isinstance(n, int) for n in unflattened_size):
            raise TypeError(f"Unflatten: unflattened_size must be a tuple of ints, got {shown(unflattened_size)}")
        self.dim, self.unflattened_size = dim, unflattened_size

    def forward(self, input):
        return input.unflatten(self.dim, self.unflattened_size)
