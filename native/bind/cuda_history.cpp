// flambeau._C._cuda, what happened to device memory and where in the program: recorded while somebody asks for it
// (flambeau.cuda._history).
#include "python.h"  // first: it says of which kind the sizes beside texts are, before Python's header is read

#include <nanobind/nanobind.h>

#include <chrono>
#include <deque>
#include <memory>
#include <unordered_map>

#include "../cuda/allocator.h"
#include "cuda.h"

namespace nb = nanobind;

namespace flambeau {
namespace {

using cuda::Address;
using cuda::MemoryChange;
using cuda::MemoryEvent;

constexpr size_t kDeepest = 64;  // frames of a stack
constexpr const char* kActions[] = {"alloc",         "free_requested", "free_completed",
                                    "segment_alloc", "segment_free",   "oom"};

struct Frame {
  nb::object code;
  int line;
};
using Stack = std::shared_ptr<std::vector<Frame>>;  // innermost first
struct Event {
  MemoryChange change;
  int64_t microseconds;
  Stack stack;
};
struct History {  // under the interpreter lock
  size_t most = 0;
  bool events_too = false, stacks_of_alloc = false, stacks_of_all = false;
  std::deque<Event> events;
  std::unordered_map<Address, Stack> live;  // stacks of blocks in use
};
History& history() {
  static History* h = new History;
  return *h;
}

Stack stack_here() {
  auto stack = std::make_shared<std::vector<Frame>>();
  auto frame = nb::borrow(reinterpret_cast<PyObject*>(PyEval_GetFrame()));
  while (frame.is_valid() && stack->size() < kDeepest) {
    auto* f = reinterpret_cast<PyFrameObject*>(frame.ptr());
    stack->push_back({nb::steal(reinterpret_cast<PyObject*>(PyFrame_GetCode(f))), PyFrame_GetLineNumber(f)});
    frame = nb::steal(reinterpret_cast<PyObject*>(PyFrame_GetBack(f)));
  }
  return stack;
}

void note(const MemoryChange& change) {
  History& h = history();
  const bool rest = change.event == MemoryEvent::Alloc || change.event == MemoryEvent::OutOfMemory ||
                    change.event == MemoryEvent::FreeRequested;
  const bool wanted = h.stacks_of_all || (h.stacks_of_alloc && change.event != MemoryEvent::FreeRequested);
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  Event event{change, std::chrono::duration_cast<std::chrono::microseconds>(now).count(), nullptr};
  if (rest && wanted) event.stack = stack_here();
  if (change.event == MemoryEvent::Alloc && event.stack) h.live[change.address] = event.stack;
  if (change.event == MemoryEvent::FreeCompleted) h.live.erase(change.address);
  if (!h.events_too) return;
  h.events.push_back(std::move(event));
  if (h.events.size() > h.most) h.events.pop_front();
}

nb::list frames_of(const Stack& stack) {
  nb::list frames;
  if (stack)
    for (const Frame& f : *stack) {
      nb::dict frame;
      frame["filename"] = f.code.attr("co_filename");
      frame["line"] = f.line;
      frame["name"] = f.code.attr("co_qualname");
      frames.append(frame);
    }
  return frames;
}

// record_memory(on, events too, stacks of "alloc", of all, how many events, whether what was recorded is forgotten)
void record_memory(bool on, bool events_too, bool of_alloc, bool of_all, size_t most, bool forget) {
  History& h = history();
  if (forget) h.events.clear(), h.live.clear();
  h.events_too = events_too, h.stacks_of_alloc = of_alloc, h.stacks_of_all = of_all, h.most = most;
  cuda::on_memory = on ? note : nullptr;
}
nb::list memory_events(int device) {
  nb::list found;
  for (const Event& e : history().events) {
    if (e.change.device != device) continue;
    nb::dict entry;
    entry["action"] = kActions[int(e.change.event)];
    entry[e.change.event == MemoryEvent::OutOfMemory ? "device_free" : "addr"] = e.change.address;
    entry["size"] = e.change.size;
    entry["stream"] = reinterpret_cast<uintptr_t>(e.change.stream);
    entry["time_us"] = e.microseconds;
    entry["compile_context"] = "N/A";
    entry["user_metadata"] = "";
    entry["frames"] = frames_of(e.stack);
    found.append(entry);
  }
  return found;
}
nb::list memory_frames(Address block) {
  const auto found = history().live.find(block);
  return found == history().live.end() ? nb::list() : frames_of(found->second);
}

}  // namespace

void add_cuda_history(PyObject* module) {
  auto m = nb::borrow<nb::module_>(module);
  m.def("record_memory", record_memory);
  m.def("memory_events", memory_events);
  m.def("memory_frames", memory_frames);
}

}  // namespace flambeau
