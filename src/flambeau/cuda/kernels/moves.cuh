// For padding by reflection.
INLINE int64_t abs_of(int64_t v) { return v < 0 ? -v : v; }
