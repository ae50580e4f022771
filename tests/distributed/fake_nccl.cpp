// A libnccl for tests, without GPUs: ranks are processes, pointers are the host's, streams are threads with a queue.
//
// Between each two ranks is a channel in a shared file. Every call becomes transfers through channels and a last step;
// a group's transfers advance side by side, as they must where ranks send to each other first.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace {

constexpr int kSuccess = 0, kRemote = 6, kInvalid = 4, kInProgress = 7, kMost = 8;
constexpr size_t kRoom = 1 << 12;

struct Channel {
  std::atomic<uint64_t> written, read;
  char data[kRoom];
};
struct Meeting {
  std::atomic<int> here, size;
  std::atomic<int> trouble;  // a test sets it: what the communicators report
  Channel channels[kMost][kMost];
};

struct Transfer {
  bool send;
  int peer;
  char* data;
  uint64_t bytes, moved = 0;
};
struct Job {
  std::vector<Transfer> transfers;
  std::function<void()> then = [] {};
};

struct Stream {
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::pair<struct Comm*, std::vector<Job>>> queue;
  uint64_t put = 0, done = 0;
  void run();
};
struct Comm {
  Meeting* meeting;
  int rank, size;
  std::atomic<bool> aborted{false};
};

std::mutex streams_mutex;
std::map<void*, Stream*> streams;
thread_local int deep = 0;
thread_local std::map<void*, std::pair<Comm*, std::vector<Job>>> grouped;

Stream& stream_of(void* handle) {
  std::lock_guard<std::mutex> guard(streams_mutex);
  Stream*& found = streams[handle];
  if (!found) {
    found = new Stream;
    std::thread([found] { found->run(); }).detach();
  }
  return *found;
}

bool advance(Comm& c, Transfer& t) {
  const uint64_t before = t.moved;
  while (t.moved < t.bytes) {
    Channel& channel = t.send ? c.meeting->channels[c.rank][t.peer] : c.meeting->channels[t.peer][c.rank];
    const uint64_t written = channel.written.load(), read = channel.read.load();
    const uint64_t place = (t.send ? written : read) % kRoom;
    const uint64_t free = t.send ? kRoom - (written - read) : written - read;
    const uint64_t n = std::min({free, kRoom - place, t.bytes - t.moved});
    if (n == 0) break;
    if (t.send) std::memcpy(channel.data + place, t.data + t.moved, n), channel.written += n;
    else std::memcpy(t.data + t.moved, channel.data + place, n), channel.read += n;
    t.moved += n;
  }
  return t.moved > before;
}

// Of one channel and direction only the first that is not complete may move.
void carry_out(Comm& c, std::vector<Job>& jobs) {
  for (bool left = true; left && !c.aborted;) {
    left = false;
    bool moved = false, busy[2][kMost] = {};
    for (Job& job : jobs)
      for (Transfer& t : job.transfers) {
        if (t.moved == t.bytes) continue;
        left = true;
        if (std::exchange(busy[t.send][t.peer], true)) continue;
        moved |= advance(c, t);
      }
    if (left && !moved) usleep(50);
  }
  if (!c.aborted)
    for (Job& job : jobs) job.then();
}

void Stream::run() {
  for (;;) {
    std::unique_lock<std::mutex> lock(mutex);
    changed.wait(lock, [&] { return !queue.empty(); });
    auto [comm, jobs] = std::move(queue.front());
    queue.pop_front();
    lock.unlock();
    carry_out(*comm, jobs);
    lock.lock();
    ++done;
    changed.notify_all();
  }
}

int put(Comm* comm, void* handle, Job job) {
  if (deep) {
    grouped[handle].first = comm;
    grouped[handle].second.push_back(std::move(job));
    return kSuccess;
  }
  Stream& s = stream_of(handle);
  std::lock_guard<std::mutex> guard(s.mutex);
  s.queue.emplace_back(comm, std::vector<Job>{});
  s.queue.back().second.push_back(std::move(job));
  ++s.put;
  s.changed.notify_all();
  return kSuccess;
}

size_t size_of(int type) {
  const size_t sizes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};
  return type < 0 || type > 9 ? 0 : sizes[type];
}

template <class T>
T reduced(T a, T b, int op) {
  switch (op) {
    case 1: return T(a * b);
    case 2: return a < b ? b : a;
    case 3: return b < a ? b : a;
    default: return T(a + b);
  }
}
template <class T>
void reduce_as(char* out, const std::vector<char>& all, uint64_t count, int ranks, int op) {
  const T* parts = reinterpret_cast<const T*>(all.data());
  for (uint64_t k = 0; k < count; ++k) {
    T x = parts[k];
    for (int r = 1; r < ranks; ++r) x = reduced(x, parts[uint64_t(r) * count + k], op);
    reinterpret_cast<T*>(out)[k] = op == 4 ? T(x / T(ranks)) : x;
  }
}

float wide(uint16_t x, int type) {
  if (type == 9) {
    uint32_t bits = uint32_t(x) << 16;
    float f;
    std::memcpy(&f, &bits, 4);
    return f;
  }
  _Float16 h;
  std::memcpy(&h, &x, 2);
  return float(h);
}
void reduce_halves(char* out, const std::vector<char>& all, uint64_t count, int ranks, int op, int type) {
  const uint16_t* parts = reinterpret_cast<const uint16_t*>(all.data());
  for (uint64_t k = 0; k < count; ++k) {
    float x = wide(parts[k], type);
    for (int r = 1; r < ranks; ++r) x = reduced(x, wide(parts[uint64_t(r) * count + k], type), op);
    if (op == 4) x /= float(ranks);
    uint16_t bits;
    if (type == 9) {
      uint32_t b;
      std::memcpy(&b, &x, 4);
      bits = uint16_t((b + 0x7fff + (b >> 16 & 1)) >> 16);
    } else {
      _Float16 h = _Float16(x);
      std::memcpy(&bits, &h, 2);
    }
    reinterpret_cast<uint16_t*>(out)[k] = bits;
  }
}

void reduce(char* out, const std::vector<char>& all, uint64_t count, int type, int ranks, int op) {
  switch (type) {
    case 0: return reduce_as<int8_t>(out, all, count, ranks, op);
    case 1: return reduce_as<uint8_t>(out, all, count, ranks, op);
    case 2: return reduce_as<int32_t>(out, all, count, ranks, op);
    case 3: return reduce_as<uint32_t>(out, all, count, ranks, op);
    case 4: return reduce_as<int64_t>(out, all, count, ranks, op);
    case 5: return reduce_as<uint64_t>(out, all, count, ranks, op);
    case 7: return reduce_as<float>(out, all, count, ranks, op);
    case 8: return reduce_as<double>(out, all, count, ranks, op);
    default: return reduce_halves(out, all, count, ranks, op, type);
  }
}

char* bytes_at(const void* p) { return static_cast<char*>(const_cast<void*>(p)); }

// Rank `root` (-1: every rank) gets the reduction of what the ranks have; `offset(r)`: of which part for rank r.
template <class Offset>
Job reducing(Comm& c, const void* in, void* out, uint64_t count, int type, int op, int root, const Offset& offset) {
  const uint64_t bytes = count * size_of(type);
  Job job;
  for (int r = 0; r < c.size; ++r)
    if (root < 0 || r == root) job.transfers.push_back({true, r, bytes_at(in) + offset(r) * bytes, bytes});
  if (root >= 0 && c.rank != root) return job;
  auto all = std::make_shared<std::vector<char>>(bytes * uint64_t(c.size));
  for (int r = 0; r < c.size; ++r) job.transfers.push_back({false, r, all->data() + uint64_t(r) * bytes, bytes});
  const int size = c.size;
  job.then = [=] { reduce(bytes_at(out), *all, count, type, size, op); };
  return job;
}

}  // namespace

extern "C" {

int ncclGetVersion(int* version) { return *version = 21405, kSuccess; }
const char* ncclGetErrorString(int code) { return code == kRemote ? "remote process exited or there was a network error"
                                                                  : "an error of the fake"; }
const char* ncclGetLastError(void*) { return "the fake's last words"; }

int ncclGetUniqueId(void* id) {
  const char* folder = std::getenv("TMPDIR");
  std::string path = std::string(folder ? folder : "/tmp") + "/fake_nccl_XXXXXX";
  if (path.size() > 127) return kInvalid;
  const int file = mkstemp(path.data());
  if (file < 0 || ftruncate(file, sizeof(Meeting))) return kInvalid;
  close(file);
  std::memset(id, 0, 128);
  std::strcpy(static_cast<char*>(id), path.c_str());
  return kSuccess;
}

struct Id {
  char path[128];
};
struct Config {
  size_t size;
  unsigned magic, version;
  int blocking;
};

int ncclCommInitRankConfig(Comm** comm, int size, Id id, int rank, Config* config) {
  if (config->size != sizeof(Config) || config->magic != 0xcafebeef || config->blocking || size > kMost) return kInvalid;
  const int file = open(id.path, O_RDWR);
  if (file < 0) return kInvalid;
  void* memory = mmap(nullptr, sizeof(Meeting), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  *comm = new Comm{static_cast<Meeting*>(memory), rank, size};
  if (++(*comm)->meeting->here == size) unlink(id.path);
  return kInProgress;
}
int ncclCommGetAsyncError(Comm* comm, int* code) {
  if (comm->meeting->here < comm->size) *code = kInProgress;
  else *code = comm->meeting->trouble;
  return kSuccess;
}
int ncclCommAbort(Comm* comm) { return comm->aborted = true, kSuccess; }
int ncclCommFinalize(Comm*) { return kSuccess; }
int ncclCommDestroy(Comm*) { return kSuccess; }

int ncclGroupStart() { return ++deep, kSuccess; }
int ncclGroupEnd() {
  if (--deep) return kSuccess;
  for (auto& [handle, calls] : grouped) {
    Stream& s = stream_of(handle);
    std::lock_guard<std::mutex> guard(s.mutex);
    s.queue.emplace_back(calls.first, std::move(calls.second));
    ++s.put;
    s.changed.notify_all();
  }
  grouped.clear();
  return kSuccess;
}

int ncclAllReduce(const void* in, void* out, size_t count, int type, int op, Comm* c, void* stream) {
  return put(c, stream, reducing(*c, in, out, count, type, op, -1, [](int) { return uint64_t(0); }));
}
int ncclReduce(const void* in, void* out, size_t count, int type, int op, int root, Comm* c, void* stream) {
  return put(c, stream, reducing(*c, in, out, count, type, op, root, [](int) { return uint64_t(0); }));
}
int ncclReduceScatter(const void* in, void* out, size_t count, int type, int op, Comm* c, void* stream) {
  return put(c, stream, reducing(*c, in, out, count, type, op, -1, [](int r) { return uint64_t(r); }));
}
int ncclBroadcast(const void* in, void* out, size_t count, int type, int root, Comm* c, void* stream) {
  Job job;
  const uint64_t bytes = count * size_of(type);
  if (c->rank == root)
    for (int r = 0; r < c->size; ++r) job.transfers.push_back({true, r, bytes_at(in), bytes});
  // the root's own copy comes through a place of its own, since in and out may be one
  auto place = std::make_shared<std::vector<char>>(bytes);
  job.transfers.push_back({false, root, place->data(), bytes});
  job.then = [=] { std::memcpy(out, place->data(), bytes); };
  return put(c, stream, std::move(job));
}
int ncclAllGather(const void* in, void* out, size_t count, int type, Comm* c, void* stream) {
  Job job;
  const uint64_t bytes = count * size_of(type);
  for (int r = 0; r < c->size; ++r) job.transfers.push_back({true, r, bytes_at(in), bytes});
  for (int r = 0; r < c->size; ++r) job.transfers.push_back({false, r, bytes_at(out) + uint64_t(r) * bytes, bytes});
  return put(c, stream, std::move(job));
}
int ncclSend(const void* in, size_t count, int type, int peer, Comm* c, void* stream) {
  Job job;
  job.transfers.push_back({true, peer, bytes_at(in), count * size_of(type)});
  return put(c, stream, std::move(job));
}
int ncclRecv(void* out, size_t count, int type, int peer, Comm* c, void* stream) {
  Job job;
  job.transfers.push_back({false, peer, bytes_at(out), count * size_of(type)});
  return put(c, stream, std::move(job));
}

// --- for the tests ---------------------------------------------------------------------------------------------------

uint64_t fake_record(void* handle) {
  Stream& s = stream_of(handle);
  std::lock_guard<std::mutex> guard(s.mutex);
  return s.put;
}
int fake_done(void* handle, uint64_t number) {
  Stream& s = stream_of(handle);
  std::lock_guard<std::mutex> guard(s.mutex);
  return s.done >= number;
}
void fake_trouble(Comm* comm, int code) { comm->meeting->trouble = code; }

}  // extern "C"
