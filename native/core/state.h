// What is switched on and what is running: in the process, and in each thread.
//
// This is all the mutable state of native code, apart from memory that is kept for later (free lists, caches, scratch
// memory), tables that are filled while the library is loaded, and Python's own objects. Each of those stands beside
// the code that uses it, and tests/test_native_state.py lists them all. Neither a tensor nor a node holds anything of a
// pass or a call that runs.
#pragma once
#include <atomic>

#include "device.h"
#include "dtype.h"

// Thread-local, read in one instruction, with nothing to be initialised at run time. The place for such variables is
// taken from 1.6 KB that all libraries of a process share: whatever is large lies behind a pointer instead.
#define FLAMBEAU_TLS __attribute__((tls_model("initial-exec"))) constinit thread_local

namespace flambeau {

struct Calling;     // core/call.h
struct Recorder;    // core/recording.h
struct Region;      // core/parallel.cpp: one parallel loop while it runs
struct Node;
struct Pass;        // autograd/pass.h
struct Unpacked;    // bind/rules.cpp
struct ModuleCall;  // bind/origin.h

// Read and written under the interpreter lock, apart from the atomic one.
struct ProcessState {
  DType default_dtype = DType::Float32;
  std::atomic<int> threads{0};    // how many a large operation uses; 0: not asked yet
  unsigned fork_count = 0;        // how many forks lie between the first process and this one
  Calling* held_calls = nullptr;  // calls, of any thread, that have given the interpreter lock back
  uint64_t next_node = 1;         // the next graph node's number
  uint64_t passes = 0;            // backward passes so far
  bool anomaly_check = false;     // look for NaN in what rules return
  bool watch_creation = false;    // anomaly mode or a creation hook: tell of new nodes
  uint64_t library_switches = 0;  // what NVIDIA's libraries may do, as bits that backends/_switches.py knows
  std::atomic<int> float_parts{3};  // of a float32 in large products; 0: such numbers are multiplied as they are
  int profiling = 0;              // what a profiler wants to know (bind/profile.cpp); 0: none is on
};
inline constexpr int kMaxCudaDevices = 16;
extern constinit ProcessState process;

// What this thread does in loops and for signals (core/parallel.h).
struct Running {
  Region* region = nullptr;  // the loop this thread works for
  void** lock = nullptr;     // the interpreter's state, where the call of this thread has given the lock back
  int64_t next = 0;          // when to look for signals again, in nanoseconds
  int uninterrupted = 0;     // how many Uninterrupted live
  bool in_handler = false;   // a handler runs, in the middle of some kernel
};

struct ThreadState {
  // --- recording
  bool grad_enabled = true;
  bool inference_enabled = false;
  bool packing = false;           // saved-tensor hooks are active
  bool watch_writes = false;      // tell of every in-place write before it happens
  bool free_layout = false;       // a new .grad may be laid out as it came
  // --- what calls go through
  bool level_factories = false;   // the innermost transform level takes what is made from no tensor
  bool dispatch_disabled = false;
  bool overrides_disabled = false;
  int dispatch_modes = 0;         // TorchDispatchModes, transform levels and the recorder
  Recorder* recorder = nullptr;   // is offered every call
  int user_modes = 0;             // TorchDispatchModes alone
  int function_modes = 0;         // TorchFunctionModes
  int active_levels = 0;          // transform levels
  bool autocast_enabled = false;  // for any kind of device:
  uint8_t autocast_kinds = 0;     // 1: the CPU, 2: CUDA
  bool autocast_caches = true;    // weights are converted once
  DType autocast_dtype = DType::BFloat16;
  DType autocast_cuda_dtype = DType::Float16;
  Device default_device;          // of tensors that name none
  uint32_t lane = 0;              // which streams are current, on all devices (device_table.h)
  // --- CUDA
  int8_t cuda_device = 0;         // the current one
  int8_t cuda_context = -1;       // the device whose context the driver has as this thread's
  bool cuda_non_blocking = false; // the copy under way need not be over when it returns
  // --- the interpreter lock
  bool unlocked = false;          // given back by a call
  int lock_keepers = 0;           // how many KeepLock live
  uint32_t polls = 0;
  Running running;
  // --- what is under way
  Calling* call = nullptr;        // the innermost
  Pass* pass = nullptr;           // the innermost backward pass
  Unpacked* unpacked = nullptr;   // of the rule that runs
  ModuleCall* module = nullptr;   // the innermost
  bool destroying = false;        // a node; others that die meanwhile wait here, linked by their numbers:
  Node* waiting_nodes = nullptr;
  // --- Python objects
  void* saved_hooks = nullptr;           // list of (pack, unpack)
  void* saved_hooks_refused = nullptr;   // why no more may be added
  void* write_handler = nullptr;
};
extern FLAMBEAU_TLS ThreadState tls;
// Tells living threads apart.
inline const void* this_thread() { return &tls; }

}  // namespace flambeau
