// Scans along one dimension: cumulative sums, products, extremes and log-sum-exps.
#include "fibres.h"
#include "reduce.h"

namespace flambeau {
namespace {

template <class T_>
struct RunningSum {
  using T = T_;
  using Acc = typename Widened<T>::type;
  static Acc start() { return Acc(0); }
  static Acc join(Acc a, Acc b) {
    if constexpr (std::is_same_v<T, int64_t>) return int64_t(uint64_t(a) + uint64_t(b));
    else return a + b;
  }
  static T step(Acc& acc, T x) {
    acc = join(acc, Acc(x));
    return T(acc);
  }
  // The sum of n numbers, a multiple of 8, for types in which it overflows nowhere that the steps would not.
  static Acc total(const T* x, int64_t n) requires(std::is_same_v<T, float> || std::is_same_v<T, int64_t>) {
    std::conditional_t<std::is_same_v<T, float>, double, uint64_t> lanes[8] = {};
    for (int64_t i = 0; i < n; i += 8)
      for (int k = 0; k < 8; ++k) lanes[k] += Acc(x[i + k]);
    for (int k = 1; k < 8; ++k) lanes[0] += lanes[k];
    return Acc(lanes[0]);
  }
};
// Both parts in one register.
struct Parts {
  typedef double Both __attribute__((vector_size(16)));
  Both both{};
  Parts() = default;
  explicit Parts(Both b) : both(b) {}
};
template <>
struct RunningSum<complex64> {
  using T = complex64;
  using Acc = Parts;
  typedef float Single __attribute__((vector_size(8)));
  static Acc start() { return Acc(); }
  static Acc join(Acc a, Acc b) { return Acc(a.both + b.both); }
  static T step(Acc& acc, T x) {
    acc.both += __builtin_convertvector(bit_copy<Single>(x), Parts::Both);
    return bit_copy<T>(__builtin_convertvector(acc.both, Single));
  }
  static Acc total(const T* x, int64_t n) {
    const float* parts = reinterpret_cast<const float*>(x);
    double lanes[8] = {};  // real and imaginary parts in turn
    for (int64_t i = 0; i < 2 * n; i += 8)
      for (int k = 0; k < 8; ++k) lanes[k] += parts[i + k];
    for (int k = 2; k < 8; ++k) lanes[k % 2] += lanes[k];
    return Acc(Parts::Both{lanes[0], lanes[1]});
  }
};
template <class T_>
struct RunningProduct {
  using T = T_;
  using Acc = typename Widened<T>::type;
  static Acc start() { return Acc(1); }
  static T step(Acc& acc, T x) {
    if constexpr (std::is_same_v<T, int64_t>) acc = int64_t(uint64_t(acc) * uint64_t(x));
    else acc *= Acc(x);
    return T(acc);
  }
};
template <class T_>
struct RunningLogSum {
  using T = T_;
  using Acc = double;
  static Acc start() { return -INFINITY; }
  static T step(Acc& acc, T x_) {
    const double x = double(x_);
    if (acc != acc || x != x) acc = NAN;
    else if (double top = std::max(acc, x); !std::isinf(top)) acc = top + std::log1p(std::exp(std::min(acc, x) - top));
    else acc = top;
    return T(acc);
  }
};

constexpr int64_t kWidth = 128;  // fibres that run side by side
constexpr int64_t kStrip = 256;  // elements of a row between two visits of its neighbours

// Whether numbers are read where they lie and written where they go: a copy in between is slow where the two lie at one
// place of their pages.
template <class T> bool in_place(const Tensor& x, const Tensor& y) {
  return reads_directly<T>(x.dtype) && reads_directly<T>(y.dtype);
}

// Where the first of some rows begins and how far apart the others follow, in what is read and in the result.
struct Places {
  int64_t from, to, from_pitch, to_pitch;
  Places after(int64_t rows) const { return {from + rows * from_pitch, to + rows * to_pitch, from_pitch, to_pitch}; }
};

// `count` rows together, from `acc` on: within one, each step waits for the last, so that the steps of the others are
// free.
template <class Op, int count>
void scan_rows(const Tensor& x, Tensor& y, LoadFn<typename Op::T> load, const Places& at, int64_t n,
               typename Op::Acc* acc) {
  using T = typename Op::T;
  const int64_t item = x.itemsize(), out = y.itemsize();
  if (reads_directly<T>(y.dtype)) {
    const bool direct = reads_directly<T>(x.dtype);  // else numbers are converted into the result, and summed there
    T* to = y.ptr<T>() + at.to;
    const T* from = direct ? x.ptr<T>() + at.from : to;
    const int64_t from_pitch = direct ? at.from_pitch : at.to_pitch;
    typename Op::Acc sums[count];
    for (int r = 0; r < count; ++r) sums[r] = acc[r];  // a copy as bytes would keep them out of registers
    for (int64_t k = 0; k < n; k += kStrip) {
      interruption_point();
      const int64_t end = std::min(n, k + kStrip);
      for (int r = 0; r < count && !direct; ++r)
        load(to + r * at.to_pitch + k, x.data + (at.from + r * at.from_pitch + k) * item, item, end - k);
      for (int64_t i = k; i < end; ++i)
        for (int r = 0; r < count; ++r) to[r * at.to_pitch + i] = Op::step(sums[r], from[r * from_pitch + i]);
    }
    for (int r = 0; r < count; ++r) acc[r] = sums[r];
    return;
  }
  T strip[count][kStrip];
  for (int64_t k = 0; k < n; k += kStrip) {
    interruption_point();
    const int64_t m = std::min(kStrip, n - k);
    for (int r = 0; r < count; ++r) load(strip[r], x.data + (at.from + r * at.from_pitch + k) * item, item, m);
    for (int64_t i = 0; i < m; ++i)
      for (int r = 0; r < count; ++r) strip[r][i] = Op::step(acc[r], strip[r][i]);
    for (int r = 0; r < count; ++r) store_row(y.data + (at.to + r * at.to_pitch + k) * out, y.dtype, strip[r], m);
  }
}
// Rows of a few elements, whose loop over them is unrolled.
template <class Op, int n>
void scan_few(const typename Op::T* from, int64_t from_pitch, typename Op::T* to, int64_t rows) {
  for (int64_t r = 0; r < rows; ++r, from += from_pitch, to += n) {
    typename Op::Acc acc = Op::start();
    for (int i = 0; i < n; ++i) to[i] = Op::step(acc, from[i]);
  }
}
constexpr int64_t kFew = 8;
// f.operator()<n>(), n at most kFew.
template <class F> void with_few(int64_t n, F&& f) {
  switch (n) {
    case 1: return f.template operator()<1>();
    case 2: return f.template operator()<2>();
    case 3: return f.template operator()<3>();
    case 4: return f.template operator()<4>();
    case 5: return f.template operator()<5>();
    case 6: return f.template operator()<6>();
    case 7: return f.template operator()<7>();
    default: return f.template operator()<kFew>();
  }
}
template <class Op>
void scan_matrix(const Tensor& x, Tensor& y, LoadFn<typename Op::T> load, const Places& at, int64_t rows, int64_t n,
                 typename Op::Acc* acc) {
  int64_t r = 0;
  constexpr bool waits = !std::is_same_v<typename Op::T, int64_t>;  // integers are added within a cycle
  for (; waits && r + 4 <= rows; r += 4) scan_rows<Op, 4>(x, y, load, at.after(r), n, acc + r);
  for (; r < rows; ++r) scan_rows<Op, 1>(x, y, load, at.after(r), n, acc + r);
}

constexpr int64_t kLong = 1 << 15;  // rows from this length on are scanned in parts,
constexpr int64_t kPart = 4096;     // of this length

// A long row becomes parts that threads share: the sums of some parts first, which then are still in a cache, and each
// part from the sum of those before it on. The parts depend on sizes alone.
template <class Op>
void scan_parts(const Tensor& x, Tensor& y, LoadFn<typename Op::T> load, const Places& row, int64_t n) {
  constexpr int64_t kTogether = 32;
  const int64_t all = n / kPart, item = x.itemsize();
  const Places at{row.from, row.to, kPart, kPart};
  const bool direct = reads_directly<typename Op::T>(x.dtype);
  typename Op::Acc sums[kTogether + 1] = {Op::start()};  // before each part
  for (int64_t first = 0, parts; first < all; first += parts) {
    parts = std::min(kTogether, all - first);
    parallel_for(parts, kGrain / kPart, [&](int64_t part, int64_t end) {
      using T = typename Op::T;
      T block[kPart];
      for (; part < end; ++part) {
        const char* from = x.data + at.after(first + part).from * item;
        if (!direct) load(block, from, item, kPart);
        sums[part + 1] = Op::total(direct ? reinterpret_cast<const T*>(from) : block, kPart);
      }
    });
    for (int64_t part = 1; part <= parts; ++part) sums[part] = Op::join(sums[part - 1], sums[part]);
    parallel_for(parts, kGrain / kPart, [&](int64_t part, int64_t end) {
      typename Op::Acc acc[kTogether];
      std::copy(sums + part, sums + end, acc);
      scan_matrix<Op>(x, y, load, at.after(first + part), end - part, kPart, acc);
    });
    sums[0] = sums[parts];
  }
  scan_rows<Op, 1>(x, y, load, at.after(all), n - all * kPart, sums);
}

// A few rows side by side, whose sums stay in registers.
template <class Op, int width>
void scan_narrow(const typename Op::T* from, typename Op::T* to, int64_t n) {
  typename Op::Acc acc[width];
  for (auto& a : acc) a = Op::start();
  for (int64_t k = 0; k < n; ++k, from += width, to += width)
    for (int j = 0; j < width; ++j) to[j] = Op::step(acc[j], from[j]);
}
// Rows whose elements lie apart, many side by side.
template <class Op>
void scan_columns(const Tensor& x, Tensor& y, LoadFn<typename Op::T> load, const Fibres& f) {
  using T = typename Op::T;
  const int64_t item = x.itemsize(), out = y.itemsize();
  const bool direct = in_place<T>(x, y);
  if (direct && f.inner <= kFew && f.n * f.inner <= kLong)
    return parallel_for(f.outer, std::max<int64_t>(1, kGrain / 4 / (f.n * f.inner)), [&](int64_t o, int64_t end) {
      for (const int64_t block = f.n * f.inner; o < end; ++o) {
        interruption_point();
        with_few(f.inner, [&]<int width>() {
          scan_narrow<Op, width>(x.ptr<T>() + o * block, y.ptr<T>() + o * block, f.n);
        });
      }
    });
  const int64_t tiles = (f.inner + kWidth - 1) / kWidth;
  parallel_for(f.outer * tiles, std::max<int64_t>(1, kGrain / 4 / (f.n * std::min(kWidth, f.inner))),
               [&](int64_t begin, int64_t end) {
                 T row[kWidth];
                 typename Op::Acc acc[kWidth];
                 for (int64_t u = begin; u < end; ++u) {
                   const int64_t first = u / tiles * f.n * f.inner + u % tiles * kWidth,
                                 w = std::min(kWidth, f.inner - u % tiles * kWidth);
                   std::fill(acc, acc + w, Op::start());
                   for (int64_t k = 0; k < f.n; ++k) {
                     const int64_t at = first + k * f.inner;
                     const T* from = direct ? x.ptr<T>() + at : row;
                     T* to = direct ? y.ptr<T>() + at : row;
                     if (!direct) load(row, x.data + at * item, item, w);
                     for (int64_t j = 0; j < w; ++j) to[j] = Op::step(acc[j], from[j]);
                     if (!direct) store_row(y.data + at * out, y.dtype, row, w);
                   }
                 }
               });
}

template <class Op>
void scan(const Rows& rows, Tensor& y, const Fibres& f) {
  const Tensor& x = *rows.x;
  const LoadFn<typename Op::T> load = loader_of<typename Op::T>(x.dtype);
  if (f.inner > 1) return scan_columns<Op>(x, y, load, f);
  const Places at{0, 0, rows.pitch, f.n};
  if constexpr (requires(const typename Op::T* p) { Op::total(p, 8); }) {  // sums
    if (f.n >= kLong)
      return parallel_for(f.outer, 1, [&](int64_t r, int64_t end) {
        for (; r < end; ++r) scan_parts<Op>(x, y, load, at.after(r), f.n);
      });
  }
  const bool few = f.n <= kFew && in_place<typename Op::T>(x, y);
  parallel_for(f.outer, std::max<int64_t>(1, kGrain / 4 / f.n), [&](int64_t begin, int64_t end) {
    using T = typename Op::T;
    if (few)
      return with_few(f.n, [&]<int n>() {
        scan_few<Op, n>(x.ptr<T>() + begin * rows.pitch, rows.pitch, y.ptr<T>() + begin * f.n, end - begin);
      });
    std::vector<typename Op::Acc> acc(size_t(end - begin), Op::start());
    scan_matrix<Op>(x, y, load, at.after(begin), end - begin, f.n, acc.data());
  });
}

// cumsum(self, dim, dtype), cumprod
void infer_cumulative(Call& c) {
  Tensor& x = c.tensor(0);
  c.dim(1, x.ndim);
  c.output(x.shape(), c.dtype_or(2, category(x.dtype) <= Category::Integer ? DType::Int64 : x.dtype), x.device);
}
template <template <class> class Op>
void cpu_cumulative(Call& c) {
  Tensor& out = c.out();
  if (!out.numel) return;
  const int64_t dim = c.dim(1, out.ndim);
  const Fibres f(out, dim);
  const TensorRef given = in_dtype(c.tensor(0), out.dtype);
  const Rows rows(*given, dim);
  LockRelease lock(out.numel * 2);
  if (category(given->dtype) <= Category::Integer) return scan<Op<int64_t>>(rows, out, f);
  switch (given->dtype) {
    case DType::Float16:
    case DType::BFloat16:
    case DType::Float32: return scan<Op<float>>(rows, out, f);
    case DType::Float64: return scan<Op<double>>(rows, out, f);
    case DType::Complex64: return scan<Op<complex64>>(rows, out, f);
    case DType::Complex128: return scan<Op<complex128>>(rows, out, f);
    default: not_implemented(c.name(), ": not implemented for ", dtype_name(given->dtype));
  }
}
void infer_logcumsumexp(Call& c) {
  Tensor& x = c.tensor(0);
  c.dim(1, x.ndim);
  if (!is_differentiable(x.dtype)) not_implemented("logcumsumexp: not implemented for ", dtype_name(x.dtype));
  c.output_like(x);
}
// Complex: fibre by fibre in complex128; the sum so far is kept as a logarithm.
void logcumsumexp_complex(Call& c) {
  const Tensor& x = c.tensor(0);
  Tensor& out = c.out();
  const int64_t dim = c.dim(1, x.ndim);
  auto last = [&](const Tensor& t, std::vector<int64_t>& sizes) {  // the view with that dimension moved to the end
    std::vector<int64_t> strides;
    for (int d = 0; d < t.ndim; ++d)
      if (d != dim) sizes.push_back(t.sizes[d]), strides.push_back(t.strides[d]);
    if (t.ndim) sizes.push_back(t.sizes[dim]), strides.push_back(t.strides[dim]);
    return view_of(t, sizes, strides, t.data);
  };
  std::vector<int64_t> sizes, out_sizes;
  TensorRef from = last(x, sizes), to = last(out, out_sizes), rows = empty(sizes, DType::Complex128);
  copy_into(*rows, *from);
  const int64_t n = x.ndim ? x.sizes[dim] : 1;
  complex128* p = rows->ptr<complex128>();
  for (int64_t r = 0; r < x.numel; r += n)
    for (int64_t k = 1; k < n; ++k) {
      complex128 a = p[r + k - 1], b = p[r + k], high = a.real() < b.real() ? b : a, low = a.real() < b.real() ? a : b;
      p[r + k] = low.real() == -INFINITY ? high : high + std::log(1.0 + std::exp(low - high));
    }
  copy_into(*to, *rows);
}
void cpu_logcumsumexp(Call& c) {
  Tensor& out = c.out();
  if (!out.numel) return;
  if (is_complex(out.dtype)) return logcumsumexp_complex(c);
  const int64_t dim = c.dim(1, out.ndim);
  const Fibres f(out, dim);
  const Rows rows(c.tensor(0), dim);
  if (out.dtype == DType::Float64) scan<RunningLogSum<double>>(rows, out, f);
  else if (loader_of<float>(out.dtype)) scan<RunningLogSum<float>>(rows, out, f);
  else not_implemented("logcumsumexp: not implemented for ", dtype_name(out.dtype));
}

// cummax(self, dim) -> (values, indices): the latest of equal elements, NaN above all
void infer_cummax(Call& c) {
  Tensor& x = c.tensor(0);
  c.dim(1, x.ndim);
  if (is_complex(x.dtype))
    not_implemented(c.name(), ": not implemented for ", dtype_name(x.dtype), ": complex numbers have no order");
  if (is_float8(x.dtype)) not_implemented(c.name(), ": not implemented for ", dtype_name(x.dtype));
  c.output_like(x);
  c.output(x.shape(), DType::Int64, x.device);
}
// A number as it is compared.
template <class T>
auto compared(T v) {
  if constexpr (std::is_same_v<T, float16> || std::is_same_v<T, bfloat16>) return float(v);
  else return v;
}
// Rows that are runs of memory: an extreme stands until the next one is found, and is written as a run.
template <class T, bool largest>
void scan_extreme_rows(const Rows& rows, T* values, int64_t* indices, const Fibres& f) {
  parallel_for(f.outer, std::max<int64_t>(1, kGrain / 8 / f.n), [&](int64_t begin, int64_t end) {
    for (int64_t u = begin; u < end; ++u) {
      const T* row = rows.x->ptr<T>() + u * rows.pitch;
      for (int64_t at = 0, next; at < f.n; at = next) {
        const auto best = compared(row[at]);
        next = at + 1;
        if (best != best) {  // only another NaN takes its place
          while (next < f.n && compared(row[next]) == compared(row[next])) ++next;
        } else {
          while (next < f.n && (largest ? compared(row[next]) < best : compared(row[next]) > best)) ++next;
        }
        std::fill(values + u * f.n + at, values + u * f.n + next, row[at]);
        std::fill(indices + u * f.n + at, indices + u * f.n + next, at);
      }
    }
  });
}
template <class T, bool largest>
void scan_extreme_columns(const T* x, T* values, int64_t* indices, const Fibres& f) {
  const int64_t tiles = (f.inner + kWidth - 1) / kWidth, width = std::min(kWidth, f.inner);
  parallel_for(f.outer * tiles, std::max<int64_t>(1, kGrain / 8 / (f.n * width)), [&](int64_t u, int64_t end) {
    for (; u < end; ++u) {
      const int64_t column = u % tiles * kWidth, w = std::min(kWidth, f.inner - column);
      int64_t first = u / tiles * f.n * f.inner + column;
      T best[kWidth];
      int64_t at[kWidth] = {};
      std::copy(x + first, x + first + w, best);
      for (int64_t k = 0; k < f.n; ++k, first += f.inner) {
        interruption_point();
        for (int64_t j = 0; j < w; ++j) {
          const auto v = compared(x[first + j]), b = compared(best[j]);
          const bool moves = (v != v) | ((b == b) & (largest ? v >= b : v <= b));
          best[j] = moves ? x[first + j] : best[j];
          at[j] = moves ? k : at[j];
        }
        std::copy(best, best + w, values + first);
        std::copy(at, at + w, indices + first);
      }
    }
  });
}
template <bool largest>
void cpu_cummax(Call& c) {
  Tensor& given = c.tensor(0);
  if (!given.numel) return;
  const int64_t dim = c.dim(1, given.ndim);
  const Fibres f(given, dim);
  const Rows rows(given, dim);
  Tensor& values = c.out(0);
  LockRelease lock(given.numel * 2);
  int64_t* at = c.out(1).ptr<int64_t>();
  visit_dtype(given.dtype, [&]<class T>() {
    if constexpr (std::is_same_v<T, complex64> || std::is_same_v<T, complex128>) return;
    else if (f.inner == 1) scan_extreme_rows<T, largest>(rows, values.ptr<T>(), at, f);
    else scan_extreme_columns<T, largest>(rows.x->ptr<T>(), values.ptr<T>(), at, f);
  });
}

const Primitives rows{
    {"cumsum", infer_cumulative, cpu_cumulative<RunningSum>},
    {"cumprod", infer_cumulative, cpu_cumulative<RunningProduct>},
    {"logcumsumexp", infer_logcumsumexp, cpu_logcumsumexp},
    {"cummax", infer_cummax, cpu_cummax<true>},
    {"cummin", infer_cummax, cpu_cummax<false>},
};

}  // namespace
}  // namespace flambeau
