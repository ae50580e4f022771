// The names that the special functions of shared/ are written in, which the CPU's loops include as well.
#define FLAMBEAU_INLINE inline
template <class T> constexpr double inf = __builtin_bit_cast(double, 0x7ff0000000000000ull);
template <class T> constexpr double nan = __builtin_bit_cast(double, 0x7ff8000000000000ull);
constexpr double kPi = 3.14159265358979323846;
template <class... C> inline double horner(double x, double c0, C... c) {
  if constexpr (sizeof...(C) == 0) return c0;
  else return fma(horner(x, double(c)...), x, c0);
}
inline double abs_(double x) { return fabs(x); }
inline double fma_(double a, double b, double c) { return fma(a, b, c); }
inline double copysign_(double x, double sign) { return copysign(x, sign); }
inline double rint_(double x) { return rint(x); }
inline double log_(double x) { return log(x); }
inline double exp_(double x) { return exp(x); }
struct Poll {  // the CPU's loops look for signals here
  void operator()() const {}
};
