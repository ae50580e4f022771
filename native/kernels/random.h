// What kernels of random numbers share: uniform numbers in bulk, and how they are spread over a tensor's elements.
#pragma once
#include <algorithm>
#include <bit>
#include <cmath>

#include "../core/generator.h"
#include "options.h"

namespace flambeau {


inline constexpr int64_t kChunk = 1 << 15;  // elements drawn at once: small enough for the cache
inline constexpr uint64_t kMask53 = (uint64_t(1) << 53) - 1;

inline Generator& generator(const Call& c, int k) { return c.has(k) ? *c.args[k].generator : default_generator(); }

// --- uniform numbers in bulk -----------------------------------------------------------------------------------------

inline void uniform24(Generator& g, float* to, int64_t n) {
  while (n > 0) {
    if (g.pos == Generator::kWords) g.refill();
    int64_t take = std::min<int64_t>(n, Generator::kWords - g.pos);
    const uint32_t* words = g.out + g.pos;
    for (int64_t k = 0; k < take; ++k) to[k] = float(int32_t(words[k] & 0xffffff)) * 0x1p-24f;
    g.pos += int32_t(take);
    to += take;
    n -= take;
  }
}

// f(k, r64) for n draws of 64 bits.
template <class F>
void draw64(Generator& g, int64_t n, F f) {
  int64_t k = 0;
  while (k < n) {
    if (Generator::kWords - g.pos < 2) {
      f(k++, g.r64());
      continue;
    }
    int64_t take = std::min<int64_t>(n - k, (Generator::kWords - g.pos) / 2);
    const uint32_t* words = g.out + g.pos;
    for (int64_t j = 0; j < take; ++j) f(k + j, uint64_t(words[2 * j]) << 32 | words[2 * j + 1]);
    g.pos += int32_t(2 * take);
    k += take;
  }
}

inline void uniform53(Generator& g, double* to, int64_t n) {
  draw64(g, n, [&](int64_t k, uint64_t r) { to[k] = double(int64_t(r & kMask53)) * 0x1p-53; });
}

// --- where the numbers go --------------------------------------------------------------------------------------------

// The tensor's elements as one run of memory, in the order of its addresses; tensors with gaps get fresh memory that
// `finish` copies from.
struct Run {
  TensorRef flat;   // 1-d
  TensorRef back;   // t with its dimensions sorted as `flat` goes, when `flat` is not t's own memory
  void finish() {
    if (back) copy_into(*back, *flat);
  }
};

inline Run run_of(const Call& c, Tensor& t) {
  check_writable(c, t);
  int64_t one = 1;
  if (dense(t)) return {view_of(t, Dims(&t.numel, 1), Dims(&one, 1), t.data), {}};
  std::vector<int> order(t.ndim);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return t.strides[a] > t.strides[b]; });
  std::vector<int64_t> sizes, strides;
  for (int d : order) {
    sizes.push_back(t.sizes[d]);
    strides.push_back(t.strides[d]);
  }
  TensorRef fresh = empty(sizes, t.dtype, t.device);
  return {fresh, view_of(t, sizes, strides, t.data)};
}

// copy_into needs equal shapes: `back` is n-d and `flat` has the same contiguous order.

// fill(T* to, int64_t n) draws the next n numbers; they are converted to the tensor's dtype.
template <class T, class F>
void fill_run(const Call& c, Tensor& t, DType as, Generator& g, F fill) {
  Run run = run_of(c, t);
  int64_t n = t.numel, one = 1;
  char* data = run.flat->data;
  if (t.dtype == as) {
    LockRelease lock(n * 8);
    Drawing drawing(g);
    fill(reinterpret_cast<T*>(data), n);
  } else {
    int64_t most = std::min(kChunk, n);
    TensorRef chunk = empty(Dims(&most, 1), as);
    Drawing drawing(g);  // of all chunks: nobody may seed in between
    for (int64_t done = 0; done < n; done += kChunk) {
      int64_t take = std::min(kChunk, n - done);
      fill(chunk->ptr<T>(), take);
      TensorRef from = view_of(*chunk, Dims(&take, 1), Dims(&one, 1), chunk->data);
      TensorRef to = view_of(*run.flat, Dims(&take, 1), Dims(&one, 1), data + done * t.itemsize());
      copy_into(*to, *from);
    }
  }
  run.finish();
}

// One double per element.
template <class F>
void each_double(const Call& c, Tensor& t, Generator& g, F next) {
  if (t.dtype == DType::Float32)
    return fill_run<float>(c, t, t.dtype, g, [&](float* to, int64_t n) {
      for (int64_t k = 0; k < n; ++k) to[k] = float(next(g));
    });
  fill_run<double>(c, t, DType::Float64, g, [&](double* to, int64_t n) {
    for (int64_t k = 0; k < n; ++k) to[k] = next(g);
  });
}

inline TensorRef as_real(Tensor& t) {  // complex seen as pairs of reals, innermost
  std::vector<int64_t> sizes(t.sizes, t.sizes + t.ndim), strides(t.strides, t.strides + t.ndim);
  for (int64_t& s : strides) s *= 2;
  sizes.push_back(2);
  strides.push_back(1);
  TensorRef r = TensorRef::steal(allocate_tensor());
  r->dtype = real_of(t.dtype);
  r->device = t.device;
  set_dims(*r, sizes, strides);
  r->storage = t.storage;
  retain(t.storage);
  r->data = t.data;
  return r;
}

inline void require_floating(const Call& c, const Tensor& t) {
  if (!is_floating(t.dtype))
    runtime_error(c.name(), ": expected a floating-point tensor (a continuous distribution), got dtype ",
                  dtype_name(t.dtype));
}

inline void refuse_float8(const Call& c, const Tensor& t) {
  if (is_float8(t.dtype))
    not_implemented(c.name(), ": ", dtype_name(t.dtype),
                    " is only stored; draw float32 numbers and convert the result with .to()");
}

inline void infer_self(Call& c) {
  check_writable(c, write_self(c));
  refuse_float8(c, c.tensor(0));
}

// Uniform numbers in [from, end), as uniform_ draws them.
void fill_uniform(const Call& c, Tensor& t, Generator& g, double from, double end);

}  // namespace flambeau
