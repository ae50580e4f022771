// A CUDA driver for tests: devices are this process's memory, kernels are functions of shared objects.
//
// Device memory lies in a range that is inaccessible outside of driver calls, so that code of the CPU that touches it
// faults. Work is done at once, or, when delayed, kept per stream until somebody waits for it. Any function can be made
// to fail at its n-th call; memory has a limit. Images are "EMU0" and the bytes of a shared object with functions
// emu_NAME(const unsigned* grid, const unsigned* block, unsigned shared, void** parameters).
#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#define API extern "C" __attribute__((visibility("default")))

namespace {

enum { kSuccess = 0, kInvalid = 1, kNoMemory = 2, kInvalidHandle = 400, kNotReady = 600, kUnsupportedInCapture = 900, kInvalidated = 901 };
constexpr size_t kRegion = size_t(1) << 36;
constexpr int kDevices = 2;

std::recursive_mutex mutex;  // every function of the driver holds it

struct Graph {
  std::vector<std::function<void()>> work;
  unsigned long long id = 0;  // of the capture
  bool broken = false;
  int mode = 0;
};
struct Stream {
  std::deque<std::function<bool()>> work;  // false: it has to wait for another stream
  std::shared_ptr<Graph> capture;
  bool origin = false;
  int priority = 0, device = 0;
};
struct Event {
  std::shared_ptr<bool> happened = std::make_shared<bool>(true);
  std::shared_ptr<Graph> capture;
  bool timing = false;
  double when = 0;
  int mark = -1;  // of an event that other processes know: its byte
};
using Entry = void (*)(const unsigned*, const unsigned*, unsigned, void**);
struct Function {
  Entry entry;
  const int* sizes;  // of the parameters, ended by 0; null where the image does not say
};
struct Module {
  void* library;
  std::map<std::string, std::unique_ptr<Function>> functions;
};

// Events that other processes know: a byte each, which says whether they have happened.
constexpr size_t kMarks = 4096;
bool* map_marks(int file) {
  return static_cast<bool*>(mmap(nullptr, kMarks, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0));
}

struct State {
  char* region = nullptr;
  int file = -1, marks_file = -1;
  bool* marks = nullptr;
  size_t marks_used = 0;
  std::map<uint64_t, size_t> foreign;  // memory of other processes: address -> bytes
  std::map<size_t, size_t> used[kDevices];  // offset -> bytes
  size_t limit = size_t(1) << 30, in_use[kDevices] = {};
  std::map<void*, size_t> host;
  std::map<Stream*, std::unique_ptr<Stream>> streams;
  Stream default_stream[kDevices];
  bool delayed = false, exposed = false;
  int inside = 0, context = -1, capture_mode = 0, open_captures = 0;
  double clock = 0;
  std::map<std::string, long> calls;
  std::string failing;
  long until_failure = 0;
  int failure = 0;
};
State& state() {
  static State* s = [] {
    auto* made = new State;
    made->file = memfd_create("device memory", MFD_CLOEXEC);  // so that another process can open parts of it
    if (made->file < 0 || ftruncate(made->file, off_t(kRegion))) std::abort();
    void* p = mmap(nullptr, kRegion, PROT_NONE, MAP_SHARED | MAP_NORESERVE, made->file, 0);
    made->region = static_cast<char*>(p);
    made->marks_file = memfd_create("events", MFD_CLOEXEC);
    if (made->marks_file < 0 || ftruncate(made->marks_file, kMarks)) std::abort();
    made->marks = map_marks(made->marks_file);
    return made;
  }();
  return *s;
}
size_t reached[kDevices];  // how far each device's half of the region is in use
size_t half(int device) { return kRegion / kDevices * size_t(device); }

// Lets this process at the device memory while one lives.
struct Open {
  Open() { if (state().inside++ == 0) protect(PROT_READ | PROT_WRITE); }
  ~Open() {
    if (--state().inside == 0 && !state().exposed) protect(PROT_NONE);
  }
  static void protect(int how) {
    for (int d = 0; d < kDevices; ++d)
      if (reached[d]) mprotect(state().region + half(d), reached[d], how);
  }
};

// At the beginning of each function: counts, and fails when it is told to.
int enter(const char* name) {
  State& s = state();
  ++s.calls[name];
  ++s.calls[""];
  if (s.until_failure && (s.failing.empty() || s.failing == name) && --s.until_failure == 0) return s.failure;
  return kSuccess;
}
#define ENTER(name)                                 \
  std::lock_guard guard(mutex);                     \
  if (int failure = enter(name)) return failure

Stream& stream_of(void* handle) {
  return handle ? *static_cast<Stream*>(handle) : state().default_stream[std::max(state().context, 0)];
}
// Kernels and libraries work on streams of the device they were loaded for only, which is the current one.
bool is_current(void* stream) { return !stream || stream_of(stream).device == state().context; }
bool run_one(Stream& s) {
  if (s.work.empty() || !s.work.front()()) return false;
  s.work.pop_front();
  return true;
}
void run_all_of(Stream& s);
// Work that waits for other streams: run those until it goes on.
void run_others() {
  for (auto& [stream, owner] : state().streams) run_one(*stream);
  for (Stream& s : state().default_stream) run_one(s);
}
void run_all_of(Stream& s) {
  for (int idle = 0; !s.work.empty() && idle < 1000000; ++idle)
    if (!run_one(s)) run_others();
}

// `f` is what the work does; in a capture it becomes part of the graph.
int submit(void* handle, std::function<void()> f) {
  Stream& s = stream_of(handle);
  auto in_memory = [f] {
    Open open;
    f();
  };
  if (s.capture) {
    s.capture->work.push_back(in_memory);
  } else if (state().delayed) {
    s.work.push_back([in_memory] {
      in_memory();
      return true;
    });
  } else {
    in_memory();
  }
  return kSuccess;
}
int refuse_in_capture(Stream& s) {
  if (!s.capture) return kSuccess;
  s.capture->broken = true;
  return kUnsupportedInCapture;
}

bool is_device(uint64_t address) {
  auto* p = reinterpret_cast<char*>(address);
  return p >= state().region && p < state().region + kRegion;
}
bool is_pinned(const void* p) {
  auto next = state().host.upper_bound(const_cast<void*>(p));
  if (next == state().host.begin()) return false;
  --next;
  return static_cast<const char*>(p) < static_cast<char*>(next->first) + next->second;
}
// Whether [address, address + bytes) belongs to one allocation.
bool valid(uint64_t address, size_t bytes) {
  if (!is_device(address)) return false;
  const size_t offset = size_t(reinterpret_cast<char*>(address) - state().region);
  for (auto& used : state().used) {
    auto next = used.upper_bound(offset);
    if (next == used.begin()) continue;
    --next;
    if (offset >= next->first && offset + bytes <= next->first + next->second) return true;
  }
  return false;
}
int device_of(uint64_t address) {
  return int(size_t(reinterpret_cast<char*>(address) - state().region) / (kRegion / kDevices));
}
template <class T>
T* at(uint64_t address) { return reinterpret_cast<T*>(address); }

}  // namespace

// --- for the tests ---------------------------------------------------------------------------------------------------

API void fake_fail(const char* function, long n, int code) {
  std::lock_guard guard(mutex);
  state().failing = function;
  state().until_failure = n;
  state().failure = code;
}
// For the fake libraries: work of a stream, and whether memory belongs to one allocation.
API int fake_submit(void* stream, std::function<void()>* work) {
  std::lock_guard guard(mutex);
  return is_current(stream) ? submit(stream, *work) : kInvalidHandle;
}
// Of an address on the current device.
API int fake_valid(uint64_t address, size_t bytes) {
  std::lock_guard guard(mutex);
  return valid(address, bytes) && device_of(address) == state().context;
}
API int fake_device() {
  std::lock_guard guard(mutex);
  return state().context;
}
API long fake_left() { return state().until_failure; }
API long fake_calls(const char* function) { return state().calls[function]; }
API void fake_limit(size_t bytes) { state().limit = bytes; }
API size_t fake_used(int device) { return state().in_use[device]; }
API size_t fake_blocks(int device) { return state().used[device].size(); }
// Another library of the tests may use the memory as its own.
API void fake_expose(int on) {
  std::lock_guard guard(mutex);
  Open open;
  state().exposed = on;
}
API void fake_delay(int on) {
  std::lock_guard guard(mutex);
  for (auto& [stream, owner] : state().streams) run_all_of(*stream);
  for (Stream& s : state().default_stream) run_all_of(s);
  state().delayed = on;
}
API int fake_advance(void* stream) {  // does one piece of work of a stream
  std::lock_guard guard(mutex);
  return run_one(stream_of(stream));
}
API size_t fake_waiting(void* stream) { return stream_of(stream).work.size(); }
API void fake_poke(uint64_t address, const void* bytes, size_t n) {
  std::lock_guard guard(mutex);
  Open open;
  std::memcpy(at<void>(address), bytes, n);
}
API void fake_peek(uint64_t address, void* bytes, size_t n) {
  std::lock_guard guard(mutex);
  Open open;
  std::memcpy(bytes, at<void>(address), n);
}

// --- devices ---------------------------------------------------------------------------------------------------------

API int cuInit(unsigned) { ENTER("cuInit"); return kSuccess; }
API int cuDriverGetVersion(int* v) { ENTER("cuDriverGetVersion"); *v = 12090; return kSuccess; }
API int cuGetErrorName(int code, const char** text) {
  *text = code == kNoMemory ? "CUDA_ERROR_OUT_OF_MEMORY" : code == 700 ? "CUDA_ERROR_ILLEGAL_ADDRESS" : "CUDA_ERROR_FAKE";
  return kSuccess;
}
API int cuGetErrorString(int code, const char** text) {
  *text = code == kNoMemory ? "out of memory" : code == 700 ? "an illegal memory access was encountered" : "made to fail";
  return kSuccess;
}
API int cuDeviceGetCount(int* n) { ENTER("cuDeviceGetCount"); *n = kDevices; return kSuccess; }
API int cuDeviceGet(int* d, int k) { ENTER("cuDeviceGet"); *d = k; return k < kDevices ? kSuccess : 101; }
API int cuDeviceGetName(char* name, int n, int d) {
  ENTER("cuDeviceGetName");
  std::snprintf(name, size_t(n), "emulated device %d", d);
  return kSuccess;
}
API int cuDeviceGetAttribute(int* v, int attribute, int) {
  ENTER("cuDeviceGetAttribute");
  const std::map<int, int> known = {{75, 9}, {76, 0}, {16, 132}, {10, 32}, {39, 2048}, {8, 49152}, {1, 1024},
                                    {97, 232448}, {81, 233472}, {82, 65536}, {38, 50 << 20}};
  auto found = known.find(attribute);
  *v = found == known.end() ? 0 : found->second;
  return kSuccess;
}
API int cuDeviceTotalMem_v2(size_t* n, int) { ENTER("cuDeviceTotalMem"); *n = size_t(1) << 30; return kSuccess; }
API int cuDeviceGetUuid_v2(unsigned char* u, int d) {
  ENTER("cuDeviceGetUuid");
  std::memset(u, d, 16);
  return kSuccess;
}
API int cuDeviceCanAccessPeer(int* can, int, int) { ENTER("cuDeviceCanAccessPeer"); *can = 1; return kSuccess; }
API int cuDevicePrimaryCtxRetain(void** c, int d) {
  ENTER("cuDevicePrimaryCtxRetain");
  *c = reinterpret_cast<void*>(uintptr_t(d) + 1);
  return kSuccess;
}
API int cuCtxSetCurrent(void* c) {
  ENTER("cuCtxSetCurrent");
  state().context = int(reinterpret_cast<uintptr_t>(c)) - 1;
  return kSuccess;
}
API int cuCtxSynchronize() {
  ENTER("cuCtxSynchronize");
  for (auto& [stream, owner] : state().streams) {
    if (int r = refuse_in_capture(*stream)) return r;
    run_all_of(*stream);
  }
  for (Stream& s : state().default_stream) run_all_of(s);
  return kSuccess;
}
API int cuCtxEnablePeerAccess(void*, unsigned) { ENTER("cuCtxEnablePeerAccess"); return kSuccess; }
API int cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  ENTER("cuCtxGetStreamPriorityRange");
  *least = 0, *greatest = -5;
  return kSuccess;
}

// --- memory ----------------------------------------------------------------------------------------------------------

API int cuMemAlloc_v2(uint64_t* address, size_t n) {
  ENTER("cuMemAlloc");
  State& s = state();
  if (s.open_captures && s.capture_mode != 2) return kUnsupportedInCapture;
  const int d = std::max(s.context, 0);
  if (s.in_use[d] + n > s.limit) return kNoMemory;
  size_t place = half(d), size = (n + 4095) / 4096 * 4096;
  for (auto [offset, bytes] : s.used[d]) {  // the first gap that is large enough
    if (offset - place >= size) break;
    place = offset + (bytes + 4095) / 4096 * 4096;
  }
  if (place + size > half(d) + kRegion / kDevices) return kNoMemory;
  s.used[d][place] = n;
  s.in_use[d] += n;
  reached[d] = std::max(reached[d], place + size - half(d));
  *address = reinterpret_cast<uint64_t>(s.region + place);
  return kSuccess;
}
API int cuMemFree_v2(uint64_t address) {
  ENTER("cuMemFree");
  State& s = state();
  const size_t offset = size_t(at<char>(address) - s.region);
  for (int d = 0; d < kDevices; ++d)
    if (auto found = s.used[d].find(offset); found != s.used[d].end()) {
      madvise(at<void>(address), (found->second + 4095) / 4096 * 4096, MADV_REMOVE);
      s.in_use[d] -= found->second;
      s.used[d].erase(found);
      return kSuccess;
    }
  return kInvalid;
}
API int cuMemGetInfo_v2(size_t* free, size_t* total) {
  ENTER("cuMemGetInfo");
  *total = size_t(1) << 30;
  *free = state().limit - state().in_use[std::max(state().context, 0)];
  return kSuccess;
}
API int cuMemHostAlloc(void** p, size_t n, unsigned) {
  ENTER("cuMemHostAlloc");
  *p = aligned_alloc(4096, (n + 4095) / 4096 * 4096);
  state().host[*p] = n;
  return kSuccess;
}
API int cuMemFreeHost(void* p) {
  ENTER("cuMemFreeHost");
  if (!state().host.erase(p)) return kInvalid;
  free(p);
  return kSuccess;
}
API int cuMemHostRegister_v2(void* p, size_t n, unsigned) {
  ENTER("cuMemHostRegister");
  if (is_pinned(p)) return 712;
  state().host[p] = n;
  return kSuccess;
}
API int cuMemHostUnregister(void* p) {
  ENTER("cuMemHostUnregister");
  return state().host.erase(p) ? kSuccess : 713;
}
API int cuPointerGetAttribute(void* v, int attribute, uint64_t address) {
  ENTER("cuPointerGetAttribute");
  if (!is_device(address) || attribute != 9) return kInvalid;
  *static_cast<int*>(v) = int(size_t(at<char>(address) - state().region) / (kRegion / kDevices));
  return kSuccess;
}
API int cuMemcpyHtoDAsync_v2(uint64_t to, const void* from, size_t n, void* stream) {
  ENTER("cuMemcpyHtoDAsync");
  if (!valid(to, n)) return kInvalid;
  if (is_pinned(from) || stream_of(stream).capture)
    return submit(stream, [=] { std::memcpy(at<void>(to), from, n); });
  auto staged = std::make_shared<std::vector<char>>(static_cast<const char*>(from), static_cast<const char*>(from) + n);
  return submit(stream, [=] { std::memcpy(at<void>(to), staged->data(), n); });
}
API int cuMemcpyDtoHAsync_v2(void* to, uint64_t from, size_t n, void* stream) {
  ENTER("cuMemcpyDtoHAsync");
  if (!valid(from, n)) return kInvalid;
  Stream& s = stream_of(stream);
  if (!is_pinned(to)) {
    if (int r = refuse_in_capture(s)) return r;
    run_all_of(s);
    Open open;
    std::memcpy(to, at<void>(from), n);
    return kSuccess;
  }
  return submit(stream, [=] { std::memcpy(to, at<void>(from), n); });
}
API int cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t n, void* stream) {
  ENTER("cuMemcpyDtoDAsync");
  if (!valid(to, n) || !valid(from, n)) return kInvalid;
  return submit(stream, [=] { std::memmove(at<void>(to), at<void>(from), n); });
}
API int cuMemcpyPeerAsync(uint64_t to, void*, uint64_t from, void*, size_t n, void* stream) {
  ENTER("cuMemcpyPeerAsync");
  if (!valid(to, n) || !valid(from, n)) return kInvalid;
  return submit(stream, [=] { std::memmove(at<void>(to), at<void>(from), n); });
}
template <class T>
static int set(uint64_t to, T value, size_t n, void* stream) {
  if (!valid(to, n * sizeof(T)) || to % sizeof(T)) return kInvalid;
  return submit(stream, [=] { std::fill_n(at<T>(to), n, value); });
}
API int cuMemsetD8Async(uint64_t to, unsigned char v, size_t n, void* s) { ENTER("cuMemsetD8Async"); return set(to, v, n, s); }
API int cuMemsetD16Async(uint64_t to, unsigned short v, size_t n, void* s) {
  ENTER("cuMemsetD16Async");
  return set(to, v, n, s);
}
API int cuMemsetD32Async(uint64_t to, unsigned v, size_t n, void* s) { ENTER("cuMemsetD32Async"); return set(to, v, n, s); }

// --- streams and events ----------------------------------------------------------------------------------------------

API int cuStreamCreateWithPriority(void** s, unsigned, int priority) {
  ENTER("cuStreamCreate");
  auto made = std::make_unique<Stream>();
  made->priority = priority;
  made->device = std::max(state().context, 0);
  *s = made.get();
  state().streams[made.get()] = std::move(made);
  return kSuccess;
}
API int cuStreamSynchronize(void* s) {
  ENTER("cuStreamSynchronize");
  if (int r = refuse_in_capture(stream_of(s))) return r;
  run_all_of(stream_of(s));
  return kSuccess;
}
API int cuStreamQuery(void* s) {
  ENTER("cuStreamQuery");
  if (int r = refuse_in_capture(stream_of(s))) return r;
  return stream_of(s).work.empty() ? kSuccess : kNotReady;
}
API int cuStreamWaitEvent(void* handle, void* event, unsigned external) {
  ENTER("cuStreamWaitEvent");
  Stream& s = stream_of(handle);
  auto& e = *static_cast<Event*>(event);
  if (external && !s.capture) return kInvalid;
  if (external) return kSuccess;
  if (e.capture && !s.capture) s.capture = e.capture;  // joins the capture
  if (s.capture) return kSuccess;
  if (state().delayed) s.work.push_back([happened = e.happened] { return *happened; });
  else if (e.mark >= 0)  // another process goes on meanwhile
    for (int k = 0; k < 10000 && !*static_cast<volatile bool*>(e.happened.get()); ++k) usleep(1000);
  return kSuccess;
}
API int cuStreamGetPriority(void* s, int* priority) {
  ENTER("cuStreamGetPriority");
  *priority = stream_of(s).priority;
  return kSuccess;
}
API int cuStreamIsCapturing(void* s, int* status) {
  ENTER("cuStreamIsCapturing");
  *status = stream_of(s).capture ? 1 : 0;
  return kSuccess;
}
API int cuStreamGetCaptureInfo_v2(void* s, int* status, unsigned long long* id, void**, void**, size_t*) {
  ENTER("cuStreamGetCaptureInfo");
  const auto& capture = stream_of(s).capture;
  *status = capture ? 1 : 0;
  *id = capture ? capture->id : 0;
  return kSuccess;
}
API int cuStreamBeginCapture_v2(void* handle, int mode) {
  ENTER("cuStreamBeginCapture");
  Stream& s = stream_of(handle);
  if (s.capture || !handle) return kInvalid;
  s.capture = std::make_shared<Graph>();
  s.capture->mode = mode;
  static unsigned long long captures = 0;
  s.capture->id = ++captures;
  s.origin = true;
  ++state().open_captures;
  return kSuccess;
}
API int cuStreamEndCapture(void* handle, void** graph) {
  Stream& s = stream_of(handle);
  std::lock_guard guard(mutex);
  if (!s.capture || !s.origin) return kInvalid;
  auto captured = s.capture;
  for (auto& [stream, owner] : state().streams)
    if (stream->capture == captured) stream->capture.reset();
  s.origin = false;
  --state().open_captures;
  if (int failure = enter("cuStreamEndCapture")) return failure;
  if (captured->broken) return kInvalidated;
  *graph = new Graph(*captured);
  return kSuccess;
}
API int cuThreadExchangeStreamCaptureMode(int* mode) {
  ENTER("cuThreadExchangeStreamCaptureMode");
  std::swap(*mode, state().capture_mode);
  return kSuccess;
}
API int cuEventCreate(void** e, unsigned flags) {
  ENTER("cuEventCreate");
  auto* made = new Event;
  made->timing = !(flags & 2);
  if (flags & 4) {
    made->mark = int(state().marks_used++ % kMarks);
    made->happened = std::shared_ptr<bool>(state().marks + made->mark, [](bool*) {});
    *made->happened = true;
  }
  *e = made;
  return kSuccess;
}
API int cuEventDestroy_v2(void* e) { ENTER("cuEventDestroy"); delete static_cast<Event*>(e); return kSuccess; }
API int cuEventRecord(void* event, void* handle) {
  ENTER("cuEventRecord");
  Stream& s = stream_of(handle);
  auto& e = *static_cast<Event*>(event);
  e.when = ++state().clock;
  e.capture = s.capture;
  if (s.capture) return kSuccess;
  if (e.mark < 0) e.happened = std::make_shared<bool>(s.work.empty());
  else *e.happened = s.work.empty();
  if (!s.work.empty())
    s.work.push_back([happened = e.happened] {
      *happened = true;
      return true;
    });
  return kSuccess;
}
// In recorded work: each launch of the graph marks the event anew.
API int cuEventRecordWithFlags(void* event, void* handle, unsigned flags) {
  ENTER("cuEventRecordWithFlags");
  Stream& s = stream_of(handle);
  if (flags != 1 || !s.capture) return kInvalid;
  s.capture->work.push_back([event] {
    auto& e = *static_cast<Event*>(event);
    e.when = ++state().clock;
    *e.happened = true;
  });
  return kSuccess;
}
API int cuEventQuery(void* e) {
  ENTER("cuEventQuery");
  return *static_cast<Event*>(e)->happened ? kSuccess : kNotReady;
}
API int cuEventSynchronize(void* event) {
  ENTER("cuEventSynchronize");
  for (int k = 0; k < 1000000 && !*static_cast<Event*>(event)->happened; ++k) run_others();
  return kSuccess;
}
API int cuEventElapsedTime(float* ms, void* a, void* b) {
  ENTER("cuEventElapsedTime");
  *ms = float(static_cast<Event*>(b)->when - static_cast<Event*>(a)->when);
  return static_cast<Event*>(a)->timing && static_cast<Event*>(b)->timing ? kSuccess : kInvalid;
}

// --- other processes -------------------------------------------------------------------------------------------------

namespace {

struct Handle {
  int32_t process = 0, file = 0, device = 0, mark = 0;
  uint64_t offset = 0, bytes = 0;
  char rest[32] = {};
};
static_assert(sizeof(Handle) == 64);
int opened_of(const Handle& h) {
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%d/fd/%d", h.process, h.file);
  return open(path, O_RDWR | O_CLOEXEC);
}

}  // namespace

API int cuIpcGetMemHandle(Handle* h, uint64_t address) {
  ENTER("cuIpcGetMemHandle");
  const size_t offset = size_t(at<char>(address) - state().region);
  for (int d = 0; d < kDevices; ++d)
    if (auto found = state().used[d].find(offset); found != state().used[d].end()) {
      *h = {getpid(), state().file, d, 0, offset, (found->second + 4095) / 4096 * 4096, {}};
      return state().foreign.contains(address) ? kInvalid : kSuccess;
    }
  return kInvalid;
}
// The other process's pages take the place of this process's, at a place that nothing uses.
API int cuIpcOpenMemHandle_v2(uint64_t* address, Handle h, unsigned flags) {
  ENTER("cuIpcOpenMemHandle");
  if (h.process == getpid() || flags != 1) return kInvalid;
  const int file = opened_of(h);
  if (file < 0) return kInvalid;
  const size_t limit = state().limit;
  state().limit = ~size_t(0) >> 1;
  const int context = std::exchange(state().context, h.device);
  const int failure = cuMemAlloc_v2(address, h.bytes);
  state().limit = limit;
  state().context = context;
  if (failure) return failure;
  void* p = mmap(at<void>(*address), h.bytes, PROT_NONE, MAP_SHARED | MAP_FIXED | MAP_NORESERVE, file, off_t(h.offset));
  close(file);
  state().in_use[h.device] -= h.bytes;
  state().foreign[*address] = h.bytes;
  return p == MAP_FAILED ? kInvalid : kSuccess;
}
API int cuIpcCloseMemHandle(uint64_t address) {
  ENTER("cuIpcCloseMemHandle");
  auto found = state().foreign.find(address);
  if (found == state().foreign.end()) return kInvalid;
  const size_t offset = size_t(at<char>(address) - state().region);
  mmap(at<void>(address), found->second, PROT_NONE, MAP_SHARED | MAP_FIXED | MAP_NORESERVE, state().file, off_t(offset));
  for (auto& used : state().used) used.erase(offset);
  state().foreign.erase(found);
  return kSuccess;
}
API int cuIpcGetEventHandle(Handle* h, void* event) {
  ENTER("cuIpcGetEventHandle");
  const int mark = static_cast<Event*>(event)->mark;
  *h = {getpid(), state().marks_file, 0, mark, 0, 0, {}};
  return mark < 0 ? kInvalid : kSuccess;
}
API int cuIpcOpenEventHandle(void** event, Handle h) {
  ENTER("cuIpcOpenEventHandle");
  const int file = opened_of(h);
  if (file < 0) return kInvalid;
  auto* made = new Event;
  bool* marks = map_marks(file);
  close(file);
  made->mark = h.mark;
  made->happened = std::shared_ptr<bool>(marks + h.mark, [marks](bool*) { munmap(marks, kMarks); });
  *event = made;
  return kSuccess;
}

// --- modules and launches --------------------------------------------------------------------------------------------

API int cuModuleLoadData(void** module, const void* image) {
  ENTER("cuModuleLoadData");
  auto* bytes = static_cast<const char*>(image);
  if (std::memcmp(bytes, "EMU0", 4)) return 200;
  bytes += 4;
  Elf64_Ehdr header;
  std::memcpy(&header, bytes, sizeof header);
  const size_t size = header.e_shoff + size_t(header.e_shentsize) * header.e_shnum;
  const int file = memfd_create("emulated", 0);
  if (write(file, bytes, size) != ssize_t(size)) return 200;
  auto made = std::make_unique<Module>();
  const std::string path = "/proc/self/fd/" + std::to_string(file);
  made->library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  // the file stays open: a library of the same path would be taken for this one
  if (!made->library) {
    std::fprintf(stderr, "%s\n", dlerror());
    return 200;
  }
  *module = made.release();
  return kSuccess;
}
API int cuModuleGetFunction(void** function, void* module, const char* name) {
  ENTER("cuModuleGetFunction");
  auto& m = *static_cast<Module*>(module);
  auto& f = m.functions[name];
  if (!f) {
    const std::string entry = std::string("emu_") + name, sizes = entry + "_sizes";
    void* found = dlsym(m.library, entry.c_str());
    if (!found) return 500;
    f = std::make_unique<Function>(Function{reinterpret_cast<Entry>(found),
                                            static_cast<const int*>(dlsym(m.library, sizes.c_str()))});
  }
  *function = f.get();
  return kSuccess;
}
API int cuFuncSetAttribute(void*, int, int) { ENTER("cuFuncSetAttribute"); return kSuccess; }
API int cuLaunchKernel(void* function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                       unsigned shared, void* stream, void** parameters, void**) {
  ENTER("cuLaunchKernel");
  if (!gx || !gy || !gz || !bx || !by || !bz || bx * by * bz > 1024) return kInvalid;
  if (!is_current(stream)) return kInvalidHandle;
  auto& f = *static_cast<Function*>(function);
  const std::vector<unsigned> grid = {gx, gy, gz}, block = {bx, by, bz};
  if (!f.sizes) {  // what the parameters are is known now only
    run_all_of(stream_of(stream));
    Open open;
    f.entry(grid.data(), block.data(), shared, parameters);
    return kSuccess;
  }
  std::vector<std::vector<char>> kept;
  for (const int* n = f.sizes; *n; ++n)
    kept.emplace_back(static_cast<char*>(parameters[kept.size()]), static_cast<char*>(parameters[kept.size()]) + *n);
  return submit(stream, [=, entry = f.entry]() mutable {
    std::vector<void*> places;
    for (auto& k : kept) places.push_back(k.data());
    entry(grid.data(), block.data(), shared, places.data());
  });
}

// --- graphs ----------------------------------------------------------------------------------------------------------

API int cuGraphInstantiateWithFlags(void** exec, void* graph, unsigned long long) {
  ENTER("cuGraphInstantiate");
  *exec = new Graph(*static_cast<Graph*>(graph));
  return kSuccess;
}
API int cuGraphLaunch(void* exec, void* stream) {
  ENTER("cuGraphLaunch");
  for (auto& f : static_cast<Graph*>(exec)->work) submit(stream, f);
  return kSuccess;
}
API int cuGraphGetNodes(void* graph, void**, size_t* n) {
  ENTER("cuGraphGetNodes");
  *n = static_cast<Graph*>(graph)->work.size();
  return kSuccess;
}
API int cuProfilerStart() {
  ENTER("cuProfilerStart");
  return kSuccess;
}
API int cuProfilerStop() {
  ENTER("cuProfilerStop");
  return kSuccess;
}
API int cuGraphDebugDotPrint(void* graph, const char* path, unsigned) {
  ENTER("cuGraphDebugDotPrint");
  FILE* f = std::fopen(path, "w");
  std::fprintf(f, "digraph { n [label=\"%zu nodes\"] }\n", static_cast<Graph*>(graph)->work.size());
  std::fclose(f);
  return kSuccess;
}
API int cuGraphDestroy(void* graph) { ENTER("cuGraphDestroy"); delete static_cast<Graph*>(graph); return kSuccess; }
API int cuGraphExecDestroy(void* exec) { ENTER("cuGraphExecDestroy"); delete static_cast<Graph*>(exec); return kSuccess; }
