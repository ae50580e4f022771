"""Which rows of a JPEG picture are decoded: a crop of one that lies in memory as a file needs those above its end.

A JPEG file is decoded from the top, so that nothing below the crop costs anything. Pillow's decoder takes the rows that
are wanted; the picture around it is as large as ever, so that a decoder which went on would write into its own memory.
Whatever is unusual (another format, a file that is not in memory, a decoder that stopped early) is left to Pillow.
"""

import io

from ._kinds import pillow

_MARK = (1, 254, 3, 252)  # a row of this color was not written


def rows_above(picture, end):
    """The picture with the rows before `end` decoded, or None where Pillow has to decode all of it."""
    if not 0 < end < picture.height or not _waits(picture):
        return None
    kept = vars(picture).pop("_rows_above", None)
    if kept is None:
        picture._rows_above = kept = (end, _decoded(picture, end))
    elif kept[0] >= end:
        picture._rows_above = kept  # the next crop may lie above as well
    else:
        return None  # twice is as much work as all
    return kept[1]


def _waits(picture):
    """Whether this is a whole JPEG file in memory that has not been decoded."""
    tiles = getattr(picture, "tile", None)
    if not tiles or len(tiles) != 1 or picture.format != "JPEG" or not isinstance(picture.fp, io.BytesIO):
        return False
    codec, extents, offset, _ = tiles[0]
    return codec == "jpeg" and extents == (0, 0, *picture.size) and offset == 0


def _decoded(picture, end):
    """A picture of the whole size whose rows before `end` are decoded; None if the decoder did not come so far."""
    image = pillow("crop")
    width = picture.width
    values = image.core.new(picture.mode, picture.size)
    mark = _MARK[:values.bands] if values.bands > 1 else _MARK[0]
    values.paste(mark, (0, end - 1, width, end))
    decoder = image._getdecoder(picture.mode, "jpeg", picture.tile[0][3], picture.decoderconfig)
    try:
        decoder.setimage(values, (0, 0, width, end))
        decoder.decode(picture.fp.getbuffer())  # it ends with an error, since rows are left: the mark tells the rest
    finally:
        decoder.cleanup()
    found = picture._new(values)
    last = found.crop((0, end - 1, width, end))
    return None if last.getcolors(1) == [(width, mark)] else found
