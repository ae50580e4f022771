// Memory that several processes use at once: SharedMemory maps a range of an open file, and tensors lie over it.
//
// Behind the bytes of the tensors the range holds 8 counters that all processes see:
//   0  messages on their way that name the range
//   1  mappings of it, in all processes (kept by Python, where a file holds many ranges)
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>

#include "python.h"
#include "slot.h"
#include "storage.h"

namespace flambeau {
namespace {

constexpr size_t kAlign = 64, kCounters = 8;

struct SharedMemory {
  PyObject_HEAD
  char* data;
  size_t nbytes;
  Storage* storage;  // the one over it while there is one: borrowed
  PyObject* weakrefs;
};
PyTypeObject* SharedMemoryType;

SharedMemory& self(PyObject* o) { return *reinterpret_cast<SharedMemory*>(o); }
size_t padded(size_t nbytes) { return (nbytes + kAlign - 1) / kAlign * kAlign; }
size_t with_counters(size_t nbytes) { return padded(nbytes) + kCounters * sizeof(int64_t); }

int64_t add(SharedMemory& m, size_t counter, int64_t n) {
  auto& value = reinterpret_cast<int64_t*>(m.data + padded(m.nbytes))[counter];
  return std::atomic_ref<int64_t>(value).fetch_add(n) + n;
}

// SharedMemory(fd, nbytes, offset=0)
PyObject* memory_new(PyTypeObject* type, PyObject* args, PyObject*) {
  int fd;
  Py_ssize_t nbytes;
  long long offset = 0;
  if (!PyArg_ParseTuple(args, "in|L", &fd, &nbytes, &offset)) return nullptr;
  if (nbytes < 0 || nbytes > PY_SSIZE_T_MAX / 2) value_error("SharedMemory: ", int64_t(nbytes),
                                                          " is no number of bytes");
  Held made = checked(type->tp_alloc(type, 0));
  void* data = mmap(nullptr, with_counters(size_t(nbytes)), PROT_READ | PROT_WRITE, MAP_SHARED, fd, offset);
  if (data == MAP_FAILED) return PyErr_SetFromErrno(PyExc_OSError);
  self(made.p).data = static_cast<char*>(data);
  self(made.p).nbytes = size_t(nbytes);
  return made.give();
}

void memory_dealloc(PyObject* o) {
  SharedMemory& m = self(o);
  if (m.weakrefs) PyObject_ClearWeakRefs(o);
  if (m.data) munmap(m.data, with_counters(m.nbytes));
  PyTypeObject* type = Py_TYPE(o);
  type->tp_free(o);
  Py_DECREF(type);
}

void free_shared(Storage* s) {
  auto* memory = static_cast<SharedMemory*>(s->context);
  memory->storage = nullptr;
  Py_DECREF(reinterpret_cast<PyObject*>(memory));
}

// tensor(): the bytes as a uint8 tensor; all tensors of one process have one storage.
PyObject* memory_tensor(PyObject* o, PyObject*) {
  return guarded([&] {
    SharedMemory& m = self(o);
    TensorRef t = TensorRef::steal(allocate_tensor());
    int64_t shape[] = {int64_t(m.nbytes)};
    t->dtype = DType::UInt8;
    set_contiguous_dims(*t, shape);
    if (m.storage) {
      retain(m.storage);
    } else {
      m.storage = blank_storage();
      m.storage->data = m.data;
      m.storage->nbytes = m.nbytes;
      m.storage->resizable = false;
      m.storage->free = free_shared;
      m.storage->context = Py_NewRef(o);
    }
    t->storage = m.storage;
    t->device = m.storage->device;
    t->data = m.data;
    return take_object(std::move(t));
  });
}

// add(counter, n): adds to a counter as one step for all processes; returns its new value.
PyObject* memory_add(PyObject* o, PyObject* args) {
  Py_ssize_t counter;
  long long n;
  if (!PyArg_ParseTuple(args, "nL", &counter, &n)) return nullptr;
  if (counter < 0 || size_t(counter) >= kCounters)
    value_error("SharedMemory.add: there is no counter ", int64_t(counter));
  return PyLong_FromLongLong(add(self(o), size_t(counter), n));
}

// remove(): gives the pages back, for all processes.
PyObject* memory_remove(PyObject* o, PyObject*) {
  const size_t page = size_t(sysconf(_SC_PAGESIZE)), room = with_counters(self(o).nbytes);
  if (madvise(self(o).data, (room + page - 1) / page * page, MADV_REMOVE) != 0)
    return PyErr_SetFromErrno(PyExc_OSError);
  Py_RETURN_NONE;
}

PyObject* memory_nbytes(PyObject* o, void*) { return PyLong_FromSize_t(self(o).nbytes); }

// shared_memory_of(t): the SharedMemory that t lies over, or None.
PyObject* shared_memory_of(PyObject*, PyObject* o) {
  return guarded([&]() -> PyObject* {
    if (!is_tensor(o)) type_error("shared_memory_of: expected a Tensor, got ", Py_TYPE(o)->tp_name);
    Storage* s = as_tensor(o)->storage;
    if (!s || s->free != free_shared) Py_RETURN_NONE;
    return Py_NewRef(static_cast<PyObject*>(s->context));
  });
}

// shared_room(nbytes): bytes of a file that so many bytes take, with the counters.
PyObject* shared_room(PyObject*, PyObject* o) {
  size_t nbytes = PyLong_AsSize_t(o);
  if (PyErr_Occurred()) return nullptr;
  return PyLong_FromSize_t(with_counters(nbytes));
}

PyMethodDef methods[] = {
    {"tensor", slot<memory_tensor>, METH_NOARGS, "tensor($self, /)\n--\n\nThe bytes as a uint8 tensor."},
    {"remove", slot<memory_remove>, METH_NOARGS, "remove($self, /)\n--\n\nGives the pages back, for all processes."},
    {"add", slot<memory_add>, METH_VARARGS,
     "add($self, counter, n, /)\n--\n\nAdds to a counter, as one step for all processes; returns its new value."},
    {}};
PyGetSetDef getset[] = {{"nbytes", slot<memory_nbytes>, nullptr, "Bytes for tensors."}, {}};
PyMemberDef members[] = {{"__weaklistoffset__", T_PYSSIZET, offsetof(SharedMemory, weakrefs), READONLY}, {}};
PyType_Slot slots[] = {{Py_tp_new, type_slot<memory_new>()}, {Py_tp_dealloc, type_slot<memory_dealloc>()},
                       {Py_tp_methods, methods}, {Py_tp_getset, getset}, {Py_tp_members, members},
                       {Py_tp_doc, (void*)"SharedMemory(fd, nbytes, offset=0)\n--\n\n"
                                          "A range of an open file, mapped so that all processes see what one writes."},
                       {}};
PyType_Spec spec = {"flambeau._C.SharedMemory", sizeof(SharedMemory), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
                    slots};
PyMethodDef functions[] = {{"shared_memory_of", slot<shared_memory_of>, METH_O, nullptr},
                           {"shared_room", slot<shared_room>, METH_O, nullptr},
                           {}};

}  // namespace

void add_shared_memory(PyObject* module) {
  SharedMemoryType = reinterpret_cast<PyTypeObject*>(checked(PyType_FromSpec(&spec)).give());
  checked(PyModule_AddObjectRef(module, "SharedMemory", reinterpret_cast<PyObject*>(SharedMemoryType)));
  if (PyModule_AddFunctions(module, functions) < 0) throw PythonError();
}

}  // namespace flambeau
