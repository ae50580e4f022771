// Runs a planned pointwise call on the CPU: whatever the loop cannot read or write directly is converted or packed
// block by block.
#include <utility>

#include "pointwise.h"

namespace flambeau::pointwise {
namespace {

constexpr int64_t kBlock = 512;         // elements converted at a time: stays in the first-level cache
constexpr int64_t kShortRow = 32;       // inner dimensions below this are packed across rows
constexpr int64_t kLongRow = 256;       // rows from this on need not be joined
constexpr int64_t kFewRows = 8;         // so many rows are done before anything is packed

void fill_block(char* buffer, const char* value, int64_t item, int64_t n) {
  visit_size(item,
             [&]<class U>() { std::fill_n(reinterpret_cast<U*>(buffer), n, U(*reinterpret_cast<const U*>(value))); });
}

// After how many elements operand k repeats itself: a vector along the inner dimensions has a short period.
int64_t period(const Space& s, int k) {
  int64_t elements = 1, repeats = 1;
  for (int d = 0; d < s.ndim; ++d) {
    elements *= s.size[d];
    if (s.stride[k][d]) repeats = elements;
  }
  return repeats;
}

// Whether every operand is one run, repeats itself within a block, or is a number: then short rows are joined.
bool joins_rows(const Plan& p) {
  for (int k = 0; k < p.count; ++k) {
    const Operand& o = p.operand[k];
    if (!o.absent && !o.constant && !p.space.linear(k, o.item) && (k == 0 || period(p.space, k) > kBlock / 2))
      return false;
  }
  return true;
}

// One thread's share: elements [begin, end) in iteration order.
struct Worker {
  const Plan& p;
  bool linear[kMaxOperands];    // one contiguous run in iteration order
  bool repeated[kMaxOperands];  // the same in each block: packed once
  bool direct[kMaxOperands];    // read or written in place: contiguous and of the loop's dtype
  bool broadcasts;              // the loop takes operands of stride 0
  int64_t block = kBlock;
  alignas(64) char buffer[kMaxOperands][kBlock * 16];
  alignas(64) char raw[kBlock * 16];

  explicit Worker(const Plan& plan) : p(plan), broadcasts(plan.broadcasts) {
    for (int k = 0; k < p.count; ++k) linear[k] = p.operand[k].tensor && p.space.linear(k, p.operand[k].item);
  }

  // Packs what repeats itself, and makes blocks a multiple of all periods (each divides the longer ones).
  void load_repeated(int64_t begin, int64_t end) {
    int64_t longest = 1;
    for (int k = 0; k < p.count; ++k) {
      const Operand& o = p.operand[k];
      const int64_t every = k == 0 || o.absent || o.constant || linear[k] ? kBlock : period(p.space, k);
      repeated[k] = every <= kBlock / 2;
      if (repeated[k]) longest = std::max(longest, every);
    }
    block = kBlock / longest * longest;
    for (int k = 1; k < p.count; ++k)
      if (repeated[k]) load(k, begin, std::min(block, end - begin));
  }

  void fill_constants() {
    if (broadcasts) return;
    for (int k = 1; k < p.count; ++k)
      if (p.operand[k].constant) fill_block(buffer[k], p.operand[k].number, p.operand[k].loop_item, kBlock);
  }
  void load(int k, int64_t start, int64_t n) {  // operand k packed and converted into its buffer
    const Operand& o = p.operand[k];
    if (o.cast.steps && linear[k]) return o.cast.apply(buffer[k], o.data + start * o.item, n);
    char* target = o.cast.steps ? raw : buffer[k];
    visit_size(o.item, [&]<class U>() { block_move<true, U>(p.space, k, o.data, start, n, target); });
    if (o.cast.steps) o.cast.apply(buffer[k], raw, n);
  }
  void store(int64_t start, int64_t n) {
    const Operand& o = p.operand[0];
    char* source = buffer[0];
    if (o.cast.steps && linear[0]) return o.cast.apply(o.data + start * o.item, buffer[0], n);
    if (o.cast.steps) {
      o.cast.apply(raw, buffer[0], n);
      source = raw;
    }
    visit_size(o.item, [&]<class U>() { block_move<false, U>(p.space, 0, o.data, start, n, source); });
  }

  // Blocks over the whole space: operands that are not one run are packed across rows.
  void run_blocks(int64_t begin, int64_t end) {
    bool whole = true;
    for (int k = 0; k < p.count; ++k) {
      const Operand& o = p.operand[k];
      direct[k] = linear[k] && !o.cast.steps;
      whole &= direct[k] || o.absent || (o.constant && broadcasts);
    }
    fill_constants();
    load_repeated(begin, end);
    char* ptr[kMaxOperands];
    int64_t stride[kMaxOperands];
    const int64_t step = whole ? end - begin : block;
    for (int64_t at = begin; at < end; at += step) {
      const int64_t n = std::min(step, end - at);
      for (int k = 0; k < p.count; ++k) {
        const Operand& o = p.operand[k];
        stride[k] = o.loop_item;
        if (o.absent) ptr[k] = nullptr, stride[k] = 0;
        else if (direct[k]) ptr[k] = o.data + at * o.item;
        else if (o.constant && broadcasts) ptr[k] = const_cast<char*>(o.number), stride[k] = 0;
        else {
          if (k > 0 && !o.constant && !repeated[k]) load(k, at, n);
          ptr[k] = buffer[k];
        }
      }
      p.loop(ptr, stride, n, p.scalars);
      if (!direct[0]) store(at, n);
    }
  }

  // Row by row where the loop reads and writes every row in its place: only pointers move.
  void run_direct_rows(int64_t begin, int64_t end) {
    const Space& s = p.space;
    int64_t index[kMaxDims], rest = begin, stride[kMaxOperands];
    char *row[kMaxOperands], *ptr[kMaxOperands];
    int moving[kMaxOperands], n = 0;
    for (int k = 0; k < p.count; ++k) {
      const Operand& o = p.operand[k];
      row[k] = o.absent ? nullptr : o.constant ? const_cast<char*>(o.number) : o.data;
      stride[k] = o.absent || o.constant || s.stride[k][0] == 0 ? 0 : o.loop_item;
      if (!o.absent && !o.constant) moving[n++] = k;
    }
    auto move = [&](int d, int64_t steps) {
      for (int m = 0; m < n; ++m) row[moving[m]] += steps * s.stride[moving[m]][d];
    };
    for (int d = 0; d < s.ndim; rest /= s.size[d++]) {
      index[d] = rest % s.size[d];
      if (d) move(d, index[d]);
    }
    const int64_t length = s.size[0];
    while (begin < end) {
      if (const int64_t first = std::exchange(index[0], 0); first || end - begin < length) {  // part of a row
        const int64_t some = std::min(end - begin, length - first);
        for (int k = 0; k < p.count; ++k) ptr[k] = row[k] + first * stride[k];
        p.loop(ptr, stride, some, p.scalars);
        begin += some;
        move(1, 1), ++index[1];
      } else {
        const int64_t rows = std::min((end - begin) / length, s.size[1] - index[1]);
        for (int64_t r = 0; r < rows; ++r, move(1, 1)) p.loop(row, stride, length, p.scalars);
        begin += rows * length;
        index[1] += rows;
      }
      for (int d = 1; index[d] == s.size[d]; ++d) {
        move(d, -index[d]);
        index[d] = 0;
        if (d + 1 == s.ndim) break;
        move(d + 1, 1), ++index[d + 1];
      }
    }
  }

  // Row by row along the inner dimension: contiguous rows are read and written where they are.
  // long because: one loop, whose pointers and scratch blocks all its steps share
  void run_rows(int64_t begin, int64_t end) {
    const Space& s = p.space;
    bool packs = false, alike = true, inner_constant[kMaxOperands] = {};
    for (int k = 0; k < p.count; ++k) {
      const Operand& o = p.operand[k];
      direct[k] = o.tensor && !o.cast.steps && s.stride[k][0] == o.item;
      inner_constant[k] = k > 0 && !o.constant && !o.absent && s.stride[k][0] == 0;
      packs |= !direct[k] && !o.absent && !((o.constant || inner_constant[k]) && broadcasts);
      alike &= k == 0 || o.absent || o.constant || inner_constant[k];  // a row of one number
    }
    fill_constants();
    int64_t index[kMaxDims], offset[kMaxOperands] = {}, rest = begin;
    for (int d = 0; d < s.ndim; ++d) {
      index[d] = rest % s.size[d];
      rest /= s.size[d];
      for (int k = 0; k < p.count; ++k) offset[k] += index[d] * s.stride[k][d];
    }
    char* ptr[kMaxOperands];
    int64_t stride[kMaxOperands];
    for (int64_t at = begin; at < end;) {
      int64_t n = std::min(end - at, s.size[0] - index[0]);
      if (packs) n = std::min(n, block);
      for (int k = 0; k < p.count; ++k) {
        const Operand& o = p.operand[k];
        stride[k] = o.loop_item;
        if (o.absent) ptr[k] = nullptr, stride[k] = 0;
        else if (direct[k]) ptr[k] = o.data + offset[k];
        else if (o.constant && broadcasts) ptr[k] = const_cast<char*>(o.number), stride[k] = 0;
        else if (inner_constant[k]) {
          ptr[k] = buffer[k];
          if (o.cast.steps) o.cast.apply(buffer[k], o.data + offset[k], 1);
          else std::memcpy(buffer[k], o.data + offset[k], o.item);
          if (broadcasts) {
            stride[k] = 0;
          } else {
            fill_block(buffer[k], buffer[k], o.loop_item, alike ? 1 : n);
          }
        } else {
          if (k > 0 && !o.constant) load(k, at, n);
          ptr[k] = buffer[k];
        }
      }
      p.loop(ptr, stride, alike ? 1 : n, p.scalars);
      if (alike) fill_block(ptr[0], ptr[0], p.operand[0].loop_item, n);
      if (!direct[0]) store(at, n);
      at += n;
      index[0] += n;
      for (int k = 0; k < p.count; ++k) offset[k] += n * s.stride[k][0];
      for (int d = 0; d + 1 < s.ndim && index[d] == s.size[d]; ++d) {
        for (int k = 0; k < p.count; ++k) offset[k] += s.stride[k][d + 1] - index[d] * s.stride[k][d];
        index[d] = 0;
        ++index[d + 1];
      }
    }
  }
};

// Whether the loop can read and write every row where it is, and has more than one number to read in it.
bool reads_rows(const Plan& p) {
  bool alike = true;
  for (int k = 0; k < p.count; ++k) {
    const Operand& o = p.operand[k];
    if (o.absent || (o.constant && p.broadcasts)) continue;
    const int64_t step = p.space.stride[k][0];
    const bool number = k > 0 && step == 0 && p.broadcasts;
    if (o.constant || o.cast.steps || (step != o.item && !number)) return false;
    alike &= k == 0 || step == 0;
  }
  return !alike;
}

// Within how many of the inner dimensions short rows can be joined, where not in all of them: an operand may belong to
// each image and channel, and channels lie last. 0: none that are worth it.
int joined_dims(const Plan& p) {
  Plan part = p;
  int64_t elements = p.space.size[0];
  int found = 0;
  for (int d = 1; d + 1 < p.space.ndim; ++d) {
    elements *= p.space.size[d];
    part.space.ndim = d + 1;
    if (elements >= 4 * kBlock && joins_rows(part)) found = d + 1;
  }
  return found;
}
// Elements [begin, end), those of the `inner` dimensions in blocks.
void run_parts(const Plan& p, int inner, int64_t begin, int64_t end) {
  const Space& s = p.space;
  int64_t size = 1;
  for (int d = 0; d < inner; ++d) size *= s.size[d];
  for (int64_t at = begin; at < end;) {
    Plan part = p;
    part.space.ndim = inner;
    int64_t rest = at / size;
    for (int d = inner; d < s.ndim; rest /= s.size[d++])
      for (int k = 0; k < p.count; ++k) part.operand[k].data += rest % s.size[d] * s.stride[k][d];
    const int64_t first = at % size, n = std::min(end - at, size - first);
    Worker(part).run_blocks(first, first + n);
    at += n;
  }
}

void execute(const Plan& p, int64_t numel, int weight) {
  const int64_t row = p.space.ndim > 1 ? p.space.size[0] : 0;
  const bool joins = row && row < kLongRow && joins_rows(p);
  const bool rows = row >= kLongRow || (row >= kShortRow && !joins) ||
                    (row && numel <= kFewRows * row && reads_rows(p));
  const int inner = row && row < kLongRow && (rows || !joins) ? joined_dims(p) : 0;
  const bool direct = rows && !inner && reads_rows(p);
  parallel_for(numel, std::max<int64_t>(kGrain / weight, 1024), [&](int64_t begin, int64_t end) {
    if (inner) return run_parts(p, inner, begin, end);
    Worker worker(p);
    if (direct) worker.run_direct_rows(begin, end);
    else if (rows) worker.run_rows(begin, end);
    else worker.run_blocks(begin, end);
  });
}

void compute(Call& c, Pointwise& w) {
  if (w.out->numel == 0) return;
  prepare(c, w);
  LockRelease lock(w.out->numel * (w.row.weight == kByValue ? 1 << 20 : w.row.weight));
  execute(w.plan, w.out->numel, w.row.weight);
}
const bool computes = (devices[int(DeviceType::CPU)].pointwise = compute, true);

}  // namespace
}  // namespace flambeau::pointwise
