// The type of the package's own module: a name that it has is found by one look into its dictionary. Python's type
// looks at four places first, in every `flambeau.x`, since the module has a __getattr__ for what is loaded later.
#include "python.h"
#include "slot.h"

namespace flambeau {
namespace {

PyObject* name_of_package(PyObject* module, PyObject* name) {
  PyObject* names = *reinterpret_cast<PyObject**>(reinterpret_cast<char*>(module) + PyModule_Type.tp_dictoffset);
  PyObject* found = PyDict_GetItemWithError(names, name);  // borrowed
  if (found) return Py_NewRef(found);
  return PyErr_Occurred() ? nullptr : PyModule_Type.tp_getattro(module, name);
}

PyType_Slot package_slots[] = {{Py_tp_getattro, type_slot<name_of_package>()}, {}};
PyType_Spec package_spec = {"flambeau._C.Package", 0, 0, Py_TPFLAGS_DEFAULT, package_slots};

}  // namespace

void add_package_type(PyObject* module) {
  Held bases = checked(Py_BuildValue("(O)", &PyModule_Type));
  checked(PyModule_AddObjectRef(module, "Package", checked(PyType_FromSpecWithBases(&package_spec, bases.p)).p));
}

}  // namespace flambeau
