// A few rows times a matrix of halves: the vectors of one step, read against weights that are too many to widen for it.
#include "half_rows.h"

#include <memory>

#include "../core/machine.h"

namespace flambeau {

const HalfKernels* half_kernels[2];
static const HalfKernels& chosen_half_kernels() {
  static const auto& chosen = best_loops(half_kernels);
  return chosen;
}
HalfTotal half_total(DType dtype) {
  return dtype == DType::BFloat16 ? chosen_half_kernels().bfloat16_total : chosen_half_kernels().float16_total;
}
HalfColumns half_columns_total(DType dtype) {
  return dtype == DType::BFloat16 ? chosen_half_kernels().bfloat16_columns : chosen_half_kernels().float16_columns;
}
static constexpr int64_t kLarge = 1 << 20;  // products that repay rounding the operands

void half_rows(DType dtype, int64_t m, int64_t n, int64_t k, const float* a, int64_t ars, const void* b, int64_t bs,
               float* c, int64_t crs, const Epilogue<float>& e, bool threads) {
  const auto& chosen = chosen_half_kernels();
  const HalfDots dots = dtype == DType::BFloat16 ? chosen.bfloat16 : chosen.float16;
  const auto* columns = static_cast<const uint16_t*>(b);
  constexpr int64_t kPart = 128;
  const int64_t grain = threads ? std::max<int64_t>(8, (1 << 17) / std::max<int64_t>(1, k * m)) : n;
  parallel_for(n, grain, [&](int64_t first, int64_t last) {
    float sums[kFewRows * kPart];
    for (int64_t j = first; j < last; j += kPart) {
      const int64_t count = std::min(kPart, last - j);
      dots(count, k, columns + j * bs, bs, int(m), a, ars, sums, kPart);
      for (int64_t i = 0; i < m; ++i)
        for (int64_t q = 0; q < count; ++q) {
          float v = e.alpha * sums[i * kPart + q];
          float& to = c[i * crs + j + q];
          if (e.beta != 0) v += e.beta * to;
          to = e.bias_col ? v + e.bias_col[j + q] : v;
        }
    }
  });
}

void half_columns(DType dtype, int64_t m, int64_t n, int64_t k, const float* a, int64_t ars, const void* b, int64_t bs,
                  float* c, int64_t crs, const Epilogue<float>& e, bool threads) {
  const auto& chosen = chosen_half_kernels();
  const HalfSums add = dtype == DType::BFloat16 ? chosen.bfloat16_sums : chosen.float16_sums;
  const auto* rows = static_cast<const uint16_t*>(b);
  constexpr int64_t kPart = 1024;  // sums that stay in the first cache
  const int64_t grain = threads ? std::max<int64_t>(64, (1 << 16) / std::max<int64_t>(1, k * m)) : n;
  parallel_for(n, grain, [&](int64_t first, int64_t last) {
    alignas(64) float sums[kPart];
    for (int64_t j = first; j < last; j += kPart)
      for (int64_t i = 0; i < m; ++i) {
        const int64_t count = std::min(kPart, last - j);
        std::fill_n(sums, count, 0.0f);
        add(count, k, rows + j, bs, a + i * ars, sums);
        for (int64_t q = 0; q < count; ++q) {
          float v = e.alpha * sums[q];
          float& to = c[i * crs + j + q];
          if (e.beta != 0) v += e.beta * to;
          to = e.bias_col ? v + e.bias_col[j + q] : v;
        }
      }
  });
}

// A matrix with one unit stride in bfloat16: its rows, or its columns, one after the other.
static MatrixView narrowed(const float* a, int64_t rows, int64_t cols, int64_t rs, int64_t cs,
                           std::unique_ptr<uint16_t[]>& memory) {
  const bool turned = cs != 1;
  const int64_t lines = turned ? cols : rows, length = turned ? rows : cols, step = turned ? cs : rs;
  memory.reset(new uint16_t[product_area(rows, cols)]);
  parallel_for(lines, std::max<int64_t>(1, 32768 / std::max<int64_t>(1, length)), [&](int64_t i, int64_t end) {
    for (; i < end; ++i) float_to_half(DType::BFloat16, a + i * step, memory.get() + i * length, length);
  });
  return {memory.get(), turned ? 1 : length, turned ? length : 1};
}

void product_of_halves(DType dtype, int64_t m, int64_t n, int64_t k, const float* a, int64_t ars, int64_t acs,
                       const float* b, int64_t brs, int64_t bcs, float* c, int64_t crs, const float* bias) {
  if (dtype != DType::BFloat16 || !multiplies_bfloat16() || m * n * k < kLarge)
    return gemm<float>(m, n, k, a, ars, acs, b, brs, bcs, c, crs, {1, 0, bias});
  std::unique_ptr<uint16_t[]> left, right, sums(new uint16_t[product_area(m, n)]);
  const MatrixView x = narrowed(a, m, k, ars, acs, left), y = narrowed(b, k, n, brs, bcs, right);
  gemm_any(DType::BFloat16, m, n, k, x, y, sums.get(), n, 1, 0);
  parallel_for(m, std::max<int64_t>(1, 32768 / std::max<int64_t>(1, n)), [&](int64_t i, int64_t end) {
    for (; i < end; ++i) {
      float* to = c + i * crs;
      half_to_float(DType::BFloat16, sums.get() + i * n, 1, to, n);
      for (int64_t j = 0; bias && j < n; ++j) to[j] += bias[j];
    }
  });
}

}  // namespace flambeau
