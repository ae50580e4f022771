// Conversions of halves, which are instructions on a GPU; included behind the prelude's types.
inline float half_to_float(float16 h) {
  _Float16 v;
  std::memcpy(&v, &h.bits, 2);
  return float(v);
}
inline float half_to_float(bfloat16 h) { return __uint_as_float(uint32_t(h.bits) << 16); }
inline void float_to_half(float f, float16& h) {
  _Float16 v = _Float16(f);
  std::memcpy(&h.bits, &v, 2);
}
inline void float_to_half(float f, bfloat16& h) {
  uint32_t u = __float_as_uint(f);
  h.bits = f != f ? uint16_t(0x7fff) : uint16_t((u + 0x7fff + ((u >> 16) & 1)) >> 16);
}
