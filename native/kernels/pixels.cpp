// Pixels exchanged with channels (Shi et al. 2016): [..., c r r, h, w] and [..., c, h r, w r] hold the same numbers,
// and either is one copy of the other with its dimensions taken apart.
#include "views.h"

namespace flambeau {
namespace {

void check_image(const Call& c) {
  if (c.tensor(0).ndim < 3)
    runtime_error(c.name(), ": input must have at least 3 dimensions (channels, height, width), got ",
                  int(c.tensor(0).ndim));
}

void declare(Call& c, int64_t channels, int64_t height, int64_t width) {
  const Tensor& t = c.tensor(0);
  Layout l(t);
  l.ndim -= 3;
  for (int64_t n : {channels, height, width}) l.push(n, 0);
  c.output(l.shape(), t.dtype, t.device);
}

void infer_shuffle(Call& c) {
  check_image(c);
  const int64_t r = c.integer(1), *size = c.tensor(0).sizes + c.tensor(0).ndim - 3;
  if (r <= 0) runtime_error(c.name(), ": upscale_factor must be positive, got ", r);
  const int64_t area = size_product(c.name(), {r, r});
  if (size[0] % area)
    runtime_error(c.name(), ": upscale_factor=", r, " needs channels in multiples of ", area, ", got ", size[0]);
  declare(c, size[0] / area, size_product(c.name(), {size[1], r}), size_product(c.name(), {size[2], r}));
}

void infer_unshuffle(Call& c) {
  check_image(c);
  const int64_t r = c.integer(1), *size = c.tensor(0).sizes + c.tensor(0).ndim - 3;
  if (r <= 0 || size[1] % r || size[2] % r)
    runtime_error(c.name(), " expects height and width divisible by downscale_factor, but got ", size[1], " x ",
                  size[2], " and ", r);
  declare(c, size_product(c.name(), {size[0], r, r}), size[1] / r, size[2] / r);
}

// The elements of self in the order of the result.
template <bool kShuffle>
void cpu_exchange(Call& c) {
  const Tensor& t = c.tensor(0);
  const int64_t r = c.integer(1);
  if (t.numel == 0) return;
  Layout l(t);
  l.ndim -= 3;
  const int64_t *n = t.sizes + l.ndim, *step = t.strides + l.ndim;
  if (kShuffle) {
    l.push(n[0] / (r * r), step[0] * r * r);
    l.push(n[1], step[1]);
    l.push(r, step[0] * r);
    l.push(n[2], step[2]);
    l.push(r, step[0]);
  } else {
    l.push(n[0], step[0]);
    l.push(r, step[1]);
    l.push(r, step[2]);
    l.push(n[1] / r, step[1] * r);
    l.push(n[2] / r, step[2] * r);
  }
  TensorRef to = view_of(c.out(), l.shape(), contiguous_strides(l.shape()), c.out().data);
  copy_into(*to, *l.of(t));
}

const Primitives rows{
    {"pixel_shuffle", infer_shuffle, cpu_exchange<true>},
    {"pixel_unshuffle", infer_unshuffle, cpu_exchange<false>},
};

}  // namespace
}  // namespace flambeau
