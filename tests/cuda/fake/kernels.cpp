// Kernels for tests of the launch path, by hand: copy and fill for every pair of dtypes and layout, add and mul.
#include <complex>
#include <cstdint>
#include <cstring>

#include "../../../native/core/dtype.h"

namespace {

using namespace flambeau;

struct Geometry {
  int32_t ndim, unused;
  int64_t sizes[8];
  int64_t strides[6][8];
};
template <class T> constexpr bool is_complex_number = false;
template <class R> constexpr bool is_complex_number<std::complex<R>> = true;

template <class To, class From>
To convert(From v) {
  if constexpr (is_complex_number<To> && is_complex_number<From>) return To(typename To::value_type(v.real()), typename To::value_type(v.imag()));
  else if constexpr (is_complex_number<To>) return To(typename To::value_type(float(0) + typename To::value_type(v)), 0);
  else if constexpr (is_complex_number<From>) return std::is_same_v<To, bool> ? To(v != From(0)) : convert<To>(v.real());
  else if constexpr (std::is_same_v<To, bool>) return v != From(0);
  else if constexpr (std::is_integral_v<To> && !std::is_integral_v<From>) return To(int64_t(v));
  else if constexpr (std::is_integral_v<From> && sizeof(To) == 2 && !std::is_integral_v<To>) return To(float(v));
  else if constexpr (std::is_same_v<To, bfloat16> || std::is_same_v<From, bfloat16>) return To(float(v));
  else return To(v);
}

template <class T> T read(void* p) { T v; std::memcpy(&v, p, sizeof v); return v; }

// f(offset of each tensor's element i)
template <int N, class F>
void each(void** parameters, bool strided, F f) {
  const int64_t n = read<int64_t>(parameters[strided ? N + 1 : N]);
  Geometry g;
  if (strided) std::memcpy(&g, parameters[N], sizeof g);
  for (int64_t i = 0; i < n; ++i) {
    int64_t at[N] = {}, rest = i;
    if (!strided) for (int64_t& a : at) a = i;
    else
      for (int d = 0; d < g.ndim; rest /= g.sizes[d++])
        for (int k = 0; k < N; ++k) at[k] += rest % g.sizes[d] * g.strides[k][d];
    f(at);
  }
}

template <class To, class From>
void copy(void** p, bool strided) {
  auto* to = read<To*>(p[0]);
  auto* from = read<From*>(p[1]);
  each<2>(p, strided, [&](const int64_t* at) { to[at[0]] = convert<To>(from[at[1]]); });
}
template <class T>
void fill(void** p, bool strided) {
  auto* to = read<T*>(p[0]);
  const T value = read<T>(p[strided ? 3 : 2]);
  each<1>(p, strided, [&](const int64_t* at) { to[at[0]] = value; });
}
template <class F>
void binary(void** p, bool strided, F f) {
  auto* to = read<float*>(p[0]);
  auto *a = read<const float*>(p[1]), *b = read<const float*>(p[2]);
  each<3>(p, strided, [&](const int64_t* at) { to[at[0]] = f(a[at[1]], b[at[2]]); });
}
template <class F>
void with_number(void** p, bool strided, F f) {
  auto* to = read<float*>(p[0]);
  auto* a = read<const float*>(p[1]);
  const float b = read<float>(p[strided ? 4 : 3]);
  each<2>(p, strided, [&](const int64_t* at) { to[at[0]] = f(a[at[1]], b); });
}

}  // namespace

#define ENTRY(NAME, unused, ...)                                                              \
  extern "C" void emu_##NAME##_flat(const unsigned*, const unsigned*, unsigned, void** p) {  \
    constexpr bool strided = false;                                                          \
    __VA_ARGS__;                                                                             \
  }                                                                                          \
  extern "C" void emu_##NAME##_strided(const unsigned*, const unsigned*, unsigned, void** p) { \
    constexpr bool strided = true;                                                           \
    __VA_ARGS__;                                                                             \
  }
#define EACH_TYPE(X, ...)                                                                                        \
  X(bool, bool, __VA_ARGS__) X(uint8, uint8_t, __VA_ARGS__) X(int8, int8_t, __VA_ARGS__)                         \
  X(int16, int16_t, __VA_ARGS__) X(uint16, uint16_t, __VA_ARGS__) X(int32, int32_t, __VA_ARGS__)                 \
  X(uint32, uint32_t, __VA_ARGS__) X(int64, int64_t, __VA_ARGS__) X(uint64, uint64_t, __VA_ARGS__)               \
  X(float16, float16, __VA_ARGS__) X(bfloat16, bfloat16, __VA_ARGS__) X(float32, float, __VA_ARGS__)             \
  X(float64, double, __VA_ARGS__) X(complex64, complex64, __VA_ARGS__) X(complex128, complex128, __VA_ARGS__)

#define COPY(TO, TO_TYPE, FROM, FROM_TYPE) ENTRY(copy_##FROM##_##TO, , copy<TO_TYPE, FROM_TYPE>(p, strided))
#define FILL(NAME, TYPE, unused) ENTRY(fill_##NAME##_##NAME, , fill<TYPE>(p, strided))
EACH_TYPE(COPY, bool, bool)
EACH_TYPE(COPY, uint8, uint8_t)
EACH_TYPE(COPY, int8, int8_t)
EACH_TYPE(COPY, int16, int16_t)
EACH_TYPE(COPY, uint16, uint16_t)
EACH_TYPE(COPY, int32, int32_t)
EACH_TYPE(COPY, uint32, uint32_t)
EACH_TYPE(COPY, int64, int64_t)
EACH_TYPE(COPY, uint64, uint64_t)
EACH_TYPE(COPY, float16, float16)
EACH_TYPE(COPY, bfloat16, bfloat16)
EACH_TYPE(COPY, float32, float)
EACH_TYPE(COPY, float64, double)
EACH_TYPE(COPY, complex64, complex64)
EACH_TYPE(COPY, complex128, complex128)
EACH_TYPE(FILL, 0)

#define BINARY(NAME, SIGN)                                                                       \
  ENTRY(NAME, , binary(p, strided, [](float a, float b) { return a SIGN b; }))                   \
  ENTRY(NAME##_number, , with_number(p, strided, [](float a, float b) { return a SIGN b; }))     \
  extern "C" const int emu_##NAME##_flat_sizes[] = {8, 8, 8, 8, 0};                              \
  extern "C" const int emu_##NAME##_number_flat_sizes[] = {8, 8, 8, 4, 0};
BINARY(add, +)
BINARY(mul, *)

// a plan of a row: sums all elements in two kernels, over scratch memory; draws as many numbers as there are
extern "C" void emu_partial(const unsigned* grid, const unsigned*, unsigned, void** p) {
  auto* scratch = read<float*>(p[0]);
  auto* x = read<const float*>(p[1]);
  const int64_t n = read<int64_t>(p[2]);
  for (unsigned b = 0; b < grid[0]; ++b) {
    scratch[b] = 0;
    for (int64_t i = b; i < n; i += grid[0]) scratch[b] += x[i];
  }
}
extern "C" void emu_total(const unsigned*, const unsigned*, unsigned, void** p) {
  auto* out = read<float*>(p[0]);
  auto* scratch = read<const float*>(p[1]);
  const int64_t n = read<int64_t>(p[2]);
  *out = 0;
  for (int64_t k = 0; k < n; ++k) *out += scratch[k];
}
struct Philox {
  uint64_t seed, offset;
};
extern "C" void emu_draw(const unsigned*, const unsigned*, unsigned, void** p) {
  auto* out = read<float*>(p[0]);
  const auto from = read<Philox>(p[1]);
  const int64_t n = read<int64_t>(p[2]);
  for (int64_t k = 0; k < n; ++k) {
    uint64_t x = (from.seed * 0x9e3779b97f4a7c15u) ^ (from.offset + uint64_t(k)) * 0xbf58476d1ce4e5b9u;
    out[k] = float((x ^ x >> 31) >> 40) * 0x1p-24f;
  }
}
