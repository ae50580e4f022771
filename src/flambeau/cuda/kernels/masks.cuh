// Masks of attention for a library that takes numbers to add, and knows no query that sees nothing.
INLINE float added(bool m) { return m ? 0.f : -infinity<float>(); }
template <class M> INLINE float added(M m) { return cast<float>(m); }
// A block for each row of the mask: notes whether it lets a key be seen, and writes its numbers where they are wanted.
template <class T, class M, class Places>
INLINE void look(const M* mask, const Places& places, uint8_t* seen, T* bias, int64_t keys, int64_t step) {
  for (int64_t j = threadIdx.x; j < keys; j += blockDim.x) {
    const float m = added(mask[offset_of<int64_t>(blockIdx.x * keys + j, places)]);
    if (m != -infinity<float>()) seen[blockIdx.x] = 1;
    if (bias) bias[blockIdx.x * step + j] = cast<T>(m);
  }
}
// The result of query `at` of which its mask's row shows nothing: zeros.
template <class T, class Rows>
INLINE void blank(int64_t at, const uint8_t* seen, const Rows& rows, T* out, const Layout<3>& places, int64_t width,
                  float* lse) {
  if (seen[offset_of<int64_t>(at, rows)]) return;
  lse[at] = -infinity<float>();
  T* const row = out + offset_of<int64_t>(at, places);
  for (int64_t e = 0; e < width; ++e) row[e] = cast<T>(0.f);
}
