// Walks the interpreter's frames: from the innermost outwards to the first that is not part of the library.
//
// The public frame API makes an object per frame; reading the interpreter's own structures costs three nanoseconds.
// Where their layout is not known, nodes carry no line.
#define Py_BUILD_CORE 1
#include <Python.h>
#if PY_VERSION_HEX >= 0x030B0000 && PY_VERSION_HEX < 0x030E0000
#define FLAMBEAU_FRAMES 1
#include "internal/pycore_frame.h"
#endif
#undef Py_BUILD_CORE

#include "../core/free_list.h"
#include "origin.h"
#include "slot.h"
#include "upward.h"

namespace flambeau {
namespace {

FreeList<Scope, offsetof(Scope, outer)> free_scopes{"scopes", [](void* s) { delete static_cast<Scope*>(s); }};
PyObject* library = nullptr;  // the folder whose code is not the user's

Scope* scope_of(ModuleCall& call) {
  if (call.scope) return call.scope;
  Scope* outer = call.outer ? scope_of(*call.outer) : nullptr;
  if (outer) ++outer->count;
  if (!*call.handle) *call.handle = PyWeakref_NewRef(call.module, nullptr);
  if (!*call.handle) PyErr_Clear();
  Scope* s = free_scopes.take();
  if (!s) s = new Scope;
  *s = Scope{1, Py_XNewRef(*call.handle), outer};
  return call.scope = s;
}

#ifdef FLAMBEAU_FRAMES
// Whether code is the library's, remembered by address; an entry keeps its code object, so that no other takes the
// place.
struct Known {
  PyCodeObject* code;
  bool inside;
};
constexpr size_t kKnown = 1024;
Known known[kKnown];

bool inside_library(PyCodeObject* code) {
  Known& k = known[(reinterpret_cast<uintptr_t>(code) >> 5) % kKnown];
  if (__builtin_expect(k.code == code, 1)) return k.inside;
  Py_INCREF(code);
  Py_XSETREF(k.code, code);
  k.inside = library && PyUnicode_Tailmatch(code->co_filename, library, 0, PY_SSIZE_T_MAX, -1) == 1;
  return k.inside;
}

PyCodeObject* code_of(_PyInterpreterFrame* f) {
#if PY_VERSION_HEX >= 0x030D0000
  return f->owner == FRAME_OWNED_BY_CSTACK || !PyCode_Check(f->f_executable)
             ? nullptr
             : reinterpret_cast<PyCodeObject*>(f->f_executable);
#elif PY_VERSION_HEX >= 0x030C0000
  return f->owner == FRAME_OWNED_BY_CSTACK ? nullptr : f->f_code;
#else
  return f->f_code;
#endif
}

int instruction_of(_PyInterpreterFrame* f) {
#if PY_VERSION_HEX >= 0x030C0000
  return PyUnstable_InterpreterFrame_GetLasti(f);
#else
  return _PyInterpreterFrame_LASTI(f) * int(sizeof(_Py_CODEUNIT));
#endif
}

Origin innermost() {
  PyThreadState* thread = PyThreadState_Get();
#if PY_VERSION_HEX >= 0x030D0000
  _PyInterpreterFrame* frame = thread->current_frame;
#else
  _PyInterpreterFrame* frame = thread->cframe->current_frame;
#endif
  _PyInterpreterFrame* found = nullptr;
  constexpr int kDeepest = 64;
  for (int depth = 0; frame && depth < kDeepest; frame = frame->previous, ++depth) {
    PyCodeObject* code = code_of(frame);
    if (!code) continue;
    if (!found) found = frame;
    if (!inside_library(code)) {
      found = frame;
      break;
    }
  }
  if (!found) return {};
  return {reinterpret_cast<PyObject*>(code_of(found)), instruction_of(found)};
}
#else
Origin innermost() { return {}; }
#endif

PyObject* set_library(PyObject*, PyObject* folder) {
  if (!PyUnicode_Check(folder)) type_error("set_library_folder: expected a str, got ", Py_TYPE(folder)->tp_name);
  Py_XSETREF(library, Py_NewRef(folder));
  Py_RETURN_NONE;
}
PyObject* module_stack(PyObject*, PyObject*) {  // the modules being called, outermost first
  PyObject* list = PyList_New(0);
  for (ModuleCall* c = tls.module; list && c; c = c->outer)
    if (PyList_Append(list, c->module) < 0) Py_CLEAR(list);
  if (list) PyList_Reverse(list);
  return list;
}
PyMethodDef functions[] = {
    {"module_stack", slot<module_stack>, METH_NOARGS}, {"set_library_folder", slot<set_library>, METH_O}, {}};

}  // namespace

ModuleCall::ModuleCall(PyObject* module, PyObject** handle)
    : module(module), handle(handle), outer(std::exchange(tls.module, this)) {}
ModuleCall::~ModuleCall() {
  tls.module = outer;
  if (scope) release_scope(scope);
}

void release_scope(void* p) {
  auto* s = static_cast<Scope*>(p);
  while (s && --s->count == 0) {
    Scope* outer = s->outer;
    Py_XDECREF(s->module);
    free_scopes.give(s);
    s = outer;
  }
}

void release_origin(Node& n) {
  Py_XDECREF(static_cast<PyObject*>(std::exchange(n.code, nullptr)));
  if (n.scope) release_scope(std::exchange(n.scope, nullptr));
}

PyObject* origin_object(Node& n) {
  if (!n.code) Py_RETURN_NONE;
  auto* code = static_cast<PyCodeObject*>(n.code);
  return Py_BuildValue("(OiO)", code->co_filename, PyCode_Addr2Line(code, n.instruction), code->co_qualname);
}

PyObject* scope_object(Node& n) {
  PyObject* list = PyList_New(0);
  for (auto* s = static_cast<Scope*>(n.scope); list && s; s = s->outer) {
    PyObject* module = s->module ? PyWeakref_GetObject(s->module) : Py_None;
    if (PyList_Append(list, module) < 0) Py_CLEAR(list);
  }
  if (list) PyList_Reverse(list);
  return list;
}

PyObject* running_modules() {
  PyObject* list = PyList_New(0);
  for (ModuleCall* c = tls.module; list && c; c = c->outer) {
    Held name(PyUnicode_FromString(Py_TYPE(c->module)->tp_name));
    if (!name || PyList_Append(list, name.p) < 0) Py_CLEAR(list);
  }
  if (list) PyList_Reverse(list);
  return list;
}

void upward::note_origin(Node& n) {
  if (tls.module) {
    Scope* s = scope_of(*tls.module);
    ++s->count;
    n.scope = s;
  }
  const Origin origin = innermost();
  n.code = Py_XNewRef(origin.code);
  n.instruction = origin.instruction;
}

Origin origin_now() { return innermost(); }

void add_origin(PyObject* module) {
  checked(PyModule_AddFunctions(module, functions));
}

}  // namespace flambeau
