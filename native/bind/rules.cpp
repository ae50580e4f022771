// Derivative rules in a backward pass: saved values become the rule's arguments, what it returns the gradients.
#include "../core/images.h"
#include "../runtime/together.h"
#include "autograd.h"
#include "graph_capture.h"
#include "symbols.h"
#include "upward.h"

namespace flambeau {

// What pack hooks made of saved tensors, each unpacked once per run of a node.
struct Unpacked {
  std::vector<std::pair<int, Held>> found;
  PyObject* get(Node& n, int slot) {
    for (auto& [at, object] : found)
      if (at == slot) return Py_NewRef(object.p);
    PyObject* object = unpack_saved(n, n.saved[slot]);
    if (object) found.emplace_back(slot, Held::borrow(object));
    return object;
  }
};

// What a rule sees of an argument: the tensor, a number as a 0-d tensor where the schema says Tensor, or plain Python.
PyObject* saved_object(Node& n, int slot) {
  Saved& s = n.saved[slot];
  if (__builtin_expect(s.packed, 0)) return tls.unpacked ? tls.unpacked->get(n, slot) : unpack_saved(n, s);
  if (s.value.tag == Tag::Tensor) return take_object(unpack_tensor(n, s));
  if (s.value.tag == Tag::Tensors) check_list(n, s);
  const auto& args = n.op->schema.args;
  if (slot < int(args.size()) && args[slot].type == Type::Tensor && s.value.is_number()) {
    if (PyObject* open = symbol_tensor(s.value)) return open;
    Scalar number = s.value.scalar();
    TensorRef t = wrap_number(number, number.dtype(DType::Float64));
    t->flags &= ~kWrappedNumber;  // what a rule computes from numbers alone keeps its digits; 0-d is weak enough
    return take_object(std::move(t));
  }
  if (slot < int(args.size()) && (args[slot].type == Type::MemoryFormat || args[slot].type == Type::Layout) &&
      s.value.tag == Tag::Int)
    return Py_NewRef(format_object(int(s.value.i)));
  return value_object(s.value);
}

namespace {

TensorRef zeros_of(const GradMeta& m) {
  TensorRef z = empty(m.shape(), m.dtype, m.device);
  fill(*z, Scalar(0));
  return z;
}

PyObject* shape_of_saved(const Saved& s) {
  if (s.value.tag == Tag::Tensor) return size_object(s.value.tensor->shape());
  if (s.value.tag == Tag::Ints && s.dtype != DType::Undefined)
    return size_object({s.value.ints.data, size_t(s.value.ints.size)});
  Py_RETURN_NONE;
}

// Shapes of what a hook has packed.
PyObject* packed_shapes(PyObject* object) {
  Held held = checked(object);
  if (is_tensor(held.p)) return size_object(as_tensor(held.p)->shape());
  Held t = checked(PyTuple_New(PySequence_Size(held.p)));
  for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(t.p); ++k) {
    Held item = checked(PySequence_GetItem(held.p, k));
    PyTuple_SET_ITEM(t.p, k, is_tensor(item.p) ? size_object(as_tensor(item.p)->shape()) : Py_NewRef(Py_None));
  }
  return t.give();
}

PyObject* shapes_of_list(const Saved& s, bool list) {
  if (!list) return shape_of_saved(s);
  std::vector<Held> shapes;
  if (s.value.tag == Tag::Tensors) {
    for (int64_t k = 0; k < s.value.tensors.size; ++k)
      shapes.emplace_back(size_object(s.value.tensors.data[k]->shape()));
  } else {
    const int64_t* at = s.value.ints.data;
    for (const int64_t* end = at + s.value.ints.size; at < end; at += 1 + *at)
      shapes.emplace_back(size_object({at + 1, size_t(*at)}));
  }
  PyObject* t = PyTuple_New(Py_ssize_t(shapes.size()));
  for (size_t k = 0; k < shapes.size(); ++k) PyTuple_SET_ITEM(t, Py_ssize_t(k), shapes[k].give());
  return t;
}

// All gradients that have come; zeros for the others where `all`, else None.
PyObject* gradients_tuple(Node& n, TensorRef* grads, bool all) {
  PyObject* t = PyTuple_New(n.nouts);
  for (int k = 0; t && k < n.nouts; ++k) {
    if (all && !grads[k]) grads[k] = zeros_of(n.output_meta(k));
    PyTuple_SET_ITEM(t, k, grads[k] ? Py_NewRef(py(grads[k].get())) : Py_NewRef(Py_None));
  }
  return t;
}

PyObject* needs_tuple(std::span<const bool> needs) {
  PyObject* t = PyTuple_New(Py_ssize_t(needs.size()));
  for (size_t k = 0; t && k < needs.size(); ++k) PyTuple_SET_ITEM(t, Py_ssize_t(k), PyBool_FromLong(needs[k]));
  return t;
}

// `needs`: of each of the rule's edges.
PyObject* rule_argument(Node& n, std::span<const bool> needs, const RuleParam& p, TensorRef* grads) {
  int nargs = int(n.op->schema.args.size());
  switch (p.source) {
    case Source::Grad: {
      if (p.index >= n.nouts) Py_RETURN_NONE;
      if (!grads[p.index]) grads[p.index] = zeros_of(n.output_meta(p.index));
      return Py_NewRef(py(grads[p.index].get()));
    }
    case Source::Grads: return gradients_tuple(n, grads, true);
    case Source::SomeGrads: return gradients_tuple(n, grads, false);
    case Source::Arg: return saved_object(n, p.index);
    case Source::Result: return saved_object(n, nargs + p.index);
    case Source::ArgShape:
      return symbol_sizes(n.saved[p.index].packed
                              ? packed_shapes(saved_object(n, p.index))
                              : shapes_of_list(n.saved[p.index], n.op->schema.args[p.index].type == Type::Tensors));
    case Source::ArgGeometry: {  // (sizes, strides, offset)
      Dims all{n.saved[p.index].value.ints.data, size_t(n.saved[p.index].value.ints.size)};
      size_t ndim = all.size() / 2;
      return symbol_sizes(Py_BuildValue("(NNL)", size_object(all.first(ndim)), size_object(all.subspan(ndim, ndim)),
                                        (long long)all.back()));
    }
    case Source::ArgDType: {
      const Saved& s = n.saved[p.index];
      return Py_NewRef(dtype_object(s.value.tag == Tag::Tensor ? s.value.tensor->dtype : s.dtype));  // packed: s.dtype
    }
    default: return needs_tuple(needs);
  }
}

void take_gradient(Node& n, PyObject* o, TensorRef& out) {
  if (o == Py_None) return;
  if (!is_tensor(o))
    type_error(node_name(n), ": a derivative rule must return a Tensor or None, got ", Py_TYPE(o)->tp_name);
  out = TensorRef::borrow(as_tensor(o));
}

// How many edges a rule's inputs have: one each, or all of a list argument, which are what the other rules leave.
int edges_of(const Rule& rule, const Node& n, bool* list) {
  Type first = n.op->schema.args[rule.inputs[0]].type;
  *list = rule.inputs.size() == 1 && first >= Type::Tensors && first <= Type::OptionalTensors;
  if (!*list) return int(rule.inputs.size());
  int others = 0;
  for (const Rule& r : n.op->rules)
    if (&r != &rule) others += int(r.inputs.size());
  return n.nedges - others;
}

Held call_rule(Node& n, const Rule& rule, std::span<const bool> needs, TensorRef* grads) {
  constexpr int kMostParams = 24;
  PyObject* args[kMostParams];
  int count = 0;
  struct Release {
    PyObject** a;
    int& n;
    ~Release() { for (int k = 0; k < n; ++k) Py_DECREF(a[k]); }
  } guard{args, count};
  for (const RuleParam& p : rule.params) {
    if (__builtin_expect(n.released, 0)) graph_was_freed(n);  // meanwhile, by another thread's pass
    PyObject* o = rule_argument(n, needs, p, grads);
    if (!o) throw PythonError();
    args[count++] = o;
  }
  return checked(PyObject_Vectorcall(static_cast<PyObject*>(rule.function), args, size_t(count), nullptr));
}

void take_gradients(Node& n, PyObject* given, int edges, TensorRef* out) {
  if (given == Py_None) return;
  if (!PyTuple_Check(given) && !PyList_Check(given))
    type_error(node_name(n), ": this derivative rule must return a tuple, got ", Py_TYPE(given)->tp_name);
  if (PySequence_Fast_GET_SIZE(given) != edges)
    runtime_error(node_name(n), ": a derivative rule returned ", PySequence_Fast_GET_SIZE(given), " gradients for ",
                  edges, " inputs");
  for (int k = 0; k < edges; ++k) take_gradient(n, PySequence_Fast_GET_ITEM(given, k), out[k]);
}

// Rules run inside rules (an unpack hook may call backward): each run has its own unpacked values.
struct Unpacking {
  Unpacked mine;
  Unpacked* outer = tls.unpacked;
  explicit Unpacking(const Node& n) {
    bool packed = false;
    for (int k = 0; k < n.nsaved; ++k) packed |= n.saved[k].packed;
    tls.unpacked = packed ? &mine : nullptr;
  }
  ~Unpacking() { tls.unpacked = outer; }
};

constexpr int kSurelySingle = 4;  // then there is nothing to put together in rules of this operator

// Whether the rules' pointwise calls are put together: they are over many numbers, whose values lie in memory, nobody
// wants to hear of each, and no derivatives of them are wanted.
bool is_worth_joining(const Node& n, const TensorRef* grads) {
  if (tls.dispatch_modes || tls.grad_enabled || tls.packing || process.profiling) return false;
  if (n.op->single >= kSurelySingle) return false;
  if (const PrimitiveRow* row = n.op->row; row && (row->begins || keeps_images(*row))) return false;
  bool large = false;
  auto look = [&](const Tensor& t) {
    large |= t.numel >= kWorthJoining && t.device.type == DeviceType::CPU;
    return !t.level && !(t.flags & kIndirect);
  };
  for (int k = 0; k < n.nsaved; ++k) {
    const Saved& s = n.saved[k];
    if (s.packed || (s.value.tag == Tag::Tensor && !look(*s.value.tensor))) return false;
  }
  for (int k = 0; k < n.nouts; ++k)
    if (grads[k] && !look(*grads[k])) return false;
  return large;
}

// Returns how many rules ran.
int run_rules(Node& n, const bool* needs, TensorRef* grads, TensorRef* out) {
  int end = 0, ran = 0;
  for (const Rule& rule : n.op->rules) {
    bool list, wanted = false;
    const int first = end;
    end += edges_of(rule, n, &list);
    for (int k = first; k < end; ++k) wanted |= needs[k];
    if (!wanted) continue;
    ++ran;
    Held result = call_rule(n, rule, {needs + first, size_t(end - first)}, grads);
    if (rule.tuple || list) take_gradients(n, result.p, end - first, out + first);
    else take_gradient(n, result.p, out[first]);
  }
  return ran;
}

// The same, with pointwise calls put together.
void run_joined(Node& n, const bool* needs, TensorRef* grads, TensorRef* out) {
  Capture capture;
  capture.tracer.pointwise = true;
  capture.tracer.places = nullptr;
  const int ran = run_rules(n, needs, grads, out);
  const Program* program = capture.tracer.program;
  n.op->single = !program || program->entries.size() <= size_t(ran) ? n.op->single + 1 : 0;
  capture.finish();
  for (int k = 0; k < n.nedges; ++k)
    if (out[k]) settle(*out[k]);
}

}  // namespace

void upward::apply_rules(Node& n, const bool* needs, TensorRef* grads, TensorRef* out) {
  bool any = false;
  for (int k = 0; k < n.nouts; ++k) any |= bool(grads[k]);
  if (!any) return;
  Unpacking unpacking(n);
  if (is_worth_joining(n, grads)) run_joined(n, needs, grads, out);
  else run_rules(n, needs, grads, out);
}

// Function nodes: payload(*gradients or None) -> tuple with one gradient per edge.
void upward::apply_function(Node& n, const bool*, TensorRef* grads, TensorRef* out) {
  Held args(PyTuple_New(n.nouts));
  for (int k = 0; k < n.nouts; ++k) PyTuple_SET_ITEM(args.p, k, Py_NewRef(grads[k] ? py(grads[k].get()) : Py_None));
  Held result = checked(PyObject_Call(static_cast<PyObject*>(n.payload), args.p, nullptr));
  if (!PyTuple_Check(result.p) || PyTuple_GET_SIZE(result.p) != n.nedges)
    runtime_error(node_name(n), ": its rule must return ", int(n.nedges), " gradients, one per input, in a tuple");
  for (int k = 0; k < n.nedges; ++k) take_gradient(n, PyTuple_GET_ITEM(result.p, k), out[k]);
}

// The payload's `release`, where it has one: called after a backward pass that does not keep the graph.
void upward::release_function(Node& n) {
  static PyObject* name = PyUnicode_InternFromString("release");
  PyObject* method = PyObject_GetAttr(static_cast<PyObject*>(n.payload), name);
  if (!method) return PyErr_Clear();
  Held hold(method);
  checked(PyObject_CallNoArgs(method));
}

}  // namespace flambeau
