"""quasirandom: SobolEngine, points that fill the unit cube more evenly than random ones.

>>> import flambeau
>>> flambeau.quasirandom.SobolEngine(2).draw(3)
tensor([[0.0000, 0.0000],
        [0.5000, 0.5000],
        [0.7500, 0.2500]])
"""

import flambeau

from .._shown import shown
from ._directions import BITS, DIMENSIONS, directions

__all__ = ["SobolEngine"]


class SobolEngine:
    """The Sobol sequence of a dimension, from the direction numbers of Joe and Kuo; scrambled by Matousek's method.

    `scramble` draws the same random bits as PyTorch does, so a seed gives the same points.

    >>> engine = flambeau.quasirandom.SobolEngine(2, scramble=True, seed=0)
    >>> engine.draw(2).shape
    torch.Size([2, 2])
    """

    MAXBIT = BITS
    MAXDIM = DIMENSIONS

    def __init__(self, dimension, scramble=False, seed=None):
        if not 1 <= dimension <= DIMENSIONS:
            raise ValueError(f"SobolEngine: there are direction numbers for 1 to {DIMENSIONS} dimensions, got "
                             f"{shown(dimension)}")
        self.dimension, self.scramble, self.seed = dimension, scramble, seed
        self.sobolstate = flambeau.from_numpy(directions(dimension))
        self.shift = flambeau.zeros(dimension, dtype=flambeau.int64)
        if scramble:
            self._scramble()
        self.quasi = self.shift.clone()
        self._first_point = self._scaled(self.quasi.unsqueeze(0))
        self.num_generated = 0

    def _scramble(self):
        """Multiplies the directions by random lower triangular matrices of bits and shifts the points."""
        generator = None if self.seed is None else flambeau.Generator().manual_seed(self.seed)
        powers = 1 << flambeau.arange(BITS)
        self.shift = (flambeau.randint(2, (self.dimension, BITS), generator=generator) * powers).sum(-1)
        matrices = flambeau.randint(2, (self.dimension, BITS, BITS), generator=generator).tril(-1)
        matrices = matrices + flambeau.eye(BITS, dtype=flambeau.int64)
        places = flambeau.arange(BITS - 1, -1, -1)  # the first row and column belong to the highest bit
        bits = (self.sobolstate.unsqueeze(1) >> places.unsqueeze(-1)) & 1
        mixed = (matrices.double() @ bits.double()).long() & 1
        self.sobolstate = (mixed << places.unsqueeze(-1)).sum(1)

    @staticmethod
    def _scaled(points, dtype=None):
        return (points.double() * 2.0 ** -BITS).to(dtype or flambeau.get_default_dtype())

    def _points(self, first, count):
        """The points of these numbers: the directions at the ones of their Gray codes, added without carries."""
        number = flambeau.arange(first, first + count).unsqueeze(-1)
        gray = number ^ (number >> 1)
        points = self.shift.expand(count, -1).clone()
        for bit in range((first + count - 1).bit_length()):
            points ^= self.sobolstate[:, bit] * ((gray >> bit) & 1)
        return points

    def draw(self, n=1, out=None, dtype=None):
        """The next n points, of shape [n, dimension]."""
        points = self._points(self.num_generated, n)
        if n:
            self._move_to(self.num_generated + n)
        result = self._scaled(points, dtype)
        return result if out is None else out.resize_(result.shape).copy_(result)

    def draw_base2(self, m, out=None, dtype=None):
        """The next 2^m points; with those drawn before they must be a power of two, or they would not be balanced."""
        n = 2 ** m
        total = self.num_generated + n
        if total & (total - 1):
            raise ValueError(f"draw_base2: {self.num_generated} points have been drawn, and with {n} more their number "
                             f"is {total}, no power of two; draw({n}) gives them all the same")
        return self.draw(n, out=out, dtype=dtype)

    def _move_to(self, number):
        self.num_generated = number
        self.quasi = self._points(number - 1, 1)[0] if number else self.shift.clone()

    def reset(self):
        """Starts again at the first point."""
        self._move_to(0)
        return self

    def fast_forward(self, n):
        """Leaves out the next n points."""
        self._move_to(self.num_generated + n)
        return self

    def __repr__(self):
        text = f"dimension={self.dimension}"
        if self.scramble:
            text += ", scramble=True"
        if self.seed is not None:
            text += f", seed={self.seed}"
        return f"SobolEngine({text})"
