// The functions that formulas of pointwise operators are made of, where CUDA's own do not suffice.
//
// Formulas are one text for every type: what differs between whole, floating and complex numbers differs here.

// --- absent arguments
struct Absent {};
template <class T> INLINE T given(Absent, T otherwise) { return otherwise; }
template <class T> INLINE T given(T value, T) { return value; }

// --- whole numbers: a division by zero has no number as its result; here it is -1 (all bits), and remainders are kept
template <class T> INLINE bool minus_one(T b) { return Limits<T>::is_signed && b == T(-1); }
template <class T> INLINE T whole_trunc_div(T a, T b) {
  return b == 0 ? T(-1) : minus_one(b) ? T(-a) : T(a / b);  // the smallest over -1 would leave the range
}
template <class T> INLINE T whole_trunc_mod(T a, T b) { return b == 0 ? a : minus_one(b) ? T(0) : T(a % b); }
template <class T> INLINE T whole_floor_mod(T a, T b) {
  T m = whole_trunc_mod(a, b);
  return m != 0 && (m < 0) != (b < 0) && b != 0 ? T(m + b) : m;
}
template <class T> INLINE T whole_floor_div(T a, T b) {
  T q = whole_trunc_div(a, b);
  return b != 0 && whole_trunc_mod(a, b) != 0 && (a < 0) != (b < 0) ? T(q - 1) : q;
}
template <class T> INLINE T whole_power(T base, T exponent) {
  if (exponent < 0) return base == 1 ? T(1) : base == T(-1) ? (exponent & 1 ? T(-1) : T(1)) : T(0);
  T value = 1;
  for (uint64_t e = uint64_t(exponent); e; e >>= 1) {
    if (e & 1) value = T(value * base);
    base = T(base * base);
  }
  return value;
}
template <class T> INLINE T gcd(T a, T b) {
  T x = a < 0 ? T(-a) : a, y = b < 0 ? T(-b) : b;
  while (y) {
    T r = T(x % y);
    x = y;
    y = r;
  }
  return x < 0 ? T(-x) : x;
}
template <class T> INLINE T lcm(T a, T b) {
  T g = gcd(a, b);
  if (g == 0) return T(0);
  int64_t v = int64_t(a / g) * int64_t(b);
  return T(v < 0 ? -v : v);
}
template <class T> INLINE T shift_left(T a, T b) {
  return b < 0 || uint64_t(b) >= 8 * sizeof(T) ? T(0) : T(uint64_t(a) << b);
}
template <class T> INLINE T shift_right(T a, T b) {
  constexpr int most = 8 * sizeof(T) - 1;
  if (b < 0 || uint64_t(b) > uint64_t(most)) return Limits<T>::is_signed ? T(a >> most) : T(0);
  return T(a >> b);
}
template <class T> INLINE T flip_bits(T a) { return T(~a); }
INLINE bool flip_bits(bool a) { return !a; }

// --- real numbers
template <class T> INLINE bool is_nan(T a) { return a != a; }
template <class T> INLINE T absolute(T a) {
  if constexpr (IsFloat<T>::value) return fabs(a);
  else return a < T(0) ? T(-a) : a;
}
template <class T> INLINE bool is_infinite(T a) {
  if constexpr (IsFloat<T>::value) return absolute(a) == infinity<T>();
  else return false;
}
template <class T> INLINE bool is_finite(T a) {
  if constexpr (IsFloat<T>::value) return absolute(a) < infinity<T>();
  else return true;
}
template <class T> INLINE bool has_sign(T a) {
  if constexpr (IsFloat<T>::value) return copysign(T(1), a) < 0;
  else return a < T(0);
}
template <class T> INLINE T sign(T a) { return T(int(T(0) < a) - int(a < T(0))); }
INLINE bool sign(bool a) { return a; }
template <class T> INLINE T larger(T a, T b) { return a != a ? a : b != b ? b : a < b ? b : a; }  // NaN wins
template <class T> INLINE T smaller(T a, T b) { return a != a ? a : b != b ? b : b < a ? b : a; }
#if !defined(FLAMBEAU_EMULATE) && __CUDA_ARCH__ >= 800
INLINE float larger(float a, float b) {  // one instruction
  float c;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(c) : "f"(a), "f"(b));
  return c;
}
INLINE float smaller(float a, float b) {
  float c;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(c) : "f"(a), "f"(b));
  return c;
}
#endif
template <class T> INLINE T larger_number(T a, T b) { return a != a ? b : b != b ? a : b < a ? a : b; }  // NaN loses
template <class T> INLINE T smaller_number(T a, T b) { return a != a ? b : b != b ? a : a < b ? a : b; }
template <class T> INLINE T at_least(T a, T low) { return larger(a, low); }
template <class T> INLINE T at_least(T a, Absent) { return a; }
template <class T> INLINE T at_most(T a, T high) { return smaller(a, high); }
template <class T> INLINE T at_most(T a, Absent) { return a; }
template <class T> INLINE T clip(T x, T low, T high) { return x < low ? low : high < x ? high : x; }
template <class T> INLINE T floor_(T a) {
  if constexpr (IsFloat<T>::value) return floor(a);
  else return a;
}
template <class T> INLINE T ceil_(T a) {
  if constexpr (IsFloat<T>::value) return ceil(a);
  else return a;
}
template <class T> INLINE T trunc_(T a) {
  if constexpr (IsFloat<T>::value) return trunc(a);
  else return a;
}
template <class T> INLINE T round_to(T a, T decimals) {
  if constexpr (!IsFloat<T>::value) return a;
  else {
    if (decimals == 0) return rint(a);
    T ten = pow(T(10), fabs(decimals));
    return decimals > 0 ? rint(a * ten) / ten : rint(a / ten) * ten;
  }
}
template <class T> INLINE T trunc_mod(T a, T b) {
  if constexpr (IsFloat<T>::value) return fmod(a, b);
  else return whole_trunc_mod(a, b);
}
template <class T> INLINE T floor_mod(T a, T b) {
  if constexpr (!IsFloat<T>::value) return whole_floor_mod(a, b);
  else {
    T m = fmod(a, b);
    return m != 0 && ((b < 0) != (m < 0)) ? m + b : m;
  }
}
// Through the remainder, so that a == floor_div(a, b) * b + floor_mod(a, b).
template <class T> INLINE T floor_div(T a, T b) {
  if constexpr (!IsFloat<T>::value) return whole_floor_div(a, b);
  else {
    T m = fmod(a, b), q = (a - m) / b;
    q = m != 0 && ((b < 0) != (m < 0)) ? q - T(1) : q;
    T f = floor(q);
    f = q - f > T(0.5) ? f + T(1) : f;
    f = q == 0 ? copysign(T(0), a / b) : f;
    return b == 0 ? a / b : f;
  }
}
template <class T> INLINE T fix(T a, T no, T high, T low) {
  return a != a ? no : a == infinity<T>() ? high : a == -infinity<T>() ? low : a;
}
template <class S> struct Largest;  // the largest number that a dtype holds
template <> struct Largest<float16> { static INLINE float of() { return 65504.f; } };
template <> struct Largest<bfloat16> { static INLINE float of() { return 3.38953139e38f; } };
template <> struct Largest<float> { static INLINE float of() { return 3.402823466385288598e38f; } };
template <> struct Largest<double> { static INLINE double of() { return 1.797693134862315708e308; } };
template <class R> struct Largest<Complex<R>> { static INLINE Complex<R> of() { return Largest<R>::of(); } };
template <class S, class T, class A, class B, class C> INLINE T finite_or(T a, A no, B high, C low) {
  if constexpr (IsWhole<T>::value) return a;
  else return fix(a, given(no, T(0)), given(high, T(Largest<S>::of())), given(low, T(-Largest<S>::of())));
}
template <class T> INLINE T sigmoid_(T x) { return T(1) / (T(1) + exp(-x)); }
template <class T> INLINE T softplus_(T x, T beta, T threshold) {
  return threshold < x * beta ? x : log1p(exp(x * beta)) / beta;
}
template <class T> INLINE T mish_ratio(T x) {  // tanh(log(1 + e)) with e = exp(x)
  T e = exp(x), m = e * (e + T(2));
  return T(20) < x ? T(1) : m / (m + T(2));
}
template <class T> INLINE T elu_(T x, T alpha, T scale, T input_scale) {
  return x <= 0 ? alpha * scale * expm1(x * input_scale) : x * scale;
}
template <class T> INLINE T elu_slope(T x, T alpha, T scale, T input_scale) {
  return x <= 0 ? alpha * scale * input_scale * exp(x * input_scale) : scale;
}
template <class T> INLINE T gelu_erf(T x) { return T(0.5) * x * (T(1) + erf(x * T(0.70710678118654752440))); }
template <class T> INLINE T gelu_erf_slope(T x) {
  T half = T(0.5) * (T(1) + erf(x * T(0.70710678118654752440)));
  return half + x * T(0.39894228040143267794) * exp(T(-0.5) * x * x);
}
template <class T> INLINE T gelu_angle(T x) {
  return T(0.79788456080286535588) * (x + T(0.044715) * x * x * x);
}
template <class T> INLINE T gelu_tanh(T x) { return T(0.5) * x * (T(1) + tanh(gelu_angle(x))); }
template <class T> INLINE T gelu_tanh_slope(T x) {
  T t = tanh(gelu_angle(x));
  T slope = T(0.79788456080286535588) * (T(1) + T(3 * 0.044715) * x * x);
  return T(0.5) * (T(1) + t) + T(0.5) * x * (T(1) - t * t) * slope;
}
template <class T> INLINE T logaddexp_(T a, T b) {
  T high = a < b ? b : a, value = high + log1p(exp(-fabs(a - b)));
  value = a == b ? a + T(0.693147180559945309417232) : value;  // also equal infinities
  return a != a || b != b ? not_a_number<T>() : value;
}
template <class T> INLINE T logaddexp2_(T a, T b) {
  T high = a < b ? b : a, value = high + log1p(exp2(-fabs(a - b))) * T(1.442695040888963407359924681);
  value = a == b ? a + T(1) : value;
  return a != a || b != b ? not_a_number<T>() : value;
}
template <class T> INLINE T at_least_minus_100(T x) { return x < T(-100) ? T(-100) : x; }
template <class T> INLINE T bce(T x, T t) {
  if (!(x >= T(0) && x <= T(1))) return not_a_number<T>();
  return (t - T(1)) * at_least_minus_100(log1p(-x)) - t * at_least_minus_100(log(x));
}
template <class T> INLINE T smooth_l1(T d, T beta) {
  return d < beta ? d * d * (T(0.5) / beta) : d - T(0.5) * beta;
}
template <class T> INLINE T huber(T d, T delta) { return delta < d ? (d - T(0.5) * delta) * delta : T(0.5) * d * d; }
template <class T> INLINE T lerp_(T a, T b, T w) { return fabs(w) < T(0.5) ? a + w * (b - a) : b - (b - a) * (T(1) - w); }
template <class T> INLINE T sinc_(T x) {
  T y = x * T(3.14159265358979323846);
  return x == T(0) ? T(1) : sin(y) / y;
}
template <class T> INLINE T fake_quantize(T x, T scale, T zero, T low, T high) {
  T whole = floor(zero);
  return (clip(T(rint(x * (T(1) / scale) + (zero - whole)) + whole), low, high) - zero) * scale;
}
template <class T> INLINE T power(T a, T b) {
  if constexpr (IsFloat<T>::value) return b == T(2) ? a * a : pow(a, b);
  else return whole_power(a, b);
}
template <class T> INLINE T mish_slope(T x) {
  T t = mish_ratio(x);
  return t + x * sigmoid_(x) * (T(1) - t * t);
}
