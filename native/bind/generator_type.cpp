// flambeau.Generator: the random engine as a Python object.
#include "../core/device_table.h"
#include "../core/generator.h"
#include "../core/recording.h"

#include <new>

#include "python.h"
#include "slot.h"
#include "upward.h"

namespace flambeau {

PyTypeObject* GeneratorType;

namespace {

Generator& self(PyObject* o) { return *reinterpret_cast<Generator*>(o); }

Generator* new_generator() {
  auto* g = reinterpret_cast<Generator*>(GeneratorType->tp_alloc(GeneratorType, 0));
  if (!g) throw PythonError();
  Object header = *g;  // the constructor sets everything else
  new (g) Generator();
  static_cast<Object&>(*g) = header;
  g->weakrefs = nullptr;
  return g;
}

PyObject* generator_new(PyTypeObject*, PyObject* args, PyObject* kwargs) {
  static const char* names[] = {"device", nullptr};
  PyObject* device = nullptr;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|O", const_cast<char**>(names), &device)) return nullptr;
  return guarded([&]() -> PyObject* {
    const Device d = device ? placed(parse_device(device)) : Device{};
    if (d.type != DeviceType::CPU && (d.type != DeviceType::CUDA || !has_device(d)))
      runtime_error("Generator: only device=\"cpu\" is available, got ", device_name(d));
    Generator* g = new_generator();
    g->device = d;
    return py(g);
  });
}
void generator_dealloc(PyObject* o) {
  PyTypeObject* type = Py_TYPE(o);
  if (self(o).weakrefs) PyObject_ClearWeakRefs(o);
  type->tp_free(o);
  Py_DECREF(type);
}

size_t state_bytes(const Generator& g) {
  return g.device.type == DeviceType::CUDA ? kPhiloxStateBytes : kGeneratorStateBytes;
}

// The generator, after everything that was to draw from it before.
Generator& ready(PyObject* o) {
  if (&self(o) == &default_generator()) about_to_draw();
  return self(o);
}

PyObject* manual_seed(PyObject* o, PyObject* seed) {
  return guarded([&] {
    Held index = checked(PyNumber_Index(seed));
    int overflow;
    long long s = PyLong_AsLongLongAndOverflow(index.p, &overflow);
    if (overflow) {
      s = (long long)PyLong_AsUnsignedLongLong(index.p);
      if (PyErr_Occurred()) {
        PyErr_Clear();
        fail(ErrorKind::Value, "manual_seed: a seed has at most 64 bits");
      }
    }
    std::lock_guard guard(ready(o).busy);
    self(o).manual_seed(uint64_t(s));
    return Py_NewRef(o);
  });
}
PyObject* seed(PyObject* o, PyObject*) {
  return guarded([&] {
    uint64_t s = random_seed();
    std::lock_guard guard(ready(o).busy);
    self(o).manual_seed(s);
    return PyLong_FromUnsignedLongLong(s);
  });
}
PyObject* initial_seed(PyObject* o, PyObject*) {
  return guarded([&] {
    std::lock_guard guard(self(o).busy);
    return PyLong_FromUnsignedLongLong(self(o).seed);
  });
}
PyObject* get_state(PyObject* o, PyObject*) {
  return guarded([&] {
    int64_t shape[] = {int64_t(state_bytes(self(o)))};
    TensorRef t = empty(shape, DType::UInt8);
    std::lock_guard guard(ready(o).busy);
    generator_state(self(o), t->ptr<uint8_t>());
    return take_object(std::move(t));
  });
}
PyObject* set_state(PyObject* o, PyObject* state) {
  return guarded([&] {
    if (!is_tensor(state) || as_tensor(state)->dtype != DType::UInt8) type_error("the state of a generator must be a "
        "uint8 tensor, as get_state() returns it");
    need_values(*as_tensor(state));
    TensorRef t = contiguous(*as_tensor(state));
    std::lock_guard guard(ready(o).busy);
    set_generator_state(self(o), t->ptr<uint8_t>(), size_t(t->numel));
    return Py_NewRef(o);
  });
}
PyObject* clone_state(PyObject* o, PyObject*) {
  return guarded([&] {
    Generator* g = new_generator();
    g->device = self(o).device;
    std::vector<uint8_t> bytes(state_bytes(self(o)));
    std::lock_guard guard(ready(o).busy);
    generator_state(self(o), bytes.data());
    set_generator_state(*g, bytes.data(), bytes.size());
    g->seed = self(o).seed;
    return py(g);
  });
}
// A CUDA generator's numbers are counted: what is not drawn yet can be reached by its place.
Generator& philox(PyObject* o, const char* what) {
  if (self(o).device.type != DeviceType::CUDA)
    not_implemented(what, ": only a CUDA device's generator counts its numbers; use get_state and set_state");
  return self(o);
}
PyObject* get_offset(PyObject* o, PyObject*) {
  return guarded([&] { return PyLong_FromUnsignedLongLong(philox(o, "Generator.get_offset").offset); });
}
PyObject* set_offset(PyObject* o, PyObject* value) {
  return guarded([&] {
    Generator& g = philox(o, "Generator.set_offset");
    const int64_t offset = integer_of(value);
    if (offset < 0 || offset % 4) runtime_error("Generator.set_offset: expected a multiple of 4, got ", offset);
    g.offset = uint64_t(offset);
    return Py_NewRef(o);
  });
}
PyObject* get_device(PyObject* o, void*) { return device_object(self(o).device); }
PyObject* reduce(PyObject* o, PyObject*) {
  Held state(get_state(o, nullptr));
  if (!state) return nullptr;
  Held copyreg(PyImport_ImportModule("flambeau.random"));
  if (!copyreg) return nullptr;
  Held rebuild(PyObject_GetAttrString(copyreg.p, "_rebuild_generator"));
  if (!rebuild) return nullptr;
  return Py_BuildValue("(O(ON))", rebuild.p, state.p, device_object(self(o).device));
}

PyMethodDef methods[] = {
    {"manual_seed", slot<manual_seed>, METH_O,
     "manual_seed($self, seed, /)\n--\n\nStarts the stream of that seed; returns self."},
    {"seed", slot<seed>, METH_NOARGS, "seed($self, /)\n--\n\nSeeds from the system's entropy; returns the seed."},
    {"initial_seed", slot<initial_seed>, METH_NOARGS,
     "initial_seed($self, /)\n--\n\nThe seed the stream was started with."},
    {"get_state", slot<get_state>, METH_NOARGS, "get_state($self, /)\n--\n\nThe state as a uint8 tensor."},
    {"set_state", slot<set_state>, METH_O,
     "set_state($self, state, /)\n--\n\nContinues from a state got by get_state."},
    {"clone_state", slot<clone_state>, METH_NOARGS, "clone_state($self, /)\n--\n\nA new generator in the same state."},
    {"get_offset", slot<get_offset>, METH_NOARGS,
     "get_offset($self, /)\n--\n\nHow many numbers of a CUDA generator's stream are used up."},
    {"set_offset", slot<set_offset>, METH_O,
     "set_offset($self, offset, /)\n--\n\nGoes to a place of a CUDA generator's stream, a multiple of 4."},
    {"__reduce__", slot<reduce>, METH_NOARGS},
    {}};
PyGetSetDef getset[] = {{"device", slot<get_device>, nullptr, "Where its numbers are drawn."}, {}};
PyMemberDef members[] = {{"__weaklistoffset__", T_PYSSIZET, offsetof(Generator, weakrefs), READONLY}, {}};
PyType_Slot slots[] = {
    {Py_tp_new, type_slot<generator_new>()},
    {Py_tp_dealloc, type_slot<generator_dealloc>()},
    {Py_tp_methods, methods},
    {Py_tp_getset, getset},
    {Py_tp_members, members},
    {Py_tp_doc, (void*)"Generator(device=None)\n--\n\n"
                       "A stream of random numbers: MT19937, the same numbers as PyTorch for the same seed."},
    {}};
PyType_Spec spec = {"flambeau.Generator", sizeof(Generator), 0, Py_TPFLAGS_DEFAULT, slots};

}  // namespace

Generator* upward::allocate_generator() { return new_generator(); }

void add_generator_type(PyObject* module) {
  GeneratorType = reinterpret_cast<PyTypeObject*>(checked(PyType_FromSpec(&spec)).give());
  checked(PyModule_AddObjectRef(module, "Generator", (PyObject*)GeneratorType));
  checked(PyModule_AddObjectRef(module, "default_generator", py(&default_generator())));
}

}  // namespace flambeau
