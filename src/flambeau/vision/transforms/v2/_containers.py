"""Transforms (v2) that hold others."""

from collections.abc import Sequence

from .... import multinomial, rand, randperm, tensor
from ...._shown import shown
from ....nn import ModuleList
from ._transform import Transform


def _checked(transforms, where):
    if not isinstance(transforms, (Sequence, ModuleList)):
        raise TypeError(f"{where}: a sequence of transforms is needed, got {type(transforms).__name__}")
    return transforms


class Compose(Transform):
    """Runs transforms one after the other."""

    def __init__(self, transforms):
        super().__init__()
        self.transforms = _checked(transforms, "Compose")
        if not self.transforms:
            raise ValueError("Compose: at least one transform is needed")

    def forward(self, *inputs):
        several = len(inputs) > 1
        for change in self.transforms:
            output = change(*inputs)
            inputs = output if several else (output,)
        return output

    def extra_repr(self):
        return "\n" + "\n".join(f"      {change}" for change in self.transforms) + "\n"

    def __repr__(self):
        return f"{type(self).__name__}({self.extra_repr()})"


class RandomApply(Compose):
    """Runs all of the transforms with probability p, or none."""

    def __init__(self, transforms, p=0.5):
        Transform.__init__(self)
        self.transforms = _checked(transforms, "RandomApply")
        if not 0.0 <= p <= 1.0:
            raise ValueError(f"RandomApply: p must be between 0 and 1, got {shown(p)}")
        self.p = p

    def forward(self, *inputs):
        if rand(1).item() >= self.p:
            return inputs if len(inputs) > 1 else inputs[0]
        return super().forward(*inputs)


class RandomChoice(Transform):
    """Runs one of the transforms, drawn with the weights p."""

    def __init__(self, transforms, p=None):
        super().__init__()
        self.transforms = _checked(transforms, "RandomChoice")
        if p is not None and len(p) != len(transforms):
            raise ValueError(f"RandomChoice: {len(transforms)} transforms need as many weights, got {len(p)}")
        weights = [1.0] * len(transforms) if p is None else p
        total = sum(weights)
        self.p = [weight / total for weight in weights]

    def forward(self, *inputs):
        return self.transforms[int(multinomial(tensor(self.p), 1))](*inputs)


class RandomOrder(Transform):
    """Runs the transforms in a drawn order."""

    def __init__(self, transforms):
        super().__init__()
        self.transforms = _checked(transforms, "RandomOrder")

    def forward(self, *inputs):
        several = len(inputs) > 1
        for k in randperm(len(self.transforms)).tolist():
            output = self.transforms[k](*inputs)
            inputs = output if several else (output,)
        return inputs if several else inputs[0]
