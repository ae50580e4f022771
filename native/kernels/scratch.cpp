#include "scratch.h"

#include <cstdlib>
#include <memory>

#include "../core/memory.h"
#include "../core/state.h"

namespace flambeau {
namespace {

struct Buffer {
  void* data = nullptr;
  size_t size = 0;
  ~Buffer() { std::free(data); }
};
struct Buffers {
  Buffer of[2][kScratchSlots];  // [1]: of a signal's handler, which runs in the middle of a kernel
};
thread_local std::unique_ptr<Buffers> buffers;  // (memory that each thread has from the start is scarce, see state.h)

}  // namespace

void* scratch_bytes(ScratchSlot slot, size_t nbytes) {
  if (!buffers) buffers = std::make_unique<Buffers>();
  Buffer& b = buffers->of[tls.running.in_handler][slot];
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
  if (!buffers) return;
  for (Buffer& b : buffers->of[tls.running.in_handler])
    if (b.size > (64 << 20)) {
      std::free(b.data);
      b.data = nullptr, b.size = 0;
    }
}

}  // namespace flambeau
