// Largest and smallest elements, and where they are.
#include "folds.h"

namespace flambeau {
namespace {

void require_elements(const Call& c, const Tensor& x, uint64_t mask, bool by_dim, ErrorKind kind) {
  if (is_complex(x.dtype))
    not_implemented(c.name(), ": not implemented for ", dtype_name(x.dtype), ": complex numbers have no order");
  if (x.numel) return;
  if (!by_dim)
    fail(kind, c.name(), "(): a tensor without elements has no such value; pass the dim to reduce, if another "
         "dimension is empty");
  for (int d = 0; d < x.ndim; ++d)
    if ((mask >> d & 1) && x.sizes[d] == 0)
      index_error(c.name(), "(): dim ", d, " has size 0, so there is nothing to reduce");
}
// calls f.template operator()<T>() with the type extremes are compared in
template <class F>
void visit_ordered(const Call& c, DType t, F&& f) {
  switch (t) {
    case DType::Bool:
    case DType::UInt8: return f.template operator()<uint8_t>();
    case DType::Float16:
    case DType::BFloat16:
    case DType::Float32: return f.template operator()<float>();
    case DType::Float64: return f.template operator()<double>();
    case DType::Int8: return f.template operator()<int8_t>();
    case DType::Int16: return f.template operator()<int16_t>();
    case DType::Int32: return f.template operator()<int32_t>();
    case DType::UInt64: return f.template operator()<uint64_t>();
    default:
      if (!is_integral(t)) no_loop_for(c, t);
      return f.template operator()<int64_t>();
  }
}
// amax(self, dim, keepdim), max.all(self)
void infer_amax(Call& c) {
  Tensor& x = c.tensor(0);
  bool given = c.nargs > 1 && c.has(1) && !(c.args[1].tag == Tag::Ints && c.args[1].ints.size == 0);
  const uint64_t mask = c.hand_over(c.nargs > 1 ? dims_mask(c, 1, x.ndim) : ~uint64_t(0));
  if (x.numel == 0 && c.nargs == 1)
    runtime_error(std::string_view(c.name()).substr(0, 3), "(): a tensor without elements has no such value; pass the "
                  "dim to reduce, if another dimension is empty");
  require_elements(c, x, mask, given, ErrorKind::Runtime);
  c.output(reduced_shape(x, mask, c.nargs > 1 && c.boolean(2)), x.dtype, x.device);
}
template <template <class, class> class F>
void cpu_amax(Call& c) {
  Tensor& x = c.tensor(0);
  const uint64_t mask = c.handed<uint64_t>();
  TensorRef y = c.out().dtype == x.dtype ? TensorRef::borrow(&x) : to_dtype(x, c.out().dtype);
  visit_ordered(c, y->dtype, [&]<class T>() { fold<F<T, Same>>(*y, c.out(), mask); });
}

// Both in one walk: a block is in the first cache when it is looked at for the second time.
template <class T_>
struct Range {
  using T = T_;
  struct Acc {
    T low, high;
  };
  static constexpr bool kFold = true;
  Fold<Minimum<T>> low;
  Fold<Maximum<T>> high;

  Acc init() const { return {low.init(), high.init()}; }
  void merge(Acc& a, const Acc& b) const {
    low.merge(a.low, b.low);
    high.merge(a.high, b.high);
  }
  void block(Acc& acc, const T* p, int64_t n, int64_t base) const {
    low.block(acc.low, p, n, base);
    high.block(acc.high, p, n, base);
  }
  void columns(Acc* acc, const T* const* rows, int n, int64_t w, int64_t base) const {
    T lows[kColumns], highs[kColumns];
    for (int64_t j = 0; j < w; ++j) lows[j] = acc[j].low, highs[j] = acc[j].high;
    low.columns(lows, rows, n, w, base);
    high.columns(highs, rows, n, w, base);
    for (int64_t j = 0; j < w; ++j) acc[j] = {lows[j], highs[j]};
  }
  void store(int64_t o, const Acc& acc) const {
    low.store(o, acc.low);
    high.store(o, acc.high);
  }
};

// aminmax(self, dim, keepdim) -> (min, max)
void infer_aminmax(Call& c) {
  infer_amax(c);
  Tensor& first = c.out();
  c.output(first.shape(), first.dtype, first.device);
}
void cpu_aminmax(Call& c) {
  Tensor& x = c.tensor(0);
  const uint64_t mask = c.handed<uint64_t>();
  visit_ordered(c, x.dtype, [&]<class T>() {
    LockRelease lock(x.numel);
    run_reduction(Range<T>{{c.out(0).data, c.out(0).dtype}, {c.out(1).data, c.out(1).dtype}}, x, mask);
  });
}

template <class T> bool is_nan(T v) { return v != v; }

// The first place of a value that is there.
template <class T>
int64_t place_of(T value, const T* p, int64_t n) {
  constexpr int L = kLanes<T>;
  const Vector<T> wanted = splat(value);
  int64_t i = 0;
  for (; i + 4 * L <= n; i += 4 * L) {
    const auto found = ((load_vector(p + i) == wanted) | (load_vector(p + i + L) == wanted)) |
                       ((load_vector(p + i + 2 * L) == wanted) | (load_vector(p + i + 3 * L) == wanted));
    const Vector<int64_t> words = Vector<int64_t>(found);
    if ((words[0] | words[1]) | (words[2] | words[3])) break;
  }
  while (p[i] != value) ++i;
  return i;
}

template <class T_, bool largest>
struct Extreme {
  using T = T_;
  struct Acc {
    T value;
    int64_t index;
  };
  static constexpr bool kFold = false;
  char* values;  // null: not wanted
  DType dtype;
  int64_t* indices;

  using Ext = std::conditional_t<largest, Maximum<T>, Minimum<T>>;
  static bool better(T a, T b) { return (largest ? a > b : a < b) || (is_nan(a) && !is_nan(b)); }
  Acc init() const { return {T(0), -1}; }
  void merge(Acc& a, const Acc& b) const {
    if (b.index >= 0 && (a.index < 0 || better(b.value, a.value))) a = b;
  }
  void block(Acc& acc, const T* p, int64_t n, int64_t base) const {
    T best = Ext::zero();
    Fold<Ext>{nullptr, dtype}.block(best, p, n, 0);
    if (acc.index >= 0 && !better(best, acc.value)) return;
    int64_t nan = 0;
    if (is_nan(best)) while (!is_nan(p[nan])) ++nan;
    acc = {best, base + (is_nan(best) ? nan : place_of(best, p, n))};
  }
  void columns(Acc* acc, const T* const* rows, int n, int64_t w, int64_t base) const {
    constexpr int L = kLanes<T>;
    using I = LaneInt<T>;
    alignas(32) T value[kColumns];
    alignas(32) I index[kColumns];
    const int64_t whole = w / L * L;
    std::memcpy(value, rows[0], size_t(w) * sizeof(T));
    std::memset(index, 0, size_t(w) * sizeof(I));
    for (int r = 1; r < n; ++r) {
      for (int64_t j = 0; j < whole; j += L) {
        Vector<T> x = load_vector(rows[r] + j), m = load_vector(value + j);
        auto take = (largest ? x > m : x < m) | ((x != x) & (m == m));
        store_vector(value + j, take ? x : m);
        store_vector(index + j, take ? splat<I>(I(r)) : load_vector(index + j));
      }
      for (int64_t j = whole; j < w; ++j)
        if (better(rows[r][j], value[j])) {
          value[j] = rows[r][j];
          index[j] = I(r);
        }
    }
    for (int64_t j = 0; j < w; ++j)
      if (acc[j].index < 0 || better(value[j], acc[j].value)) acc[j] = {value[j], base + int64_t(index[j])};
  }
  void store(int64_t o, const Acc& acc) const {
    if (values) put<T>(values, dtype, o, acc.value);
    indices[o] = acc.index;
  }
};

// argmax(self, dim, keepdim); max.dim(self, dim, keepdim)
void infer_argmax(Call& c) {
  Tensor& x = c.tensor(0);
  const uint64_t mask = c.hand_over(dims_mask(c, 1, x.ndim));
  require_elements(c, x, mask, c.has(1), ErrorKind::Index);
  c.output(reduced_shape(x, mask, c.boolean(2)), DType::Int64, x.device);
}
void infer_max_dim(Call& c) {
  Tensor& x = c.tensor(0);
  const uint64_t mask = c.hand_over(dims_mask(c, 1, x.ndim));
  if (is_complex(x.dtype))
    not_implemented(c.name(), ": not implemented for ", dtype_name(x.dtype), ": complex numbers have no order");
  for (int d = 0; d < x.ndim; ++d)
    if ((mask >> d & 1) && x.sizes[d] == 0)
      index_error(std::string_view(c.name()).substr(0, 3), "(): dim ", d, " has size 0, so there is nothing to reduce");
  Sizes s = reduced_shape(x, mask, c.boolean(2));
  c.output(s, x.dtype, x.device);
  c.output(s, DType::Int64, x.device);
}
template <bool largest>
void extreme(Call& c, Tensor* values, Tensor& indices) {
  const uint64_t mask = c.handed<uint64_t>();
  Tensor &index = indices, &value = values ? *values : indices, &given = c.tensor(0);
  // places count as users see the numbers: where these do not lie so, each would be found alone
  const bool all = given.ndim > 1 && mask == (uint64_t(1) << given.ndim) - 1;
  const TensorRef own = all && given.strides[given.ndim - 1] != 1 ? contiguous(given) : TensorRef::borrow(&given);
  const Tensor& x = *own;
  visit_ordered(c, x.dtype, [&]<class T>() {
    LockRelease lock(x.numel);
    run_reduction(Extreme<T, largest>{values ? value.data : nullptr, x.dtype, index.ptr<int64_t>()}, x, mask, true);
  });
}
template <bool largest>
void cpu_argmax(Call& c) { extreme<largest>(c, nullptr, c.out()); }
template <bool largest>
void cpu_max_dim(Call& c) { extreme<largest>(c, &c.out(0), c.out(1)); }

const Primitives rows{
    {"amax", infer_amax, cpu_amax<Maximum>},
    {"amin", infer_amax, cpu_amax<Minimum>},
    {"aminmax", infer_aminmax, cpu_aminmax},
    {"max.all", infer_amax, cpu_amax<Maximum>},
    {"min.all", infer_amax, cpu_amax<Minimum>},
    {"max.dim", infer_max_dim, cpu_max_dim<true>},
    {"min.dim", infer_max_dim, cpu_max_dim<false>},
    {"argmax", infer_argmax, cpu_argmax<true>},
    {"argmin", infer_argmax, cpu_argmax<false>},
};

}  // namespace
}  // namespace flambeau
