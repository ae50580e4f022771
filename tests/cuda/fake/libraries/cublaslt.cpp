// A cuBLASLt for tests: checks what descriptors say and multiplies on the fake driver's memory.
#include <algorithm>
#include <cmath>

#include "common.h"

namespace {

// The number of a code of 4 bits: e2m1.
double float4_value(int code) {
  const double sizes[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
  return code & 8 ? -sizes[code & 7] : sizes[code & 7];
}

enum { kInvalid = 7, kNotSupported = 15, kBiasGradient = 512 };
struct Handle : OfDevice {};
struct Layout {
  int type;
  uint64_t rows, columns;
  int64_t ld, step = 0;
  int32_t batch = 1;
  size_t bytes() const {
    const size_t count = size_t(batch - 1) * size_t(step) + (columns - 1) * size_t(ld) + rows;
    return type == 33 ? count / 2 : count * bytes_of(type);
  }
};
struct Desc {
  int compute, scale;
  int32_t transposed[2] = {};
  uint32_t epilogue = 1;
  const void* bias = nullptr;
  const void* scales[4] = {};  // of A, B, C and D: one number each, or (of A and B) as their mode says
  int32_t modes[2] = {}, bias_type = -1;
  int8_t fast = 0;
  size_t scale_bytes(int k, const Layout& d, size_t depth) const {
    const size_t outer = k == 0 ? d.rows : d.columns;
    const size_t squares = (outer + 127) / 128, blocks = (depth + 127) / 128;
    switch (k < 2 ? modes[k] : 0) {
      case 1: return squares * 128 * ((depth + 63) / 64 * 4);
      case 2: return squares * 128 * ((depth + 127) / 128 * 4);
      case 3: return 4 * outer;
      case 4: return 4 * outer * blocks;
      case 5: return 4 * squares * ((blocks + 3) / 4 * 4);
      default: return 4;
    }
  }
  // The scale of a number of A or B: of which row or column, and where along what is summed over.
  double scale_of(int k, size_t outer, size_t at, size_t outers, size_t depth) const {
    const auto* floats = static_cast<const float*>(scales[k]);
    if (!floats) return 1;
    if (modes[k] == 1 || modes[k] == 2) {  // tiles of 128 x 4, in each the rows 32 apart beside each other
      const size_t block = modes[k] == 1 ? 16 : 32, c = at / block, wide = (depth + 4 * block - 1) / (4 * block);
      const size_t tile = outer / 128 * wide + c / 4, inside = outer % 32 * 16 + outer % 128 / 32 * 4 + c % 4;
      const uint8_t code = static_cast<const uint8_t*>(scales[k])[tile * 512 + inside];
      return modes[k] == 1 ? float8_value(28, code) : std::ldexp(1.0, int(code) - 127);
    }
    const size_t blocks = (depth + 127) / 128;
    if (modes[k] == 4) return floats[at / 128 * outers + outer];
    if (modes[k] == 5) return floats[outer / 128 * ((blocks + 3) / 4 * 4) + at / 128];
    return floats[modes[k] == 3 ? outer : 0];
  }
};
struct Preference {
  uint64_t workspace = 0;
  uint32_t reductions = 7, alignment[4] = {256, 256, 256, 256};
};
struct Algorithm {
  uint64_t data[8];
};
struct Heuristic {
  Algorithm algorithm;
  size_t workspace;
  int state;
  float waves;
  int reserved[4];
};

constexpr size_t kWorkspace = 512;
uint64_t mark(const Desc& d, Layout* const* layouts) {  // of the problem an algorithm was chosen for
  uint64_t h = uint64_t(d.compute) * 31 + d.epilogue;
  for (int k = 0; k < 4; ++k)
    for (uint64_t v : {uint64_t(layouts[k]->type), layouts[k]->rows, layouts[k]->columns, uint64_t(layouts[k]->ld),
                       uint64_t(layouts[k]->batch), uint64_t(layouts[k]->step)})
      h = h * 0x9e3779b97f4a7c15u + v;
  return h;
}

// Modes of scales that go together, and the types they are for.
bool scales_go_together(const Desc& d, int a, int b) {
  const int x = d.modes[0], y = d.modes[1];
  if (x == 1 || y == 1) return x == y && a == 33 && b == 33;
  if (a == 33 || b == 33) return false;
  return x == y ? x != 5 : x + y == 9;
}
// Operands of 8 bits: op(A) is A', sizes are multiples of 16, one of the two is e4m3, nothing is added.
bool eight_bits(const Desc& d, Layout* const* l) {
  const int a = l[0]->type, b = l[1]->type, c = l[2]->type, to = l[3]->type;
  const bool narrow = to == 28 || to == 29;
  const int bias = to == 2 ? 2 : 14;
  const bool types = a == 33 || ((a == 28 || b == 28) && (b == 28 || b == 29) && (a == 28 || a == 29));
  return types && scales_go_together(d, a, b) && d.compute == 68 && d.scale == 0 &&
         d.transposed[0] && !d.transposed[1] && l[0]->rows % 16 == 0 && l[0]->columns % 16 == 0 &&
         l[0]->ld % 16 == 0 && l[1]->ld % 16 == 0 && (narrow ? c == 14 || c == 2 : c == to && (to == 0 || to == 2 || to == 14)) &&
         (to != 29 || a == 29 || b == 29) && d.scales[0] && d.scales[1] && (narrow || !d.scales[3]) &&
         (d.epilogue == 1 || (d.epilogue == 4 && d.bias_type == bias));
}

// Bytes are multiplied in one form only: op(A) is A', op(B) is B, the sizes along which A and D lie multiples of 4.
bool in_runs(const Desc& d, Layout* const* l) {
  return d.transposed[0] && !d.transposed[1] && l[0]->rows % 4 == 0 && l[3]->rows % 4 == 0 && l[0]->ld % 4 == 0 &&
         l[1]->ld % 4 == 0 && l[3]->ld % 4 == 0;
}
// Scales by row and a result of 8 bits: to the library an invalid value, not something unsupported.
bool invalid(const Desc& d, Layout* const* l) {
  return (d.modes[0] == 3 || d.modes[1] == 3) && (l[3]->type == 28 || l[3]->type == 29);
}

// Whether these types go together, as the library's documentation lists them.
bool supported(const Desc& d, Layout* const* l) {
  if (d.epilogue == kBiasGradient && l[3]->batch != 1) return false;
  if (l[0]->type >= 28) return eight_bits(d, l);
  const int a = l[0]->type, c = l[2]->type;
  if (a != l[1]->type || c != l[3]->type) return false;
  switch (d.compute) {
    case 64: return d.epilogue != kBiasGradient && a == 2 && c == 2 && d.scale == 2;
    case 68: case 77:
      if (d.scale == 4) return a == 4 && c == 4 && d.epilogue == 1;
      return d.scale == 0 && (a == c || c == 0) && (a == 0 || (d.compute == 68 && (a == 2 || a == 14)));
    case 70: return (d.scale == a && a == c && (a == 1 || a == 5)) && d.epilogue == 1;
    case 72: return a == 3 && c == 10 && d.scale == 10 && in_runs(d, l);
  }
  return false;
}
bool fits(const Desc& d, Layout* const* l) {
  const auto m = l[3]->rows, n = l[3]->columns;
  const auto& a = *l[0];
  const auto& b = *l[1];
  const auto depth = d.transposed[0] ? a.rows : a.columns;
  bool good = (d.transposed[0] ? a.columns : a.rows) == m && (d.transposed[1] ? b.rows : b.columns) == n &&
              (d.transposed[1] ? b.columns : b.rows) == depth && l[2]->rows == m && l[2]->columns == n;
  for (int k = 0; k < 4; ++k) good = good && uint64_t(l[k]->ld) >= l[k]->rows && l[k]->batch == l[0]->batch;
  return good;
}

Number scalar(int type, const void* p) { return load(type, p, 0); }

}  // namespace

API int cublasLtCreate(Handle** h) { ENTER("create"); *h = new Handle; return 0; }
API const char* cublasLtGetStatusName(int s) {
  return s == 3 ? "CUBLAS_STATUS_ALLOC_FAILED" : s == 7 ? "CUBLAS_STATUS_INVALID_VALUE"
         : s == 13 ? "CUBLAS_STATUS_EXECUTION_FAILED" : s == 15 ? "CUBLAS_STATUS_NOT_SUPPORTED" : "CUBLAS_STATUS_?";
}
API int cublasLtMatmulDescCreate(Desc** d, int compute, int scale) {
  ENTER("desc_create");
  *d = make(new Desc{compute, scale});
  return 0;
}
API int cublasLtMatmulDescDestroy(Desc* d) { return drop(d) ? 0 : kInvalid; }
API int cublasLtMatmulDescSetAttribute(Desc* d, int attribute, const void* p, size_t n) {
  ENTER("desc_set");
  const bool address = attribute == 8 || (attribute >= 17 && attribute <= 20);
  if (!known(d) || n != (address ? 8 : attribute == 25 ? 1 : 4)) return kInvalid;
  if (attribute == 3 || attribute == 4) d->transposed[attribute - 3] = as<int32_t>(p);
  else if (attribute == 7) d->epilogue = as<uint32_t>(p);
  else if (attribute == 8) d->bias = as<const void*>(p);
  else if (address) d->scales[attribute - 17] = as<const void*>(p);
  else if (attribute == 25) d->fast = as<int8_t>(p);
  else if (attribute == 26) d->bias_type = as<int32_t>(p);
  else if ((attribute == 31 || attribute == 32) && as<int32_t>(p) <= 5) d->modes[attribute - 31] = as<int32_t>(p);
  else return kInvalid;
  return 0;
}
API int cublasLtMatrixLayoutCreate(Layout** l, int type, uint64_t rows, uint64_t columns, int64_t ld) {
  ENTER("layout_create");
  *l = make(new Layout{type, rows, columns, ld});
  return 0;
}
API int cublasLtMatrixLayoutDestroy(Layout* l) { return drop(l) ? 0 : kInvalid; }
API int cublasLtMatrixLayoutSetAttribute(Layout* l, int attribute, const void* p, size_t n) {
  ENTER("layout_set");
  if (!known(l)) return kInvalid;
  if (attribute == 5 && n == 4) l->batch = as<int32_t>(p);
  else if (attribute == 6 && n == 8) l->step = as<int64_t>(p);
  else return kInvalid;
  return 0;
}
API int cublasLtMatmulPreferenceCreate(Preference** p) { ENTER("preference"); *p = make(new Preference); return 0; }
API int cublasLtMatmulPreferenceDestroy(Preference* p) { return drop(p) ? 0 : kInvalid; }
API int cublasLtMatmulPreferenceSetAttribute(Preference* q, int attribute, const void* p, size_t n) {
  ENTER("preference_set");
  if (!known(q)) return kInvalid;
  if (attribute == 1 && n == 8) q->workspace = as<uint64_t>(p);
  else if (attribute == 3 && n == 4) q->reductions = as<uint32_t>(p);
  else if (attribute >= 5 && attribute <= 8 && n == 4) q->alignment[attribute - 5] = as<uint32_t>(p);
  else return kInvalid;
  return 0;
}
API int cublasLtMatmulAlgoGetHeuristic(Handle*, Desc* d, Layout* a, Layout* b, Layout* c, Layout* out, Preference* p,
                                       int asked, Heuristic* found, int* count) {
  ENTER("heuristic");
  Layout* l[] = {a, b, c, out};
  *count = 0;
  if (asked < 1 || !known(d) || !known(p) || !fits(*d, l)) return kInvalid;
  if (invalid(*d, l)) return kInvalid;
  if (!supported(*d, l)) return kNotSupported;
  *found = {{{mark(*d, l), p->alignment[0], p->alignment[1], p->alignment[3]}}, p->workspace ? kWorkspace : 0, 0, 1, {}};
  *count = 1;
  return 0;
}
API int cublasLtMatmul(Handle* h, Desc* d, const void* alpha, const void* a, Layout* la, const void* b, Layout* lb,
                       const void* beta, const void* c, Layout* lc, void* out, Layout* ld, const Algorithm* algorithm,
                       void* workspace, size_t bytes, void* stream) {
  ENTER("matmul");
  Layout* l[] = {la, lb, lc, ld};
  const void* at[] = {a, b, c, out};
  if (algorithm->data[0] != mark(*d, l) || bytes < kWorkspace || !valid(workspace, bytes)) return kInvalid;
  for (int k = 0; k < 4; ++k)
    if (!(k == 2 && !at[k] && as<float>(beta) == 0) && !valid(at[k], l[k]->bytes())) return kInvalid;
  const size_t length = d->transposed[0] ? la->rows : la->columns;
  for (int k = 0; k < 4; ++k)
    if (d->scales[k] && !valid(d->scales[k], d->scale_bytes(k, *ld, length))) return kInvalid;
  if (reinterpret_cast<uintptr_t>(a) % algorithm->data[1] || reinterpret_cast<uintptr_t>(b) % algorithm->data[2] ||
      reinterpret_cast<uintptr_t>(out) % algorithm->data[3])
    return kInvalid;
  const bool biased = d->epilogue & 4, sums = d->epilogue == kBiasGradient;
  const int bias_type = d->bias_type < 0 ? ld->type : d->bias_type;
  const size_t row = (sums ? ld->columns : ld->rows) * bytes_of(bias_type);
  if ((biased || sums) && (!valid(d->bias, row) || reinterpret_cast<uintptr_t>(d->bias) % 16)) return kInvalid;
  const Number by = scalar(d->scale, alpha), kept = scalar(d->scale, beta);
  return submit(h, stream, [d = *d, la = *la, lb = *lb, lc = *lc, ld = *ld, a, b, c, out, by, kept, biased, sums, bias_type] {
    const auto depth = int64_t(d.transposed[0] ? la.rows : la.columns);
    auto element = [&](const Layout& l, const void* p, bool transposed, int64_t i, int64_t j) {
      const int64_t place = transposed ? j + i * l.ld : i + j * l.ld;
      const Number v = l.type == 33 ? float4_value(static_cast<const uint8_t*>(p)[place / 2] >> place % 2 * 4)
                                    : load(l.type, p, place);
      return d.compute == 77 ? Number(tf32(v.real()), tf32(v.imag())) : v;
    };
    for (int64_t j = 0; sums && j < int64_t(ld.columns); ++j) {
      Number sum = 0;
      for (int64_t k = 0; k < depth; ++k) sum += load(lb.type, b, d.transposed[1] ? j + k * lb.ld : k + j * lb.ld);
      store(ld.type, const_cast<void*>(d.bias), j, sum);
    }
    for (int64_t q = 0; q < ld.batch; ++q)
      for (int64_t j = 0; j < int64_t(ld.columns); ++j)
        for (int64_t i = 0; i < int64_t(ld.rows); ++i) {
          auto place = [&](const Layout& l, const void* p) {
            return static_cast<const char*>(p) + q * l.step * int64_t(bytes_of(l.type));
          };
          Number sum = 0;
          for (int64_t k = 0; k < depth; ++k)
            sum += element(la, place(la, a), d.transposed[0], i, k) * element(lb, place(lb, b), d.transposed[1], k, j) *
                   d.scale_of(0, size_t(i), size_t(k), ld.rows, size_t(depth)) *
                   d.scale_of(1, size_t(j), size_t(k), ld.columns, size_t(depth));
          sum *= by;
          if (kept != Number(0)) sum += kept * load(lc.type, place(lc, c), i + j * lc.ld);
          if (biased) sum += load(bias_type, d.bias, i);
          if (d.scales[3]) sum *= as<float>(d.scales[3]);
          double v = sum.real();
          if (d.epilogue & 2) sum = std::max(v, 0.0);
          if (d.epilogue & 32) sum = v / 2 * (1 + std::tanh(0.7978845608028654 * (v + 0.044715 * v * v * v)));
          store(ld.type, const_cast<char*>(place(ld, out)), i + j * ld.ld, sum);
        }
  });
}
