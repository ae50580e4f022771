// How two elements of any dtype become one, for scatter, index_add and accumulating index_put.
#include "combine.h"

#include <cstring>

#include "elementwise.h"

namespace flambeau {
namespace {

template <class T>
void add(char* a, const char* b) {
  T& x = *reinterpret_cast<T*>(a);
  const T& y = *reinterpret_cast<const T*>(b);
  if constexpr (std::is_same_v<T, bool>) x = x || y;
  else if constexpr (std::is_same_v<T, bfloat16> || std::is_same_v<T, float16>) x = T(float(x) + float(y));
  else if constexpr (std::is_integral_v<T>) x = T(uint64_t(x) + uint64_t(y));
  else x = x + y;
}
template <class T>
void multiply(char* a, const char* b) {
  T& x = *reinterpret_cast<T*>(a);
  const T& y = *reinterpret_cast<const T*>(b);
  if constexpr (std::is_same_v<T, bool>) x = x && y;
  else if constexpr (std::is_same_v<T, bfloat16> || std::is_same_v<T, float16>) x = T(float(x) * float(y));
  else if constexpr (std::is_integral_v<T>) x = T(uint64_t(x) * uint64_t(y));
  else x = x * y;
}
template <class T, bool Larger>
void extreme(char* a, const char* b) {
  if constexpr (std::is_same_v<T, complex64> || std::is_same_v<T, complex128>) {
    runtime_error("complex numbers have no maximum or minimum");
  } else {
    T& x = *reinterpret_cast<T*>(a);
    const T& y = *reinterpret_cast<const T*>(b);
    if (x != x) return;  // NaN wins
    if (y != y || (Larger ? y > x : y < x)) x = y;
  }
}
template <class T>
void replace(char* a, const char* b) { std::memcpy(a, b, sizeof(T)); }

}  // namespace

CombineFn combine_function(Combine how, DType dtype) {
  return visit_dtype(dtype, [&]<class T>() -> CombineFn {
    switch (how) {
      case Combine::Add: return add<T>;
      case Combine::Multiply: return multiply<T>;
      case Combine::Max: return extreme<T, true>;
      case Combine::Min: return extreme<T, false>;
      default: return replace<T>;
    }
  });
}

void add_run(DType dtype, char* out, int64_t out_stride, const char* in, int64_t in_stride, int64_t n) {
  auto plain = [&]<class T>() {
    T* a = reinterpret_cast<T*>(out);
    const T* b = reinterpret_cast<const T*>(in);
    if (out_stride == 1 && in_stride == 1) {
      for (int64_t k = 0; k < n; ++k) a[k] += b[k];
    } else {
      for (int64_t k = 0; k < n; ++k) a[k * out_stride] += b[k * in_stride];
    }
  };
  if (dtype == DType::Float32) return plain.template operator()<float>();
  if (dtype == DType::Float64) return plain.template operator()<double>();
  const int64_t item = item_size(dtype);
  static const ElementwiseRow& add = *find_elementwise("add");
  if (const LoopFn loop = add.loop[int(dtype)]; loop && out_stride == 1 && in_stride == 1) {
    char* const ptr[] = {out, out, const_cast<char*>(in)};
    const int64_t stride[] = {item, item, item};
    const Scalar times(1);  // what the second summand is multiplied by
    return loop(ptr, stride, n, &times);
  }
  CombineFn f = combine_function(Combine::Add, dtype);
  for (int64_t k = 0; k < n; ++k) f(out + k * out_stride * item, in + k * in_stride * item);
}

TensorRef expanded(const Tensor& t, Dims shape, DType dtype) {
  if (t.dtype == dtype && t.contiguous() && std::ranges::equal(t.shape(), shape))
    return TensorRef::borrow(const_cast<Tensor*>(&t));
  TensorRef copy = empty(shape, dtype, t.device);
  copy_into(*copy, t);
  return copy;
}

}  // namespace flambeau
