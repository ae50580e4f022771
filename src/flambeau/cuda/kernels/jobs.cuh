// The job that a block belongs to, of `many` that begin at blocks of their own: the last one that begins no later.
INLINE int job_of(const int32_t* begins, int many, int block) {
  int low = 0, high = many - 1;
  while (low < high) {
    const int middle = (low + high + 1) / 2;
    if (begins[middle] <= block) low = middle;
    else high = middle - 1;
  }
  return low;
}
