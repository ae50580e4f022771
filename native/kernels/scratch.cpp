#include "scratch.h"

#include <cstdlib>

#include "../core/memory.h"
#include "../core/state.h"

namespace flambeau {
namespace {

struct Buffer {
  void* data = nullptr;
  size_t size = 0;
  ~Buffer() { std::free(data); }
};
thread_local Buffer buffers[2][kScratchSlots];  // [1]: of a signal's handler, which runs in the middle of a kernel

}  // namespace

void* scratch_bytes(ScratchSlot slot, size_t nbytes) {
  Buffer& b = buffers[tls.running.in_handler][slot];
  if (b.size < nbytes) {
    std::free(b.data);
    b.size = 0;
    b.data = allocation_fails() ? nullptr : std::aligned_alloc(64, (nbytes + 4095) / 4096 * 4096);
    if (!b.data) fail(ErrorKind::OutOfMemory, "out of memory: ", nbytes, " bytes of scratch memory");
    b.size = nbytes;
  }
  return b.data;
}

void trim_scratch() {
  for (Buffer& b : buffers[tls.running.in_handler])
    if (b.size > (64 << 20)) {
      std::free(b.data);
      b.data = nullptr, b.size = 0;
    }
}

}  // namespace flambeau
