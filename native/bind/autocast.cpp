// Autocast: inside it, operators marked "lower" compute in half precision and those marked "float32" in float32. Which
// operators are marked is flambeau/amp's table; here their arguments are converted before the call.
#include <unordered_map>

#include "python.h"
#include "slot.h"

namespace flambeau {

namespace {

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
  bool leaf = tls.autocast_caches && tls.grad_enabled && dtype == tls.autocast_dtype && t.dtype == DType::Float32 &&
              t.flags & kRequiresGrad && !t.grad_fn && !t.base && !t.level;
  if (!leaf) return to(t, dtype);
  auto found = converted.find(&t);
  if (found != converted.end() && found->second.half->dtype == dtype) return found->second.half;
  TensorRef half = to(t, dtype);
  converted[&t] = {TensorRef::borrow(&t), half};
  return half;
}

bool eligible(const Tensor* t, DType dtype) {
  return t && t->dtype != dtype && is_floating(t->dtype) && t->dtype != DType::Float64 &&
         t->device.type == DeviceType::CPU && !(t->flags & kWrappedNumber);
}

}  // namespace

void autocast_arguments(OpObject& op, Frame& f) {
  if (op.autocast == kAutocastAsIs || op.inplace || f.out) return;
  DType dtype = op.autocast == kAutocastLower ? tls.autocast_dtype : DType::Float32;
  for (size_t k = 0; k < op.def->schema.args.size(); ++k) {
    Value& v = f.values[k];
    if (v.tag == Tag::Tensor && eligible(v.tensor, dtype)) {
      f.objects[k] = f.keep(Held(take_object(cast(*v.tensor, dtype))));
      v.tensor = as_tensor(f.objects[k]);
    } else if (v.tag == Tag::Tensors) {
      f.more().tensors.push_back(std::make_unique<Tensor*[]>(size_t(v.tensors.size)));
      Tensor** list = f.more().tensors.back().get();
      Held objects = checked(PyTuple_New(Py_ssize_t(v.tensors.size)));
      for (int64_t j = 0; j < v.tensors.size; ++j) {
        Tensor* t = v.tensors.data[j];
        TensorRef r = eligible(t, dtype) ? cast(*t, dtype) : TensorRef::borrow(t);
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
  return Py_BuildValue("(NON)", PyBool_FromLong(tls.autocast_enabled), dtype_object(tls.autocast_dtype),
                       PyBool_FromLong(tls.autocast_caches));
}
// set_autocast_state(enabled, dtype, cache enabled)
PyObject* set_autocast_state(PyObject*, PyObject* args) {
  int enabled, cache;
  PyObject* dtype;
  if (!PyArg_ParseTuple(args, "pO!p", &enabled, DTypeType, &dtype, &cache)) return nullptr;
  tls.autocast_enabled = enabled;
  tls.autocast_dtype = reinterpret_cast<DTypeObject*>(dtype)->dtype;
  tls.autocast_caches = cache;
  Py_RETURN_NONE;
}
PyObject* clear_autocast_cache(PyObject*, PyObject*) {
  auto kept = std::exchange(converted, {});  // what it frees may run Python
  Py_RETURN_NONE;
}
// set_autocast_policy(op, 0 none, 1 lower, 2 float32, 3 as it is)
PyObject* set_autocast_policy(PyObject*, PyObject* args) {
  PyObject* op;
  int policy;
  if (!PyArg_ParseTuple(args, "O!i", OpType, &op, &policy)) return nullptr;
  reinterpret_cast<OpObject*>(op)->autocast = uint8_t(policy);
  Py_RETURN_NONE;
}

PyMethodDef functions[] = {{"autocast_state", slot<autocast_state>, METH_NOARGS, nullptr},
                           {"set_autocast_state", slot<set_autocast_state>, METH_VARARGS, nullptr},
                           {"clear_autocast_cache", slot<clear_autocast_cache>, METH_NOARGS, nullptr},
                           {"set_autocast_policy", slot<set_autocast_policy>, METH_VARARGS, nullptr},
                           {}};

}  // namespace

void add_autocast(PyObject* module) { checked(PyModule_AddFunctions(module, functions)); }

}  // namespace flambeau
