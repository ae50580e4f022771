// For padding by reflection.
INLINE int64_t abs_of(int64_t v) { return v < 0 ? -v : v; }
// Tensors that are joined: where each begins in the result, its rows, their packs and how far they lie apart there and
// here, and the threads for a row.
template <int N> struct Joined {
  int64_t offset[N], rows[N], packs[N], step[N], to[N], shift[N];
};
