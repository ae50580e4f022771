// Saved-tensor hooks: what a node keeps for its rule is given to a user's function, and asked back when the rule runs.
#include "autograd.h"
#include "slot.h"
#include "upward.h"

namespace flambeau {
namespace {

PyObject* stack() { return static_cast<PyObject*>(tls.saved_hooks); }  // list of (pack, unpack); null: none yet

// Where the gradient of a saved tensor goes on to: (node or leaf or None, output number).
Held history_of(Tensor& t, bool own) {
  if (own) return checked(Py_BuildValue("(Oi)", Py_None, 0));
  if (Node* fn = grad_fn_of(t)) return checked(Py_BuildValue("(Oi)", py(fn), int(t.output_nr)));
  if (t.flags & kRequiresGrad) return checked(Py_BuildValue("(Oi)", py(&t), 0));
  return checked(Py_BuildValue("(Oi)", Py_None, 0));
}

// (unpack, what pack made, history)
Held packed_tensor(Tensor& t, bool own, PyObject* pack, PyObject* unpack) {
  Held history = history_of(t, own);
  Held plain(take_object(alias(t)));
  uint64_t version = t.storage ? t.storage->version : 0;
  Held made = checked(PyObject_CallOneArg(pack, plain.p));
  if (t.storage && t.storage->version != version)
    runtime_error("saved_tensors_hooks: the pack hook changed its input in place, which the rest of the program still "
                  "uses; let it work on a clone");
  return checked(Py_BuildValue("(OOO)", unpack, made.p, history.p));
}

// An identity node in front of a leaf, so that what a hook gave back leads to it.
void lead_to(Tensor& t, Tensor& leaf) {
  static OpHandle clone{"clone"};
  OpDef& op = clone.get();
  NodeRef node = new_node(NodeKind::Rules, 1, 1, int(op.schema.args.size()) + 1, [&](Node& n) {
    n.op = &op;
    set_edge(n.edges[0], leaf);
  });
  set_meta(node->meta, t);
  set_history(t, node.get(), 0);
}

Held unpacked_tensor(Node& n, Saved& s, PyObject* entry) {
  Held found = checked(PyObject_CallOneArg(PyTuple_GET_ITEM(entry, 0), PyTuple_GET_ITEM(entry, 1)));
  if (!is_tensor(found.p))
    type_error("saved_tensors_hooks: the unpack hook must return a Tensor, got ", Py_TYPE(found.p)->tp_name);
  PyObject* history = PyTuple_GET_ITEM(entry, 2);
  PyObject* source = PyTuple_GET_ITEM(history, 0);
  if (!tls.grad_enabled || (source == Py_None && !s.own_result)) return found;
  TensorRef t = alias(*as_tensor(found.p));
  if (s.own_result) set_history(*t, &n, s.output_nr);
  else if (is_node(source)) set_history(*t, &as_node(source), uint32_t(PyLong_AsLong(PyTuple_GET_ITEM(history, 1))));
  else lead_to(*t, *as_tensor(source));
  return Held(take_object(std::move(t)));
}

void update() { tls.packing = stack() && PyList_GET_SIZE(stack()) > 0; }

PyObject* push_hooks(PyObject*, PyObject* const* a, Py_ssize_t n) {
  return guarded([&]() -> PyObject* {
    if (n != 2) type_error("push_saved_hooks takes pack and unpack");
    if (tls.saved_hooks_refused) {
      PyErr_SetObject(PyExc_RuntimeError, static_cast<PyObject*>(tls.saved_hooks_refused));
      throw PythonError();
    }
    if (!stack()) tls.saved_hooks = checked(PyList_New(0)).give();
    Held pair = checked(PyTuple_Pack(2, a[0], a[1]));
    checked(PyList_Append(stack(), pair.p));
    update();
    Py_RETURN_NONE;
  });
}
PyObject* pop_hooks(PyObject*, PyObject*) {
  return guarded([&]() -> PyObject* {
    if (!stack() || PyList_GET_SIZE(stack()) == 0) runtime_error("pop_saved_hooks: no saved tensor hooks are active");
    checked(PyList_SetSlice(stack(), PyList_GET_SIZE(stack()) - 1, PyList_GET_SIZE(stack()), nullptr));
    update();
    Py_RETURN_NONE;
  });
}
PyObject* top_hooks(PyObject*, PyObject*) {  // (pack, unpack) or None
  if (!tls.packing) Py_RETURN_NONE;
  return Py_NewRef(PyList_GET_ITEM(stack(), PyList_GET_SIZE(stack()) - 1));
}
// set_saved_hooks_disabled(message or None) -> what it was
PyObject* set_disabled(PyObject*, PyObject* message) {
  return guarded([&]() -> PyObject* {
    if (message != Py_None && tls.packing)
      runtime_error("disable_saved_tensors_hooks: saved tensor hooks are active here: ", text_of(message));
    auto* before = static_cast<PyObject*>(tls.saved_hooks_refused);
    tls.saved_hooks_refused = message == Py_None ? nullptr : Py_NewRef(message);
    return before ? before : Py_NewRef(Py_None);
  });
}

PyMethodDef functions[] = {{"push_saved_hooks", method<push_hooks>(), METH_FASTCALL},
                           {"pop_saved_hooks", slot<pop_hooks>, METH_NOARGS},
                           {"top_saved_hooks", slot<top_hooks>, METH_NOARGS},
                           {"set_saved_hooks_disabled", slot<set_disabled>, METH_O}, {}};

}  // namespace

void pack_with(Node& n, Saved& s, const Value& v, PyObject* pack, PyObject* unpack) {
  Held entry;
  if (v.tag == Tag::Tensor) {
    s.dtype = v.tensor->dtype;
    entry = packed_tensor(*v.tensor, s.own_result, pack, unpack);
  } else {
    entry = checked(PyList_New(0));
    for (int64_t k = 0; k < v.tensors.size; ++k) {
      Held one = v.tensors.data[k] ? packed_tensor(*v.tensors.data[k], false, pack, unpack) : Held::borrow(Py_None);
      if (v.tensors.data[k]) s.dtype = v.tensors.data[k]->dtype;
      checked(PyList_Append(entry.p, one.p));
    }
  }
  Value old = s.value;
  s.value = Value();
  s.value.tag = Tag::Object;
  s.value.object = entry.give();
  s.packed = true;
  if (old.tag == Tag::Tensor) release(old.tensor);
  hooks.track_object(&n);
}

void upward::pack_saved(Node& n, Saved& s, const Value& v) {
  PyObject* hooks = PyList_GET_ITEM(stack(), PyList_GET_SIZE(stack()) - 1);
  Held hold = Held::borrow(hooks);
  pack_with(n, s, v, PyTuple_GET_ITEM(hooks, 0), PyTuple_GET_ITEM(hooks, 1));
}

PyObject* unpack_saved(Node& n, Saved& s) {
  Held entry = Held::borrow(static_cast<PyObject*>(s.value.object));
  if (PyTuple_Check(entry.p)) return unpacked_tensor(n, s, entry.p).give();
  Held list = checked(PyList_New(PyList_GET_SIZE(entry.p)));
  for (Py_ssize_t k = 0; k < PyList_GET_SIZE(entry.p); ++k) {
    PyObject* one = PyList_GET_ITEM(entry.p, k);
    PyList_SET_ITEM(list.p, k, one == Py_None ? Py_NewRef(Py_None) : unpacked_tensor(n, s, one).give());
  }
  return PyList_AsTuple(list.p);
}

void add_saved_hooks(PyObject* module) {
  checked(PyModule_AddFunctions(module, functions));
}

}  // namespace flambeau
