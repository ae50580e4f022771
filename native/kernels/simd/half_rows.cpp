// Dot products of rows of halves with vectors of float32: halves are widened in registers, so that half the bytes are
// read.
#include "../half_rows.h"

#include "halves.h"
#include "lanes.h"

namespace flambeau::FLAMBEAU_SIMD {
namespace {

// R rows of B with M vectors. The last k mod width halves are copied to a block that ends in zeros.
template <class H, int R, int M>
void block(int64_t k, const uint16_t* b, int64_t bs, const float* x, int64_t xs, float* y, int64_t ms) {
  constexpr int W = F32::width;
  F32::V sums[M][R];
  for (int i = 0; i < M; ++i)
    for (int r = 0; r < R; ++r) sums[i][r] = F32::zero();
  int64_t p = 0;
  for (; p + W <= k; p += W) {
    F32::V wide[R];
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) wide[r] = H::load(b + r * bs + p);
#pragma GCC unroll 8
    for (int i = 0; i < M; ++i) {
      const F32::V v = F32::load(x + i * xs + p);
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) sums[i][r] = F32::fma(wide[r], v, sums[i][r]);
    }
  }
  if (const int rest = int(k - p)) {
    const auto mask = F32::mask(rest);
    for (int r = 0; r < R; ++r) {
      uint16_t last[W] = {};
      std::copy_n(b + r * bs + p, rest, last);
      const F32::V wide = H::load(last);
      for (int i = 0; i < M; ++i) sums[i][r] = F32::fma(wide, F32::load(x + i * xs + p, mask), sums[i][r]);
    }
  }
  for (int i = 0; i < M; ++i)
    for (int r = 0; r < R; ++r) y[i * ms + r] = F32::sum(sums[i][r]);
}

template <class H, int M>
void all_rows(int64_t count, int64_t k, const uint16_t* b, int64_t bs, const float* x, int64_t xs, float* y,
              int64_t ms) {
  constexpr int R = M == 1 ? 8 : M == 2 ? 4 : 2;
  int64_t j = 0;
  for (; j + R <= count; j += R) block<H, R, M>(k, b + j * bs, bs, x, xs, y + j, ms);
  for (; j < count; ++j) block<H, 1, M>(k, b + j * bs, bs, x, xs, y + j, ms);
}

template <class H>
void dots(int64_t count, int64_t k, const uint16_t* b, int64_t bs, int m, const float* x, int64_t xs, float* y,
          int64_t ms) {
  switch (m) {
    case 1: return all_rows<H, 1>(count, k, b, bs, x, xs, y, ms);
    case 2: return all_rows<H, 2>(count, k, b, bs, x, xs, y, ms);
    case 3: return all_rows<H, 3>(count, k, b, bs, x, xs, y, ms);
    default: return all_rows<H, 4>(count, k, b, bs, x, xs, y, ms);
  }
}

// sums += x[0] b[0, :] + … of R rows of B. The last vector of columns is copied to one that ends in zeros.
template <class H, int R>
void add_rows(int64_t count, const uint16_t* b, int64_t bs, const float* x, float* sums) {
  constexpr int W = F32::width;
  F32::V factor[R];
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) factor[r] = F32::set(x[r]);
  int64_t j = 0;
  for (; j + W <= count; j += W) {
    F32::V v = F32::load(sums + j);
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) v = F32::fma(factor[r], H::load(b + r * bs + j), v);
    F32::store(sums + j, v);
  }
  if (const int rest = int(count - j)) {
    const auto mask = F32::mask(rest);
    F32::V v = F32::load(sums + j, mask);
    for (int r = 0; r < R; ++r) {
      uint16_t last[W] = {};
      std::copy_n(b + r * bs + j, rest, last);
      v = F32::fma(factor[r], H::load(last), v);
    }
    F32::store(sums + j, v, mask);
  }
}
template <class H>
void add_all(int64_t count, int64_t k, const uint16_t* b, int64_t bs, const float* x, float* sums) {
  int64_t p = 0;
  for (; p + 8 <= k; p += 8) add_rows<H, 8>(count, b + p * bs, bs, x + p, sums);
  for (; p < k; ++p) add_rows<H, 1>(count, b + p * bs, bs, x + p, sums);
}

// Four times eight floats side by side, whatever the vectors hold: the same sums on every machine.
template <class H>
double total(int64_t n, const uint16_t* x) {
  constexpr int W = F32::width, L = 8, V = 4 * L / W;
  F32::V sums[V];
  for (int v = 0; v < V; ++v) sums[v] = F32::zero();
  int64_t i = 0;
  for (; i + 4 * L <= n; i += 4 * L)
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) sums[v] = F32::add(sums[v], H::load(x + i + v * W));
  alignas(64) float lanes[4 * L], rest[W];
  for (int v = 0; v < V; ++v) F32::store(lanes + v * W, sums[v]);
  for (int k = 0; k < L; ++k) lanes[k] = (lanes[k] + lanes[L + k]) + (lanes[2 * L + k] + lanes[3 * L + k]);
  float tail[L];
  int64_t tails = 0;
  for (; i < n; i += W) {
    uint16_t last[W] = {};
    std::copy_n(x + i, std::min<int64_t>(W, n - i), last);
    F32::store(rest, H::load(last));
    for (int g = 0; g < W && i + g < n; g += L)
      for (int k = 0; k < L; ++k) {
        if (i + g + L <= n) lanes[k] += rest[g + k];
        else if (i + g + k < n) tail[tails++] = rest[g + k];
      }
  }
  double lane[L / 2];
  for (int k = 0; k < L / 2; ++k) lane[k] = double(lanes[k]) + double(lanes[k + L / 2]);
  double all = (lane[0] + lane[2]) + (lane[1] + lane[3]);
  for (int64_t k = 0; k < tails; ++k) all += double(tail[k]);
  return all;
}

// Rows in groups of eight, four and one, each over all columns.
template <class Load>
void sum_rows(float* part, int n, int64_t first, int64_t end, Load&& load) {
  constexpr int W = F32::width;
  auto each = [&](auto&& sum) {
    for (int64_t j = first; j < end; j += W) F32::store(part + j, sum(j));
  };
  auto two = [&](int r, int64_t j) { return F32::add(load(r, j), load(r + 1, j)); };
  auto four = [&](int r, int64_t j) { return F32::add(two(r, j), two(r + 2, j)); };
  each([&](int64_t j) { return load(0, j); });
  int r = 1;
  for (; r + 8 <= n; r += 8)
    each([&](int64_t j) { return F32::add(F32::load(part + j), F32::add(four(r, j), four(r + 4, j))); });
  for (; r + 4 <= n; r += 4) each([&](int64_t j) { return F32::add(F32::load(part + j), four(r, j)); });
  for (; r < n; ++r) each([&](int64_t j) { return F32::add(F32::load(part + j), load(r, j)); });
}
template <class H>
void columns(double* acc, const uint16_t* const* rows, int n, int64_t w) {
  constexpr int64_t kPart = 1024, W = F32::width;
  alignas(64) float part[kPart + W];
  for (int64_t at = 0; at < w; at += kPart) {
    const int64_t count = std::min(kPart, w - at), whole = count / W * W;
    sum_rows(part, n, 0, whole, [&](int r, int64_t j) { return H::load(rows[r] + at + j); });
    sum_rows(part, n, whole, count, [&](int r, int64_t j) {
      uint16_t last[W] = {};
      std::copy_n(rows[r] + at + j, count - j, last);
      return H::load(last);
    });
    for (int64_t j = 0; j < count; ++j) acc[at + j] += double(part[j]);
  }
}

constexpr HalfKernels kKernels{dots<Bfloat16>,    dots<Float16>,   add_all<Bfloat16>,
                               add_all<Float16>, total<Bfloat16>, total<Float16>,
                               columns<Bfloat16>, columns<Float16>};
const bool registered = [] {
  half_kernels[FLAMBEAU_LEVEL] = &kKernels;
  return true;
}();

}  // namespace
}  // namespace flambeau::FLAMBEAU_SIMD
