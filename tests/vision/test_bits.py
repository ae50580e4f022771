"""Results that are torchvision's to the bit: the order of sums and the fused products are part of what is promised."""

import pytest

import flambeau
from flambeau.vision import tv_tensors
from flambeau.vision.transforms import InterpolationMode, v2
from flambeau.vision.transforms import functional as v1

from . import bits_cases

pytest.importorskip("numpy")


@pytest.fixture(scope="module")
def found():
    return bits_cases.checksums(bits_cases.values(flambeau, flambeau.nn.functional, v1, v2.functional,
                                                  InterpolationMode.BILINEAR, tv_tensors.BoundingBoxes))


@pytest.mark.parametrize("case", bits_cases.CASES)
def test_equal_to_torchvision_to_the_bit(found, case):
    assert found[case] == bits_cases.CASES[case]
