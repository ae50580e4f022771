// What one Python object becomes as an argument: a Value of its schema type, or an error that names op and argument.
#pragma once
#include "python.h"

namespace flambeau {

[[noreturn]] void bad_argument(const OpObject& op, const Arg& arg, int position, const char* expected, PyObject* got);
bool overrides(PyObject* o);  // its type, not a Tensor's, defines __torch_function__
bool is_index(PyObject* o);   // an integer, or what acts as one

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
  bool read_scalar(PyObject* o, Value& v);
  bool read_float(PyObject* o, Value& v);
  bool read_bool(PyObject* o, Value& v);
  bool read_ints(const Arg& arg, PyObject* o, Value& v);
  bool read_floats(PyObject* o, Value& v);
  bool read_bools(const Arg& arg, PyObject* o, Value& v);
  bool read_tensors(PyObject* o, Value& v, bool optional);
  bool read_str(PyObject* o, Value& v);
  bool read_format(const Arg& arg, PyObject* o, Value& v);
};

}  // namespace flambeau
