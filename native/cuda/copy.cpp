// Copies and fills where memory of a CUDA device is involved.
//
// Equal layouts move as bytes. Between host and device the side that can be rearranged for nothing is: the host's. What
// stays strided on a device goes through a generated kernel, `copy` or `fill`.
#include "copy.h"

#include <algorithm>
#include <cstring>

#include "../core/device_table.h"
#include "../kernels/options.h"
#include "allocator.h"
#include "pinned.h"
#include "plan.h"

namespace flambeau::cuda {
namespace {

Address address_of(const Tensor& t) { return reinterpret_cast<Address>(t.data); }

// src as a tensor of dst's shape: dimensions of one element are repeated.
TensorRef spread(const Tensor& src, Dims shape) {
  const int more = int(shape.size()) - src.ndim;
  bool fits = true;
  for (int d = 0; d < -more; ++d) fits &= src.sizes[d] == 1;
  std::vector<int64_t> strides(shape.size(), 0);
  for (int d = 0; d < int(shape.size()); ++d) {
    const int own = d - more;
    if (own < 0) continue;
    fits &= src.sizes[own] == shape[size_t(d)] || src.sizes[own] == 1;
    if (src.sizes[own] != 1) strides[size_t(d)] = src.strides[own];
  }
  if (!fits)
    runtime_error("copy: expected a tensor that broadcasts to ", shape_text(shape), " but got ",
                  shape_text(src.shape()));
  return view_of(src, shape, strides, src.data);
}

bool same_layout(const Tensor& a, const Tensor& b) {
  if (a.dtype != b.dtype || a.ndim != b.ndim) return false;
  for (int d = 0; d < a.ndim; ++d)
    if (a.sizes[d] != b.sizes[d] || (a.sizes[d] > 1 && a.strides[d] != b.strides[d])) return false;
  return dense(a);
}

void upload(Tensor& dst, const Tensor& src, bool wait) {
  const int device = index_of(dst.device);
  if (wait) about_to_wait("copy");
  use_device(device);
  const Stream stream = current_stream(device);
  check(driver().copy_to_device(address_of(dst), src.data, size_t(dst.nbytes()), stream), "copy");
  if (wait) synchronize_stream(device, stream, "copy", {&dst, &src});
  else pinned_used(*src.storage, device, stream);
}

void to_device(Tensor& dst, const Tensor& src) {
  if (same_layout(dst, src)) return upload(dst, src, !tls.cuda_non_blocking);
  if (dense(dst)) {
    TensorRef arranged = empty_strided(dst.shape(), dst.stride(), dst.dtype);
    copy_on_cpu(*arranged, src);
    return upload(dst, *arranged, true);
  }
  TensorRef arranged = empty(dst.shape(), dst.dtype, dst.device);
  to_device(*arranged, src);
  copy_strided(dst, *arranged);
}

void to_host(Tensor& dst, const Tensor& src) {
  const int device = index_of(src.device);
  use_device(device);
  const Stream stream = current_stream(device);
  if (same_layout(dst, src)) {
    const bool wait = !tls.cuda_non_blocking || !is_pinned(*dst.storage);
    if (wait) about_to_wait("copy");
    check(driver().copy_to_host(dst.data, address_of(src), size_t(src.nbytes()), stream), "copy");
    if (wait) synchronize_stream(device, stream, "copy", {&dst, &src});
    else pinned_used(*dst.storage, device, stream);
    return;
  }
  const auto [first, last] = address_range(src);
  const int64_t low = first - src.data, high = last - src.data;
  constexpr int64_t kSmall = 1 << 16;
  if (high - low > 2 * src.nbytes() + kSmall) {
    TensorRef packed = empty(src.shape(), src.dtype, src.device);
    copy_strided(*packed, src);
    return to_host(dst, *packed);
  }
  about_to_wait("copy");
  const int64_t bytes = high - low;
  TensorRef raw = empty(Dims(&bytes, 1), DType::UInt8);
  check(driver().copy_to_host(raw->data, address_of(src) + Address(low), size_t(bytes), stream), "copy");
  synchronize_stream(device, stream, "copy", {raw.get(), &src});
  raw->dtype = src.dtype;
  TensorRef seen = view_of(*raw, src.shape(), src.stride(), raw->data - low);
  copy_on_cpu(dst, *seen);
}

// Work of two devices in order: `after` begins when what `before` has now is over.
void chain(int before, int after) {
  Event e = new_event(before, false);
  record(e, current_stream(before), before);
  stream_waits(current_stream(after), e, after);
  drop_event(before, e, false);
}

void between_devices(Tensor& dst, const Tensor& src) {
  const int from = index_of(src.device), to = index_of(dst.device);
  if (dst.dtype != src.dtype || !src.contiguous()) {  // the sender packs and converts
    TensorRef packed = empty(src.shape(), dst.dtype, src.device);
    copy_into(*packed, src);
    return between_devices(dst, *packed);
  }
  if (!dst.contiguous()) {
    TensorRef packed = empty(dst.shape(), dst.dtype, dst.device);
    between_devices(*packed, src);
    return copy_strided(dst, *packed);
  }
  allow_peer(from, to);
  chain(to, from);
  use_device(from);
  check(driver().copy_to_peer(address_of(dst), context_of(to), address_of(src), context_of(from), size_t(src.nbytes()),
                              current_stream(from)),
        "copy");
  chain(from, to);
}

void on_device(Tensor& dst, const Tensor& src) {
  if (dst.data == src.data && same_layout(dst, src)) return;
  if (ranges_meet(dst, src)) {
    TensorRef apart = empty(src.shape(), src.dtype, src.device);
    copy_strided(*apart, src);
    return on_device(dst, *apart);
  }
  if (!same_layout(dst, src)) return copy_strided(dst, src);
  const int device = index_of(dst.device);
  use_device(device);
  check(driver().copy_on_device(address_of(dst), address_of(src), size_t(dst.nbytes()), current_stream(device)),
        "copy");
}

// Whether memset can write that pattern, and how: the pattern as a number of 1, 2 or 4 bytes.
int simple_pattern(const char* bytes, int64_t item, unsigned* value) {
  *value = 0;
  if (item <= 4) {
    std::memcpy(value, bytes, size_t(item));
    return int(item);
  }
  for (int64_t k = 4; k < item; k += 4)
    if (std::memcmp(bytes, bytes + k, 4)) return 0;
  std::memcpy(value, bytes, 4);
  return 4;
}

}  // namespace

void copy(Tensor& dst, const Tensor& source) {
  TensorRef src = spread(source, dst.shape());
  if (dst.numel == 0) return;
  const bool from_host = src->device.type != DeviceType::CUDA, to_there = dst.device.type == DeviceType::CUDA;
  if (from_host) return to_device(dst, *src);
  if (!to_there) return to_host(dst, *src);
  if (dst.device == src->device) return on_device(dst, *src);
  between_devices(dst, *src);
}

void fill(Tensor& dst, const Scalar& value) {
  if (dst.numel == 0) return;
  alignas(16) char bytes[16];
  store_scalar(bytes, value, dst.dtype);
  unsigned pattern;
  const int width = simple_pattern(bytes, dst.itemsize(), &pattern);
  if (!width || !dense(dst)) return fill_strided(dst, bytes);
  const int device = index_of(dst.device);
  use_device(device);
  const Stream stream = current_stream(device);
  const Driver& d = driver();
  const size_t count = size_t(dst.nbytes()) / size_t(width);
  check(width == 1   ? d.fill8(address_of(dst), static_cast<unsigned char>(pattern), count, stream)
        : width == 2 ? d.fill16(address_of(dst), static_cast<unsigned short>(pattern), count, stream)
                     : d.fill32(address_of(dst), pattern, count, stream),
        "fill");
}

}  // namespace flambeau::cuda
