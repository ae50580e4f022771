// Matrix products: C = alpha A B + beta C + bias for strided A and B, every dtype, and the pieces of a blocked product
// that convolution and attention reuse.
//
// A and B are read through two strides each, so a transposed operand costs nothing; C has unit column stride.
// How a sum over k is cut depends on sizes alone: results do not depend on the number of threads.
#pragma once
#include <algorithm>
#include <span>

#include "../core/call.h"
#include "../core/machine.h"
#include "scratch.h"

namespace flambeau {

constexpr int64_t kParallelWork = 80 * 80 * 80;  // multiplications that repay a second thread
constexpr int64_t kSerial = INT64_MAX / 2;       // a grain no range reaches
constexpr int64_t rounded_up(int64_t n, int64_t unit) { return (n + unit - 1) / unit * unit; }

// What is done with a piece of C as soon as it is complete, while it is in a cache: by any thread, piece by piece.
template <class T>
struct Finish {
  virtual void piece(T* c, int64_t crs, int64_t rows, int64_t cols) const = 0;

 protected:
  ~Finish() = default;
};

// What a thread multiplies or packs next, brought into its second cache a few lines with each tile: neither matrices of
// a batch nor weights are in a cache before. A tile asks for its share at once, or takes rows and asks for a line of
// each as it goes, where the processor does not like bursts.
struct Fetch {
  struct Rows {
    const char* at = nullptr;
    int64_t count = 0, lines = 0, apart = 0, line = 0;  // apart in bytes; line: the next one of the first row
    void ask_for(int64_t n) const {  // line n of all rows
      const char* from = at + n * 64;
      for (int64_t r = count; r > 0; --r, from += apart) __builtin_prefetch(from, 0, 2);
    }
  };
  Rows rows[2];
  int64_t share = 0;
  void spread(int64_t tiles) {
    share = (std::max(rows[0].count * rows[0].lines, rows[1].count * rows[1].lines) + tiles - 1) / tiles;
  }
  Rows take() {
    Rows &all = rows[0], part = all;
    if (all.count == 0) return part;
    part.count = std::min(all.count, (share + all.lines - 1) / all.lines);
    all.at += part.count * all.apart;
    all.count -= part.count;
    return part;
  }
  void some() {
    for (Rows& r : rows)
      for (int64_t i = share; i > 0 && r.count > 0; --i) {
        __builtin_prefetch(r.at + r.line * 64, 0, 2);
        if (++r.line >= r.lines) r.line = 0, r.at += r.apart, --r.count;
      }
  }
};

template <class T>
struct Epilogue {
  T alpha = 1, beta = 0;         // beta == 0: C is not read
  const T* bias_col = nullptr;   // one number per column of C
  const T* bias_row = nullptr;   // one number per row of C
  const Finish<T>* finish = nullptr;  // of the whole product; kernels do not look at it
  Fetch* fetch = nullptr;             // one thread's
  const Fetch::Rows* ahead = nullptr;  // rows that one tile asks for
  bool exact = false;                  // float32 stays as exact as it is, whatever matrix products are allowed
};

constexpr int64_t kFewVectors = 8;  // that a matrix is read for as it lies; more of them repay panels of it

// Matrices of a batch: how many, and how many numbers each lies behind the one before.
struct Batch {
  int64_t count, a, b, c;
};

// The building blocks of one instruction set (kernels/simd/gemm.cpp).
template <class T>
struct GemmKernels {
  int mr, nr, width;
  // C[rows, cols] from packed panels a[k][mr] and b[k][nr]; rows <= mr, cols <= nr.
  void (*micro)(int64_t k, const T* a, const T* b, T* c, int64_t crs, int rows, int cols, const Epilogue<T>& e);
  // The same from A through its strides and rows of B `brs` apart, padded to whole vectors.
  void (*tile)(int64_t k, const T* a, int64_t ars, int64_t acs, const T* b, int64_t brs, T* c, int64_t crs, int rows,
               int cols, const Epilogue<T>& e);
  // panel[k][width] = src(row, k) = src[row * rs + k * ks]; rows past `rows` are zero.
  void (*pack)(T* panel, int width, const T* src, int64_t rs, int64_t ks, int64_t rows, int64_t k);
  // The product of operands that fit in cache, without packing A; `scratch` holds direct_scratch(n, k) numbers.
  void (*direct)(int64_t m, int64_t n, int64_t k, const T* a, int64_t ars, int64_t acs, const T* b, int64_t brs,
                 int64_t bcs, T* c, int64_t crs, const Epilogue<T>& e, T* scratch);
  // y[i * ys + j * ms] = alpha <a[i, :], x[j, :]> + beta y + bias[i], rows of unit stride, m <= kFewVectors vectors x
  void (*dots)(int64_t rows, int64_t k, const T* a, int64_t ars, int64_t m, const T* x, int64_t xs, T* y, int64_t ys,
               int64_t ms, T alpha, T beta, const T* bias);
  // y[m, n] = alpha x[m, k] B + beta y + bias, m <= kFewVectors: B is read once, several of its rows side by side from
  // left to right. Rows of x lie `ms` apart, those of y `ys`.
  void (*rows)(int64_t m, int64_t n, int64_t k, const T* x, int64_t xs, int64_t ms, const T* b, int64_t brs, T* y,
               int64_t ys, T alpha, T beta, const T* bias);
  // C = A B of a batch of small matrices, n <= nr, rows of B of unit stride. `last`: its last matrix is the last one
  // of all, so that nothing may be read behind it.
  void (*batch)(const Batch& all, bool last, int64_t m, int64_t n, int64_t k, const T* a, int64_t ars, int64_t acs,
                const T* b, int64_t brs, T* c, int64_t crs);
  int64_t direct_scratch(int64_t n, int64_t k) const { return (n + nr - 1) / nr * nr * k; }
};
extern const GemmKernels<float>* gemm_kernels_f32[2];
extern const GemmKernels<double>* gemm_kernels_f64[2];
extern const GemmKernels<uint64_t>* gemm_kernels_u64[2];
template <class T>
const GemmKernels<T>& gemm_kernels();

struct MatrixView {
  const void* data;
  int64_t rs, cs;  // strides of rows and columns, in elements
};

// float, double and uint64_t. `threads` false: stay in the calling thread (it is one of many already).
template <class T>
void gemm(int64_t m, int64_t n, int64_t k, const T* a, int64_t ars, int64_t acs, const T* b, int64_t brs, int64_t bcs,
          T* c, int64_t crs, const Epilogue<T>& e = {}, bool threads = true);

// Products of one A [m, k] with several matrices b [n, k] whose rows follow each other: c = A b' + bias, each as gemm
// computes it. Threads share them as if they were one.
struct Joined {
  int64_t n;
  const float *b, *bias;  // bias may be null
  float* c;
};
void gemm_joined(int64_t m, int64_t k, const float* a, std::span<const Joined> products);

// Any dtype but bool and float8; C in the operands' dtype, `bias` (per column, may be null) too.
void gemm_any(DType dtype, int64_t m, int64_t n, int64_t k, MatrixView a, MatrixView b, void* c, int64_t crs,
              const Scalar& alpha, const Scalar& beta, const void* bias = nullptr, bool threads = true,
              Fetch* fetch = nullptr);

// A vector with its elements side by side: itself or a copy.
template <class T>
const T* side_by_side(const T* x, int64_t step, int64_t n, ScratchSlot slot) {
  if (step == 1) return x;
  T* copy = scratch<T>(slot, n);
  for (int64_t k = 0; k < n; ++k) copy[k] = x[k * step];
  return copy;
}

// The dot product of integers, which wraps.
template <class U>
U narrow_dot(const U* a, const U* b, int64_t n) {
  U sum = 0;
  for (int64_t i = 0; i < n; ++i) sum = U(sum + U(uint32_t(a[i]) * uint32_t(b[i])));  // int would overflow
  return sum;
}

// How many numbers a matrix has; an error where no memory could hold them.
inline size_t product_area(int64_t rows, int64_t cols) { return size_t(size_product("matmul", {rows, cols})); }

// Convert n numbers between float32 and float16/bfloat16.
void half_to_float(DType dtype, const void* src, int64_t stride, float* dst, int64_t n);
void float_to_half(DType dtype, const float* src, void* dst, int64_t n);

}  // namespace flambeau
