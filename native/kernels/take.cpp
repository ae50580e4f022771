// take and put: elements by their flat position in the tensor.
#include <algorithm>
#include <atomic>

#include "combine.h"
#include "options.h"
#include "steady.h"

namespace flambeau {
namespace {

void check_flat_index(const Call& c, const Tensor& index) {
  if (index.dtype != DType::Int64) runtime_error(c.name(), "(): index must be int64, got ", dtype_name(index.dtype));
}
// Refuses an index outside [-n, n) before anything is written.
void check_places(const Call& c, const Tensor& index, int64_t n) {
  const int64_t* at = index.ptr<int64_t>();
  std::atomic<bool> inside{true};
  parallel_for(index.numel, 1 << 16, [&](int64_t k, int64_t end) {
    uint64_t outside = 0;
    for (; k < end; ++k) outside |= uint64_t(uint64_t(at[k]) + uint64_t(n) >= 2 * uint64_t(n));
    if (outside) inside = false;
  });
  if (inside) return;
  const int64_t *end = at + index.numel, *bad = std::find_if(at, end, [n](int64_t i) { return i < -n || i >= n; });
  if (bad == end) return;  // another thread has written to it meanwhile: place() looks again
  index_error(c.name(), ": index ", __atomic_load_n(bad, __ATOMIC_RELAXED), " is outside a tensor of ", n, " elements");
}
int64_t place(const int64_t* at, int64_t n) {
  int64_t i = __atomic_load_n(at, __ATOMIC_RELAXED);
  i += i < 0 ? n : 0;
  return index_within(&i, n);
}

void infer_take(Call& c) {
  check_flat_index(c, c.tensor(1));
  if (c.tensor(0).numel == 0 && c.tensor(1).numel > 0) index_error(c.name(), "(): an empty tensor has no elements to "
                                                                   "take");
  c.output(c.tensor(1).shape(), c.tensor(0).dtype, c.tensor(0).device);
}
void cpu_take(Call& c) {
  TensorRef t = contiguous(c.tensor(0)), index = contiguous(c.tensor(1));
  check_places(c, *index, t->numel);
  LockRelease lock(index->numel * 2);
  visit_size(t->itemsize(), [&]<class T>() {
    const T* from = t->ptr<T>();
    const int64_t *at = index->ptr<int64_t>(), n = t->numel;
    T* to = c.out().ptr<T>();
    parallel_for(index->numel, 1 << 15, [=](int64_t begin, int64_t end) {
      for (int64_t k = begin; k < end; ++k) to[k] = from[place(at + k, n)];
    });
  });
}

// put(Tensor self, Tensor index, Tensor source, bool accumulate)
void infer_put(Call& c) {
  const Tensor &t = c.tensor(0), &index = c.tensor(1), &source = c.tensor(2);
  check_flat_index(c, index);
  if (t.dtype != source.dtype) runtime_error(c.name(), "(): source must have the tensor's dtype ", dtype_name(t.dtype),
                                             ", got ", dtype_name(source.dtype));
  if (index.numel != source.numel)
    index_error(c.name(), "(): source holds ", source.numel, " elements for ", index.numel, " indices");
  if (c.inplace) check_writable(c, t);
  output_self(c);
}
void cpu_put(Call& c) {
  Tensor& out = c.out();
  TensorRef index = contiguous(c.tensor(1)), source = contiguous(c.tensor(2));
  check_places(c, *index, out.numel);
  begin_with_self(c);
  TensorRef to = contiguous(out);
  const int64_t *at = index->ptr<int64_t>(), n = out.numel, count = index->numel;
  if (!c.boolean(3)) {
    visit_size(out.itemsize(), [&]<class T>() {
      for (int64_t k = 0; k < count; ++k) to->ptr<T>()[place(at + k, n)] = source->ptr<T>()[k];
    });
  } else {
    CombineFn add = combine_function(Combine::Add, out.dtype);
    const int64_t item = out.itemsize();
    for (int64_t k = 0; k < count; ++k) add(to->data + place(at + k, n) * item, source->data + k * item);
  }
  if (to.get() != &out) copy_into(out, *to);
}

const Primitives rows{
    {"take", infer_take, cpu_take},
    {"put", infer_put, cpu_put},
};

}  // namespace
}  // namespace flambeau
