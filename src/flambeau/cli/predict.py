"""`flambeau predict`: shows the image as the network sees it, and the class it predicts."""

import flambeau

from .checkpoint import load_network
from .images import read_image
from .unlike import unlike

SHADES = " .:-=+*#%@"


def predict(options):
    network, task = load_network(options.checkpoint)
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


def as_text(image):
    """Two characters a pixel, so that it looks square."""
    levels = (image.clip(0, 1) * (len(SHADES) - 1)).round().astype(int)
    return "\n".join("".join(2 * SHADES[level] for level in row) for row in levels)
