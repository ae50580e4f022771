// What Python sees of native/distributed: SharedGroup, one rank's end of the shared memory, and Message.
#include "distributed/collectives.h"
#include "distributed/messages.h"
#include "python.h"
#include "slot.h"
#include "storage.h"

namespace flambeau {
namespace {

using namespace distributed;

struct Group {
  explicit Group(int fd, int rank, int size, bool fresh)
      : segment(fd, rank, size, fresh), collectives(segment), messages(segment) {}
  Segment segment;
  Collectives collectives;
  Messages messages;
};

struct GroupObject {
  PyObject_HEAD
  Group* group;
};
struct MessageObject {
  PyObject_HEAD
  MessageRef* message;
  PyObject* tensor;  // whose memory it uses
};
PyTypeObject *SharedGroupType, *MessageType;

Group& self(PyObject* o) { return *reinterpret_cast<GroupObject*>(o)->group; }
MessageObject& message_of(PyObject* o) { return *reinterpret_cast<MessageObject*>(o); }

// Without the interpreter lock: whether a signal's handler wants this thread to stop. Its exception is set then.
bool interrupted() {
  PyGILState_STATE held = PyGILState_Ensure();
  const bool stop = PyErr_CheckSignals() < 0;
  PyGILState_Release(held);
  return stop;
}

// Runs f without the interpreter lock: None, or the text of what broke the group; null where a handler raised.
template <class F>
PyObject* unlocked(const F& f) {
  std::string broken;
  bool stopped = false, failed = false;
  Py_BEGIN_ALLOW_THREADS
  try {
    f();
  } catch (const Broken& b) {
    broken = b.text, failed = true;
  } catch (const Interrupted&) {
    stopped = true;
  }
  Py_END_ALLOW_THREADS
  if (stopped) return nullptr;
  if (failed) return PyUnicode_DecodeUTF8(broken.data(), Py_ssize_t(broken.size()), "replace");
  Py_RETURN_NONE;
}

std::chrono::nanoseconds seconds_of(PyObject* o) {
  const double seconds = PyFloat_AsDouble(o);
  if (PyErr_Occurred()) throw PythonError();
  return std::chrono::nanoseconds(int64_t(std::min(std::max(seconds, 0.0), 1e9) * 1e9));
}

std::string utf8_of(PyObject* o) {
  Py_ssize_t n;
  const char* text = PyUnicode_AsUTF8AndSize(o, &n);
  if (!text) throw PythonError();
  return std::string(text, size_t(n));
}

int rank_of(PyObject* o, const Segment& s) {
  const int64_t r = integer_of(o);
  if (r < 0 || r >= s.size()) value_error("SharedGroup: there is no rank ", r, " of ", s.size());
  return int(r);
}

const Tensor& plain(PyObject* o) {
  if (!is_tensor(o)) type_error("SharedGroup: expected a Tensor, got ", Py_TYPE(o)->tp_name);
  const Tensor& t = *as_tensor(o);
  need_values(t);
  if (t.flags & kLazy) value_error("SharedGroup: expected values, got a lazy view of them; call resolve_conj() first");
  if (!t.contiguous() || t.is_meta()) value_error("SharedGroup: expected a contiguous tensor with values");
  return t;
}

// --- SharedGroup -----------------------------------------------------------------------------------------------------

// SharedGroup(fd, rank, size, fresh)
PyObject* group_new(PyTypeObject* type, PyObject* args, PyObject*) {
  int fd, rank, size, fresh;
  if (!PyArg_ParseTuple(args, "iiip", &fd, &rank, &size, &fresh)) return nullptr;
  if (size < 1 || rank < 0 || rank >= size) value_error("SharedGroup: there is no rank ", rank, " of ", size);
  Held made = checked(type->tp_alloc(type, 0));
  reinterpret_cast<GroupObject*>(made.p)->group = new Group(fd, rank, size, fresh);
  return made.give();
}

void group_dealloc(PyObject* o) {
  delete reinterpret_cast<GroupObject*>(o)->group;
  PyTypeObject* type = Py_TYPE(o);
  type->tp_free(o);
  Py_DECREF(type);
}

PyObject* group_attach(PyObject* o, PyObject* pid) {
  self(o).segment.attach(int(integer_of(pid)));
  Py_RETURN_NONE;
}
PyObject* group_attached(PyObject* o, PyObject* rank) {
  const Segment& s = self(o).segment;
  return PyBool_FromLong(s.attached(rank_of(rank, s)));
}
PyObject* group_pid(PyObject* o, PyObject* rank) {
  const Segment& s = self(o).segment;
  return PyLong_FromLong(s.lane(rank_of(rank, s)).pid);
}
PyObject* group_watch(PyObject* o, PyObject* args) {
  PyObject* rank;
  int fd;
  if (!PyArg_ParseTuple(args, "Oi", &rank, &fd)) return nullptr;
  Segment& s = self(o).segment;
  s.watch(rank_of(rank, s), fd);
  Py_RETURN_NONE;
}
PyObject* group_leave(PyObject* o, PyObject*) {
  self(o).segment.leave();
  Py_RETURN_NONE;
}
PyObject* group_break_up(PyObject* o, PyObject* text) {
  try {
    self(o).segment.break_up(utf8_of(text));
  } catch (const Broken&) {
  }
  Py_RETURN_NONE;
}
PyObject* group_broken(PyObject* o, PyObject*) {
  return unlocked([&] { self(o).segment.check_broken(); });
}
PyObject* group_count(PyObject* o, void*) { return PyLong_FromUnsignedLongLong(self(o).collectives.count()); }

// Fills the list of parts from a sequence of tensors; all have one dtype, and one size unless `sizes` takes them.
template <class P>
void parts_of(PyObject* list, Collective& c, std::vector<P>& parts, std::vector<int64_t>* sizes) {
  Held items = checked(PySequence_Fast(list, "SharedGroup: expected a list of tensors"));
  for (Py_ssize_t k = 0; k < PySequence_Fast_GET_SIZE(items.p); ++k) {
    const Tensor& t = plain(PySequence_Fast_GET_ITEM(items.p, k));
    const bool first = c.in.empty() && c.out.empty();
    if (first) c.dtype = t.dtype;
    if (first && !sizes) c.bytes = t.nbytes();
    if (t.dtype != c.dtype || (!sizes && t.nbytes() != c.bytes))
      value_error("SharedGroup: parts of one call have different sizes or dtypes");
    parts.push_back(t.data);
    if (sizes) sizes->push_back(t.nbytes());
  }
}

void need_parts(const Collective& c, const Segment& s) {
  const size_t n = size_t(s.size());
  const bool root = s.rank() == c.root;
  size_t in = 1, out = 1;
  switch (c.kind) {
    case CollectiveKind::Barrier: in = out = 0; break;
    case CollectiveKind::Broadcast: in = root, out = !root; break;
    case CollectiveKind::AllReduce: in = out = c.in.size(); break;
    case CollectiveKind::Reduce: out = root; break;
    case CollectiveKind::AllGather: out = n; break;
    case CollectiveKind::Gather: out = root ? n : 0; break;
    case CollectiveKind::Scatter: in = root ? n : 0; break;
    case CollectiveKind::ReduceScatter: in = n; break;
    case CollectiveKind::AllToAll: in = out = n; break;
  }
  if (c.in.size() != in || c.out.size() != out)
    value_error("SharedGroup: expected ", in, " and ", out, " tensors, got ", c.in.size(), " and ", c.out.size());
}

// run(kind, text, root, op, inputs, outputs, timeout): None, or what broke the group.
PyObject* group_run(PyObject* o, PyObject* const* args, Py_ssize_t n) {
  if (n != 7) type_error("SharedGroup.run: expected 7 arguments, got ", int64_t(n));
  Group& g = self(o);
  Collective c;
  const int64_t kind = integer_of(args[0]), op = integer_of(args[3]);
  if (kind < 0 || kind > int64_t(CollectiveKind::AllToAll) || op < 0 || op > int64_t(Reduction::BitXor))
    value_error("SharedGroup.run: there is no collective ", kind, " with reduction ", op);
  c.kind = CollectiveKind(kind), c.op = Reduction(op);
  c.text = utf8_of(args[1]);
  c.root = rank_of(args[2], g.segment);
  const bool uneven = c.kind == CollectiveKind::AllToAll || c.kind == CollectiveKind::AllReduce;
  parts_of(args[4], c, c.in, uneven ? &c.in_bytes : nullptr);
  parts_of(args[5], c, c.out, uneven ? &c.out_bytes : nullptr);
  need_parts(c, g.segment);
  if (c.kind == CollectiveKind::AllReduce)
    for (int64_t bytes : c.in_bytes) c.bytes += bytes;
  c.timeout = seconds_of(args[6]);
  if (c.kind == CollectiveKind::AllReduce || c.kind == CollectiveKind::Reduce ||
      c.kind == CollectiveKind::ReduceScatter) {
    c.reduce = reduce_function(c.dtype, c.op);
    if (!c.reduce) type_error(c.text, ": no such reduction for tensors of ", dtype_name(c.dtype));
  }
  c.interrupted = interrupted;
  return unlocked([&] { g.collectives.run(c); });
}

// reduces(dtype, op): whether elements of this dtype can be reduced in this way.
PyObject* group_reduces(PyObject*, PyObject* args) {
  PyObject* dtype;
  int op;
  if (!PyArg_ParseTuple(args, "Oi", &dtype, &op)) return nullptr;
  return PyBool_FromLong(op >= 0 && op <= int(Reduction::BitXor) &&
                         reduce_function(parse_dtype(dtype, "SharedGroup.reduces"), Reduction(op)));
}

// --- messages --------------------------------------------------------------------------------------------------------

// post(receives, peer, tag, tensor, text): a Message; peer -1: from whoever comes first.
PyObject* group_post(PyObject* o, PyObject* args) {
  int receives, peer;
  long long tag;
  PyObject *tensor, *text;
  if (!PyArg_ParseTuple(args, "piLOU", &receives, &peer, &tag, &tensor, &text)) return nullptr;
  Group& g = self(o);
  if (peer < (receives ? kAnyone : 0) || peer >= g.segment.size())
    value_error("SharedGroup.post: there is no rank ", peer, " of ", g.segment.size());
  const Tensor& t = plain(tensor);
  auto message = std::make_shared<Message>();
  message->receives = receives, message->peer = peer, message->tag = tag, message->kind = uint32_t(t.dtype);
  message->data = t.data, message->bytes = uint64_t(t.nbytes()), message->text = utf8_of(text);
  Held made = checked(MessageType->tp_alloc(MessageType, 0));
  message_of(made.p).message = new MessageRef(message);
  message_of(made.p).tensor = Py_NewRef(tensor);
  Held failure = checked(unlocked([&] {
    g.messages.post(message);
    g.messages.advance();
  }));
  return failure.p == Py_None ? made.give() : failure.give();
}

// finish(message, timeout): None, or why it will not come.
PyObject* group_finish(PyObject* o, PyObject* args) {
  PyObject *message, *timeout;
  if (!PyArg_ParseTuple(args, "O!O", MessageType, &message, &timeout)) return nullptr;
  const auto time = seconds_of(timeout);
  return unlocked([&] { self(o).messages.finish(*message_of(message).message, time, interrupted); });
}

PyObject* group_advance(PyObject* o, PyObject*) {
  return unlocked([&] { self(o).messages.advance(); });
}

void message_dealloc(PyObject* o) {
  delete message_of(o).message;
  Py_XDECREF(message_of(o).tensor);
  PyTypeObject* type = Py_TYPE(o);
  type->tp_free(o);
  Py_DECREF(type);
}
PyObject* message_done(PyObject* o, void*) { return PyBool_FromLong((*message_of(o).message)->done.load()); }
PyObject* message_peer(PyObject* o, void*) { return PyLong_FromLong((*message_of(o).message)->peer); }

// --- tables ----------------------------------------------------------------------------------------------------------

// room(size): bytes of the memory that a group of so many ranks shares.
PyObject* group_room(PyObject*, PyObject* size) {
  const int64_t n = integer_of(size);
  if (n < 1 || n > 4096) value_error("SharedGroup.room: expected 1 to 4096 ranks, got ", n);
  return PyLong_FromSize_t(Segment::bytes(int(n)));
}

PyMethodDef group_methods[] = {
    {"room", slot<group_room>, METH_O | METH_STATIC, nullptr},
    {"reduces", slot<group_reduces>, METH_VARARGS | METH_STATIC, nullptr},
    {"attach", slot<group_attach>, METH_O, nullptr},
    {"attached", slot<group_attached>, METH_O, nullptr},
    {"pid", slot<group_pid>, METH_O, nullptr},
    {"watch", slot<group_watch>, METH_VARARGS, nullptr},
    {"leave", slot<group_leave>, METH_NOARGS, nullptr},
    {"break_up", slot<group_break_up>, METH_O, nullptr},
    {"broken", slot<group_broken>, METH_NOARGS, nullptr},
    {"run", method<group_run>(), METH_FASTCALL, nullptr},
    {"post", slot<group_post>, METH_VARARGS, nullptr},
    {"finish", slot<group_finish>, METH_VARARGS, nullptr},
    {"advance", slot<group_advance>, METH_NOARGS, nullptr},
    {}};
PyGetSetDef group_getset[] = {{"count", slot<group_count>, nullptr, "Collective calls begun."}, {}};
PyType_Slot group_slots[] = {{Py_tp_new, type_slot<group_new>()}, {Py_tp_dealloc, type_slot<group_dealloc>()},
                             {Py_tp_methods, group_methods}, {Py_tp_getset, group_getset},
                             {Py_tp_doc, (void*)"SharedGroup(fd, rank, size, fresh)\n--\n\n"
                                                "One rank's end of the memory that the processes of a group share."},
                             {}};
PyType_Spec group_spec = {"flambeau._C.SharedGroup", sizeof(GroupObject), 0, Py_TPFLAGS_DEFAULT, group_slots};

PyGetSetDef message_getset[] = {{"done", slot<message_done>, nullptr, "Whether it is sent, or has come."},
                                {"peer", slot<message_peer>, nullptr, "The rank at the other side."}, {}};
PyType_Slot message_slots[] = {{Py_tp_dealloc, type_slot<message_dealloc>()}, {Py_tp_getset, message_getset},
                               {Py_tp_doc, (void*)"A tensor that is on its way to another rank, or from one."}, {}};
PyType_Spec message_spec = {"flambeau._C.Message", sizeof(MessageObject), 0,
                            Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, message_slots};

}  // namespace

void add_shared_group(PyObject* module) {
  SharedGroupType = reinterpret_cast<PyTypeObject*>(checked(PyType_FromSpec(&group_spec)).give());
  MessageType = reinterpret_cast<PyTypeObject*>(checked(PyType_FromSpec(&message_spec)).give());
  checked(PyModule_AddObjectRef(module, "SharedGroup", reinterpret_cast<PyObject*>(SharedGroupType)));
  checked(PyModule_AddObjectRef(module, "Message", reinterpret_cast<PyObject*>(MessageType)));
}

}  // namespace flambeau
