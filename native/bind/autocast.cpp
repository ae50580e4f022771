// Autocast: inside it, operators marked "lower" compute in half precision and those marked "float32" in float32. Which
// operators are marked is flambeau/amp's table; here their arguments are converted before the call.
#include <unordered_map>

#include "python.h"
#include "slot.h"

namespace flambeau {

namespace {

enum : unsigned { kCpu = 1, kCuda = 2 };  // bits of tls.autocast_kinds
constexpr uint8_t kOnCuda = kAutocastAsIs + 1;  // float32 on CUDA, as it comes on the CPU

// float32 leaves (weights) already converted, until the outermost context is left; both tensors are kept alive
struct Converted {
  TensorRef leaf, half;
};
// never destroyed: at the end of the process there is no interpreter any more to release tensors to
thread_local auto& converted = *new std::unordered_map<Tensor*, Converted>;

TensorRef to(Tensor& t, DType dtype) {
  static OpHandle copy{"_to_copy"};
  Value target;
  target.tag = Tag::DType;
  target.dtype = dtype;
  return invoke(copy, {Value(&t), target});
}

TensorRef cast(Tensor& t, DType dtype) {
  bool leaf = tls.autocast_caches && tls.grad_enabled && dtype != DType::Float32 && t.dtype == DType::Float32 &&
              t.flags & kRequiresGrad && !t.grad_fn && !t.base && !t.level;
  if (!leaf) return to(t, dtype);
  auto found = converted.find(&t);
  if (found != converted.end() && found->second.half->dtype == dtype) return found->second.half;
  TensorRef half = to(t, dtype);
  converted[&t] = {TensorRef::borrow(&t), half};
  return half;
}

// What an argument is converted to for an operator of that kind; Undefined: it stays.
DType wanted(const Tensor* t, uint8_t policy) {
  if (!t || !is_floating(t->dtype) || t->dtype == DType::Float64 || t->flags & kWrappedNumber) return DType::Undefined;
  const bool cuda = t->device.type == DeviceType::CUDA;
  const unsigned kind = cuda ? kCuda : t->device.type == DeviceType::CPU ? kCpu : 0;
  if (!(tls.autocast_kinds & kind)) return DType::Undefined;
  if (policy == kOnCuda && !cuda) return DType::Undefined;
  const DType lower = cuda ? tls.autocast_cuda_dtype : tls.autocast_dtype;
  const DType dtype = policy == kAutocastLower ? lower : DType::Float32;
  return t->dtype == dtype ? DType::Undefined : dtype;
}

void turn(unsigned kind, bool on) {
  tls.autocast_kinds = uint8_t(on ? tls.autocast_kinds | kind : tls.autocast_kinds & ~kind);
  tls.autocast_enabled = tls.autocast_kinds != 0;
}

}  // namespace

bool autocast_applies(const OpObject& op) { return op.autocast != kOnCuda || tls.autocast_kinds & kCuda; }

void autocast_arguments(OpObject& op, Frame& f) {
  if (op.autocast == kAutocastAsIs || op.inplace || f.out) return;
  for (size_t k = 0; k < op.def->schema.args.size(); ++k) {
    Value& v = f.values[k];
    if (v.tag == Tag::Tensor) {
      const DType dtype = wanted(v.tensor, op.autocast);
      if (dtype == DType::Undefined) continue;
      f.objects[k] = f.keep(Held(take_object(cast(*v.tensor, dtype))));
      v.tensor = as_tensor(f.objects[k]);
    } else if (v.tag == Tag::Tensors) {
      f.more().tensors.push_back(std::make_unique<Tensor*[]>(size_t(v.tensors.size)));
      Tensor** list = f.more().tensors.back().get();
      Held objects = checked(PyTuple_New(Py_ssize_t(v.tensors.size)));
      for (int64_t j = 0; j < v.tensors.size; ++j) {
        Tensor* t = v.tensors.data[j];
        const DType dtype = wanted(t, op.autocast);
        TensorRef r = dtype != DType::Undefined ? cast(*t, dtype) : TensorRef::borrow(t);
        list[j] = r.get();
        PyTuple_SET_ITEM(objects.p, Py_ssize_t(j), r ? take_object(std::move(r)) : Py_NewRef(Py_None));
      }
      v.tensors.data = list;
      f.objects[k] = f.keep(std::move(objects));
    }
  }
}

namespace {

// autocast_state() -> (enabled, dtype, cache enabled)
PyObject* autocast_state(PyObject*, PyObject*) {
  const bool on = tls.autocast_enabled && tls.autocast_kinds & kCpu;
  return Py_BuildValue("(NON)", PyBool_FromLong(on), dtype_object(tls.autocast_dtype),
                       PyBool_FromLong(tls.autocast_caches));
}
// set_autocast_state(enabled, dtype, cache enabled)
PyObject* set_autocast_state(PyObject*, PyObject* args) {
  int enabled, cache;
  PyObject* dtype;
  if (!PyArg_ParseTuple(args, "pO!p", &enabled, DTypeType, &dtype, &cache)) return nullptr;
  turn(kCpu, enabled);
  tls.autocast_dtype = reinterpret_cast<DTypeObject*>(dtype)->dtype;
  tls.autocast_caches = cache;
  Py_RETURN_NONE;
}
// cuda_autocast_state() -> (enabled, dtype); set_cuda_autocast_state(enabled, dtype)
PyObject* cuda_autocast_state(PyObject*, PyObject*) {
  const bool on = tls.autocast_enabled && tls.autocast_kinds & kCuda;
  return Py_BuildValue("(NO)", PyBool_FromLong(on), dtype_object(tls.autocast_cuda_dtype));
}
PyObject* set_cuda_autocast_state(PyObject*, PyObject* args) {
  int enabled;
  PyObject* dtype;
  if (!PyArg_ParseTuple(args, "pO!", &enabled, DTypeType, &dtype)) return nullptr;
  turn(kCuda, enabled);
  tls.autocast_cuda_dtype = reinterpret_cast<DTypeObject*>(dtype)->dtype;
  Py_RETURN_NONE;
}
PyObject* clear_autocast_cache(PyObject*, PyObject*) {
  auto kept = std::exchange(converted, {});  // what it frees may run Python
  Py_RETURN_NONE;
}
// set_autocast_policy(op, 0 none, 1 lower, 2 float32, 3 as it is, 4 float32 on CUDA only)
PyObject* set_autocast_policy(PyObject*, PyObject* args) {
  PyObject* op;
  int policy;
  if (!PyArg_ParseTuple(args, "O!i", OpType, &op, &policy)) return nullptr;
  reinterpret_cast<OpObject*>(op)->autocast = uint8_t(policy);
  Py_RETURN_NONE;
}

PyMethodDef functions[] = {{"autocast_state", slot<autocast_state>, METH_NOARGS, nullptr},
                           {"set_autocast_state", slot<set_autocast_state>, METH_VARARGS, nullptr},
                           {"cuda_autocast_state", slot<cuda_autocast_state>, METH_NOARGS, nullptr},
                           {"set_cuda_autocast_state", slot<set_cuda_autocast_state>, METH_VARARGS, nullptr},
                           {"clear_autocast_cache", slot<clear_autocast_cache>, METH_NOARGS, nullptr},
                           {"set_autocast_policy", slot<set_autocast_policy>, METH_VARARGS, nullptr},
                           {}};

}  // namespace

void add_autocast(PyObject* module) { checked(PyModule_AddFunctions(module, functions)); }

}  // namespace flambeau
