// How a record becomes an operator: its schema, its row, its rules and what they save, its methods and overloads.
#include "op_type.h"
#include "slot.h"

#include <sstream>

namespace flambeau {

namespace {

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
  if (op->method) set_method(op->name, op);
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

// What `define` is given.
struct Record {
  PyObject *kind, *schema, *promote, *rules, *body, *name_space, *method, *inplace, *out, *doc, *numbers;
};

// Names and defaults of the arguments as Python objects.
void define_arguments(OpDef& def) {
  size_t npositional = size_t(def.schema.npositional), count = def.schema.args.size();
  for (Arg& arg : def.schema.args) {
    arg.py_name = PyUnicode_InternFromString(arg.name.c_str());
    if (arg.type == Type::MemoryFormat && arg.value.tag == Tag::Int)
      arg.py_default = Py_NewRef(format_object(int(arg.value.i)));
    else arg.py_default = arg.has_default ? value_object(arg.value) : Py_NewRef(Py_None);
  }
  if (count <= npositional) return;
  PyObject* names = PyTuple_New(Py_ssize_t(count - npositional));
  for (size_t k = npositional; k < count; ++k)
    PyTuple_SET_ITEM(names, Py_ssize_t(k - npositional), Py_NewRef(static_cast<PyObject*>(def.schema.args[k].py_name)));
  def.keyword_names = names;
}

std::unique_ptr<OpDef> definition(const Record& r) {
  auto def = make_op(text_of(r.kind), text_of(r.schema), text_of(r.promote), text_of(r.numbers));
  def->grad_name = capitalised(def->shown) + "Backward0";
  if (def->kind == Kind::Composite || (def->kind != Kind::Elementwise && r.body != Py_None))
    def->body = Py_NewRef(r.body);
  if (r.rules != Py_None) add_rules(*def, r.rules);
  define_arguments(*def);
  return def;
}

// The form whose name ends in "_".
OpObject* new_inplace_form(OpObject* op, PyObject* name, const Record& r) {
  Held name_(PyUnicode_FromFormat("%U_", name));
  OpObject* form = new_op(name_.p, r.name_space, op->method, r.doc);
  form->def = op->def;
  form->inplace = true;
  install_method(form);
  return form;
}

// define(kind, schema, promote, d, body, namespace, method, inplace, out, doc, numbers) -> Op
PyObject* define(PyObject*, PyObject* const* a, Py_ssize_t n) {
  return guarded([&]() -> PyObject* {
    if (n != 11) type_error("define takes 11 arguments");
    const Record r{a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10]};
    std::unique_ptr<OpDef> def = definition(r);
    bool first_self = !def->schema.args.empty() && def->schema.args[0].name == "self";
    bool plain = PyUnicode_GET_LENGTH(r.name_space == Py_None ? r.schema : r.name_space) == 0;
    bool method = r.method == Py_None ? plain && first_self && def->name.find('.') == std::string::npos
                                      : r.method == Py_True;
    Held name(PyUnicode_FromString(def->name.c_str()));
    OpObject* op = new_op(name.p, r.name_space, method, r.doc);
    op->def = add_op(std::move(def));
    op->def->py_op = op;
    op->inplace = op->def->writes_self;
    op->takes_out = r.out == Py_True;
    op->result_type = make_result_type(op->def->schema);
    install_method(op);
    if (r.inplace == Py_True) op->inplace_form = new_inplace_form(op, name.p, r);
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
      set_method(a[0], op);
      if (op->inplace_form) {
        Held name_(PyUnicode_FromFormat("%U_", a[0]));
        set_method(name_.p, op->inplace_form);
      }
    }
    Py_RETURN_NONE;
  });
}

// name_nodes(op, name): what its graph nodes are called
PyObject* name_nodes(PyObject*, PyObject* args) {
  PyObject* op;
  const char* name;
  if (!PyArg_ParseTuple(args, "O!s", OpType, &op, &name)) return nullptr;
  if (OpDef* def = as_op(op)->def) def->grad_name = name;
  Py_RETURN_NONE;
}

// add_older_orders(op, ("beta self mat1 mat2", …)): the arguments in the orders of old programs
PyObject* add_older_orders(PyObject*, PyObject* args) {
  PyObject *op, *orders;
  if (!PyArg_ParseTuple(args, "O!O!", OpType, &op, &PyTuple_Type, &orders)) return nullptr;
  return guarded([&]() -> PyObject* {
    OpDef& def = *as_op(op)->def;
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(orders); ++k) {
      std::istringstream words(text_of(PyTuple_GET_ITEM(orders, k)));
      std::vector<uint8_t>& order = def.older_orders.emplace_back();
      for (std::string word; words >> word;) {
        const int position = argument_index(def.schema, word);
        if (position < 0) value_error("record \"", def.schema.text, "\": older order with '", word, "', no argument");
        order.push_back(uint8_t(position));
      }
    }
    Py_RETURN_NONE;
  });
}

// keep_format(op), mark_fresh(op): a fact of the op's results, see OpDef
template <bool OpDef::*fact>
PyObject* mark(PyObject*, PyObject* op) {
  if (is_op(op) && as_op(op)->def) as_op(op)->def->*fact = true;
  Py_RETURN_NONE;
}

}  // namespace

PyMethodDef definition_functions[] = {{"name_nodes", slot<name_nodes>, METH_VARARGS, nullptr},
                                      {"add_older_orders", slot<add_older_orders>, METH_VARARGS, nullptr},
                                      {"keep_format", slot<mark<&OpDef::keeps_format>>, METH_O, nullptr},
                                      {"mark_fresh", slot<mark<&OpDef::fresh>>, METH_O, nullptr},
                                      {"define", method<define>(), METH_FASTCALL},
                                      {"define_overloads", method<define_overloads>(), METH_FASTCALL},
                                      {"bind_alias", method<bind_alias>(), METH_FASTCALL},
                                      {}};

}  // namespace flambeau
