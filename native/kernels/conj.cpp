// conj: the tensor itself where it is real; conjugated values where it is complex.
#include "../core/call.h"
#include "../core/tensor.h"

namespace flambeau {

namespace {

void infer_conj(Call& c) {
  Tensor& self = c.tensor(0);
  if (is_complex(self.dtype)) c.output(self.shape(), self.dtype, self.device);
  else c.push(TensorRef::borrow(&self));
}

template <class T> void negate_imaginary(Tensor& t) {
  T* p = t.ptr<T>();
  parallel_for(t.numel, 32768, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) p[2 * i + 1] = -p[2 * i + 1];
  });
}

void cpu_conj(Call& c) {
  Tensor& self = c.tensor(0);
  if (!is_complex(self.dtype)) return;
  Tensor& out = c.out();
  copy_into(out, self);
  if (self.dtype == DType::Complex32) negate_imaginary<float16>(out);
  else if (self.dtype == DType::Complex64) negate_imaginary<float>(out);
  else negate_imaginary<double>(out);
}

const Primitives rows{{"conj", infer_conj, cpu_conj}};

}  // namespace

}  // namespace flambeau
