// x[…] and x[…] = y: integers, slices, None and ... become views at once; tensors, lists and masks go to `index`.
#include "../kernels/views.h"
#include "python.h"
#include "reader.h"
#include "slot.h"
#include "symbols.h"

namespace flambeau {
namespace {

// --- reading the key -------------------------------------------------------------------------------------------------

bool is_plain_index(PyObject* o) {  // Python and NumPy integers
  if (PyLong_Check(o)) return !PyBool_Check(o);
  return !PySlice_Check(o) && !is_tensor(o) && !PyFloat_Check(o) && !PySequence_Check(o) && PyIndex_Check(o);
}
int64_t integer_of(PyObject* o) {
  if (int64_t small; PyLong_CheckExact(o) && small_integer(o, small)) return small;
  Value symbol;
  if (!PyLong_Check(o) && symbol_value(o, symbol) && symbol.tag == Tag::Int) return symbol.i;
  Py_ssize_t k = PyNumber_AsSsize_t(o, PyExc_IndexError);
  if (k == -1 && PyErr_Occurred()) throw PythonError();
  return k;
}
int64_t slice_bound(PyObject* o) {  // clipped as Python does; kNoBound for None
  if (o == Py_None) return kNoBound;
  if (int64_t small; PyLong_CheckExact(o) && small_integer(o, small)) return small;
  if (!PyLong_Check(o) && is_tensor(o)) {
    if (as_tensor(o)->numel != 1 || is_differentiable(as_tensor(o)->dtype))
      type_error("slice indices must be integers or None or have an __index__ method");
    return element_scalar(*as_tensor(o)).to<int64_t>();
  }
  Value symbol;
  if (!PyLong_Check(o) && symbol_value(o, symbol) && symbol.tag == Tag::Int) return symbol.i;
  Py_ssize_t k;
  if (!_PyEval_SliceIndex(o, &k)) throw PythonError();
  return std::max<int64_t>(k, kNoBound + 1);
}

// PyTorch reads a list as a tuple of indices when it holds anything but numbers.
bool stands_for_tuple(PyObject* key) {
  if (PyTuple_Check(key)) return true;
  if (!PyList_Check(key) || PyList_GET_SIZE(key) >= 32) return false;
  for (Py_ssize_t k = 0; k < PyList_GET_SIZE(key); ++k) {
    PyObject* item = PyList_GET_ITEM(key, k);
    if (is_tensor(item) || PySlice_Check(item) || item == Py_None || item == Py_Ellipsis ||
        (PySequence_Check(item) && !PyUnicode_Check(item)))
      return true;
  }
  return false;
}

bool is_mask(const Tensor& t) { return t.dtype == DType::Bool || t.dtype == DType::UInt8; }

// An index that is a tensor, or becomes one: list, range, array. Throws for what is no index.
TensorRef index_tensor(PyObject* o) {
  if (is_tensor(o)) {
    Tensor& t = *as_tensor(o);
    if (is_differentiable(t.dtype)) index_error("an index must hold integers or booleans, got a tensor of ",
                                                dtype_name(t.dtype));
    return TensorRef::borrow(&t);
  }
  if (PyUnicode_Check(o)) type_error("a tensor is indexed by integers, slices, None, ... and tensors of integers or "
                                     "booleans, got a str");
  if (PyDict_Check(o) || PyFloat_Check(o) || overrides(o) || (!PySequence_Check(o) && !PyObject_CheckBuffer(o)))
    index_error("a tensor is indexed by integers, slices, None, ... and tensors of integers or booleans, got a ",
                Py_TYPE(o)->tp_name);
  TensorRef t = tensor_from_data(o, DType::Undefined);
  if (t->numel == 0 && is_differentiable(t->dtype)) t = to_dtype(*t, DType::Int64);
  if (is_differentiable(t->dtype)) index_error("an index must hold integers or booleans, got a ", Py_TYPE(o)->tp_name,
                                               " of ", dtype_name(t->dtype));
  return t;
}

// Reading these runs no Python code.
bool is_settled(PyObject* item) {
  if (PySlice_Check(item)) {
    auto* s = reinterpret_cast<PySliceObject*>(item);
    auto settled = [](PyObject* bound) { return bound == Py_None || PyLong_Check(bound); };
    return settled(s->start) && settled(s->stop) && settled(s->step);
  }
  return PyLong_Check(item) || item == Py_None || item == Py_Ellipsis || Py_TYPE(item) == TensorType;
}
Held settle(PyObject* item) {
  if (is_settled(item)) return Held::borrow(item);
  if (is_plain_index(item)) {  // an open size stays open: its token stands for it
    return is_symbol(item) ? checked(PyLong_FromLongLong(integer_of(item))) : checked(PyNumber_Index(item));
  }
  if (!PySlice_Check(item)) return Held(take_object(index_tensor(item)));
  auto* s = reinterpret_cast<PySliceObject*>(item);
  auto bound = [](PyObject* o) {
    return o == Py_None ? Held::borrow(o) : checked(PyLong_FromLongLong(slice_bound(o)));
  };
  Held start = bound(s->start), stop = bound(s->stop), step = bound(s->step);
  return checked(PySlice_New(start.p, stop.p, step.p));
}

// The items of a key, with every __index__ called and every sequence read: no Python code runs between the first look
// at the indexed tensor's layout and the result, so nothing can change that tensor or the key in between.
struct Items {
  PyObject* const* data;
  Py_ssize_t size;
  Held keep;
  explicit Items(PyObject* const* key) : data(key), size(1) {
    if (stands_for_tuple(*key)) {
      keep = PyList_Check(*key) ? checked(PyList_AsTuple(*key)) : Held::borrow(*key);
      data = &PyTuple_GET_ITEM(keep.p, 0);
      size = PyTuple_GET_SIZE(keep.p);
    }
    bool settled = true;
    for (Py_ssize_t k = 0; k < size; ++k) settled &= is_settled(data[k]);
    if (settled) return;
    Held all = checked(PyTuple_New(size));
    for (Py_ssize_t k = 0; k < size; ++k) PyTuple_SET_ITEM(all.p, k, settle(data[k]).give());
    keep = std::move(all);
    data = &PyTuple_GET_ITEM(keep.p, 0);
  }
};

int64_t dims_taken(PyObject* o) {
  if (PySlice_Check(o)) return 1;
  if (is_tensor(o)) return is_mask(*as_tensor(o)) ? as_tensor(o)->ndim : 1;
  return o == Py_None || o == Py_Ellipsis || PyBool_Check(o) ? 0 : 1;
}

// --- views -----------------------------------------------------------------------------------------------------------

// The basic part of a key, applied step by step: straight on the layout, or through operators where a gradient, a mode
// or a subclass wants to see them.
struct Steps {
  Tensor& self;
  bool recorded;
  Layout layout;      // when not recorded
  TensorRef current;  // when recorded; null: nothing done yet

  Steps(Tensor& t, bool recorded) : self(t), recorded(recorded) {
    if (!recorded) layout = Layout(t);
  }
  Tensor& now() { return current ? *current : self; }
  int ndim() { return recorded ? now().ndim : layout.ndim; }
  int64_t size(int d) { return recorded ? now().sizes[d] : layout.sizes[d]; }

  void select(int d, int64_t k) {
    int64_t n = size(d);
    if ((k < -n || k >= n) && !(self.flags & kDispatch) && !is_token(k))  // those are asked, who know more of sizes
      index_error("index ", k, " is outside dimension ", d, " of size ", n);
    if (recorded) {
      static OpHandle op{"select"};
      current = invoke(op, {Value(&now()), Value(int64_t(d)), Value(k)});
      return;
    }
    layout.data += (k < 0 ? k + n : k) * layout.strides[d] * self.itemsize();
    layout.erase(d);
  }
  void slice(int d, int64_t start, int64_t stop, int64_t step) {
    if (recorded) {
      static OpHandle op{"slice"};
      auto bound = [](int64_t b) { return b == kNoBound ? Value() : Value(b); };
      current = invoke(op, {Value(&now()), Value(int64_t(d)), bound(start), bound(stop), Value(step)});
      return;
    }
    apply_slice(layout, d, slice_of(layout.sizes[d], start, stop, step), self.itemsize());
  }
  void unsqueeze(int d) {
    if (recorded) {
      static OpHandle op{"unsqueeze"};
      current = invoke(op, {Value(&now()), Value(int64_t(d))});
      return;
    }
    layout.insert(d, 1, d < layout.ndim ? layout.sizes[d] * layout.strides[d] : 1);
  }
  TensorRef result() {
    if (recorded) {
      static OpHandle op{"alias"};
      return current ? current : invoke(op, {Value(&self)});
    }
    TensorRef r = layout.of(self);
    set_view(*r, self);
    return r;
  }
};

bool must_record(Tensor& t) {
  return t.flags & kDispatch || tls.dispatch_modes || (tls.grad_enabled && tensor_requires_grad(t));
}

// Tensor indices by dimension of the view; null where the dimension stays whole.
struct Picks {
  std::vector<TensorRef> held;
  std::vector<Tensor*> list;
  int covered = 0;  // dimensions that the list speaks of: a mask stands for all of its own
  void put(int d, TensorRef t, int dims = 1) {
    for (; covered < d; ++covered) list.push_back(nullptr);
    covered += dims;
    list.push_back(t.get());
    held.push_back(std::move(t));
  }
  bool any() const { return !held.empty(); }
};

TensorRef lone_mask(bool value) {
  int64_t one = 1;
  TensorRef t = empty(Dims(&one, 1), DType::Bool);
  *t->ptr<bool>() = value;
  return t;
}

void no_dims(const Tensor& self) {
  index_error("a tensor of shape ", shape_text(self.shape()), " has no dimension to index; its value is x.item()");
}

void check_indices(const Tensor& self, const Items& items, int64_t taken) {
  if (taken <= self.ndim) return;
  if (self.ndim == 0 && items.size == 1 && is_plain_index(items.data[0])) no_dims(self);
  if (self.ndim == 0 && items.size == 1 && PySlice_Check(items.data[0]))
    index_error("a tensor without dimensions cannot be sliced; its value is x.item()");
  index_error("more indices than the tensor's ", int(self.ndim), " dimensions");
}

void apply_slice_item(PyObject* item, Steps& steps, int d) {
  auto* s = reinterpret_cast<PySliceObject*>(item);
  int64_t step = s->step == Py_None ? 1 : slice_bound(s->step);
  if (step == 0) value_error("slice step cannot be zero");
  if (s->start != Py_None || s->stop != Py_None || step != 1)
    steps.slice(d, slice_bound(s->start), slice_bound(s->stop), step);
}

// A tensor, or what becomes one. A number is a plain index, where its value can be read; a mask speaks of as many
// dimensions as it has.
void apply_tensor_item(TensorRef t, Steps& steps, Picks& picks, int& d) {
  if (t->ndim == 0 && !is_mask(*t) && !t->level) {  // with a level: one index per element of a batch
    if (t->is_meta()) not_implemented("an index on the meta device has no value");
    return steps.select(d, element_scalar(*t).to<int64_t>());
  }
  if (t->ndim == 0 && is_mask(*t)) {
    steps.unsqueeze(d);
    if (!t->is_meta() && !t->level) t = lone_mask(element_scalar(*t).to<bool>());
    return picks.put(d++, std::move(t));
  }
  int dims = is_mask(*t) ? t->ndim : 1;
  picks.put(d, std::move(t), dims);
  d += dims;
}

// Applies every item; basic ones change `steps`, tensors are collected in `picks`.
void apply_key(Tensor& self, const Items& items, Steps& steps, Picks& picks) {
  int64_t taken = 0;
  for (Py_ssize_t k = 0; k < items.size; ++k) taken += dims_taken(items.data[k]);
  check_indices(self, items, taken);
  int d = 0;
  bool expanded = false;
  for (Py_ssize_t k = 0; k < items.size; ++k) {
    PyObject* item = items.data[k];
    if (is_plain_index(item)) {
      steps.select(d, integer_of(item));
    } else if (PySlice_Check(item)) {
      apply_slice_item(item, steps, d++);
    } else if (item == Py_Ellipsis) {
      if (!expanded) d += int(self.ndim - taken);
      expanded = true;
    } else if (item == Py_None) {
      steps.unsqueeze(d++);
    } else if (PyBool_Check(item)) {
      steps.unsqueeze(d);
      picks.put(d++, lone_mask(item == Py_True));
    } else {
      apply_tensor_item(index_tensor(item), steps, picks, d);
    }
  }
}

// --- x[…] ------------------------------------------------------------------------------------------------------------

TensorRef take(Tensor& self, PyObject* key) {
  if (PyLong_CheckExact(key) && self.ndim > 0) {
    Steps steps(self, must_record(self));
    steps.select(0, integer_of(key));
    return steps.result();
  }
  Picks picks;
  Items items(&key);
  Steps steps(self, must_record(self));
  apply_key(self, items, steps, picks);
  if (!picks.any()) return steps.result();
  TensorRef source = !steps.recorded || steps.current ? steps.result() : TensorRef::borrow(&self);
  Tensor* lone = picks.held.size() == 1 && picks.list.size() == 1 ? picks.list[0] : nullptr;
  if (lone && lone->dtype == DType::Bool && lone->ndim == source->ndim &&
      std::ranges::equal(lone->shape(), source->shape())) {
    static OpHandle masked_select{"masked_select"};  // a mask of everything: the same elements, without coordinates
    return invoke(masked_select, {Value(source.get()), Value(lone)});
  }
  static OpHandle index{"index"};
  Value list;
  list.tag = Tag::Tensors;
  list.tensors = {picks.list.data(), int64_t(picks.list.size())};
  return invoke(index, {Value(source.get()), list});
}

// A subclass with __torch_function__, or an active mode, sees the call as Tensor.__getitem__ / __setitem__.
PyObject* overridden(const char* name, PyObject* const* args, Py_ssize_t n) {
  Held function = checked(PyObject_GetAttrString(reinterpret_cast<PyObject*>(TensorType), name));  // what the user sees
  return call_override(function.p, args, n, nullptr);
}
bool is_overriding_tensor(PyObject* o) {  // of a class that users made, then
  return Py_TYPE(o)->tp_flags & Py_TPFLAGS_HEAPTYPE && is_tensor(o) && as_tensor(o)->flags & kOverrides;
}
bool wants_override(PyObject* o, PyObject* key, PyObject* value) {
  bool wanted = tls.function_modes || as_tensor(o)->flags & kOverrides || is_overriding_tensor(key) ||
                (value && is_overriding_tensor(value));
  if (PyTuple_Check(key))
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(key); ++k) wanted |= is_overriding_tensor(PyTuple_GET_ITEM(key, k));
  return wanted && !tls.overrides_disabled;
}

// Whether a key that is no index, or a part of it, has a __torch_function__ of its own.
bool key_overrides(PyObject* key) {
  if (PySlice_Check(key)) {
    auto* s = reinterpret_cast<PySliceObject*>(key);
    return overrides(s->start) || overrides(s->stop) || overrides(s->step);
  }
  if (!PyTuple_Check(key)) return overrides(key);
  for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(key); ++k)
    if (key_overrides(PyTuple_GET_ITEM(key, k))) return true;
  return false;
}

// What an index operation gives, or what a `__torch_function__` among `args` does: indices come first, so those that
// are no tensors are asked only where the operation has failed.
template <class F>
PyObject* or_overridden(const char* name, std::span<PyObject* const> args, F&& operation) {
  PyObject* value = args.size() > 2 ? args[2] : nullptr;
  auto ask = [&] { return overridden(name, args.data(), Py_ssize_t(args.size())); };
  if (__builtin_expect(wants_override(args[0], args[1], value), 0)) return ask();
  try {
    return operation();
  } catch (const Error&) {
    PyObject *type, *error, *trace;  // what has failed: asking runs Python code
    PyErr_Fetch(&type, &error, &trace);
    const bool asked = !tls.overrides_disabled && (key_overrides(args[1]) || (value && overrides(value)));
    PyErr_Restore(type, error, trace);
    if (!asked) throw;
    PyErr_Clear();
    return ask();
  }
}

PyObject* subscript(PyObject* o, PyObject* key) {
  return guarded([&]() -> PyObject* {
    PyObject* args[] = {o, key};
    return or_overridden("__getitem__", args, [&] { return take_object(take(*as_tensor(o), key)); });
  });
}

// --- x[…] = y --------------------------------------------------------------------------------------------------------

void write(OpHandle& handle, std::initializer_list<Value> args) {
  OpDef& op = handle.get();
  Value values[8];
  int n = 0;
  for (const Value& v : args) values[n++] = v;
  for (; n < int(op.schema.args.size()); ++n) values[n] = op.schema.args[n].value;
  Call c;
  c.op = &op;
  c.args = values;
  c.nargs = n;
  c.given = values[0].tensor;
  c.inplace = true;
  run_op(c);
}

// What is assigned: a tensor, or a number in `number`.
TensorRef assigned_value(PyObject* o, const Tensor& self, Value& number) {
  if (is_tensor(o)) return TensorRef::borrow(as_tensor(o));
  if (number_value(o, number)) {
    if (is_half(self.dtype) && (number.tag == Tag::Float || number.tag == Tag::Int)) {
      // what is too large for a half is infinite here; where halves are filled it is refused
      const float f = float(number.scalar().to<double>());
      number = Value(double(self.dtype == DType::Float16 ? float(float16(f)) : float(bfloat16(f))));
    }
    return {};
  }
  if (PyUnicode_Check(o) || PyDict_Check(o) || (!PySequence_Check(o) && !PyObject_CheckBuffer(o)))
    type_error("can't assign a ", Py_TYPE(o)->tp_name, " to a tensor of ", dtype_name(self.dtype));
  TensorRef t = tensor_from_data(o, DType::Undefined);
  return t->dtype == self.dtype ? t : to_dtype(*t, self.dtype);
}

void put_view(Tensor& place, TensorRef value, const Value& number) {
  static OpHandle fill{"fill_scalar_"}, copy{"copy_"};
  if (value && value->ndim > place.ndim) {  // leading dimensions of size one do not count
    int extra = value->ndim - place.ndim;
    bool ones = true;
    for (int k = 0; k < extra; ++k) ones &= value->sizes[k] == 1;
    static OpHandle reshape{"reshape"};
    if (ones) value = invoke(reshape, {Value(value.get()), Value(value->shape().subspan(extra))});
  }
  if (value) write(copy, {Value(&place), Value(value.get())});
  else write(fill, {Value(&place), number});
}

// `x[:]` or `x[...]`
bool is_whole(const Tensor& self, PyObject* key) {
  if (key == Py_Ellipsis) return true;
  if (!PySlice_Check(key) || self.ndim == 0) return false;
  auto* s = reinterpret_cast<PySliceObject*>(key);
  return s->start == Py_None && s->stop == Py_None && s->step == Py_None;
}

// The places that tensors pick take a value (null: a number).
void put_picked(Tensor& self, TensorRef place, const Picks& picks, TensorRef value, const Value& number) {
  if (!value) {
    static OpHandle masked_fill{"masked_fill"};
    Tensor* mask = picks.list.size() == 1 && picks.held.size() == 1 ? picks.list[0] : nullptr;
    if (mask && mask->dtype == DType::Bool && mask->ndim == place->ndim &&
        std::ranges::equal(mask->shape(), place->shape()) && find_op("masked_fill"))
      return write(masked_fill, {Value(place.get()), Value(mask), number});
    value = empty({}, self.dtype, self.device);
    fill(*value, number.scalar());
  } else if (value->dtype != self.dtype && value->numel == 1 && category(value->dtype) <= category(self.dtype) &&
             (value->flags & kWrappedNumber || (picks.held.size() == 1 && picks.held[0]->dtype == DType::Bool))) {
    // one number for all that a mask picks may be of another dtype
    value = to_dtype(*value, self.dtype);
  }
  static OpHandle index_put{"index_put"};
  Value list;
  list.tag = Tag::Tensors;
  list.tensors = {picks.list.data(), int64_t(picks.list.size())};
  write(index_put, {Value(place.get()), list, Value(value.get()), Value(false)});
}

void put(Tensor& self, PyObject* key, PyObject* o) {
  Value number;
  TensorRef value = assigned_value(o, self, number);
  const bool recorded = must_record(self) || (value && tls.grad_enabled && tensor_requires_grad(*value));
  if (PyLong_CheckExact(key) && self.ndim > 0) {
    Steps steps(self, recorded);
    steps.select(0, integer_of(key));
    return put_view(*steps.result(), value, number);
  }
  if (is_whole(self, key)) return put_view(self, value, number);  // no view needed
  Picks picks;
  Items items(&key);
  Steps steps(self, recorded);
  apply_key(self, items, steps, picks);
  if (!picks.any()) return put_view(*steps.result(), value, number);
  bool whole = steps.recorded ? !steps.current
                              : steps.layout.ndim == self.ndim && steps.layout.data == self.data &&
                                    std::ranges::equal(steps.layout.shape(), self.shape());
  TensorRef place = whole ? TensorRef::borrow(&self) : steps.result();
  put_picked(self, std::move(place), picks, std::move(value), number);
}

int assign_subscript(PyObject* o, PyObject* key, PyObject* value) {
  return guarded_int([&]() -> int {
    if (!value) type_error("elements of a tensor cannot be deleted; index the ones to keep");
    PyObject* args[] = {o, key, value};
    checked(or_overridden("__setitem__", args, [&] {
      put(*as_tensor(o), key, value);
      return Py_NewRef(Py_None);
    }));
    return 0;
  });
}

}  // namespace

void add_index_slots(std::vector<PyType_Slot>& slots) {
  slots.push_back({Py_mp_subscript, type_slot<subscript>()});
  slots.push_back({Py_mp_ass_subscript, type_slot<assign_subscript>()});
}

}  // namespace flambeau
