"""The data of automatic augmentation: operations with their ranges, and the policies that were found by search."""

import math
from enum import Enum

from ... import arange, linspace, tensor


class AutoAugmentPolicy(Enum):
    """The data set on which a policy was found (Cubuk et al. 2019)."""

    IMAGENET = "imagenet"
    CIFAR10 = "cifar10"
    SVHN = "svhn"


#: 25 pairs of (operation, probability, step of magnitude) per policy, as the paper's appendix lists them
_SEARCHED = {
    AutoAugmentPolicy.IMAGENET: """
        Posterize .4 8 Rotate .6 9; Solarize .6 5 AutoContrast .6 -; Equalize .8 - Equalize .6 -;
        Posterize .6 7 Posterize .6 6; Equalize .4 - Solarize .2 4; Equalize .4 - Rotate .8 8;
        Solarize .6 3 Equalize .6 -; Posterize .8 5 Equalize 1 -; Rotate .2 3 Solarize .6 8;
        Equalize .6 - Posterize .4 6; Rotate .8 8 Color .4 0; Rotate .4 9 Equalize .6 -;
        Equalize 0 - Equalize .8 -; Invert .6 - Equalize 1 -; Color .6 4 Contrast 1 8;
        Rotate .8 8 Color 1 2; Color .8 8 Solarize .8 7; Sharpness .4 7 Invert .6 -;
        ShearX .6 5 Equalize 1 -; Color .4 0 Equalize .6 -; Equalize .4 - Solarize .2 4;
        Solarize .6 5 AutoContrast .6 -; Invert .6 - Equalize 1 -; Color .6 4 Contrast 1 8;
        Equalize .8 - Equalize .6 -""",
    AutoAugmentPolicy.CIFAR10: """
        Invert .1 - Contrast .2 6; Rotate .7 2 TranslateX .3 9; Sharpness .8 1 Sharpness .9 3;
        ShearY .5 8 TranslateY .7 9; AutoContrast .5 - Equalize .9 -; ShearY .2 7 Posterize .3 7;
        Color .4 3 Brightness .6 7; Sharpness .3 9 Brightness .7 9; Equalize .6 - Equalize .5 -;
        Contrast .6 7 Sharpness .6 5; Color .7 7 TranslateX .5 8; Equalize .3 - AutoContrast .4 -;
        TranslateY .4 3 Sharpness .2 6; Brightness .9 6 Color .2 8; Solarize .5 2 Invert 0 -;
        Equalize .2 - AutoContrast .6 -; Equalize .2 - Equalize .6 -; Color .9 9 Equalize .6 -;
        AutoContrast .8 - Solarize .2 8; Brightness .1 3 Color .7 0; Solarize .4 5 AutoContrast .9 -;
        TranslateY .9 9 TranslateY .7 9; AutoContrast .9 - Solarize .8 3; Equalize .8 - Invert .1 -;
        TranslateY .7 9 AutoContrast .9 -""",
    AutoAugmentPolicy.SVHN: """
        ShearX .9 4 Invert .2 -; ShearY .9 8 Invert .7 -; Equalize .6 - Solarize .6 6; Invert .9 - Equalize .6 -;
        Equalize .6 - Rotate .9 3; ShearX .9 4 AutoContrast .8 -; ShearY .9 8 Invert .4 -; ShearY .9 5 Solarize .2 6;
        Invert .9 - AutoContrast .8 -; Equalize .6 - Rotate .9 3; ShearX .9 4 Solarize .3 3; ShearY .8 8 Invert .7 -;
        Equalize .9 - TranslateY .6 6; Invert .9 - Equalize .6 -; Contrast .3 3 Rotate .8 4;
        Invert .8 - TranslateY 0 2; ShearY .7 6 Solarize .4 8; Invert .6 - Rotate .8 4; ShearY .3 7 TranslateX .9 3;
        ShearX .1 6 Invert .6 -; Solarize .7 2 TranslateY .6 7; ShearY .8 4 Invert .8 -; ShearX .7 9 TranslateY .8 3;
        ShearY .8 5 AutoContrast .7 -; ShearX .7 2 Invert .1 -""",
}


def searched(policy):
    """[((operation, probability, step or None), (…)), …]"""
    pairs = []
    for line in _SEARCHED[policy].split(";"):
        words = line.split()
        pairs.append(tuple((words[k], float(words[k + 1]), None if words[k + 2] == "-" else int(words[k + 2]))
                           for k in (0, 3)))
    return pairs


def _bits(high, steps):
    """Fewer and fewer bits, `steps` less at the end."""
    return lambda bins: high - (arange(bins) / ((bins - 1) / steps)).round().int()


def _space(names, shear, across, down, turn, color, bits):
    """{operation: (magnitudes by the number of bins and the picture's height and width or None, has a sign)}."""
    ranges = {"ShearX": (lambda n, h, w: linspace(0.0, shear, n), True),
              "ShearY": (lambda n, h, w: linspace(0.0, shear, n), True),
              "TranslateX": (lambda n, h, w: linspace(0.0, across(w), n), True),
              "TranslateY": (lambda n, h, w: linspace(0.0, down(h), n), True),
              "Rotate": (lambda n, h, w: linspace(0.0, turn, n), True),
              "Posterize": (lambda n, h, w: bits(n), False),
              "Solarize": (lambda n, h, w: linspace(1.0, 0.0, n), False)}
    ranges |= {name: (lambda n, h, w: linspace(0.0, color, n), True)
               for name in ("Brightness", "Color", "Contrast", "Sharpness")}
    return {name: ranges.get(name, (lambda n, h, w: None, False)) for name in names.split()}


def _paper(side):
    return 150.0 / 331.0 * side


_MOVES = "ShearX ShearY TranslateX TranslateY Rotate"
_COLORS = "Brightness Color Contrast Sharpness"
AUTO = _space(f"{_MOVES} {_COLORS} Posterize Solarize AutoContrast Equalize Invert",
              0.3, _paper, _paper, 30.0, 0.9, _bits(8, 4))
RAND = _space(f"Identity {_MOVES} {_COLORS} Posterize Solarize AutoContrast Equalize",
              0.3, _paper, _paper, 30.0, 0.9, _bits(8, 4))
WIDE = _space(f"Identity {_MOVES} {_COLORS} Posterize Solarize AutoContrast Equalize",
              0.99, lambda w: 32.0, lambda h: 32.0, 135.0, 0.99, _bits(8, 6))
_MIX = f"{_MOVES} Posterize Solarize AutoContrast Equalize"
PART = _space(_MIX, 0.3, lambda w: w / 3.0, lambda h: h / 3.0, 30.0, 0.9, _bits(4, 4))
MIX = _space(f"{_MIX} {_COLORS}", 0.3, lambda w: w / 3.0, lambda h: h / 3.0, 30.0, 0.9, _bits(4, 4))


def tables(space, bins, size):
    """{operation: (tensor of magnitudes, has a sign)}; 0 for those without, 255 where solarizing begins."""
    found = {}
    for name, (magnitudes, signed) in space.items():
        values = magnitudes(bins, *size)
        values = tensor(0.0) if values is None else linspace(255.0, 0.0, bins) if name == "Solarize" else values
        found[name] = values, signed
    return found


def apply(F, image, name, magnitude, interpolation, fill):
    """One operation, done by the functions F (of v1 or v2)."""
    still = {"angle": 0.0, "translate": [0, 0], "scale": 1.0, "shear": [0.0, 0.0], "interpolation": interpolation,
             "fill": fill}
    sheared = math.degrees(math.atan(magnitude)) if name.startswith("Shear") else 0.0
    steps = {
        "Identity": lambda: image,
        "ShearX": lambda: F.affine(image, **still | {"shear": [sheared, 0.0], "center": [0, 0]}),
        "ShearY": lambda: F.affine(image, **still | {"shear": [0.0, sheared], "center": [0, 0]}),
        "TranslateX": lambda: F.affine(image, **still | {"translate": [int(magnitude), 0]}),
        "TranslateY": lambda: F.affine(image, **still | {"translate": [0, int(magnitude)]}),
        "Rotate": lambda: F.rotate(image, magnitude, interpolation=interpolation, fill=fill),
        "Brightness": lambda: F.adjust_brightness(image, 1.0 + magnitude),
        "Color": lambda: F.adjust_saturation(image, 1.0 + magnitude),
        "Contrast": lambda: F.adjust_contrast(image, 1.0 + magnitude),
        "Sharpness": lambda: F.adjust_sharpness(image, 1.0 + magnitude),
        "Posterize": lambda: F.posterize(image, int(magnitude)),
        "Solarize": lambda: F.solarize(image, magnitude),
        "AutoContrast": lambda: F.autocontrast(image),
        "Equalize": lambda: F.equalize(image),
        "Invert": lambda: F.invert(image),
    }
    return steps[name]()
