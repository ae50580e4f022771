"""`flambeau predict`: shows the image as the network sees it, and the class it predicts."""

import numpy

import flambeau

from .checkpoint import load_network
from .classifier import Classifier
from .images import read_image
from .pictures import middle, read_color_image
from .unlike import unlike, unlike_photo

SHADES = " .:-=+*#%@"
WIDTH = 32  # of a color picture in characters


def predict(options):
    network, task = load_network(options.checkpoint)
    if isinstance(network, Classifier):
        return predict_photo(network, options.image)
    image, raw = read_image(options.image, task, network.size)
    with flambeau.no_grad():
        chances = network(flambeau.from_numpy(image)[None, None]).softmax(1)[0].tolist()
    print(as_text(image))
    order = sorted(range(len(chances)), key=lambda k: -chances[k])
    best = order[0]
    for digit, chance in enumerate(chances):
        print(f"{'>' if digit == best else ' '} {digit}  {100 * chance:6.2f} %  {'#' * round(40 * chance)}")
    for sentence in unlike(raw, image, task, network.size):
        print(f"unlike the training pictures: {sentence}")
    print(f"most likely: {', '.join(f'{k} ({100 * chances[k]:.1f} %)' for k in order[:3])}")
    print(f"prediction: {best}")
    return 0


def predict_photo(network, text):
    """The picture in grey, what is unusual about it, and the three most likely classes."""
    picture = read_color_image(text)
    pixels = middle(picture, network.size)
    with flambeau.no_grad():
        chances = network(flambeau.from_numpy(pixels)[None]).softmax(1)[0].tolist()
    order = sorted(range(len(chances)), key=lambda k: -chances[k])
    small = picture.convert("L").resize((WIDTH, max(1, round(WIDTH * picture.height / picture.width))))
    print(as_text(numpy.asarray(small) / 255))
    width = max(len(network.classes[k]) for k in order[:3])
    for k in order[:3]:
        print(f"{'>' if k == order[0] else ' '} {network.classes[k]:{width}}  {100 * chances[k]:6.2f} %  "
              f"{'#' * round(40 * chances[k])}")
    for sentence in unlike_photo(picture, network.size):
        print(f"unlike the training pictures: {sentence}")
    print(f"prediction: {network.classes[order[0]]}")
    return 0


def as_text(image):
    """Two characters a pixel, so that it looks square."""
    levels = (image.clip(0, 1) * (len(SHADES) - 1)).round().astype(int)
    return "\n".join("".join(2 * SHADES[level] for level in row) for row in levels)
