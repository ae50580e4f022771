// What a profiler records: each operator call and each node of a backward pass, with times, memory, shapes and stacks.
//
// Off, a call tests one word. On, an event costs two clock readings and a slot in a list; names and lines become text
// only when the events are taken.
#include <time.h>

#include "../core/memory.h"
#include "autograd.h"
#include "origin.h"
#include "slot.h"
#include "upward.h"

namespace flambeau {


namespace {

enum Option { kOn = 1, kShapes = 2, kMemory = 4, kStack = 8, kModules = 16 };

struct Event {
  const OpDef* op = nullptr;      // an operator …
  bool inplace = false;
  PyObject* name = nullptr;       // … or a range with a name
  int64_t begin = 0, end = 0;     // nanoseconds
  int64_t memory = 0;             // bytes allocated less bytes freed
  int64_t parent = -1;
  uint64_t thread = 0;
  uint64_t sequence = 0;          // of the graph node
  PyObject* shapes = nullptr;
  PyObject* stack = nullptr;      // list of (code, line), innermost first
  PyObject* modules = nullptr;
};

std::vector<Event> events;
uint64_t session = 0;
thread_local std::vector<int64_t> open_events;
thread_local uint64_t open_session = 0;  // `open_events` belong to that session

int64_t now() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return int64_t(t.tv_sec) * 1000000000 + t.tv_nsec;
}

PyObject* stack_here() {
  PyObject* list = PyList_New(0);
  PyFrameObject* frame = PyEval_GetFrame();
  Py_XINCREF(frame);
  while (list && frame) {
    Held code(reinterpret_cast<PyObject*>(PyFrame_GetCode(frame)));
    Held entry(Py_BuildValue("(Oi)", code.p, PyFrame_GetLineNumber(frame)));
    if (!entry || PyList_Append(list, entry.p) < 0) Py_CLEAR(list);
    PyFrameObject* back = PyFrame_GetBack(frame);
    Py_DECREF(frame);
    frame = back;
  }
  PyErr_Clear();
  return list;
}

PyObject* shapes_of(const Frame& f, const OpDef& op) {
  PyObject* list = PyList_New(0);
  for (size_t k = 0; list && k < op.schema.args.size(); ++k) {
    Held one;
    PyObject* o = op.kind == Kind::Composite ? f.objects[k] : nullptr;
    const Value& v = f.values[k];
    if (o && is_tensor(o)) one = Held(size_object(as_tensor(o)->shape()));
    else if (o) one = Held(PyList_New(0));
    else if (v.tag == Tag::Tensor) one = Held(size_object(v.tensor->shape()));
    else if (v.tag == Tag::Tensors) {
      one = Held(PyList_New(0));
      for (int64_t j = 0; one && j < v.tensors.size; ++j) {
        Held shape(v.tensors.data[j] ? size_object(v.tensors.data[j]->shape()) : PyList_New(0));
        PyList_Append(one.p, shape.p);
      }
    } else {
      one = Held(PyList_New(0));
    }
    if (!one || PyList_Append(list, one.p) < 0) Py_CLEAR(list);
  }
  PyErr_Clear();
  return list;
}

int64_t begin_event() {
  if (open_session != session) open_events.clear(), open_session = session;
  Event e;
  e.parent = open_events.empty() ? -1 : open_events.back();
  e.thread = PyThread_get_thread_ident();
  e.memory = memory_stats().allocated;
  if (process.profiling & kStack) e.stack = stack_here();
  if (process.profiling & kModules) e.modules = running_modules();
  e.begin = now();
  events.push_back(e);
  open_events.push_back(int64_t(events.size()) - 1);
  return open_events.back();
}

void end_event(int64_t k) {
  if (open_session != session || size_t(k) >= events.size()) return;  // taken while it was open
  while (!open_events.empty() && open_events.back() >= k) {
    Event& e = events[size_t(open_events.back())];
    e.end = now();
    e.memory = memory_stats().allocated - e.memory;
    open_events.pop_back();
  }
}

thread_local std::vector<int64_t> node_events;

PyObject* start(PyObject*, PyObject* options) {
  long bits = PyLong_AsLong(options);
  if (bits == -1 && PyErr_Occurred()) return nullptr;
  ++session;
  process.profiling = int(bits) | kOn;
  Py_RETURN_NONE;
}
PyObject* pause(PyObject*, PyObject*) {
  process.profiling = 0;
  Py_RETURN_NONE;
}

PyObject* resume(PyObject*, PyObject* options) {
  long bits = PyLong_AsLong(options);
  if (bits == -1 && PyErr_Occurred()) return nullptr;
  process.profiling = int(bits) | kOn;
  Py_RETURN_NONE;
}

PyObject* event_object(Event& e) {
  auto given = [](PyObject* o) { return o ? o : Py_NewRef(Py_None); };
  PyObject* name = e.op ? PyUnicode_FromFormat("aten::%s%s", e.op->shown.c_str(), e.inplace ? "_" : "") : given(e.name);
  PyObject* o = Py_BuildValue("(NLLLLKKNNN)", name, (long long)e.begin, (long long)e.end, (long long)e.memory,
                              (long long)e.parent, (unsigned long long)e.thread, (unsigned long long)e.sequence,
                              given(e.shapes), given(e.stack), given(e.modules));
  return o;
}

// stop() -> [(name, begin, end, memory, parent, thread, sequence number, shapes, stack, modules), …]
PyObject* stop(PyObject*, PyObject*) {
  pause(nullptr, nullptr);
  int64_t last = now();
  std::vector<Event> taken = std::exchange(events, {});
  ++session;
  PyObject* list = PyList_New(0);
  for (Event& e : taken) {
    if (e.end == 0) e.end = last, e.memory = memory_stats().allocated - e.memory;
    Held o(event_object(e));
    if (list && (!o || PyList_Append(list, o.p) < 0)) Py_CLEAR(list);
  }
  return list;
}

// begin(name) -> a number for end(number); None while no profiler is on
PyObject* begin_range(PyObject*, PyObject* name) {
  if (!process.profiling) Py_RETURN_NONE;
  int64_t k = begin_event();
  events[size_t(k)].name = Py_NewRef(name);
  return Py_BuildValue("(LK)", (long long)k, (unsigned long long)session);
}
PyObject* end_range(PyObject*, PyObject* token) {
  if (!PyTuple_Check(token)) Py_RETURN_NONE;
  long long k;
  unsigned long long of;
  if (!PyArg_ParseTuple(token, "LK", &k, &of)) return nullptr;
  if (of == session && k >= 0 && k < (long long)events.size()) end_event(k);
  Py_RETURN_NONE;
}
PyObject* is_on(PyObject*, PyObject*) { return PyBool_FromLong(process.profiling); }
PyObject* clock_(PyObject*, PyObject*) { return PyLong_FromLongLong(now()); }

PyMethodDef functions[] = {{"profile_start", slot<start>, METH_O},
                           {"profile_pause", slot<pause>, METH_NOARGS},
                           {"profile_resume", slot<resume>, METH_O},
                           {"profile_stop", slot<stop>, METH_NOARGS},
                           {"profile_begin", slot<begin_range>, METH_O},
                           {"profile_end", slot<end_range>, METH_O},
                           {"profile_on", slot<is_on>, METH_NOARGS},
                           {"profile_clock", slot<clock_>, METH_NOARGS},
                           {}};

}  // namespace

void upward::profile_node(Node& n, bool begin) {
  if (!begin) {
    if (node_events.empty()) return;
    end_event(node_events.back());
    node_events.pop_back();
    return;
  }
  int64_t k = begin_event();
  events[size_t(k)].name = PyUnicode_FromFormat("autograd::engine::evaluate_function: %s", node_name(n).c_str());
  events[size_t(k)].sequence = n.kind == NodeKind::Accumulate ? 0 : n.sequence;
  node_events.push_back(k);
}

PyObject* profiled_call(OpObject& op, Frame& f, PyObject* (*call)(OpObject&, Frame&)) {
  int64_t k = begin_event();
  Event& e = events[size_t(k)];
  e.op = op.def;
  e.inplace = op.inplace && !op.def->writes_self;
  if (process.profiling & kShapes) {
    PyObject* shapes = shapes_of(f, *op.def);
    events[size_t(k)].shapes = shapes;
  }
  PyObject* result = call(op, f);
  end_event(k);
  return result;
}

void add_profile(PyObject* module) { checked(PyModule_AddFunctions(module, functions)); }

}  // namespace flambeau
