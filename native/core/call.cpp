#include "call.h"

#include <unordered_map>

#include "op.h"
#include "pending.h"

namespace flambeau {

namespace {
auto& primitive_table() {  // function-local: filled by static constructors of other files
  static std::unordered_map<std::string_view, PrimitiveRow> table;
  return table;
}
}  // namespace

PrimitiveRow& primitive_row(std::string_view name) { return primitive_table()[name]; }

Primitives::Primitives(std::initializer_list<PrimitiveRow> rows) {
  for (const PrimitiveRow& row : rows) {
    PrimitiveRow& entry = primitive_row(row.name);
    PrimitiveRow before = std::exchange(entry, row);  // kernels of other devices may have been faster
    for (int d = 1; d < kDeviceTypes; ++d) entry.kernel[d] = before.kernel[d];
  }
}

const PrimitiveRow* find_primitive(std::string_view name) {
  auto found = primitive_table().find(name);
  return found == primitive_table().end() || !found->second.infer ? nullptr : &found->second;
}

Scalar Value::scalar() const {
  switch (tag) {
    case Tag::Bool: return Scalar(b);
    case Tag::Int: {
      Scalar s(i);
      s.huge = huge;
      return s;
    }
    case Tag::Float: return Scalar(f);
    case Tag::Complex: return Scalar(complex128(c.re, c.im));
    default: type_error("expected a number");
  }
}

// A private operator's name is shown without its underscore.
const char* Call::name() const { return op ? op->shown.c_str() + (op->shown[0] == '_' && op->shown[1] != '_') : "?"; }

void Call::push(TensorRef result) {
  if (!out1 && more.empty()) out1 = std::move(result);
  else more.push_back(std::move(result));
}
void Call::view(TensorRef result) { push(std::move(result)); }

Tensor& Call::output(Dims shape, DType dtype, Device device) {
  if (__builtin_expect(describes, 0)) return output(shape, dtype, device, contiguous_strides(shape));
  TensorRef made = empty(shape, dtype, device);
  Tensor& result = *made;
  push(std::move(made));
  return result;
}
Tensor& Call::output(Dims shape, DType dtype, Device device, Dims strides) {
  push(describes ? pending_tensor(shape, strides, dtype, device, nullptr)
                 : empty_strided(shape, strides, dtype, device));
  return out(nout() - 1);
}

}  // namespace flambeau
