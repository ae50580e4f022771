"""Expressions whose results equal torchvision's to the bit, with the CRC-32 of what torchvision gives.

`python tests/vision/bits_cases.py` prints the checksums with torchvision (here 0.28 with PyTorch 2.13, one thread: with
more threads PyTorch adds the four products of bilinear interpolation in another order).
"""

CASES = {
    "F.interpolate(x, size=[50, 70], mode='bilinear', antialias=True)": 0xa32141fd,
    "F.interpolate(x, size=[48, 31], mode='bilinear')": 0xde3523d9,
    "F.interpolate(x, scale_factor=(2.5, 3.0), mode='bilinear')": 0x96fda9d3,
    "F.interpolate(x, size=[201, 77], mode='bilinear', align_corners=True)": 0x98101f08,
    "F.interpolate(x, size=[7, 9], mode='bilinear', antialias=True)": 0x4544aeec,
    "F.interpolate(x, size=[150, 210], mode='bilinear', antialias=True)": 0xe1795bdd,
    "F.interpolate(x, size=[48, 48], mode='bicubic', antialias=True)": 0xa8c5aba4,
    "F.interpolate(x, size=[200, 40], mode='bicubic', antialias=True)": 0x385e5550,
    "F.grid_sample(x, grid, align_corners=False)": 0x3615362d,
    "F.grid_sample(x, grid * 0.9, mode='nearest', align_corners=True)": 0x724ecfce,
    "v1.resize(u, [50, 70])": 0x2a077929,
    "v1.resize(u, [33], antialias=False)": 0x94f9467e,
    "v1.gaussian_blur(x[0], [5, 9], [0.7, 2.0])": 0x49165d69,
    "v1.rotate(x[0], 33.0, interpolation=bilinear, fill=[4.0])": 0x84a5be9e,
    "v1.affine(x[0], -33.0, [5, 7], 0.8, [10.0, 4.0], interpolation=bilinear)": 0xb94c757d,
    "v1.perspective(x[0], square, [[5, 3], [90, 8], [93, 70], [4, 75]], fill=[7.0])": 0x954b5501,
    "v2.adjust_saturation(u, 1.9)": 0xe00f002b,
    "v2.adjust_saturation(u, 0.7)": 0x59fedc7c,
    "v2.adjust_hue(u, -0.37)": 0x22bc71d3,
    "v1.autocontrast(u // 2 + 11)": 0xd508651a,
    "v2.autocontrast(u // 2 + 11)": 0x59d309e7,
    "v2.to_dtype(u, torch.float32, scale=True)": 0x0ee4dc46,
    "v2.elastic(whole, grid / 9)": 0xa56d04d5,
    "v2.rotate(box, 27.0, expand=True).canvas_size": 0xae8b4bd7,
}


def values(torch, functional, v1, v2, bilinear, boxes):
    """The names in the expressions."""
    k = torch.arange(3 * 80 * 100)
    u = ((k * 7919 + (k * k) % 1009) % 256).to(torch.uint8).view(3, 80, 100)
    x = u.to(torch.float32)[None] / 251
    g = torch.arange(60 * 50 * 2)
    grid = ((g * 613 % 2003).to(torch.float32) / 2003 * 2.4 - 1.2).view(1, 60, 50, 2)
    return {"torch": torch, "F": functional, "v1": v1, "v2": v2, "bilinear": bilinear, "u": u, "x": x, "grid": grid,
            "square": [[0, 0], [99, 0], [99, 79], [0, 79]],
            "whole": boxes(torch.tensor([[22, 28, 35, 44], [31, 29, 13, 9]]), format="CXCYWH", canvas_size=(60, 50)),
            "box": boxes([[2.0, 3.0, 20.0, 30.0]], format="XYXY", canvas_size=(80, 100))}


def checksums(names):
    """{expression: CRC-32}."""
    import zlib
    out = {}
    for case in CASES:
        found = eval(case, dict(names))
        out[case] = zlib.crc32(repr(tuple(found)).encode() if isinstance(found, (tuple, list)) else
                               found.contiguous().numpy().tobytes())
    return out


if __name__ == "__main__":
    import torch
    torch.set_num_threads(1)
    from torchvision import tv_tensors
    from torchvision.transforms import InterpolationMode, v2
    from torchvision.transforms import functional as v1
    given = values(torch, torch.nn.functional, v1, v2.functional, InterpolationMode.BILINEAR, tv_tensors.BoundingBoxes)
    for case, found in checksums(given).items():
        print(f'    "{case}": {found:#010x},')
