// The Node type (`tensor.grad_fn`), and Python's part of a backward pass: rules, custom functions, hooks.
#include "python.h"

namespace flambeau {

PyTypeObject* NodeType;

namespace {

enum HookKind { kTensorHook, kRetainGrad_, kPreHook, kPostHook };

Node& as_node(PyObject* o) { return *reinterpret_cast<Node*>(o); }

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

// --- rules -----------------------------------------------------------------------------------------------------------

TensorRef zeros_of(const GradMeta& m) {
  TensorRef z = empty(m.shape(), m.dtype, m.device);
  if (m.device.type == DeviceType::CPU) fill(*z, Scalar(0));
  return z;
}

// What a rule sees of an argument: the tensor, a number as a 0-d tensor where the schema says Tensor, or plain Python.
PyObject* saved_object(Node& n, int slot) {
  Saved& s = n.saved[slot];
  if (s.value.tag == Tag::Tensor) return take_object(unpack_tensor(n, s));
  const auto& args = n.op->schema.args;
  if (slot < int(args.size()) && args[slot].type == Type::Tensor && s.value.is_number()) {
    Scalar number = s.value.scalar();
    TensorRef t = wrap_number(number, number.dtype(DType::Float64));
    t->flags &= ~kWrappedNumber;  // what a rule computes from numbers alone keeps its digits; 0-d is weak enough
    return take_object(std::move(t));
  }
  if (slot < int(args.size()) && (args[slot].type == Type::MemoryFormat || args[slot].type == Type::Layout) && s.value.tag == Tag::Int)
    return Py_NewRef(format_object(int(s.value.i)));
  return value_object(s.value);
}

PyObject* shape_of_saved(const Saved& s) {
  if (s.value.tag == Tag::Tensor) return size_object(s.value.tensor->shape());
  if (s.value.tag == Tag::Ints && s.dtype != DType::Undefined) return size_object({s.value.ints.data, size_t(s.value.ints.size)});
  Py_RETURN_NONE;
}

PyObject* shapes_of_list(const Saved& s, bool list) {
  if (!list) return shape_of_saved(s);
  std::vector<Held> shapes;
  if (s.value.tag == Tag::Tensors) {
    for (int64_t k = 0; k < s.value.tensors.size; ++k) shapes.emplace_back(size_object(s.value.tensors.data[k]->shape()));
  } else {
    const int64_t* at = s.value.ints.data;
    for (const int64_t* end = at + s.value.ints.size; at < end; at += 1 + *at) shapes.emplace_back(size_object({at + 1, size_t(*at)}));
  }
  PyObject* t = PyTuple_New(Py_ssize_t(shapes.size()));
  for (size_t k = 0; k < shapes.size(); ++k) PyTuple_SET_ITEM(t, Py_ssize_t(k), shapes[k].give());
  return t;
}

PyObject* rule_argument(Node& n, const Rule& rule, const RuleParam& p, TensorRef* grads, int first_edge) {
  int nargs = int(n.op->schema.args.size());
  switch (p.source) {
    case Source::Grad: {
      if (p.index >= n.nouts) Py_RETURN_NONE;
      if (!grads[p.index]) grads[p.index] = zeros_of(n.output_meta(p.index));
      return Py_NewRef(py(grads[p.index].get()));
    }
    case Source::Grads: {
      PyObject* t = PyTuple_New(n.nouts);
      for (int k = 0; t && k < n.nouts; ++k) {
        if (!grads[k]) grads[k] = zeros_of(n.output_meta(k));
        PyTuple_SET_ITEM(t, k, Py_NewRef(py(grads[k].get())));
      }
      return t;
    }
    case Source::Arg: return saved_object(n, p.index);
    case Source::Result: return saved_object(n, nargs + p.index);
    case Source::ArgShape: return shapes_of_list(n.saved[p.index], n.op->schema.args[p.index].type == Type::Tensors);
    case Source::ArgGeometry: {  // (sizes, strides, offset)
      Dims all{n.saved[p.index].value.ints.data, size_t(n.saved[p.index].value.ints.size)};
      size_t ndim = all.size() / 2;
      return Py_BuildValue("(NNL)", size_object(all.first(ndim)), size_object(all.subspan(ndim, ndim)), (long long)all.back());
    }
    case Source::ArgDType: {
      const Saved& s = n.saved[p.index];
      return Py_NewRef(dtype_object(s.value.tag == Tag::Tensor ? s.value.tensor->dtype : s.dtype));
    }
    default: {
      PyObject* t = PyTuple_New(Py_ssize_t(rule.inputs.size()));
      for (size_t k = 0; t && k < rule.inputs.size(); ++k)
        PyTuple_SET_ITEM(t, Py_ssize_t(k), PyBool_FromLong(n.needs >> (first_edge + int(k)) & 1));
      return t;
    }
  }
}

void take_gradient(Node& n, PyObject* o, TensorRef& out) {
  if (o == Py_None) return;
  if (!is_tensor(o)) type_error(node_name(n), ": a derivative rule must return a Tensor or None, got ", Py_TYPE(o)->tp_name);
  out = TensorRef::borrow(as_tensor(o));
}

void apply_python_rules(Node& n, TensorRef* grads, TensorRef* out) {
  const OpDef& op = *n.op;
  int e = 0;
  bool any = false;
  for (int k = 0; k < n.nouts; ++k) any |= bool(grads[k]);
  if (!any) return;
  for (const Rule& rule : op.rules) {
    int first = e;
    bool list = false;
    bool wanted = false;
    if (rule.inputs.size() == 1 && op.schema.args[rule.inputs[0]].type >= Type::Tensors && op.schema.args[rule.inputs[0]].type <= Type::OptionalTensors) {
      list = true;
      // a list argument's edges: all that the other rules' inputs leave
      int others = 0;
      for (const Rule& r : op.rules)
        if (&r != &rule) others += int(r.inputs.size());
      e += n.nedges - others;
    } else {
      e += int(rule.inputs.size());
    }
    for (int k = first; k < e; ++k) wanted |= k < 64 ? n.needs >> k & 1 : bool(n.edges[k].target);
    if (!wanted) continue;
    constexpr int kMostParams = 24;
    PyObject* args[kMostParams];
    int count = 0;
    struct Release {
      PyObject** a;
      int& n;
      ~Release() { for (int k = 0; k < n; ++k) Py_DECREF(a[k]); }
    } guard{args, count};
    for (const RuleParam& p : rule.params) {
      PyObject* o = rule_argument(n, rule, p, grads, first);
      if (!o) throw PythonError();
      args[count++] = o;
    }
    Held result = checked(PyObject_Vectorcall(static_cast<PyObject*>(rule.function), args, size_t(count), nullptr));
    if (!rule.tuple && !list) {
      take_gradient(n, result.p, out[first]);
      continue;
    }
    if (result.p == Py_None) continue;
    if (!PyTuple_Check(result.p) && !PyList_Check(result.p)) type_error(node_name(n), ": this derivative rule must return a tuple, got ", Py_TYPE(result.p)->tp_name);
    if (PySequence_Fast_GET_SIZE(result.p) != e - first)
      runtime_error(node_name(n), ": a derivative rule returned ", PySequence_Fast_GET_SIZE(result.p), " gradients for ", e - first, " inputs");
    for (int k = first; k < e; ++k) take_gradient(n, PySequence_Fast_GET_ITEM(result.p, k - first), out[k]);
  }
}

// Function nodes: payload(*gradients or None) -> tuple with one gradient per edge.
void apply_python_function(Node& n, TensorRef* grads, TensorRef* out) {
  Held args(PyTuple_New(n.nouts));
  for (int k = 0; k < n.nouts; ++k) PyTuple_SET_ITEM(args.p, k, Py_NewRef(grads[k] ? py(grads[k].get()) : Py_None));
  Held result = checked(PyObject_Call(static_cast<PyObject*>(n.payload), args.p, nullptr));
  if (!PyTuple_Check(result.p) || PyTuple_GET_SIZE(result.p) != n.nedges)
    runtime_error("function ", node_name(n), " returned an incorrect number of gradients (expected ", int(n.nedges), ")");
  for (int k = 0; k < n.nedges; ++k) take_gradient(n, PyTuple_GET_ITEM(result.p, k), out[k]);
}

// --- hooks: a list of (kind, output, dict of callables or weak reference) --------------------------------------------

PyObject* hooks_of(Node& n, int kind, int output_nr, bool create) {  // borrowed
  if (!n.hooks) {
    if (!create) return nullptr;
    n.hooks = checked(PyList_New(0)).give();
  }
  auto* list = static_cast<PyObject*>(n.hooks);
  for (Py_ssize_t k = 0; k < PyList_GET_SIZE(list); ++k) {
    PyObject* entry = PyList_GET_ITEM(list, k);
    if (PyLong_AsLong(PyTuple_GET_ITEM(entry, 0)) == kind && PyLong_AsLong(PyTuple_GET_ITEM(entry, 1)) == output_nr)
      return PyTuple_GET_ITEM(entry, 2);
  }
  if (!create) return nullptr;
  Held dict = checked(PyODict_New());
  Held entry = checked(Py_BuildValue("(iiO)", kind, output_nr, dict.p));
  checked(PyList_Append(list, entry.p));
  return dict.p;  // the list keeps it
}

void run_tensor_hooks(PyObject* dict, TensorRef& grad) {
  Held hooks = checked(PyDict_Values(dict));
  for (Py_ssize_t k = 0; k < PyList_GET_SIZE(hooks.p) && grad; ++k) {
    Held r = checked(PyObject_CallOneArg(PyList_GET_ITEM(hooks.p, k), py(grad.get())));
    if (r.p == Py_None) continue;
    if (!is_tensor(r.p)) type_error("a tensor hook must return None or a Tensor, got ", Py_TYPE(r.p)->tp_name);
    Dims given = as_tensor(r.p)->shape(), wanted = grad->shape();
    if (!std::equal(given.begin(), given.end(), wanted.begin(), wanted.end()))
      runtime_error("a tensor hook has changed the size of its gradient: from ", shape_text(wanted), " to ", shape_text(given));
    grad = TensorRef::borrow(as_tensor(r.p));
  }
}

PyObject* gradients_tuple(TensorRef* grads, int n) {
  PyObject* t = PyTuple_New(n);
  for (int k = 0; t && k < n; ++k) PyTuple_SET_ITEM(t, k, Py_NewRef(grads[k] ? py(grads[k].get()) : Py_None));
  return t;
}

void replace_gradients(PyObject* r, TensorRef* grads, int n, const char* what) {
  if (r == Py_None) return;
  if (is_tensor(r) && n == 1) {
    grads[0] = TensorRef::borrow(as_tensor(r));
    return;
  }
  if (!PyTuple_Check(r) || PyTuple_GET_SIZE(r) != n) runtime_error(what, " must return None or a tuple of ", n, " gradients");
  for (int k = 0; k < n; ++k) {
    PyObject* g = PyTuple_GET_ITEM(r, k);
    grads[k] = is_tensor(g) ? TensorRef::borrow(as_tensor(g)) : TensorRef();
  }
}

void node_hooks(Node& n, TensorRef* grads) {
  Held list = Held::borrow(static_cast<PyObject*>(n.hooks));
  for (int pass = kTensorHook; pass <= kPreHook; ++pass)
    for (Py_ssize_t k = 0; k < PyList_GET_SIZE(list.p); ++k) {
      PyObject* entry = PyList_GET_ITEM(list.p, k);
      if (PyLong_AsLong(PyTuple_GET_ITEM(entry, 0)) != pass) continue;
      long nr = PyLong_AsLong(PyTuple_GET_ITEM(entry, 1));
      PyObject* what = PyTuple_GET_ITEM(entry, 2);
      if (pass == kTensorHook) {
        if (grads[nr]) run_tensor_hooks(what, grads[nr]);
      } else if (pass == kRetainGrad_) {
        PyObject* target = PyWeakref_GetObject(what);
        if (target && target != Py_None && grads[nr]) {
          Tensor& t = *as_tensor(target);
          if (t.grad && !grad_enabled) accumulate_grad(t, grads[nr], false);
          else if (!t.grad) { track_object(&t); t.grad = TensorRef(grads[nr]).detach(); }
        }
      } else {
        Held values = checked(PyDict_Values(what));
        for (Py_ssize_t j = 0; j < PyList_GET_SIZE(values.p); ++j) {
          Held args(gradients_tuple(grads, n.nouts));
          Held r = checked(PyObject_CallOneArg(PyList_GET_ITEM(values.p, j), args.p));
          replace_gradients(r.p, grads, n.nouts, "a node pre-hook");
        }
      }
    }
}

void node_post_hooks(Node& n, TensorRef* out, TensorRef* grads) {
  PyObject* dict = hooks_of(n, kPostHook, 0, false);
  if (!dict) return;
  Held values = checked(PyDict_Values(dict));
  for (Py_ssize_t j = 0; j < PyList_GET_SIZE(values.p); ++j) {
    Held inputs(gradients_tuple(out, n.nedges)), outputs(gradients_tuple(grads, n.nouts));
    Held r = checked(PyObject_CallFunctionObjArgs(PyList_GET_ITEM(values.p, j), inputs.p, outputs.p, nullptr));
    replace_gradients(r.p, out, n.nedges, "a node post-hook");
  }
}

void leaf_hooks(Tensor& t, TensorRef& grad) { run_tensor_hooks(static_cast<PyObject*>(t.extra->hooks), grad); }
void accumulate_hooks(Tensor& t) {
  Held values = checked(PyDict_Values(static_cast<PyObject*>(t.extra->accumulate_hooks)));
  for (Py_ssize_t k = 0; k < PyList_GET_SIZE(values.p); ++k) checked(PyObject_CallOneArg(PyList_GET_ITEM(values.p, k), py(&t)));
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

// --- module functions ------------------------------------------------------------------------------------------------

std::vector<Tensor*> tensor_list(PyObject* o, const char* what) {
  std::vector<Tensor*> list;
  if (!PyTuple_Check(o)) type_error(what, " must be a tuple of tensors");
  for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(o); ++k) {
    if (!is_tensor(PyTuple_GET_ITEM(o, k))) type_error(what, ": element ", k, " must be a Tensor, not ", Py_TYPE(PyTuple_GET_ITEM(o, k))->tp_name);
    list.push_back(as_tensor(PyTuple_GET_ITEM(o, k)));
  }
  return list;
}

TensorRef ones_for(const Tensor& t) {
  TensorRef one = empty(t.shape(), t.dtype, t.device);
  if (!one->is_meta()) fill(*one, Scalar(1));
  return one;
}

// backward(tensors, gradients (None: 1), retain_graph, create_graph, inputs (empty: all leaves), accumulate)
// -> gradients of `inputs`, None where none came
PyObject* backward(PyObject*, PyObject* const* a, Py_ssize_t n) {
  return guarded([&]() -> PyObject* {
    if (n != 6 || !PyTuple_Check(a[1])) type_error("backward takes 6 arguments");
    auto roots = tensor_list(a[0], "tensors");
    std::vector<Tensor*> grads, inputs;
    std::vector<TensorRef> made;
    inputs = tensor_list(a[4], "inputs");
    if (PyTuple_GET_SIZE(a[1]) != Py_ssize_t(roots.size())) runtime_error("backward: ", roots.size(), " tensors but ", PyTuple_GET_SIZE(a[1]), " gradients");
    for (size_t k = 0; k < roots.size(); ++k) {
      if (!tensor_requires_grad(*roots[k])) runtime_error("backward: element ", k, " of tensors does not require grad and does not have a grad_fn");
      PyObject* g = PyTuple_GET_ITEM(a[1], Py_ssize_t(k));
      if (g == Py_None) made.push_back(ones_for(*roots[k]));
      grads.push_back(g == Py_None ? made.back().get() : as_tensor(g));
      const Tensor& t = *grads.back();
      if (!(t.ndim == roots[k]->ndim && std::equal(t.sizes, t.sizes + t.ndim, roots[k]->sizes)))
        runtime_error("Mismatch in shape: grad_output[", k, "] has a shape of ", shape_text(t.shape()), " and output[", k,
                      "] has a shape of ", shape_text(roots[k]->shape()), ".");
    }
    BackwardOptions options{a[2] == Py_True, a[3] == Py_True, a[5] == Py_True};
    Grads found = run_backward(roots, grads, inputs, options);
    Held t = checked(PyTuple_New(Py_ssize_t(found.size())));
    for (size_t k = 0; k < found.size(); ++k)
      PyTuple_SET_ITEM(t.p, Py_ssize_t(k), found[k] ? py(found[k].detach()) : Py_NewRef(Py_None));
    return t.give();
  });
}

// backward_scalar(t): t.backward() of a one-element tensor, without Python in between
PyObject* backward_scalar(PyObject*, PyObject* o) {
  return guarded([&]() -> PyObject* {
    Tensor* t = as_tensor(o);
    if (!tensor_requires_grad(*t)) runtime_error("backward: element 0 of tensors does not require grad and does not have a grad_fn");
    if (t->numel != 1) runtime_error("grad can be implicitly created only for scalar outputs; this tensor has shape ", shape_text(t->shape()),
                                     ": pass gradient=, or reduce it first (.sum(), .mean())");
    if (!is_floating(t->dtype)) runtime_error("grad can be implicitly created only for real scalar outputs but got ", dtype_name(t->dtype));
    TensorRef one = ones_for(*t);
    Tensor* roots[] = {t};
    Tensor* grads[] = {one.get()};
    run_backward(roots, grads, {}, {});
    Py_RETURN_NONE;
  });
}

// function_node(callable, inputs (Tensor or None each), outputs (Tensor or None each), name) -> Node
// The callable gets one gradient (or None) per output and returns a tuple with one per input.
PyObject* function_node(PyObject*, PyObject* const* a, Py_ssize_t n) {
  return guarded([&]() -> PyObject* {
    if (n != 4 || !PyTuple_Check(a[1]) || !PyTuple_Check(a[2])) type_error("function_node takes a callable, inputs, outputs, name");
    Py_ssize_t nin = PyTuple_GET_SIZE(a[1]), nout = PyTuple_GET_SIZE(a[2]);
    if (nout > 255) runtime_error("a Function returns at most 255 tensors, got ", nout);
    NodeRef node = NodeRef::steal(new_node(NodeKind::Function, int(std::max<Py_ssize_t>(nout, 1)), int(nin), 0));
    node->payload = Py_NewRef(a[0]);
    for (Py_ssize_t k = 0; k < nin; ++k) {
      PyObject* o = PyTuple_GET_ITEM(a[1], k);
      if (is_tensor(o) && tensor_requires_grad(*as_tensor(o))) set_edge(node->edges[k], *as_tensor(o));
    }
    Held dict = checked(PyObject_GenericGetDict(py(node.get()), nullptr));
    checked(PyDict_SetItemString(dict.p, "_name", a[3]));
    for (Py_ssize_t k = 0; k < nout; ++k) {
      PyObject* o = PyTuple_GET_ITEM(a[2], k);
      if (!is_tensor(o)) continue;
      Tensor& t = *as_tensor(o);
      set_meta(k == 0 ? node->meta : node->more_meta[k - 1], t);
      if (is_differentiable(t.dtype)) set_history(t, node.get(), uint32_t(k));
    }
    return py(node.detach());
  });
}
// rebase(tensor, node): the tensor was written in place by the operation recorded in `node`
PyObject* rebase(PyObject*, PyObject* const* a, Py_ssize_t n) {
  return guarded([&]() -> PyObject* {
    if (n != 2 || !is_tensor(a[0]) || Py_TYPE(a[1]) != NodeType) type_error("rebase takes a tensor and a node");
    rebase_history(*as_tensor(a[0]), NodeRef::borrow(&as_node(a[1])));
    Py_RETURN_NONE;
  });
}
// set_history(tensor, node, output number)
PyObject* set_history_(PyObject*, PyObject* args) {
  PyObject *t, *n;
  int nr;
  if (!PyArg_ParseTuple(args, "O!O!i", TensorType, &t, NodeType, &n, &nr)) return nullptr;
  set_history(*as_tensor(t), &as_node(n), uint32_t(nr));
  Py_RETURN_NONE;
}
// tensor_hooks(t) -> the dict of t's gradient hooks
PyObject* tensor_hooks(PyObject*, PyObject* o) {
  return guarded([&]() -> PyObject* {
    if (!is_tensor(o)) type_error("tensor_hooks takes a tensor");
    Tensor& t = *as_tensor(o);
    if (!tensor_requires_grad(t)) runtime_error("cannot register a hook on a tensor that doesn't require gradient");
    if (Node* fn = grad_fn_of(t)) return Py_NewRef(hooks_of(*fn, kTensorHook, int(t.output_nr), true));
    if (!t.extra) t.extra = new TensorExtra;
    if (!t.extra->hooks) t.extra->hooks = checked(PyODict_New()).give();
    track_object(&t);
    return Py_NewRef(static_cast<PyObject*>(t.extra->hooks));
  });
}
PyObject* accumulate_hooks_(PyObject*, PyObject* o) {
  return guarded([&]() -> PyObject* {
    if (!is_tensor(o)) type_error("accumulate_hooks takes a tensor");
    Tensor& t = *as_tensor(o);
    if (!tensor_requires_grad(t)) runtime_error("cannot register a hook on a tensor that doesn't require gradient");
    if (grad_fn_of(t)) runtime_error("post accumulate grad hooks cannot be registered on non-leaf tensors");
    if (!t.extra) t.extra = new TensorExtra;
    if (!t.extra->accumulate_hooks) t.extra->accumulate_hooks = checked(PyODict_New()).give();
    track_object(&t);
    return Py_NewRef(static_cast<PyObject*>(t.extra->accumulate_hooks));
  });
}
PyObject* retain_grad(PyObject*, PyObject* o) {
  return guarded([&]() -> PyObject* {
    if (!is_tensor(o)) type_error("retain_grad takes a tensor");
    Tensor& t = *as_tensor(o);
    if (!tensor_requires_grad(t)) runtime_error("can't retain_grad on Tensor that has requires_grad=False");
    Node* fn = grad_fn_of(t);
    if (!fn || t.flags & kRetainGrad) Py_RETURN_NONE;
    t.flags |= kRetainGrad;
    if (!fn->hooks) fn->hooks = checked(PyList_New(0)).give();
    Held ref = checked(PyWeakref_NewRef(o, nullptr));
    Held entry = checked(Py_BuildValue("(iiO)", int(kRetainGrad_), int(t.output_nr), ref.p));
    checked(PyList_Append(static_cast<PyObject*>(fn->hooks), entry.p));
    Py_RETURN_NONE;
  });
}

PyObject* set_grad_enabled(PyObject*, PyObject* on) {  // -> what it was
  return PyBool_FromLong(std::exchange(grad_enabled, on == Py_True));
}
PyObject* is_grad_enabled(PyObject*, PyObject*) { return PyBool_FromLong(grad_enabled); }
PyObject* set_inference(PyObject*, PyObject* on) { return PyBool_FromLong(std::exchange(inference_enabled, on == Py_True)); }
PyObject* is_inference(PyObject*, PyObject*) { return PyBool_FromLong(inference_enabled); }

PyMethodDef functions[] = {
    {"backward", (PyCFunction)(void*)backward, METH_FASTCALL}, {"backward_scalar", backward_scalar, METH_O},
    {"function_node", (PyCFunction)(void*)function_node, METH_FASTCALL}, {"rebase", (PyCFunction)(void*)rebase, METH_FASTCALL},
    {"set_history", set_history_, METH_VARARGS}, {"tensor_hooks", tensor_hooks, METH_O},
    {"accumulate_hooks", accumulate_hooks_, METH_O}, {"retain_grad", retain_grad, METH_O},
    {"set_grad_enabled", set_grad_enabled, METH_O}, {"is_grad_enabled", is_grad_enabled, METH_NOARGS},
    {"set_inference_mode", set_inference, METH_O}, {"is_inference_mode", is_inference, METH_NOARGS}, {}};

}  // namespace

void add_node_type(PyObject* module) {
  NodeType = reinterpret_cast<PyTypeObject*>(checked(PyType_FromSpec(&spec)).give());
  checked(PyModule_AddObjectRef(module, "Node", (PyObject*)NodeType));
  checked(PyModule_AddFunctions(module, functions));
  allocate_node_object = new_object;
  apply_rules = apply_python_rules;
  apply_function = apply_python_function;
  run_node_hooks = node_hooks;
  run_node_post_hooks = node_post_hooks;
  run_leaf_hooks = leaf_hooks;
  run_accumulate_hooks = accumulate_hooks;
}

}  // namespace flambeau
