#include "op.h"

#include <map>

namespace flambeau {
namespace {

auto& op_table() {
  static std::map<std::string, std::unique_ptr<OpDef>, std::less<>> table;
  return table;
}

void check_device(const Call& c, const Tensor*& first, const Tensor* t) {
  if (!t || t->device == (first ? first->device : t->device)) {
    if (t && (!first || (first->ndim == 0 && first->flags & kWrappedNumber))) first = t;
    return;
  }
  bool elementwise = c.op->kind == Kind::Elementwise;  // a 0-d CPU tensor acts as a number there
  if (elementwise && t->ndim == 0 && t->device.type == DeviceType::CPU) return;
  if (elementwise && first->ndim == 0 && first->device.type == DeviceType::CPU) {
    first = t;
    return;
  }
  runtime_error(c.name(), ": Expected all tensors to be on the same device, but found at least two devices, ",
                device_name(first->device), " and ", device_name(t->device), "! Move one with .to(\"",
                device_name(first->device), "\")");
}

const Tensor* common_device(const Call& c) {
  const Tensor* first = nullptr;
  for (int k = 0; k < c.nargs; ++k) {
    const Value& v = c.args[k];
    if (v.tag == Tag::Tensor) check_device(c, first, v.tensor);
    else if (v.tag == Tag::Tensors)
      for (int64_t j = 0; j < v.tensors.size; ++j) check_device(c, first, v.tensors.data[j]);
  }
  return first;
}

}  // namespace

OpDef* add_op(std::unique_ptr<OpDef> op) {
  auto& slot = op_table()[op->name];
  slot = std::move(op);
  return slot.get();
}

OpDef* find_op(std::string_view name) {
  auto found = op_table().find(name);
  return found == op_table().end() ? nullptr : found->second.get();
}

OpDef& OpHandle::get() {
  if (!def && !(def = find_op(name))) runtime_error("operator ", name, " has no record in flambeau.ops, but native code calls it");
  return *def;
}

void execute(Call& c) {
  const OpDef& op = *c.op;
  const Tensor* first = common_device(c);
  if (op.elementwise) return run_elementwise(c, *op.elementwise, op.promote);
  op.row->infer(c);
  if (!op.row->cpu) return;
  const Tensor* where = c.out1 ? c.out1.get() : first;
  if (where && where->device.type == DeviceType::Meta) return;
  op.row->cpu(c);
}

TensorRef invoke(OpHandle& handle, std::initializer_list<Value> args) {
  OpDef& op = handle.get();
  constexpr int kMost = 24;
  Value values[kMost];
  int n = 0;
  for (const Value& v : args) values[n++] = v;
  for (; n < int(op.schema.args.size()); ++n) values[n] = op.schema.args[n].value;
  Call c;
  c.op = &op;
  c.args = values;
  c.nargs = n;
  run_op(c);
  return std::move(c.out1);
}

}  // namespace flambeau
