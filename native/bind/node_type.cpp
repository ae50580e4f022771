// The Node type (`tensor.grad_fn`): life cycle, and what users can read of a graph.
#include "autograd.h"

namespace flambeau {

PyTypeObject* NodeType;

namespace {

// --- life ------------------------------------------------------------------------------------------------------------

Node* new_object() {
  auto* n = PyObject_GC_New(Node, NodeType);
  if (!n) throw std::bad_alloc();
  std::memset(reinterpret_cast<char*>(n) + sizeof(Object), 0, sizeof(Node) - sizeof(Object));
  return n;
}

thread_local std::vector<Node*>* dying = nullptr;

void destroy(Node* n) {
  if (n->weakrefs) PyObject_ClearWeakRefs(py(n));
  Py_CLEAR(*reinterpret_cast<PyObject**>(&n->dict));
  Py_XDECREF(static_cast<PyObject*>(std::exchange(n->hooks, nullptr)));
  clear_node(n);
  if (n->kind == NodeKind::CopySlices) free_copy_slices(*n);
  else if (n->kind == NodeKind::Accumulate) release(static_cast<Tensor*>(n->payload));
  else Py_XDECREF(static_cast<PyObject*>(n->payload));
  n->payload = nullptr;
  recycle_node(n);
}

// A chain of 100,000 nodes must not recurse: nodes that die while one is being destroyed wait for their turn.
void node_dealloc(PyObject* o) {
  if (PyObject_GC_IsTracked(o)) PyObject_GC_UnTrack(o);
  Node* n = &as_node(o);
  if (dying) {
    dying->push_back(n);
    return;
  }
  std::vector<Node*> queue;
  dying = &queue;
  destroy(n);
  while (!queue.empty()) {
    Node* next = queue.back();
    queue.pop_back();
    destroy(next);
  }
  dying = nullptr;
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
    } else if (v.tag == Tag::Object) Py_VISIT(static_cast<PyObject*>(v.object));
  }
  if (n.kind == NodeKind::CopySlices) {
    if (auto* s = static_cast<Slices*>(n.payload)) Py_VISIT(py(s->node.get()));
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
  Node& n = as_node(o);
  if (n.kind == NodeKind::Function && n.dict) {
    PyObject* given = PyDict_GetItemString(static_cast<PyObject*>(n.dict), "_name");
    if (given) return Py_NewRef(given);
  }
  return PyUnicode_FromString(node_name(n).c_str());
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
        Node* a = new_node(NodeKind::Accumulate, 1, 0, 0);
        a->payload = e.target;
        retain(e.target);
        set_meta(a->meta, *e.tensor());
        pair = Py_BuildValue("(Ni)", py(a), 0);
      } else {
        pair = Py_BuildValue("(Oi)", py(e.target), int(e.output_nr));
      }
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
PyObject* node_pre(PyObject* o, PyObject*) { return guarded([&] { return Py_NewRef(hooks_of(as_node(o), kPreHook, 0, true)); }); }
PyObject* node_post(PyObject* o, PyObject*) { return guarded([&] { return Py_NewRef(hooks_of(as_node(o), kPostHook, 0, true)); }); }
PyObject* node_op(PyObject* o, void*) {
  Node& n = as_node(o);
  return Py_NewRef(n.kind == NodeKind::Rules ? static_cast<PyObject*>(n.op->py_op) : Py_None);
}
// n._saved_self, n._saved_result …: what the node keeps, by the argument's name
PyObject* node_getattr(PyObject* o, PyObject* name) {
  const char* text = PyUnicode_AsUTF8(name);
  Node& n = as_node(o);
  if (text && std::strncmp(text, "_saved_", 7) == 0 && n.kind == NodeKind::Rules) {
    const Schema& s = n.op->schema;
    int slot = -1, nargs = int(s.args.size());
    for (int k = 0; k < nargs; ++k)
      if (s.args[k].name == text + 7) slot = k;
    if (std::strncmp(text + 7, "result", 6) == 0) slot = nargs + (text[13] ? text[13] - '0' : 0);
    for (size_t k = 0; k < s.results.size(); ++k)
      if (s.results[k] == text + 7) slot = nargs + int(k);
    if (slot >= 0 && slot < n.nsaved) {
      return guarded([&]() -> PyObject* {
        if (n.released) runtime_error(node_name(n), ": saved values have already been freed (backward without retain_graph=True)");
        return saved_object(n, slot);
      });
    }
  }
  return PyObject_GenericGetAttr(o, name);
}

PyGetSetDef getset[] = {{"next_functions", node_next, nullptr, "((node, output number), …): where this node's gradients go."},
                        {"variable", node_variable, nullptr, "AccumulateGrad: the leaf tensor."},
                        {"metadata", node_metadata, nullptr, "A dict of the user's own."},
                        {"op", node_op, nullptr, "The recorded operator, or None."},
                        {"__dict__", PyObject_GenericGetDict}, {}};
PyMethodDef methods[] = {{"name", node_name_, METH_NOARGS, "What kind of node this is, as 'MulBackward0'."},
                         {"_sequence_nr", node_sequence, METH_NOARGS}, {"_pre_hooks", node_pre, METH_NOARGS},
                         {"_post_hooks", node_post, METH_NOARGS}, {}};
PyMemberDef members[] = {{"__dictoffset__", T_PYSSIZET, offsetof(Node, dict), READONLY},
                         {"__weaklistoffset__", T_PYSSIZET, offsetof(Node, weakrefs), READONLY}, {}};
PyType_Slot slots[] = {{Py_tp_dealloc, (void*)node_dealloc}, {Py_tp_traverse, (void*)node_traverse}, {Py_tp_clear, (void*)node_clear},
                       {Py_tp_repr, (void*)node_repr}, {Py_tp_getset, getset}, {Py_tp_methods, methods}, {Py_tp_members, members},
                       {Py_tp_getattro, (void*)node_getattr}, {}};
PyType_Spec spec = {"flambeau.autograd.graph.Node", sizeof(Node), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};

}  // namespace

void add_node_type(PyObject* module) {
  NodeType = reinterpret_cast<PyTypeObject*>(checked(PyType_FromSpec(&spec)).give());
  checked(PyModule_AddObjectRef(module, "Node", (PyObject*)NodeType));
  add_autograd_functions(module);
  allocate_node_object = new_object;
  set_rule_callbacks();
  set_hook_callbacks();
}

}  // namespace flambeau
