// Pixels exchanged with channels (Shi et al. 2016): [..., c r r, h, w] and [..., c, h r, w r] hold the same numbers,
// and either is one copy of the other with its dimensions taken apart.
#include "../core/channels_last.h"
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
  if (t.ndim == 4 && has_channels_last(t)) c.output(l.shape(), t.dtype, t.device, channels_last_strides(l.shape()));
  else c.output(l.shape(), t.dtype, t.device);
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

// Pixels of `few` channels as many channels of fewer pixels: [..., channels, height, r, width, r] of both tensors.
void exchange(Tensor& to, const Tensor& from, int64_t r, bool shuffle) {
  const Tensor &few = shuffle ? to : from, &many = shuffle ? from : to;
  auto taken_apart = [&](const Tensor& t) {
    Layout l(t);
    l.ndim -= 3;
    const int64_t *n = many.sizes + l.ndim, *step = t.strides + l.ndim, area = r * r;
    const bool whole = &t == &few;
    l.push(n[0] / area, whole ? step[0] : step[0] * area);
    l.push(n[1], whole ? step[1] * r : step[1]);
    l.push(r, whole ? step[1] : step[0] * r);
    l.push(n[2], whole ? step[2] * r : step[2]);
    l.push(r, whole ? step[2] : step[0]);
    return l.of(t);
  };
  copy_into(*taken_apart(to), *taken_apart(from));
}
template <bool kShuffle>
void cpu_exchange(Call& c) {
  if (c.out().numel) exchange(c.out(), c.tensor(0), c.integer(1), kShuffle);
}

// channel_shuffle(self, groups): the channels of `groups` groups dealt out in turn.
void infer_channel_shuffle(Call& c) {
  const Tensor& t = c.tensor(0);
  if (t.ndim < 3)
    runtime_error(c.name(), ": input must have at least 3 dimensions (batch, channels, positions), got shape ",
                  shape_text(t.shape()));
  const int64_t groups = c.integer(1);
  if (groups <= 0 || t.size(1) % groups)
    runtime_error(c.name(), ": ", t.size(1), " channels cannot be divided into groups=", groups);
  if (has_channels_last(t)) c.output(t.shape(), t.dtype, t.device, channels_last_strides(t.shape()));
  else c.output_like(t);
}
void cpu_channel_shuffle(Call& c) {
  const Tensor& t = c.tensor(0);
  const int64_t groups = c.integer(1), each = t.size(1) / groups;
  if (!t.numel) return;
  auto taken_apart = [](const Tensor& t, int64_t outer, int64_t outer_step, int64_t inner, int64_t inner_step) {
    Layout l(t);
    l.ndim = 1;
    l.push(outer, outer_step);
    l.push(inner, inner_step);
    for (int d = 2; d < t.ndim; ++d) l.push(t.sizes[d], t.strides[d]);
    return l.of(t);
  };
  Tensor& out = c.out();
  copy_into(*taken_apart(out, each, out.strides[1] * groups, groups, out.strides[1]),
            *taken_apart(t, each, t.strides[1], groups, t.strides[1] * each));
}

const Primitives rows{
    {"pixel_shuffle", infer_shuffle, cpu_exchange<true>, Images::Kept},
    {"pixel_unshuffle", infer_unshuffle, cpu_exchange<false>, Images::Kept},
    {"channel_shuffle", infer_channel_shuffle, cpu_channel_shuffle, Images::Kept},
};

}  // namespace
}  // namespace flambeau
