// The native base of nn.Module: decides how `module.name` is looked up and what `module(x)` runs.
//
// An attribute is searched on the type, in the instance, then among parameters, buffers and submodules, all without a
// failing lookup on the way. A call goes straight to the type's `forward`; only an instance whose __dict__ may have
// gained hooks (`look`) is examined first. Everything rare is a Python method of nn.Module: `_own_assign` registers
// parameters, buffers and submodules, `_own_call_hooked` runs hooks, `_own_locate` adds the module's path to an
// exception.
#include "module_base.h"

#include "origin.h"
#include "slot.h"

#include <Python.h>
#include <structmember.h>

#include <cstddef>
#include <vector>

namespace flambeau {
namespace {

struct ModuleObject {
  PyObject_HEAD
  PyObject* dict;
  PyObject* weakrefs;
  vectorcallfunc vectorcall;
  PyObject* handle;  // a weak reference to this module, once a graph node wanted one
  bool begun;  // Module.__init__ has run
  bool look;  // __dict__ was handed out or something unusual was assigned: hooks may be there
};

PyTypeObject* module_type = nullptr;
bool global_hooks = false;  // hooks of all modules are registered

// Interned names, made once in add_module_base.
struct {
  PyObject *parameters, *buffers, *modules, *not_persistent, *forward, *call, *getattr, *getattribute, *assign,
      *call_hooked, *locate, *name, *obj;
  PyObject* hooks[4];
  PyObject *own_getattr, *own_getattribute;  // what a type finds that overrides neither
} names;

ModuleObject* cast(PyObject* o) { return reinterpret_cast<ModuleObject*>(o); }

// table[name] as a new reference; null without an error when absent.
PyObject* lookup(PyObject* table, PyObject* name) {
  if (PyDict_CheckExact(table)) {
    PyObject* found = PyDict_GetItemWithError(table, name);
    Py_XINCREF(found);
    return found;
  }
  if (PyMapping_Check(table)) {  // a mapping with its own __getitem__
    PyObject* found = PyObject_GetItem(table, name);
    if (!found && PyErr_ExceptionMatches(PyExc_KeyError)) PyErr_Clear();
    return found;
  }
  return nullptr;
}

// The table (borrowed) among parameters, buffers and submodules that has `name`; null, perhaps with an error.
PyObject* registered(ModuleObject* self, PyObject* name, PyObject** value) {
  PyObject* const keys[] = {names.parameters, names.buffers, names.modules};
  for (PyObject* key : keys) {
    PyObject* table = PyDict_GetItemWithError(self->dict, key);
    if (!table) {
      if (PyErr_Occurred()) return nullptr;
      continue;
    }
    PyObject* found = lookup(table, name);
    if (found) {
      *value = found;
      return table;
    }
    if (PyErr_Occurred()) return nullptr;
  }
  return nullptr;
}

PyObject* missing(PyObject* o, PyObject* name) {
  if (PyErr_Occurred()) return nullptr;
  PyErr_Format(PyExc_AttributeError, "'%.200s' object has no attribute '%U'", Py_TYPE(o)->tp_name, name);
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  PyErr_NormalizeException(&type, &value, &trace);
  // with these, Python itself suggests a name that is nearly the same
  if (value && (PyObject_SetAttr(value, names.name, name) < 0 || PyObject_SetAttr(value, names.obj, o) < 0))
    PyErr_Clear();
  PyErr_Restore(type, value, trace);
  return nullptr;
}

void check_name(PyObject* name) {  // a slot that is called by its name is given anything
  if (!PyUnicode_Check(name))
    type_error("Module: the name of an attribute must be a str, not ", Py_TYPE(name)->tp_name);
}

// A property that raises AttributeError gives way to what is registered under its name, as __getattr__ is asked then.
PyObject* or_registered(PyObject* result, PyObject* o, PyObject* name) {
  if (result || !PyErr_ExceptionMatches(PyExc_AttributeError)) return result;
  PyObject *type, *value, *trace, *found = nullptr;
  PyErr_Fetch(&type, &value, &trace);
  if (!registered(cast(o), name, &found) && !PyErr_Occurred()) {
    PyErr_Restore(type, value, trace);
    return nullptr;
  }
  Py_XDECREF(type);
  Py_XDECREF(value);
  Py_XDECREF(trace);
  return found;
}

PyObject* module_getattro(PyObject* o, PyObject* name) {
  check_name(name);
  PyTypeObject* type = Py_TYPE(o);
  PyObject* descr = _PyType_Lookup(type, name);
  descrgetfunc get = nullptr;
  if (descr) {
    Py_INCREF(descr);
    get = Py_TYPE(descr)->tp_descr_get;
    if (get && PyDescr_IsData(descr)) {
      PyObject* result = or_registered(get(descr, o, reinterpret_cast<PyObject*>(type)), o, name);
      Py_DECREF(descr);
      return result;
    }
  }
  PyObject* found = PyDict_GetItemWithError(cast(o)->dict, name);
  if (found) {
    Py_INCREF(found);
    Py_XDECREF(descr);
    return found;
  }
  if (PyErr_Occurred()) {
    Py_XDECREF(descr);
    return nullptr;
  }
  if (descr) {
    if (!get) return descr;
    PyObject* result = or_registered(get(descr, o, reinterpret_cast<PyObject*>(type)), o, name);
    Py_DECREF(descr);
    return result;
  }
  return registered(cast(o), name, &found) ? found : missing(o, name);
}

// __getattr__(name), for subclasses that override it and ask super().
PyObject* module_getattr(PyObject* o, PyObject* name) {
  check_name(name);
  PyObject* found = nullptr;
  return registered(cast(o), name, &found) ? found : missing(o, name);
}

bool plain(PyObject* value) {  // never a parameter, a buffer, a module, a hook or a function
  PyTypeObject* t = Py_TYPE(value);
  return t == &PyLong_Type || t == &PyBool_Type || t == &PyFloat_Type || t == &PyUnicode_Type || t == &PyTuple_Type ||
         t == &PyList_Type || value == Py_None;
}

// __setattr__ is a method and not the slot, so that object.__setattr__(module, …) stays allowed, as users expect.
PyObject* module_setattr(PyObject* o, PyObject* const* args, Py_ssize_t nargs) {
  if (nargs != 2) {
    PyErr_Format(PyExc_TypeError, "__setattr__ expected 2 arguments, got %zd", nargs);
    return nullptr;
  }
  check_name(args[0]);
  if (plain(args[1])) {
    PyObject* old = nullptr;
    if (!registered(cast(o), args[0], &old)) {
      if (PyErr_Occurred() || PyObject_GenericSetAttr(o, args[0], args[1]) < 0) return nullptr;
      Py_RETURN_NONE;
    }
    Py_DECREF(old);
  }
  cast(o)->look = true;
  PyObject* const full[] = {o, args[0], args[1]};
  return PyObject_VectorcallMethod(names.assign, full, 3, nullptr);
}

PyObject* module_delattr(PyObject* o, PyObject* name) {
  check_name(name);
  PyObject* value = nullptr;
  PyObject* table = registered(cast(o), name, &value);
  if (table) {
    Py_INCREF(table);
    bool failed = PyObject_DelItem(table, name) < 0;
    Py_DECREF(table);
    Py_DECREF(value);
    if (failed) return nullptr;
    PyObject* set = PyDict_GetItemWithError(cast(o)->dict, names.not_persistent);
    if (set && PySet_Check(set) && PySet_Discard(set, name) < 0) return nullptr;
    Py_RETURN_NONE;
  }
  if (PyErr_Occurred() || PyObject_GenericSetAttr(o, name, nullptr) < 0) return nullptr;
  Py_RETURN_NONE;
}

// ---- calling
// ---------------------------------------------------------------------------------------------------------

// method(self, *args, **kw) where `method` was found on the type.
PyObject* call_method(PyObject* method, PyObject* self, PyObject* const* args, size_t nargsf, PyObject* kwnames) {
  if (!(Py_TYPE(method)->tp_flags & Py_TPFLAGS_METHOD_DESCRIPTOR)) {
    descrgetfunc get = Py_TYPE(method)->tp_descr_get;
    if (!get) return PyObject_Vectorcall(method, args, nargsf, kwnames);
    PyObject* bound = get(method, self, reinterpret_cast<PyObject*>(Py_TYPE(self)));
    if (!bound) return nullptr;
    PyObject* result = PyObject_Vectorcall(bound, args, nargsf, kwnames);
    Py_DECREF(bound);
    return result;
  }
  Py_ssize_t nargs = PyVectorcall_NARGS(nargsf);
  if (nargsf & PY_VECTORCALL_ARGUMENTS_OFFSET) {  // the caller lends the slot before the first argument
    PyObject** slot = const_cast<PyObject**>(args) - 1;
    PyObject* kept = *slot;
    *slot = self;
    PyObject* result = PyObject_Vectorcall(method, slot, size_t(nargs + 1), kwnames);
    *slot = kept;
    return result;
  }
  size_t total = size_t(nargs) + (kwnames ? size_t(PyTuple_GET_SIZE(kwnames)) : 0);
  std::vector<PyObject*> full;
  full.reserve(total + 1);
  full.push_back(self);
  full.insert(full.end(), args, args + total);
  return PyObject_Vectorcall(method, full.data(), size_t(nargs + 1), kwnames);
}

// Whether Module.__init__ has run; else AttributeError.
bool begun(PyObject* o) {
  if (PyDict_GetItemWithError(cast(o)->dict, names.modules)) return cast(o)->begun = true;
  if (!PyErr_Occurred())
    PyErr_Format(PyExc_AttributeError,
                 "'%.200s' object has no attribute '_modules': it is called before Module.__init__(); begin __init__ "
                 "with super().__init__()",
                 Py_TYPE(o)->tp_name);
  return false;
}

// Whether hooks are to be run; forgets `look` when nobody can have put any into __dict__ unseen.
bool has_hooks(ModuleObject* self) {
  bool present = false;
  for (PyObject* name : names.hooks) {
    PyObject* hooks = PyDict_GetItemWithError(self->dict, name);
    if (!hooks) continue;
    present = true;
    if (PyObject_IsTrue(hooks)) {
      PyErr_Clear();  // whoever runs them meets the error itself
      return true;
    }
  }
  PyErr_Clear();
  if (!present && Py_REFCNT(self->dict) == 1) self->look = false;
  return false;
}

// The exception that is set passes through a call of `self`: say where.
void locate(PyObject* self) {
  if (!PyErr_ExceptionMatches(PyExc_Exception)) return;
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  PyErr_NormalizeException(&type, &value, &trace);
  if (trace) PyException_SetTraceback(value, trace);
  PyObject* const args[] = {self, value};
  PyObject* done = PyObject_VectorcallMethod(names.locate, args, 2, nullptr);
  if (!done) PyErr_Clear();  // the user's error matters, not ours
  Py_XDECREF(done);
  PyErr_Restore(type, value, trace);
}

PyObject* module_tp_call(PyObject* o, PyObject* args, PyObject* kwargs);

PyObject* module_vectorcall(PyObject* o, PyObject* const* args, size_t nargsf, PyObject* kwnames) {
  ModuleObject* self = cast(o);
  PyTypeObject* type = Py_TYPE(o);
  PyObject* method;
  PyObject* result;
  ModuleCall running(o, &self->handle);
  if (!self->begun && !begun(o)) return nullptr;
  if (type->tp_call != slot<module_tp_call>) {  // the class was given its own __call__ after instances were made
    method = _PyType_Lookup(type, names.call);
  } else if (global_hooks || (self->look && has_hooks(self))) {
    method = _PyType_Lookup(type, names.call_hooked);
  } else if (PyObject* own = PyDict_GetItemWithError(self->dict, names.forward)) {
    Py_INCREF(own);
    result = PyObject_Vectorcall(own, args, nargsf, kwnames);
    Py_DECREF(own);
    if (!result) locate(o);
    return result;
  } else {
    method = _PyType_Lookup(type, names.forward);
  }
  if (!method) {
    PyErr_Format(PyExc_NotImplementedError, "%.200s: a module says what it computes in a method `forward`, which is "
                 "missing here (containers such as ModuleList are not called, their elements are)", type->tp_name);
    return nullptr;
  }
  Py_INCREF(method);
  result = call_method(method, o, args, nargsf, kwnames);
  Py_DECREF(method);
  if (!result) locate(o);
  return result;
}

PyObject* module_tp_call(PyObject* o, PyObject* args, PyObject* kwargs) {
  // a subclass' own __call__ came here through super(): its arguments go on to forward, not back to itself
  PyTypeObject* type = Py_TYPE(o);
  if (type->tp_call == slot<module_tp_call>) return PyVectorcall_Call(o, args, kwargs);
  ModuleCall running(o, &cast(o)->handle);
  bool hooked = global_hooks || (cast(o)->look && has_hooks(cast(o)));
  PyObject* bound = PyObject_GetAttr(o, hooked ? names.call_hooked : names.forward);
  if (!bound) return nullptr;
  PyObject* result = PyObject_Call(bound, args, kwargs);
  Py_DECREF(bound);
  if (!result) locate(o);
  return result;
}

// ---- life
// ------------------------------------------------------------------------------------------------------------

// A Python subclass gets generic slots; where it overrides nothing the native ones are put back, at its first instance.
void adopt(PyTypeObject* type) {
#if PY_VERSION_HEX < 0x030C0000  // later versions inherit the flag themselves
  if (type->tp_call == slot<module_tp_call>) type->tp_flags |= Py_TPFLAGS_HAVE_VECTORCALL;
#endif
  if (type->tp_getattro != module_getattro && _PyType_Lookup(type, names.getattr) == names.own_getattr &&
      _PyType_Lookup(type, names.getattribute) == names.own_getattribute) {
    type->tp_getattro = module_getattro;
    PyType_Modified(type);
  }
}

PyObject* module_new(PyTypeObject* type, PyObject*, PyObject*) {
  PyObject* o = type->tp_alloc(type, 0);
  if (!o) return nullptr;
  ModuleObject* self = cast(o);
  self->dict = PyDict_New();
  self->vectorcall = slot<module_vectorcall>;
  self->look = true;
  if (!self->dict) {
    Py_DECREF(o);
    return nullptr;
  }
  adopt(type);
  return o;
}

int module_traverse(PyObject* o, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(o));
  Py_VISIT(cast(o)->dict);
  return 0;
}

int module_clear(PyObject* o) {
  // an attribute lookup needs a dict to the end, and this one may be shared: replaced, not emptied
  PyObject* fresh = cast(o)->dict ? PyDict_New() : nullptr;
  if (fresh)
    Py_SETREF(cast(o)->dict, fresh);
  else
    PyErr_Clear();
  return 0;
}

void module_dealloc(PyObject* o) {
  PyTypeObject* type = Py_TYPE(o);
  PyObject_GC_UnTrack(o);
  if (cast(o)->weakrefs) PyObject_ClearWeakRefs(o);
  Py_TRASHCAN_BEGIN(o, module_dealloc)  // a long chain of modules must not exhaust the stack
  Py_CLEAR(cast(o)->handle);
  Py_CLEAR(cast(o)->dict);
  type->tp_free(o);
  Py_DECREF(type);
  Py_TRASHCAN_END
}

PyObject* get_dict(PyObject* o, void*) {
  cast(o)->look = true;
  Py_INCREF(cast(o)->dict);
  return cast(o)->dict;
}

int set_dict(PyObject* o, PyObject* value, void*) {
  if (!value || !PyDict_Check(value)) {
    PyErr_SetString(PyExc_TypeError, "__dict__ must be set to a dictionary");
    return -1;
  }
  cast(o)->look = true;
  Py_INCREF(value);
  Py_SETREF(cast(o)->dict, value);
  return 0;
}

PyObject* set_global_hooks(PyObject*, PyObject* value) {
  int on = PyObject_IsTrue(value);
  if (on < 0) return nullptr;
  global_hooks = on;
  Py_RETURN_NONE;
}

PyMethodDef methods[] = {
    {"__getattr__", slot<module_getattr>, METH_O, nullptr},
    {"__setattr__", method<module_setattr>(), METH_FASTCALL, nullptr},
    {"__delattr__", slot<module_delattr>, METH_O, nullptr},
    {}};
PyMemberDef members[] = {
    {"__dictoffset__", T_PYSSIZET, offsetof(ModuleObject, dict), READONLY, nullptr},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(ModuleObject, weakrefs), READONLY, nullptr},
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(ModuleObject, vectorcall), READONLY, nullptr},
    {}};
PyGetSetDef attributes[] = {{"__dict__", slot<get_dict>, slot<set_dict>, nullptr, nullptr}, {}};
PyType_Slot slots[] = {{Py_tp_new, type_slot<module_new>()},
                       {Py_tp_dealloc, type_slot<module_dealloc>()},
                       {Py_tp_traverse, type_slot<module_traverse>()},
                       {Py_tp_clear, type_slot<module_clear>()},
                       {Py_tp_getattro, type_slot<module_getattro>()},
                       {Py_tp_call, type_slot<module_tp_call>()},
                       {Py_tp_methods, methods},
                       {Py_tp_members, members},
                       {Py_tp_getset, attributes},
                       {0, nullptr}};
PyType_Spec spec = {"flambeau._C.ModuleBase", sizeof(ModuleObject), 0,
                    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL, slots};
PyMethodDef switch_def = {"set_global_module_hooks", slot<set_global_hooks>, METH_O, nullptr};

}  // namespace

void add_module_base(PyObject* module) {
  auto intern = [](const char* text) { return PyUnicode_InternFromString(text); };
  names.parameters = intern("_parameters");
  names.buffers = intern("_buffers");
  names.modules = intern("_modules");
  names.not_persistent = intern("_non_persistent_buffers_set");
  names.forward = intern("forward");
  names.call = intern("__call__");
  names.getattr = intern("__getattr__");
  names.getattribute = intern("__getattribute__");
  names.assign = intern("_own_assign");
  names.call_hooked = intern("_own_call_hooked");
  names.locate = intern("_own_locate");
  names.name = intern("name");
  names.obj = intern("obj");
  names.hooks[0] = intern("_forward_pre_hooks");
  names.hooks[1] = intern("_forward_hooks");
  names.hooks[2] = intern("_backward_hooks");
  names.hooks[3] = intern("_backward_pre_hooks");
  module_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
  if (!module_type) return;
  names.own_getattr = PyDict_GetItemString(module_type->tp_dict, "__getattr__");
  names.own_getattribute = PyDict_GetItemString(module_type->tp_dict, "__getattribute__");
  Py_INCREF(module_type);
  PyModule_AddObject(module, "ModuleBase", reinterpret_cast<PyObject*>(module_type));
  PyModule_AddObject(module, "set_global_module_hooks", PyCFunction_New(&switch_def, nullptr));
}

}  // namespace flambeau
