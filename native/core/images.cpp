#include "images.h"

#include <algorithm>
#include <typeinfo>
#include <utility>

#include "channels_last.h"
#include "op.h"
#include "pending.h"

namespace flambeau {

bool multiplies_halves(DType dtype);  // kernels/conv_onednn.cpp

namespace {

constexpr int kMostArguments = 24;          // no operator has more (bind/python.h)
constexpr int64_t kLeastWork = 1 << 22;     // multiplications of a convolution

struct LastImages final : Pending {
  TensorRef last;
  explicit LastImages(TensorRef last) : last(std::move(last)) {}
  void make(Storage& s) override {
    TensorRef images = last;  // this object may end while other threads are waited for
    await_calls(*images);
    if (!is_pending(s)) return;
    KeepLock keep;  // nobody writes to them meanwhile
    TensorRef rows = empty(images->shape(), images->dtype, images->device);
    copy_into(*rows, *images);
    retain(rows->storage);
    struct Let { Storage* s; ~Let() { release(s); } } memory{rows->storage};
    rows = nullptr;  // so that its memory can be taken
    adopt(s, *memory.s);
  }
};

bool same_shape(const Tensor& a, const Tensor& b) { return std::ranges::equal(a.shape(), b.shape()); }

bool fits_into(const Tensor& t, const Tensor& whole) {
  if (t.ndim > whole.ndim) return false;
  for (int d = 1; d <= t.ndim; ++d)
    if (t.sizes[t.ndim - d] != 1 && t.sizes[t.ndim - d] != whole.sizes[whole.ndim - d]) return false;
  return true;
}

bool is_plain(const Tensor& t) {
  return t.device.type == DeviceType::CPU && t.contiguous() && !(t.flags & kIndirect) && !t.level;
}

// A convolution of plain images that pays for a copy with the channels last.
bool begins_here(const Call& c) {
  const Tensor &x = c.tensor(0), &w = c.tensor(1);
  if (c.op->row->images != Images::Begins || x.ndim != 4 || w.ndim != 4 || x.dtype != w.dtype || c.boolean(6) ||
      !(x.dtype == DType::Float32 || multiplies_halves(x.dtype)) || !is_plain(x) || w.device.type != DeviceType::CPU)
    return false;
  const int64_t area = c.ints(3).size() == 2 ? c.ints(3)[0] * c.ints(3)[1] : 1;
  return x.size(1) && area > 0 && x.numel / x.size(1) / area * w.numel >= kLeastWork;
}

// [n, channels, height, width] with the channels last as [n, height, width, channels], and back.
TensorRef as_rows(const Tensor& t) {
  const int64_t *n = t.sizes, *s = t.strides, shape[] = {n[0], n[2], n[3], n[1]}, strides[] = {s[0], s[2], s[3], s[1]};
  return view_of(t, shape, strides, t.data);
}
TensorRef of_rows(const Tensor& t) {
  const int64_t *n = t.sizes, *s = t.strides, shape[] = {n[0], n[3], n[1], n[2]}, strides[] = {s[0], s[3], s[1], s[2]};
  return view_of(t, shape, strides, t.data);
}

// Arguments of a call, those that are images as they lie.
struct Lying {
  Value args[kMostArguments];
  std::vector<TensorRef> held;
  std::vector<Tensor*> list;

  Tensor* put(TensorRef t) {
    held.push_back(std::move(t));
    return held.back().get();
  }
  bool pointwise(const Call& c) {
    std::vector<Tensor*> tensors;
    for (int k = 0; k < c.nargs; ++k)
      if (c.args[k].tag == Tag::Tensor) tensors.push_back(c.args[k].tensor);
    if (!lie_together(tensors, held)) return false;
    size_t next = 0;
    for (int k = 0; k < c.nargs; ++k)
      if (args[k].tag == Tag::Tensor) args[k].tensor = held[next++].get();
    return true;
  }
  // Images that are plain get a copy; weights and vectors stay.
  bool primitive(const Call& c) {
    bool any = begins_here(c);
    for (int k = 0; k < c.nargs; ++k)
      any |= c.args[k].tag == Tag::Tensor && last_images(*c.args[k].tensor);
    if (!any) return false;
    for (int k = 0; k < c.nargs; ++k) {
      if (args[k].tag == Tag::Tensors) return false;
      if (args[k].tag != Tag::Tensor) continue;
      Tensor& t = *args[k].tensor;
      const bool weight = c.op->schema.args[size_t(k)].name == "weight";
      if (const Tensor* last = last_images(t)) args[k].tensor = put(TensorRef::borrow(const_cast<Tensor*>(last)));
      else if (t.flags & kIndirect || t.level || t.device.type != DeviceType::CPU) return false;
      else if (t.ndim == 4 && !weight) args[k].tensor = put(with_channels_last(t));
    }
    return true;
  }
  // Images end to end are joined as what they are in memory, [n, height, width, channels].
  bool joined(const Call& c) {
    bool any = false;
    for (Tensor* t : c.tensors(0)) {
      const Tensor* last = last_images(*t);
      any |= last != nullptr;
      if (!last && !(is_plain(*t) && t->ndim == 4)) return false;
    }
    if (!any) return false;
    for (Tensor* t : c.tensors(0)) {
      const Tensor* last = last_images(*t);
      list.push_back(put(as_rows(last ? *last : *put(with_channels_last(*t)))));
    }
    constexpr int64_t kPlace[] = {0, 3, 1, 2};
    args[0].tensors = {list.data(), int64_t(list.size())};
    args[1] = kPlace[c.dim(1, 4)];
    return true;
  }
};

}  // namespace

const Tensor* last_images(const Tensor& t) {
  if (!(t.flags & kPending) || t.ndim != 4 || !t.contiguous()) return nullptr;
  Pending* p = pending_of(*t.storage);
  if (!p || typeid(*p) != typeid(LastImages)) return nullptr;
  const Tensor& last = *static_cast<LastImages*>(p)->last;
  return t.offset() == 0 && same_shape(t, last) && t.dtype == last.dtype ? &last : nullptr;
}

TensorRef as_plain(TensorRef last) {
  if (last->ndim != 4 || last->flags & kIndirect) return last;
  if (last->contiguous()) return set_contiguous_dims(*last, std::vector<int64_t>(last->sizes, last->sizes + 4)), last;
  if (!has_channels_last(*last) || last->refcount > 1) return last;
  const std::vector<int64_t> shape(last->sizes, last->sizes + last->ndim);
  const DType dtype = last->dtype;
  const Device device = last->device;
  return pending_tensor(shape, contiguous_strides(shape), dtype, device, std::make_unique<LastImages>(std::move(last)));
}

TensorRef copied_images(const Tensor& t) {
  const Tensor* last = last_images(t);
  if (!last) return {};
  TensorRef copy = empty_strided(last->shape(), last->stride(), last->dtype, last->device);
  copy_into(*copy, *last);
  return as_plain(std::move(copy));
}

bool lie_together(std::span<Tensor* const> tensors, std::vector<TensorRef>& lying) {
  const Tensor* whole = nullptr;
  for (const Tensor* t : tensors)
    if (const Tensor* last = last_images(*t); last && !whole) whole = last;
  if (!whole) return false;
  for (Tensor* t : tensors) {
    if (const Tensor* last = last_images(*t)) {
      if (!same_shape(*last, *whole)) return false;
      lying.push_back(TensorRef::borrow(const_cast<Tensor*>(last)));
    } else if (!is_plain(*t) || !fits_into(*t, *whole)) {
      return false;
    } else {
      lying.push_back(same_shape(*t, *whole) ? with_channels_last(*t) : TensorRef::borrow(t));
    }
  }
  return true;
}

// Most calls end here.
static bool may_meet_images(const Call& c) {
  const OpDef& op = *c.op;
  if (c.nargs > kMostArguments || !(op.elementwise || (op.row && op.row->images != Images::Plain))) return false;
  bool pending = op.row && op.row->images == Images::Begins;
  for (int k = 0; k < c.nargs; ++k) {
    if (c.args[k].tag == Tag::Tensor) pending |= (c.args[k].tensor->flags & kPending) != 0;
    else if (c.args[k].tag == Tag::Device && c.args[k].device.type != DeviceType::CPU) return false;
    else pending |= c.args[k].tag == Tag::Tensors;
  }
  return pending;
}

bool run_on_images(Call& c) {
  if (!may_meet_images(c)) return false;
  const OpDef& op = *c.op;
  Lying lying;
  std::copy_n(c.args, c.nargs, lying.args);
  const bool list = c.nargs && c.args[0].tag == Tag::Tensors;
  if (!(op.elementwise ? lying.pointwise(c) : list ? lying.joined(c) : lying.primitive(c))) return false;
  Call run;
  run.op = c.op;
  run.args = lying.args;
  run.nargs = c.nargs;
  run.list_result = c.list_result;
  if (c.given) {
    const Tensor* last = last_images(*c.given);
    if (!last) return false;
    run.given = lying.put(TensorRef::borrow(const_cast<Tensor*>(last)));
    run.inplace = c.inplace;
  }
  run_on_memory(run);
  if (c.given) {
    c.out1 = TensorRef::borrow(c.given);
    return true;
  }
  c.out1 = as_plain(list ? of_rows(*std::exchange(run.out1, nullptr)) : std::move(run.out1));
  for (TensorRef& t : run.more) c.more.push_back(as_plain(std::move(t)));
  return true;
}

}  // namespace flambeau
