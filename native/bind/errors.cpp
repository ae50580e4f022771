// Which Python exception an error of native code becomes, and with what text.
#include "python.h"

namespace flambeau {

PyObject* OutOfMemoryError;
PyObject* LinAlgError;

// The text for Python. One that repeats a long argument keeps its beginning and end: nobody reads a million numbers.
static PyObject* error_text(const std::string& text) {
  constexpr size_t longest = 4000, beginning = 3000, end = 500;
  auto decoded = [](std::string_view part) {
    return PyUnicode_DecodeUTF8(part.data(), Py_ssize_t(part.size()), "replace");
  };
  if (text.size() <= longest) return decoded(text);
  std::string_view all = text;
  return decoded(concat(all.substr(0, beginning), " … (", text.size() - beginning - end, " characters left out) … ",
                        all.substr(text.size() - end)));
}

void set_error(const std::exception& e) {
  auto* error = dynamic_cast<const Error*>(&e);
  if (!error) {
    if (dynamic_cast<const std::bad_alloc*>(&e)) PyErr_NoMemory();
    else PyErr_SetString(PyExc_RuntimeError, e.what());
    return;
  }
  PyObject* types[] = {PyExc_RuntimeError,        PyExc_TypeError,  PyExc_ValueError,    PyExc_IndexError,
                       PyExc_NotImplementedError, OutOfMemoryError, PyExc_OverflowError, LinAlgError};
  if (error->kind == ErrorKind::Python) {
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_SystemError, "a Python call failed without an exception");
    return;
  }
  Held text(error_text(error->text));
  if (text) PyErr_SetObject(types[int(error->kind)], text.p);
}

std::string text_of(PyObject* o) {
  Held str = checked(PyObject_Str(o));
  Held bytes = checked(PyUnicode_AsEncodedString(str.p, "utf-8", "backslashreplace"));
  return std::string(PyBytes_AS_STRING(bytes.p), size_t(PyBytes_GET_SIZE(bytes.p)));
}

void add_errors(PyObject* module) {
  OutOfMemoryError = checked(PyErr_NewException("flambeau.OutOfMemoryError", PyExc_RuntimeError, nullptr)).give();
  checked(PyModule_AddObjectRef(module, "OutOfMemoryError", OutOfMemoryError));
  LinAlgError = checked(PyErr_NewException("flambeau.linalg.LinAlgError", PyExc_RuntimeError, nullptr)).give();
  checked(PyModule_AddObjectRef(module, "LinAlgError", LinAlgError));
}

}  // namespace flambeau
