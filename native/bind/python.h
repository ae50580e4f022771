// What the files of bind/ share: the Python types, conversions between Values and Python objects, error translation.
#pragma once
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <structmember.h>

#include "../autograd/node.h"

namespace flambeau {

static_assert(sizeof(Object) == sizeof(PyObject), "Tensor begins with CPython's object header");

// --- types (each made in the file named) -----------------------------------------------------------------------------
extern PyTypeObject* TensorType;     // tensor_type.cpp
extern PyTypeObject* NodeType;       // node_type.cpp
extern PyTypeObject* OpType;         // op_type.cpp
extern PyTypeObject* DTypeType;      // types.cpp
extern PyTypeObject* DeviceObjectType;
extern PyTypeObject* SizeType;
extern PyTypeObject* FormatType;     // memory formats and layouts
extern PyTypeObject* GeneratorType;  // generator_type.cpp
extern PyObject* OutOfMemoryError;   // errors.cpp
extern PyObject* LinAlgError;  // a matrix that the asked-for decomposition does not exist for

struct DTypeObject {
  PyObject_HEAD
  DType dtype;
};
struct DeviceObject {
  PyObject_HEAD
  Device device;
};
struct FormatObject {
  PyObject_HEAD
  int code;  // memory formats 0 contiguous, 1 channels_last, 2 channels_last_3d, 3 preserve; layouts 100 strided, 101…
  const char* name;
};
struct OpObject {
  PyObject_HEAD
  vectorcallfunc vectorcall;
  OpDef* def;              // null for overloads
  PyObject* alternatives;  // overloads: tuple of OpObject
  OpObject* inplace_form;  // `name_`
  bool inplace;            // this is the in-place form
  bool takes_out;
  bool method;
  uint8_t autocast;        // what autocast does with its arguments: AutocastPolicy
  PyObject* name;
  PyObject* name_space;
  PyObject* doc;
  PyObject* result_type;   // named tuple of several results
  PyObject* dict;
};

inline PyObject* py(Object* o) { return reinterpret_cast<PyObject*>(o); }
inline Tensor* as_tensor(PyObject* o) { return reinterpret_cast<Tensor*>(o); }
// PyObject_GC_IsTracked without a call: the first word of what lies before an object that can be tracked.
inline bool is_tracked(PyObject* o) { return reinterpret_cast<const uintptr_t*>(o)[-2] != 0; }
inline bool is_tensor(PyObject* o) { return Py_TYPE(o) == TensorType || PyType_IsSubtype(Py_TYPE(o), TensorType); }
inline bool is_node(PyObject* o) { return PyObject_TypeCheck(o, NodeType); }
PyObject* node_object(Node& n);  // node_type.cpp: the node as users see it, an instance of a class of its name; new
inline bool is_op(PyObject* o) { return Py_TYPE(o) == OpType; }

// A counted PyObject.
struct Held {
  PyObject* p = nullptr;
  Held() = default;
  explicit Held(PyObject* owned) : p(owned) {}
  Held(Held&& o) noexcept : p(std::exchange(o.p, nullptr)) {}
  Held& operator=(Held&& o) noexcept { std::swap(p, o.p); return *this; }
  ~Held() { Py_XDECREF(p); }
  explicit operator bool() const { return p; }
  PyObject* give() { return std::exchange(p, nullptr); }
  static Held borrow(PyObject* o) { Py_XINCREF(o); return Held(o); }
};
// The object, or PythonError when a call into Python failed.
inline Held checked(PyObject* owned) {
  if (!owned) throw PythonError();
  return Held(owned);
}
inline void checked(int status) {
  if (status < 0) throw PythonError();
}
// An int of 64 bits; PythonError for what is none or does not fit. The only way to read one: an error that is left
// behind unseen would surface in whatever Python code runs next.
inline int64_t integer_of(PyObject* o) {
  long long v = PyLong_AsLongLong(o);
  if (v == -1 && PyErr_Occurred()) throw PythonError();
  return v;
}
inline std::vector<int64_t> integers_of(PyObject* tuple) {
  std::vector<int64_t> values;
  for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(tuple); ++k) values.push_back(integer_of(PyTuple_GET_ITEM(tuple, k)));
  return values;
}
std::string text_of(PyObject* str);  // a str (or any object's str()) for a message: lone surrogates are spelled out

void set_error(const std::exception& e);
// Runs f and turns what it throws into a Python exception.
template <class F>
PyObject* guarded(F&& f) {
  try {
    return f();
  } catch (const std::exception& e) {
    set_error(e);
    return nullptr;
  }
}
template <class F>
int guarded_int(F&& f) {
  try {
    return f();
  } catch (const std::exception& e) {
    set_error(e);
    return -1;
  }
}

// --- conversions -----------------------------------------------------------------------------------------------------
// types.cpp
PyObject* dtype_object(DType d);                 // borrowed
PyObject* device_object(Device d);               // new
PyObject* size_object(Dims shape);               // new
PyObject* format_object(int code);               // borrowed
Device parse_device(PyObject* o);                // device, "cuda:0", index
DType parse_dtype(PyObject* o, const char* op);  // a dtype, or a Python type: float, int, bool, complex
// values.cpp
PyObject* value_object(const Value& v);          // new
PyObject* scalar_object(const Scalar& s);        // new
PyObject* element_object(const Tensor& t, const char* data);  // one element as a Python number; new
bool number_value(PyObject* o, Value& v);        // Python and NumPy numbers; false when it is none
Scalar element_scalar(const Tensor& t);          // of a one-element tensor
// What levels.cpp calls in Python (func/_levels.py).
struct LevelHandlers {
  PyObject* interpret;  // (op, args, kwargs, level) -> result: runs an operator of that level one level below
  PyObject* copy;       // (to, from): `to` becomes a second wrapper of what `from` wraps
  PyObject* values;     // (wrapper) -> the plain tensor under it; raises where there is no single one
  PyObject* detach;     // (wrapper) -> it without history, at its own level and below
};
const LevelHandlers& level_handlers();
TensorRef detach_wrapper(const Tensor& t);       // of a tensor whose type dispatches: without history at every level
TensorRef readable(
    const Tensor& t);  // levels.cpp: t, or the values under a transform level; throws when they are hidden
inline PyObject* take_object(TensorRef t) { return py(t.detach()); }  // hands the tensor to Python
void add_index_slots(std::vector<PyType_Slot>& slots);     // indexing.cpp
TensorRef tensor_from_data(PyObject* data, DType dtype);  // nested sequences, numbers, buffers; Undefined: inferred

// --- calling operators -----------------------------------------------------------------------------------------------
// Memory of one call's parsed arguments.
struct Frame {
  union {
    Value values[kMaxArgs];      // the schema's arguments; not initialised: every parsed argument is written
  };
  PyObject* objects[kMaxArgs];   // composites: what the body is called with (borrowed or kept alive by `keep`)
  uint16_t flags = 0;            // union of the tensors' flags
  bool foreign = false;          // some argument defines __torch_function__ without being a Tensor
  PyObject* out = nullptr;       // out=
  int64_t ints[48];
  int nints = 0;
  Tensor* tensors[32];
  int ntensors = 0;
  Held kept;  // an object kept alive for the call
  // what does not fit above, and more objects kept alive; most calls need none of it
  struct More {
    std::vector<std::unique_ptr<int64_t[]>> ints;
    std::vector<std::unique_ptr<Tensor*[]>> tensors;
    std::vector<Held> keep;
  };
  std::unique_ptr<More> more_;
  More& more() {
    if (!more_) more_ = std::make_unique<More>();
    return *more_;
  }
  // keeps `owned` alive for the call; returns it
  PyObject* keep(Held owned) {
    if (!kept.p) return (kept = std::move(owned)).p;
    more().keep.push_back(std::move(owned));
    return more_->keep.back().p;
  }
  Frame() {}
};
bool parse_arguments(const OpObject& op, PyObject* const* args, Py_ssize_t n, PyObject* kwnames, Frame& frame,
                     std::string* why);
PyObject* call_parsed(OpObject& op, Frame& frame);
PyObject* profiled_call(OpObject& op, Frame& frame, PyObject* (*call)(OpObject&, Frame&));
void add_profile(PyObject* module);
void add_graph(PyObject* module);
void add_pure_calls(PyObject* module);
PyObject* op_vectorcall(PyObject* self, PyObject* const* args, size_t nargsf, PyObject* kwnames);
enum AutocastPolicy : uint8_t { kAutocastNone, kAutocastLower, kAutocastFloat32, kAutocastAsIs };
void autocast_arguments(OpObject& op, Frame& frame);  // autocast.cpp: converts the tensors as the op's policy asks
// The call goes to overrides.py: `function` is an Op or a method, args as for a vectorcall.
PyObject* call_override(PyObject* function, PyObject* const* args, Py_ssize_t n, PyObject* kwnames);
Tensor* new_subclass(PyTypeObject* type);  // tensor_type.cpp: a blank instance of a Python subclass
PyObject* op_object(const char* name);  // borrowed; a clear error when there is no such record

// --- each file adds its part to the module ---------------------------------------------------------------------------
void add_types(PyObject* module);
void add_package_type(PyObject* module);
void add_errors(PyObject* module);
void add_values(PyObject* module);
void add_tensor_type(PyObject* module);
void add_number_slots(std::vector<PyType_Slot>& slots);  // numbers.cpp: + - * … and comparisons call operators
void add_node_type(PyObject* module);
void add_op_type(PyObject* module);
void add_construction(PyObject* module);
void add_reshaping(PyObject* module);
void add_levels(PyObject* module);
void add_dispatch(PyObject* module);
void add_generator_type(PyObject* module);
void add_dlpack(PyObject* module);
void add_native_program(PyObject* module);
void add_autocast(PyObject* module);

}  // namespace flambeau
