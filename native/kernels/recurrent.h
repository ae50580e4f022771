// The row loops of recurrent layers; kernels/simd/recurrent.cpp fills the table.
#pragma once
#include <cstdint>

namespace flambeau {

// One sequence at one step, `n` hidden units, whose gates lie `apart` from each other. Gates arrive as sums and leave
// activated, for the way back.
template <class T>
struct RecurrentKernels {
  // gates i f g o; c <- f c + i g, also to `cell`; h = o tanh(c)
  void (*lstm)(int64_t n, int64_t apart, T* gates, T* c, T* cell, T* h);
  // dc: the gradient of c, replaced by that of the c before; `before` may be null (zeros)
  void (*lstm_back)(int64_t n, int64_t apart, const T* gates, const T* cell, const T* before, const T* dh, T* dc,
                    T* dgates);
  // gates r z n, then the state's share of n; out = (1 - z) n + z h
  void (*gru)(int64_t n, int64_t apart, T* gates, const T* h, T* out);
  // dh: replaced by dh z; dgates: r z n and the gradient of the state's share of n
  void (*gru_back)(int64_t n, int64_t apart, const T* gates, const T* before, T* dh, T* dgates);
  void (*tanh)(int64_t n, T* h);
  void (*relu)(int64_t n, T* h);
  void (*tanh_back)(int64_t n, const T* h, const T* dh, T* dgates);
  void (*relu_back)(int64_t n, const T* h, const T* dh, T* dgates);
  void (*add)(int64_t n, const T* x, T* to);  // to += x
};
extern const RecurrentKernels<float>* recurrent_kernels_f32[2];
extern const RecurrentKernels<double>* recurrent_kernels_f64[2];

}  // namespace flambeau
