// Row loops of recurrent layers: short passes over rows that stay in the first cache.
#include "../recurrent.h"
#include "math.h"

namespace flambeau::FLAMBEAU_SIMD {
namespace {

template <class T>
void sigmoids(int64_t n, T* x) {
  for (int64_t j = 0; j < n; ++j) x[j] = sigmoid_(x[j]);
}
template <class T>
void tanhs(int64_t n, T* x) {
  for (int64_t j = 0; j < n; ++j) x[j] = tanh_(x[j]);
}
template <class T>
void relus(int64_t n, T* x) {
  for (int64_t j = 0; j < n; ++j) x[j] = x[j] < T(0) ? T(0) : x[j];
}

template <class T>
void lstm(int64_t n, int64_t apart, T* __restrict gates, T* __restrict c, T* __restrict cell, T* __restrict h) {
  T *i = gates, *f = gates + apart, *g = gates + 2 * apart, *o = gates + 3 * apart;
  sigmoids(n, i), sigmoids(n, f), tanhs(n, g), sigmoids(n, o);
  for (int64_t j = 0; j < n; ++j) {
    const T next = f[j] * c[j] + i[j] * g[j];
    c[j] = cell[j] = next;
  }
  for (int64_t j = 0; j < n; ++j) h[j] = o[j] * tanh_(cell[j]);
}

template <class T>
void lstm_back(int64_t n, int64_t apart, const T* __restrict gates, const T* __restrict cell,
               const T* __restrict before, const T* __restrict dh, T* __restrict dc, T* __restrict dgates) {
  const T *i = gates, *f = gates + apart, *g = gates + 2 * apart, *o = gates + 3 * apart;
  T *di = dgates, *df = dgates + apart, *dg = dgates + 2 * apart, *d_o = dgates + 3 * apart;
  for (int64_t j = 0; j < n; ++j) d_o[j] = tanh_(cell[j]);
  for (int64_t j = 0; j < n; ++j) {
    const T t = d_o[j];
    const T d = dc[j] + dh[j] * o[j] * (T(1) - t * t);
    d_o[j] = dh[j] * t * o[j] * (T(1) - o[j]);
    di[j] = d * g[j] * i[j] * (T(1) - i[j]);
    dg[j] = d * i[j] * (T(1) - g[j] * g[j]);
    df[j] = d * f[j] * (T(1) - f[j]);
    dc[j] = d * f[j];
  }
  if (before)
    for (int64_t j = 0; j < n; ++j) df[j] *= before[j];
  else
    for (int64_t j = 0; j < n; ++j) df[j] = 0;
}

template <class T>
void gru(int64_t n, int64_t apart, T* __restrict gates, const T* __restrict h, T* __restrict out) {
  T *r = gates, *z = gates + apart, *fresh = gates + 2 * apart;
  const T* share = gates + 3 * apart;
  sigmoids(n, r), sigmoids(n, z);
  for (int64_t j = 0; j < n; ++j) {
    fresh[j] = tanh_(fresh[j] + r[j] * share[j]);
    out[j] = fresh[j] + z[j] * (h[j] - fresh[j]);
  }
}

template <class T>
void gru_back(int64_t n, int64_t apart, const T* __restrict gates, const T* __restrict before, T* __restrict dh,
              T* __restrict dgates) {
  const T *r = gates, *z = gates + apart, *fresh = gates + 2 * apart, *share = gates + 3 * apart;
  T *dr = dgates, *dz = dgates + apart, *dn = dgates + 2 * apart, *dshare = dgates + 3 * apart;
  for (int64_t j = 0; j < n; ++j) {
    const T d = dh[j] * (T(1) - z[j]) * (T(1) - fresh[j] * fresh[j]);
    dz[j] = dh[j] * ((before ? before[j] : T(0)) - fresh[j]) * z[j] * (T(1) - z[j]);
    dn[j] = d;
    dshare[j] = d * r[j];
    dr[j] = d * share[j] * r[j] * (T(1) - r[j]);
    dh[j] *= z[j];
  }
}

template <class T>
void tanh_back(int64_t n, const T* __restrict h, const T* __restrict dh, T* __restrict dgates) {
  for (int64_t j = 0; j < n; ++j) dgates[j] = dh[j] * (T(1) - h[j] * h[j]);
}
template <class T>
void relu_back(int64_t n, const T* __restrict h, const T* __restrict dh, T* __restrict dgates) {
  for (int64_t j = 0; j < n; ++j) dgates[j] = T(0) < h[j] ? dh[j] : T(0);
}
template <class T>
void add(int64_t n, const T* __restrict x, T* __restrict to) {
  for (int64_t j = 0; j < n; ++j) to[j] += x[j];
}

template <class T>
constexpr RecurrentKernels<T> kKernels{lstm<T>,  lstm_back<T>, gru<T>,       gru_back<T>, tanhs<T>,
                                       relus<T>, tanh_back<T>, relu_back<T>, add<T>};
const bool registered = [] {
  recurrent_kernels_f32[FLAMBEAU_LEVEL] = &kKernels<float>;
  recurrent_kernels_f64[FLAMBEAU_LEVEL] = &kKernels<double>;
  return true;
}();

}  // namespace
}  // namespace flambeau::FLAMBEAU_SIMD
