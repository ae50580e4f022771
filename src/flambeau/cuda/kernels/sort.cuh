// Sorting by merging: stable, any length, every row at once. An element's place in the merged run is its own place plus
// how many of the other run come before it, which a binary search tells.

// NaN is larger than all numbers.
template <class A, bool DESCENDING> INLINE bool comes_before(A a, A b) {
  if constexpr (DESCENDING) return (a != a && b == b) || b < a;
  else return (b != b && a == a) || a < b;
}
template <class A> struct Item {
  A key;
  int64_t place;
};
// The elements of [begin, end) that come before `item`; of equal ones those too, if `equal`.
template <bool DESCENDING, class A>
INLINE int64_t count_before(const Item<A>* run, int64_t begin, int64_t end, A key, bool equal) {
  const int64_t start = begin;
  while (begin < end) {
    const int64_t middle = (begin + end) / 2;
    const bool before = equal ? !comes_before<A, DESCENDING>(key, run[middle].key)
                              : comes_before<A, DESCENDING>(run[middle].key, key);
    if (before) begin = middle + 1;
    else end = middle;
  }
  return begin - start;
}
// Merges neighbouring runs of `width` items of one row of n.
template <bool DESCENDING, class A>
INLINE void merge_item(const Item<A>* from, Item<A>* to, int64_t i, int64_t n, int64_t width) {
  const int64_t run = i / width, pair = run / 2 * 2 * width;
  const bool second = run & 1;
  const int64_t begin = second ? pair : (pair + width < n ? pair + width : n);
  const int64_t end = second ? pair + width : (pair + 2 * width < n ? pair + 2 * width : n);
  const Item<A> item = from[i];
  const int64_t ahead = count_before<DESCENDING>(from, begin, end, item.key, second);
  to[pair + (i - run * width) + ahead] = item;
}
// Tiles of 256 are sorted in shared memory: from x to items.
template <bool DESCENDING, class A, class T>
INLINE void sort_tiles(const T* x, Item<A>* items, int64_t n, int64_t inner, int64_t tiles) {
  __shared__ Item<A> one[256], two[256];
  const int64_t row = blockIdx.x / tiles, tile = blockIdx.x % tiles * 256, outer = row / inner;
  const int64_t many = n - tile < 256 ? n - tile : 256, at = outer * n * inner + row % inner;
  const int i = threadIdx.x;
  if (i < many) one[i] = {cast<A>(x[at + (tile + i) * inner]), tile + i};
  __syncthreads();
  Item<A>*from = one, *to = two;
  for (int64_t width = 1; width < many; width *= 2) {
    if (i < many) merge_item<DESCENDING>(from, to, i, many, width);
    __syncthreads();
    Item<A>* other = from;
    from = to;
    to = other;
  }
  if (i < many) items[row * n + tile + i] = from[i];
}
