// One loop for each dtype and reduction. Half precision is added up in float32 and rounded once.
#include "reduce.h"

#include <algorithm>
#include <type_traits>

namespace flambeau::distributed {
namespace {

constexpr int64_t kBlock = 512;  // elements that are reduced over all ranks before the next ones

template <class T>
inline constexpr bool is_complex_v = std::is_same_v<T, complex64> || std::is_same_v<T, complex128>;
template <class T>
inline constexpr bool is_half_v = std::is_same_v<T, float16> || std::is_same_v<T, bfloat16>;
template <class T>
using wide_t = std::conditional_t<is_half_v<T>, float, T>;

// Integers wrap around, as everywhere: added and multiplied without sign.
template <class T, class F>
T wrapping(T a, T b, const F& f) {
  if constexpr (std::is_integral_v<T>) {
    using U = std::conditional_t<(sizeof(T) < 4), uint32_t, std::make_unsigned_t<T>>;
    return T(f(U(a), U(b)));
  } else {
    return f(a, b);
  }
}

template <Reduction op, class T>
T joined(T a, T b) {
  if constexpr (op == Reduction::Sum || op == Reduction::Avg)
    return wrapping(a, b, [](auto x, auto y) { return decltype(x)(x + y); });
  else if constexpr (op == Reduction::Product)
    return wrapping(a, b, [](auto x, auto y) { return decltype(x)(x * y); });
  else if constexpr (op == Reduction::Min)
    return a < b || a != a ? a : b;
  else if constexpr (op == Reduction::Max)
    return a > b || a != a ? a : b;
  else if constexpr (op == Reduction::BitAnd)
    return T(a & b);
  else if constexpr (op == Reduction::BitOr)
    return T(a | b);
  else
    return T(a ^ b);
}

template <class W>
W share(W sum, int n) {
  if constexpr (is_complex_v<W>) return W(sum.real() / n, sum.imag() / n);
  else if constexpr (std::is_integral_v<W>) return W(sum / W(n));
  else return sum / W(n);
}

template <class T, class W, Reduction op>
void reduce(char* dst, const char* const* sources, int n, int64_t count) {
  W sum[kBlock];
  for (int64_t from = 0; from < count; from += kBlock) {
    const int64_t m = std::min(kBlock, count - from);
    const T* first = reinterpret_cast<const T*>(sources[0]) + from;
    for (int64_t i = 0; i < m; ++i) sum[i] = W(first[i]);
    for (int r = 1; r < n; ++r) {
      const T* next = reinterpret_cast<const T*>(sources[r]) + from;
      for (int64_t i = 0; i < m; ++i) sum[i] = joined<op>(sum[i], W(next[i]));
    }
    T* to = reinterpret_cast<T*>(dst) + from;
    for (int64_t i = 0; i < m; ++i) to[i] = T(op == Reduction::Avg ? share(sum[i], n) : sum[i]);
  }
}

template <Reduction op>
Reduce numeric(DType dtype) {
  return visit_dtype(dtype, []<class T>() -> Reduce {
    constexpr bool bits = op == Reduction::BitAnd || op == Reduction::BitOr || op == Reduction::BitXor;
    constexpr bool ordered = op == Reduction::Min || op == Reduction::Max;
    if constexpr (std::is_same_v<T, bool> || (bits && !std::is_integral_v<T>) || (ordered && is_complex_v<T>))
      return nullptr;
    else
      return reduce<T, wide_t<T>, op>;
  });
}

// Truth values are numbers of one bit: the sum is "any", the product "all".
Reduce logical(Reduction op) {
  using B = uint8_t;
  switch (op) {
    case Reduction::Sum: case Reduction::Max: case Reduction::BitOr: return reduce<B, B, Reduction::BitOr>;
    case Reduction::Product: case Reduction::Min: case Reduction::BitAnd: return reduce<B, B, Reduction::BitAnd>;
    case Reduction::BitXor: return reduce<B, B, Reduction::BitXor>;
    default: return nullptr;
  }
}

}  // namespace

Reduce reduce_function(DType dtype, Reduction op) {
  if (dtype == DType::Bool) return logical(op);
  if (dtype > DType::Complex128) return nullptr;
  switch (op) {
    case Reduction::Sum: return numeric<Reduction::Sum>(dtype);
    case Reduction::Avg: return numeric<Reduction::Avg>(dtype);
    case Reduction::Product: return numeric<Reduction::Product>(dtype);
    case Reduction::Min: return numeric<Reduction::Min>(dtype);
    case Reduction::Max: return numeric<Reduction::Max>(dtype);
    case Reduction::BitAnd: return numeric<Reduction::BitAnd>(dtype);
    case Reduction::BitOr: return numeric<Reduction::BitOr>(dtype);
    case Reduction::BitXor: return numeric<Reduction::BitXor>(dtype);
  }
  return nullptr;
}

}  // namespace flambeau::distributed
