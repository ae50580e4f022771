// Products of float32 by matrix instructions for bfloat16 (float_parts.h). The smaller operand is split first,
// by all threads. Then a thread takes some rows or columns of the larger one, splits them for itself, so that
// these are in its second cache, and computes a block of C after the other: pieces of k one after the other, in each of
// them 32 rows of A after the others, which stay in the first cache while they meet all panels of the block.
//
// Sums that parts do not give as float32 does, infinite ones, not numbers, and very small ones, are computed by
// vectors. Each number is so made in one way whatever is beside it.
#include "gemm_parts.h"

#include <algorithm>

#include "gemm_blocked.h"

namespace flambeau {
namespace {

constexpr int64_t kSide = FloatParts::kSide, kStrip = 2 * kSide, kDepth = FloatParts::kDepth;
// of k: a strip in parts fills half of a first cache
int64_t piece_of(const FloatParts& by) { return 3 * 128 / by.count; }
constexpr int64_t kTall = 256, kWide = 512;     // a block of C; its sums and a piece of its panels fill a second cache
constexpr int64_t kPitch = kWide + kSide;
constexpr int64_t kPart = 128;                  // columns of C that are finished, or computed again, together
constexpr int64_t kPackedNumbers = 4 << 20;     // of an operand at a time
constexpr int64_t kTogether = 128;              // rows or columns that a thread splits at a time
// What splitting costs, by how many parts there are: sums must be long, and numbers be used so often in the mean.
constexpr int64_t kShortest[] = {0, 64, 96, 128}, kOften[] = {0, 32, 80, 160};
constexpr int64_t kLeastWork[] = {0, 1 << 20, 1 << 23, 1 << 26};
// Where one operand stays split, fewer rows repay that they fill matrices in part: the more the farther these lie.
constexpr int64_t kNearby = 1 << 20, kSomeRows = 48, kManyRows = 64;

struct Operand {
  const float* at;
  int64_t step, sums;  // strides, of rows of A or columns of B, and along k
  bool left;
};
// How some rows of A or columns of B, `many` from `first` on, are split for k numbers from p0 on: pieces of these one
// after the other, in each of them the strips or panels.
struct Splitting {
  const FloatParts& by;
  const Operand& of;
  int64_t first, many, p0, k;
  uint16_t* to;
  int64_t piece = piece_of(by);
  int64_t pieces() const { return (k + piece - 1) / piece; }
  int64_t tasks() const { return (many + kTogether - 1) / kTogether * pieces(); }
  void run(int64_t task) const {
    const bool along = of.sums == 1;
    const auto pack = along ? (of.left ? by.strips : by.turned_panels) : of.left ? by.turned_strips : by.panels;
    const int64_t i = task / pieces() * kTogether, p = task % pieces() * piece;
    const int64_t some = std::min(kTogether, many - i), depth = std::min(piece, k - p);
    const int64_t deep = rounded_up(depth, kDepth);
    pack(of.at + (first + i) * of.step + (p0 + p) * of.sums, along ? of.step : of.sums, along ? some : depth,
         along ? depth : some, to + by.count * (rounded_up(many, kStrip) * p + i * deep), by.size(deep), deep);
  }
};
void split(const Splitting& all, bool threads) {
  parallel_for(all.tasks(), threads ? 2 : kSerial, [&](int64_t t, int64_t end) { for (; t < end; ++t) all.run(t); });
}

struct Product {
  const FloatParts& by;
  int64_t m, n, k;
  Operand a, b;
  float* c;
  int64_t crs;
  const Epilogue<float>& e;
  int64_t piece = piece_of(by);

  // What is split of both: rows and columns of C, a range of k.
  struct Part {
    const Product& of;
    int64_t i, rows, j, cols, p, depth;
    const uint16_t *strips, *panels;
    int64_t deep(int64_t at) const { return rounded_up(std::min(of.piece, depth - at), kDepth); }
    const uint16_t* strip(int64_t row, int64_t at) const {
      return strips + of.by.count * (rounded_up(rows, kStrip) * at + row * deep(at));
    }
    const uint16_t* panel(int64_t column, int64_t at) const {
      return panels + of.by.count * (rounded_up(cols, kStrip) * at + column * deep(at));
    }
  };

  // What this range of k adds to C.
  Epilogue<float> step(const Part& of, int64_t i, int64_t j) const {
    const bool final = of.p + of.depth == k;
    return shifted<float>({e.alpha, of.p == 0 ? e.beta : 1, final ? e.bias_col : nullptr,
                           final ? e.bias_row : nullptr}, i, j);
  }

  void finish(const Part& of, int64_t i, int64_t rows, int64_t j, int64_t cols, float* sums) const {
    float* to = c + i * crs + j;
    if (!by.sound(sums, kPitch, rows, cols, to, crs)) {
      float by_vectors[kStrip * kPart];
      blocked(rows, cols, of.depth, a.at + i * a.step + of.p * a.sums, a.step, a.sums,
              Rows<float>{b.at + of.p * b.sums + j * b.step, b.sums, b.step, rows}, by_vectors, kPart, {});
      by.mend(sums, kPitch, rows, cols, by_vectors, kPart);
    }
    by.finish(sums, kPitch, rows, cols, to, crs, step(of, i, j));
  }

  // What a thread asks memory for while it multiplies the strip at row i: the next strip, and its share of the next
  // panels, of this block or the one that follows.
  Fetch next(const Part& of, int64_t i0, int64_t i, int64_t rows, int64_t j0, int64_t cols, int64_t p) const {
    Fetch all;
    if (by.size(of.cols, of.depth) <= kNearby) return all;
    const bool same = p + piece < of.depth, last = i + kStrip >= rows;
    const int64_t after = same ? p + piece : 0, column = same ? j0 : j0 + cols < of.cols ? j0 + cols : 0;
    const int64_t most = rounded_up(std::min(cols, of.cols - column), kStrip), strips = (rows + kStrip - 1) / kStrip;
    const int64_t share = rounded_up((most + strips - 1) / strips, kSide), from = std::min(most, i / kStrip * share);
    const auto lines = [](const uint16_t* at, int64_t numbers) {
      return Fetch::Rows{reinterpret_cast<const char*>(at), 1, numbers / 32};
    };
    all.rows[0] = lines(of.strip(last ? i0 : i0 + i + kStrip, last ? after : p), by.size(kStrip, of.deep(p)));
    all.rows[1] = lines(of.panel(column + from, after), by.count * std::min(share, most - from) * of.deep(after));
    return all;
  }

  void block(const Part& of, int64_t i0, int64_t rows, int64_t j0, int64_t cols, float* sums) const {
    for (int64_t p = 0; p < of.depth; p += piece) {
      interruption_point();
      const int64_t deep = of.deep(p), apart = by.size(deep);
      for (int64_t i = 0; i < rows; i += kStrip) {
        const int64_t some = std::min(kStrip, rows - i);
        Fetch fetch = next(of, i0, i, rows, j0, cols, p);
        fetch.spread(by.count * deep / kDepth * (rounded_up(cols, kStrip) / kStrip));
        for (int64_t j = 0; j < cols; j += kPart) {
          const int64_t columns = std::min(kPart, cols - j);
          float* to = sums + i * kPitch + j;
          by.multiply(rounded_up(some, kSide), rounded_up(columns, kStrip), deep,
                                       of.strip(i0 + i, p), apart, of.panel(j0 + j, p), apart, to, kPitch, p != 0,
                                       fetch);
          if (p + piece >= of.depth) finish(of, of.i + i0 + i, some, of.j + j0 + j, columns, to);
        }
      }
    }
    if (of.p + of.depth == k && e.finish)
      e.finish->piece(c + (of.i + i0) * crs + of.j + j0, crs, rows, cols);
  }

  // All of C in this range, whose `right` or left operand each task splits for itself, while the other one is split.
  void tasks(const Part& of, bool right, bool threads) const {
    const int64_t all = right ? of.cols : of.rows, least = right ? kPart : kStrip;
    // as many tasks as repay what they share, but equally many for all threads
    const int64_t wanted = rounded_up((all + kTall - 1) / kTall, threads ? num_threads() : 1);
    const int64_t unit = rounded_up((all + wanted - 1) / wanted, least), count = (all + unit - 1) / unit;
    parallel_for(count, threads ? 1 : kSerial, [&](int64_t t, int64_t end) {
      float* sums = scratch<float>(kScratchSums, kTall * kPitch + by.size(unit, of.depth) / 2);
      auto* own = reinterpret_cast<uint16_t*>(sums + kTall * kPitch);
      for (; t < end; ++t) {
        const int64_t first = t * unit, some = std::min(unit, all - first);
        Part part = of;
        if (right) part.j += first, part.cols = some, part.panels = own;
        else part.i += first, part.rows = some, part.strips = own;
        split({by, right ? b : a, right ? part.j : part.i, some, of.p, of.depth, own}, false);
        for (int64_t i = 0; i < part.rows; i += kTall)
          for (int64_t j = 0; j < part.cols; j += kWide)
            block(part, i, std::min(kTall, part.rows - i), j, std::min(kWide, part.cols - j), sums);
      }
    });
  }

  // Of the smaller operand as much is split first, by all threads, as the last cache holds.
  void run(bool threads) const {
    const bool right = n > m;
    const int64_t all = right ? m : n;
    for (int64_t p = 0; p < k; p += kLongestKept) {
      const int64_t depth = std::min(kLongestKept, k - p);
      const int64_t most = kPackedNumbers / rounded_up(depth, kDepth) / kWide * kWide;
      uint16_t* shared = scratch<uint16_t>(kScratchParts, by.size(std::min(most, all), depth));
      for (int64_t first = 0; first < all; first += most) {
        const int64_t some = std::min(most, all - first);
        split({by, right ? a : b, first, some, p, depth, shared}, threads);
        if (right) tasks({*this, first, some, 0, n, p, depth, shared, nullptr}, true, threads);
        else tasks({*this, 0, m, first, some, p, depth, nullptr, shared}, false, threads);
      }
    }
  }
};

}  // namespace

bool gemm_by_parts_pays(const FloatParts* by, int64_t m, int64_t n, int64_t k, int64_t ars, int64_t acs, int64_t brs,
                        int64_t bcs) {
  return by && (ars == 1 || acs == 1) && (brs == 1 || bcs == 1) && k >= kShortest[by->count] &&
         m * n >= kOften[by->count] * (m + n) && m * n * k >= kLeastWork[by->count];
}

void gemm_by_parts(const FloatParts& by, int64_t m, int64_t n, int64_t k, const float* a, int64_t ars, int64_t acs,
                   const float* b, int64_t brs, int64_t bcs, float* c, int64_t crs, const Epilogue<float>& e,
                   bool threads) {
  Product{by, m, n, k, {a, ars, acs, true}, {b, bcs, brs, false}, c, crs, e}.run(threads);
}

bool keeping_parts_pays(const FloatParts* by, int64_t m, int64_t n, int64_t k, int64_t brs, int64_t bcs) {
  return by && (brs == 1 || bcs == 1) && n >= kStrip && k >= kDepth && k <= kLongestKept &&
         m >= (by->size(n, k) <= kNearby ? kSomeRows : kManyRows);
}
void split_parts(const FloatParts& by, int64_t n, int64_t k, const float* b, int64_t brs, int64_t bcs,
                 uint16_t* parts) {
  const Operand right{b, bcs, brs, false};
  split({by, right, 0, n, 0, k, parts}, true);
}
void gemm_with_parts(const FloatParts& by, int64_t m, int64_t n, int64_t k, const float* a, int64_t ars, const float* b,
                     int64_t brs, int64_t bcs, const uint16_t* parts, float* c, int64_t crs, const Epilogue<float>& e) {
  const Product product{by, m, n, k, {a, ars, 1, true}, {b, bcs, brs, false}, c, crs, e};
  product.tasks({product, 0, m, 0, n, 0, k, nullptr, parts}, false, false);
}

}  // namespace flambeau
