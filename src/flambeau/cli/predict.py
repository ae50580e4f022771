"""`flambeau predict`: shows the image as the network sees it, and the class it predicts."""

import flambeau

from .checkpoint import load_network
from .images import read_image

SHADES = " .:-=+*#%@"


def predict(options):
    network, task = load_network(options.checkpoint)
    image = read_image(options.image, task, network.size)
    with flambeau.no_grad():
        chances = network(flambeau.from_numpy(image)[None, None]).softmax(1)[0].tolist()
    print(as_text(image))
    best = max(range(len(chances)), key=chances.__getitem__)
    for digit, chance in enumerate(chances):
        print(f"{'>' if digit == best else ' '} {digit}  {100 * chance:6.2f} %  {'#' * round(40 * chance)}")
    print(f"prediction: {best}")
    return 0


def as_text(image):
    """Two characters a pixel, so that it looks square."""
    levels = (image.clip(0, 1) * (len(SHADES) - 1)).round().astype(int)
    return "\n".join("".join(2 * SHADES[level] for level in row) for row in levels)
