"""SobolEngine: SciPy's sequence and PyTorch's points for a seed, balance, state."""

import numpy as np
import pytest
from scipy.stats import qmc

import flambeau
from flambeau.quasirandom import SobolEngine


@pytest.mark.parametrize("dimension", [1, 2, 3, 40, 1111])
def test_the_sequence_is_scipys(dimension):
    wanted = qmc.Sobol(dimension, scramble=False, bits=30).random(64)
    np.testing.assert_array_equal(SobolEngine(dimension).draw(64, dtype=flambeau.float64), wanted)


def test_the_last_dimension():
    engine = SobolEngine(SobolEngine.MAXDIM)
    wanted = qmc.Sobol(SobolEngine.MAXDIM, scramble=False, bits=30).random(8)
    np.testing.assert_array_equal(engine.draw(8, dtype=flambeau.float64), wanted)


def test_scrambled_points_are_pytorchs():
    engine = SobolEngine(5, scramble=True, seed=3)
    assert engine.shift.tolist() == [73513868, 241083994, 750744354, 67200864, 403077534]
    assert engine.sobolstate[0, :3].tolist() == [1027508324, 303107688, 236470903]
    np.testing.assert_allclose(engine.draw(3)[1:], [[0.8964, 0.7278, 0.2717, 0.5922, 0.5054],
                                                    [0.6767, 0.2636, 0.7703, 0.3778, 0.9777]], atol=5e-5)
    flambeau.manual_seed(0)
    np.testing.assert_allclose(SobolEngine(2, scramble=True).draw(1), [[0.4751, 0.5925]], atol=5e-5)


@pytest.mark.parametrize("scramble", [False, True])
def test_a_power_of_two_points_are_balanced(scramble):
    """Each of 2^m intervals of every dimension holds one of 2^m points."""
    points = SobolEngine(9, scramble=scramble, seed=1).draw_base2(6)
    for column in points.T:
        assert sorted((column * 64).long().tolist()) == list(range(64))


def test_state():
    whole = SobolEngine(3, scramble=True, seed=1).draw(20)
    engine = SobolEngine(3, scramble=True, seed=1)
    parts = [engine.draw(n) for n in (1, 0, 4, 7)]
    flambeau.testing.assert_close(flambeau.cat(parts), whole[:12])
    assert engine.num_generated == 12
    flambeau.testing.assert_close(engine.fast_forward(3).draw(5), whole[15:])
    out = flambeau.empty(2, 3)
    engine.reset().draw(2, out=out)
    flambeau.testing.assert_close(out, whole[:2])
    assert repr(engine) == "SobolEngine(dimension=3, scramble=True, seed=1)"


def test_mistakes():
    for wrong in (0, SobolEngine.MAXDIM + 1):
        with pytest.raises(ValueError, match=str(wrong)):
            SobolEngine(wrong)
    engine = SobolEngine(2)
    engine.draw(3)
    with pytest.raises(ValueError, match="power of two"):
        engine.draw_base2(3)
