// Python's operators on tensors: a + b, a < b, a @ b … straight to the operator, without a name look-up.
#include <cstring>

#include "numpy_types.h"
#include "slot.h"
#include "symbols.h"

namespace flambeau {
namespace {

// An operator the slots call, found on first use.
struct SlotOp {
  const char* name;
  OpObject* op = nullptr;
  OpObject& get() {
    if (!op) {
      Held kinds = checked(PyImport_ImportModule("flambeau.ops.kinds"));
      Held table = checked(PyObject_GetAttrString(kinds.p, "OPS"));
      PyObject* found = PyDict_GetItemString(table.p, name);
      if (!found) not_implemented("operator ", name, " has no record in flambeau.ops");
      op = reinterpret_cast<OpObject*>(found);
    }
    return *op;
  }
};

bool operand(PyObject* o, Value& v, uint16_t& flags) {
  if (is_tensor(o)) {
    v = Value(as_tensor(o));
    flags |= v.tensor->flags;
    return true;
  }
  return number_value(o, v) || symbol_value(o, v);
}

bool understood(PyObject* o) {
  if (is_tensor(o)) return true;
  Value v;
  return number_value(o, v) || is_symbol(o);
}

PyObject* binary(SlotOp& slot, PyObject* a, PyObject* b, bool inplace) {
  if (__builtin_expect(is_numpy_array(a) || is_numpy_array(b), 0)) {  // an array beside a tensor acts as a tensor
    PyObject* array = is_numpy_array(a) ? a : b;
    Held tensor(guarded([&] { return take_object(tensor_from_data(array, DType::Undefined)); }));
    if (!tensor) return nullptr;
    return array == a ? binary(slot, tensor.p, b, inplace) : binary(slot, a, tensor.p, inplace);
  }
  return guarded([&]() -> PyObject* {
    OpObject* op = &slot.get();
    if (inplace) {
      if (!op->inplace_form) not_implemented(slot.name, " has no in-place form");
      op = op->inplace_form;
    }
    Frame f;
    if (op->def && op->def->kind == Kind::Elementwise && !tls.function_modes) {
      if (!operand(a, f.values[0], f.flags) || !operand(b, f.values[1], f.flags)) Py_RETURN_NOTIMPLEMENTED;
      if (!(f.flags & kOverrides)) {
        const auto& args = op->def->schema.args;
        for (size_t k = 2; k < args.size(); ++k) f.values[k] = args[k].value;
        return call_parsed(*op, f);
      }
    } else if (!understood(a) || !understood(b)) {
      bool foreign = PyObject_HasAttrString(is_tensor(a) ? b : a, "__torch_function__");
      if (!foreign) Py_RETURN_NOTIMPLEMENTED;
    }
    PyObject* args[] = {a, b};
    return op_vectorcall((PyObject*)op, args, 2, nullptr);
  });
}

PyObject* unary(SlotOp& slot, PyObject* a) {
  return guarded([&]() -> PyObject* { return op_vectorcall((PyObject*)&slot.get(), &a, 1, nullptr); });
}

#define FLAMBEAU_BINARY(id, opname)                                              \
  SlotOp slot_##id{opname};                                                      \
  PyObject* nb_##id(PyObject* a, PyObject* b) { return binary(slot_##id, a, b, false); } \
  PyObject* nb_inplace_##id(PyObject* a, PyObject* b) { return binary(slot_##id, a, b, true); }
FLAMBEAU_BINARY(add, "add")
FLAMBEAU_BINARY(subtract, "sub")
FLAMBEAU_BINARY(multiply, "mul")
FLAMBEAU_BINARY(true_divide, "div")
FLAMBEAU_BINARY(floor_divide, "floor_divide")
FLAMBEAU_BINARY(remainder, "remainder")
FLAMBEAU_BINARY(and, "bitwise_and")
FLAMBEAU_BINARY(or, "bitwise_or")
FLAMBEAU_BINARY(xor, "bitwise_xor")
FLAMBEAU_BINARY(lshift, "bitwise_left_shift")
FLAMBEAU_BINARY(rshift, "bitwise_right_shift")
FLAMBEAU_BINARY(pow2, "pow")
#undef FLAMBEAU_BINARY
SlotOp slot_matmul{"matmul"};
PyObject* nb_matrix_multiply(PyObject* a, PyObject* b) { return binary(slot_matmul, a, b, false); }
PyObject* nb_power(PyObject* a, PyObject* b, PyObject*) { return nb_pow2(a, b); }
PyObject* nb_inplace_power(PyObject* a, PyObject* b, PyObject*) { return nb_inplace_pow2(a, b); }

SlotOp slot_neg{"neg"}, slot_abs{"abs"}, slot_invert{"bitwise_not"};
PyObject* nb_negative(PyObject* a) { return unary(slot_neg, a); }
PyObject* nb_absolute(PyObject* a) { return unary(slot_abs, a); }
PyObject* nb_invert(PyObject* a) {
  DType d = as_tensor(a)->dtype;
  if (is_differentiable(d)) {
    PyErr_Format(PyExc_TypeError, "~x inverts the bits of integers and the truth of booleans; it is not defined for %s",
                 dtype_name(d));
    return nullptr;
  }
  return unary(slot_invert, a);
}
PyObject* nb_positive(PyObject* a) { return Py_NewRef(a); }

SlotOp compare_slots[] = {{"lt"}, {"le"}, {"eq"}, {"ne"}, {"gt"}, {"ge"}};  // in the order of Py_LT … Py_GE
PyObject* richcompare(PyObject* a, PyObject* b, int how) { return binary(compare_slots[how], a, b, false); }

Tensor& one_element(PyObject* o, const char* what) {
  Tensor& t = *as_tensor(o);
  if (t.numel != 1) value_error(what, ": only a tensor of one element is a number, got ", t.numel, " elements");
  return t;
}
int nb_bool(PyObject* o) {
  return guarded_int([&] {
    Tensor& t = *as_tensor(o);
    if (t.numel != 1)
      runtime_error("a tensor of ", t.numel, " elements is neither true nor false; use .any(), .all() or len()");
    return element_scalar(t).to<bool>() ? 1 : 0;
  });
}
PyObject* nb_float(PyObject* o) {
  return guarded([&] {
    Scalar s = element_scalar(one_element(o, "float()"));
    if (s.category == Category::Complex && s.im != 0) runtime_error("a complex number with an imaginary part cannot "
                                                                    "become a real one; take .real first");
    return PyFloat_FromDouble(s.to<double>());
  });
}
PyObject* nb_int(PyObject* o) {
  return guarded([&] {
    TensorRef inner = readable(one_element(o, "int()"));
    Held number = checked(element_object(*inner, inner->data));
    return PyNumber_Long(number.p);
  });
}
PyObject* nb_index(PyObject* o) {
  return guarded([&] {
    Tensor& t = *as_tensor(o);
    if (t.numel != 1 || is_differentiable(t.dtype)) type_error("only a tensor of one integer can be an index or a "
                                                               "size, got ", dtype_name(t.dtype), " ",
                                                               shape_text(t.shape()));
    return PyLong_FromLongLong(element_scalar(t).to<int64_t>());
  });
}
Py_hash_t hash(PyObject* o) { return _Py_HashPointer(o); }

Py_ssize_t length(PyObject* o) {
  return guarded_int([&]() -> int {
    if (as_tensor(o)->ndim == 0) type_error("a tensor without dimensions has no length");
    return 0;
  }) < 0 ? -1 : Py_ssize_t(as_tensor(o)->sizes[0]);
}

}  // namespace

void add_number_slots(std::vector<PyType_Slot>& slots) {
#define FLAMBEAU_SLOT(id) slots.push_back({Py_nb_##id, type_slot<nb_##id>()});
#define FLAMBEAU_PAIR(id) FLAMBEAU_SLOT(id) FLAMBEAU_SLOT(inplace_##id)
  FLAMBEAU_PAIR(add)
  FLAMBEAU_PAIR(subtract) FLAMBEAU_PAIR(multiply) FLAMBEAU_PAIR(true_divide) FLAMBEAU_PAIR(floor_divide)
      FLAMBEAU_PAIR(remainder) FLAMBEAU_PAIR(and) FLAMBEAU_PAIR(or) FLAMBEAU_PAIR(xor) FLAMBEAU_PAIR(lshift)
          FLAMBEAU_PAIR(rshift) FLAMBEAU_PAIR(power) FLAMBEAU_SLOT(matrix_multiply) FLAMBEAU_SLOT(negative)
              FLAMBEAU_SLOT(absolute) FLAMBEAU_SLOT(invert) FLAMBEAU_SLOT(positive) FLAMBEAU_SLOT(bool)
                  FLAMBEAU_SLOT(float) FLAMBEAU_SLOT(int) FLAMBEAU_SLOT(index)
#undef FLAMBEAU_PAIR
#undef FLAMBEAU_SLOT
                      slots.push_back({Py_tp_richcompare, type_slot<richcompare>()});
  slots.push_back({Py_tp_hash, type_slot<hash>()});
  slots.push_back({Py_mp_length, type_slot<length>()});
  add_index_slots(slots);
}

}  // namespace flambeau
