// The Node type (`tensor.grad_fn`): life cycle, and what users can read of a graph.
#include <unordered_map>

#include "autograd.h"
#include "origin.h"
#include "slot.h"
#include "upward.h"

namespace flambeau {

PyTypeObject* NodeType;

namespace {

// --- life ------------------------------------------------------------------------------------------------------------

void destroy(Node* n) {
  if (n->weakrefs) PyObject_ClearWeakRefs(py(n));
  Py_CLEAR(*reinterpret_cast<PyObject**>(&n->dict));
  Py_XDECREF(static_cast<PyObject*>(std::exchange(n->hooks, nullptr)));
  clear_node(n);
  release_origin(*n);
  if (n->kind == NodeKind::CopySlices) free_copy_slices(*n);
  else if (n->kind == NodeKind::Accumulate) {
    if (n->payload) release(static_cast<Tensor*>(n->payload));
  } else Py_XDECREF(static_cast<PyObject*>(n->payload));
  n->payload = nullptr;
  if (PyTypeObject* type = Py_TYPE(py(n)); type != NodeType) {  // the next node of this memory has another name
    Py_SET_TYPE(py(n), NodeType);
    Py_DECREF(type);
  }
  recycle_node(n);
}

// A chain of 100,000 nodes must not recurse: nodes that die while one is being destroyed wait for their turn.
void node_dealloc(PyObject* o) {
  if (is_tracked(o)) PyObject_GC_UnTrack(o);
  Node* n = &as_node(o);
  if (n->kind == NodeKind::Accumulate) {  // from now on, who asks the leaf gets another
    auto* leaf = static_cast<Tensor*>(n->payload);
    if (leaf && leaf->extra && leaf->extra->accumulate == n) leaf->extra->accumulate = nullptr;
  }
  if (tls.destroying) {
    n->sequence = reinterpret_cast<uint64_t>(tls.waiting_nodes);
    tls.waiting_nodes = n;
    return;
  }
  tls.destroying = true;
  destroy(n);
  while (tls.waiting_nodes) {
    Node* next = tls.waiting_nodes;
    tls.waiting_nodes = reinterpret_cast<Node*>(next->sequence);
    destroy(next);
  }
  tls.destroying = false;
}

int node_traverse(PyObject* o, visitproc visit, void* arg) {
  Node& n = as_node(o);
  Py_VISIT(Py_TYPE(o));
  Py_VISIT(static_cast<PyObject*>(n.dict));
  Py_VISIT(static_cast<PyObject*>(n.hooks));
  for (int k = 0; k < n.nedges; ++k) Py_VISIT(py(n.edges[k].target));
  for (int k = 0; k < n.nsaved; ++k) {
    const Value& v = n.saved[k].value;
    if (v.tag == Tag::Tensor) Py_VISIT(py(v.tensor));
    else if (v.tag == Tag::Tensors) {
      for (int64_t j = 0; j < v.tensors.size; ++j) Py_VISIT(py(v.tensors.data[j]));
    } else if (v.tag == Tag::Object || v.tag == Tag::Generator) Py_VISIT(static_cast<PyObject*>(v.object));
  }
  if (n.kind == NodeKind::CopySlices) {
    if (auto* s = static_cast<Slices*>(n.payload)) {
      Py_VISIT(py(s->node.get()));
      Py_VISIT(py(s->view.get()));
      Py_VISIT(py(s->base.get()));
    }
  } else {
    Py_VISIT(static_cast<PyObject*>(n.payload));
  }
  return 0;
}

int node_clear(PyObject* o) {
  Node& n = as_node(o);
  Py_CLEAR(*reinterpret_cast<PyObject**>(&n.dict));
  Py_CLEAR(*reinterpret_cast<PyObject**>(&n.hooks));
  clear_node(&n);
  return 0;
}

// --- the type --------------------------------------------------------------------------------------------------------

PyObject* node_repr(PyObject* o) { return PyUnicode_FromFormat("<%s object at %p>", node_name(as_node(o)).c_str(), o); }
PyObject* node_name_(PyObject* o, PyObject*) {
  return PyUnicode_FromString(node_name(as_node(o)).c_str());
}
PyObject* node_next(PyObject* o, void*) {
  return guarded([&]() -> PyObject* {
    Node& n = as_node(o);
    Held t = checked(PyTuple_New(n.nedges));
    for (int k = 0; k < n.nedges; ++k) {
      const Edge& e = n.edges[k];
      PyObject* pair;
      if (!e.target) {
        pair = Py_BuildValue("(Oi)", Py_None, 0);
      } else if (e.leaf) {
        pair = Py_BuildValue("(Ni)", node_object(*accumulate_node(*e.tensor())), 0);
      } else {
        pair = Py_BuildValue("(Ni)", node_object(*e.node()), int(e.output_nr));
      }
      if (!pair) throw PythonError();
      PyTuple_SET_ITEM(t.p, k, pair);
    }
    return t.give();
  });
}
PyObject* node_variable(PyObject* o, void*) {
  Node& n = as_node(o);
  if (n.kind == NodeKind::Accumulate) return Py_NewRef(static_cast<PyObject*>(n.payload));
  PyErr_Format(PyExc_AttributeError, "'%s' object has no attribute 'variable'", node_name(n).c_str());
  return nullptr;
}
PyObject* node_metadata(PyObject* o, void*) {
  PyObject* d = PyObject_GenericGetDict(o, nullptr);
  if (!d) return nullptr;
  PyObject* m = PyDict_GetItemString(d, "_metadata");
  if (!m) {
    Held fresh(PyDict_New());
    PyDict_SetItemString(d, "_metadata", fresh.p);
    m = PyDict_GetItemString(d, "_metadata");
  }
  Py_DECREF(d);
  return Py_NewRef(m);
}
PyObject* node_sequence(PyObject* o, PyObject*) { return PyLong_FromUnsignedLongLong(as_node(o).sequence); }
PyObject* node_pre(PyObject* o, PyObject*) {
  return guarded([&] { return Py_NewRef(hooks_of(as_node(o), kPreHook, 0, true)); });
}
PyObject* node_post(PyObject* o, PyObject*) {
  return guarded([&] { return Py_NewRef(hooks_of(as_node(o), kPostHook, 0, true)); });
}
PyObject* node_op(PyObject* o, void*) {
  Node& n = as_node(o);
  return Py_NewRef(n.kind == NodeKind::Rules ? static_cast<PyObject*>(n.op->py_op) : Py_None);
}
PyObject* node_inputs(PyObject* o, void*) {
  return guarded([&]() -> PyObject* {
    Node& n = as_node(o);
    Held t = checked(PyTuple_New(n.nouts));
    for (int k = 0; k < n.nouts; ++k) {
      const GradMeta& m = n.output_meta(k);
      PyObject* one = m.dtype == DType::Undefined ? Py_NewRef(Py_None)
                                                  : Py_BuildValue("(NON)", size_object(m.shape()),
                                                                  dtype_object(m.dtype), device_object(m.device));
      PyTuple_SET_ITEM(t.p, k, one);
    }
    return t.give();
  });
}
PyObject* node_origin(PyObject* o, void*) { return origin_object(as_node(o)); }
PyObject* node_scope(PyObject* o, void*) { return scope_object(as_node(o)); }
PyObject* node_released(PyObject* o, void*) { return PyBool_FromLong(as_node(o).released); }

// The slot of the value that a rule calls `name`; -1: none.
int saved_slot(Node& n, const char* name) {
  if (n.kind != NodeKind::Rules) return -1;
  const Schema& s = n.op->schema;
  int slot = -1, nargs = int(s.args.size());
  for (int k = 0; k < nargs; ++k)
    if (s.args[k].name == name) slot = k;
  if (slot < 0 && std::strncmp(name, "result", 6) == 0) slot = nargs + (name[6] ? name[6] - '0' : 0);
  for (size_t k = 0; k < s.results.size(); ++k)
    if (s.results[k] == name) slot = nargs + int(k);
  return slot < n.nsaved ? slot : -1;
}
// _saved_names() -> names of the tensors this node keeps
PyObject* node_saved_names(PyObject* o, PyObject*) {
  return guarded([&]() -> PyObject* {
    Node& n = as_node(o);
    Held list = checked(PyList_New(0));
    for (int k = 0; k < n.nsaved && n.kind == NodeKind::Rules; ++k) {
      if (n.saved[k].value.tag == Tag::None) continue;
      if (n.saved[k].value.tag == Tag::Ints && n.saved[k].dtype != DType::Undefined) continue;  // only a shape
      const Schema& s = n.op->schema;
      size_t nargs = s.args.size();
      std::string name = size_t(k) < nargs ? s.args[k].name : k - nargs < s.results.size() ? s.results[k - nargs] : "";
      if (name.empty()) name = k == int(nargs) ? "result" : concat("result", k - nargs);
      checked(PyList_Append(list.p, checked(PyUnicode_FromString(name.c_str())).p));
    }
    return list.give();
  });
}
// _pack_saved(name, pack, unpack): hooks for one saved tensor
PyObject* node_pack_saved(PyObject* o, PyObject* args) {
  const char* name;
  PyObject *pack, *unpack;
  if (!PyArg_ParseTuple(args, "sOO", &name, &pack, &unpack)) return nullptr;
  return guarded([&]() -> PyObject* {
    Node& n = as_node(o);
    int slot = saved_slot(n, name);
    if (slot < 0) runtime_error(node_name(n), ": keeps no tensor named ", name);
    Saved& s = n.saved[slot];
    if (n.released) runtime_error("register_hooks: this saved tensor was freed by an earlier backward() or grad(); "
                                  "pass retain_graph=True to that one to keep it");
    if (s.packed) runtime_error("register_hooks: this saved tensor has hooks already, and one pair is all it takes");
    if (s.value.tag != Tag::Tensor) runtime_error("register_hooks: nothing is saved here (None), so there is nothing "
                                                  "to pack");
    pack_with(n, s, s.value, pack, unpack);
    Py_RETURN_NONE;
  });
}
PyObject* accumulate_node_(PyObject*, PyObject* o) {
  return guarded([&]() -> PyObject* {
    if (!is_tensor(o)) type_error("accumulate_node takes a tensor");
    return node_object(*accumulate_node(*as_tensor(o)));
  });
}
PyMethodDef module_functions[] = {{"accumulate_node", slot<accumulate_node_>, METH_O}, {}};

// n._saved_self, n._saved_result …: what the node keeps, by the argument's name
PyObject* node_getattr(PyObject* o, PyObject* name) {
  const char* text = PyUnicode_AsUTF8(name);
  if (!text) return nullptr;
  Node& n = as_node(o);
  if (std::strncmp(text, "_saved_", 7) == 0 && n.kind == NodeKind::Rules) {
    int slot = saved_slot(n, text + 7);
    if (slot >= 0) {
      return guarded([&]() -> PyObject* {
        if (n.released) graph_was_freed(n);
        return saved_object(n, slot);
      });
    }
  }
  if (std::strncmp(text, "_raw_saved_", 11) == 0) return PyObject_CallMethod(o, "_raw_saved", "O", name);
  PyObject* found = PyObject_GenericGetAttr(o, name);
  if (found || n.kind != NodeKind::Function || !PyErr_ExceptionMatches(PyExc_AttributeError)) return found;
  PyErr_Clear();  // a custom Function's node shows its context: saved_tensors, attributes
  Held context(PyObject_GetAttrString(static_cast<PyObject*>(n.payload), "ctx"));
  if (context) return PyObject_GetAttr(context.p, name);
  PyErr_Clear();
  return PyObject_GenericGetAttr(o, name);
}

PyGetSetDef getset[] = {
    {"next_functions", slot<node_next>, nullptr, "((node, output number), …): where this node's gradients go."},
    {"variable", slot<node_variable>, nullptr, "AccumulateGrad: the leaf tensor."},
    {"metadata", slot<node_metadata>, nullptr, "A dict of the user's own."},
    {"op", slot<node_op>, nullptr, "The recorded operator, or None."},
    {"_outputs", slot<node_inputs>, nullptr, "(shape, dtype, device) of each result."},
    {"origin", slot<node_origin>, nullptr, "(file, line, function) of the call that was recorded, or None."},
    {"modules", slot<node_scope>, nullptr, "The modules the call was made in, outermost first."},
    {"_released", slot<node_released>, nullptr, "Whether saved tensors were freed by a backward pass."},
    {"__dict__", PyObject_GenericGetDict},
    {}};
PyMethodDef methods[] = {{"name", slot<node_name_>, METH_NOARGS, "What kind of node this is, as 'MulBackward0'."},
                         {"_sequence_nr", slot<node_sequence>, METH_NOARGS},
                         {"_pre_hooks", slot<node_pre>, METH_NOARGS},
                         {"_post_hooks", slot<node_post>, METH_NOARGS},
                         {"_saved_names", slot<node_saved_names>, METH_NOARGS},
                         {"_pack_saved", slot<node_pack_saved>, METH_VARARGS},
                         {}};
PyMemberDef members[] = {{"__dictoffset__", T_PYSSIZET, offsetof(Node, dict), READONLY},
                         {"__weaklistoffset__", T_PYSSIZET, offsetof(Node, weakrefs), READONLY}, {}};
PyType_Slot slots[] = {{Py_tp_dealloc, type_slot<node_dealloc>()},
                       {Py_tp_traverse, type_slot<node_traverse>()},
                       {Py_tp_clear, type_slot<node_clear>()},
                       {Py_tp_repr, type_slot<node_repr>()},
                       {Py_tp_getset, getset},
                       {Py_tp_methods, methods},
                       {Py_tp_members, members},
                       {Py_tp_getattro, type_slot<node_getattr>()},
                       {}};
PyType_Spec spec = {"flambeau.autograd.graph.Node", sizeof(Node), 0,
                    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                    slots};

// A subclass of Node with this name and nothing else of its own.
Held named_type(const std::string& name, const char* module) {
  PyType_Slot own[] = {{Py_tp_dealloc, type_slot<node_dealloc>()},
                       {Py_tp_traverse, type_slot<node_traverse>()},
                       {Py_tp_clear, type_slot<node_clear>()},
                       {}};
  std::string full = concat(module, ".", name);
  PyType_Spec subclass = {full.c_str(), sizeof(Node), 0,
                          Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION, own};
  return checked(PyType_FromSpecWithBases(&subclass, reinterpret_cast<PyObject*>(NodeType)));
}

// A custom Function's class keeps the type of its nodes; null: this node is not of a Function class.
PyObject* type_of_function(Node& n) {  // borrowed
  Held owner(PyObject_GetAttrString(static_cast<PyObject*>(n.payload), "cls"));
  if (!owner || !PyType_Check(owner.p)) {
    PyErr_Clear();
    return nullptr;
  }
  PyObject* own = reinterpret_cast<PyTypeObject*>(owner.p)->tp_dict;
  if (PyObject* known = PyDict_GetItemString(own, "_node_type")) return known;
  Held made = named_type(node_name(n), "flambeau.autograd.function");
  checked(PyObject_SetAttrString(owner.p, "_node_type", made.p));
  return made.p;  // the class keeps it
}

PyObject* type_of_node(Node& n) {  // borrowed
  if (n.kind == NodeKind::Function)
    if (PyObject* type = type_of_function(n)) return type;
  static auto& types = *new std::unordered_map<std::string, PyObject*>;  // as many as there are operators
  PyObject*& type = types[node_name(n)];
  if (!type) type = named_type(node_name(n), "flambeau.autograd.graph").give();
  return type;
}

}  // namespace

// Nodes are made as plain Nodes; one that comes into view gets the class of its name.
PyObject* node_object(Node& n) {
  if (Py_TYPE(py(&n)) == NodeType) {
    PyObject* type = type_of_node(n);
    Py_SET_TYPE(py(&n), reinterpret_cast<PyTypeObject*>(Py_NewRef(type)));
  }
  return Py_NewRef(py(&n));
}

Node* upward::allocate_node_object() {
  auto* n = PyObject_GC_New(Node, NodeType);
  if (!n) throw std::bad_alloc();
  std::memset(reinterpret_cast<char*>(n) + sizeof(Object), 0, sizeof(Node) - sizeof(Object));
  return n;
}

std::string upward::function_name(const Node& n) {
  PyObject* given = n.dict ? PyDict_GetItemString(static_cast<PyObject*>(n.dict), "_name") : nullptr;
  return given ? text_of(given) : "FunctionBackward";
}

void add_node_type(PyObject* module) {
  NodeType = reinterpret_cast<PyTypeObject*>(checked(PyType_FromSpec(&spec)).give());
  checked(PyModule_AddObjectRef(module, "Node", (PyObject*)NodeType));
  add_autograd_functions(module);
  checked(PyModule_AddFunctions(module, module_functions));
  add_saved_hooks(module);
  add_origin(module);
}

}  // namespace flambeau
