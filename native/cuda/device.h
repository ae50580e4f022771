// CUDA devices of this process: which one a thread works on, their contexts and properties.
#pragma once
#include "../core/device.h"
#include "driver.h"

namespace flambeau::cuda {

struct Properties {
  std::string name;
  size_t memory = 0;  // bytes
  int major = 0, minor = 0, processors = 0, warp = 32, threads_per_processor = 0, shared_per_block = 0;
  int shared_per_processor = 0, registers_per_processor = 0, second_cache = 0, integrated = 0, several_boards = 0;
  int clock = 0, memory_clock = 0, memory_width = 0, bus = 0, slot = 0, domain = 0, most_threads_per_block = 0;
  int shared_per_block_asked = 0;  // the most a kernel can ask for
  unsigned char uuid[16] = {};
  bool emulated() const { return name.starts_with("emulated"); }
};

[[noreturn]] void no_such_device(int index);
// One device's index, for a device that may name none: the thread's current one then. Throws for one that is not there.
inline int index_of(Device d) {
  const int index = d.index < 0 ? tls.cuda_device : d.index;
  if (__builtin_expect(index >= driver().devices, 0)) no_such_device(index);
  return index;
}
void set_current_device(int index);
Context context_of(int index);    // retained when it is first wanted
bool initialized(int index);      // it has been
void enter_device(int index);
inline void use_device(int index) {  // makes the context the calling thread's
  driver();
  if (__builtin_expect(tls.cuda_context != index, 0)) enter_device(index);
}
const Properties& properties(int index);
void allow_peer(int device, int peer);  // lets `device` reach the memory of `peer`, where it can

inline Device device_at(int index) { return {DeviceType::CUDA, int8_t(index)}; }

// While one lives, another device is the thread's current one.
struct OnDevice {
  explicit OnDevice(int index);
  ~OnDevice();
  int before;
};

}  // namespace flambeau::cuda
