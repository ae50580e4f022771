// DLPack: tensors handed to other libraries and taken from them, over the same memory. The structures are the ones of
// the DLPack specification, versions 0.x ("dltensor" capsules) and 1.x ("dltensor_versioned").
#include <memory>

#include "../core/dlpack.h"
#include "../core/recording.h"
#include "../core/stamp.h"
#include "python.h"
#include "slot.h"

namespace flambeau {
namespace {

// --- the specification's structures ---------------------------------------------------------------------------------

struct Unversioned {
  DLTensor tensor;
  void* context;
  void (*deleter)(Unversioned*);
};
struct Versioned {
  uint32_t major, minor;
  void* context;
  void (*deleter)(Versioned*);
  uint64_t flags;
  DLTensor tensor;
};
enum : uint64_t { kReadOnly = 1, kIsCopy = 2 };

// --- out
// --------------------------------------------------------------------------------------------------------------

// What a consumer holds until it calls the deleter: the tensor, and the sizes the structure points to.
template <class Managed>
struct Export {
  Managed managed{};
  TensorRef tensor;
  std::vector<int64_t> dims;
};

template <class Managed>
void delete_export(Managed* m) {
  PyGILState_STATE lock = PyGILState_Ensure();  // the consumer may run without the interpreter's lock
  delete static_cast<Export<Managed>*>(m->context);
  PyGILState_Release(lock);
}

template <class Managed>
void destroy_capsule(PyObject* capsule, const char* name) {  // nobody consumed it
  if (!PyCapsule_IsValid(capsule, name)) return;
  auto* m = static_cast<Managed*>(PyCapsule_GetPointer(capsule, name));
  m->deleter(m);
}

template <class Managed>
Managed* describe(const Tensor& t) {
  auto e = std::make_unique<Export<Managed>>();
  e->tensor = alias(t);
  describe_for_dlpack(t, e->managed.tensor, e->dims);
  e->managed.deleter = delete_export<Managed>;
  e->managed.context = e.get();
  return &e.release()->managed;
}

// to_dlpack(tensor, versioned, copied) -> capsule
PyObject* to_dlpack(PyObject*, PyObject* const* a, Py_ssize_t n) {
  return guarded([&]() -> PyObject* {
    if (n != 3 || !is_tensor(a[0])) type_error("to_dlpack(): expected a Tensor");
    Tensor& t = *as_tensor(a[0]);
    auto refuse = [](const char* text) -> PyObject* {
      PyErr_SetString(PyExc_BufferError, text);
      return nullptr;
    };
    if (tensor_requires_grad(t)) return refuse("this tensor requires grad, which an exported one cannot; export "
                                               "x.detach()");
    if (t.level) return refuse("a tensor inside a transform (vmap, jvp …) has no memory of its own there");
    if (t.flags & kLazy) return refuse("the tensor's memory holds its conjugate or negative; export "
                                       "x.resolve_conj() or x.resolve_neg()");
    if (t.is_meta()) return refuse("Cannot pack tensors on meta: they have no memory");
    if (t.device.type != DeviceType::CPU && t.device.type != DeviceType::CUDA) 
      return refuse("the tensor's device has no number in DLPack; export x.cpu()");
    if (t.flags & kPending) need_memory(t);
    about_to_read(t);
    about_to_write(t);  // by whoever gets it
    bool readonly = t.storage && t.storage->readonly;
    if (a[1] != Py_True) {
      if (readonly)
        return refuse(
            "the tensor's memory is read-only, which only DLPack 1.0 can say: ask with max_version=(1, 0), or copy it");
      if (t.storage) give_address(*t.storage);
      return PyCapsule_New(describe<Unversioned>(t), "dltensor",
                           [](PyObject* c) { destroy_capsule<Unversioned>(c, "dltensor"); });
    }
    if (t.storage) give_address(*t.storage);
    Versioned* m = describe<Versioned>(t);
    m->major = 1;
    m->minor = 1;
    m->flags = (readonly ? uint64_t(kReadOnly) : 0) | (a[2] == Py_True ? uint64_t(kIsCopy) : 0);
    return PyCapsule_New(m, "dltensor_versioned",
                         [](PyObject* c) { destroy_capsule<Versioned>(c, "dltensor_versioned"); });
  });
}

// --- in
// ---------------------------------------------------------------------------------------------------------------

template <class Managed>
void free_import(Storage* s) {
  auto* m = static_cast<Managed*>(s->context);
  if (m->deleter) m->deleter(m);
}

template <class Managed>
TensorRef take(Managed* m, bool readonly) {
  TensorRef t = over_dlpack(m->tensor, readonly);
  t->storage->context = m;  // last: from here on the tensor owns it
  t->storage->free = free_import<Managed>;
  return t;
}

// from_dlpack(capsule) -> Tensor; the capsule is used up
PyObject* from_dlpack(PyObject*, PyObject* capsule) {
  return guarded([&]() -> PyObject* {
    if (PyCapsule_IsValid(capsule, "dltensor_versioned")) {
      auto* m = static_cast<Versioned*>(PyCapsule_GetPointer(capsule, "dltensor_versioned"));
      if (m->major > 1) {
        PyErr_Format(PyExc_BufferError, "from_dlpack: DLPack %u.%u is newer than the versions known here (1.x)",
                     m->major, m->minor);
        return nullptr;
      }
      TensorRef t = take(m, m->flags & kReadOnly);
      PyCapsule_SetName(capsule, "used_dltensor_versioned");
      return take_object(std::move(t));
    }
    if (!PyCapsule_IsValid(capsule, "dltensor"))
      runtime_error("from_dlpack: this capsule holds no tensor: it was used up by an earlier from_dlpack, or is "
                    "something else");
    TensorRef t = take(static_cast<Unversioned*>(PyCapsule_GetPointer(capsule, "dltensor")), false);
    PyCapsule_SetName(capsule, "used_dltensor");
    return take_object(std::move(t));
  });
}

PyMethodDef functions[] = {{"to_dlpack", method<to_dlpack>(), METH_FASTCALL, nullptr},
                           {"from_dlpack", slot<from_dlpack>, METH_O, nullptr},
                           {}};

}  // namespace

void add_dlpack(PyObject* module) { checked(PyModule_AddFunctions(module, functions)); }

}  // namespace flambeau
