// Module functions of autograd: the doors into the engine, nodes of custom functions, hooks of tensors, grad modes.
#include "autograd.h"
#include "slot.h"
#include "upward.h"

namespace flambeau {
namespace {

// Tensors, or (node, output number) pairs: gradient edges
std::vector<Target> target_list(PyObject* o, const char* what) {
  std::vector<Target> list;
  if (!PyTuple_Check(o)) type_error(what, " must be a tuple of tensors");
  for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(o); ++k) {
    PyObject* item = PyTuple_GET_ITEM(o, k);
    if (is_tensor(item)) {
      list.emplace_back(as_tensor(item));
    } else if (PyTuple_Check(item) && PyTuple_GET_SIZE(item) >= 2 && is_node(PyTuple_GET_ITEM(item, 0))) {
      Node& n = as_node(PyTuple_GET_ITEM(item, 0));
      const int64_t nr = integer_of(PyTuple_GET_ITEM(item, 1));
      if (nr < 0 || nr >= n.nouts)
        index_error(what, ": element ", k, " is output ", nr, " of ", node_name(n), ", which has ", n.nouts);
      list.emplace_back(&n, uint32_t(nr));
    } else {
      type_error(what, ": element ", k, " must be a Tensor or a GradientEdge, not ", Py_TYPE(item)->tp_name);
    }
  }
  return list;
}

// Tells t's node that t wants its gradient; done again when a write gives t another node.
void note_retained(Tensor& t) {
  Node& fn = *t.grad_fn;
  if (!fn.hooks) fn.hooks = checked(PyList_New(0)).give();
  Held ref = checked(PyWeakref_NewRef(py(&t), nullptr));
  Held entry = checked(Py_BuildValue("(iiO)", int(kRetainGradHook), int(t.output_nr), ref.p));
  checked(PyList_Append(static_cast<PyObject*>(fn.hooks), entry.p));
}

// From now on t's gradient stays in t.grad; a leaf's does anyway.
void keep_gradient_of(Tensor& t) {
  if (!grad_fn_of(t) || t.flags & kRetainGrad) return;
  t.flags |= kRetainGrad;
  note_retained(t);
}

TensorRef ones_for(Tensor& t) {
  static OpHandle op_ones_like{"ones_like"};
  if (__builtin_expect(tls.user_modes, 0)) return invoke(op_ones_like, {Value(&t)});  // modes hear what they will meet
  TensorRef one = empty(t.shape(), t.dtype, t.device);
  fill(*one, Scalar(1));
  return one;
}

// backward(tensors, gradients (None: 1), retain_graph, create_graph, inputs (empty: all leaves), accumulate)
// -> gradients of `inputs`, None where none came
PyObject* backward(PyObject*, PyObject* const* a, Py_ssize_t n) {
  return guarded([&]() -> PyObject* {
    if (n != 6 || !PyTuple_Check(a[1])) type_error("backward takes 6 arguments");
    auto roots = target_list(a[0], "tensors");
    std::vector<Tensor*> grads;
    std::vector<TensorRef> made;
    auto inputs = target_list(a[4], "inputs");
    if (PyTuple_GET_SIZE(a[1]) != Py_ssize_t(roots.size()))
      runtime_error("backward: ", roots.size(), " tensors but ", PyTuple_GET_SIZE(a[1]), " gradients");
    for (size_t k = 0; k < roots.size(); ++k) {
      if (!roots[k].requires_grad()) runtime_error("backward: output ", k, " does not require grad and has no grad_fn: "
                                                   "no input of it has requires_grad=True, or it was computed under "
                                                   "no_grad or detached");
      PyObject* g = PyTuple_GET_ITEM(a[1], Py_ssize_t(k));
      if (g == Py_None && roots[k].node) {
        const GradMeta& m = roots[k].node->output_meta(roots[k].output_nr);
        made.push_back(empty(m.shape(), m.dtype, m.device));
        fill(*made.back(), Scalar(1));
      } else if (g == Py_None) {
        made.push_back(ones_for(*roots[k].tensor));
      }
      grads.push_back(g == Py_None ? made.back().get() : as_tensor(g));
      const Tensor& t = *grads.back();
      Dims wanted = roots[k].shape();
      if (!(t.ndim == wanted.size() && std::equal(t.sizes, t.sizes + t.ndim, wanted.begin())))
        runtime_error("backward: gradient ", k, " must have the shape of its tensor, ", shape_text(wanted), ", got ",
                      shape_text(t.shape()));
    }
    BackwardOptions options{a[2] == Py_True, a[3] == Py_True, a[5] == Py_True};
    if (options.accumulate)  // into leaves; what was computed keeps its gradient from now on
      for (const Target& t : inputs)
        if (t.tensor) keep_gradient_of(*t.tensor);
    Grads found = run_backward(roots, grads, inputs, options);
    Held t = checked(PyTuple_New(Py_ssize_t(found.size())));
    for (size_t k = 0; k < found.size(); ++k)
      PyTuple_SET_ITEM(t.p, Py_ssize_t(k), found[k] ? py(found[k].detach()) : Py_NewRef(Py_None));
    return t.give();
  });
}

// backward_scalar(t, retain_graph): t.backward() of a one-element tensor, without Python in between
PyObject* backward_scalar(PyObject*, PyObject* const* a, Py_ssize_t n) {
  return guarded([&]() -> PyObject* {
    if (n != 2 || !is_tensor(a[0])) type_error("backward_scalar takes a tensor and a bool");
    Tensor* t = as_tensor(a[0]);
    if (!tensor_requires_grad(*t)) runtime_error("backward: this tensor does not require grad and has no grad_fn: no "
                                                 "input of it has requires_grad=True, or it was computed under no_grad "
                                                 "or detached");
    if (t->numel != 1) runtime_error("backward: only a tensor of one element needs no gradient; this one has shape ",
                                     shape_text(t->shape()), ": pass gradient=, or reduce it first (.sum(), .mean())");
    if (!is_floating(t->dtype)) runtime_error("backward: only a real floating-point tensor needs no gradient; this one "
                                              "is ", dtype_name(t->dtype), ": pass gradient=");
    TensorRef one = ones_for(*t);
    Target roots[] = {Target(t)};
    Tensor* grads[] = {one.get()};
    run_backward(roots, grads, {}, {.keep_graph = a[1] == Py_True});
    Py_RETURN_NONE;
  });
}

// function_node(callable, inputs (Tensor or None each), outputs (Tensor or None each), name) -> Node
// The callable gets one gradient (or None) per output and returns a tuple with one per input.
PyObject* function_node(PyObject*, PyObject* const* a, Py_ssize_t n) {
  return guarded([&]() -> PyObject* {
    if (n != 4 || !PyTuple_Check(a[1]) || !PyTuple_Check(a[2]))
      type_error("function_node takes a callable, inputs, outputs, name");
    Py_ssize_t nin = PyTuple_GET_SIZE(a[1]), nout = PyTuple_GET_SIZE(a[2]);
    NodeRef node = new_node(NodeKind::Function, std::max<Py_ssize_t>(nout, 1), nin, 0, [&](Node& made) {
      made.payload = Py_NewRef(a[0]);
      for (Py_ssize_t k = 0; k < nin; ++k) {
        PyObject* o = PyTuple_GET_ITEM(a[1], k);
        if (is_tensor(o) && tensor_requires_grad(*as_tensor(o))) set_edge(made.edges[k], *as_tensor(o));
      }
    });
    Held dict = checked(PyObject_GenericGetDict(py(node.get()), nullptr));
    checked(PyDict_SetItemString(dict.p, "_name", a[3]));
    for (Py_ssize_t k = 0; k < nout; ++k) {
      PyObject* o = PyTuple_GET_ITEM(a[2], k);
      if (!is_tensor(o)) continue;
      Tensor& t = *as_tensor(o);
      set_meta(k == 0 ? node->meta : node->more_meta[k - 1], t);
      if (is_differentiable(t.dtype)) set_history(t, node.get(), uint32_t(k));
    }
    upward::note_origin(*node);
    if (process.watch_creation) upward::node_created(*node);
    return py(node.detach());
  });
}
// rebase(tensor, node): the tensor was written in place by the operation recorded in `node`
PyObject* rebase(PyObject*, PyObject* const* a, Py_ssize_t n) {
  return guarded([&]() -> PyObject* {
    if (n != 2 || !is_tensor(a[0]) || !is_node(a[1])) type_error("rebase takes a tensor and a node");
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
    if (!tensor_requires_grad(t)) runtime_error("register_hook: this tensor does not require grad, so the hook would "
                                                "never run");
    if (Node* fn = grad_fn_of(t)) return Py_NewRef(hooks_of(*fn, kTensorHook, int(t.output_nr), true));
    if (!t.extra) t.extra = new TensorExtra;
    if (!t.extra->hooks) t.extra->hooks = checked(PyODict_New()).give();
    hooks.track_object(&t);
    return Py_NewRef(static_cast<PyObject*>(t.extra->hooks));
  });
}
PyObject* accumulate_hooks_(PyObject*, PyObject* o) {
  return guarded([&]() -> PyObject* {
    if (!is_tensor(o)) type_error("accumulate_hooks takes a tensor");
    Tensor& t = *as_tensor(o);
    if (!tensor_requires_grad(t)) runtime_error("register_hook: this tensor does not require grad, so the hook would "
                                                "never run");
    if (grad_fn_of(t)) runtime_error("register_post_accumulate_grad_hook: gradients are accumulated in leaves, and "
                                     "this tensor was computed by ", node_name(*grad_fn_of(t)));
    if (!t.extra) t.extra = new TensorExtra;
    if (!t.extra->accumulate_hooks) t.extra->accumulate_hooks = checked(PyODict_New()).give();
    hooks.track_object(&t);
    return Py_NewRef(static_cast<PyObject*>(t.extra->accumulate_hooks));
  });
}
PyObject* retain_grad(PyObject*, PyObject* o) {
  return guarded([&]() -> PyObject* {
    if (!is_tensor(o)) type_error("retain_grad takes a tensor");
    Tensor& t = *as_tensor(o);
    if (!tensor_requires_grad(t)) runtime_error("retain_grad: this tensor does not require grad, so it will have no "
                                                "gradient");
    keep_gradient_of(t);
    Py_RETURN_NONE;
  });
}

PyObject* context_handler = nullptr;   // (node, exception): adds to the exception what is known of the node
PyObject* creation_handler = nullptr;  // (node): anomaly mode and creation hooks

// What is thrown stays thrown, as Python's exception.
[[noreturn]] void explain(Node& n) {
  try {
    throw;
  } catch (const PythonError&) {
  } catch (const std::exception& e) {
    set_error(e);
  }
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  PyErr_NormalizeException(&type, &value, &trace);
  if (trace) PyException_SetTraceback(value, trace);
  if (context_handler && value && PyErr_GivenExceptionMatches(type, PyExc_Exception)) {
    Held node(node_object(n));
    PyObject* done = PyObject_CallFunctionObjArgs(context_handler, node.p, value, nullptr);
    if (!done) PyErr_Clear();  // the user's error matters, not ours
    Py_XDECREF(done);
  }
  PyErr_Restore(type, value, trace);
  throw PythonError();
}
void tell_creation(Node& n) {
  if (creation_handler) checked(PyObject_CallOneArg(creation_handler, Held(node_object(n)).p));
}
// set_node_handlers(explain, created or None)
PyObject* set_node_handlers(PyObject*, PyObject* const* a, Py_ssize_t n) {
  if (n != 2) return PyErr_Format(PyExc_TypeError, "set_node_handlers takes two arguments");
  Py_XSETREF(context_handler, Py_NewRef(a[0]));
  process.watch_creation = a[1] != Py_None;
  Py_XSETREF(creation_handler, process.watch_creation ? Py_NewRef(a[1]) : nullptr);
  Py_RETURN_NONE;
}
PyObject* set_grad_layout(PyObject*, PyObject* on) {
  return PyBool_FromLong(!std::exchange(tls.free_layout, on != Py_True));
}
PyObject* set_anomaly_check(PyObject*, PyObject* on) {
  return PyBool_FromLong(std::exchange(process.anomaly_check, on == Py_True));
}
// set_write_hook(callable or None) -> what it was
PyObject* set_write_hook(PyObject*, PyObject* f) {
  auto* before = static_cast<PyObject*>(tls.write_handler);
  tls.watch_writes = f != Py_None;
  tls.write_handler = tls.watch_writes ? Py_NewRef(f) : nullptr;
  return before ? before : Py_NewRef(Py_None);
}
PyObject* current_pass_(PyObject*, PyObject*) { return PyLong_FromUnsignedLongLong(current_pass_number()); }
PyObject* running_node_(PyObject*, PyObject*) {
  Node* n = running_node();
  return n ? node_object(*n) : Py_NewRef(Py_None);
}
PyObject* pass_is_limited_(PyObject*, PyObject*) { return PyBool_FromLong(pass_is_limited()); }
// pass_members([leaf or (node, output number) or None, …]) -> whether this pass has a gradient for each
PyObject* pass_members(PyObject*, PyObject* list) {
  return guarded([&]() -> PyObject* {
    Held all = checked(PySequence_List(list));
    Held present = checked(PyList_New(0));
    for (Py_ssize_t k = 0; k < PyList_GET_SIZE(all.p); ++k)
      if (PyList_GET_ITEM(all.p, k) != Py_None) checked(PyList_Append(present.p, PyList_GET_ITEM(all.p, k)));
    Held tuple = checked(PyList_AsTuple(present.p));
    std::vector<bool> found = pass_reaches(target_list(tuple.p, "tensors"));
    Held result = checked(PyList_New(0));
    for (Py_ssize_t k = 0, at = 0; k < PyList_GET_SIZE(all.p); ++k)
      checked(
          PyList_Append(result.p, PyList_GET_ITEM(all.p, k) != Py_None && found[size_t(at++)] ? Py_True : Py_False));
    return result.give();
  });
}
PyObject* queue_callback_(PyObject*, PyObject* callback) {
  return guarded([&]() -> PyObject* {
    queue_callback(reinterpret_cast<Object*>(callback));
    Py_RETURN_NONE;
  });
}

PyObject* set_grad_enabled(PyObject*, PyObject* on) {  // -> what it was
  return PyBool_FromLong(std::exchange(tls.grad_enabled, on == Py_True));
}
PyObject* is_grad_enabled(PyObject*, PyObject*) { return PyBool_FromLong(tls.grad_enabled); }
PyObject* set_inference(PyObject*, PyObject* on) {
  return PyBool_FromLong(std::exchange(tls.inference_enabled, on == Py_True));
}
PyObject* is_inference(PyObject*, PyObject*) { return PyBool_FromLong(tls.inference_enabled); }

PyMethodDef functions[] = {{"backward", method<backward>(), METH_FASTCALL},
                           {"backward_scalar", method<backward_scalar>(), METH_FASTCALL},
                           {"function_node", method<function_node>(), METH_FASTCALL},
                           {"rebase", method<rebase>(), METH_FASTCALL},
                           {"set_history", slot<set_history_>, METH_VARARGS},
                           {"tensor_hooks", slot<tensor_hooks>, METH_O},
                           {"accumulate_hooks", slot<accumulate_hooks_>, METH_O},
                           {"retain_grad", slot<retain_grad>, METH_O},
                           {"set_grad_enabled", slot<set_grad_enabled>, METH_O},
                           {"is_grad_enabled", slot<is_grad_enabled>, METH_NOARGS},
                           {"set_node_handlers", method<set_node_handlers>(), METH_FASTCALL},
                           {"set_anomaly_check", slot<set_anomaly_check>, METH_O},
                           {"set_grad_layout", slot<set_grad_layout>, METH_O},
                           {"queue_callback", slot<queue_callback_>, METH_O},
                           {"current_pass", slot<current_pass_>, METH_NOARGS},
                           {"running_node", slot<running_node_>, METH_NOARGS},
                           {"pass_is_limited", slot<pass_is_limited_>, METH_NOARGS},
                           {"pass_members", slot<pass_members>, METH_O},
                           {"set_write_hook", slot<set_write_hook>, METH_O},
                           {"set_inference_mode", slot<set_inference>, METH_O},
                           {"is_inference_mode", slot<is_inference>, METH_NOARGS},
                           {}};

}  // namespace

void upward::add_node_context(Node& n) { explain(n); }
void upward::node_created(Node& n) { tell_creation(n); }
void upward::retain_again(Tensor& t) { note_retained(t); }
void upward::before_write(Tensor& t) {
  checked(PyObject_CallOneArg(static_cast<PyObject*>(tls.write_handler), py(&t)));
}
void upward::run_callback(Object* callback) { checked(PyObject_CallNoArgs(py(callback))); }

void add_autograd_functions(PyObject* module) {
  checked(PyModule_AddFunctions(module, functions));
}

}  // namespace flambeau
