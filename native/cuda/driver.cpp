#include "driver.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>

namespace flambeau::cuda {

constinit Driver* opened = nullptr;
constinit LastLaunches last_launches;

namespace {

constexpr const char* kLibrary = "libcuda.so.1";

// What this process knows of the driver; read and written under the interpreter lock.
struct Known {
  bool tried = false;
  Driver driver;
};
Known& state() {
  static Known* s = new Known;  // never destroyed: memory is given back until the very end
  return *s;
}

// The path of the library: FLAMBEAU_CUDA_DRIVER names another one, for tests.
const char* library_path() {
  const char* other = std::getenv("FLAMBEAU_CUDA_DRIVER");
  return other && *other ? other : kLibrary;
}

std::string open_library(Driver& d) {
  d.library = dlopen(library_path(), RTLD_NOW | RTLD_LOCAL);
  if (!d.library) return concat("the driver cannot be opened: ", dlerror());
  auto find = [&](const char* symbol) { return dlsym(d.library, symbol); };
  const char* missing = nullptr;
#define FLAMBEAU_CUDA_FIND(member, symbol, parameters)                 \
  d.member = reinterpret_cast<Result(*) parameters>(find(symbol));     \
  if (!d.member) missing = symbol;
  FLAMBEAU_CUDA_FUNCTIONS(FLAMBEAU_CUDA_FIND)
#undef FLAMBEAU_CUDA_FIND
  if (missing) return concat(library_path(), " has no ", missing, ": it is older than CUDA 12; update the driver");
  return {};
}

std::string start(Driver& d) {
  if (std::string reason = open_library(d); !reason.empty()) return reason;
  int count = 0;
  if (Result r = d.init(0); r != kSuccess) {
    const char* text = nullptr;
    return d.error_text(r, &text) == kSuccess && text ? text : concat("cuInit: error ", r);
  }
  if (Result r = d.device_count(&count); r != kSuccess || count == 0) return "the driver knows no device";
  d.devices = std::min(count, kMaxCudaDevices);
  const char* blocking = std::getenv("CUDA_LAUNCH_BLOCKING");
  d.blocking = blocking && *blocking && *blocking != '0';
  return {};
}

}  // namespace

bool available() {
  Known& s = state();
  if (!s.tried) {
    s.driver.why_not = start(s.driver);
    s.driver.forks = process.fork_count;
    s.tried = true;
    if (s.driver.devices > 0) opened = &s.driver;
  }
  return s.driver.devices > 0;
}

const std::string& why_unavailable() { return state().driver.why_not; }

const Driver& open_driver() {
  if (!available()) runtime_error("there is no CUDA device: ", why_unavailable());
  if (in_bad_fork())
    runtime_error("CUDA cannot be used in a process forked from one that uses it: start workers with "
                  "multiprocessing's \"spawn\" or \"forkserver\" method, or use CUDA after the fork only");
  return *opened;
}

std::string error_text(Result result) {
  const Driver& d = state().driver;
  const char *name = nullptr, *text = nullptr;
  if (!d.error_text || d.error_name(result, &name) != kSuccess || d.error_text(result, &text) != kSuccess)
    return concat("error ", result);
  return concat(text ? text : "?", " (", name ? name : "?", ")");
}

// Errors from 700 on leave the context unusable, and belong to work that was launched before.
void failed(Result result, const char* what) {
  std::string more;
  if (result >= 700 && result < 800 && result != kPeerAccessAlready) {
    constexpr unsigned kMost = LastLaunches::kMost;
    for (unsigned k = 0; k < kMost; ++k) {
      const char* name = last_launches.names[(last_launches.newest + kMost - k) % kMost];
      if (name) more += (more.empty() ? "; launched last, newest first: " : ", ") + std::string(name);
    }
    more += "; the device is of no use to this process any more. CUDA_LAUNCH_BLOCKING=1 in the environment shows at "
            "which operator it happens";
  }
  runtime_error(what, ": CUDA error: ", error_text(result), more);
}

}  // namespace flambeau::cuda
