// The Op type: what Python sees of an operator, a native callable made from its record.
#include "op_type.h"
#include "slot.h"

namespace flambeau {

PyTypeObject* OpType;

namespace {

// An operator is a function that binds to tensors alone: `act = relu` in another class is no method of it.
PyObject* op_get(PyObject* self, PyObject* object, PyObject*) {
  if (!object || !is_tensor(object)) return Py_NewRef(self);
  return PyMethod_New(self, object);
}

// What stands in Tensor's own dictionary for an operator: Python calls it with the tensor first and makes no bound
// method. Whoever asks, `Tensor.add`, gets the operator. Operators live as long as the process.
struct OpMethodObject {
  PyObject_HEAD
  vectorcallfunc vectorcall;
  PyObject* op;
};
PyTypeObject* OpMethodType;

PyObject* method_get(PyObject* self, PyObject* object, PyObject*) {
  PyObject* op = reinterpret_cast<OpMethodObject*>(self)->op;
  return object ? PyMethod_New(op, object) : Py_NewRef(op);
}
PyObject* method_call(PyObject* self, PyObject* const* args, size_t nargsf, PyObject* names) {
  PyObject* op = reinterpret_cast<OpMethodObject*>(self)->op;
  return as_op(op)->vectorcall(op, args, nargsf, names);
}
PyObject* method_repr(PyObject* self) {
  return PyUnicode_FromFormat("<method %U of Tensor>", as_op(reinterpret_cast<OpMethodObject*>(self)->op)->name);
}
PyMemberDef method_members[] = {{"__vectorcalloffset__", T_PYSSIZET, offsetof(OpMethodObject, vectorcall), READONLY},
                                {"__wrapped__", T_OBJECT, offsetof(OpMethodObject, op), READONLY},
                                {}};
PyType_Slot method_slots[] = {{Py_tp_call, (void*)PyVectorcall_Call},
                              {Py_tp_repr, type_slot<method_repr>()},
                              {Py_tp_descr_get, type_slot<method_get>()},
                              {Py_tp_members, method_members},
                              {}};
PyType_Spec method_spec = {
    "flambeau.OpMethod", sizeof(OpMethodObject), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_METHOD_DESCRIPTOR | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    method_slots};

PyObject* op_repr(PyObject* o) {
  OpObject* op = as_op(o);
  if (op->def) return PyUnicode_FromFormat("<op %U: %s>", op->name, op->def->schema.text.c_str());
  return PyUnicode_FromFormat("<op %U: %zd forms>", op->name, PyTuple_GET_SIZE(op->alternatives));
}
PyObject* op_schema(PyObject* o, void*) {
  OpObject* op = as_op(o);
  if (!op->def) Py_RETURN_NONE;
  return PyUnicode_FromString(op->def->schema.text.c_str());
}
PyObject* op_kind(PyObject* o, void*) {
  static const char* names[] = {"elementwise", "reduction", "view", "primitive", "composite"};
  OpObject* op = as_op(o);
  return PyUnicode_FromString(op->def ? names[int(op->def->kind)] : "overloads");
}
PyObject* op_rules(PyObject* o, void*) {  // {argument names: rule}
  OpObject* op = as_op(o);
  PyObject* d = PyDict_New();
  if (!d || !op->def) return d;
  for (const Rule& r : op->def->rules) {
    Held key(PyTuple_New(Py_ssize_t(r.inputs.size())));
    for (size_t k = 0; k < r.inputs.size(); ++k)
      PyTuple_SET_ITEM(key.p, Py_ssize_t(k), PyUnicode_FromString(op->def->schema.args[r.inputs[k]].name.c_str()));
    PyDict_SetItem(d, key.p, static_cast<PyObject*>(r.function));
  }
  return d;
}
PyObject* op_random(PyObject* o, void*) { return PyBool_FromLong(as_op(o)->def && as_op(o)->def->random); }
PyObject* op_body(PyObject* o, void*) {
  OpObject* op = as_op(o);
  return Py_NewRef(op->def && op->def->body ? static_cast<PyObject*>(op->def->body) : Py_None);
}
PyObject* op_arguments(PyObject* o, void*) {  // ((name, keyword_only, has_default, default), …)
  OpObject* op = as_op(o);
  if (!op->def) Py_RETURN_NONE;
  const auto& args = op->def->schema.args;
  PyObject* t = PyTuple_New(Py_ssize_t(args.size()));
  for (size_t k = 0; t && k < args.size(); ++k)
    PyTuple_SET_ITEM(t, Py_ssize_t(k),
                     Py_BuildValue("(siiO)", args[k].name.c_str(), int(args[k].keyword_only), int(args[k].has_default),
                                   static_cast<PyObject*>(args[k].py_default)));
  return t;
}
PyObject* op_reduce(PyObject* o, PyObject*) {
  Held module(PyImport_ImportModule("flambeau.ops.kinds"));
  if (!module) return nullptr;
  Held get(PyObject_GetAttrString(module.p, "find"));
  if (!get) return nullptr;
  return Py_BuildValue("(O(O))", get.p, as_op(o)->name);
}

PyMemberDef op_members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(OpObject, vectorcall), READONLY},
    {"__dictoffset__", T_PYSSIZET, offsetof(OpObject, dict), READONLY},
    {"name", T_OBJECT, offsetof(OpObject, name), READONLY},
    {"__name__", T_OBJECT, offsetof(OpObject, name), READONLY},
    {"__qualname__", T_OBJECT, offsetof(OpObject, name), READONLY},
    {"summary", T_OBJECT, offsetof(OpObject, doc), READONLY},
    {"namespace", T_OBJECT, offsetof(OpObject, name_space), READONLY},
    {"alternatives", T_OBJECT, offsetof(OpObject, alternatives), READONLY},
    {"inplace_form", T_OBJECT, offsetof(OpObject, inplace_form), READONLY},
    {"result_type", T_OBJECT, offsetof(OpObject, result_type), READONLY},
    {"is_inplace", T_BOOL, offsetof(OpObject, inplace), READONLY},
    {"takes_out", T_BOOL, offsetof(OpObject, takes_out), READONLY},
    {"is_method", T_BOOL, offsetof(OpObject, method), READONLY},
    {}};
PyGetSetDef op_getset[] = {{"schema", slot<op_schema>},
                           {"kind", slot<op_kind>},
                           {"rules", slot<op_rules>},
                           {"body", slot<op_body>},
                           {"random", slot<op_random>},
                           {"arguments", slot<op_arguments>},
                           {"__dict__", PyObject_GenericGetDict},
                           {}};
PyMethodDef op_methods[] = {{"__reduce__", slot<op_reduce>, METH_NOARGS}, {}};
PyType_Slot op_slots[] = {{Py_tp_call, (void*)PyVectorcall_Call},
                          {Py_tp_repr, type_slot<op_repr>()},
                          {Py_tp_descr_get, type_slot<op_get>()},
                          {Py_tp_members, op_members},
                          {Py_tp_getset, op_getset},
                          {Py_tp_methods, op_methods},
                          {}};
PyType_Spec op_spec = {
    "flambeau.Op", sizeof(OpObject), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    op_slots};

}  // namespace

PyObject* op_object(const char* name) {
  OpDef* def = find_op(name);
  if (!def) {
    PyErr_Format(PyExc_NotImplementedError, "operator %s has no record in flambeau.ops", name);
    throw PythonError();
  }
  return static_cast<PyObject*>(def->py_op);
}

void set_method(PyObject* name, OpObject* op) {
  Held made = checked(OpMethodType->tp_alloc(OpMethodType, 0));
  auto* method = reinterpret_cast<OpMethodObject*>(made.p);
  method->vectorcall = method_call;
  method->op = reinterpret_cast<PyObject*>(op);
  checked(PyDict_SetItem(TensorType->tp_dict, name, made.p));
  PyType_Modified(TensorType);
}

void add_op_type(PyObject* module) {
  OpType = reinterpret_cast<PyTypeObject*>(checked(PyType_FromSpec(&op_spec)).give());
  OpMethodType = reinterpret_cast<PyTypeObject*>(checked(PyType_FromSpec(&method_spec)).give());
  checked(PyModule_AddObjectRef(module, "Op", (PyObject*)OpType));
  checked(PyModule_AddFunctions(module, definition_functions));
}

}  // namespace flambeau
