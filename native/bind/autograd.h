// What the files of bind/ that serve the backward pass share.
#pragma once
#include "python.h"

namespace flambeau {

enum HookKind { kTensorHook, kRetainGradHook, kPreHook, kPostHook };

inline Node& as_node(PyObject* o) { return *reinterpret_cast<Node*>(o); }

// rules.cpp: what a rule sees of the value saved in `slot`; new
PyObject* saved_object(Node& n, int slot);
// saved_hooks.cpp: the tensor (or list) again that a pack hook took; new
PyObject* unpack_saved(Node& n, Saved& s);
// Packs a saved value with hooks of the user's choice.
void pack_with(Node& n, Saved& s, const Value& v, PyObject* pack, PyObject* unpack);
void add_saved_hooks(PyObject* module);
// hooks.cpp: the dict of a node's hooks of one kind, made when `create`; borrowed
PyObject* hooks_of(Node& n, int kind, int output_nr, bool create);
void add_autograd_functions(PyObject* module);

}  // namespace flambeau
