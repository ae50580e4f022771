// Which argument of an operator each object of a call is: by position, by keyword or alias, or the default.
#include "reader.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace flambeau {
namespace {

struct Alias { const char* from; const char* to; };
const Alias kAliases[] = {{"input", "self"}, {"axis", "dim"}, {"keepdims", "keepdim"}, {"x", "self"},
                          {"a", "self"},     {"x1", "self"},  {"x2", "other"}};

// The position of keyword `name`, or -1.
int find_keyword(const Schema& schema, PyObject* name) {
  int n = int(schema.args.size());
  for (int k = 0; k < n; ++k)
    if (schema.args[k].py_name == name) return k;
  for (int k = 0; k < n; ++k)  // not interned
    if (PyUnicode_CompareWithASCIIString(name, schema.args[k].name.c_str()) == 0) return k;
  for (const Alias& a : kAliases)
    if (PyUnicode_CompareWithASCIIString(name, a.from) == 0)
      for (int k = 0; k < n; ++k)
        if (schema.args[k].name == a.to) return k;
  return -1;
}

// What makes a tensor of numbers alone makes it in the dtype of `out=`: arange(5, out=halves).
void dtype_of_out(const Schema& schema, Frame& f, int k) {
  for (const Arg& arg : schema.args)
    if (arg.type == Type::Tensor || arg.type == Type::Tensors || arg.type == Type::Any) return;
  if (!is_tensor(f.out)) return;
  f.values[k].tag = Tag::DType;
  f.values[k].dtype = as_tensor(f.out)->dtype;
  f.objects[k] = f.keep(checked(value_object(f.values[k])));
}

// The arguments of one call, one after the other.
struct Parsing {
  const OpObject& op;
  Frame& f;
  Reader reader;
  const Schema& schema = op.def->schema;
  const bool composite = op.def->kind == Kind::Composite;
  uint32_t given = 0;  // bit k: argument k has its value

  const char* name() const { return op.def->shown.c_str(); }
  void take(int k, PyObject* o);
  void variadic(PyObject* const* args, Py_ssize_t n);
  void trailing_ints(PyObject* const* args, Py_ssize_t n);
  bool in_older_order(PyObject* const* args, Py_ssize_t n);
  Py_ssize_t unusual(PyObject* const* args, Py_ssize_t n);
  void keywords(PyObject* const* args, PyObject* kwnames);
  void take_default(int k);
  void run(PyObject* const* args, Py_ssize_t n, PyObject* kwnames);
};

// What None stands for; false where it is read like any other object.
bool takes_none(const Arg& arg, Value& v) {
  if (arg.optional || (arg.has_default && arg.value.none())) return v = Value(), true;
  const bool option = arg.type == Type::MemoryFormat || arg.type == Type::Layout || arg.type == Type::DType ||
                      arg.type == Type::Device || (arg.type == Type::Ints && arg.ints.empty());
  if (!arg.has_default || !option) return false;
  v = arg.value;
  return true;
}

void Parsing::take(int k, PyObject* o) {
  const Arg& arg = schema.args[k];
  Value& v = f.values[k];
  if (o != Py_None || !takes_none(arg, v)) reader.read(arg, k, o, v);
  f.objects[k] = o;
  if (composite && !f.foreign) {  // bodies get tuples and devices in one form
    if ((v.tag == Tag::Ints && !PyTuple_CheckExact(o)) || (v.tag == Tag::Device && Py_TYPE(o) != DeviceObjectType) ||
        (v.tag == Tag::DType && Py_TYPE(o) != DTypeType))
      f.objects[k] = f.keep(checked(value_object(v)));
  }
  given |= 1u << k;
}

// Tensor[1]: meshgrid(x, y)
void Parsing::variadic(PyObject* const* args, Py_ssize_t n) {
  Held all = checked(PyTuple_New(n));
  for (Py_ssize_t k = 0; k < n; ++k) PyTuple_SET_ITEM(all.p, k, Py_NewRef(args[k]));
  f.objects[0] = f.keep(std::move(all));
  reader.tensors(args, n, f.values[0], false);
  given |= 1;
}

// x.view(2, 3): trailing ints are the last positional int list
void Parsing::trailing_ints(PyObject* const* args, Py_ssize_t n) {
  int last = schema.npositional - 1;
  if (last < 0 || last > 1 || schema.args[last].type != Type::Ints ||
      (!is_index(args[last]) && !overrides(args[last])))
    type_error(name(), "() takes ", schema.npositional, " positional argument", schema.npositional == 1 ? "" : "s",
               " but ", n, " were given");
  if (!reader.ints(args + last, n - last, f.values[last])) {
    bool others = false;
    for (Py_ssize_t k = last; k < n && !others; ++k) others = reader.taken_over(args[k]);
    if (!others) bad_argument(op, schema.args[last], last, "tuple of ints", args[last]);
  }
  given |= 1u << last;
  if (composite && !f.foreign) f.objects[last] = f.keep(checked(value_object(f.values[last])));
}

// add(x, 2, y), addmm(2, x, 3, a, b): numbers before the tensors they belong to. A method's self comes before all.
bool Parsing::in_older_order(PyObject* const* args, Py_ssize_t n) {
  const auto number = [](PyObject* o) { return !is_tensor(o) || as_tensor(o)->ndim == 0; };
  for (std::vector<uint8_t> order : op.def->older_orders) {
    if (std::ssize(order) != n) continue;
    const auto self = std::ranges::find(order, 0);
    if (!number(args[0])) std::rotate(order.begin(), self, self + 1);
    bool fits = true;
    for (Py_ssize_t k = 0; k < n; ++k) fits &= schema.args[order[size_t(k)]].type != Type::Scalar || number(args[k]);
    if (!fits) continue;
    for (Py_ssize_t k = 0; k < n; ++k) take(order[size_t(k)], args[k]);
    if (!std::exchange(op.def->warned_of_order, true))
      hooks.warn(concat(name(), "(): numbers before their tensors are an older order of the arguments; write ",
                        schema.text));
    return true;
  }
  return false;
}

// Calls that list the items of one argument one by one; how many positional arguments are left to be read.
Py_ssize_t Parsing::unusual(PyObject* const* args, Py_ssize_t n) {
  if (n > 0 && schema.npositional == 1 && schema.args[0].type == Type::Tensors && schema.args[0].repeat &&
      (is_tensor(args[0]) || overrides(args[0]))) {
    variadic(args, n);
    return 0;
  }
  if (__builtin_expect(n <= schema.npositional, 1)) return n;
  if (!op.def->older_orders.empty() && in_older_order(args, n)) return 0;
  trailing_ints(args, n);
  return schema.npositional - 1;
}

void Parsing::keywords(PyObject* const* args, PyObject* kwnames) {
  for (Py_ssize_t j = 0; j < PyTuple_GET_SIZE(kwnames); ++j) {
    PyObject* key = PyTuple_GET_ITEM(kwnames, j);
    int k = find_keyword(schema, key);
    if (k >= 0) {
      if (given >> k & 1) type_error(name(), "() got multiple values for argument '", schema.args[k].name, "'");
      take(k, args[j]);
    } else if (op.takes_out && PyUnicode_CompareWithASCIIString(key, "out") == 0) {
      if (args[j] != Py_None) f.out = args[j];
    } else {
      type_error(name(), "() got an unexpected keyword argument '", text_of(key), "'; it takes ", schema.text);
    }
  }
}

void Parsing::take_default(int k) {
  const Arg& arg = schema.args[k];
  if (__builtin_expect(arg.has_default, 1)) {
    f.values[k] = arg.value;
    f.objects[k] = static_cast<PyObject*>(arg.py_default);
    if (__builtin_expect(f.out && arg.type == Type::DType, 0)) dtype_of_out(schema, f, k);
    return;
  }
  if (!arg.optional || arg.type != Type::Tensor)
    type_error(name(), "() missing required argument '", arg.name, "' (position ", k + 1, "); it takes ", schema.text);
  f.values[k] = Value();
  f.objects[k] = Py_None;
}

void Parsing::run(PyObject* const* args, Py_ssize_t n, PyObject* kwnames) {
  const int count = int(schema.args.size());
  const Py_ssize_t positional = unusual(args, n);
  for (Py_ssize_t k = 0; k < positional; ++k) {
    const Arg& arg = schema.args[size_t(k)];
    if (arg.type == Type::Tensor && Py_TYPE(args[k]) == TensorType) {
      f.values[k] = Value(as_tensor(args[k]));
      f.flags |= as_tensor(args[k])->flags;
    } else if (arg.type != Type::Ints || composite || !reader.usual_ints(arg, args[k], f.values[k])) {
      take(int(k), args[k]);
      continue;
    }
    f.objects[k] = args[k];
    given |= 1u << k;
  }
  if (kwnames) keywords(args + n, kwnames);
  const int leading = std::countr_one(given);  // what most calls give
  if (given >> leading == 0 && leading >= schema.required && !f.out) {
    for (int k = leading; k < count; ++k) f.values[k] = schema.defaults[size_t(k)];
    for (int k = leading; composite && k < count; ++k)
      f.objects[k] = static_cast<PyObject*>(schema.args[size_t(k)].py_default);
  } else {
    for (int k = 0; k < count; ++k)
      if (!(given >> k & 1)) take_default(k);
  }
  if (__builtin_expect(op.def->needs_tensor, 0) && !f.foreign) {
    bool tensor = false;
    for (int k = 0; k < count; ++k) tensor |= f.values[k].tag == Tag::Tensor;
    if (!tensor) type_error(name(), "(): one of the arguments must be a Tensor; it takes ", schema.text);
  }
}

}  // namespace

bool parse_arguments(const OpObject& op, PyObject* const* args, Py_ssize_t n, PyObject* kwnames, Frame& frame,
                     std::string* why) {
  try {
    Parsing{op, frame, {op, frame, why != nullptr}}.run(args, n, kwnames);
    return true;
  } catch (const Error& e) {
    if (why && e.kind == ErrorKind::Type) *why = e.text;
    else if (why && e.kind == ErrorKind::Python && PyErr_ExceptionMatches(PyExc_TypeError)) {
      PyErr_Clear();
      *why = "type error";
    } else if (why) {
      *why = "";
      set_error(e);
    } else
      set_error(e);
    return false;
  } catch (const std::exception& e) {  // no memory
    if (why) why->clear();
    set_error(e);
    return false;
  }
}

}  // namespace flambeau
