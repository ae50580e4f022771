// The Op type: every operator is one native callable made from its record.
#include "../autograd/format.h"
#include "../kernels/elementwise.h"
#include "python.h"
#include "slot.h"
#include "upward.h"

namespace flambeau {

PyTypeObject* OpType;

namespace {

OpObject* as_op(PyObject* o) { return reinterpret_cast<OpObject*>(o); }

// --- calling ---------------------------------------------------------------------------------------------------------

PyObject* results_object(OpObject& op, Call& c) {
  const Schema& s = op.def->schema;
  if (!s.list_result && s.nresults == 1) return c.out1 ? py(c.out1.detach()) : Py_NewRef(Py_None);
  if (s.nresults == 0) Py_RETURN_NONE;
  int n = c.nout();
  if (op.result_type) {
    PyObject* r = PyStructSequence_New(reinterpret_cast<PyTypeObject*>(op.result_type));
    if (!r) return nullptr;
    for (int k = 0; k < n; ++k) PyStructSequence_SetItem(r, k, py((k ? c.more[k - 1] : c.out1).detach()));
    return r;
  }
  PyObject* r = PyTuple_New(n);
  if (!r) return nullptr;
  for (int k = 0; k < n; ++k) PyTuple_SET_ITEM(r, k, py((k ? c.more[k - 1] : c.out1).detach()));
  return r;
}

void check_out_of_inference(const char* name, const Tensor& out) {
  if (out.flags & kInference && !tls.inference_enabled)
    runtime_error(name, "(): the out= tensor was made under inference_mode and can be changed only there; clone() it "
                  "first");
}

// out=: `result` goes into `out`, which takes its shape.
void write_out(const char* name, PyObject* out, Tensor& result) {
  if (!is_tensor(out)) type_error(name, "(): argument 'out' must be Tensor, not ", Py_TYPE(out)->tp_name);
  Tensor& t = *as_tensor(out);
  if (&t == &result) return;
  if (tls.grad_enabled && (tensor_requires_grad(t) || tensor_requires_grad(result)))
    runtime_error(name, "(): out= has no gradient, and an argument requires grad; leave out= away, or call it under "
                  "no_grad");
  check_out_of_inference(name, t);
  if (category(result.dtype) > category(t.dtype))
    runtime_error(name, ": the result is ", dtype_name(result.dtype), ", which out= of ", dtype_name(t.dtype),
                  " cannot hold");
  if (t.numel > 1)
    for (int d = 0; d < t.ndim; ++d)
      if (t.strides[d] == 0 && t.sizes[d] > 1)
        runtime_error(name, ": elements of the tensor written to share memory (it is expanded), so they cannot be "
                      "written one by one; clone() it first");
  if (t.device != result.device)
    runtime_error(name, ": out= is on ", device_name(t.device), " but the result on ", device_name(result.device));
  const bool fits = t.ndim == result.ndim && std::equal(t.sizes, t.sizes + t.ndim, result.sizes);
  await_calls(t);
  resize_for_out(t, result.shape(), name);
  // linalg gives an empty `out` the order of dimensions that LAPACK writes in
  if (!fits && result.ndim >= 2 && std::string_view(name).starts_with("linalg_")) {
    std::vector<int64_t> columns = contiguous_strides(result.shape());
    columns[result.ndim - 2] = 1, columns[result.ndim - 1] = result.sizes[result.ndim - 2];
    if (std::equal(columns.begin(), columns.end(), result.strides)) set_dims(t, result.shape(), columns);
  }
  copy_into(t, result);
  bump_version(t);
}

bool stands_in(std::string_view list, std::string_view name) {  // whole words
  for (size_t at = list.find(name); at != list.npos; at = list.find(name, at + 1))
    if ((at == 0 || list[at - 1] == ' ') && (at + name.size() == list.size() || list[at + name.size()] == ' '))
      return true;
  return false;
}

// What PyTorch refuses of out=: another dtype than the result's where nothing is converted on the way, and the memory
// of an operand that is read out of order.
void check_out(const OpDef& op, const Frame& f, PyObject* out, Tensor& result) {
  constexpr std::string_view kStrict =
      "mm bmm addmm baddbmm matmul dot mv sort topk max.dim min.dim index_select take softmax log_softmax tril triu "
      "amax amin "
      "argmax argmin kthvalue masked_select index_add index_copy scatter_src scatter_value scatter_add scatter_reduce "
      "gather "
      "aminmax median.dim nanmedian.dim mode multinomial logcumsumexp cummax cummin index_reduce diag";
  constexpr std::string_view kApart = "gather index_select take masked_select kthvalue mode max.dim min.dim cat stack";
  if (!is_tensor(out)) return;
  Tensor& t = *as_tensor(out);
  if (t.dtype != result.dtype && stands_in(kStrict, op.name))
    runtime_error(op.shown, ": out= must be ", dtype_name(result.dtype), ", as the result, got ", dtype_name(t.dtype));
  if (!stands_in(kApart, op.name)) return;
  auto check = [&](const Tensor* x) {
    if (x && (x == &t || (t.storage && x->storage == t.storage && x->numel && t.numel)))
      runtime_error(op.shown, ": the tensor written to shares memory with an input, at other places; clone() the input "
                    "first");
  };
  for (size_t k = 0; k < op.schema.args.size(); ++k) {
    const Value& v = f.values[k];
    if (v.tag == Tag::Tensor) check(v.tensor);
    for (int64_t j = 0; v.tag == Tag::Tensors && j < v.tensors.size; ++j) check(v.tensors.data[j]);
  }
}

PyObject* finish_out(OpObject& op, const Frame& f, PyObject* result) {
  Held r(result), own;  // a tuple of its own: the list could change while results are written
  if (!r) return nullptr;
  if (PyList_Check(f.out) && !(own = Held(PyList_AsTuple(f.out)))) return nullptr;
  PyObject* out = own ? own.p : f.out;
  return guarded([&]() -> PyObject* {
    const char* name = op.def->shown.c_str();
    if (is_tensor(r.p)) {
      check_out(*op.def, f, out, *as_tensor(r.p));
      write_out(name, out, *as_tensor(r.p));
    } else {
      Py_ssize_t n = PyTuple_GET_SIZE(r.p);
      if (!PyTuple_Check(out) && !PyList_Check(out))
        type_error(name, "(): argument 'out' must be a tuple of ", n, " Tensors, not ", Py_TYPE(out)->tp_name);
      Held own =
          Held(PyList_Check(out) ? PyList_AsTuple(out) : Py_NewRef(out));  // a warning's filter may change the list
      checked(own ? 0 : -1);
      out = own.p;
      if (PySequence_Fast_GET_SIZE(out) != n)
        type_error(name, "(): expected ", n, " tensors in out=, got ", PySequence_Fast_GET_SIZE(out));
      for (Py_ssize_t k = 0; k < n; ++k)
        check_out(*op.def, f, PySequence_Fast_GET_ITEM(out, k), *as_tensor(PyTuple_GET_ITEM(r.p, k)));
      for (Py_ssize_t k = 0; k < n; ++k)
        write_out(name, PySequence_Fast_GET_ITEM(out, k), *as_tensor(PyTuple_GET_ITEM(r.p, k)));
      if (op.result_type) {
        PyObject* named = PyStructSequence_New(reinterpret_cast<PyTypeObject*>(op.result_type));
        for (Py_ssize_t k = 0; k < n; ++k)
          PyStructSequence_SetItem(named, k, Py_NewRef(PySequence_Fast_GET_ITEM(out, k)));
        return named;
      }
    }
    if (op.def->schema.list_result) Py_RETURN_NONE;
    return Py_NewRef(f.out);
  });
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
      if (tls.grad_enabled && (tensor_requires_grad(t) || f.flags & kRequiresGrad))
        runtime_error(c.name(), "(): out= has no gradient, and an argument requires grad; leave out= away, or call it "
                      "under no_grad");
      check_out_of_inference(c.name(), t);
      c.given = &t;
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
  if (positional > s.npositional &&
      !(s.npositional && s.args[size_t(s.npositional - 1)].type == Type::Ints && PyLong_Check(args[positional - 1])))
    return false;
  Py_ssize_t required = 0;
  for (const Arg& arg : s.args) required += !arg.has_default && !arg.optional;
  if (positional + keywords < required) return false;
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

// --- making ops ------------------------------------------------------------------------------------------------------

int argument_index(const Schema& s, std::string_view name) {
  for (size_t k = 0; k < s.args.size(); ++k)
    if (s.args[k].name == name) return int(k);
  return -1;
}

bool numbered(std::string_view name, std::string_view stem, int* number) {  // "g", "g1"
  if (name.substr(0, stem.size()) != stem) return false;
  std::string_view rest = name.substr(stem.size());
  if (rest.size() > 1 || (rest.size() == 1 && !isdigit(rest[0]))) return false;
  *number = rest.empty() ? 0 : rest[0] - '0';
  return true;
}

RuleParam rule_param(const Schema& s, std::string_view name) {
  int k;
  if ((k = argument_index(s, name)) >= 0) return {Source::Arg, uint8_t(k)};
  if (name == "grads") return {Source::Grads, 0};
  if (name == "needs") return {Source::Needs, 0};
  if (name == "some_grads") return {Source::SomeGrads, 0};
  if (numbered(name, "g", &k)) return {Source::Grad, uint8_t(k)};
  if (numbered(name, "result", &k)) return {Source::Result, uint8_t(k)};
  for (size_t j = 0; j < s.results.size(); ++j)
    if (s.results[j] == name) return {Source::Result, uint8_t(j)};
  auto ends = [&](std::string_view suffix) {
    return name.size() > suffix.size() && name.substr(name.size() - suffix.size()) == suffix;
  };
  if (ends("_shape") && (k = argument_index(s, name.substr(0, name.size() - 6))) >= 0)
    return {Source::ArgShape, uint8_t(k)};
  if (ends("_geometry") && (k = argument_index(s, name.substr(0, name.size() - 9))) >= 0)
    return {Source::ArgGeometry, uint8_t(k)};
  if (ends("_dtype") && (k = argument_index(s, name.substr(0, name.size() - 6))) >= 0)
    return {Source::ArgDType, uint8_t(k)};
  value_error("record \"", s.text, "\": a derivative rule has a parameter '", name,
              "', which is neither an argument, g, grads, some_grads, needs, result, nor <argument>_shape / _dtype");
}

void add_rules(OpDef& op, PyObject* d) {
  PyObject *key, *function;
  Py_ssize_t at = 0;
  while (PyDict_Next(d, &at, &key, &function)) {
    Rule rule{};
    rule.function = Py_NewRef(function);
    rule.tuple = PyTuple_Check(key);
    Held keys(rule.tuple ? Py_NewRef(key) : PyTuple_Pack(1, key));
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(keys.p); ++k) {
      std::string name = text_of(PyTuple_GET_ITEM(keys.p, k));
      int position = argument_index(op.schema, name);
      if (position < 0)
        value_error("record \"", op.schema.text, "\": derivative of '", name, "', which is not an argument");
      rule.inputs.push_back(uint8_t(position));
      rule.input_mask |= uint64_t(1) << position;
      op.differentiable |= uint64_t(1) << position;
    }
    Held code = checked(PyObject_GetAttrString(function, "__code__"));
    Held names = checked(PyObject_GetAttrString(code.p, "co_varnames"));
    Held argcount = checked(PyObject_GetAttrString(code.p, "co_argcount"));
    uint64_t args = 0, results = 0;
    for (long k = 0; k < PyLong_AsLong(argcount.p); ++k) {
      RuleParam p = rule_param(op.schema, text_of(PyTuple_GET_ITEM(names.p, k)));
      rule.params.push_back(p);
      if (p.source == Source::Arg) args |= uint64_t(1) << p.index;
      if (p.source == Source::ArgShape || p.source == Source::ArgDType) rule.meta_args |= uint64_t(1) << p.index;
      if (p.source == Source::ArgGeometry) rule.geometry_args |= uint64_t(1) << p.index;
      if (p.source == Source::Result) results |= uint64_t(1) << p.index;
    }
    // the rule of the first argument comes first: a write through a view looks for its edge there (Slices)
    auto at = [&](auto& list) { return rule.input_mask & 1 ? list.begin() : list.end(); };
    op.saves_arg.insert(at(op.saves_arg), args);
    op.saves_result.insert(at(op.saves_result), results);
    op.rules.insert(at(op.rules), std::move(rule));
  }
}

std::string capitalised(const std::string& name) {  // max_pool2d -> MaxPool2D, as PyTorch names its nodes
  std::string out;
  bool upper = true;
  for (char ch : name) {
    if (ch == '_' || ch == '.') { upper = true; continue; }
    out += upper ? char(toupper(ch)) : ch;
    upper = isdigit(ch);
  }
  return out;
}

OpObject* new_op(PyObject* name, PyObject* name_space, bool method, PyObject* doc) {
  auto* op = reinterpret_cast<OpObject*>(OpType->tp_alloc(OpType, 0));
  if (!op) throw PythonError();
  op->vectorcall = slot<op_vectorcall>;
  op->name = Py_NewRef(name);
  op->name_space = Py_NewRef(name_space);
  op->doc = Py_NewRef(doc);
  op->method = method;
  return op;
}

void install_method(OpObject* op) {
  if (!op->method) return;
  checked(PyDict_SetItem(TensorType->tp_dict, op->name, (PyObject*)op));
  PyType_Modified(TensorType);
}

PyObject* result_repr(PyObject* o);

PyObject* make_result_type(const Schema& s) {
  if (s.results.empty() || s.results[0].empty()) return nullptr;
  auto* fields = new PyStructSequence_Field[s.results.size() + 1]();  // lives as long as the type
  for (size_t k = 0; k < s.results.size(); ++k) fields[k].name = strdup(s.results[k].c_str());
  std::string plain = s.name.substr(0, s.name.find('.'));
  PyStructSequence_Desc desc = {strdup(("torch.return_types." + plain).c_str()), nullptr, fields,
                                int(s.results.size())};
  PyTypeObject* type = PyStructSequence_NewType(&desc);
  if (type) type->tp_repr = result_repr;
  return (PyObject*)type;
}

// define(kind, schema, promote, d, body, namespace, method, inplace, out, doc, numbers) -> Op
PyObject* define(PyObject*, PyObject* const* a, Py_ssize_t n) {
  return guarded([&]() -> PyObject* {
    if (n != 11) type_error("define takes 11 arguments");
    static const char* kinds[] = {"elementwise", "reduction", "view", "primitive", "composite"};
    static const char* promotes[] = {"default",         "int_to_float",  "compare",   "logical",
                                     "complex_to_real", "select_second", "first_only"};
    auto choice = [](PyObject* o, const char* const* names, int count, const char* what) {
      for (int k = 0; k < count; ++k)
        if (PyUnicode_CompareWithASCIIString(o, names[k]) == 0) return k;
      value_error("unknown ", what, " '", text_of(o), "'");
    };
    auto def = std::make_unique<OpDef>();
    def->kind = Kind(choice(a[0], kinds, 5, "kind"));
    def->schema = parse_schema(text_of(a[1]));
    def->name = def->schema.name;
    def->shown = def->name.substr(0, def->name.find('.'));
    if (def->schema.args.size() > size_t(kMaxArgs))
      value_error("record \"", def->schema.text, "\": more than ", kMaxArgs, " arguments");
    def->grad_name = capitalised(def->shown) + "Backward0";
    def->promote = Promote(choice(a[2], promotes, 7, "promotion"));
    if (def->kind == Kind::Elementwise) {
      if (!(def->elementwise = find_elementwise(def->name)))
        value_error("elementwise record '", def->name, "' has no row in native/kernels");
      auto& parameters = def->schema.args;
      static const char* which[] = {"none", "others", "one", "any"};
      int numbers = choice(a[10], which, 4, "numbers");
      for (size_t k = numbers < 2 || def->elementwise->operands < 2; numbers && k < parameters.size(); ++k)
        if (parameters[k].type == Type::Tensor) parameters[k].number = true;
      def->needs_tensor = numbers == 2;
      if (parameters.back().name == "inplace") def->inplace_argument = int(parameters.size()) - 1;
    } else if (def->kind == Kind::Composite) {
      def->body = Py_NewRef(a[4]);
    } else if (!(def->row = find_primitive(def->name))) {
      value_error("primitive record '", def->name, "' has no row in native/kernels");
    } else if (a[4] != Py_None) {
      def->body = Py_NewRef(a[4]);
    }
    if (a[3] != Py_None) add_rules(*def, a[3]);
    size_t npositional = size_t(def->schema.npositional), count = def->schema.args.size();
    for (Arg& arg : def->schema.args) {
      arg.py_name = PyUnicode_InternFromString(arg.name.c_str());
      if (arg.type == Type::MemoryFormat && arg.value.tag == Tag::Int)
        arg.py_default = Py_NewRef(format_object(int(arg.value.i)));
      else arg.py_default = arg.has_default ? value_object(arg.value) : Py_NewRef(Py_None);
    }
    if (count > npositional) {
      PyObject* names = PyTuple_New(Py_ssize_t(count - npositional));
      for (size_t k = npositional; k < count; ++k)
        PyTuple_SET_ITEM(names, Py_ssize_t(k - npositional),
                         Py_NewRef(static_cast<PyObject*>(def->schema.args[k].py_name)));
      def->keyword_names = names;
    }
    bool first_self = count > 0 && def->schema.args[0].name == "self";
    bool plain = PyUnicode_GET_LENGTH(a[5] == Py_None ? a[1] : a[5]) == 0;
    bool method = a[6] == Py_None ? (plain && first_self && def->name.find('.') == std::string::npos) : a[6] == Py_True;
    Held name(PyUnicode_FromString(def->name.c_str()));
    OpObject* op = new_op(name.p, a[5], method, a[9]);
    for (const Arg& arg : def->schema.args) def->random |= arg.type == Type::Generator;
    op->def = add_op(std::move(def));
    op->def->py_op = op;
    const std::string& shown = op->def->shown;
    op->inplace = op->def->writes_self = shown.back() == '_' && shown[0] != '_';
    op->takes_out = a[8] == Py_True;
    op->result_type = make_result_type(op->def->schema);
    install_method(op);
    if (a[7] == Py_True) {
      Held name_(PyUnicode_FromFormat("%U_", name.p));
      OpObject* form = new_op(name_.p, a[5], method, a[9]);
      form->def = op->def;
      form->inplace = true;
      op->inplace_form = form;
      install_method(form);
    }
    return (PyObject*)op;
  });
}

// define_overloads(name, alternatives, namespace, method, doc) -> Op
PyObject* define_overloads(PyObject*, PyObject* const* a, Py_ssize_t n) {
  return guarded([&]() -> PyObject* {
    if (n != 5 || !PyTuple_Check(a[1]))
      type_error("define_overloads takes a name, a tuple of ops, namespace, method, doc");
    OpObject* first = as_op(PyTuple_GET_ITEM(a[1], 0));
    bool plain = a[2] != Py_None && PyUnicode_GET_LENGTH(a[2]) == 0;
    bool method = a[3] == Py_None ? plain && first->def->schema.args[0].name == "self" : a[3] == Py_True;
    OpObject* op = new_op(a[0], a[2], method, a[4]);
    op->alternatives = Py_NewRef(a[1]);
    install_method(op);
    // the in-place forms of the alternatives, where all have one
    bool inplace = true;
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(a[1]); ++k)
      inplace &= as_op(PyTuple_GET_ITEM(a[1], k))->inplace_form != nullptr;
    if (inplace) {
      Held forms(PyTuple_New(PyTuple_GET_SIZE(a[1])));
      for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(a[1]); ++k)
        PyTuple_SET_ITEM(forms.p, k, Py_NewRef((PyObject*)as_op(PyTuple_GET_ITEM(a[1], k))->inplace_form));
      Held name_(PyUnicode_FromFormat("%U_", a[0]));
      OpObject* form = new_op(name_.p, a[2], method, a[4]);
      form->alternatives = forms.give();
      op->inplace_form = form;
      install_method(form);
    }
    return (PyObject*)op;
  });
}

// bind_alias(name, op): the op under another name, also as a method where it is one
PyObject* bind_alias(PyObject*, PyObject* const* a, Py_ssize_t n) {
  return guarded([&]() -> PyObject* {
    if (n != 2 || !is_op(a[1])) type_error("bind_alias takes a name and an op");
    OpObject* op = as_op(a[1]);
    if (op->method) {
      checked(PyDict_SetItem(TensorType->tp_dict, a[0], a[1]));
      if (op->inplace_form) {
        Held name_(PyUnicode_FromFormat("%U_", a[0]));
        checked(PyDict_SetItem(TensorType->tp_dict, name_.p, (PyObject*)op->inplace_form));
      }
      PyType_Modified(TensorType);
    }
    Py_RETURN_NONE;
  });
}

// --- the type --------------------------------------------------------------------------------------------------------

PyObject* op_get(PyObject* self, PyObject* object, PyObject*) {
  if (!object || object == Py_None) return Py_NewRef(self);
  return PyMethod_New(self, object);
}
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
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_METHOD_DESCRIPTOR | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    op_slots};

// name_nodes(op, name): what its graph nodes are called
PyObject* name_nodes(PyObject*, PyObject* args) {
  PyObject* op;
  const char* name;
  if (!PyArg_ParseTuple(args, "O!s", OpType, &op, &name)) return nullptr;
  if (OpDef* def = as_op(op)->def) def->grad_name = name;
  Py_RETURN_NONE;
}

PyObject* keep_format(PyObject*, PyObject* op) {  // the op's results take the memory format of its arguments
  if (is_op(op) && as_op(op)->def) keeps_format(*as_op(op)->def);
  Py_RETURN_NONE;
}
// torch.return_types.max(
// values=tensor(…),
// indices=tensor(…))
PyObject* result_repr(PyObject* o) {
  PyTypeObject* type = Py_TYPE(o);
  Held text(PyUnicode_FromFormat("%s(", type->tp_name));
  for (Py_ssize_t k = 0; text && k < PyTuple_GET_SIZE(o); ++k)
    text = Held(
        PyUnicode_FromFormat("%U%s\n%s=%R", text.p, k ? "," : "", type->tp_members[k].name, PyTuple_GET_ITEM(o, k)));
  return text ? PyUnicode_FromFormat("%U)", text.p) : nullptr;
}

PyMethodDef functions[] = {{"name_nodes", slot<name_nodes>, METH_VARARGS, nullptr},
                           {"keep_format", slot<keep_format>, METH_O, nullptr},
                           {"define", method<define>(), METH_FASTCALL},
                           {"define_overloads", method<define_overloads>(), METH_FASTCALL},
                           {"bind_alias", method<bind_alias>(), METH_FASTCALL},
                           {}};

}  // namespace

// Hints and the operator's own name for the exception that is set (_hints.py).
static void explain_failure(OpObject& op, Frame& f) {
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
static PyObject* call_plain(OpObject& op, Frame& f) {
  return op.def->kind == Kind::Composite ? call_composite(op, f) : call_native(op, f);
}
// An op with an autocast policy: its arguments converted, and what it is made of as it is.
static PyObject* call_autocast(OpObject& op, Frame& f) {
  return guarded([&] {
    struct Off {
      bool before = std::exchange(tls.autocast_enabled, false);
      ~Off() { tls.autocast_enabled = before; }
    } off;
    autocast_arguments(op, f);
    return process.profiling ? profiled_call(op, f, call_plain) : call_plain(op, f);
  });
}

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

PyObject* op_object(const char* name) {
  OpDef* def = find_op(name);
  if (!def) {
    PyErr_Format(PyExc_NotImplementedError, "operator %s has no record in flambeau.ops", name);
    throw PythonError();
  }
  return static_cast<PyObject*>(def->py_op);
}

void add_op_type(PyObject* module) {
  OpType = reinterpret_cast<PyTypeObject*>(checked(PyType_FromSpec(&op_spec)).give());
  checked(PyModule_AddObjectRef(module, "Op", (PyObject*)OpType));
  checked(PyModule_AddFunctions(module, functions));
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
