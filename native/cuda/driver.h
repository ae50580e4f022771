// The CUDA driver, opened by name when it is first wanted: no header and no library of CUDA is needed to build this.
//
// The declarations are our own, of the few functions used; handles are opaque. Nothing here runs while the library is
// loaded. A forked child must not use its parent's driver: every door says so.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

#include "../core/error.h"
#include "../core/state.h"

namespace flambeau::cuda {

using Result = int;
using Address = unsigned long long;
struct ContextHandle;
struct StreamHandle;
struct EventHandle;
struct ModuleHandle;
struct FunctionHandle;
struct GraphHandle;
struct GraphExecHandle;
struct GraphNodeHandle;
using Context = ContextHandle*;
using Stream = StreamHandle*;  // null: the default stream
using Event = EventHandle*;
using Module = ModuleHandle*;
using Function = FunctionHandle*;
using Graph = GraphHandle*;
using GraphExec = GraphExecHandle*;
using GraphNode = GraphNodeHandle*;
// By which another process finds memory or an event.
struct IpcHandle {
  char bytes[64];
};

enum : Result {
  kSuccess = 0,
  kOutOfMemory = 2,
  kDeinitialized = 4,
  kNoDevice = 100,
  kNotReady = 600,
  kPeerAccessAlready = 704,
};

// (member, symbol, parameters). Symbols with a version are those of CUDA 12, which keep their meaning.
#define FLAMBEAU_CUDA_FUNCTIONS(X)                                                                                     \
  X(init, "cuInit", (unsigned flags))                                                                                  \
  X(version, "cuDriverGetVersion", (int* version))                                                                     \
  X(error_name, "cuGetErrorName", (Result error, const char** text))                                                   \
  X(error_text, "cuGetErrorString", (Result error, const char** text))                                                 \
  X(device_count, "cuDeviceGetCount", (int* count))                                                                    \
  X(device_get, "cuDeviceGet", (int* device, int ordinal))                                                             \
  X(device_name, "cuDeviceGetName", (char* name, int length, int device))                                              \
  X(device_attribute, "cuDeviceGetAttribute", (int* value, int attribute, int device))                                 \
  X(device_memory, "cuDeviceTotalMem_v2", (size_t* bytes, int device))                                                 \
  X(device_uuid, "cuDeviceGetUuid_v2", (unsigned char* uuid, int device))                                              \
  X(device_can_access, "cuDeviceCanAccessPeer", (int* can, int device, int peer))                                      \
  X(context_retain, "cuDevicePrimaryCtxRetain", (Context* context, int device))                                        \
  X(context_set, "cuCtxSetCurrent", (Context context))                                                                 \
  X(context_synchronize, "cuCtxSynchronize", ())                                                                       \
  X(context_enable_peer, "cuCtxEnablePeerAccess", (Context peer, unsigned flags))                                      \
  X(context_priorities, "cuCtxGetStreamPriorityRange", (int* least, int* greatest))                                    \
  X(memory_allocate, "cuMemAlloc_v2", (Address* address, size_t bytes))                                                \
  X(memory_free, "cuMemFree_v2", (Address address))                                                                    \
  X(memory_info, "cuMemGetInfo_v2", (size_t* free, size_t* total))                                                     \
  X(host_allocate, "cuMemHostAlloc", (void** address, size_t bytes, unsigned flags))                                   \
  X(host_free, "cuMemFreeHost", (void* address))                                                                       \
  X(host_register, "cuMemHostRegister_v2", (void* address, size_t bytes, unsigned flags))                              \
  X(host_unregister, "cuMemHostUnregister", (void* address))                                                           \
  X(pointer_attribute, "cuPointerGetAttribute", (void* value, int attribute, Address address))                         \
  X(copy_to_device, "cuMemcpyHtoDAsync_v2", (Address to, const void* from, size_t bytes, Stream stream))               \
  X(copy_to_host, "cuMemcpyDtoHAsync_v2", (void* to, Address from, size_t bytes, Stream stream))                       \
  X(copy_on_device, "cuMemcpyDtoDAsync_v2", (Address to, Address from, size_t bytes, Stream stream))                   \
  X(copy_to_peer, "cuMemcpyPeerAsync",                                                                                 \
    (Address to, Context to_context, Address from, Context from_context, size_t bytes, Stream stream))                 \
  X(fill8, "cuMemsetD8Async", (Address to, unsigned char value, size_t count, Stream stream))                          \
  X(fill16, "cuMemsetD16Async", (Address to, unsigned short value, size_t count, Stream stream))                       \
  X(fill32, "cuMemsetD32Async", (Address to, unsigned value, size_t count, Stream stream))                             \
  X(stream_create, "cuStreamCreateWithPriority", (Stream* stream, unsigned flags, int priority))                       \
  X(stream_synchronize, "cuStreamSynchronize", (Stream stream))                                                        \
  X(stream_query, "cuStreamQuery", (Stream stream))                                                                    \
  X(stream_wait, "cuStreamWaitEvent", (Stream stream, Event event, unsigned flags))                                    \
  X(stream_priority, "cuStreamGetPriority", (Stream stream, int* priority))                                            \
  X(stream_capturing, "cuStreamIsCapturing", (Stream stream, int* status))                                             \
  X(capture_info, "cuStreamGetCaptureInfo_v2",                                                                         \
    (Stream stream, int* status, unsigned long long* id, void** graph, void** nodes, size_t* count))                   \
  X(capture_begin, "cuStreamBeginCapture_v2", (Stream stream, int mode))                                               \
  X(capture_end, "cuStreamEndCapture", (Stream stream, Graph* graph))                                                  \
  X(capture_mode, "cuThreadExchangeStreamCaptureMode", (int* mode))                                                    \
  X(event_create, "cuEventCreate", (Event* event, unsigned flags))                                                     \
  X(event_destroy, "cuEventDestroy_v2", (Event event))                                                                 \
  X(event_record, "cuEventRecord", (Event event, Stream stream))                                                       \
  X(event_record_outside, "cuEventRecordWithFlags", (Event event, Stream stream, unsigned flags))                      \
  X(event_query, "cuEventQuery", (Event event))                                                                        \
  X(event_synchronize, "cuEventSynchronize", (Event event))                                                            \
  X(event_elapsed, "cuEventElapsedTime", (float* milliseconds, Event start, Event end))                                \
  X(ipc_memory, "cuIpcGetMemHandle", (IpcHandle* handle, Address address))                                             \
  X(ipc_open_memory, "cuIpcOpenMemHandle_v2", (Address* address, IpcHandle handle, unsigned flags))                    \
  X(ipc_close_memory, "cuIpcCloseMemHandle", (Address address))                                                        \
  X(ipc_event, "cuIpcGetEventHandle", (IpcHandle* handle, Event event))                                                \
  X(ipc_open_event, "cuIpcOpenEventHandle", (Event* event, IpcHandle handle))                                          \
  X(module_load, "cuModuleLoadData", (Module* module, const void* image))                                              \
  X(module_function, "cuModuleGetFunction", (Function* function, Module module, const char* name))                     \
  X(function_set, "cuFuncSetAttribute", (Function function, int attribute, int value))                                 \
  X(launch, "cuLaunchKernel",                                                                                          \
    (Function function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,         \
     unsigned block_z, unsigned shared, Stream stream, void** parameters, void** extra))                               \
  X(graph_instantiate, "cuGraphInstantiateWithFlags", (GraphExec* exec, Graph graph, unsigned long long flags))        \
  X(graph_launch, "cuGraphLaunch", (GraphExec exec, Stream stream))                                                    \
  X(graph_nodes, "cuGraphGetNodes", (Graph graph, GraphNode* nodes, size_t* count))                                    \
  X(graph_print, "cuGraphDebugDotPrint", (Graph graph, const char* path, unsigned flags))                              \
  X(graph_destroy, "cuGraphDestroy", (Graph graph))                                                                    \
  X(exec_destroy, "cuGraphExecDestroy", (GraphExec exec))                                                              \
  X(profiler_start, "cuProfilerStart", ())                                                                             \
  X(profiler_stop, "cuProfilerStop", ())

struct Driver {
#define FLAMBEAU_CUDA_MEMBER(member, symbol, parameters) Result(*member) parameters = nullptr;
  FLAMBEAU_CUDA_FUNCTIONS(FLAMBEAU_CUDA_MEMBER)
#undef FLAMBEAU_CUDA_MEMBER
  void* library = nullptr;
  int devices = 0;         // 0: the driver is there, a device is not
  unsigned forks = 0;      // process.fork_count when it was opened
  bool blocking = false;   // each operator waits for its own kernels, so that a fault shows where it belongs
  std::string why_not;     // what failed, where there are no devices
};

// Whether there is a driver with a device, which this process may use; opens the driver. Never throws.
bool available();
const std::string& why_unavailable();
// The driver with its devices, once this process or the one it was forked from has opened it; null before.
extern constinit Driver* opened;
// It was the parent that opened it: nothing can be done here.
inline bool in_bad_fork() { return opened && opened->forks != process.fork_count; }
[[gnu::cold]] const Driver& open_driver();
// The open driver; throws where there is none, and in a forked child of a process that uses it.
inline const Driver& driver() {
  return __builtin_expect(opened && opened->forks == process.fork_count, 1) ? *opened : open_driver();
}

// Throws where `result` is an error: "`what`: CUDA error …", with the driver's words.
[[noreturn]] void failed(Result result, const char* what);
inline void check(Result result, const char* what) {
  if (__builtin_expect(result != kSuccess, 0)) failed(result, what);
}
std::string error_text(Result result);
// For failures that the device reports later than they happened: the operators that were launched last.
struct LastLaunches {
  static constexpr unsigned kMost = 8;
  const char* names[kMost] = {};
  unsigned newest = 0;
};
extern constinit LastLaunches last_launches;  // under the interpreter lock
inline void note_launch(const char* name) {
  last_launches.newest = (last_launches.newest + 1) % LastLaunches::kMost;
  last_launches.names[last_launches.newest] = name;
}

}  // namespace flambeau::cuda
