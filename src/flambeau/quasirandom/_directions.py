"""The direction numbers of Sobol sequences, from the table of Joe and Kuo (2008): LICENSE.directions.

directions.bin holds one byte per dimension from the third on, half the distance between its primitive polynomial and
the one before, and then the initial numbers m_2, m_3, … of every dimension in turn: m_i is odd and below 2^i, so its
i - 1 upper bits are stored.
"""

from pathlib import Path

BITS = 30
DIMENSIONS = 21201


def _read(dimension):
    """(polynomials, their degrees, initial numbers [dimension, degree]) of the dimensions after the first."""
    import numpy as np  # here, not above: the package is imported to be built where there is no NumPy
    data = np.fromfile(Path(__file__).with_name("directions.bin"), np.uint8)
    gaps = data[:DIMENSIONS - 2][:max(dimension - 2, 0)].astype(np.int64)
    polynomials = 3 + 2 * np.concatenate([[0], np.cumsum(gaps)])
    degrees = np.frexp(polynomials)[1] - 1
    widths = np.arange(degrees.max())  # of the bits of m_1, m_2, …
    stored = np.where(widths < degrees[:, None], widths, 0)
    ends = np.cumsum(stored).reshape(stored.shape)
    bits = np.unpackbits(data[DIMENSIONS - 2:], count=int(ends[-1, -1])).astype(np.int64)
    initial = np.ones(stored.shape, np.int64)
    for width in widths[1:]:
        rows = np.flatnonzero(stored[:, width])
        places = ends[rows, width, None] - width + np.arange(width)
        initial[rows, width] += (bits[places] << np.arange(width, 0, -1)).sum(1)
    return polynomials, degrees, initial


def directions(dimension):
    """An int64 array [dimension, 30]: column j is v_(j+1) times 2^30.

    >>> directions(2)[:, :2] / 2 ** BITS
    array([[0.5 , 0.25],
           [0.5 , 0.75]])
    """
    import numpy as np

    table = np.empty((dimension, BITS), np.int64)
    table[0] = 1 << np.arange(BITS - 1, -1, -1)
    if dimension == 1:
        return table
    polynomials, degrees, initial = _read(dimension)
    for degree in range(1, degrees.max() + 1):
        rows = np.flatnonzero(degrees == degree)
        table[rows + 1] = _recurrence(polynomials[rows], degree, initial[rows, :degree])
    return table


def _recurrence(polynomial, degree, initial):
    """v_j = a_1 v_(j-1) + … + a_(s-1) v_(j-s+1) + v_(j-s) + v_(j-s) / 2^s without carries (Bratley and Fox 1988)."""
    import numpy as np

    v = np.empty((len(polynomial), BITS), np.int64)
    v[:, :degree] = initial << np.arange(BITS - 1, BITS - 1 - degree, -1)
    taps = [(polynomial >> (degree - k)) & 1 for k in range(1, degree)]
    for j in range(degree, BITS):
        v[:, j] = v[:, j - degree] ^ (v[:, j - degree] >> degree)
        for k, tap in enumerate(taps, 1):
            v[:, j] ^= tap * v[:, j - k]
    return v
