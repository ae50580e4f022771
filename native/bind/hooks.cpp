// Hooks in a backward pass. A node keeps a list of (kind, output number, dict of callables or weak reference).
#include "autograd.h"
#include "upward.h"

namespace flambeau {

// Hooks of an AccumulateGrad node last as long as its leaf, not only as long as somebody holds the node.
static void keep_leaf_node(Node& n) {
  if (n.kind != NodeKind::Accumulate) return;
  auto& leaf = *static_cast<Tensor*>(n.payload);
  if (leaf.extra->owns_accumulate) return;
  leaf.extra->owns_accumulate = true;
  retain(&n);
  hooks.track_object(&leaf);
}

PyObject* hooks_of(Node& n, int kind, int output_nr, bool create) {  // borrowed
  if (!n.hooks) {
    if (!create) return nullptr;
    n.hooks = checked(PyList_New(0)).give();
    keep_leaf_node(n);
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

namespace {

void call_tensor_hooks(PyObject* dict, TensorRef& grad) {
  Held hooks = checked(PyDict_Values(dict));
  for (Py_ssize_t k = 0; k < PyList_GET_SIZE(hooks.p) && grad; ++k) {
    Held r = checked(PyObject_CallOneArg(PyList_GET_ITEM(hooks.p, k), py(grad.get())));
    if (r.p == Py_None) continue;
    if (!is_tensor(r.p)) type_error("a tensor hook must return None or a Tensor, got ", Py_TYPE(r.p)->tp_name);
    Dims given = as_tensor(r.p)->shape(), wanted = grad->shape();
    if (!std::equal(given.begin(), given.end(), wanted.begin(), wanted.end()))
      runtime_error("a tensor hook has changed the size of its gradient: from ", shape_text(wanted), " to ",
                    shape_text(given));
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
  if (!PyTuple_Check(r) || PyTuple_GET_SIZE(r) != n) runtime_error(what, " returns None, or one gradient per input in "
                                                                   "a tuple of ", n);
  for (int k = 0; k < n; ++k) {
    PyObject* g = PyTuple_GET_ITEM(r, k);
    grads[k] = is_tensor(g) ? TensorRef::borrow(as_tensor(g)) : TensorRef();
  }
}

// A retained gradient is a tensor of its own: the one that flows on may be the caller's, or another tensor's gradient
// too.
void retain_gradient(Tensor& t, Tensor& grad) {
  static OpHandle clone{"clone"}, add{"add"};
  TensorRef before = TensorRef::borrow(t.grad);
  TensorRef now = before ? invoke(add, {Value(before.get()), Value(&grad)}) : invoke(clone, {Value(&grad)});
  hooks.track_object(&t);
  if (Tensor* old = std::exchange(t.grad, now.detach())) release(old);
}

}  // namespace

void upward::run_tensor_hooks(Node& n, TensorRef* grads) {
  Held list = Held::borrow(static_cast<PyObject*>(n.hooks));
  for (int kind : {kTensorHook, kRetainGradHook})
    for (Py_ssize_t k = 0; k < PyList_GET_SIZE(list.p); ++k) {
      PyObject* entry = PyList_GET_ITEM(list.p, k);
      const long nr = PyLong_AsLong(PyTuple_GET_ITEM(entry, 1));
      if (PyLong_AsLong(PyTuple_GET_ITEM(entry, 0)) != kind || !grads[nr]) continue;
      PyObject* what = PyTuple_GET_ITEM(entry, 2);
      if (kind == kTensorHook) {
        call_tensor_hooks(what, grads[nr]);
        continue;
      }
      Held target = Held::borrow(PyWeakref_GetObject(what));
      if (!target || target.p == Py_None) continue;
      Tensor& t = *as_tensor(target.p);
      if (t.grad_fn == &n && long(t.output_nr) == nr) retain_gradient(t, *grads[nr]);  // else: written to since
    }
}

void upward::run_node_pre_hooks(Node& n, TensorRef* grads) {
  PyObject* dict = hooks_of(n, kPreHook, 0, false);
  if (!dict) return;
  Held values = checked(PyDict_Values(dict));
  for (Py_ssize_t j = 0; j < PyList_GET_SIZE(values.p); ++j) {
    Held args(gradients_tuple(grads, n.nouts));
    Held r = checked(PyObject_CallOneArg(PyList_GET_ITEM(values.p, j), args.p));
    replace_gradients(r.p, grads, n.nouts, "a node pre-hook");
  }
}

void upward::run_node_post_hooks(Node& n, TensorRef* out, TensorRef* grads) {
  PyObject* dict = hooks_of(n, kPostHook, 0, false);
  if (!dict) return;
  Held values = checked(PyDict_Values(dict));
  for (Py_ssize_t j = 0; j < PyList_GET_SIZE(values.p); ++j) {
    Held inputs(gradients_tuple(out, n.nedges)), outputs(gradients_tuple(grads, n.nouts));
    Held r = checked(PyObject_CallFunctionObjArgs(PyList_GET_ITEM(values.p, j), inputs.p, outputs.p, nullptr));
    replace_gradients(r.p, out, n.nedges, "a node post-hook");
  }
}

void upward::run_leaf_hooks(Tensor& t, TensorRef& grad) {
  call_tensor_hooks(static_cast<PyObject*>(t.extra->hooks), grad);
}

void upward::run_accumulate_hooks(Tensor& t) {
  Held values = checked(PyDict_Values(static_cast<PyObject*>(t.extra->accumulate_hooks)));
  for (Py_ssize_t k = 0; k < PyList_GET_SIZE(values.p); ++k)
    checked(PyObject_CallOneArg(PyList_GET_ITEM(values.p, k), py(&t)));
}

}  // namespace flambeau
