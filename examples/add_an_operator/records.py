"""Two operators: a primitive with one kernel row (smoothstep.cpp), and a composite made of other operators."""

from flambeau.ops.kinds import composite, elementwise

smoothstep = elementwise(
    "smoothstep(Tensor self) -> Tensor", promote="int_to_float",
    d={"self": lambda g, self: g * 6 * self.clamp(0, 1) * (1 - self.clamp(0, 1))},
    samples=("reals", -0.5, 1.5),
    doc="3 x^2 - 2 x^3 between 0 and 1, 0 below and 1 above.")


@composite("rescale(Tensor self, Scalar low=0, Scalar high=1) -> Tensor")
def rescale(self, low=0, high=1):
    """Shift and stretch, so that the smallest element becomes `low` and the largest `high`."""
    least, most = self.amin(), self.amax()
    return low + (high - low) * (self - least) / (most - least)
