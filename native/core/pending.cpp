#include "pending.h"

#include "device_table.h"

namespace flambeau {
namespace {

// The mark of a pending storage, and what happens when nobody has looked at it.
void drop_pending(Storage* s) { delete static_cast<Pending*>(s->context); }

size_t bytes_of(Dims shape, Dims strides, DType dtype) {
  int64_t last = 1;
  for (size_t k = 0; k < shape.size(); ++k) {
    if (shape[k] == 0) return 0;
    last = size_sum("empty_strided", {last, size_product("empty_strided", {shape[k] - 1, strides[k]})});
  }
  return size_t(size_product("empty_strided", {last, item_size(dtype)}));
}

}  // namespace

bool is_pending(const Storage& s) { return s.free == drop_pending; }
Pending* pending_of(const Storage& s) { return is_pending(s) ? static_cast<Pending*>(s.context) : nullptr; }

TensorRef pending_tensor(Dims shape, Dims strides, DType dtype, Device device, std::unique_ptr<Pending> pending) {
  TensorRef t = TensorRef::steal(allocate_tensor());
  t->dtype = dtype;
  t->device = device;
  set_dims(*t, shape, strides);
  t->storage = blank_storage();
  t->storage->device = device;
  t->storage->nbytes = bytes_of(shape, strides, dtype);
  t->storage->free = drop_pending;
  t->storage->context = pending.release();
  t->flags |= kPending;
  return t;
}

void attach(Storage& s, std::unique_ptr<Pending> pending) {
  if (!is_pending(s) || s.context) runtime_error("attach: the storage is no description of a result");
  s.context = pending.release();
}

void adopt(Storage& s, Storage& from) {
  if (!is_pending(s)) runtime_error("adopt: the storage has its memory already");
  Storage* own = nullptr;
  if (from.refcount > 1 || !from.resizable || from.nbytes < s.nbytes) {
    own = new_storage(std::max(s.nbytes, from.nbytes), s.device);
    copy_bytes(*own, from, std::min(s.nbytes, from.nbytes));
  }
  Storage& source = own ? *own : from;
  std::unique_ptr<Pending> done(static_cast<Pending*>(s.context));
  s.data = std::exchange(source.data, nullptr);
  s.free = std::exchange(source.free, nullptr);
  s.context = std::exchange(source.context, nullptr);
  s.nbytes = source.nbytes;
  if (own) release(own);
}

static void release_owner(Storage* s) { release(static_cast<Storage*>(s->context)); }

void show_memory(Storage& s, Storage* owner) {
  if (Storage* first = owner_of(owner); first != owner) {  // straight to it, no chain
    retain(first);
    release(std::exchange(owner, first));
  }
  s.data = owner->data;
  s.nbytes = owner->nbytes;
  s.device = owner->device;
  s.readonly = owner->readonly;
  s.resizable = false;
  s.context = owner;
  s.free = release_owner;
}
Storage* owner_of(Storage* s) { return s->free == release_owner ? static_cast<Storage*>(s->context) : s; }

void settle(const Tensor& t) {
  if (!(t.flags & kPending) || is_pending(*t.storage)) return;
  auto& settled = const_cast<Tensor&>(t);
  settled.data = static_cast<char*>(t.storage->data) + reinterpret_cast<intptr_t>(t.data);
  settled.flags &= uint16_t(~kPending);
}

void make_values(const Tensor& t) {
  if (t.flags & kPending) {
    TensorRef keep = TensorRef::borrow(const_cast<Tensor*>(&t));  // making runs other calls
    if (is_pending(*t.storage)) {
      Pending* pending = pending_of(*t.storage);
      if (!pending)
        runtime_error("this tensor of shape ", shape_text(t.shape()), " describes a result that nobody computes");
      pending->make(*t.storage);
      if (is_pending(*t.storage)) runtime_error("a pending tensor of shape ", shape_text(t.shape()), " was not made");
    }
    settle(t);
  }
  if (t.flags & kDispatch && (t.level || (t.storage && !t.storage->data && t.numel && !t.is_meta()))) no_values(t);
}

}  // namespace flambeau
