// Products of bfloat16 by matrix instructions (half_tiles.h), where A is turned, as in a weight's gradient, or both are
// small. B is brought into panels once, by all threads. Then a thread computes a block of C whole: pieces of k one
// after the other, in each of them 32 rows of A after the others, which stay in the first cache while they meet all
// panels of the block. They are read where they lie, but for a turned matrix's and those at the edges.
#include <algorithm>

#include "half_rows.h"
#include "half_tiles.h"

namespace flambeau {
namespace {

constexpr int64_t kPanel = 16, kStrip = 32;   // columns of B, rows of A
constexpr int64_t kPiece = 512;               // of k: a strip of A fills half of a first cache
constexpr int64_t kRowPitch = kPiece + kStrip;  // an odd number of cache lines
constexpr int64_t kTall = 256, kWide = 512;   // a block of C; its sums and a piece of its panels lie in a second cache
constexpr int64_t kTogether = 128;            // columns of B that are read side by side
constexpr int64_t kPackedBytes = 16 << 20;    // of panels at a time
constexpr int64_t kThreadWork = 1 << 21;      // multiplications worth a thread
// Up to so much work oneDNN takes longer to begin. Above, it is as fast or faster but where A is turned.
constexpr int64_t kFewestRows = 16, kLeastWork = 1 << 15, kLittleWork = 1 << 21;

int64_t padded(int64_t n) { return rounded_up(n, kStrip); }
bool lies_by_rows(MatrixView v) { return v.cs == 1; }
const uint16_t* at(MatrixView v, int64_t i, int64_t j) {
  return static_cast<const uint16_t*>(v.data) + i * v.rs + j * v.cs;
}

struct Product {
  int64_t m, n, k;
  MatrixView a, b;
  uint16_t* c;
  int64_t crs;
  float alpha, beta;
  const uint16_t* bias;

  // Panels of columns from j0 on, piece after piece of k: a piece of [deep] rows lies wide * (its first row) behind.
  void pack(int64_t j0, int64_t cols, uint16_t* to, bool threads) const {
    const int64_t wide = padded(cols), pieces = (k + kPiece - 1) / kPiece, parts = (wide + kTogether - 1) / kTogether;
    const int64_t grain = threads ? 1 + 65536 / (std::min(k, kPiece) * kTogether) : kSerial;
    parallel_for(pieces * parts, grain, [&](int64_t t, int64_t end) {
      for (; t < end; ++t) {
        const int64_t p0 = t / parts * kPiece, first = t % parts * kTogether;
        const int64_t rows = std::min(kPiece, k - p0), deep = padded(rows), some = std::min(kTogether, cols - first);
        uint16_t* panels = to + p0 * wide + first * deep;
        if (lies_by_rows(b)) half_packing->panels(at(b, p0, j0 + first), b.rs, rows, some, panels, deep, padded(some));
        else half_packing->turned_panels(at(b, p0, j0 + first), b.cs, some, rows, panels, deep, padded(some));
      }
    });
  }

  // Rows of A in a piece of k, and how far apart they lie.
  MatrixView rows_of(int64_t i, int64_t some, int64_t tall, int64_t p0, int64_t depth, uint16_t* strip) const {
    const int64_t deep = padded(depth);
    if (lies_by_rows(a) && some == tall && depth == deep) return {at(a, i, p0), a.rs, 1};
    if (lies_by_rows(a)) half_packing->rows(at(a, i, p0), a.rs, some, depth, strip, kRowPitch, tall, deep);
    else half_packing->turned_rows(at(a, i, p0), a.cs, depth, some, strip, kRowPitch, tall, deep);
    return {strip, kRowPitch, 1};
  }

  // A block of C from packed panels of `all` columns, of which it takes those from `first` on.
  void block(int64_t i0, int64_t rows, int64_t j0, int64_t all, int64_t first, int64_t cols, const uint16_t* panels,
             float* sums, uint16_t* strip) const {
    const int64_t wide = padded(cols);
    for (int64_t p0 = 0; p0 < k; p0 += kPiece) {
      const int64_t depth = std::min(kPiece, k - p0), deep = padded(depth);
      for (int64_t i = 0; i < rows; i += kStrip) {
        const int64_t some = std::min(kStrip, rows - i), tall = some > kPanel ? kStrip : kPanel;
        const MatrixView left = rows_of(i0 + i, some, tall, p0, depth, strip);
        float* to = sums + i * (kWide + kPanel);
        half_tiles()->multiply(tall, wide, deep, at(left, 0, 0), left.rs, panels + p0 * all + first * deep,
                               deep * kPanel, to, kWide + kPanel, p0 != 0);
        if (p0 + kPiece < k) continue;
        for (int64_t r = 0; r < some; ++r)
          half_packing->finish(to + r * (kWide + kPanel), c + (i0 + i + r) * crs + j0 + first, cols, alpha, beta,
                               bias ? bias + j0 + first : nullptr);
      }
    }
  }

  void run(bool threads) const {
    const int64_t most = std::max(kWide, kPackedBytes / (2 * padded(k)) / kWide * kWide);
    for (int64_t j0 = 0; j0 < n; j0 += most) {
      const int64_t cols = std::min(most, n - j0), all = padded(cols), across = (cols + kWide - 1) / kWide;
      uint16_t* panels = scratch<uint16_t>(kScratchB, all * padded(k));
      pack(j0, cols, panels, threads);
      // blocks of fewer rows, where there are more threads than blocks: what a number is made of stays the same
      int64_t high = kTall;
      while (threads && high > kStrip && (m + high - 1) / high * across < num_threads()) high /= 2;
      const int64_t down = (m + high - 1) / high;
      parallel_for(down * across, threads ? 1 : kSerial, [&](int64_t t, int64_t end) {
        float* sums = scratch<float>(kScratchA, kTall * (kWide + kPanel) + kStrip * kRowPitch / 2);
        auto* strip = reinterpret_cast<uint16_t*>(sums + kTall * (kWide + kPanel));
        for (; t < end; ++t) {
          const int64_t i0 = t / across * high, first = t % across * kWide;
          block(i0, std::min(high, m - i0), j0, all, first, std::min(kWide, cols - first), panels, sums, strip);
        }
      });
    }
  }
};

}  // namespace

bool gemm_by_matrices_pays(int64_t m, int64_t n, int64_t k, MatrixView a, MatrixView b) {
  const HalfTiles* tiles = half_tiles();
  return tiles && tiles == half_tiles_by_matrices && m >= kFewestRows && n >= kPanel && m * n * k >= kLeastWork &&
         (a.rs == 1 || a.cs == 1) && (b.rs == 1 || b.cs == 1);
}
bool gemm_by_matrices_leads(int64_t m, int64_t n, int64_t k, MatrixView a) {
  return m * n * k <= kLittleWork || !lies_by_rows(a);
}
void gemm_by_matrices(int64_t m, int64_t n, int64_t k, MatrixView a, MatrixView b, void* c, int64_t crs, float alpha,
                      float beta, const void* bias, bool threads) {
  Product{m, n, k, a, b, static_cast<uint16_t*>(c), crs, alpha, beta, static_cast<const uint16_t*>(bias)}.run(
      threads && m * n * k >= 2 * kThreadWork);
}

}  // namespace flambeau
