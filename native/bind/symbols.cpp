#include "symbols.h"

#include "slot.h"

namespace flambeau {
namespace {

PyObject* symbol_types;    // (SymInt, SymFloat, SymBool); null until a program has used one
PyObject* token_of;        // (symbol, as a float) -> its token
PyObject* meaning_of;      // (number) -> the symbol, or the number itself
PyObject* open_sizes;      // (tuple of sizes) -> with symbols for those that are open
PyObject* open_tensor;     // (symbol) -> a 0-d tensor

// set_symbols(types, token_of, meaning_of, open_sizes, open_tensor)
PyObject* set_symbols(PyObject*, PyObject* const* a, Py_ssize_t n) {
  return guarded([&]() -> PyObject* {
    if (n != 5 || !PyTuple_Check(a[0])) type_error("set_symbols takes a tuple of types and four functions");
    Py_XSETREF(symbol_types, Py_NewRef(a[0]));
    Py_XSETREF(token_of, Py_NewRef(a[1]));
    Py_XSETREF(meaning_of, Py_NewRef(a[2]));
    Py_XSETREF(open_sizes, Py_NewRef(a[3]));
    Py_XSETREF(open_tensor, Py_NewRef(a[4]));
    Py_RETURN_NONE;
  });
}

PyMethodDef functions[] = {{"set_symbols", method<set_symbols>(), METH_FASTCALL}, {}};

}  // namespace

bool is_symbol(PyObject* o) {
  for (Py_ssize_t k = 0; symbol_types && k < PyTuple_GET_SIZE(symbol_types); ++k)
    if ((PyObject*)Py_TYPE(o) == PyTuple_GET_ITEM(symbol_types, k)) return true;
  return false;
}

bool symbol_value(PyObject* o, Value& v, bool as_float) {
  if (!is_symbol(o)) return false;
  PyObject* const floats = PyTuple_GET_ITEM(symbol_types, 1);
  Held number;
  if (tls.user_modes && !tls.dispatch_disabled)
    number = checked(PyObject_CallFunctionObjArgs(token_of, o, as_float ? Py_True : Py_False, nullptr));
  else
    number = checked(as_float || (PyObject*)Py_TYPE(o) == floats ? PyNumber_Float(o) : PyNumber_Index(o));
  return number_value(number.p, v);
}

PyObject* symbol_object(PyObject* number) {
  if (!number || !meaning_of) return number;
  Held owned(number);
  return PyObject_CallOneArg(meaning_of, number);
}

PyObject* symbol_sizes(PyObject* sizes) {
  if (!sizes || !open_sizes || !tls.user_modes) return sizes;
  Held owned(sizes);
  return PyObject_CallOneArg(open_sizes, sizes);
}

PyObject* symbol_tensor(const Value& v) {
  if (!open_tensor || !(v.tag == Tag::Int ? is_token(v.i) : v.tag == Tag::Float && is_token(v.f))) return nullptr;
  Held symbol = checked(value_object(v));
  return is_symbol(symbol.p) ? checked(PyObject_CallOneArg(open_tensor, symbol.p)).give() : nullptr;
}

void add_symbols(PyObject* module) { checked(PyModule_AddFunctions(module, functions)); }

}  // namespace flambeau
