// Attention of bfloat16 on processors that multiply it: the blocks of attention.cpp, with scores in float32 and
// probabilities and their gradients rounded to bfloat16 before they are multiplied. Keys and values are brought into
// the products' order once for each matrix of a batch.
#include <cmath>

#include "attention.h"
#include "gemm.h"
#include "half_tiles.h"

namespace flambeau::attention {

const HalfRows* half_rows_of_attention;

namespace {

using Rows = Matrices<uint16_t>;
constexpr int64_t kQueries = 128, kKeys = 256;  // of a block of scores
constexpr int64_t kPanel = 16, kDepth = 32;
constexpr int64_t kApart = 16;                   // numbers between rows that a power of two would bring into one set
constexpr int64_t kFewest = 16;                  // queries and keys; of fewer, most of a product would be padding
constexpr int64_t kMostPacked = 1 << 26;         // numbers of a head's keys and values
constexpr int64_t kSharedWork = 1 << 17;         // multiplications worth a thread
constexpr float kNothing = -std::numeric_limits<float>::infinity();

int64_t padded(int64_t n, int64_t to = kDepth) { return rounded_up(n, to); }

// Parts of one piece of scratch memory: first their sizes, then their places.
class Room {
 public:
  template <class T>
  int64_t part(int64_t n) {
    const int64_t at = size_;
    size_ += padded(n * int64_t(sizeof(T)), 64);
    return at;
  }
  void take() { data_ = scratch<char>(kScratchC, size_); }
  template <class T>
  T* at(int64_t part) const { return reinterpret_cast<T*>(data_ + part); }

 private:
  int64_t size_ = 0;
  char* data_ = nullptr;
};

// Threads may share a product by its columns, or by its rows.
void multiply(bool shared, int64_t m, int64_t n, int64_t k, const uint16_t* a, int64_t ars, const uint16_t* b,
              int64_t panel, float* c, int64_t crs, bool adds) {
  const auto run = half_tiles()->multiply;
  if (!shared) return run(m, n, k, a, ars, b, panel, c, crs, adds);
  const bool columns = n >= m;
  const int64_t grain = 1 + kSharedWork / (k * kDepth * (columns ? m : n));
  parallel_for((columns ? n : m) / kDepth, grain, [&](int64_t i, int64_t end) {
    const int64_t first = i * kDepth, many = (end - i) * kDepth;
    if (columns) run(m, many, k, a, ars, b + first / kPanel * panel, panel, c + first, crs, adds);
    else run(many, n, k, a + first * ars, ars, b, panel, c + first * crs, crs, adds);
  });
}

// One thread's memory of the way there, and one block of queries.
struct Forward {
  const Sizes& s;
  const Mask& mask;
  const bool causal;
  const float scale;
  const int64_t deep = padded(s.width), wide = padded(s.values), keys = padded(s.keys), qrs = deep + kDepth;
  Room room;
  const int64_t turned_keys = room.part<uint16_t>(deep * keys), values = room.part<uint16_t>(keys * wide),
                queries = room.part<uint16_t>(kQueries * qrs), scores = room.part<float>(kQueries * kKeys),
                weights = room.part<uint16_t>(kQueries * kKeys), sums = room.part<float>(kQueries * wide);

  Forward(const Sizes& s, const Mask& mask, bool causal, float scale) : s(s), mask(mask), causal(causal), scale(scale) {
    room.take();
  }

  void pack(const uint16_t* k, int64_t krs, const uint16_t* v, int64_t vrs) const {
    half_packing->turned_panels(k, krs, s.keys, s.width, room.at<uint16_t>(turned_keys), deep, keys);
    half_packing->panels(v, vrs, s.keys, s.values, room.at<uint16_t>(values), keys, wide);
  }

  // What the keys from j0 on add to a block's sums; `top` and `total` are the maxima and sums of its rows so far.
  void block(int64_t i0, int64_t rows, int64_t j0, int64_t cols, int64_t mask_at, float* top, float* total) const {
    const HalfRows& loops = *half_rows_of_attention;
    const int64_t tall = padded(rows, kPanel), across = padded(cols);
    float *const x = room.at<float>(scores), *const o = room.at<float>(sums);
    auto* const p = room.at<uint16_t>(weights);
    multiply(false, tall, across, deep, room.at<uint16_t>(queries), qrs, room.at<uint16_t>(turned_keys) + j0 * deep,
             deep * kPanel, x, kKeys, false);
    for (int64_t i = 0; i < rows; ++i) {
      float* row = x + i * kKeys;
      const int64_t seen = keys_seen(causal, i0 + i, j0, cols);
      float m = loops.scaled_max(row, seen, scale);
      if (mask.data) mask.apply(row, seen, mask_at, i0 + i, j0), m = loops.scaled_max(row, seen, 1);
      m = std::max(top[i], m);
      const float shift = m == kNothing ? 0 : m;  // a row that saw nothing yet stays empty
      const float keep = top[i] == m ? 1 : std::exp(top[i] - shift);
      total[i] = total[i] * keep + loops.exponentials(row, p + i * kKeys, shift, seen, across);
      if (keep != 1 && j0)
        for (int64_t d = 0; d < s.values; ++d) o[i * wide + d] *= keep;
      top[i] = m;
    }
    multiply(false, tall, wide, across, p, kKeys, room.at<uint16_t>(values) + j0 * kPanel, keys * kPanel, o, wide,
             j0 != 0);
  }

  void run(const uint16_t* q, int64_t rs, int64_t i0, int64_t mask_at, uint16_t* out, int64_t ors, float* lse) const {
    const int64_t rows = std::min(kQueries, s.queries - i0), tall = padded(rows, kPanel);
    half_packing->rows(q + i0 * rs, rs, rows, s.width, room.at<uint16_t>(queries), qrs, tall, deep);
    std::fill(room.at<uint16_t>(weights) + rows * kKeys, room.at<uint16_t>(weights) + tall * kKeys, uint16_t(0));
    float top[kQueries], total[kQueries];
    for (int64_t i = 0; i < rows; ++i) top[i] = kNothing, total[i] = 0;
    const int64_t stop = causal ? std::min(s.keys, i0 + rows) : s.keys;
    for (int64_t j0 = 0; j0 < stop; j0 += kKeys) block(i0, rows, j0, std::min(kKeys, stop - j0), mask_at, top, total);
    for (int64_t i = 0; i < rows; ++i) {
      half_rows_of_attention->narrow(room.at<float>(sums) + i * wide, out + (i0 + i) * ors,
                                     total[i] == 0 ? 0 : 1 / total[i], s.values);
      lse[i0 + i] = top[i] + std::log(total[i]);
    }
  }
};

// One thread's memory of the way back, and one matrix of the batch.
struct Backward {
  const Sizes& s;
  const Mask& mask;
  const bool causal;
  const float scale;
  const bool shared;  // threads share each product
  const int64_t deep = padded(s.width), wide = padded(s.values), keys = padded(s.keys);
  const int64_t qrs = deep + kDepth, grs = wide + kDepth, krs = keys + kApart;
  Room room;
  const int64_t turned_keys = room.part<uint16_t>(deep * keys), key_panels = room.part<uint16_t>(keys * deep),
                turned_values = room.part<uint16_t>(wide * keys), queries = room.part<uint16_t>(kQueries * qrs),
                turned_queries = room.part<uint16_t>(deep * kQueries), grads = room.part<uint16_t>(kQueries * grs),
                turned_grads = room.part<uint16_t>(wide * kQueries), scores = room.part<float>(kQueries * kKeys),
                slopes = room.part<float>(kQueries * kKeys), p = room.part<uint16_t>(kQueries * kKeys),
                d = room.part<uint16_t>(kQueries * kKeys), rows_of_d = room.part<uint16_t>(kQueries * kKeys),
                to_q = room.part<float>(kQueries * deep), to_k = room.part<float>(deep * krs),
                to_v = room.part<float>(wide * krs);

  Backward(const Sizes& s, const Mask& mask, bool causal, float scale, bool shared)
      : s(s), mask(mask), causal(causal), scale(scale), shared(shared) {
    room.take();
  }
  uint16_t* halves(int64_t part) const { return room.at<uint16_t>(part); }
  float* floats(int64_t part) const { return room.at<float>(part); }

  // A block of scores becomes probabilities and gradients of scores, in the orders of the three products that follow.
  void soften(int64_t i0, int64_t rows, int64_t j0, int64_t cols, int64_t mask_at, const float* lse,
              const float* mean) const {
    const int64_t high = padded(rows), across = padded(cols), panel = high * kPanel;
    parallel_for(high / 2, shared ? 16 : kSerial, [&](int64_t pair, int64_t end) {
      for (; pair < end; ++pair) {
        TwoRows two;
        uint16_t* to[2];
        for (int r = 0; r < 2; ++r) {
          const int64_t i = 2 * pair + r;
          float* row = floats(scores) + i * kKeys;
          two.scores[r] = row, two.slopes[r] = floats(slopes) + i * kKeys, to[r] = halves(rows_of_d) + i * kKeys;
          two.seen[r] = i < rows ? keys_seen(causal, i0 + i, j0, cols) : 0;
          two.sum[r] = i < rows && lse[i0 + i] != kNothing ? lse[i0 + i] : 0;  // -infinity: the query saw nothing
          two.mean[r] = i < rows ? mean[i] : 0;
          if (mask.data && i < rows) {
            half_rows_of_attention->scaled_max(row, two.seen[r], scale);
            mask.apply(row, two.seen[r], mask_at, i0 + i, j0);
          }
        }
        half_rows_of_attention->slopes(two, across, mask.data ? 1 : scale, scale, halves(p) + pair * 2 * kPanel,
                                       halves(d) + pair * 2 * kPanel, panel, to);
      }
    });
  }

  void block(int64_t i0, int64_t rows, int64_t j0, int64_t cols, int64_t mask_at, const float* lse,
             const float* mean) const {
    const int64_t high = padded(rows), across = padded(cols), panel = high * kPanel;
    multiply(shared, high, across, deep, halves(queries), qrs, halves(turned_keys) + j0 * deep, deep * kPanel,
             floats(scores), kKeys, false);
    multiply(shared, high, across, wide, halves(grads), grs, halves(turned_values) + j0 * wide, wide * kPanel,
             floats(slopes), kKeys, false);
    soften(i0, rows, j0, cols, mask_at, lse, mean);
    multiply(shared, wide, across, high, halves(turned_grads), kQueries, halves(p), panel, floats(to_v) + j0, krs,
             true);
    multiply(shared, deep, across, high, halves(turned_queries), kQueries, halves(d), panel, floats(to_k) + j0, krs,
             true);
    multiply(shared, high, deep, across, halves(rows_of_d), kKeys, halves(key_panels) + j0 * kPanel, keys * kPanel,
             floats(to_q), deep, j0 != 0);
  }

  void run(int64_t b, const Rows& gm, const Rows& qm, const Rows& km, const Rows& vm, const Rows& om, const float* lse,
           const Rows& gqm, const Rows& gkm, const Rows& gvm) const {
    uint16_t *gq = gqm.into(b), *gk = gkm.into(b), *gv = gvm.into(b);
    const uint16_t *g = gm.at(b), *q = qm.at(b), *k = km.at(b), *v = vm.at(b), *o = om.at(b);
    const HalfPacking& to = *half_packing;
    const int64_t mask_at = mask.data ? mask.offset(b) : 0;
    to.turned_panels(k, km.rs, s.keys, s.width, halves(turned_keys), deep, keys);
    to.panels(k, km.rs, s.keys, s.width, halves(key_panels), keys, deep);
    to.turned_panels(v, vm.rs, s.keys, s.values, halves(turned_values), wide, keys);
    std::fill_n(floats(to_k), deep * krs, 0.f);
    std::fill_n(floats(to_v), wide * krs, 0.f);
    for (int64_t i0 = 0; i0 < s.queries; i0 += kQueries) {
      const int64_t rows = std::min(kQueries, s.queries - i0), high = padded(rows);
      const uint16_t *qb = q + i0 * qm.rs, *gb = g + i0 * gm.rs;
      float mean[kQueries];
      for (int64_t i = 0; i < rows; ++i)
        mean[i] = half_rows_of_attention->dot(gb + i * gm.rs, o + (i0 + i) * om.rs, s.values);
      to.rows(qb, qm.rs, rows, s.width, halves(queries), qrs, high, deep);
      to.rows(gb, gm.rs, rows, s.values, halves(grads), grs, high, wide);
      to.turned_rows(qb, qm.rs, rows, s.width, halves(turned_queries), kQueries, deep, high);
      to.turned_rows(gb, gm.rs, rows, s.values, halves(turned_grads), kQueries, wide, high);
      const int64_t stop = causal ? std::min(s.keys, i0 + rows) : s.keys;
      for (int64_t j0 = 0; j0 < stop; j0 += kKeys) block(i0, rows, j0, std::min(kKeys, stop - j0), mask_at, lse, mean);
      for (int64_t i = 0; i < rows; ++i)
        half_rows_of_attention->narrow(floats(to_q) + i * deep, gq + (i0 + i) * gqm.rs, 1, s.width);
    }
    to.turn_floats(floats(to_k), krs, s.width, s.keys, gk, gkm.rs);
    to.turn_floats(floats(to_v), krs, s.values, s.keys, gv, gvm.rs);
  }
};

}  // namespace

bool takes_halves(const Tensor& q, const Sizes& s) {
  return q.dtype == DType::BFloat16 && s.queries >= kFewest && s.keys >= kFewest && s.width && s.values &&
         s.keys <= kMostPacked / (padded(s.width) + padded(s.values)) && half_tiles();
}

// Where a batch has few matrices, several threads take queries of one, and each packs its keys and values.
void forward_halves(const Sizes& s, const HalfOperands& of, const Tensor& out, float* lse) {
  const Rows q(*of.q), k(*of.k), v(*of.v), o(out);
  const Mask& mask = of.mask;
  const int64_t threads = num_threads(), blocks = (s.queries + kQueries - 1) / kQueries;
  const bool few = s.batch < 4 * threads && s.batch % threads;
  const int64_t groups = few ? std::min(blocks, threads) : 1;
  const int64_t work = s.queries * s.keys * (s.width + s.values) / groups;
  parallel_for(s.batch * groups, 1 + kSharedWork / (work + 1), [&](int64_t t, int64_t end) {
    const Forward one(s, mask, of.causal, of.scale);
    for (; t < end; ++t) {
      const int64_t b = t / groups, group = t % groups;
      one.pack(k.at(b), k.rs, v.at(b), v.rs);
      for (int64_t i = group * blocks / groups; i < (group + 1) * blocks / groups; ++i)
        one.run(q.at(b), q.rs, i * kQueries, mask.data ? mask.offset(b) : 0, o.into(b), o.rs, lse + b * s.queries);
    }
  });
}

void backward_halves(const Sizes& s, const HalfOperands& of, const Tensor& grad, const Tensor& result, const float* lse,
                     const Tensor& gq, const Tensor& gk, const Tensor& gv) {
  const Rows g(grad), q(*of.q), k(*of.k), v(*of.v), o(result), to_q(gq), to_k(gk), to_v(gv);
  const Mask& mask = of.mask;
  const bool shared = s.batch < num_threads();
  const int64_t work = s.queries * s.keys * (s.width + s.values);
  parallel_for(s.batch, shared ? s.batch : 1 + kSharedWork / (work + 1), [&](int64_t b, int64_t end) {
    const Backward one(s, mask, of.causal, of.scale, shared);
    for (; b < end; ++b)
      one.run(b, g, q, k, v, o, lse + b * s.queries, to_q, to_k, to_v);
  });
}

}  // namespace flambeau::attention
