// Pointwise kernels: V elements per thread, read and written 16 bytes at once where operands are contiguous.

// What a formula yields, as the type that the operator declares: whole numbers come back from C++'s promotion to int.
template <class T, class V> struct Settle {
  static constexpr bool keep = Same<V, bool>::value || Same<V, T>::value || IsComplex<V>::value ||
                               (IsComplex<T>::value && Same<V, typename Real<T>::type>::value);
  typedef typename Choose<keep, V, T>::type type;
};
template <class T, class V> INLINE typename Settle<T, V>::type settle(V v) {
  return typename Settle<T, V>::type(v);
}
template <char MODE, class T> INLINE T quotient(T a, T b) {
  if constexpr (MODE == 'f') return floor_div(a, b);
  else if constexpr (MODE == 't' && IsWhole<T>::value) return whole_trunc_div(a, b);
  else if constexpr (MODE == 't') return trunc_(a / b);
  else return a / b;
}
