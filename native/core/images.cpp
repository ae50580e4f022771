#include "images.h"

#include <algorithm>
#include <typeinfo>
#include <utility>

#include "channels_last.h"
#include "device_table.h"
#include "memory_format.h"
#include "pending.h"
#include "recording.h"

namespace flambeau {

namespace {

constexpr int kMostArguments = 24;  // no operator has more (bind/python.h)
constexpr int64_t kPlace[] = {0, 3, 1, 2};  // of each dimension among [n, height, width, channels]

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
bool has_values(const Tensor& t) { return t.device.type == DeviceType::CPU && !(t.flags & kIndirect) && !t.level; }

// The images that a pending tensor shows, all or some of them, as they lie.
const Tensor* images_of(const Tensor& t) {
  if (!(t.flags & kPending) || t.level || t.flags & kLazy) return nullptr;
  Pending* p = pending_of(*t.storage);
  if (!p || typeid(*p) != typeid(LastImages)) return nullptr;
  const Tensor& last = *static_cast<LastImages*>(p)->last;
  return t.dtype == last.dtype ? &last : nullptr;
}

// An address in memory, plain or with channels last, is one of an image, a channel and a place in it. A step of a view
// that goes along one of them in the one order does so in the other.
struct Axes {
  int64_t n, channels, places;
  explicit Axes(const Tensor& last) : n(last.size(0)), channels(last.size(1)), places(last.size(2) * last.size(3)) {}
  int of(int64_t step) const { return step >= channels * places ? 0 : step >= places ? 1 : 2; }
  int64_t length(int axis) const { return axis == 0 ? n : axis == 1 ? channels : places; }
  int64_t plain(int axis) const { return axis == 0 ? channels * places : axis == 1 ? places : 1; }
  int64_t last(int axis) const { return axis == 0 ? channels * places : axis == 1 ? 1 : channels; }
};

// What `t` shows of lying images, as a tensor with the strides that it has there. Null: it has none.
TensorRef part_of(const Tensor& t, const Tensor& last) {
  if (t.numel == 0) return {};
  const Axes axes(last);
  int64_t left = t.offset(), place = 0, end[3], strides[kMaxDims];
  for (int a = 0; a < 3; ++a) {
    end[a] = left / axes.plain(a);
    left %= axes.plain(a);
    place += end[a] * axes.last(a);
  }
  for (int d = 0; d < t.ndim; ++d) {
    const int a = axes.of(t.strides[d]);
    if (t.strides[d] < 0 || (t.sizes[d] > 1 && t.strides[d] % axes.plain(a))) return {};
    strides[d] = t.strides[d] / axes.plain(a) * axes.last(a);
    end[a] += (t.sizes[d] - 1) * (t.strides[d] / axes.plain(a));
  }
  for (int a = 0; a < 3; ++a)
    if (end[a] >= axes.length(a)) return {};
  return view_of(last, t.shape(), Dims(strides, t.ndim), last.data + place * last.itemsize());
}

// Whether its dimensions are in the order of plain images.
bool in_order(const Tensor& t) {
  for (int d = 1; d < t.ndim; ++d)
    if (t.strides[d - 1] < t.strides[d]) return false;
  return true;
}

// Lying images, all of them or a part that is images itself, as they lie. Null: it is neither.
TensorRef lying_images(const Tensor& t) {
  if (const Tensor* whole = last_images(t)) return TensorRef::borrow(const_cast<Tensor*>(whole));
  const Tensor* last = t.ndim == 4 ? images_of(t) : nullptr;
  TensorRef part = last && in_order(t) ? part_of(t, *last) : TensorRef();
  return part && has_channels_last_order(*part) ? part : TensorRef();
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
  std::vector<std::vector<int64_t>> ints;
  bool plain = true;  // the results are seen as plain images

  Tensor* put(TensorRef t) {
    held.push_back(std::move(t));
    return held.back().get();
  }
  bool pointwise(const Call& c) {
    std::vector<Tensor*> tensors;
    for (int k = 0; k < c.nargs; ++k)
      if (c.args[k].tag == Tag::Tensor) tensors.push_back(c.args[k].tensor);
    const Seen seen = lie_together(tensors, held);
    if (seen == Seen::Nowhere) return false;
    plain = seen == Seen::Plain;
    size_t next = 0;
    for (int k = 0; k < c.nargs; ++k)
      if (args[k].tag == Tag::Tensor) args[k].tensor = held[next++].get();
    return true;
  }
  // Images that are plain get a copy; weights and vectors stay.
  bool primitive(const Call& c) {
    bool any = c.op->row->begins && c.op->row->begins(c);
    for (int k = 0; k < c.nargs; ++k) {
      if (args[k].tag == Tag::Tensors) return false;
      if (args[k].tag != Tag::Tensor) continue;
      Tensor& t = *args[k].tensor;
      const bool weight = c.op->schema.args[size_t(k)].name == "weight";
      if (TensorRef own = lying_images(t)) any = true, args[k].tensor = put(with_channels_last(*own));
      else if (!has_values(t)) return false;
      else if (t.ndim == 4 && !weight && any) args[k].tensor = put(with_channels_last(t));
    }
    if (!any) return without_gaps(c);
    for (int k = 0; k < c.nargs; ++k)  // those before the first that lies
      if (args[k].tag == Tag::Tensor && args[k].tensor->ndim == 4 && c.op->schema.args[size_t(k)].name != "weight")
        args[k].tensor = put(with_channels_last(*args[k].tensor));
    return true;
  }
  // A part of images that have channels last for all to see is copied.
  bool without_gaps(const Call& c) {
    const Tensor* x = c.nargs ? c.optional_tensor(0) : nullptr;
    if (!x || !c.op->keeps_format || x->ndim != 4 || !has_values(*x) || has_channels_last(*x) ||
        !has_channels_last_order(*x))
      return false;
    args[0].tensor = put(with_channels_last(*x));
    plain = false;
    return true;
  }
  Tensor* rows_of(const Tensor& t) {
    if (TensorRef own = lying_images(t)) return put(as_rows(*own));
    if (has_channels_last_order(t)) return put(as_rows(t));
    return put(as_rows(*put(with_channels_last(t))));
  }
  // A dimension, a list of them, a shape, or pairs from the last dimension on, of the rows.
  bool turned(const Call& c, int k) {
    const std::string& name = c.op->schema.args[size_t(k)].name;
    Value& v = args[k];
    if (name == "dim" || name == "dims") {
      if (v.tag == Tag::Int) return v = kPlace[c.dim(k, 4)], true;
      if (v.tag != Tag::Ints || v.ints.size == 0) return false;
      auto& dims = ints.emplace_back();
      for (int64_t d : c.ints(k)) dims.push_back(kPlace[wrap_dim(d, 4, c.name())]);
      v = Value(Dims(dims));
    } else if (name == "self_shape") {
      if (v.ints.size != 4) return false;
      const Dims n = c.ints(k);
      v = Value(Dims(ints.emplace_back(std::vector{n[0], n[2], n[3], n[1]})));
    } else if (name == "pad") {
      auto pairs = std::vector<int64_t>(c.ints(k).begin(), c.ints(k).end());
      pairs.resize(8);
      auto& turned = ints.emplace_back(pairs.begin() + 4, pairs.begin() + 6);
      turned.insert(turned.end(), pairs.begin(), pairs.begin() + 4);
      if (v.ints.size > 6) turned.insert(turned.end(), pairs.begin() + 6, pairs.end());
      v = Value(Dims(turned));
    }
    return true;
  }
  // Whether all images are there as they lie, or can be copied. `own`: they have channels last for all to see.
  bool any_images(const Call& c, bool& own) const {
    bool any = false, all = c.op->keeps_format;
    auto look = [&](const Tensor& t) {
      const bool lies = bool(lying_images(t));
      const bool last = !lies && t.ndim == 4 && has_values(t) && has_channels_last_order(t);
      any |= lies;
      all &= last;
      return lies || last || (is_plain(t) && t.ndim == 4);
    };
    bool can = true;
    for (int k = 0; k < c.nargs && can; ++k) {
      const Value& v = c.args[k];
      if (v.tag == Tag::Tensor) can = v.tensor->ndim > 1 ? look(*v.tensor) : has_values(*v.tensor);
      for (int64_t j = 0; v.tag == Tag::Tensors && j < v.tensors.size; ++j) can = can && look(*v.tensors.data[j]);
    }
    own = all && !any;
    return can && (any || all);
  }
  bool along(const Call& c) {
    bool own;
    if (!any_images(c, own)) return false;
    plain = !own;
    describe_only(c);
    for (int k = 0; k < c.nargs; ++k) {
      if (args[k].tag == Tag::Tensor && args[k].tensor->ndim == 4) args[k].tensor = rows_of(*args[k].tensor);
      else if (args[k].tag != Tag::Tensors && !turned(c, k)) return false;
      else if (args[k].tag == Tag::Tensors) {
        for (Tensor* t : c.tensors(k)) list.push_back(rows_of(*t));
        args[k].tensors = {list.data(), int64_t(list.size())};
      }
    }
    return true;
  }
  // What is wrong with the arguments is said about the images that users see.
  static void describe_only(const Call& c) {
    Call seen;
    seen.op = c.op;
    seen.args = c.args;
    seen.nargs = c.nargs;
    describe(seen);
  }
};

// Runs an operator that reads images with any strides.
bool run_reading(Call& c) {
  Lying lying;
  std::copy_n(c.args, c.nargs, lying.args);
  bool any = false;
  for (int k = 0; k < c.nargs; ++k) {
    Value& v = lying.args[k];
    if (v.tag == Tag::Tensors) return false;
    if (v.tag != Tag::Tensor) continue;
    const Tensor* last = c.op->schema.args[size_t(k)].written || (k == 0 && c.op->writes_self) ? nullptr
                                                                                               : images_of(*v.tensor);
    if (TensorRef part = last ? part_of(*v.tensor, *last) : TensorRef()) any = true, v.tensor = lying.put(part);
    else if (need_values(*v.tensor); !has_values(*v.tensor)) return false;
  }
  if (!any) return false;
  Calling calling(c);
  c.op->row->infer(c);  // as users see the arguments
  const Value* seen = std::exchange(c.args, lying.args);
  compute(c, *c.op->row, Device{});
  c.args = seen;
  return true;
}

// Of an operator whose result is a copy of the first argument, or a view of it.
bool run_copying(Call& c) {
  Tensor& t = c.tensor(0);
  const Tensor* last = images_of(t);
  if (!last) return false;
  describe(c);
  Tensor& out = c.out();
  if (out.storage == t.storage || &out == &t) return true;
  TensorRef copy = out.contiguous() ? copied_images(t) : TensorRef(), part;
  if (!copy) {
    c.out1 = empty_strided(out.shape(), out.stride(), out.dtype, out.device);
    part = part_of(t, *last);
    if (!part) need_values(t);
    copy_into(std::ranges::equal(c.out().shape(), t.shape())
                  ? c.out()
                  : *view_of(c.out(), t.shape(), contiguous_strides(t.shape()), c.out().data),
              part ? *part : t);
    return true;
  }
  attach(*out.storage, std::make_unique<LastImages>(std::move(copy)));
  return true;
}

}  // namespace

const Tensor* last_images(const Tensor& t) {
  if (t.ndim != 4 || !t.contiguous()) return nullptr;
  const Tensor* last = images_of(t);
  return last && t.offset() == 0 && same_shape(t, *last) ? last : nullptr;
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
  const Tensor* last = t.ndim >= 4 ? images_of(t) : nullptr;
  TensorRef part = last ? part_of(t, *last) : TensorRef();
  if (!part) return {};
  // Images, then channels, then places: what is not so is no image.
  const Axes axes(*last);
  int64_t size[3] = {1, 1, 1}, strides[kMaxDims];
  int d = 0;
  for (int a = 0; a < 3; ++a)
    for (; d < t.ndim && (t.sizes[d] == 1 || axes.of(t.strides[d]) == a); ++d) size[a] *= t.sizes[d];
  if (d < t.ndim || size[2] != axes.places) return {};
  const int64_t shape[] = {size[0], size[1], last->size(2), last->size(3)};
  TensorRef copy = empty_strided(shape, channels_last_strides(shape), t.dtype, t.device);
  if (copy->contiguous()) return {};
  int64_t step[] = {size[1] * size[2], 1, size[1]};
  for (d = t.ndim; d-- > 0;) {
    const int a = axes.of(t.strides[d]);
    strides[d] = step[a];
    if (t.sizes[d] != 1) step[a] *= t.sizes[d];
  }
  copy_into(*view_of(*copy, t.shape(), Dims(strides, t.ndim), copy->data), *part);
  return copy;
}

// `t` beside lying images of shape `whole`, whose results are seen as `seen`.
static TensorRef beside(const Tensor& t, const Tensor& whole, Seen& seen) {
  const bool same = same_shape(t, whole), last = same && has_channels_last(t);
  if (last && seen == Seen::Nowhere) seen = Seen::Last;
  else if (same && is_plain(t) && seen == Seen::Nowhere) seen = Seen::Plain;
  if (last || (same && !t.contiguous() && may_overlap(t))) return TensorRef::borrow(const_cast<Tensor*>(&t));
  if (!is_plain(t) || !fits_into(t, whole)) return {};
  return same ? with_channels_last(t) : TensorRef::borrow(const_cast<Tensor*>(&t));
}

Seen lie_together(std::span<Tensor* const> tensors, std::vector<TensorRef>& lying) {
  TensorRef whole;
  for (size_t k = 0; k < tensors.size() && !whole; ++k) whole = lying_images(*tensors[k]);
  if (!whole) return Seen::Nowhere;
  Seen seen = Seen::Nowhere;  // the first that has all dimensions decides
  bool spread = false;
  for (Tensor* t : tensors) {
    if (TensorRef own = lying_images(*t)) {
      if (!same_shape(*own, *whole)) return Seen::Nowhere;
      if (seen == Seen::Nowhere) seen = Seen::Plain;
      lying.push_back(std::move(own));
    } else {
      TensorRef other = has_values(*t) ? beside(*t, *whole, seen) : TensorRef();
      if (!other) return Seen::Nowhere;
      spread |= seen == Seen::Nowhere || !same_shape(*t, *whole);
      lying.push_back(std::move(other));
    }
  }
  return seen == Seen::Last && spread ? Seen::Nowhere : seen;
}

// Most calls end here.
static bool may_meet_images(const Call& c) {
  const OpDef& op = *c.op;
  const bool reads = op.elementwise || op.kind == Kind::Reduction || (op.row && op.row->images != Images::Plain);
  if (c.nargs > kMostArguments || !reads) return false;
  const bool asks = op.row && keeps_images(*op.row);
  bool pending = op.row && op.row->begins;
  for (int k = 0; k < c.nargs; ++k) {
    if (c.args[k].tag == Tag::Tensor)
      pending |= (c.args[k].tensor->flags & kPending) != 0 || (k == 0 && asks && formatted(c.args[0]));
    else if (c.args[k].tag == Tag::Device && c.args[k].device.type != DeviceType::CPU) return false;
    else pending |= c.args[k].tag == Tag::Tensors;
  }
  return pending;
}

bool run_on_images(Call& c) {
  if (!may_meet_images(c)) return false;
  const OpDef& op = *c.op;
  const Images way = op.row ? op.row->images : Images::Plain;
  if (way == Images::Copied && !c.given) return run_copying(c);
  if ((way == Images::Read || op.kind == Kind::Reduction) && (!c.given || op.writes_self)) return run_reading(c);
  const Tensor* given = c.given ? last_images(*c.given) : nullptr;
  if (c.given && !given && !(op.elementwise && has_values(*c.given) && has_channels_last(*c.given))) return false;
  Lying lying;
  std::copy_n(c.args, c.nargs, lying.args);
  const bool along = way == Images::Along;
  const bool lies = op.elementwise ? lying.pointwise(c) : along ? lying.along(c) : lying.primitive(c);
  if (!lies) return false;
  Call run;
  run.op = c.op;
  run.args = lying.args;
  run.nargs = c.nargs;
  run.list_result = c.list_result;
  run.plain_images = lying.plain;
  if (c.given) {
    run.given = given ? lying.put(TensorRef::borrow(const_cast<Tensor*>(given))) : c.given;
    run.inplace = c.inplace;
  }
  run_on_memory(run);
  if (c.given) {
    c.out1 = TensorRef::borrow(c.given);
    return true;
  }
  auto seen = [&](TensorRef t) {
    if (along && t->ndim == 4) t = of_rows(*std::exchange(t, nullptr));
    if (!lying.plain) return t;
    return t->contiguous() || has_channels_last(*t) ? as_plain(std::move(t)) : contiguous(*t);
  };
  c.out1 = seen(std::move(run.out1));
  for (TensorRef& t : run.more) c.more.push_back(seen(std::move(t)));
  return true;
}

}  // namespace flambeau
