// Where an operation was called: which line of the user's program, inside which modules. Noted in every graph node.
#pragma once
#include "python.h"

namespace flambeau {

// A module whose forward ran while a node was recorded; shared by the nodes of one call.
struct Scope {
  int64_t count;
  PyObject* module;  // weak reference
  Scope* outer;      // counted
};

// One running call of a module, on the stack of the call.
struct ModuleCall {
  PyObject* module;  // borrowed
  PyObject** handle; // the module's weak reference to itself, made on first use
  ModuleCall* outer;
  Scope* scope = nullptr;  // made when the first node is recorded inside
  ModuleCall(PyObject* module, PyObject** handle);
  ~ModuleCall();
};

// Where in the user's program something happens; `code` is borrowed, null where it is not known.
struct Origin {
  PyObject* code = nullptr;
  int instruction = 0;
};
Origin origin_now();

void release_scope(void* scope);   // a node's
void release_origin(Node& n);
PyObject* origin_object(Node& n);  // (file, line, function) or None; new
PyObject* scope_object(Node& n);   // the modules, outermost first, None for those that are gone; new
PyObject* running_modules();       // names of the classes of the modules being called, outermost first; new
void add_origin(PyObject* module);

}  // namespace flambeau
