// Views that read the same memory as elements of another dtype: bytes seen otherwise, parts of complex numbers.
#include "views.h"

namespace flambeau {
namespace {

// The memory of a lazy conjugate or negative is not its values, and another dtype has no flag that would say so.
[[noreturn]] void refuse_lazy(const Call& c, const Tensor& t) {
  const char* what = t.flags & kConj ? "conj" : "neg";
  runtime_error(c.name(), ": the memory of this tensor holds its ", t.flags & kConj ? "conjugate" : "negative",
                ", so its bytes cannot be seen as other numbers; call resolve_", what, "() first, which copies");
}

void infer_view_dtype(Call& c) {
  const Tensor& t = c.tensor(0);
  DType d = c.args[1].dtype;
  int64_t old_size = t.itemsize(), new_size = item_size(d);
  if (t.flags & kLazy && d != t.dtype) refuse_lazy(c, t);
  Layout l(t);
  if (old_size != new_size) {
    if (t.ndim == 0)
      runtime_error(c.name(), ": a 0-dim tensor of ", dtype_name(t.dtype), " cannot be viewed as ", dtype_name(d),
                    " (different element sizes)");
    int last = t.ndim - 1;
    if (t.strides[last] != 1)
      runtime_error(c.name(), ": to see ", dtype_name(t.dtype), " as ", dtype_name(d), ", of another size, the last "
                    "dimension must have stride 1, got ", t.strides[last]);
    int64_t ratio = std::max(old_size, new_size) / std::min(old_size, new_size);
    if (new_size < old_size) {
      for (int k = 0; k < last; ++k) l.strides[k] *= ratio;
      l.sizes[last] *= ratio;
    } else {
      if (l.sizes[last] % ratio)
        runtime_error(c.name(), ": to see ", dtype_name(t.dtype), " as ", dtype_name(d), " the last dimension must be "
                      "a multiple of ", ratio, ", got ", l.sizes[last]);
      if (t.offset() % ratio) runtime_error(c.name(), ": to see ", dtype_name(t.dtype), " as ", dtype_name(d), " the "
                                            "storage offset must be a multiple of ", ratio, ", got ", t.offset());
      for (int k = 0; k < last; ++k) {
        if (l.strides[k] % ratio && l.sizes[k] > 1)
          runtime_error(c.name(), ": self.stride(", k, ") must be divisible by ", ratio, ", but got ", l.strides[k]);
        l.strides[k] /= ratio;
      }
      l.sizes[last] /= ratio;
    }
  }
  TensorRef r = l.of(t);
  r->dtype = d;
  c.view(std::move(r));
}

void part_view(Call& c, int64_t part) {
  const Tensor& t = c.tensor(0);
  if (!is_complex(t.dtype)) {
    if (part == 0) return c.push(TensorRef::borrow(&c.tensor(0)));
    runtime_error(c.name(), ": expected a complex tensor, got ", dtype_name(t.dtype));
  }
  Layout l(t);
  for (int k = 0; k < l.ndim; ++k) l.strides[k] *= 2;
  l.data += part * (t.itemsize() / 2);
  TensorRef r = l.of(t);
  if (r->flags & kConj) r->flags ^= part ? kConj | kNeg : kConj;
  r->dtype = real_of(t.dtype);
  c.view(std::move(r));
}
void infer_real(Call& c) { part_view(c, 0); }
void infer_imag(Call& c) { part_view(c, 1); }

void infer_view_as_real(Call& c) {
  const Tensor& t = c.tensor(0);
  if (!is_complex(t.dtype)) runtime_error(c.name(), ": expected a complex tensor, got ", dtype_name(t.dtype));
  if (t.flags & kConj) refuse_lazy(c, t);
  Layout l(t);
  for (int k = 0; k < l.ndim; ++k) l.strides[k] *= 2;
  l.push(2, 1);
  TensorRef r = l.of(t);
  r->dtype = real_of(t.dtype);
  c.view(std::move(r));
}
void infer_view_as_complex(Call& c) {
  const Tensor& t = c.tensor(0);
  if (t.dtype != DType::Float32 && t.dtype != DType::Float64 && t.dtype != DType::Float16)
    runtime_error(c.name(), ": expected float16, float32 or float64, got ", dtype_name(t.dtype));
  if (t.ndim == 0 || t.sizes[t.ndim - 1] != 2)
    runtime_error(c.name(), ": the last dimension must have size 2 (real, imaginary), got shape ",
                  shape_text(t.shape()));
  if (t.strides[t.ndim - 1] != 1) runtime_error(c.name(), ": the last dimension must have stride 1, got ",
                                                t.strides[t.ndim - 1]);
  if (t.offset() % 2) runtime_error(c.name(), ": the storage offset must be even, got ", t.offset());
  Layout l(t);
  --l.ndim;
  for (int k = 0; k < l.ndim; ++k) {
    if (l.strides[k] % 2 && l.sizes[k] > 1) runtime_error(c.name(), ": the strides before the last must be even, got ",
                                                          l.strides[k], " in dimension ", k);
    l.strides[k] /= 2;
  }
  TensorRef r = l.of(t);
  r->dtype = complex_of(t.dtype);
  c.view(std::move(r));
}

const Primitives rows{
    {"view.dtype", infer_view_dtype, nullptr},
    {"real", infer_real, nullptr},
    {"imag", infer_imag, nullptr},
    {"view_as_real", infer_view_as_real, nullptr},
    {"view_as_complex", infer_view_as_complex, nullptr},
};

}  // namespace
}  // namespace flambeau
