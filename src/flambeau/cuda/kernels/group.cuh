// Where the elements of a fused group lie; native/cuda/groups.cpp has the same struct.
struct Walk {
  int32_t ndim, unused;
  int64_t sizes[8];
  int64_t strides[16][8];
};
