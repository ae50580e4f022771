"""Says when a picture is unlike those that a network was trained on: its size, its shape, its contrast."""

import numpy

#: what 99 of 100 training pictures have: (least, most) part of bright pixels, widest ink for its height
USUAL = {"digits": ((0.18, 0.40), 0.9), "mnist": ((0.04, 0.28), 1.45)}
LONG = 2  # times as wide as high, or as high as wide: what is cut off is as large as what is seen
FAINT = 0.5  # of the range from black to white; the training pictures use nearly all of it


def unlike(raw, image, task, size):
    """Sentences about what is unusual; none for a picture like those of the training.

    `raw` is the picture as it was read, `image` as the network sees it, both 0 to 1.
    """
    (least, most), widest = USUAL[task]
    said = []
    if raw.shape != (size, size):
        said.append(f"size: it has {raw.shape[1]} x {raw.shape[0]} pixels; its ink was cut out and scaled to "
                    f"{size} x {size}")
    ink = raw > 0.2 * raw.max(initial=0)
    rows, columns = numpy.flatnonzero(ink.any(1)), numpy.flatnonzero(ink.any(0))
    wide = (columns[-1] - columns[0] + 1) / (rows[-1] - rows[0] + 1) if len(rows) else 0
    if wide > widest:
        said.append(f"shape: the ink is {wide:.1f} times as wide as it is high; in training at most {widest}")
    spread = float(raw.max(initial=0) - raw.min(initial=1))
    if spread < FAINT:
        said.append(f"contrast: ink and paper differ by {100 * spread:.0f} % of the range from black to white; "
                    f"in training by nearly 100 %")
    bright = float((image > 0.5).mean())
    if not least <= bright <= most:
        said.append(f"ink: {100 * bright:.0f} % of the pixels are bright; in training {100 * least:.0f} to "
                    f"{100 * most:.0f} %")
    return said


def unlike_photo(picture, size):
    """Sentences about what is unusual in a color picture that a network sees as `size` x `size` pixels."""
    said, (width, height) = [], picture.size
    if min(width, height) < size:
        said.append(f"size: it has {width} x {height} pixels; the network sees {size} x {size}, so it is enlarged")
    if max(width, height) > LONG * min(width, height):
        said.append(f"shape: it has {width} x {height} pixels; the network sees only the square in the middle")
    darkest, brightest = picture.convert("L").getextrema()
    if brightest - darkest < 255 * FAINT:
        share = 100 * (brightest - darkest) / 255
        said.append(f"contrast: its darkest and its brightest pixel differ by {share:.0f} % of the "
                    "range from black to white")
    return said
