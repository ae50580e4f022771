// The tail that every creation operator's schema ends with: dtype, layout, device, requires_grad, pin_memory.
#pragma once
#include "../core/call.h"
#include "../core/device_table.h"

namespace flambeau {

struct Options {
  DType dtype;
  Device device;
  bool requires_grad;
  bool pinned;
};

// pin_memory=True: only of the CPU's memory, and where there is a device that can reach it.
void check_pinning(const Call& c, Device device);
void pin(Tensor& t);  // gives a fresh tensor such memory

// Arguments k … k+4. The parser has refused every layout but strided.
inline Options read_options(const Call& c, int k, DType dtype, Device device = default_device()) {
  Options o{c.dtype_or(k, dtype), placed(c.has(k + 2) ? c.args[k + 2].device : device),
            c.has(k + 3) && c.boolean(k + 3), c.has(k + 4) && c.boolean(k + 4)};
  if (o.device.type == DeviceType::CUDA && !has_device(o.device))
    runtime_error(c.name(), ": this build has no CUDA device; use device=\"cpu\"");
  if (o.pinned) check_pinning(c, o.device);
  if (o.requires_grad && !is_differentiable(o.dtype))
    runtime_error(c.name(), ": requires_grad=True needs a floating-point or complex dtype, got ", dtype_name(o.dtype));
  return o;
}

inline void check_size(const Call& c, Dims size) {
  for (int64_t n : size)
    if (n < 0) runtime_error(c.name(), ": sizes must not be negative, got ", n, " in ", shape_text(size));
}

inline Tensor& finish(Tensor& t, const Options& o) {
  if (o.pinned) pin(t);
  if (o.requires_grad) t.flags |= kRequiresGrad;
  return t;
}
inline Tensor& create(Call& c, Dims size, const Options& o) {
  check_size(c, size);
  return finish(c.output(size, o.dtype, o.device), o);
}

// The strides a `*_like` result has: those of a dense tensor are kept, otherwise the same order of dimensions is
// packed.
std::vector<int64_t> like_strides(const Tensor& t);
// memory_format arguments: 0 contiguous, 1 channels_last, 2 channels_last_3d, 3 (or absent) preserve.
std::vector<int64_t> format_strides(const Call& c, const Tensor& t, int64_t memory_format);
bool dense(const Tensor& t);  // some permutation of its dimensions is contiguous

// infer of an operator that writes into its first argument.
inline Tensor& write_self(Call& c) {
  c.push(TensorRef::borrow(&c.tensor(0)));
  return c.out();
}
// infer of an operator with a functional and an in-place form: the latter works in place, without a copy.
inline Tensor& output_self(Call& c) {
  if (c.inplace && c.given == &c.tensor(0)) return write_self(c);
  return c.output_like(c.tensor(0));
}
// The same, where the kernel takes a result of any strides: those of self, without gaps.
inline Tensor& output_laid_as_self(Call& c) {
  const Tensor& self = c.tensor(0);
  if (self.contiguous() || self.device.type == DeviceType::CUDA || (c.inplace && c.given == &self))
    return output_self(c);
  return c.output(self.shape(), self.dtype, self.device, like_strides(self));
}
// … and its kernel begins with this: the result starts as a copy of self.
void begin_with_self(Call& c);
void check_writable(const Call& c, const Tensor& t);  // throws when two indices name one address

}  // namespace flambeau
