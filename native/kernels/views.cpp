// The arithmetic of sizes and strides that views, copies and results share.
#include "views.h"

#include <algorithm>
#include <numeric>

#include "options.h"

namespace flambeau {

Slice slice_of(int64_t size, int64_t start, int64_t stop, int64_t step) {
  if (step == 0) value_error("slice step cannot be zero");
  int64_t low = step > 0 ? 0 : -1, high = step > 0 ? size : size - 1;
  auto clip = [&](int64_t at) {
    if (at < 0) at += size;
    return std::clamp(at, low, high);
  };
  start = start == kNoBound ? (step > 0 ? low : high) : clip(start);
  stop = stop == kNoBound ? (step > 0 ? high : low) : clip(stop);
  uint64_t span = step > 0 ? (stop > start ? uint64_t(stop - start) : 0) : (start > stop ? uint64_t(start - stop) : 0);
  uint64_t pace = step > 0 ? uint64_t(step) : 0 - uint64_t(step);
  return {start, step, span ? int64_t((span - 1) / pace) + 1 : 0};
}

void apply_slice(Layout& l, int dim, const Slice& s, int64_t itemsize) {
  if (s.length > 0 || s.step > 0) l.data += s.start * l.strides[dim] * itemsize;
  l.sizes[dim] = s.length;
  int64_t stride;  // a huge step leaves at most one element: its stride does not matter
  if (!__builtin_mul_overflow(l.strides[dim], s.step, &stride)) l.strides[dim] = stride;
}

bool view_strides(Dims sizes, Dims strides, Dims to, int64_t* result) {
  // Old dimensions fall into chunks that are contiguous in themselves; each chunk is cut up anew, from the back.
  int k = int(to.size()) - 1;
  int64_t chunk = 1, base = sizes.empty() ? 1 : strides.back();
  auto cut = [&] {
    int64_t done = 1;
    while (k >= 0 && (done < chunk || to[k] == 1)) {
      result[k] = done * base;
      done *= to[k--];
    }
    return done == chunk;
  };
  for (int d = int(sizes.size()) - 1; d >= 0; --d) {
    chunk *= sizes[d];
    bool ends = d == 0 || (sizes[d - 1] != 1 && strides[d - 1] != chunk * base);
    if (!ends) continue;
    if (!cut()) return false;
    if (d > 0) chunk = 1, base = strides[d - 1];
  }
  if (sizes.empty()) cut();
  return k < 0;
}

Sizes resolve_size(const char* op, Dims size, int64_t numel) {
  Sizes to;
  int64_t known = 1, unknown = -1;
  bool overflow = false;
  for (int64_t n : size) {
    if (n == -1) {
      if (unknown >= 0) runtime_error(op, ": -1 can stand for one size only, got ", shape_text(size));
      unknown = to.ndim;
    } else if (n < 0) {
      runtime_error(op, ": invalid shape dimension ", n, " in ", shape_text(size));
    } else {
      overflow |= __builtin_mul_overflow(known, n, &known);
    }
    to.size[to.ndim++] = n;
  }
  if (!overflow && unknown >= 0) {
    if (known == 0 && numel == 0)
      runtime_error(op, ": an empty tensor does not say what -1 stands for in ", shape_text(size), "; write the size");
    if (known > 0 && numel % known == 0) to.size[unknown] = numel / known, known = numel;
  }
  if (overflow || known != numel) runtime_error(op, ": ", numel, " elements cannot have shape ", shape_text(size));
  return to;
}

bool dense(const Tensor& t) {
  if (t.contiguous()) return true;
  int order[kMaxDims];
  int n = 0;
  for (int d = 0; d < t.ndim; ++d)
    if (t.sizes[d] != 1) order[n++] = d;
  std::sort(order, order + n, [&](int a, int b) { return t.strides[a] < t.strides[b]; });
  int64_t step = 1;
  for (int k = 0; k < n; ++k) {
    if (t.strides[order[k]] != step) return false;
    step *= t.sizes[order[k]];
  }
  return true;
}

std::vector<int64_t> like_strides(const Tensor& t) {
  if (t.contiguous()) return contiguous_strides(t.shape());
  if (dense(t)) return {t.strides, t.strides + t.ndim};
  std::vector<int> order(t.ndim);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    int64_t x = std::abs(t.strides[a]), y = std::abs(t.strides[b]);
    return x != 0 && y != 0 && x > y;  // a broadcast dimension stays where it is
  });
  std::vector<int64_t> strides(t.ndim);
  int64_t step = 1;
  for (int k = t.ndim; k-- > 0;) {
    strides[order[k]] = step;
    step *= std::max<int64_t>(t.sizes[order[k]], 1);
  }
  return strides;
}

std::vector<int64_t> format_strides(const Call& c, const Tensor& t, int64_t memory_format) {
  if (memory_format == 0) return contiguous_strides(t.shape());
  if (memory_format == 3) return like_strides(t);
  int want = memory_format == 1 ? 4 : 5;
  if (t.ndim != want)
    runtime_error(c.name(), ": memory_format channels_last", want == 5 ? "_3d" : "", " needs a tensor of ", want,
                  " dimensions, got ", int(t.ndim));
  std::vector<int64_t> strides(want);
  strides[1] = 1;
  int64_t step = std::max<int64_t>(t.sizes[1], 1);
  for (int d = want - 1; d >= 2; --d) strides[d] = step, step *= std::max<int64_t>(t.sizes[d], 1);
  strides[0] = step;
  return strides;
}

void begin_with_self(Call& c) {
  if (c.out().data != c.tensor(0).data) copy_into(c.out(), c.tensor(0));
}

void check_writable(const Call& c, const Tensor& t) {
  bool repeats = false;
  for (int d = 0; d < t.ndim; ++d) repeats |= t.strides[d] == 0 && t.sizes[d] > 1;
  if (repeats && t.numel > 0)
    runtime_error(c.name(), ": elements of the tensor written to share memory (shape ", shape_text(t.shape()),
                  ", strides ", shape_text(t.stride()), "); clone() it first");
}
}  // namespace flambeau
