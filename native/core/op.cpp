#include "op.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <set>

#include "images.h"
#include "lazy.h"
#include "memory_format.h"
#include "recording.h"
#include "unwritten.h"

namespace flambeau {

// kernels/elementwise.cpp
void run_elementwise(Call& c, const ElementwiseRow& row, Promote promote);

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
  runtime_error(c.name(), ": tensors of two devices, ", device_name(first->device), " and ", device_name(t->device),
                "; move one with .to(\"", device_name(first->device), "\")");
}

const Tensor* common_device(const Call& c) {
  const Tensor* first = nullptr;
  const std::string_view row = c.op->row ? c.op->row->name : "";
  if (row == "copy_") return c.args[0].tensor;  // from anywhere to anywhere
  const bool gathers = row == "index" || row == "index_put";  // indices of the CPU are moved there
  if (gathers && c.args[0].tensor->device.type == DeviceType::CUDA) return c.args[0].tensor;
  for (int k = 0; k < c.nargs; ++k) {
    const Value& v = c.args[k];
    if (v.tag == Tag::Tensor) check_device(c, first, v.tensor);
    else if (v.tag == Tag::Tensors)
      for (int64_t j = 0; j < v.tensors.size; ++j) check_device(c, first, v.tensors.data[j]);
  }
  return first;
}

}  // namespace

void resize_tensor(Tensor& out, Dims shape, const char* op) {
  await_calls(out);
  need_values(out);
  int64_t bytes, offset = out.data - static_cast<char*>(out.storage->data);
  if (__builtin_mul_overflow(count(shape), out.itemsize(), &bytes) || __builtin_add_overflow(bytes, offset, &bytes))
    runtime_error(op, ": size calculation overflowed for shape ", shape_text(shape));
  if (out.storage->readonly) runtime_error(op, ": the memory is read-only");
  if (out.storage->refcount > 1 && out.storage->resizable && size_t(bytes) > out.storage->nbytes) {
    // other tensors point into this memory: it stays theirs, and this tensor moves
    Storage* larger = new_storage(size_t(bytes), out.device);
    copy_bytes(*larger, *out.storage, out.storage->nbytes);
    release(std::exchange(out.storage, larger));
  } else {
    resize_storage(out.storage, size_t(bytes));
  }
  out.data = static_cast<char*>(out.storage->data) + offset;
  set_contiguous_dims(out, shape);
}

void resize_for_out(Tensor& out, Dims shape, const char* op) {
  if (out.ndim == shape.size() && std::equal(shape.begin(), shape.end(), out.sizes)) return;
  if (out.numel != 0)
    hooks.warn(concat(op, ": out= of shape ", shape_text(out.shape()), " was resized to the result's ",
                      shape_text(shape), ". Pass out= of that shape, or an empty tensor"));
  resize_tensor(out, shape, op);
}

int level_of(const Call& c) {
  int level = c.op->random ? tls.active_levels : 0;
  bool made_from_tensors = false;
  auto look = [&](const Tensor& t) {
    made_from_tensors = true;
    level = std::max<int>(level, t.level);
  };
  for (int k = 0; k < c.nargs; ++k) {
    const Value& v = c.args[k];
    if (v.tag == Tag::Tensor) look(*v.tensor);
    else if (v.tag == Tag::Tensors)
      for (int64_t j = 0; j < v.tensors.size; ++j)
        if (v.tensors.data[j]) look(*v.tensors.data[j]);
  }
  if (c.given) look(*c.given);
  return tls.level_factories && (!made_from_tensors || c.op->fresh) ? tls.active_levels : level;
}

// By its name (Fowler, Noll, Vo: FNV-1a); where an operator replaces another of its name, the next that is free.
static uint64_t new_id(std::string_view name) {
  static std::set<uint64_t> taken;
  uint64_t id = 0xcbf29ce484222325u;
  for (char c : name) id = (id ^ uint8_t(c)) * 0x100000001b3u;
  id &= ~uint64_t(3);
  while (!taken.insert(id).second) id += 4;
  return id;
}

OpDef* add_op(std::unique_ptr<OpDef> op) {
  static std::vector<std::unique_ptr<OpDef>> replaced;  // their Op objects and recorded nodes may live on
  op->id = new_id(op->name);
  for (size_t k = 0; k < op->schema.args.size(); ++k)
    if (op->schema.args[k].name == "output_mask") op->output_mask = int(k);
  auto& slot = op_table()[op->name];
  if (slot) replaced.push_back(std::move(slot));
  slot = std::move(op);
  return slot.get();
}

OpDef* find_op(std::string_view name) {
  auto found = op_table().find(name);
  return found == op_table().end() ? nullptr : found->second.get();
}

OpDef& OpHandle::get() {
  if (!def && !(def = find_op(name)))
    runtime_error("operator ", name, " has no record in flambeau.ops, but native code calls it");
  return *def;
}

// Calls f with every tensor that c has.
template <class F>
static void each_tensor(const Call& c, F f) {
  for (int k = 0; k < c.nargs; ++k) {
    const Value& v = c.args[k];
    if (v.tag == Tag::Tensor) f(*v.tensor);
    else if (v.tag == Tag::Tensors)
      for (int64_t j = 0; j < v.tensors.size; ++j)
        if (v.tensors.data[j]) f(*v.tensors.data[j]);
  }
  if (c.given) f(*c.given);
}

// Whether the kernel reads all lazy arguments as they lie in memory.
static bool reads_lazy(const Call& c) {
  const PrimitiveRow* row = c.op->row;
  bool reads = row && row->accepts && !c.given;
  if (reads) each_tensor(c, [&](const Tensor& t) { reads &= !is_lazy(t) || row->accepts(c, t); });
  return reads;
}

// Modes, levels, tensor subclasses; then lazy conjugates; then recording; then the gate: what is left runs on real
// memory. True: done.
static bool detour(Call& c, unsigned flags) {
  if (hooks.dispatch_override(c)) return true;
  if (flags & kLazy && c.op->kind != Kind::View && !reads_lazy(c)) return run_resolved(c), true;
  each_tensor(c, settle);
  if (Recorder* recorder = tls.recorder) {
    each_tensor(c, [](const Tensor& t) {
      if (last_images(t)) make_values(t);
    });
    if (!(flags & kLazy) && recorder->take(c)) return true;
    each_tensor(c, [&](const Tensor& t) { recorder->before_read(t); });
    if (c.op->random) recorder->before_draw();
    if (c.given) recorder->before_write(*c.given);
    else each_written(c, [&](const Tensor& t) { recorder->before_write(t); });
    each_tensor(c, settle);  // kept calls may have run
  }
  const PrimitiveRow* row = c.op->row;
  if (row && row->is_view()) return false;  // a view of a pending tensor is as pending as it is
  if (run_on_images(c)) return true;
  each_tensor(c, [&](const Tensor& t) {
    if (t.flags & kPending && !(row && row->accepts && row->accepts(c, t))) need_values(t);
  });
  return false;
}

// infer looks at values, which the CPU cannot see there: such a device has kernels that do all of it.
static void read_on_device(Call& c) {
  const CallFn kernel = c.op->row->kernel[int(DeviceType::CUDA)];
  if (!kernel)
    not_implemented(c.name(), ": has no CUDA kernel yet (its result's size depends on values); compute it on x.cpu()");
  kernel(c);
}

// Where a call computes that has no result: where its arguments are.
static Device place_of_arguments(const Call& c) {
  for (int k = 0; k < c.nargs; ++k) {
    const Value& v = c.args[k];
    if (v.tag == Tag::Tensor) return v.tensor->device;
    for (int64_t j = 0; v.tag == Tag::Tensors && j < v.tensors.size; ++j)
      if (v.tensors.data[j]) return v.tensors.data[j]->device;
  }
  return Device{};
}

static bool makes_unwritten(const Call& c) {
  return (c.op->name.starts_with("empty") || c.op->name == "new_empty") && c.out1 && !c.out1->is_meta();
}

// Inlined where every call passes.
[[gnu::always_inline]] static inline void run_kernel(Call& c, const Tensor* first) {
  const OpDef& op = *c.op;
  if (op.elementwise) return run_elementwise(c, *op.elementwise, op.promote);
  if (op.row->is_view()) {
    op.row->infer(c);
    if (__builtin_expect(fills_unwritten, 0) && makes_unwritten(c)) fill_unwritten(*c.out1);
    return;
  }
  Calling calling(c);
  if (__builtin_expect(op.row->reads != Infer::Pure && first && first->device.type == DeviceType::CUDA, 0))
    return read_on_device(c);
  op.row->infer(c);
  compute(c, *op.row, c.out1 ? c.out1->device : first ? first->device : place_of_arguments(c));
}

void run_on_memory(Call& c, const Tensor* first) { run_kernel(c, first); }

// Of a call without pending arguments; most end here.
static inline bool may_ask_for_images(const Call& c, const PrimitiveRow& row) {
  return row.begins || (keeps_images(row) && c.nargs && formatted(c.args[0]));
}

void execute(Call& c, const Arguments& a) {
  const unsigned flags = a.flags | (c.given ? c.given->flags : 0);  // out= may be a wrapper too
  if (__builtin_expect(tls.dispatch_modes || flags & kIndirect, 0) && detour(c, flags)) return;
  if (const PrimitiveRow* row = c.op->row; row && may_ask_for_images(c, *row) && run_on_images(c)) return;
  const Tensor* first = __builtin_expect(a.mixed, 0) ? common_device(c) : a.first;
  run_kernel(c, first);
}

TensorRef invoke(OpHandle& handle, std::initializer_list<Value> args) {
  OpDef& op = handle.get();
  Value values[kMaxArgs];
  int n = 0;
  for (const Value& v : args) values[n++] = v;
  for (; n < int(op.schema.args.size()); ++n) values[n] = op.schema.args[n].value;
  Call c;
  c.op = &op;
  c.args = values;
  c.nargs = n;
  if (op.kind == Kind::Composite) hooks.run_composite(c);
  else run_op(c);
  return std::move(c.out1);
}

}  // namespace flambeau
