// Which dtype holds the values of two others.
#include "../core/dtype.h"

namespace flambeau {

namespace {

constexpr bool is_signed_integer(DType t) {
  return t == DType::Int8 || t == DType::Int16 || t == DType::Int32 || t == DType::Int64;
}

DType promote_integers(DType a, DType b) {
  bool sa = is_signed_integer(a), sb = is_signed_integer(b);
  if (sa == sb) return item_size(a) >= item_size(b) ? a : b;
  DType with_sign = sa ? a : b, without = sa ? b : a;
  if (item_size(without) < item_size(with_sign)) return with_sign;
  switch (item_size(without)) {  // the next wider signed type holds both; PyTorch knows this of uint8 only
    case 1: return DType::Int16;
    case 2: return DType::Int32;
    case 4: return DType::Int64;
    default: runtime_error(dtype_name(a), " and ", dtype_name(b), " have no common dtype: convert one of them first");
  }
}

DType promote_floats(DType a, DType b) {
  if (item_size(a) == 1 || item_size(b) == 1)
    runtime_error(dtype_name(a), " and ", dtype_name(b), " have no common dtype: convert the 8-bit one first");
  if (is_half(a) && is_half(b)) return DType::Float32;  // neither half holds the other
  return item_size(a) >= item_size(b) ? a : b;
}

}  // namespace

DType promote_types(DType a, DType b) {
  if (a == b) return a;
  if (a == DType::Undefined || b == DType::Undefined)
    runtime_error("promote_types: expected two dtypes, got an undefined one");
  if (is_quantized(a) || is_quantized(b))
    runtime_error(dtype_name(a), " and ", dtype_name(b), " have no common dtype: dequantize() first");
  Category ca = category(a), cb = category(b);
  if (ca == cb) {
    switch (ca) {
      case Category::Integer: return promote_integers(a, b);
      case Category::Floating: return promote_floats(a, b);
      default: return item_size(a) >= item_size(b) ? a : b;
    }
  }
  DType low = ca < cb ? a : b, high = ca < cb ? b : a;
  if (is_complex(high) && is_float8(low)) return promote_floats(low, real_of(high));
  if (is_complex(high) && is_floating(low)) return promote_types(high, complex_of(low));
  return high;
}

}  // namespace flambeau
