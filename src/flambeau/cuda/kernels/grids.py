"""Images read at the places of a grid (grid_sampler), and what that passes back. See grid.cuh."""

import math
import struct

from .launches import Build, Parameter, numel
from .moves import accumulator
from .plans import Number

_FILES = ("grid.cuh",)
_INTERPOLATION, _PADDING = "lnc", "zbr"


class _Grid:
    """What the kernels of one call share."""

    def __init__(self, build, image, grid, interpolation, padding, align):
        self.build, self.rank = build, len(image.shape) - 2
        self.places = math.prod(grid.shape[1:-1])
        inside = (1,) * (3 - self.rank) + tuple(image.shape[2:])
        self.images = Parameter("const Images g", Number(struct.pack("<5q", *inside, image.shape[1], self.places)))
        self.wide = build.wide(image)
        self.taps = (f"each_tap<A, {self.rank}, '{_INTERPOLATION[interpolation]}', '{_PADDING[padding]}', "
                     f"{'true' if align else 'false'}>")

    def each(self, n, body, parameters, files=()):
        self.build.each(n, f"  typedef {self.wide} A;\n{body}", [*parameters, self.images], index="int64_t",
                        files=(*files, *_FILES))


#: the place of element i_ of a result [image, channel, place], and the plane that it reads
_ELEMENT = "  const int64_t plane = i_ / g.places, at = plane / g.channels * g.places + i_ % g.places;\n"


def _forward(call):
    image, grid, *how = call.args
    build, out = Build(call), call.results[0]
    own = _Grid(build, image, grid, *how)
    own.each(numel(out), f"""{_ELEMENT}  A sum = A(0);
  {own.taps}(g, grid + at * {own.rank}, [&](int64_t o, A w, A, A, A) {{
    sum = fma(w, cast<A>(x[plane * g.plane() + o]), sum);
  }});
  out[i_] = cast<{build.type(out)}>(sum);
""", [build.input("x", image), build.input("grid", grid), build.output("out", out)])
    return build.plan()


def _backward(call):
    """Pixels gather what is added to them atomically; a place of the grid sums over its channels."""
    grad, image, grid, *how = call.args
    build, (to_image, to_grid) = Build(call), call.results
    own = _Grid(build, image, grid, *how)
    given = [build.input("grad", grad), build.input("x", image), build.input("grid", grid)]
    sums, finish = accumulator(build, to_image)
    kind = sums.declaration.split("*")[0]
    own.each(numel(grad), f"""{_ELEMENT}  const A v = cast<A>(grad[i_]);
  {own.taps}(g, grid + at * {own.rank}, [&](int64_t o, A w, A, A, A) {{
    atomic_add(sums + plane * g.plane() + o, cast<{kind}>(w * v));
  }});
""", [given[0], given[2], sums], ("indexing.cuh",))
    finish()
    places = math.prod(grid.shape[:-1])
    put = "".join(f"  out[i_ * {own.rank} + {d}] = cast<{build.type(to_grid)}>(s{d});\n" for d in range(own.rank))
    own.each(places, f"""  A s0 = A(0), s1 = A(0), s2 = A(0);
  const int64_t first = i_ / g.places * g.channels, place = i_ % g.places;
  {own.taps}(g, grid + i_ * {own.rank}, [&](int64_t o, A, A by_x, A by_y, A by_z) {{
    A share = A(0);
    for (int64_t c = first; c < first + g.channels; ++c)
      share += cast<A>(grad[c * g.places + place]) * cast<A>(x[c * g.plane() + o]);
    s0 += share * by_x;
    s1 += share * by_y;
    s2 += share * by_z;
  }});
{put}""", [*given, build.output("out", to_grid)])
    return build.plan()


RULES = {"grid_sampler": _forward, "_grid_sampler_backward": _backward}
