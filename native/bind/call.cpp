// Which way a call of an operator goes: to its kernel, to a composite's body, to the overload that fits, through
// autocast or a profiler; and what is added to the exception of a call that failed.
#include "op_type.h"
#include "symbols.h"
#include "upward.h"

namespace flambeau {

bool autocast_applies(const OpObject& op);  // autocast.cpp

namespace {

PyObject* results_object(OpObject& op, Call& c) {
  const Schema& s = op.def->schema;
  if (!s.list_result && s.nresults == 1) return c.out1 ? py(c.out1.detach()) : Py_NewRef(Py_None);
  if (s.nresults == 0) Py_RETURN_NONE;
  int n = c.nout();
  auto item = [&](int k) { return is_wanted(c, k) ? py((k ? c.more[k - 1] : c.out1).detach()) : Py_NewRef(Py_None); };
  if (op.result_type) {
    PyObject* r = PyStructSequence_New(reinterpret_cast<PyTypeObject*>(op.result_type));
    if (!r) return nullptr;
    for (int k = 0; k < n; ++k) PyStructSequence_SetItem(r, k, item(k));
    return r;
  }
  PyObject* r = PyTuple_New(n);
  if (!r) return nullptr;
  for (int k = 0; k < n; ++k) PyTuple_SET_ITEM(r, k, item(k));
  return r;
}

// A composite's tuple under the names of its record.
PyObject* named_results(OpObject& op, PyObject* given) {
  Held tuple(given);
  PyObject* named = PyStructSequence_New(reinterpret_cast<PyTypeObject*>(op.result_type));
  for (Py_ssize_t k = 0; named && k < PyTuple_GET_SIZE(given); ++k)
    PyStructSequence_SetItem(named, k, Py_NewRef(PyTuple_GET_ITEM(given, k)));
  return named;
}

// The in-place form of a composite under autograd: its parts save a copy of self, which is about to be overwritten.
PyObject* body_on_copy(OpObject& op, Frame& f, size_t positional, PyObject* keyword_names) {
  return guarded([&] {
    static OpHandle clone{"clone"};
    TensorRef copy = invoke(clone, {Value(f.values[0].tensor), Value()});
    PyObject* self = f.objects[0];
    f.objects[0] = py(copy.get());
    PyObject* result = PyObject_Vectorcall(static_cast<PyObject*>(op.def->body), f.objects, positional, keyword_names);
    f.objects[0] = self;
    return result;
  });
}

}  // namespace

PyObject* call_composite(OpObject& op, Frame& f) {
  size_t n = op.def->schema.args.size();
  size_t positional = size_t(op.def->schema.npositional);
  PyObject* keyword_names = n > positional ? static_cast<PyObject*>(op.def->keyword_names) : nullptr;
  bool copied = false;
  for (size_t k = 0; op.inplace && !op.def->writes_self && tls.grad_enabled && k < n; ++k)
    copied |= f.values[k].tag == Tag::Tensor && tensor_requires_grad(*f.values[k].tensor);
  copied &= f.values[0].tag == Tag::Tensor;
  PyObject* result =
      copied ? body_on_copy(op, f, positional, keyword_names)
             : PyObject_Vectorcall(static_cast<PyObject*>(op.def->body), f.objects, positional, keyword_names);
  if (!result) return nullptr;
  if (f.out) return finish_out(op, f, result);
  if (op.result_type && PyTuple_Check(result) && (PyObject*)Py_TYPE(result) != op.result_type)
    return named_results(op, result);
  if (!op.inplace) return result;
  Held r(result);  // in-place form: the functional result is copied into self
  if (!is_tensor(r.p)) return r.give();
  return guarded([&] {
    DType from = as_tensor(r.p)->dtype, to = f.values[0].tensor->dtype;
    if (category(from) > category(to))
      runtime_error(op.def->shown, "_: the result is ", dtype_name(from), ", which a tensor of ", dtype_name(to),
                    " cannot hold");
    assign(*f.values[0].tensor, *as_tensor(r.p));
    return Py_NewRef(py(f.values[0].tensor));
  });
}

namespace {

PyObject* call_native(OpObject& op, Frame& f) {
  Call c;
  c.op = op.def;
  c.args = f.values;
  c.nargs = int(op.def->schema.args.size());
  try {
    if (op.inplace || (op.def->inplace_argument >= 0 && f.values[op.def->inplace_argument].b)) {
      c.inplace = true;
      c.given = f.values[0].tensor;
    } else if (f.out && op.def->kind == Kind::Elementwise && is_tensor(f.out)) {
      Tensor& t = *as_tensor(f.out);
      await_calls(t);
      const bool sloped = op.def->promote != Promote::Compare && op.def->promote != Promote::Logical;
      if (tls.grad_enabled && (tensor_requires_grad(t) || (sloped && f.flags & kRequiresGrad)))
        runtime_error(c.name(), "(): out= has no gradient, and an argument requires grad; leave out= away, or call it "
                      "under no_grad");
      check_out_of_inference(c.name(), t);
      c.given = &t;
      GradMode grad(tls.grad_enabled && sloped);
      run_op(c);
      bump_version(t);
      return Py_NewRef(f.out);
    }
    run_op(c);
    if (c.inplace) return Py_NewRef(py(f.values[0].tensor));
    PyObject* result = results_object(op, c);
    return f.out ? finish_out(op, f, result) : result;
  } catch (const Error& e) {
    if (e.kind == ErrorKind::OutOfMemory) set_error(Error(e.kind, concat(op.def->shown, ": ", e.text)));
    else set_error(e);
  } catch (const std::exception& e) {
    set_error(e);
  }
  return nullptr;
}

// Whether such arguments can be a call of the schema at all, so far as that is seen without a thrown TypeError, which
// costs more than the call: their number (more than its own are sizes, one by one), and no number for a tensor.
bool may_fit(const Schema& s, PyObject* const* args, Py_ssize_t positional, Py_ssize_t keywords) {
  if (positional > s.npositional) {
    const bool ints = s.npositional && s.args[size_t(s.npositional - 1)].type == Type::Ints;
    if (!ints || (!PyIndex_Check(args[positional - 1]) && !is_symbol(args[positional - 1]))) return false;
  }
  if (positional + keywords < s.needed) return false;
  for (Py_ssize_t k = 0; k < std::min<Py_ssize_t>(positional, s.npositional); ++k) {
    const Arg& arg = s.args[size_t(k)];
    if (arg.type == Type::Tensor && !arg.number && (PyLong_CheckExact(args[k]) || PyFloat_CheckExact(args[k])))
      return false;
  }
  return true;
}

PyObject* call_overloads(OpObject& op, PyObject* const* args, Py_ssize_t n, PyObject* kwnames) {
  const Py_ssize_t forms = PyTuple_GET_SIZE(op.alternatives);
  std::vector<std::string> reasons;  // of the forms so far; empty: it cannot fit
  for (Py_ssize_t k = 0; k < forms; ++k) {
    OpObject& alternative = *as_op(PyTuple_GET_ITEM(op.alternatives, k));
    if (!may_fit(alternative.def->schema, args, n, kwnames ? PyTuple_GET_SIZE(kwnames) : 0)) continue;
    Frame f;
    std::string why;
    if (parse_arguments(alternative, args, n, kwnames, f, &why)) {
      if (tls.function_modes || f.foreign || (f.flags & kOverrides && !tls.overrides_disabled))
        return call_override((PyObject*)&op, args, n, kwnames);
      return call_parsed(alternative, f);
    }
    if (PyErr_Occurred()) return nullptr;
    reasons.resize(size_t(k));
    reasons.push_back(std::move(why));
  }
  reasons.resize(size_t(forms));
  std::string text;
  for (Py_ssize_t k = 0; k < forms; ++k) {
    const std::string& why = reasons[size_t(k)];
    text += "\n * " + as_op(PyTuple_GET_ITEM(op.alternatives, k))->def->schema.text + "\n     " +
            (why.empty() ? "these arguments cannot fit" : why);
  }
  PyErr_Format(PyExc_TypeError, "%U(): no form of it takes these arguments; its forms are:%s", op.name, text.c_str());
  return nullptr;
}

// Hints and the operator's own name for the exception that is set (_hints.py).
void explain_failure(OpObject& op, Frame& f) {
  if (!PyErr_ExceptionMatches(PyExc_Exception)) return;
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  PyErr_NormalizeException(&type, &value, &trace);
  if (trace) PyException_SetTraceback(value, trace);
  static PyObject* explain = nullptr;
  if (!explain) {
    Held module(PyImport_ImportModule("flambeau.debug._hints"));
    if (module) explain = PyObject_GetAttrString(module.p, "explain");
  }
  const auto& args = op.def->schema.args;
  bool composite = op.def->kind == Kind::Composite;
  Held names(PyList_New(0)), tensors(PyList_New(0));
  for (size_t k = 0; names && tensors && k < args.size(); ++k) {
    PyObject* o = Py_None;
    if (composite && f.objects[k] && is_tensor(f.objects[k])) o = f.objects[k];
    else if (!composite && f.values[k].tag == Tag::Tensor) o = py(f.values[k].tensor);
    PyList_Append(names.p, static_cast<PyObject*>(args[k].py_name));
    PyList_Append(tensors.p, o);
  }
  Held name(PyUnicode_FromString(op.def->shown.c_str()));
  if (explain && value && name)
    Py_XDECREF(PyObject_CallFunctionObjArgs(explain, value, name.p, names.p, tensors.p, composite ? Py_True : Py_False,
                                            nullptr));
  PyErr_Clear();  // the user's error matters, not ours
  PyErr_Restore(type, value, trace);
}
PyObject* call_plain(OpObject& op, Frame& f) {
  return op.def->kind == Kind::Composite ? call_composite(op, f) : call_native(op, f);
}
// An op with an autocast policy: its arguments converted, and what it is made of as it is.
PyObject* call_autocast(OpObject& op, Frame& f) {
  if (!autocast_applies(op)) return process.profiling ? profiled_call(op, f, call_plain) : call_plain(op, f);
  return guarded([&] {
    struct Off {
      bool before = std::exchange(tls.autocast_enabled, false);
      ~Off() { tls.autocast_enabled = before; }
    } off;
    autocast_arguments(op, f);
    return process.profiling ? profiled_call(op, f, call_plain) : call_plain(op, f);
  });
}

}  // namespace

PyObject* call_parsed(OpObject& op, Frame& f) {
  PyObject* result;
  if (__builtin_expect(op.autocast && tls.autocast_enabled, 0)) result = call_autocast(op, f);
  else if (__builtin_expect(process.profiling, 0)) result = profiled_call(op, f, call_plain);
  else result = call_plain(op, f);
  if (__builtin_expect(!result, 0)) explain_failure(op, f);
  return result;
}

PyObject* op_vectorcall(PyObject* self, PyObject* const* args, size_t nargsf, PyObject* kwnames) {
  OpObject& op = *as_op(self);
  Py_ssize_t n = PyVectorcall_NARGS(nargsf);
  if (__builtin_expect(op.alternatives != nullptr, 0)) {
    if (tls.function_modes && !tls.overrides_disabled) return call_override(self, args, n, kwnames);
    return call_overloads(op, args, n, kwnames);
  }
  Frame f;
  if (!parse_arguments(op, args, n, kwnames, f, nullptr)) {
    for (size_t k = 0; k < op.def->schema.args.size(); ++k) f.objects[k] = nullptr, f.values[k] = Value();
    explain_failure(op, f);
    return nullptr;
  }
  if (__builtin_expect((tls.function_modes || f.foreign || f.flags & kOverrides) && !tls.overrides_disabled, 0))
    return call_override(self, args, n, kwnames);
  return call_parsed(op, f);
}

// A native caller asks for a composite.
void upward::run_composite(Call& c) {
  OpObject& op = *static_cast<OpObject*>(c.op->py_op);
  Frame f;
  for (int k = 0; k < c.nargs; ++k) {
    f.values[k] = c.args[k];
    f.objects[k] = f.keep(checked(value_object(c.args[k])));
  }
  Held result = checked(call_composite(op, f));
  if (is_tensor(result.p)) c.push(TensorRef::borrow(as_tensor(result.p)));
}

}  // namespace flambeau
