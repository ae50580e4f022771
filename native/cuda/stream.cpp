#include "stream.h"

#include <array>
#include <map>
#include <vector>

#include "../core/device_table.h"
#include "allocator.h"

namespace flambeau::cuda {
namespace {

constexpr int kPooled = 32;
constexpr unsigned kNonBlocking = 1, kNoTiming = 2;  // flags of streams and events
constexpr int kLongWait = 1 << 30;                   // work that pays for giving the interpreter lock back

using Streams = std::array<Stream, kMaxCudaDevices>;
FLAMBEAU_TLS Streams current;

// Streams made so far and events to use again, of one device; under the interpreter lock.
struct Kept {
  std::map<int, std::array<Stream, kPooled>> streams;  // by priority
  std::map<int, unsigned> next;
  std::vector<Event> events;
};
Kept& kept(int device) {
  static Kept* all = new Kept[kMaxCudaDevices];
  return all[device];
}
int& captures() {
  static int count = 0;
  return count;
}

// Lanes by their streams, and the streams by lanes; under the interpreter lock.
struct KnownLanes {
  std::map<Streams, uint32_t> numbers{{Streams{}, 0}};
  std::vector<Streams> streams{Streams{}};
};
KnownLanes& known_lanes() {
  static KnownLanes* known = new KnownLanes;
  return *known;
}
uint32_t lane_of(const Streams& streams) {
  KnownLanes& known = known_lanes();
  const auto [place, fresh] = known.numbers.try_emplace(streams, uint32_t(known.streams.size()));
  if (fresh) known.streams.push_back(streams);
  return place->second;
}

// Work goes from one lane to another only inside of a recording, or only outside of any.
bool enter_lane(uint32_t lane) {
  const Streams& streams = known_lanes().streams[lane];
  if (any_capture())
    for (size_t k = 0; k < streams.size(); ++k)
      if (capture_of(streams[k]) != capture_of(current[k])) return false;
  current = streams;
  tls.lane = lane;
  return true;
}
void follow_lane(uint32_t behind) {
  const Streams streams = known_lanes().streams[behind];
  for (int k = 0; k < driver().devices; ++k) {
    if (streams[size_t(k)] == current[size_t(k)] || !initialized(k)) continue;
    const Event e = new_event(k, false);
    record(e, streams[size_t(k)], k);
    stream_waits(current[size_t(k)], e, k);
    drop_event(k, e, false);
  }
}
void use_on_lane(const Tensor& t) {
  if (t.device.type == DeviceType::CUDA && t.storage && owns_memory(*t.storage) && t.storage->data)
    use_on(static_cast<Block*>(t.storage->context), current[size_t(index_of(t.device))]);
}
const bool lanes_added = (lanes = {enter_lane, follow_lane, use_on_lane}, true);

}  // namespace

Stream current_stream(int device) { return current[device]; }
void set_current_stream(int device, Stream stream) {
  if (current[device] == stream) return;
  current[device] = stream;
  tls.lane = lane_of(current);
}

Stream pooled_stream(int device, int priority) {
  use_device(device);
  int least = 0, greatest = 0;
  check(driver().context_priorities(&least, &greatest), "cuda.Stream");
  priority = std::max(std::min(priority, least), greatest);
  Kept& k = kept(device);
  auto [place, fresh] = k.streams.try_emplace(priority);
  if (fresh) place->second.fill(nullptr);
  Stream& stream = place->second[k.next[priority]++ % kPooled];
  if (!stream) check(driver().stream_create(&stream, kNonBlocking, priority), "cuda.Stream");
  return stream;
}

bool any_capture() { return captures() > 0; }

bool capturing(Stream stream) {
  if (!any_capture() || !stream) return false;  // the default stream cannot be recorded, and asking may be an error
  int status = 0;
  check(driver().stream_capturing(stream, &status), "cuda.is_current_stream_capturing");
  return status != 0;
}

uint64_t capture_of(Stream stream) {
  if (!any_capture() || !stream) return 0;
  constexpr int kActive = 1;
  int status = 0;
  unsigned long long id = 0;
  check(driver().capture_info(stream, &status, &id, nullptr, nullptr, nullptr), "cuda.graph");
  return status == kActive ? id : 0;
}

uint64_t begin_capture(Stream stream, int mode) {
  check(driver().capture_begin(stream, mode), "cuda.graph");
  int status = 0;
  unsigned long long id = 0;
  if (Result r = driver().capture_info(stream, &status, &id, nullptr, nullptr, nullptr); r != kSuccess) {
    Graph begun = nullptr;
    if (driver().capture_end(stream, &begun) == kSuccess) driver().graph_destroy(begun);
    failed(r, "cuda.graph");
  }
  ++captures();
  return id;
}

Graph end_capture(Stream stream) {
  Graph graph = nullptr;
  Result r = driver().capture_end(stream, &graph);
  --captures();
  check(r, "cuda.graph");
  return graph;
}

void synchronize_stream(int device, Stream stream, const char* what, std::initializer_list<const Tensor*> used) {
  const Driver& d = driver();
  use_device(device);
  Result r = d.stream_query(stream);
  if (r == kNotReady) {
    LockRelease lock(kLongWait, used);
    r = d.stream_synchronize(stream);
  }
  check(r, what);
}

int& wait_mode() {
  static int mode = 0;
  return mode;
}
void about_to_wait(const char* what) {
  if (__builtin_expect(wait_mode() == 0, 1)) return;
  const std::string text = concat(what, ": the CPU waits here until the device is done (cuda.set_sync_debug_mode)");
  if (wait_mode() == 2) runtime_error(text);
  hooks.warn(text);
}

void synchronize_device(int device) {
  const Driver& d = driver();
  use_device(device);
  Result r;
  {
    LockRelease lock(kLongWait);
    r = d.context_synchronize();
  }
  check(r, "cuda.synchronize");
}

Event new_event(int device, bool timing) {
  use_device(device);
  std::vector<Event>& spare = kept(device).events;
  if (!timing && !spare.empty()) {
    Event e = spare.back();
    spare.pop_back();
    return e;
  }
  Event e = nullptr;
  check(driver().event_create(&e, timing ? 0 : kNoTiming), "cuda.Event");
  return e;
}

void drop_event(int device, Event event, bool timing) {
  if (!event || in_bad_fork()) return;
  if (timing) driver().event_destroy(event);
  else kept(device).events.push_back(event);
}

void record(Event event, Stream stream, int device, bool external) {
  use_device(device);
  const bool outside = external && capturing(stream);  // the driver takes it in recorded work only
  check(outside ? driver().event_record_outside(event, stream, 1) : driver().event_record(event, stream),
        "cuda.Event.record");
}
void stream_waits(Stream stream, Event event, int device, bool external) {
  use_device(device);
  check(driver().stream_wait(stream, event, external && capturing(stream)), "cuda.Stream.wait_event");
}
bool done(Event event) {
  const Result r = driver().event_query(event);
  if (r == kNotReady) return false;
  check(r, "cuda.Event.query");
  return true;
}
void synchronize_event(Event event) {
  const Driver& d = driver();
  Result r;
  {
    LockRelease lock(kLongWait);
    r = d.event_synchronize(event);
  }
  check(r, "cuda.Event.synchronize");
}

}  // namespace flambeau::cuda
