#include "recording.h"

#include <algorithm>

namespace flambeau {

// kernels/elementwise.cpp
void describe_elementwise(Call& c, const ElementwiseRow& row, Promote promote);

namespace {

// While kept calls run, nothing is recorded.
struct Unrecorded {
  Recorder* before = exchange_recorder(nullptr);
  ~Unrecorded() { exchange_recorder(before); }
};

template <class T>
const T* keep_list(std::vector<std::vector<T>>& all, const T* data, int64_t n) {
  return all.emplace_back(data, data + n).data();
}

}  // namespace

Recorder* exchange_recorder(Recorder* next) {
  tls.dispatch_modes += (next != nullptr) - (tls.recorder != nullptr);
  return std::exchange(tls.recorder, next);
}
void about_to_write(const Tensor& t) {
  if (tls.recorder) tls.recorder->before_write(t);
}

void about_to_read(const Tensor& t) {
  if (tls.recorder) tls.recorder->before_read(t);
}
void about_to_draw() {
  if (tls.recorder) tls.recorder->before_draw();
}

bool reads_values(const Call& c) {
  if (!c.op->row || c.op->row->reads == Infer::Pure) return false;
  if (c.op->row->reads == Infer::ReadsValues) return true;
  for (int k = 0; k < c.nargs; ++k)
    for (int64_t j = 0; c.args[k].tag == Tag::Tensors && j < c.args[k].tensors.size; ++j)
      if (const Tensor* t = c.args[k].tensors.data[j]; t && (t->dtype == DType::Bool || t->dtype == DType::UInt8))
        return true;
  return false;
}
bool can_describe(const Call& c) {
  const OpDef& op = *c.op;
  if (op.schema.nresults == 0 && !op.schema.list_result && !op.writes_more) return false;  // who knows what it does
  for (int k = 0; k < c.nargs; ++k) {
    const Value& v = c.args[k];
    if (v.tag == Tag::Tensor && v.tensor->is_meta()) return false;
    if (v.tag == Tag::Device && v.device.type == DeviceType::Meta) return false;
    for (int64_t j = 0; v.tag == Tag::Tensors && j < v.tensors.size; ++j)
      if (v.tensors.data[j] && v.tensors.data[j]->is_meta()) return false;
  }
  return !reads_values(c);
}
bool can_wait(const Call& c) {
  bool writes = c.given || c.inplace;
  each_written(c, [&](const Tensor&) { writes = true; });
  return !writes && !c.op->random && can_describe(c);
}

void describe(Call& c) {
  c.describes = true;
  if (c.op->elementwise) describe_elementwise(c, *c.op->elementwise, c.op->promote);
  else c.op->row->infer(c);
  c.describes = false;
}

KeptCall::KeptCall(const Call& c) : values_(c.args, c.args + c.nargs) {
  call_.op = c.op;
  call_.list_result = c.list_result;
  call_.nargs = c.nargs;
  for (Value& v : values_) {
    switch (v.tag) {
      case Tag::Tensor: v.tensor = keep(v.tensor); break;
      case Tag::Tensors: {
        auto& list = lists_.emplace_back(v.tensors.data, v.tensors.data + v.tensors.size);
        for (Tensor*& t : list) t = keep(t);
        v.tensors.data = list.data();
        break;
      }
      case Tag::Ints:
      case Tag::Bools: v.ints.data = keep_list(ints_, v.ints.data, v.ints.size); break;
      case Tag::Floats: v.floats.data = keep_list(floats_, v.floats.data, v.floats.size); break;
      case Tag::Str:
        v.str.data = strings_.emplace_back(std::make_unique<std::string>(v.str.data, v.str.size))->data();
        break;
      case Tag::Generator:
      case Tag::Object:
        if (v.object) retain(objects_.emplace_back(static_cast<Object*>(v.object)));
        break;
      default: break;
    }
  }
  call_.args = values_.data();
  for (int k = 0; k < c.nout(); ++k) {
    Storage* s = c.out(k).storage;
    bool fresh = s && is_pending(*s) && !pending_of(*s);
    waiting_.push_back(fresh && std::find(waiting_.begin(), waiting_.end(), s) == waiting_.end() ? s : nullptr);
  }
}

KeptCall::~KeptCall() {
  for (Object* o : objects_) release(o);
}

Tensor* KeptCall::keep(Tensor* t) {
  if (t) tensors_.push_back({TensorRef::borrow(t), t->storage ? t->storage->version : 0});
  return t;
}

bool KeptCall::reads(const Storage& s) const {
  return std::ranges::any_of(tensors_, [&](const Argument& a) { return a.tensor->storage == &s; });
}
int KeptCall::fresh_results() const { return int(std::ranges::count_if(waiting_, [](Storage* s) { return s; })); }
void KeptCall::for_each_fresh(void (*f)(void*, Storage&), void* context) {
  for (Storage* s : waiting_)
    if (s) f(context, *s);
}
void KeptCall::forget(const Storage& s) { std::ranges::replace(waiting_, const_cast<Storage*>(&s), nullptr); }

void KeptCall::run() {
  for (const Argument& a : tensors_)
    if (a.tensor->storage && a.tensor->storage->version != a.version)
      runtime_error(call_.name(), ": an argument of shape ", shape_text(a.tensor->shape()),
                    " was written to after the call was recorded and before it ran");
  Unrecorded off;
  Call c;
  c.op = call_.op;
  c.args = call_.args;
  c.nargs = call_.nargs;
  c.list_result = call_.list_result;
  execute(c);
  for (int k = 0; k < int(waiting_.size()); ++k)
    if (Storage* s = std::exchange(waiting_[k], nullptr)) adopt(*s, *c.out(k).storage);
}

}  // namespace flambeau
