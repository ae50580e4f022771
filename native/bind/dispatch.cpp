// Where a call leaves the native path for Python: `__torch_function__` at the public call, transform levels, dispatch
// modes and `__torch_dispatch__` below autograd. What is active is counted here, so that other calls only look at a
// number.
#include "python.h"
#include "slot.h"
#include "upward.h"

namespace flambeau {

namespace {

PyObject* override_handler;  // overrides.py: (op, args, kwargs) -> result
PyObject* dispatch_handler;

}  // namespace

PyObject* call_override(PyObject* op, PyObject* const* args, Py_ssize_t n, PyObject* kwnames) {
  if (!override_handler) {
    PyErr_SetString(PyExc_RuntimeError, "flambeau.overrides is not loaded");
    return nullptr;
  }
  Held positional(PyTuple_New(n)), keywords(PyDict_New());
  if (!positional || !keywords) return nullptr;
  for (Py_ssize_t k = 0; k < n; ++k) PyTuple_SET_ITEM(positional.p, k, Py_NewRef(args[k]));
  for (Py_ssize_t k = 0; kwnames && k < PyTuple_GET_SIZE(kwnames); ++k)
    if (PyDict_SetItem(keywords.p, PyTuple_GET_ITEM(kwnames, k), args[n + k]) < 0) return nullptr;
  return PyObject_CallFunctionObjArgs(override_handler, op, positional.p, keywords.p, nullptr);
}

namespace {

// Whether an argument's class defines __torch_dispatch__.
bool has_subclass(const Call& c) {
  bool subclass = false;
  auto look = [&](Tensor* t) {
    if (!t || !(t->flags & kDispatch)) return;
    subclass = true;
    if (tls.dispatch_disabled) need_values(*t);  // or the kernel would read memory that is not there
  };
  for (int k = 0; k < c.nargs; ++k) {
    const Value& v = c.args[k];
    if (v.tag == Tag::Tensor) look(v.tensor);
    else if (v.tag == Tag::Tensors)
      for (int64_t j = 0; j < v.tensors.size; ++j) look(v.tensors.data[j]);
  }
  look(c.given);
  return subclass;
}

// Whether an argument has the value it has by default.
bool is_default(const Value& v, const Arg& arg) {
  const Value& d = arg.value;
  if (!arg.has_default || v.tag != d.tag) return false;
  switch (v.tag) {
    case Tag::None: return true;
    case Tag::Bool: return v.b == d.b;
    case Tag::Int: return v.i == d.i && v.huge == d.huge;
    case Tag::Float: return std::bit_cast<int64_t>(v.f) == std::bit_cast<int64_t>(d.f);
    case Tag::Ints: return std::ranges::equal(std::span(v.ints.data, v.ints.size), std::span(d.ints.data, d.ints.size));
    case Tag::Str: return std::string_view(v.str.data, v.str.size) == std::string_view(d.str.data, d.str.size);
    case Tag::DType: return v.dtype == d.dtype;
    default: return false;
  }
}

// The arguments of a call as Python objects: positional ones, and by name those that are not what the default is.
std::pair<Held, Held> python_arguments(const Call& c) {
  const Schema& s = c.op->schema;
  Held args(PyTuple_New(s.npositional)), kwargs(PyDict_New());
  for (int k = 0; k < c.nargs; ++k) {
    const bool format = s.args[k].type == Type::MemoryFormat && c.args[k].tag == Tag::Int;
    Held v = checked(format ? Py_NewRef(format_object(int(c.args[k].i))) : value_object(c.args[k]));
    if (k < s.npositional) PyTuple_SET_ITEM(args.p, k, v.give());
    else if (!is_default(c.args[k], s.args[k]))
      checked(PyDict_SetItem(kwargs.p, static_cast<PyObject*>(s.args[k].py_name), v.p));
  }
  if (!c.inplace && c.given) checked(PyDict_SetItemString(kwargs.p, "out", py(c.given)));
  return {std::move(args), std::move(kwargs)};
}

void push_results(Call& c, PyObject* result) {
  auto push = [&](PyObject* o) {
    if (o == Py_None && !is_wanted(c, c.nout())) return c.push(empty({{0}}, c.tensor(0).dtype, c.tensor(0).device));
    if (!is_tensor(o))
      type_error(c.name(), ": __torch_dispatch__ must return a Tensor here, got ", Py_TYPE(o)->tp_name);
    c.push(TensorRef::borrow(as_tensor(o)));
  };
  if (PyTuple_Check(result) || PyList_Check(result))
    for (Py_ssize_t k = 0; k < PySequence_Fast_GET_SIZE(result); ++k) push(PySequence_Fast_GET_ITEM(result, k));
  else if (result != Py_None) push(result);
}

}  // namespace

// A transform level, a dispatch mode or a tensor subclass runs the primitive in Python: Values out, results back.
// Levels come first: modes and subclasses see what the levels made of the call.
bool upward::dispatch_override(Call& c) {
  const int level = level_of(c);
  if (!level) {
    bool subclass = has_subclass(c);
    if (tls.dispatch_disabled || (!tls.user_modes && !subclass)) return false;
  }
  OpObject* op = static_cast<OpObject*>(c.op->py_op);
  if (c.inplace && op->inplace_form) op = op->inplace_form;
  auto [args, kwargs] = python_arguments(c);
  Held number;
  if (level) number = checked(PyLong_FromLong(level));
  Held result = checked(PyObject_CallFunctionObjArgs(level ? level_handlers().interpret : dispatch_handler,
                                                     (PyObject*)op, args.p, kwargs.p, number.p, nullptr));
  push_results(c, result.p);
  return true;
}

// A row whose kernel is Python: no graph, no modes inside; its results are copied into those that `infer` declared.
void upward::call_python_kernel(Call& c) {
  if (!c.op->body) not_implemented(c.name(), ": the record has no kernel");
  Held args(PyTuple_New(c.nargs));
  for (int k = 0; k < c.nargs; ++k) PyTuple_SET_ITEM(args.p, k, checked(value_object(c.args[k])).give());
  struct Alone {
    bool grad = std::exchange(tls.grad_enabled, false), overrides = std::exchange(tls.overrides_disabled, true),
         dispatch = std::exchange(tls.dispatch_disabled, true);
    Calling* outer = std::exchange(tls.call, nullptr);  // the calls inside own what they work on themselves
    ~Alone() {
      tls.grad_enabled = grad, tls.overrides_disabled = overrides, tls.dispatch_disabled = dispatch;
      tls.call = outer;
    }
  } alone;
  Held result = checked(PyObject_CallObject(static_cast<PyObject*>(c.op->body), args.p));
  auto take = [&](int k, PyObject* o) {
    if (!is_tensor(o)) type_error(c.name(), ": the kernel returned ", Py_TYPE(o)->tp_name, " instead of a Tensor");
    copy_into(c.out(k), *as_tensor(o));
  };
  if (is_tensor(result.p)) return take(0, result.p);
  for (int k = 0; k < c.nout(); ++k) take(k, PyTuple_GET_ITEM(result.p, k));
}

namespace {

PyObject* set_handlers(PyObject*, PyObject* const* a, Py_ssize_t n) {
  if (n != 2) return PyErr_Format(PyExc_TypeError, "set_handlers takes two callables");
  Py_XSETREF(override_handler, Py_NewRef(a[0]));
  Py_XSETREF(dispatch_handler, Py_NewRef(a[1]));
  Py_RETURN_NONE;
}
void count_modes() { tls.dispatch_modes = tls.user_modes + tls.active_levels + (tls.recorder != nullptr); }
PyObject* set_modes(PyObject*, PyObject* const* a,
                    Py_ssize_t n) {  // (function modes, dispatch modes) that this thread is in
  if (n != 2) return PyErr_Format(PyExc_TypeError, "set_modes takes two counts");
  long functions = PyLong_AsLong(a[0]), dispatches = PyLong_AsLong(a[1]);
  if (PyErr_Occurred()) return nullptr;
  tls.function_modes = int(functions);
  tls.user_modes = int(dispatches);
  count_modes();
  Py_RETURN_NONE;
}
// set_levels(n, factories): this thread is now inside n transform levels, the innermost of which takes (or does not
// take) what is made from no tensor
PyObject* set_levels(PyObject*, PyObject* const* a, Py_ssize_t n) {
  if (n != 2) return PyErr_Format(PyExc_TypeError, "set_levels takes a number and a bool");
  long now = PyLong_AsLong(a[0]);
  if (now == -1 && PyErr_Occurred()) return nullptr;
  if (now < 0 || now > 255) return PyErr_Format(PyExc_RuntimeError, "transforms nest at most 255 levels deep");
  tls.active_levels = int(now);
  tls.level_factories = a[1] == Py_True;
  count_modes();
  Py_RETURN_NONE;
}
PyObject* disable_overrides(PyObject*, PyObject* on) {  // -> what it was
  bool before = std::exchange(tls.overrides_disabled, on == Py_True);
  return PyBool_FromLong(before);
}
PyObject* disable_dispatch(PyObject*, PyObject* on) {
  bool before = std::exchange(tls.dispatch_disabled, on == Py_True);
  return PyBool_FromLong(before);
}

PyMethodDef functions[] = {
    {"set_handlers", method<set_handlers>(), METH_FASTCALL},
    {"set_modes", method<set_modes>(), METH_FASTCALL},
    {"set_levels", method<set_levels>(), METH_FASTCALL},
    {"disable_overrides", slot<disable_overrides>, METH_O},
    {"disable_dispatch", slot<disable_dispatch>, METH_O},
    {}};

}  // namespace

void add_dispatch(PyObject* module) { checked(PyModule_AddFunctions(module, functions)); }

}  // namespace flambeau
