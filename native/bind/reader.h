// What one Python object becomes as an argument: a Value of its schema type, or an error that names op and argument.
#pragma once
#include "python.h"

namespace flambeau {

[[noreturn]] void bad_argument(const OpObject& op, const Arg& arg, int position, const char* expected, PyObject* got);
bool overrides(PyObject* o);  // its type, not a Tensor's, defines __torch_function__
bool is_index(PyObject* o);   // an integer, or what acts as one

// The value of an int of one digit, which nearly all are, read where it lies.
inline bool small_integer(PyObject* o, int64_t& v) {
#if PY_VERSION_HEX < 0x030C0000
  const Py_ssize_t digits = Py_SIZE(o);  // negative: so is the number
  if (digits < -1 || digits > 1) return false;
  v = digits ? digits * int64_t(reinterpret_cast<PyLongObject*>(o)->ob_digit[0]) : 0;
#else
  auto* number = reinterpret_cast<PyLongObject*>(o);
  if (!PyUnstable_Long_IsCompact(number)) return false;
  v = PyUnstable_Long_CompactValue(number);
#endif
  return true;
}

// Reads the arguments of one call into its frame.
struct Reader {
  const OpObject& op;
  Frame& f;
  bool trying;  // another overload is tried when this one does not fit

  // One argument; throws TypeError when it does not fit.
  void read(const Arg& arg, int position, PyObject* o, Value& v) {
    if (arg.type == Type::Tensor && is_tensor(o)) {
      v = Value(as_tensor(o));
      note(v.tensor);
      return;
    }
    if (!converted(arg, position, o, v) && !taken_over(o)) refuse(arg, position, o);
  }
  // An argument of ints in one of the forms that most calls give: an int of one digit, a tuple of ints. False: it is
  // something else, or nothing that fits.
  bool usual_ints(const Arg& arg, PyObject* o, Value& v) {
    if (PyTuple_Check(o)) return ints(&PyTuple_GET_ITEM(o, 0), PyTuple_GET_SIZE(o), v);
    int64_t only;
    if (arg.repeat || !PyLong_CheckExact(o) || !small_integer(o, only) || f.nints == std::ssize(f.ints)) return false;
    int64_t* place = f.ints + f.nints++;
    *place = only;
    v.tag = Tag::Ints;
    v.ints = {place, 1};
    return true;
  }
  // Lists of ints and of tensors; false where an item is none.
  bool ints(PyObject* const* items, Py_ssize_t n, Value& v);
  bool tensors(PyObject* const* items, Py_ssize_t n, Value& v, bool optional);
  // Whether an object, or an item of a tuple or list, has a __torch_function__ that answers the call instead.
  bool taken_over(PyObject* o);

 private:
  void note(Tensor* t) { f.flags |= t->flags; }
  bool converted(const Arg& arg, int position, PyObject* o, Value& v);
  [[noreturn]] void refuse(const Arg& arg, int position, PyObject* o);
  int64_t* int_memory(Py_ssize_t n);
  PyObject* owned(PyObject* list);
  bool foreign(PyObject* o);
  // Whether modes are asked first, so that a tensor in the place of a number is not read here.
  bool modes_decide();
  void check_no_gradient(const Tensor& t);
  int64_t index_of(PyObject* o);
  bool read_scalar(PyObject* o, Value& v);
  bool read_float(PyObject* o, Value& v);
  bool read_bool(PyObject* o, Value& v);
  bool read_ints(const Arg& arg, PyObject* o, Value& v);
  bool read_floats(const Arg& arg, PyObject* o, Value& v);
  bool read_bools(const Arg& arg, PyObject* o, Value& v);
  bool read_tensors(PyObject* o, Value& v, bool optional);
  bool read_str(PyObject* o, Value& v);
  bool read_format(const Arg& arg, PyObject* o, Value& v);
};

}  // namespace flambeau
